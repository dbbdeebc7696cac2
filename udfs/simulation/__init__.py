"""The cluster replayed: what controller and replicas do over time, folded from events."""
