"""What each failure does to a cluster under each scheme: partitions and topics in, rows of gold tables out.

partition_groups -> aggregates, arrow_functions -> failure_outcomes -> failure_rows, broker_loads. So does `what-if`.
"""
