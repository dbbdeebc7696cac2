"""How unevenly leaders and replicas lie on brokers, now and over many seeds."""
