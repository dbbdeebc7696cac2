"""Random cases: a part of them in every run, others each time; all of them in `make test-soak`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

SEED, SOAK = "TEST_SEED", "TEST_SOAK"  # variables of the environment, which the workers inherit
# One of so many random cases is tried: more of those that find more faults or take less time.
THIRTIETH, TWENTIETH, TENTH, SIXTH = 30, 20, 10, 6
T = TypeVar("T")


def count_cases(cases: int) -> int:
    """Return how many of the cases of a test run: a sixth of them, or all in `make test-soak`."""
    return cases if os.environ.get(SOAK) else -(-cases // SIXTH)


def sample_cases(cases: list[T], test: str) -> list[T]:
    """Return a sixth of some cases, others for each test and in every run; all of them in `make test-soak`."""
    return Random(f"{os.environ[SEED]} {test}").sample(cases, count_cases(len(cases)))


def sample_some(cases: Sequence[T], count: int, test: str) -> list[T]:
    """Return `count` expensive cases, others in every run; all of them in `make test-soak`."""
    return list(cases) if os.environ.get(SOAK) else Random(f"{os.environ[SEED]} {test}").sample(cases, count)


@dataclass(frozen=True)
class SeedSampler:
    """Chooses seeds.

    Attributes:
        first: Where the seeds of this run begin.
        all_seeds: Whether every sequence is tried.
    """

    first: int
    all_seeds: bool

    def seeds(self, sequences: int, fraction: int = THIRTIETH) -> range:
        """Return the seeds of sequences: 0, 1, ... if all are tried, else one of `fraction`, others in each run."""
        first = 0 if self.all_seeds else 1_000_000 * self.first
        return range(first, first + (sequences if self.all_seeds else max(sequences // fraction, 1)))

    def __str__(self) -> str:
        option = "--soak" if self.all_seeds else f"TEST_SEED={self.first}"
        return f"To repeat these random sequences: {option}"
