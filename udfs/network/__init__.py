"""What the network carries: bytes of producers, replication and consumers, by broker and between zones.

client_zones -> traffic_rows. docs/network.md has the formulas.
"""
