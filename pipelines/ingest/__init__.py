"""From what Kafka's tools print to one snapshot of a cluster: frame -> parse -> resolve, all without Spark."""
