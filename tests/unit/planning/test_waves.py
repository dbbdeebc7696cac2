"""Waves of a plan: limits hold in each of them, and every intermediate list is legal."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seed_sampler import count_cases
from tests.unit.planning.plan_models import model_with, models_and_proposals, proposal_with
from udfs.arrow.ragged import offsets_of
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.kernels import wave_steps
from udfs.planning.waves import IN, OUT, WaveLimits, Waves, find_reassigned_partitions, report_waves, split_into_waves

LIMITS = st.builds(
    WaveLimits,
    st.sampled_from([1.0, 50.0, 100.0, 230.0, np.inf]),
    st.sampled_from([1, 2, 5, 2**63 - 1]),
    st.sampled_from([1.0, 50e6]),
)


def at(offsets: np.ndarray, flat: np.ndarray, i: int) -> list[int]:
    return flat[offsets[i] : offsets[i + 1]].tolist()


def of_row(
    model: ClusterModel, proposal: ProposedAssignment, waves: Waves, row: int
) -> tuple[list[list[int]], list[int]]:
    """(the lists of a partition from before to the last step, the waves of the steps)."""
    steps = np.flatnonzero(waves.row == row).tolist()
    lists = [at(model.offsets, model.replicas, row), *(at(waves.offsets, waves.replicas, k) for k in steps)]
    return lists, waves.wave[steps].tolist()


@given(models_and_proposals(), LIMITS)
@settings(max_examples=count_cases(150))
def test_every_step_is_legal_and_the_last_is_the_proposal(
    case: tuple[ClusterModel, ProposedAssignment], limits: WaveLimits
) -> None:
    model, proposal = case
    waves = split_into_waves(model, proposal, limits)
    assert set(waves.row.tolist()) == set(np.flatnonzero(find_reassigned_partitions(model, proposal)).tolist())
    for row in set(waves.row.tolist()):
        lists, when = of_row(model, proposal, waves, row)
        new = at(proposal.offsets, proposal.replicas, row)
        if model.live[new].all():  # no step names a down broker, as Kafka's tool would reject it
            lists[0] = [b for b in lists[0] if model.live[b]]
        old = lists[0]
        assert lists[-1] == new
        assert when == sorted(set(when))
        adds = len(set(new) - set(old))
        assert len(when) == max(1, adds)
        if not adds:
            assert when == [0]
        racks = {rack: max(sum(model.rack[b] == rack for b in one) for one in (old, new)) for rack in model.rack}
        source = set(waves.source[waves.row == row].tolist())
        assert len(source) == 1
        for earlier, later in pairwise(lists):
            assert len(set(later)) == len(later)
            assert min(len(old), len(new)) <= len(later) <= max(len(old), len(new))
            assert len(set(later) - set(earlier)) <= 1
            assert set(later) <= set(old) | set(new)
            assert set(later) >= set(old) & set(new)
            assert all(sum(model.rack[b] == rack for b in later) <= most for rack, most in racks.items())
        for later in lists[1:-1]:
            assert {later[0]} == source


def is_kept_out(waves: Waves, step: int, size: int, load: Counter[int], moves: Counter[int]) -> bool:
    """Whether the limit that deferred the step keeps it out of the wave before. load, moves: of that wave's brokers."""
    limits, broker = waves.limits, int(waves.deferring_broker[step])
    match int(waves.deferral[step]):
        case wave_steps.BY_BYTES:
            return size <= limits.bytes_in_flight < load[broker] + size
        case wave_steps.BY_MOVES:
            return moves[broker] == limits.moves_per_broker
        case wave_steps.BY_ORDER:
            before = (waves.row == waves.row[step]) & (waves.wave == waves.wave[step] - 1)
            return broker == -1 and bool(before.any())
        case wave_steps.BY_SIZE:
            return size > limits.bytes_in_flight and broker in load
    return False


