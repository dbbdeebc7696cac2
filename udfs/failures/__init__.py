"""What each failure does to a cluster under each scheme: partitions and topics in, rows of gold tables out.

Partitions become arrays (partition_groups), kernels add them up shard by shard (aggregates, shards), and the sums
become outcomes (failure_outcomes) and rows (failure_rows, headroom, broker_loads, ...). `what-if` takes the same way.
"""
