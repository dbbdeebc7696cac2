"""What people and tools write in the state column of a broker list."""

_LIVE = frozenset({"UP", "LIVE", "ALIVE", "ONLINE", "RUNNING", "ACTIVE", "AKTIV", "STARTED", "HEALTHY", "TRUE", "YES"})
_DOWN = frozenset({"DOWN", "DEAD", "OFFLINE", "STOPPED", "FAILED", "CRASHED", "TERMINATED", "FALSE", "NO"})


def is_live_state(state: str) -> bool | None:
    """Return whether a broker in this state is live or down; None if the state means neither, as in maintenance."""
    word = state.strip().upper()
    return True if word in _LIVE else False if word in _DOWN else None
