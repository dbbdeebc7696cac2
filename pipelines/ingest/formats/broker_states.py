"""What people and tools write in the state column of a broker list."""

_LIVE = frozenset({"up", "live", "alive", "online", "running", "active", "aktiv", "started", "healthy"})
_DOWN = frozenset({"down", "dead", "offline", "stopped", "failed", "crashed", "terminated"})


def is_live_state(state: str) -> bool | None:
    """Return whether a broker in this state is live or down; None if the state means neither, as in maintenance."""
    word = state.strip().lower()
    return True if word in _LIVE else False if word in _DOWN else None
