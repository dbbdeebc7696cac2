"""Seeds of random sequences: a tenth of them in every run, all of them in `make test-soak`."""

from __future__ import annotations

from dataclasses import dataclass

FRACTION = 10


@dataclass(frozen=True)
class SeedSampler:
    """Chooses seeds.

    Attributes:
        first: Where the seeds of this run begin.
        all_seeds: Whether every sequence is tried.
    """

    first: int
    all_seeds: bool

    def size(self, sequences: int) -> int:
        """Return how many of some sequences are tried."""
        return sequences if self.all_seeds else max(sequences // FRACTION, 1)

    def seeds(self, sequences: int) -> range:
        """Return the seeds of sequences: 0, 1, ... if all are tried, otherwise others in every run."""
        first = 0 if self.all_seeds else 1_000_000 * self.first
        return range(first, first + self.size(sequences))

    def __str__(self) -> str:
        option = "--soak" if self.all_seeds else f"TEST_SEED={self.first}"
        return f"To repeat these random sequences: {option}"
