"""A scenario that a person writes: a cluster, and sentences of what happens to it. The grammar is in docs/replay.md."""
