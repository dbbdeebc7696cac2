"""Scans text as bytes: what Kafka's tools print, without a Python object per line."""
