"""`kafka-placement assign`: requests in, Kafka's placements out; no Spark."""
