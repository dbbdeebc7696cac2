"""From the facts of all of a cluster's sources to one statement per partition, topic and broker.

`resolve` works on any shard of a cluster that holds whole topics, so that Spark can spread the work and a command
without Spark can call it once; `brokers` then needs the cluster as a whole.
"""
