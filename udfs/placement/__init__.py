"""Kafka's placement schemes, applied to batches of topics."""
