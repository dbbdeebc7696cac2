"""How long an execution has not gone on, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class PauseTimer:
    """Measures a pause. announce: called with each new reason, and with an empty one when the pause is over."""

    clock: Callable[[], float]
    limit_s: float
    announce: Callable[[str], None] = lambda _: None
    _began: float | None = None
    _reason: str = ""

    def is_too_long(self, reason: str) -> bool:
        """Note why the execution does not go on, or with an empty reason that it does; return if that is too long."""
        if reason != self._reason:
            self._reason = reason
            self.announce(reason)
        if not reason:
            self._began = None
            return False
        now = self.clock()
        if self._began is None:
            self._began = now
        return now - self._began > self.limit_s
