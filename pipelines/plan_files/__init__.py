"""A plan as files that Kafka's own tools take, and whether such a plan still fits its cluster."""
