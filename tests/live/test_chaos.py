"""Random events on a running cluster end as predicted, and its metadata log shows what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.chaos import run_chaos
from tests.seed_sampler import SeedSampler, sample_some

pytestmark = [pytest.mark.slow, pytest.mark.live]

_EVENTS, _FEW = 70, 6


@pytest.mark.parametrize("release", sample_some(["kafka_4_2", "kafka_4_3", "kafka_4_4"], 1, "chaos"))
def test_events_end_as_predicted(release: str, seed_sampler: SeedSampler, tmp_path: Path) -> None:
    events = _EVENTS if seed_sampler.all_seeds else _FEW
    assert run_chaos(tmp_path, release, events, seed_sampler.first).compared
