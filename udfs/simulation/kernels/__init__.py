"""State machines of partitions, brokers, logs and groups over flat arrays."""
