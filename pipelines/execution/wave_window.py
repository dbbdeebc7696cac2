"""Which waves an execution may begin: those that the user chooses, as long as they end in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from udfs.wording import estimate_duration, format_bytes


@dataclass(frozen=True)
class WaveRange:
    """Waves from the first to the last, from 1; last: None = the last of the plan."""

    first: int = 1
    last: int | None = None

    def __contains__(self, wave: int) -> bool:
        """Return whether a wave is one of them."""
        return self.first <= wave and (self.last is None or wave <= self.last)

    def describe_needs(self) -> str:
        """Describe what needs something, as in `waves 1-2 need`."""
        if self.last is None:
            return "the rest of the plan needs"
        return f"wave {self} needs" if self.first == self.last else f"waves {self} need"

    def __str__(self) -> str:
        """Write the waves as `--waves` takes them."""
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last or ''}"


ALL_WAVES = WaveRange()


@dataclass(frozen=True)
class WaveWindow:
    """The waves of one night, and when it ends: no wave is begun that would take longer. Times have a zone."""

    waves: WaveRange = ALL_WAVES
    until: datetime | None = None

    def explain_lateness(self, wave: int, seconds: float | None, rate: int | None) -> str:
        """Say why a wave is not begun, if it would end too late now. seconds: its estimate at the throttle, rate."""
        if self.until is None or seconds is None:
            return ""
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        if end <= self.until:
            return ""
        speed = "" if rate is None else f" at {format_bytes(rate)}/s"
        return (
            f"wave {wave} is not begun: it takes {estimate_duration(seconds)}{speed}, and would end at "
            f"{self.format(end)}, after {self.format(self.until)}"
        )

    def format(self, moment: datetime) -> str:
        """Write a moment as local time, with seconds if the end has some, or is less than a minute away."""
        has_seconds = self.until is not None and (
            bool(self.until.second) or 0 < abs((self.until - moment).total_seconds()) < 60
        )
        return f"{moment.astimezone():%Y-%m-%d %H:%M{':%S' if has_seconds else ''}}"


def describe_waves(waves: Sequence[int]) -> str:
    """Name waves that follow each other, as in `wave 3` or `waves 3-5`."""
    return f"wave{'' if len(waves) == 1 else 's'} {WaveRange(min(waves), max(waves))}"
