"""Loads of topics and brokers from metrics: Prometheus, its text and JSON, and CSV."""
