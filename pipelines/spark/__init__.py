"""Spark and Delta: the session, the tables, the views."""
