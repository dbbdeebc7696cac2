"""Sources of a replay: snapshots, metadata logs and scenarios; and the replay itself."""