@given(models_and_proposals(), LIMITS)
@settings(max_examples=count_cases(150))
def test_limits_hold_in_every_wave(case: tuple[ClusterModel, ProposedAssignment], limits: WaveLimits) -> None:
    model, proposal = case
    waves = split_into_waves(model, proposal, limits)
    reports = report_waves(model, waves)
    assert [report.wave for report in reports] == list(range(1, waves.waves + 1))
    for wave, report in enumerate(reports):
        sent, received, moves, copies = (
            Counter[int](),
            Counter[int](),
            Counter[int](),
            defaultdict[int, list[int]](list),
        )
        steps = np.flatnonzero(waves.wave == wave).tolist()
        for k in steps:
            to, by, row = int(waves.added[k]), int(waves.source[k]), int(waves.row[k])
            if to < 0:
                continue
            assert to not in at(model.offsets, model.replicas, row)
            assert by in at(model.offsets, model.replicas, row)
            received[to] += int(model.size[row])
            sent[by] += int(model.size[row])
            moves[to] += 1
            for broker in (to, by):
                copies[broker].append(row)
        assert max(moves.values(), default=0) <= limits.moves_per_broker
        for broker, rows in copies.items():
            if sent[broker] + received[broker] > limits.bytes_in_flight:
                assert len(rows) == 1
                assert rows[0] in waves.oversized.tolist()
        load = sent.copy()
        load.update(received)  # unlike +, keeps brokers whose copies have 0 bytes
        for k in np.flatnonzero(waves.wave == wave + 1).tolist():
            assert is_kept_out(waves, k, size := int(model.size[waves.row[k]]), load, moves), (wave, size)
        next_steps = int((waves.wave == wave + 1).sum())
        assert sum(closure.copies for closure in report.closed_by) == next_steps
        busiest = max([*sent.values(), *received.values()], default=0)
        added = sum(moves.values())
        total = sum(received.values())
        assert (report.partitions, report.replicas_added, report.bytes_to_copy) == (len(steps), added, total)
        assert report.busiest_bytes == busiest
        assert report.seconds == round(busiest / limits.throttle_bytes_per_s, 1)
    assert all(model.size[waves.oversized] > limits.bytes_in_flight)


@given(models_and_proposals(), LIMITS)
@settings(max_examples=count_cases(30))
def test_waves_are_reproducible(case: tuple[ClusterModel, ProposedAssignment], limits: WaveLimits) -> None:
    first, again = split_into_waves(*case, limits), split_into_waves(*case, limits)
    for name in ("wave", "row", "offsets", "replicas", "added", "source", "oversized"):
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes()


def test_steps_without_copies_come_first() -> None:
    lists = {("t", 0): [1, 2, 3], ("t", 1): [1, 2, 3], ("t", 2): [1, 2]}
    model = model_with(lists, [1, 2, 3, 4], sizes=[10, 10, 10])
    waves = split_into_waves(
        model, proposal_with(model, {("t", 0): [3, 2, 1], ("t", 1): [2], ("t", 2): [4, 2]}), WaveLimits()
    )
    assert waves.wave.tolist() == [0, 0, 0]
    assert waves.added.tolist() == [-1, -1, 3]
    (report,) = report_waves(model, waves)
    assert (report.partitions, report.replicas_added, report.bytes_to_copy) == (3, 1, 10)
    assert (report.busiest_broker, report.busiest_direction, report.busiest_bytes) == (4, IN, 10)


def test_one_replica_at_a_time_while_the_leader_stays() -> None:
    model = model_with({("t", 0): [1, 2, 3]}, range(1, 7), racks=list("abcabc"), sizes=[100])
    waves = split_into_waves(model, proposal_with(model, {("t", 0): [4, 5, 6]}), WaveLimits(throttle_bytes_per_s=10))
    lists = [model.ids(at(waves.offsets, waves.replicas, k)) for k in range(3)]
    assert lists == [[1, 5, 3], [1, 5, 6], [4, 5, 6]]
    assert waves.wave.tolist() == [0, 1, 2]
    assert model.ids(waves.source) == [1, 1, 1]
    assert [report.seconds for report in report_waves(model, waves)] == [10, 10, 10]


