"""Random sequences: a few in every run, all of them in `make soak`."""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 10


@dataclass(frozen=True)
class Sampled:
    """first: where the seeds of this run begin.   whole: whether every sequence is wanted."""

    first: int
    whole: bool

    def size(self, whole: int) -> int:
        """How many of `whole` sequences are tried."""
        return whole if self.whole else max(whole // SHARE, 1)

    def seeds(self, whole: int) -> range:
        """The seeds of these: 0, 1, ... where all are tried, else others in every run."""
        first = 0 if self.whole else 1_000_000 * self.first
        return range(first, first + self.size(whole))

    def __str__(self) -> str:
        again = "--soak" if self.whole else f"TEST_SEED={self.first}"
        return f"The same random sequences again: {again}"
