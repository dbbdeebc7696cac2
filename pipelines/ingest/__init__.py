"""Reads what Kafka's tools print into one snapshot of a cluster, without Spark: records -> facts -> merged entities."""
