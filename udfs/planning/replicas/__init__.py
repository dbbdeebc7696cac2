"""Plans that move replicas: even counts, few copysets, heavy partitions."""
