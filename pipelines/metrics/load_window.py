"""The time whose rates count, and its steps: one rule for what a server is asked and for what files have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipelines.config.metrics_settings import print_window
from pipelines.errors import SourceError
from pipelines.quantities import format_duration

P95 = 0.95
SAME = 1e-9  # parts of a step that are no difference
_STEPS = 20  # with fewer, the p95 is the peak
_SCRAPES = 4  # that a window has at least
_JITTER = 1.05  # scrapes are not quite as far apart as they should be


@dataclass(frozen=True)
class Window:
    """A window of time and its steps, over which single rates are computed.

    A step needs the sample before it. So the first step begins one scrape after the window, and rates of steps are of
    nothing outside it. A step is shorter than step_s if the window has few of them, but not shorter than scrape_s.
    """

    end_s: float  # since 1970
    length_s: float
    step_s: float  # the longest step
    scrape_s: float | None = None  # between two scrapes; None = unknown: a step has four

    @property
    def length(self) -> str:
        """The window, as a query names it."""
        return f"[{self.length_s:.0f}s]"

    @property
    def _known_scrape_s(self) -> float:
        return min(self.step_s, self.length_s) / _SCRAPES if self.scrape_s is None else self.scrape_s

    @property
    def margin_ms(self) -> int:
        """Milliseconds before a step in which the sample before it is."""
        return max(round(1_000 * self._known_scrape_s * _JITTER), 1)

    @property
    def _usable_ms(self) -> int:
        return max(round(1_000 * self.length_s) - self.margin_ms, self.margin_ms)

    @property
    def steps(self) -> int:
        """The number of steps."""
        seconds = self._usable_ms / 1_000
        most = math.floor(seconds / self._known_scrape_s + SAME)
        return max(1, min(most, max(_STEPS, math.ceil(seconds / self.step_s - SAME))))

    @property
    def step_ms(self) -> int:
        """The milliseconds of a step; the last one ends with the window."""
        return self._usable_ms // self.steps

    @property
    def p95_rank(self) -> float:
        """The quantile that is the rate of a step: the lowest that is not exceeded in 95 % of the steps."""
        return (math.ceil(P95 * self.steps - SAME) - 1) / max(self.steps - 1, 1)

    def check(self, place: str, observed_s: float = math.inf) -> None:
        """Raise SourceError if the window has too few scrapes. observed_s: of all samples, also before the window."""
        shortest = round(min(_SCRAPES * (self.scrape_s or 0), observed_s))
        if self.length_s < shortest:
            between = format_duration(self.scrape_s or 0)
            problem = f"the window of {print_window(round(self.length_s))} is too short for scrapes every {between}"
            raise SourceError(place, problem, f"Choose --window {print_window(shortest)} or longer")
