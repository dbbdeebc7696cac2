"""Pauses between two looks at a cluster: short at first, as most changes end soon, and longer while one lasts."""

from __future__ import annotations

from collections.abc import Iterator


def growing_pauses(first_s: float, longest_s: float) -> Iterator[float]:
    """Yield pauses without end, in seconds: each twice as long as the one before, up to the longest."""
    pause_s = min(first_s, longest_s)
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, longest_s)
