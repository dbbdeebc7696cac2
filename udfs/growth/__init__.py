"""Growth of loads over the history of snapshots: robust slopes with intervals, and days until limits."""
