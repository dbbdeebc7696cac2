"""Consumer groups: coordinators, members and rebalances over time."""
