"""What each failure does to each scheme: partitions and topics in, sums by broker, and tables out of the sums.

groups.py    partitions, or topics and a scheme -> the kernels' arrays
scenarios.py which brokers fail together
sums.py      what one pass over partitions adds up, and how parts of a cluster come together
failures.py  held.py  durability.py  seeds.py  capacity.py    the sums -> rows of gold tables
"""