def test_lists_grow_before_replicas_leave_and_shrink_last() -> None:
    model = model_with({("t", 0): [1, 2], ("t", 1): [1, 2, 3, 4]}, range(1, 8))
    waves = split_into_waves(model, proposal_with(model, {("t", 0): [5, 6, 1], ("t", 1): [6, 5]}), WaveLimits())
    lists = [(int(waves.row[k]), model.ids(at(waves.offsets, waves.replicas, k))) for k in range(4)]
    assert lists == [(0, [1, 2, 5]), (1, [1, 6, 3, 4]), (0, [5, 6, 1]), (1, [6, 5])]


def test_down_replicas_leave_first() -> None:
    model = model_with({("t", 0): [9, 1, 2]}, [1, 2, 3, 4, 9], down=[9])
    waves = split_into_waves(model, proposal_with(model, {("t", 0): [1, 3, 4]}), WaveLimits())
    assert model.ids(at(waves.offsets, waves.replicas, 0)) == [1, 2, 3]


def test_oversized_partition_moves_alone_and_is_named() -> None:
    lists = {("t", i): [1, 2] for i in range(3)}
    model = model_with(lists, [1, 2, 3], sizes=[500, 40, 40])
    waves = split_into_waves(
        model, proposal_with(model, {("t", i): [1, 3] for i in range(3)}), WaveLimits(bytes_in_flight=100)
    )
    assert waves.row.tolist() == [0, 1, 2]
    assert waves.wave.tolist() == [0, 1, 1]
    assert [model.name(row) for row in waves.oversized.tolist()] == ["t-0"]


@pytest.mark.parametrize(
    ("out_of_sync", "order"),
    [
        ([], [0, 1, 2, 3]),  # the largest first
        ([4, 6, 8], [3, 2, 1, 0]),  # the fewest left first, small ones before large ones
        ([4, 5, 6, 8], [3, 1, 0, 2]),  # t-2 has no leader to copy from
    ],
)
def test_partitions_with_the_fewest_in_sync_replicas_left_go_first(out_of_sync: list[int], order: list[int]) -> None:
    lists = {("t", 0): [1, 2], ("t", 1): [1, 2, 5], ("t", 2): [1, 2], ("t", 3): [1, 2]}
    model = model_with(lists, range(1, 6), sizes=[90, 80, 60, 30])
    model = replace(model, in_sync=~np.isin(np.arange(9), out_of_sync))
    moved = proposal_with(model, {("t", 0): [1, 3], ("t", 1): [1, 2, 3], ("t", 2): [1, 3], ("t", 3): [1, 3]})
    assert split_into_waves(model, moved, WaveLimits(moves_per_broker=1)).row.tolist() == order


@pytest.mark.parametrize(
    ("sizes", "first_wave"),
    [
        ([40, 70, 30, 50], [1, 2, 3]),  # small first: 0, 2, 3, and 150 bytes instead of 140
        ([60, 50, 40, 10], [1, 2, 3]),  # 150 bytes in any order; large first: 0, 2, 3
    ],
)
def test_small_partitions_go_first_unless_all_take_over_5_percent_longer(
    sizes: list[int], first_wave: list[int]
) -> None:
    lists = {("t", row): [source, 5] for row, source in enumerate((2, 2, 1, 1))}
    model = replace(model_with(lists, range(1, 6), sizes=sizes), in_sync=np.tile([True, False], 4))
    moved = {("t", row): [lists["t", row][0], broker] for row, broker in enumerate((4, 4, 4, 3))}
    waves = split_into_waves(model, proposal_with(model, moved), WaveLimits(bytes_in_flight=100))
    assert waves.row[waves.wave == 0].tolist() == first_wave


def test_replicas_on_down_brokers_are_not_in_sync() -> None:
    model = model_with({("t", 0): [1, 2], ("t", 1): [1, 9]}, [1, 2, 3, 9], sizes=[90, 30], down=[9])
    moved = proposal_with(model, {("t", 0): [1, 3], ("t", 1): [1, 3]})
    for in_sync in (None, np.ones(4, dtype=np.bool_)):
        split = split_into_waves(replace(model, in_sync=in_sync), moved, WaveLimits(bytes_in_flight=100))
        assert split.row.tolist() == [1, 0]


