"""Merges the facts of all of a cluster's sources into one statement per partition, topic and broker.

`merge_facts` works on any shard of a cluster that has whole topics: Spark spreads the work, and a command without Spark
calls it once. `infer_brokers` and `infer_state` then need the brokers of the whole cluster.
"""
