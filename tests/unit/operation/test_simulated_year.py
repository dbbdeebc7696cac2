"""A simulated year: nothing that was not approved is carried out, nothing outside of its window, no two at once."""

from collections import Counter
from pathlib import Path

import pytest

from pipelines.operation.proposals import ProposalState
from tests.seed_sampler import sample_some
from tests.unit.operation.simulated_year import BEGIN, live_through

_ENDS = set(ProposalState) - {ProposalState.PROPOSED, ProposalState.APPROVED, ProposalState.EXECUTING}


@pytest.mark.parametrize("seed", sample_some(range(1000), 20, "simulated years"))
def test_a_year_of_nights(tmp_path: Path, seed: int) -> None:
    year, records = live_through(tmp_path, seed)
    assert year.crashes > 10
    states = Counter(record.state for record in records)
    assert states[ProposalState.EXECUTED] > 5
    waves = Counter(year.waves)
    assert max(waves.values()) == 1, "a wave was carried out twice"
    for record in records:
        changes = [change.state for change in record.history]
        assert changes[0] is ProposalState.PROPOSED
        assert sum(state in _ENDS for state in changes) <= 1
        assert not any(state in _ENDS for state in changes[:-1]), "a proposal changes after its end"
        assert [change.at for change in record.history] == sorted(change.at for change in record.history)
    open_ones = Counter(record.proposal.goal for record in records if record.is_open)
    assert all(count == 1 for count in open_ones.values()), "two open proposals for one goal"
    began = {record.proposal.id for record in records if record.state is ProposalState.EXECUTED}
    carried_out = {proposal for proposal, _ in year.waves}
    assert began <= carried_out
    assert all(record.proposal.created_at >= BEGIN for record in records)


def test_all_ends_are_reached(tmp_path: Path) -> None:
    reached: set[ProposalState] = set()
    for seed in range(100, 104):
        _, records = live_through(tmp_path / str(seed), seed)
        reached |= {record.state for record in records}
    assert reached >= _ENDS
