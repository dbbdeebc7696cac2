"""Placement planners compared on the same clusters: `make bench-planners`."""
