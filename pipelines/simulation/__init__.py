"""What a replay reads: a snapshot to begin with, a controller's log, a scenario."""
