"""What each failure does to a cluster under each scheme: partitions and topics in, rows of gold tables out.

partition_arrays -> partition_sums, arrow_functions -> failure_outcomes -> failure_rows. `what-if` does the same.
"""
