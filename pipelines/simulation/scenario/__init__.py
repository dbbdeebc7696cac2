"""Scenarios: a cluster, and sentences about what happens to it, in YAML. The grammar is in docs/replay.md."""
