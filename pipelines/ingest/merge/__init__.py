"""Merges the facts of all of a cluster's sources into one statement per partition, topic and broker."""
