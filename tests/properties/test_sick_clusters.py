"""No plan harms a sick cluster: every goal, on random clusters with brokers down, lags, leftovers and reassignments.

Brokers have several log dirs, of which some share a volume, are full, failed or unknown.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.kafka_json import dump_reassignment, get_planned_lists, get_wave_lists
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_judgement import judge_rollback, measure_disk_room, read_steps
from pipelines.plan_files.reassignment_reader import PlannedList, PlanWave
from tests.properties.disk_clusters import DiskCluster, draw_disk_cluster
from tests.properties.sick_clusters import Expectation, Planned, SickCluster, Waves, find_harm, find_unrepaired
from tests.properties.slow_disk_judge import DiskRules, get_places, judge_brokers
from tests.properties.slow_judge import HARMFUL, REJECTED, Rules, judge_slowly
from tests.seed_sampler import TWENTIETH, SeedSampler
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import InfeasibleRequest, check_request
from udfs.planning.plan_judge import JudgeOptions, build_judge_options, judge_steps
from udfs.planning.plan_making import freeze_partitions, make_plan
from udfs.planning.plan_request import MIN_BYTES, PlanRequest
from udfs.planning.plan_states import RESTORED, FaultRows, PlanFault
from udfs.planning.planned_waves import PlannedWaves, plan_waves
from udfs.planning.waves import WaveLimits

CLUSTERS = 10_000
OF_BROKERS = {
    PlanFault.DISK_OVERFLOW,
    PlanFault.LOG_DIR_OVERFLOW,
    PlanFault.DISK_FULL,
    PlanFault.LOG_DIR_FULL,
    PlanFault.SLOW_COPIES_IN,
    PlanFault.SLOW_COPIES_OUT,
    PlanFault.UNEVEN_LEADERS,
}
_LEAST = 20  # plans with each fault, of 500 clusters
Faults = dict[tuple[str, object], int]  # the first wave, by fault and partition, broker or volume


def list_requests(cluster: SickCluster, rng: Random) -> Iterator[tuple[PlanRequest, Expectation]]:
    """A request of each goal, and of those that name brokers one for a live and one for a down broker."""
    for goal in ("leaders", "failover", "repair", "log-dirs", "zones", "relieve", "balance", "expand"):
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
    """List what the file of each wave says."""
    model, waves = execution.model, execution.waves
    log_dirs = get_planned_lists(model, execution.proposal).log_dirs
    files = (dump_reassignment(get_wave_lists(model, waves, wave), log_dirs) for wave in range(waves.waves))
    return [
        [
            Planned((one["topic"], one["partition"]), one["replicas"], one.get("log_dirs"))
            for one in json.loads(file)["partitions"]
        ]
        for file in files
    ]


def add_rates(model: ClusterModel, seed: int) -> ClusterModel:
    rng = np.random.default_rng(seed)
    rates = {name: rng.uniform(1, 1e6, model.partitions) for name in ("rate_in", "rate_out")}
    return replace(model, known=(True, True, True), **rates)


def judge_quickly(model: ClusterModel, waves: Waves, options: JudgeOptions, incomplete: frozenset[str]) -> Faults:
    """Judge files as the program does."""
    lists = [PlanWave("", [PlannedList(*one.key, one.replicas, one.log_dirs) for one in wave]) for wave in waves]
    read = read_steps(lists, model, incomplete)
    found: Faults = {(str(one.fault), name): one.wave for one in read.findings for name in one.first_partitions}
    return found | _list_faults(model, judge_steps(model, read.steps, options).faults)


def _list_faults(model: ClusterModel, faults: tuple[FaultRows, ...]) -> Faults:
    found: Faults = {}
    for rows in faults:
        for i, (row, wave) in enumerate(zip(rows.row.tolist(), rows.wave.tolist(), strict=True)):
            where: object = (model.topic_names[model.topic[row]], int(model.partition[row]))
            if rows.fault in OF_BROKERS:
                where = int(model.broker_ids[rows.broker[i]])
            if rows.log_dir is not None and model.log_dirs is not None:
                where = (where, model.log_dirs.paths[rows.log_dir[i]])
            found[str(rows.fault), where] = wave
    return found


def mutate(drawn: DiskCluster, waves: Waves, rng: Random) -> Waves:
    """Change some lists of a plan as people and tools do by mistake."""
    cluster = drawn.cluster
    mutated = [list(wave) for wave in waves] or [[]]
    for _ in range(rng.randrange(1, 4)):
        key, wave = rng.choice(list(cluster.partitions)), rng.choice(mutated)
        at = next((i for i, one in enumerate(wave) if one.key == key), len(wave))
        now = Planned(key, cluster.partitions[key].replicas)
        wave[at : at + 1] = _mistake(drawn, wave[at] if at < len(wave) else now, rng)
    return mutated


def _mistake(drawn: DiskCluster, planned: Planned, rng: Random) -> list[Planned]:
    """Return what is written instead of an entry."""
    key, brokers = planned.key, list(drawn.cluster.racks)
    new = list(planned.replicas or brokers[:1])
    others = [broker for broker in brokers if broker not in new]
    mistake = rng.choice(["drop", "replace", "add", "draw", "order", "log_dirs", "log_dirs", "typo"])
    if mistake == "drop" and len(new) > 1:
        new.remove(rng.choice(new))
    elif mistake == "replace" and others:
        new[rng.randrange(len(new))] = rng.choice(others)
    elif mistake == "add" and others:
        new.append(rng.choice(others))
    elif mistake == "draw":
        new = rng.sample(brokers, rng.randrange(1, len(brokers) + 1))
    elif mistake == "log_dirs":
        places = get_places(drawn)
        own = [["any", *sorted(places.get(broker, ()))] for broker in new]
        return [Planned(key, new, [rng.choice(paths[-2:]) for paths in own])]
    elif mistake == "typo":
        return rng.choice(
            [
                [Planned((key[0], 99), new)],
                [Planned((f"{key[0]}x", 0), new)],
                [Planned(key, new), Planned(key, new)],
                [Planned(key, [])],
                [Planned(key, [*new, new[0]])],
                [Planned(key, [*new[:-1], 99])],
                [Planned(key, new, ["any"] * (len(new) + 1))],
                [Planned(key, new, ["/nowhere"] * len(new))],
            ]
        )
    else:
        rng.shuffle(new)
    return [Planned(key, new)]


# The requests say nothing of the disks that the judges know, which are often too small for any plan.
_OVERFLOWS = {"disk_overflow", "log_dir_overflow"}


class Judges:
    """Both judges of the plans for a cluster, with what they know of its disks."""

    def __init__(self, drawn: DiskCluster, snapshot: Snapshot, model: ClusterModel, rng: Random) -> None:
        ratio = rng.choice([0.5, 0.95])
        self.drawn, self.disks = drawn, DiskRules(ratio, rng.choice([0, 10_000_000]), rng.choice([100.0, 10_000.0]))
        self.room, self.free, _ = measure_disk_room(snapshot, model, ratio, self.disks.broker_bytes)
        self.incomplete = frozenset(one.name for one in drawn.cluster.topics if rng.random() < 0.2)
        self.incomplete |= {f"{name}x" for name in self.incomplete}

    def compare(
        self, model: ClusterModel, waves: Waves, request: PlanRequest
    ) -> tuple[Faults, list[str], JudgeOptions]:
        """Return what the slow judge finds in a plan, and where the judges differ."""
        options = build_judge_options(model, request, self.disks.throttle_bytes_per_s, self.room, self.free)
        options = replace(options, max_disk_ratio=self.disks.max_disk_ratio)
        cluster, emptied = self.drawn.cluster, frozenset(options.emptied)
        rules = Rules(
            next(iter(options.asked_factors), None),
            cluster.waits_for_all,
            cluster.drops_at_once,
            emptied,
            self.incomplete,
        )
        slow = judge_slowly(cluster, waves, rules, get_places(self.drawn))
        slow |= judge_brokers(self.drawn, waves, rules, self.disks)
        quick = judge_quickly(model, waves, options, self.incomplete)
        return slow, [*_compare(slow, quick)], options


def _compare(slow: Faults, quick: Faults) -> Iterator[str]:
    for one in {*slow, *quick}:
        if slow.get(one) != quick.get(one):
            yield f"{one}: {slow.get(one)}, not {quick.get(one)}"


def find_harmful_rollback(cluster: SickCluster, waves: Waves, execution: PlannedWaves) -> list[str]:
    """Return what the judges find wrong with the rollback of a plan, once it is complete, and where they differ."""
    changed = {planned.key: planned.replicas for wave in waves for planned in wave}
    after = deepcopy(cluster)
    for key, new in changed.items():
        one, lost = after.partitions[key], cluster.down | cluster.failed[key]
        in_sync = set(one.isr) - lost
        for wave in waves:
            for planned in wave:
                if planned.key == key:
                    in_sync = {b for b in planned.replicas if b in in_sync or b not in one.replicas}
                    one.replicas = planned.replicas
        one.isr = [broker for broker in new if broker in in_sync]
        one.leader = next(iter(one.isr), None)
    back = [
        Planned(key, cluster.partitions[key].replicas)
        for key in changed
        if not (cluster.down | cluster.failed[key]).intersection(cluster.partitions[key].replicas)
    ]
    ignored = {str(fault) for fault in {*RESTORED, *OF_BROKERS}}
    rules = Rules(None, cluster.waits_for_all, cluster.drops_at_once)
    slow = {fault for fault, _ in judge_slowly(after, [back], rules) if fault not in ignored}
    quick = {str(one.fault) for one in judge_rollback(execution, JudgeOptions()).findings} - ignored
    differ = [f"rollback: {sorted(slow)}, not {sorted(quick)}"] if slow != quick else []
    # What leaves a cordoned broker can only return once that is uncordoned.
    return [*differ, *(f"rollback: {fault}" for fault in (slow & (HARMFUL | REJECTED)) - {"cordoned_broker"})]


def is_asked_for(cluster: SickCluster, request: PlanRequest, fault: tuple[str, object]) -> bool:
    """Return whether a plan cannot but do harm: fewer replicas than min.insync.replicas, where that counts."""
    return request.goal == "rf" and fault[0] == "drops_in_sync" and not cluster.caps_min_isr


def draw(rng: Random) -> DiskCluster:
    """Draw a cluster; of the brokers that are down, some are fenced, and others no longer registered."""
    drawn = draw_disk_cluster(rng)
    holders = {broker for one in drawn.cluster.partitions.values() for broker in one.replicas}
    for broker in sorted(drawn.cluster.down & holders):
        drawn = drawn.unregister(broker) if rng.random() < 0.3 else drawn
    drawn.cluster.unknown = frozenset({rng.choice(drawn.cluster.live)}) if rng.random() < 0.2 else frozenset()
    drawn.cluster.cordoned = frozenset({rng.choice(drawn.cluster.live)}) if rng.random() < 0.2 else frozenset()
    drawn.cluster.rejects_cordoned = rng.random() < 0.5
    for broker, dirs in drawn.reading.log_dirs.items():
        online = [log_dir for log_dir in dirs if log_dir["error"] is None]
        if len(online) > 1 and rng.random() < 0.1:
            chosen = rng.choice(online)
            chosen["is_cordoned"] = True
            drawn.cluster.cordoned_dirs |= {(broker, chosen["log_dir"])}
    drawn.cluster.caps_min_isr = rng.random() < 0.8
    drawn.cluster.waits_for_all, drawn.cluster.drops_at_once = rng.choice([(False, False), (True, False), (True, True)])
    return drawn


@pytest.mark.slow
def test_no_plan_harms_a_sick_cluster(tmp_path: Path, seed_sampler: SeedSampler) -> None:
    harms: list[str] = []
    plans = infeasible = harmful_mutations = clusters = 0
    seen = Counter[str]()  # plans and mutations with each fault
    for seed in seed_sampler.seeds(CLUSTERS, TWENTIETH):
        rng = Random(seed)
        drawn = draw(rng)
        cluster = drawn.cluster
        drawn.write(tmp_path / str(seed))
        snapshot = load_snapshot(find_source(f"c={tmp_path / str(seed)}"))
        model = build_snapshot_model(snapshot, KAFKA_DEFAULTS)
        # Files that show log dirs are of later versions.
        model = replace(
            model,
            caps_min_isr=cluster.caps_min_isr,
            completes_with_added=not cluster.waits_for_all,
            drops_at_once=cluster.drops_at_once,
            cordoned=np.isin(model.broker_ids, [*cluster.cordoned]),
            rejects_cordoned=cluster.rejects_cordoned,
        )
        if cluster.unknown:
            model = replace(model, unknown=np.isin(model.broker_ids, [*cluster.unknown]))
        if taken_to_be_down := set(cluster.live) - set(model.ids(np.flatnonzero(model.live))):
            online = {b for key, one in cluster.partitions.items() for b in set(one.replicas) - cluster.failed[key]}
            assert not online & taken_to_be_down, seed  # all that they have is in failed log dirs
            continue
        judges = Judges(drawn, snapshot, model, rng)
        limits, clusters = WaveLimits(moves_per_broker=rng.choice([1, 2, 100])), clusters + 1
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
                found += find_unrepaired(cluster, {one.key: one.replicas for wave in waves for one in wave})
            for plan in (waves, mutate(drawn, waves, rng)):
                faults, differences, options = judges.compare(rated, plan, request)
                found += [f"judges differ: {one}" for one in differences]
                bad = [
                    one for one in faults if one[0] in HARMFUL | REJECTED and not is_asked_for(cluster, request, one)
                ]
                if plan is waves:  # it is what the files say
                    own = judge_steps(execution.model, execution.waves, options).faults
                    found += [f"file and plan differ: {one}" for one in _compare(faults, _list_faults(rated, own))]
                    found += [f"judged {fault}: {where}" for fault, where in bad if fault not in _OVERFLOWS]
                harmful_mutations += bool(bad) and plan is not waves
                seen.update({fault for fault, _ in faults})
            harms += [f"seed {seed}, {request.goal} {request.brokers or request.factor or ''}: {one}" for one in found]
    assert not harms, "\n".join([f"{len(harms)} of {plans} plans", *harms[:20]])
    assert harmful_mutations > plans / 2
    assert plans > 2 * infeasible  # brokers that cannot be emptied, as reassignments are under way
    rare = {fault.value: seen[fault] for fault in PlanFault if seen[fault] < _LEAST * clusters / 500}
    assert not rare, seen
