"""`kafka-placement assign`: placement requests in, Kafka's assignments out, without Spark."""
