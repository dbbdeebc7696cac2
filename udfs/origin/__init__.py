"""Which placement scheme could have placed each topic of a cluster."""
