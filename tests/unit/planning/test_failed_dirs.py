"""Repairs of what failed log dirs of live brokers have taken offline, and the other goals beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.plan_files.kafka_json import find_irreversible
from udfs.planning.cluster_model import ClusterModel, FreezeReason, build_model
from udfs.planning.constraints import InfeasibleRequest
from udfs.planning.elections import NO_LEADER, find_current_leaders, find_last_copies
from udfs.planning.plan_making import REASON, freeze_partitions, make_plan
from udfs.planning.plan_request import PlanRequest
from udfs.planning.waves import WaveLimits, split_into_waves

_INTS = pa.list_(pa.int32())
_LISTS = ("replicas", "isr", "offline_replicas", "adding_replicas", "removing_replicas")
_COLUMNS = [("topic", pa.string()), ("partition", pa.int32()), ("leader", pa.int32())]
_COLUMNS += [(name, _INTS) for name in _LISTS]
_COLUMNS += [("size_bytes", pa.int64()), ("bytes_in_per_s", pa.float64()), ("bytes_out_per_s", pa.float64())]
REPAIR = PlanRequest(goal="repair")


def model_of(
    brokers: int, rows: Sequence[tuple[list[int], list[int]]], down: Sequence[int] = (), racks: int = 0
) -> ClusterModel:
    """Make a cluster of one topic from (replicas, offline ones) of each partition; the others are in sync."""
    ids = list(range(1, brokers + 1))
    table = {
        "broker_id": pa.array(ids, pa.int32()),
        "rack": pa.array([f"r{id_ % racks}" if racks else None for id_ in ids], pa.string()),
        "live": [id_ not in down for id_ in ids],
        "draining": [False] * brokers,
    }
    partitions = []
    for partition, (replicas, offline) in enumerate(rows):
        isr = [id_ for id_ in replicas if id_ not in offline and id_ not in down]
        lists = {"replicas": replicas, "isr": isr or offline[:1], "offline_replicas": offline}
        row = {"topic": "t", "partition": partition, "leader": isr[0] if isr else -1, **lists}
        partitions.append({**row, "adding_replicas": [], "removing_replicas": [], "size_bytes": 10})
    topics = pa.table(
        {
            "topic": ["t"],
            "marked_for_deletion": [False],
            "min_insync_replicas": pa.array([1], pa.int32()),
            "replication_factor": pa.nulls(1, pa.int32()),
        }
    )
    return build_model("c", pa.table(table), pa.Table.from_pylist(partitions, pa.schema(_COLUMNS)), topics)


def lists_after(model: ClusterModel, request: PlanRequest = REPAIR) -> list[list[int]]:
    proposal = make_plan(model, request)
    return [model.ids(part) for part in np.split(proposal.replicas, proposal.offsets[1:-1])]


def test_exactly_the_lost_replicas_move() -> None:
    rows = [([1, 2, 3], [1]), ([1, 2, 3], []), ([2, 1, 4], [1]), ([3, 4, 1], [])]
    model = model_of(4, rows)
    after = lists_after(model)
    assert [set(one) for one in after] == [{2, 3, 4}, {1, 2, 3}, {2, 3, 4}, {1, 3, 4}]
    assert after[1] == [1, 2, 3]  # that broker 1 lost another log dir changes nothing here
    proposal = make_plan(model, REPAIR)
    assert {proposal.reasons[code] for code in proposal.reason if code >= 0} == {REASON}
    assert proposal.certificate.moves == 2


def test_brokers_with_failed_log_dirs_help_where_others_do_not_suffice() -> None:
    """Both of the other brokers have lost a log dir, and each takes what the other has lost."""
    after = lists_after(model_of(4, [([1, 2, 3], [1]), ([4, 2, 3], [4])]))
    assert [set(one) for one in after] == [{2, 3, 4}, {1, 2, 3}]


def test_a_broker_never_gets_back_what_it_has_lost() -> None:
    with pytest.raises(InfeasibleRequest, match="a log dir of broker 1 failed, and a broker gets back"):
        make_plan(model_of(3, [([1, 2, 3], [1])]), REPAIR)


def test_down_brokers_and_failed_log_dirs_together() -> None:
    after = lists_after(model_of(6, [([1, 2, 3], [1]), ([2, 6, 1], [])], down=[6]))
    assert {1, 6}.isdisjoint(after[0])
    assert {2, 1} < set(after[1])
    assert 6 not in after[1]


def test_no_step_names_a_lost_replica() -> None:
    """Kafka ends no reassignment to a list with a replica in a failed log dir."""
    model = model_of(7, [([1, 2, 3], [1]), ([1, 2, 6], [1]), ([2, 6, 1], [])], down=[2])
    proposal = make_plan(model, REPAIR)
    waves = split_into_waves(model, proposal, WaveLimits())
    lost = {0: {1, 2}, 1: {1, 2}, 2: {2}}
    steps = np.split(waves.replicas, waves.offsets[1:-1])
    assert {int(row) for row in waves.row} == {0, 1, 2}
    for row, replicas in zip(waves.row.tolist(), steps, strict=True):
        assert lost[row].isdisjoint(model.ids(replicas))


def test_what_only_the_failed_disk_has_stays() -> None:
    model = model_of(3, [([1], [1]), ([1, 2], [1])])
    assert model.frozen.tolist() == [FreezeReason.OFFLINE, FreezeReason.FREE]
    assert lists_after(model) == [[1], [2, 3]]


def test_a_partition_whose_last_replica_is_in_a_failed_log_dir_is_led_by_nobody_and_stays() -> None:
    """Its list begins with a broker that is down, and has one that is live, but lost the log."""
    model = model_of(5, [([5, 2], [2]), *[([1, 3], [])] * 6], down=[5])
    assert find_current_leaders(model).tolist()[:2] == [NO_LEADER, 0]
    for request in (PlanRequest("balance"), PlanRequest("rf", factor=1), PlanRequest("drain", brokers=(1,))):
        assert lists_after(freeze_partitions(model, request), request)[0] == [5, 2]
    # To drop it would lose the last copy, which may be on the disk still.
    assert find_last_copies(model, model).tolist() == [False, True, *[False] * 12]


def test_fewer_replicas_are_not_those_in_failed_log_dirs() -> None:
    """Broker 1 leads, 3 lags in its rack, and 2 has lost its log dir in the other one, where broker 4 gets a copy."""
    model = model_of(4, [([1, 2, 3], [2]), *[([2, 4], [])] * 4], racks=2)
    model = replace(model, in_sync=model.is_usable & ~((model.row == 0) & (model.replicas == 2)))
    request = PlanRequest("rf", factor=2)
    assert lists_after(freeze_partitions(model, request), request)[0] == [1, 4]


def test_no_rollback_restores_what_was_in_a_failed_log_dir() -> None:
    model = model_of(4, [([1, 2, 3], [1]), ([1, 2, 3], [])])
    assert find_irreversible(model, make_plan(model, REPAIR)).tolist() == [0]


def test_other_goals_leave_partitions_in_failed_log_dirs_alone() -> None:
    model = model_of(4, [([1, 2, 3], [1]), ([2, 3, 4], [])])
    frozen = freeze_partitions(model, PlanRequest(goal="balance")).frozen
    assert frozen.tolist() == [FreezeReason.FAILED_DIR, FreezeReason.FREE]
    drained = freeze_partitions(model, PlanRequest(goal="drain", brokers=(1,)))
    assert (drained.frozen == FreezeReason.FREE).all()
    assert 1 not in lists_after(model, PlanRequest(goal="drain", brokers=(1,)))[0]


@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_random_repairs(seed: int, racks: int) -> None:
    """Every lost replica leaves, none comes back, and no other list changes."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(12):
        replicas = (1 + random.permutation(7)[:3]).tolist()
        offline = [id_ for id_ in replicas[1:] if id_ in (1, 2) and random.random() < 0.5][:1]
        rows.append((replicas, offline))
    model = model_of(7, rows, racks=racks)
    for (replicas, offline), after in zip(rows, lists_after(model), strict=True):
        assert set(offline).isdisjoint(after)
        assert len({*after}) == 3
        if not offline and not racks:
            assert after == replicas
        assert set(replicas) - set(offline) <= set(after) or racks
