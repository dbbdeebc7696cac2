"""No plan harms a sick cluster: every goal, on random clusters with brokers down, lags, leftovers and reassignments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.plan_creation import build_snapshot_model
from tests.properties.sick_clusters import Expectation, Key, SickCluster, draw_cluster, find_harm, find_unrepaired
from tests.seed_sampler import TWENTIETH, SeedSampler
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import InfeasibleRequest, check_request
from udfs.planning.plan_making import freeze_partitions, make_plan
from udfs.planning.plan_request import MIN_BYTES, PlanRequest
from udfs.planning.planned_waves import plan_waves
from udfs.planning.waves import WaveLimits

CLUSTERS = 2_000


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


def list_waves(model: ClusterModel, request: PlanRequest, limits: WaveLimits) -> list[dict[Key, list[int]]]:
    """Make a plan as the command does, and list what each wave sets."""
    model = freeze_partitions(model, request)
    waves = plan_waves(model, make_plan(model, request), limits).waves
    written: list[dict[Key, list[int]]] = [{} for _ in range(waves.waves)]
    for step, row in enumerate(waves.row.tolist()):
        key = (model.topic_names[model.topic[row]], int(model.partition[row]))
        written[waves.wave[step]][key] = model.ids(waves.replicas[waves.offsets[step] : waves.offsets[step + 1]])
    return written


def add_rates(model: ClusterModel, seed: int) -> ClusterModel:
    rng = np.random.default_rng(seed)
    rates = {name: rng.uniform(1, 1e6, model.partitions) for name in ("rate_in", "rate_out")}
    return replace(model, known=(True, True, True), **rates)


@pytest.mark.slow
def test_no_plan_harms_a_sick_cluster(tmp_path: Path, seed_sampler: SeedSampler) -> None:
    harms: list[str] = []
    plans = infeasible = 0
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
                waves = list_waves(rated, request, limits)
            except InfeasibleRequest:
                infeasible += 1
                continue
            plans += 1
            found = list(find_harm(cluster, waves, expected))
            if request == PlanRequest("repair"):
                found += find_unrepaired(cluster, {key: new for wave in waves for key, new in wave.items()})
            harms += [f"seed {seed}, {request.goal} {request.brokers or request.factor or ''}: {one}" for one in found]
    assert not harms, "\n".join([f"{len(harms)} of {plans} plans", *harms[:20]])
    assert plans > 2 * infeasible  # brokers that cannot be emptied, as reassignments are under way
