"""A sixth of 2,000 cases of the fuzzer, other ones in every run; `make soak` runs more. To repeat one: TEST_SEED=..."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.__main__ import format_failure
from tests.fuzz.workers import run_cases
from tests.seed_sampler import count_cases

CASES = count_cases(2_000)


@pytest.mark.slow
def test_no_case_breaks_a_rule() -> None:
    seed = int(os.environ["TEST_SEED"])
    summary = run_cases(seed, range(CASES), jobs=1)
    failures = [format_failure(seed, failure) for failure in summary.failures]
    assert failures == [], f"repeat one with: python -m tests.fuzz --replay {seed}:INDEX"
    assert summary.cases == CASES
    assert summary.errors < CASES / 2, "most cases should reach the readers"
