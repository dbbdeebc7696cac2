"""No plan harms a sick cluster: every goal, on random clusters with brokers down, lags, leftovers and reassignments."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_judgement import judge_rollback, read_steps
from pipelines.plan_files.reassignment_reader import PlannedList, PlanWave
from tests.properties.sick_clusters import Expectation, Key, SickCluster, draw_cluster, find_harm, find_unrepaired
from tests.properties.slow_judge import HARMFUL, REJECTED, Rules, judge_slowly
from tests.seed_sampler import TWENTIETH, SeedSampler
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import InfeasibleRequest, check_request
from udfs.planning.plan_faults import RESTORED, PlanFault
from udfs.planning.plan_judge import JudgeOptions, build_judge_options, judge_steps
from udfs.planning.plan_making import freeze_partitions, make_plan
from udfs.planning.plan_request import MIN_BYTES, PlanRequest
from udfs.planning.planned_waves import PlannedWaves, plan_waves
from udfs.planning.waves import WaveLimits

CLUSTERS = 10_000
_OF_BROKERS = {PlanFault.DISK_FULL, PlanFault.SLOW_BROKER, PlanFault.UNEVEN_LEADERS}  # which the slow judge leaves out
Waves = list[dict[Key, list[int]]]


def list_requests(cluster: SickCluster, rng: Random) -> Iterator[tuple[PlanRequest, Expectation]]:
    """A request of each goal, and of those that name brokers one for a live and one for a down broker."""
    for goal in ("leaders", "failover", "repair", "log-dirs", "zones", "balance", "expand"):
        yield PlanRequest(goal), Expectation(goal)
    yield PlanRequest("balance", objective=MIN_BYTES), Expectation("balance")
    yield PlanRequest("repair", under_min_isr_partitions=True), Expectation("repair")
    named = [rng.choice(cluster.live), *sorted(cluster.down)[:1]]
    for broker in named:
        yield PlanRequest("drain", brokers=(broker,)), Expectation("drain")
        yield PlanRequest("drain", brokers=(broker,), objective=MIN_BYTES), Expectation("drain")
        new = rng.choice([other for other in cluster.racks if other != broker])
        yield PlanRequest("replace", replacements=((broker, new),)), Expectation("replace")
    for factor in (1, 2, 3):
        topics = () if rng.random() < 0.5 else (rng.choice(cluster.topics).name,)
        yield PlanRequest("rf", factor=factor, topics=topics), Expectation("rf", factor, topics)


def execute_plan(model: ClusterModel, request: PlanRequest, limits: WaveLimits) -> PlannedWaves:
    """Make a plan as the command does."""
    model = freeze_partitions(model, request)
    return plan_waves(model, make_plan(model, request), limits)


def list_waves(execution: PlannedWaves) -> Waves:
    """List what each wave of a plan sets."""
    model, waves = execution.model, execution.waves
    written: Waves = [{} for _ in range(waves.waves)]
    for step, row in enumerate(waves.row.tolist()):
        key = (model.topic_names[model.topic[row]], int(model.partition[row]))
        written[waves.wave[step]][key] = model.ids(waves.replicas[waves.offsets[step] : waves.offsets[step + 1]])
    return written


def add_rates(model: ClusterModel, seed: int) -> ClusterModel:
    rng = np.random.default_rng(seed)
    rates = {name: rng.uniform(1, 1e6, model.partitions) for name in ("rate_in", "rate_out")}
    return replace(model, known=(True, True, True), **rates)


def judge_quickly(model: ClusterModel, waves: Waves, options: JudgeOptions) -> dict[tuple[str, Key], int]:
    """The first wave of each fault of a partition, as the program finds them."""
    lists = [[PlannedList(*key, replicas) for key, replicas in wave.items()] for wave in waves]
    steps = read_steps([PlanWave("", wave) for wave in lists], model).steps
    first = {}
    for rows in judge_steps(model, steps, options).faults:
        if rows.fault not in _OF_BROKERS:
            for row, wave in zip(rows.row.tolist(), rows.wave.tolist(), strict=True):
                first[str(rows.fault), (model.topic_names[model.topic[row]], int(model.partition[row]))] = wave
    return first


def mutate(cluster: SickCluster, waves: Waves, rng: Random) -> Waves:
    """Change some lists of a plan as people and tools do by mistake."""
    mutated = [dict(wave) for wave in waves] or [{}]
    for _ in range(rng.randrange(1, 4)):
        key, wave = rng.choice(list(cluster.partitions)), rng.choice(mutated)
        new = list(wave.get(key, cluster.partitions[key].replicas))
        others = [broker for broker in cluster.racks if broker not in new]
        mistake = rng.choice(["drop", "replace", "add", "draw", "order"])
        if mistake == "drop" and len(new) > 1:
            new.remove(rng.choice(new))
        elif mistake == "replace" and others:
            new[rng.randrange(len(new))] = rng.choice(others)
        elif mistake == "add" and others:
            new.append(rng.choice(others))
        elif mistake == "draw":
            new = rng.sample(list(cluster.racks), rng.randrange(1, len(cluster.racks) + 1))
        else:
            rng.shuffle(new)
        wave[key] = new
    return mutated


def compare_judges(
    cluster: SickCluster, model: ClusterModel, waves: Waves, request: PlanRequest, waits_for_all: bool
) -> tuple[dict[tuple[str, Key], int], list[str]]:
    """Return what the slow judge finds in a plan, and where the judges differ."""
    options = replace(build_judge_options(model, request, 50e6), waits_for_all=waits_for_all)
    slow = judge_slowly(cluster, waves, Rules(options.asked_factor, waits_for_all, frozenset(options.emptied)))
    quick = judge_quickly(model, waves, options)
    return slow, [
        f"{one}: {slow.get(one)}, not {quick.get(one)}" for one in {*slow, *quick} if slow.get(one) != quick.get(one)
    ]


def find_harmful_rollback(cluster: SickCluster, waves: Waves, execution: PlannedWaves) -> list[str]:
    """Return what the judges find wrong with the rollback of a plan, once it is complete, and where they differ."""
    changed = {key: new for wave in waves for key, new in wave.items()}
    after = deepcopy(cluster)
    for key, new in changed.items():
        one = after.partitions[key]
        in_sync = set(one.isr) - cluster.down
        for wave in waves:
            if key in wave:
                in_sync = {b for b in wave[key] if b in in_sync or b not in one.replicas}
                one.replicas = wave[key]
        one.isr = [broker for broker in new if broker in in_sync]
    wave = {key: cluster.partitions[key].replicas for key in changed}
    wave = {key: replicas for key, replicas in wave.items() if not cluster.down.intersection(replicas)}
    restored = {str(fault) for fault in RESTORED}
    slow = {fault for fault, _ in judge_slowly(after, [wave], Rules()) if fault not in restored}
    quick = {str(one.fault) for one in judge_rollback(execution, JudgeOptions()).findings} - set(map(str, _OF_BROKERS))
    differ = [f"rollback: {sorted(slow)}, not {sorted(quick)}"] if slow != quick else []
    return [*differ, *(f"rollback: {fault}" for fault in slow & (HARMFUL | REJECTED))]


@pytest.mark.slow
def test_no_plan_harms_a_sick_cluster(tmp_path: Path, seed_sampler: SeedSampler) -> None:
    harms: list[str] = []
    plans = infeasible = harmful_mutations = 0
    for seed in seed_sampler.seeds(CLUSTERS, TWENTIETH):
        rng = Random(seed)
        cluster = draw_cluster(rng)
        source = cluster.write(tmp_path / str(seed), rng)
        model = build_snapshot_model(load_snapshot(find_source(f"c={source}")), KAFKA_DEFAULTS)
        limits = WaveLimits(moves_per_broker=rng.choice([1, 2, 100]))
        for request, expected in list_requests(cluster, rng):
            rated = add_rates(model, seed) if request.goal == "zones" else model
            if check_request(rated, request):
                continue
            try:
                execution = execute_plan(rated, request, limits)
            except InfeasibleRequest:
                infeasible += 1
                continue
            plans += 1
            waves = list_waves(execution)
            found = list(find_harm(cluster, waves, expected)) + find_harmful_rollback(cluster, waves, execution)
            if request == PlanRequest("repair"):
                found += find_unrepaired(cluster, {key: new for wave in waves for key, new in wave.items()})
            for plan in (waves, mutate(cluster, waves, rng)):
                faults, differences = compare_judges(cluster, rated, plan, request, rng.random() < 0.5)
                found += [f"judges differ: {one}" for one in differences]
                bad = [one for one in faults if one[0] in HARMFUL | REJECTED]
                found += [f"judged {fault}: {key}" for fault, key in bad if plan is waves]
                harmful_mutations += bool(bad) and plan is not waves
            harms += [f"seed {seed}, {request.goal} {request.brokers or request.factor or ''}: {one}" for one in found]
    assert not harms, "\n".join([f"{len(harms)} of {plans} plans", *harms[:20]])
    assert harmful_mutations > plans / 2
    assert plans > 2 * infeasible  # brokers that cannot be emptied, as reassignments are under way
