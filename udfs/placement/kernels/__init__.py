"""Kafka's placement algorithms over flat arrays, bit for bit."""
