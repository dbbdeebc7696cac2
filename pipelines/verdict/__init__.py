"""What people read first: whether a cluster is healthy and can lose a broker or a rack, and what to do next."""
