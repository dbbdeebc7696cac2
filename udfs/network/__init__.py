"""What the network carries: bytes of producers, replication and consumers, by broker and between zones.

client_zones -> traffic_sums -> traffic_rows, cross_zone_traffic. docs/network.md has the formulas.
"""