def test_a_wave_names_the_limit_that_closed_it() -> None:
    lists = {("t", i): [1, 2] for i in range(4)}
    model = model_with(lists, [1, 2, 3, 4, 5], sizes=[40, 40, 40, 40])
    to_three = proposal_with(model, {("t", i): [1, 3] for i in range(4)})

    def closures(proposal: ProposedAssignment, limits: WaveLimits) -> list[list[tuple[str, int, int, int | None]]]:
        reports = report_waves(model, split_into_waves(model, proposal, limits))
        return [[(c.limit, c.copies, c.brokers, c.broker) for c in report.closed_by] for report in reports]

    full = [("wave_bytes_per_broker", 2, 1, 3)]
    assert closures(to_three, WaveLimits(bytes_in_flight=80)) == [full, []]
    assert closures(to_three, WaveLimits(moves_per_broker=3)) == [[("wave_moves_per_broker", 1, 1, 3)], []]
    assert closures(to_three, WaveLimits(bytes_in_flight=30))[0] == [("larger_than_wave_bytes_per_broker", 1, 1, 3)]
    assert closures(to_three, WaveLimits()) == [[]]
    both = proposal_with(model, {("t", 0): [4, 5]})
    assert closures(both, WaveLimits()) == [[("one_replica_at_a_time", 1, 0, None)], []]


def test_current_leader_is_the_source_of_copies() -> None:
    model = model_with({("t", 0): [1, 2]}, [1, 2, 3], leaders=[2])
    waves = split_into_waves(model, proposal_with(model, {("t", 0): [1, 3]}), WaveLimits())
    assert model.ids(waves.source) == [2]
    (report,) = report_waves(model, waves)
    assert report.busiest_direction in (IN, OUT)


def test_list_that_differs_only_in_the_order_of_down_brokers_stays() -> None:
    model = model_with({("t", 0): [9, 1], ("t", 1): [9, 2]}, [1, 2, 9], down=[9])
    proposal = proposal_with(model, {("t", 0): [9, 1]})  # as the source has it
    assert not find_reassigned_partitions(model, proposal).any()
    assert split_into_waves(model, proposal, WaveLimits()).waves == 0
    assert report_waves(model, split_into_waves(model, proposal, WaveLimits())) == []


def test_few_waves_for_a_drain() -> None:
    """6,000 partitions leave one of 61 brokers: 100 a broker, 10 at a time, are 10 waves."""
    n, p = 60, 6000
    old = np.stack([np.full(p, n), np.arange(p) % n], axis=1).astype(np.int32)
    new = np.stack([(np.arange(p) + 7) % n, np.arange(p) % n], axis=1).astype(np.int32)
    base = model_with({("t", i): [0, 1] for i in range(p)}, range(n + 1), sizes=[float(i) for i in range(p)])
    model = base.with_lists(offsets_of(np.full(p, 2)), old.ravel())
    proposal = ProposedAssignment(model.offsets, new.ravel(), np.zeros(p, dtype=np.int16), ("drained",))
    assert split_into_waves(model, proposal, WaveLimits(moves_per_broker=10)).waves == 10


@pytest.mark.parametrize("name", ["bytes_in_flight", "moves_per_broker", "throttle_bytes_per_s"])
def test_limit_of_zero_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0, but must be more than 0"):
        WaveLimits(**{name: 0})


@pytest.mark.parametrize(
    ("rejects", "new", "steps"),
    [(True, [4, 5, 3], [[2, 3, 4], [4, 5, 3]]), (True, [4], [[4]]), (False, [4, 5, 3], [[1, 4, 3], [4, 5, 3]])],
)
def test_a_cordoned_leader_that_leaves_is_in_no_list(rejects: bool, new: list[int], steps: list[list[int]]) -> None:
    """Kafka 4.4 rejects every list that names it."""
    model = model_with({("t", 0): [1, 2, 3]}, range(1, 6))
    model = replace(model, cordoned=model.broker_ids == 1, rejects_cordoned=rejects)
    proposal = proposal_with(model, {("t", 0): new})
    lists, _ = of_row(model, proposal, split_into_waves(model, proposal, WaveLimits(1e9, 1, 1e6)), 0)
    assert [model.ids(np.array(one)) for one in lists[1:]] == steps
