"""The state of partitions and brokers while the waves of a plan repair them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.planning.small_clusters import cluster, clusters, lists_of
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import InfeasibleRequest
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest
from udfs.planning.planned_waves import NEVER, PlannedWaves, find_lagging_brokers, measure_wave_health, plan_waves
from udfs.planning.waves import WaveLimits

ONE_COPY = WaveLimits(moves_per_broker=1)


def execute(model: ClusterModel, request: PlanRequest) -> PlannedWaves:
    return plan_waves(model, make_plan(model, request), ONE_COPY)


def with_isr(model: ClusterModel, min_isr: int, lagging: tuple[tuple[int, int], ...] = ()) -> ClusterModel:
    """Give all partitions min.insync.replicas; live replicas are in sync, except (partition, broker) of `lagging`."""
    pairs = list(zip(model.row.tolist(), model.replicas.tolist(), strict=True))
    in_sync = model.live[model.replicas] & np.array([pair not in lagging for pair in pairs], dtype=np.bool_)
    return replace(model, topic_min_isr=np.full(model.partitions, min_isr, dtype=np.int32), in_sync=in_sync)


def test_a_repair_frees_brokers_wave_by_wave() -> None:
    """Broker 3 is down, and only broker 2 can take over its replicas, one in each wave."""
    model = with_isr(cluster([[0, 1, 3], [0, 1, 3], [0, 1, 2]], 4, down=[3]), 2)
    health = measure_wave_health(execute(model, PlanRequest("repair")))
    assert health.under_replicated.tolist() == [2, 1, 0]
    assert health.under_min_isr.tolist() == [0, 0, 0]
    assert health.at_min_isr.tolist() == [2, 1, 0]
    assert health.blocked_by_restart.tolist() == [[2, 2, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert health.find_restart_waves().tolist() == [2, 2, 0, 0]


def test_a_lagging_replica_keeps_brokers_from_a_restart() -> None:
    model = with_isr(cluster([[0, 1, 3], [0, 1, 2]], 4, down=[3]), 2, lagging=((1, 2),))
    health = measure_wave_health(execute(model, PlanRequest("repair")))
    assert health.under_replicated.tolist() == [2, 1]
    assert health.find_restart_waves().tolist() == [NEVER, NEVER, 0, 0]
    assert health.incomplete_at_end.tolist() == [1, 1, 0, 0]
    execution = execute(model, PlanRequest("repair"))
    assert find_lagging_brokers(model).tolist() == [2]
    caught_up = measure_wave_health(execution, catch_up=True)
    assert caught_up.under_replicated.tolist() == [1, 0]
    assert caught_up.find_restart_waves().tolist() == [1, 1, 0, 0]


def test_a_partial_repair_leaves_brokers_blocked_by_the_one_that_is_down() -> None:
    """Only the first partition is below min.insync.replicas."""
    model = with_isr(cluster([[0, 1, 3], [0, 1, 3]], 4, down=[3]), 2, lagging=((0, 1),))
    execution = execute(model, PlanRequest("repair", under_min_isr_partitions=True))
    caught_up = measure_wave_health(execution, catch_up=True)
    assert caught_up.find_restart_waves().tolist() == [NEVER, NEVER, 0, 0]
    assert caught_up.incomplete_at_end.tolist() == [1, 1, 0, 0]
    health = measure_wave_health(execution)
    assert health.one_in_sync.tolist() == [1, 0]


def test_replicas_of_an_offline_partition_do_not_catch_up() -> None:
    """Only broker 3, which is down, is in sync in the first partition; min.insync.replicas needs both of the last."""
    model = with_isr(cluster([[3, 0, 1], [0, 1]], 4, down=[3]), 2, lagging=((0, 0), (0, 1)))
    assert find_lagging_brokers(model).tolist() == []
    caught_up = measure_wave_health(execute(model, PlanRequest("repair")), catch_up=True)
    assert caught_up.blocked_by_restart[-1].tolist() == [1, 1, 0, 0]
    assert caught_up.incomplete_at_end.tolist() == [0, 0, 0, 0]


def test_what_does_not_count() -> None:
    """Not: partitions with one replica, without a leader, or of topics whose problems do not count."""
    model = with_isr(cluster([[0], [3], [0, 3], [1, 3]], 4, down=[3], topics=[0, 0, 0, 1]), 1)
    model = replace(model, counted_topics=np.array([True, False]))
    health = measure_wave_health(execute(model, PlanRequest("repair")))
    assert (health.under_replicated[0], health.under_min_isr[0], health.at_min_isr[0]) == (1, 0, 1)
    assert health.blocked_by_restart[0].tolist() == [1, 0, 0, 0]


def test_a_restart_that_takes_a_partition_offline_is_blocked_though_it_is_below_min_isr_already() -> None:
    model = with_isr(cluster([[0, 1, 2]], 3), 2, lagging=((0, 1), (0, 2)))
    health = measure_wave_health(execute(model, PlanRequest("repair")))
    assert (health.at_min_isr.tolist(), health.under_min_isr.tolist()) == ([0], [1])
    assert health.blocked_by_restart.tolist() == [[1, 0, 0]]


def test_a_partition_that_waits_for_its_next_copy_is_in_sync() -> None:
    """Brokers 3 and 4 are down: the first wave drops both, and the partition then lacks nothing for Kafka."""
    model = with_isr(cluster([[0, 3, 4]], 5, down=[3, 4]), 2)
    health = measure_wave_health(execute(model, PlanRequest("repair")))
    assert health.under_replicated.tolist() == [1, 0, 0]
    assert health.one_in_sync.tolist() == [1, 0, 0]
    assert health.under_min_isr.tolist() == [1, 0, 0]
    assert health.blocked_by_restart[1].tolist() == [1, 1, 0, 0, 0]


def test_min_insync_replicas_counts_up_to_the_replicas_of_each_step() -> None:
    """Kafka 3.7 and later take a partition of one replica as complete, until it has as many as min.insync.replicas."""
    model = replace(with_isr(cluster([[0]], 3), 2), topic_factor=np.array([3]))
    health = measure_wave_health(execute(model, PlanRequest("repair")))
    assert health.under_min_isr.tolist() == [0, 0, 0]
    assert health.at_min_isr.tolist() == [0, 1, 0]
    uncapped = measure_wave_health(execute(replace(model, caps_min_isr=False), PlanRequest("repair")))
    assert uncapped.under_min_isr.tolist() == [1, 0, 0]


def test_nothing_to_do() -> None:
    health = measure_wave_health(execute(with_isr(cluster([[0, 1]], 2), 2), PlanRequest("repair")))
    assert health.at_min_isr.tolist() == [1]
    assert health.find_restart_waves().tolist() == [NEVER, NEVER]


@given(clusters(partitions=9), st.integers(1, 3), st.randoms(use_true_random=False))
def test_counts_are_those_of_every_partition_after_every_wave(
    model: ClusterModel, min_isr: int, random: object
) -> None:
    chosen = np.random.default_rng(random.getrandbits(32)).random(len(model.replicas)) < 0.8  # type: ignore[attr-defined]
    model = replace(with_isr(model, min_isr), in_sync=model.live[model.replicas] & chosen)
    try:
        execution = execute(model, PlanRequest("repair"))
    except InfeasibleRequest:
        return
    health, waves = measure_wave_health(execution), execution.waves
    steps = [
        (wave, row, waves.replicas[begin:end].tolist())
        for wave, row, begin, end in zip(
            waves.wave.tolist(), waves.row.tolist(), waves.offsets[:-1], waves.offsets[1:], strict=True
        )
    ]
    isr = [[b for b, s in zip(*part, strict=True) if s] for part in _split(model, model.replicas, model.in_sync)]
    for number in range(waves.waves + 1):
        under_replicated = under_min = at_min = one = 0
        blocked = [0] * model.brokers
        for row, old in enumerate(lists_of(model)):
            replicas = [old, *(new for wave, changed, new in steps if changed == row and wave < number)][-1]
            effective = min(min_isr, len(replicas))
            # Without an in-sync replica there is nothing to copy from.
            in_sync = [b for b in replicas if model.live[b] and (b in isr[row] or (b not in old and isr[row]))]
            under_replicated += len(in_sync) < len(replicas) > 1
            if in_sync:
                under_min += len(in_sync) < effective
                one += len(in_sync) == 1 < len(replicas)
                at_min += len(in_sync) == effective and len(replicas) > 1
                for broker in in_sync if len(replicas) > 1 else []:
                    left = len(in_sync) - 1
                    blocked[broker] += not left or left < effective <= len(in_sync)
        assert health.under_replicated[number] == under_replicated
        assert health.under_min_isr[number] == under_min
        assert health.at_min_isr[number] == at_min
        assert health.one_in_sync[number] == one
        assert health.blocked_by_restart[number].tolist() == blocked
    for broker, wave in enumerate(health.find_restart_waves().tolist()):
        later = health.blocked_by_restart[:, broker] > 0
        assert not later[wave:].any() if wave != NEVER else later[-1]
        assert wave <= 0 or later[wave - 1]


def _split(model: ClusterModel, *arrays: np.ndarray | None) -> list[list[list[int]]]:
    parts = [np.split(array, model.offsets[1:-1]) for array in arrays if array is not None]
    return [[part.tolist() for part in pair] for pair in zip(*parts, strict=True)][: model.partitions]
