"""Every surface gives the same answer: commands, tables, views, the report, plans and `apply`, on random clusters.

Each quantity is taken from every place that shows it, for clusters with brokers down, lagging replicas, reassignments,
several log dirs on shared, failed and unknown volumes, and a file of capacities; bytes are also summed by hand.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from pipelines.config.capacity_file import add_disk_capacities
from pipelines.config.setting_sections import Settings
from pipelines.config.settings import load_settings
from pipelines.errors import SourceError
from pipelines.execution.planned_steps import PlannedSteps
from pipelines.execution.preflight import ClusterDisks, list_work, measure_disks
from pipelines.ingest.merge.live_brokers import get_live_brokers
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import Source, find_source
from pipelines.plan_files.kafka_json import Key
from pipelines.plan_files.plan_check import PlanStatus, check_plan
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_reader import PlannedChange, PlannedWave, StoredPlan
from pipelines.plan_files.state_after_plan import assume_applied, make_changes
from pipelines.report.report_data import read_report
from pipelines.runner import Progress, Run, make_context
from pipelines.spark.store import Store
from pipelines.verdict.cluster_evidence import PartitionIssue
from pipelines.verdict.snapshot_findings import find_findings, make_row
from pipelines.what_if.failure_effects import list_disk_failures, list_disk_uses, read_survivor_capacities
from pipelines.what_if.what_if_answers import ClusterAnswer, evaluate_brokers, evaluate_failure
from tests.properties.disk_clusters import DiskCluster, HeldBytes, draw_disk_cluster
from tests.properties.sick_clusters import Partition
from tests.seed_sampler import SEED, TENTH, SeedSampler
from tests.steps import list_steps_to
from udfs.failures.disk_limits import Volume, compute_room
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.json_answers import to_json
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.planned_waves import PlannedWaves, measure_wave_health, plan_waves
from udfs.planning.waves import WaveLimits

CLUSTERS = 500
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MAX_DISK_RATIO = 0.9
OPTIONS = (
    'run.schemes=["observed"]',
    'plans.goals=["leaders"]',
    "failures.max_pairs=0",
    "failures.random_sets=1",
    "durability.failure_counts=[1]",
    "hotspots.seeds=1",
    f"capacity.max_disk_ratio={MAX_DISK_RATIO}",
)
DISK_TABLE = "gold.disk_after_failure"
TABLES = (
    *("silver.replicas", "silver.log_dirs", "silver.partitions", "gold.cluster_findings", "gold.load_history"),
    *(
        "gold.current_loads",
        "gold.plans",
        "gold.plan_metrics",
        "gold.growth_forecasts",
        "gold.scheme_comparison",
        DISK_TABLE,
    ),
)
# Kinds of quantities.
LOG_BYTES, LOG_DIR_BYTES, REPLICA_BYTES = "bytes of logs", "bytes in log dirs", "bytes of replicas"
COPY_BYTES = "bytes to copy if a broker fails for good"
CAPACITY, ROOM, FREE = "bytes that disks can hold", "bytes that a log dir may gain", "bytes that survivors may gain"
HEALTH, RISK, FINDINGS = "partitions", "can it fail?", "findings"
ELECTION, PROGRESS = "preferred election", "steps of a plan"


class Answers:
    """What surfaces say of quantities."""

    def __init__(self) -> None:
        self.said: dict[tuple[Any, ...], dict[str, Any]] = {}  # value by surface

    def add(self, surface: str, kind: str, values: Mapping[Any, Any], cluster: str | None = None) -> None:
        """Add what a surface says of a kind of quantity, by subject of a cluster, or by cluster and subject."""
        for subject, value in values.items():
            parts = subject if isinstance(subject, tuple) else (subject,)
            name = (kind, *parts) if cluster is None else (kind, cluster, *parts)
            self.said.setdefault(name, {})[surface] = value

    def check(self, surfaces: Mapping[str, Iterable[str]]) -> None:
        """Check that all surfaces agree, and that these were compared for each kind."""
        wrong = [
            f"{name}: {values}"
            for name, values in self.said.items()
            if any(value != next(iter(values.values())) for value in values.values())
        ]
        assert not wrong, "\n".join([f"{len(wrong)} of {len(self.said)}", *wrong[:20]])
        for kind, expected in surfaces.items():
            compared = (values for name, values in self.said.items() if name[0] == kind and len(values) > 1)
            shown = Counter(surface for values in compared for surface in values)
            assert shown.keys() == set(expected), (kind, shown)
            assert min(shown.values()) >= 10, "else the clusters show too little"


@dataclass
class Case:
    """A random cluster, and what was read of it."""

    name: str
    drawn: DiskCluster
    source: Source
    rng: Random
    capacity_file: str

    @cached_property
    def snapshot(self) -> Snapshot:
        return load_snapshot(self.source)

    @property
    def live(self) -> list[int]:
        ids: list[int] = get_live_brokers(self.snapshot.brokers).tolist()
        return ids

    @cached_property
    def bytes_by_hand(self) -> HeldBytes:
        rows = self.snapshot.brokers.to_pylist()
        return self.drawn.sum_bytes({row["broker_id"] for row in rows if row["live"]})

    @cached_property
    def model(self) -> ClusterModel:
        """The model that `plan` starts from."""
        return build_snapshot_model(add_disk_capacities(self.snapshot, self.capacity_file), KAFKA_DEFAULTS)

    @cached_property
    def answer(self) -> ClusterAnswer:
        """The answer of `what-if`."""
        settings = load_settings([*OPTIONS, f"capacity.file={self.capacity_file}"], environ={})
        capacities = read_survivor_capacities(self.snapshot, settings.capacity)
        uses = list_disk_uses(self.snapshot, self.snapshot, settings)
        lost = list_disk_failures(self.snapshot, self.snapshot, settings, uses) if uses else ()
        return evaluate_brokers(self.snapshot, KAFKA_DEFAULTS, capacities, lost)

    def measure_disks(self, settings: Settings) -> ClusterDisks:
        """Measure the disks as `apply` does before it begins."""
        return measure_disks(self.snapshot, self.drawn.reading.log_dirs, settings)


@dataclass
class Finished:
    """The clusters, and the warehouse of a run over all of them."""

    cases: list[Case]
    store: Store
    options: Sequence[str]

    @cached_property
    def settings(self) -> Settings:
        return load_settings(self.options, environ={})

    @cached_property
    def reported(self) -> list[dict[str, Any]]:
        """The data of the report, by cluster."""
        return read_report(self.store).clusters

    def run(self, steps: Sequence[str], *options: str) -> Settings:
        """Run steps with these options, too."""
        settings = load_settings([*self.options, *options], environ={})
        context = make_context([case.source for case in self.cases], settings, NOW)
        Run(self.store, context, Progress()).go(steps, clock=lambda: NOW)
        return settings

    def select(self, columns: str, rows: str) -> dict[tuple[Any, ...], Any]:
        """Return the last column by the others, as a cell of a notebook selects it."""
        found = self.store.spark.sql(f"SELECT {columns} FROM {rows}").collect()
        return {tuple(row[:-1]): row[-1] for row in found}


def _metrics(name: str) -> str:
    """Rows of a metric of plans, beside the columns of gold.plans."""
    plans = "gold.plans JOIN gold.plan_metrics USING (cluster_id, snapshot_id, goal)"
    return f"{plans} WHERE feasible AND metric = '{name}'"


def draw_capacities(case: Case) -> Iterator[str]:
    """Yield rows of capacity.file: of a broker as a whole, or of some of its log dirs."""
    for broker, dirs in case.drawn.reading.log_dirs.items():
        kind = case.rng.random()
        if kind < 0.1:
            yield f"{case.name},{broker},{case.rng.choice([6_000_000, 30_000_000])},"
        elif kind < 0.25:
            chosen = dirs if case.rng.random() < 0.5 else dirs[:1]
            yield from (f"{case.name},{broker},8000000,{one['log_dir']}" for one in chosen)


@pytest.fixture(scope="module")
def finished(
    request: pytest.FixtureRequest, spark_application: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Finished:
    folder = tmp_path_factory.mktemp("same")
    sampler = SeedSampler(int(os.environ[SEED]), all_seeds=request.config.getoption("soak"))
    print(sampler)
    cases = []
    for number, seed in enumerate(sampler.seeds(CLUSTERS, TENTH)):
        rng, name = Random(seed), f"c{number}"
        drawn = draw_disk_cluster(rng)
        drawn.write(folder / name)
        cases.append(Case(name, drawn, find_source(str(folder / name)), rng, str(folder / "capacity.csv")))
    rows = [row for case in cases for row in draw_capacities(case)]
    (folder / "capacity.csv").write_text("\n".join(["cluster,broker_id,disk_bytes,log_dir", *rows]) + "\n")
    options = (*OPTIONS, f"store.warehouse={folder / 'w'}", f"capacity.file={folder / 'capacity.csv'}")
    result = Finished(cases, Store(spark_application, str(folder / "w")), options)
    result.run(list_steps_to(TABLES))
    result.store.register_all()
    return result


def find_known(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the values that are known."""
    return {subject: value for subject, value in values.items() if value is not None}


def fill_zeros(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return 0 where nothing is known: no surface counts the bytes of a log of unknown size."""
    return {subject: value or 0 for subject, value in values.items()}


def test_bytes_that_brokers_and_log_dirs_hold(finished: Finished) -> None:
    answers = Answers()
    for case in finished.cases:
        held = case.bytes_by_hand
        ids = case.drawn.cluster.racks
        shown = [(broker, one["log_dir"]) for broker, own in case.drawn.reading.log_dirs.items() for one in own]
        by_hand = {LOG_BYTES: held.logs, REPLICA_BYTES: held.replicas, COPY_BYTES: held.assigned}
        for kind, totals in by_hand.items():
            answers.add("by hand", kind, {broker: totals[broker] for broker in ids}, case.name)
        answers.add("by hand", LOG_DIR_BYTES, {place: held.log_dirs[place] for place in shown}, case.name)
        for use in to_json(list_disk_uses(case.snapshot, case.snapshot, finished.settings)):
            broker, path = use["broker_id"], use["log_dir"]
            if path is None:
                answers.add("what-if", LOG_BYTES, {broker: use["size_bytes"]}, case.name)
            else:
                answers.add("what-if", LOG_DIR_BYTES, {(broker, path): use["size_bytes"]}, case.name)
        model = case.model
        sizes = dict(zip(model.broker_ids.tolist(), model.sum_bytes(model).tolist(), strict=True))
        answers.add("plan", REPLICA_BYTES, sizes, case.name)
        if (log_dirs := model.log_dirs) is not None:
            places = zip(model.broker_ids[log_dirs.broker].tolist(), log_dirs.paths, strict=True)
            of_dirs = dict(zip(places, log_dirs.sum_sizes(log_dirs.of_replica).tolist(), strict=True))
            answers.add("plan", LOG_DIR_BYTES, of_dirs, case.name)
    for cluster in finished.reported:
        sizes = {row["broker_id"]: row["size_bytes"] for row in cluster["brokers"]}
        answers.add("report", REPLICA_BYTES, find_known(sizes), cluster["cluster_id"])
    select, place = finished.select, "cluster_id, broker_id"
    of_brokers = select(f"{place}, size_bytes", "gold.load_history WHERE subject_kind = 'broker'")
    answers.add("gold.load_history", LOG_BYTES, fill_zeros(of_brokers))
    by_path = select(f"{place}, log_dir, size_bytes", "gold.load_history WHERE subject_kind = 'log_dir'")
    answers.add("gold.load_history", LOG_DIR_BYTES, fill_zeros(by_path))
    used = select(f"{place}, log_dir, used_bytes", "silver.log_dirs")
    answers.add("silver.log_dirs", LOG_DIR_BYTES, fill_zeros(used))
    by_dir = select(f"{place}, log_dir, sum(size_bytes)", "silver.replicas WHERE log_dir IS NOT NULL GROUP BY ALL")
    answers.add("silver.replicas", LOG_DIR_BYTES, by_dir)
    loads = select(f"{place}, size_bytes", "gold.current_loads WHERE scheme = 'observed'")
    answers.add("gold.current_loads", REPLICA_BYTES, find_known(loads))
    risks = "insights.disk_failure_risk WHERE scenario_kind = 'broker'"
    to_copy = select("cluster_id, CAST(substring(scenario, 8) AS INT), bytes_to_copy", risks)
    answers.add(DISK_TABLE, COPY_BYTES, find_known(to_copy))
    fullest = select("cluster_id, fullest_broker, CAST(before AS BIGINT)", _metrics("fullest_broker_bytes"))
    answers.add("gold.plans", REPLICA_BYTES, find_known(fullest))
    answers.check(
        {
            LOG_BYTES: ("by hand", "what-if", "gold.load_history"),
            LOG_DIR_BYTES: ("by hand", "what-if", "plan", "gold.load_history", "silver.log_dirs", "silver.replicas"),
            REPLICA_BYTES: ("by hand", "plan", "report", "gold.current_loads", "gold.plans"),
            COPY_BYTES: ("by hand", DISK_TABLE),
        }
    )


@pytest.mark.parametrize("broker_bytes", [0, 9_000_000])
def test_what_disks_can_hold(finished: Finished, broker_bytes: int) -> None:
    answers = Answers()
    settings = finished.run([DISK_TABLE], f"plans.broker_bytes={broker_bytes}")
    for case in finished.cases:
        uses = list_disk_uses(case.snapshot, case.snapshot, settings)
        limits = {
            use.broker_id if use.log_dir is None else (use.broker_id, use.log_dir): use.disk_bytes for use in uses
        }
        answers.add("what-if", CAPACITY, limits, case.name)
        disks, held = case.measure_disks(settings).disks, case.bytes_by_hand.logs
        measured = {use.broker_id for use in uses if use.log_dir is None and not use.inferred_bytes}
        free = {broker: sum_disks(disks[broker])[1] for broker in measured}
        capacities = {broker: None if np.isnan(left) else held[broker] + left for broker, left in free.items()}
        answers.add("apply", CAPACITY, capacities, case.name)
        known = [(broker, disk) for broker, own in disks.items() for disk in own if disk.is_known]
        rooms = {
            (broker, path): compute_room(disk.total_bytes or 0, disk.free_bytes or 0, MAX_DISK_RATIO)
            for broker, disk in known
            for path in disk.log_dirs
        }
        answers.add("apply", ROOM, {place: pytest.approx(room, abs=0.01) for place, room in rooms.items()}, case.name)
        model = case.model
        if (log_dirs := model.log_dirs) is not None:
            places = zip(model.broker_ids[log_dirs.broker].tolist(), log_dirs.paths, strict=True)
            found = dict(zip(places, log_dirs.compute_room(MAX_DISK_RATIO).tolist(), strict=True))
            answers.add("plan", ROOM, {place: found[place] for place in rooms}, case.name)
        answers.add("apply", FREE, dict(list_free(case, disks)), case.name)
    forecasts = "gold.growth_forecasts WHERE limit_name = 'disk_full' AND limit_value IS NOT NULL"
    place = "cluster_id, broker_id"
    of_brokers = finished.select(f"{place}, limit_value", f"{forecasts} AND log_dir IS NULL")
    of_dirs = finished.select(f"{place}, log_dir, limit_value", f"{forecasts} AND log_dir IS NOT NULL")
    answers.add("gold.growth_forecasts", CAPACITY, {**of_brokers, **of_dirs})
    risks = "insights.disk_failure_risk WHERE scenario_kind <> 'log_dir'"
    answers.add(DISK_TABLE, FREE, finished.select("cluster_id, scenario, free_bytes", risks))
    answers.check(
        {CAPACITY: ("what-if", "apply", "gold.growth_forecasts"), ROOM: ("apply", "plan"), FREE: ("apply", DISK_TABLE)}
    )


def sum_disks(disks: Sequence[Volume]) -> tuple[float, float]:
    """Sum the bytes of the disks of a broker, and the free ones; NaN = unknown."""
    if not disks or not all(disk.is_known for disk in disks):
        return np.nan, np.nan
    return sum(disk.total_bytes or 0 for disk in disks), sum(disk.free_bytes or 0 for disk in disks)


def list_free(case: Case, disks: Mapping[int, Sequence[Volume]]) -> Iterator[tuple[str, int | None]]:
    """Yield scenarios, and what the disks of their survivors may gain; None = unknown."""
    racks = {broker: case.drawn.cluster.racks[broker] for broker in case.live}
    failures = {f"broker:{broker}": {broker} for broker in racks}
    names = {rack for rack in racks.values() if rack is not None}
    if len(names) > 1:
        failures |= {f"rack:{name}": {b for b, rack in racks.items() if rack == name} for name in names}
    for scenario, failed in failures.items():
        left = [compute_room(*sum_disks(disks[broker]), MAX_DISK_RATIO) for broker in racks if broker not in failed]
        yield scenario, None if not left or np.isnan(left).any() else round(float(sum(left)))


def make_no_change(model: ClusterModel) -> PlannedWaves:
    """Return a plan that only elects preferred leaders."""
    none = np.full(model.partitions, -1, dtype=np.int16)
    return plan_waves(
        model, ProposedAssignment(model.offsets, model.source_order, none, ()), WaveLimits(), elects_all=True
    )


def test_health_of_partitions(finished: Finished) -> None:
    answers = Answers()
    for case in finished.cases:
        issues = find_findings(case.snapshot, KAFKA_DEFAULTS).issues
        counts = {issue: issues[issue].partitions if issue in issues else 0 for issue in PartitionIssue}
        answers.add("what-if", HEALTH, counts, case.name)
        under_replicated = len(case.drawn.view.list_under_replicated())
        answers.add("apply", HEALTH, {PartitionIssue.UNDER_REPLICATED: under_replicated}, case.name)
        health = measure_wave_health(make_no_change(case.model))
        of_plan = {
            PartitionIssue.UNDER_REPLICATED: health.under_replicated[0],
            PartitionIssue.UNDER_MIN_ISR: health.under_min_isr[0],
            "one_in_sync": health.one_in_sync[0],
        }
        answers.add("plan", HEALTH, of_plan, case.name)
        if down := sorted(case.drawn.cluster.down):  # which changes nothing
            summary = evaluate_failure(case.snapshot, down[:1], KAFKA_DEFAULTS).summary
            of_failure = {
                PartitionIssue.OFFLINE: summary.offline_after,
                PartitionIssue.UNDER_MIN_ISR: summary.under_min_isr_after,
                "one_in_sync": summary.single_isr_partitions - summary.single_replica_partitions,
            }
            answers.add("what-if --fail", HEALTH, of_failure, case.name)
    now = [issue for issue in PartitionIssue if not issue.endswith("_fails")]
    for cluster in finished.reported:
        sums = {issue: sum(topic[f"{issue}_partitions"] for topic in cluster["topics"]) for issue in now}
        answers.add("report", HEALTH, sums, cluster["cluster_id"])
    for issue in PartitionIssue:
        view = f"(SELECT cluster_id, count_if(issue = '{issue}') AS n FROM insights.partition_issues GROUP BY ALL)"
        for (cluster,), count in finished.select("cluster_id, n", view).items():
            answers.add("insights.partition_issues", HEALTH, {issue: count}, cluster)
        history = f"(SELECT cluster_id, sum({issue}_partitions) AS n FROM insights.topic_health_history GROUP BY ALL)"
        for (cluster,), count in finished.select("cluster_id, n", history).items():
            answers.add("insights.topic_health_history", HEALTH, {issue: count}, cluster)
    under_replicated = "(SELECT cluster_id, count_if(under_replicated) AS n FROM silver.partitions GROUP BY ALL)"
    plans = _metrics("under_replicated_partitions")
    for surface, (columns, rows) in {
        "silver.partitions": ("cluster_id, n", under_replicated),
        "gold.plans": ("cluster_id, CAST(before AS BIGINT)", plans),
    }.items():
        for (cluster,), count in finished.select(columns, rows).items():
            answers.add(surface, HEALTH, {PartitionIssue.UNDER_REPLICATED: count}, cluster)
    views = ("insights.partition_issues", "insights.topic_health_history")
    others = ("what-if", "what-if --fail", "apply", "plan", "report", "silver.partitions", "gold.plans")
    answers.check({HEALTH: (*views, *others)})


def test_whether_brokers_can_fail(finished: Finished) -> None:
    answers = Answers()
    columns = ("offline_partitions", "under_min_isr_partitions", "single_isr_partitions", "worst_survivor")
    for case in finished.cases:
        answer = to_json(case.answer)
        answers.add("what-if", RISK, {row["failed"]: row["answer"] for row in answer["brokers"]}, case.name)
        answers.add("what-if", RISK, {row["failed"]: row["answer"] for row in answer["racks"]}, case.name)
        for broker in case.rng.sample(case.live, min(2, len(case.live))):
            failure = evaluate_failure(case.snapshot, [broker], KAFKA_DEFAULTS)
            told = failure.summary
            values = (told.offline_after, told.under_min_isr_after, told.single_isr_partitions, told.worst_survivor)
            counts = {(broker, name): value for name, value in zip(columns, values, strict=True)}
            answers.add("what-if --fail", RISK, {broker: told.answer, **counts}, case.name)
    for cluster in finished.reported:
        for row in (*cluster["failures"], *cluster["rack_failures"]):
            counts = {(row["failed"], name): row[name] for name in columns if name in row}
            answers.add("report", RISK, {row["failed"]: row["risk"].answer, **counts}, cluster["cluster_id"])
    views = {"broker_failure_risk": "broker_id", "rack_failure_risk": "rack"}
    for view, subject in views.items():
        risks = finished.select(f"cluster_id, {subject}, answer", f"insights.{view}")
        answers.add("insights", RISK, risks)
    for name in columns:
        rows = "gold.failure_summary WHERE scheme = 'observed' AND scenario_kind = 'broker'"
        failures = finished.select(f"cluster_id, failed_brokers[0], {name}", rows)
        answers.add("gold.failure_summary", RISK, {(*place, name): value for place, value in failures.items()})
    answers.check({RISK: ("what-if", "what-if --fail", "report", "insights", "gold.failure_summary")})


def to_plain(value: Any) -> Any:
    """Return a value of a row with lists for tuples and dicts for mappings, and without their order."""
    if isinstance(value, Mapping):
        return {name: to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    return value


def test_findings_and_verdict(finished: Finished) -> None:
    answers = Answers()
    for case in finished.cases:
        answers.add("what-if", FINDINGS, to_plain(make_row(find_findings(case.snapshot, KAFKA_DEFAULTS))), case.name)
        verdict = case.answer.verdict
        answers.add("what-if", FINDINGS, {"verdict": verdict.name_source("SOURCE", case.name)}, case.name)
    for cluster in finished.reported:
        row = {**to_plain(make_row(cluster["findings"])), "verdict": cluster["verdict"]}
        answers.add("report", FINDINGS, row, cluster["cluster_id"])
    for found in finished.store.spark.sql("SELECT * FROM gold.cluster_findings").collect():
        row = to_plain(found.asDict(recursive=True))
        del row["snapshot_id"]
        answers.add("gold.cluster_findings", FINDINGS, row, row.pop("cluster_id"))
    answers.check({FINDINGS: ("what-if", "report", "gold.cluster_findings")})


def test_elections_of_preferred_leaders(finished: Finished) -> None:
    answers, beside = Answers(), "beside reassignments"
    for case in finished.cases:
        findings = find_findings(case.snapshot, KAFKA_DEFAULTS)
        told = {"partitions": findings.electable_partitions, "ratio": findings.elected_ratio}
        answers.add("findings", ELECTION, told, case.name)
        keys = list(case.drawn.cluster.partitions)
        moving = {key for key, one in case.drawn.cluster.partitions.items() if one.is_reassigned}
        now, after = (list_leaders(one) for one in (case.snapshot, make_changes(case.snapshot, {}, keys)))
        changed = {key for key in keys if now[key] != after[key]}
        leads = Counter(leader for leader in after.values() if leader != -1)
        ratio = max(leads.values()) * len(case.live) / leads.total() if changed else None
        answers.add("after the election", ELECTION, {"partitions": len(changed), "ratio": ratio}, case.name)
        answers.add("after the election", ELECTION, {beside: sorted(changed - moving)}, case.name)
        model = case.model
        rows = np.flatnonzero(make_no_change(model).elections.elected).tolist()
        elected = [(model.topic_names[model.topic[row]], int(model.partition[row])) for row in rows]
        answers.add("plan", ELECTION, {beside: sorted(elected)}, case.name)
    for cluster in finished.reported:
        found = cluster["findings"]
        told = {"partitions": found.electable_partitions, "ratio": found.elected_ratio}
        answers.add("report", ELECTION, told, cluster["cluster_id"])
    answers.check({ELECTION: ("findings", "after the election", "plan", "report")})


def list_leaders(snapshot: Snapshot) -> dict[Key, int]:
    """Return the leader of each partition; -1 = none."""
    rows = snapshot.partitions.select(["topic", "partition", "leader"]).to_pylist()
    return {(row["topic"], row["partition"]): row["leader"] for row in rows if row["leader"] is not None}


def draw_lists(rng: Random, one: Partition, brokers: Sequence[int]) -> tuple[list[list[int]], int | None]:
    """Draw the lists of a plan on whose way a partition is, and how many steps it has behind it; None = it strays."""
    now = [one.replicas]
    if one.is_reassigned:
        now = [[b for b in one.replicas if b not in skipped] for skipped in (one.adding, one.removing)]
    strays = rng.random() < 0.1
    others: list[list[int]] = []
    while len(others) < rng.randrange(1, 4):
        drawn = rng.sample(brokers, rng.randrange(1, min(3, len(brokers)) + 1))
        if drawn not in [*now, *others, one.replicas]:
            others.append(drawn)
        elif len(brokers) < 3:
            break
    done = rng.randrange(len(others) + 1)
    lists = others if strays else [*others[:done], *now, *others[done:]]
    return lists, None if strays else done


def make_plan(case: Case) -> tuple[StoredPlan, dict[Key, int | None]]:
    """Make a plan that is under way, and return with it how many steps each partition has behind it."""
    changes, expected = {}, {}
    brokers = sorted(case.drawn.cluster.racks)
    for key, one in case.drawn.cluster.partitions.items():
        lists, done = draw_lists(case.rng, one, brokers)
        if len(lists) > 1:
            waves = sorted(case.rng.sample(range(1, 7), len(lists) - 1))
            changes[key] = PlannedChange(lists[0], tuple(zip(waves, lists[1:], strict=True)))
            expected[key] = done
    waves = tuple(PlannedWave(wave=wave, file=f"wave-{wave}.json") for wave in range(1, 7))
    live = frozenset(case.live)
    plan = StoredPlan(waves, "", "", case.name, live, frozenset(), (), {}, {}, changes, (), None, {}, None)
    return plan, expected


def test_where_partitions_are_on_their_way(finished: Finished) -> None:
    answers = Answers()
    for case in finished.cases:
        plan, expected = make_plan(case)
        model, steps, view = case.model, PlannedSteps.of_plan(plan), case.drawn.view
        left = Counter[int]()
        for key, done in expected.items():
            if done is not None:
                left.update(wave for wave, _ in plan.changes[key].steps[done:])
        waves = range(1, 7)
        answers.add("by hand", PROGRESS, {wave: left[wave] for wave in waves}, case.name)
        work = list_work(steps, view, case.measure_disks(finished.settings).sizes)
        answers.add("apply", PROGRESS, {one.wave: one.partitions for one in work}, case.name)
        strays = [
            key
            for key, done in expected.items()
            if done is None and not case.drawn.cluster.partitions[key].is_reassigned
        ]
        progress = check_plan(plan, model, case.snapshot.partitions, KAFKA_DEFAULTS)
        changed = [(one.topic, one.partition) for one in progress.changed_partitions]
        answers.add("by hand", PROGRESS, {"strays": strays}, case.name)
        answers.add("check", PROGRESS, {"strays": changed}, case.name)
        # Of partitions that stray, `check` counts all steps as missing.
        lost = Counter(wave for key, done in expected.items() if done is None for wave, _ in plan.changes[key].steps)
        missing = {one.wave: one.missing - lost[one.wave] for one in progress.waves}
        answers.add("check", PROGRESS, missing, case.name)
        done = sum(done == len(plan.changes[key].steps) for key, done in expected.items())
        answers.add("by hand", PROGRESS, {"done": done, "fits": None not in expected.values()}, case.name)
        answers.add("check", PROGRESS, {"done": progress.done}, case.name)
        assert progress.status is not PlanStatus.FITS or not any(expected.values())
        try:
            assume_applied(case.snapshot, plan, Path("plan"))
        except SourceError:
            answers.add("what-if --after", PROGRESS, {"fits": False}, case.name)
        else:
            answers.add("what-if --after", PROGRESS, {"fits": True}, case.name)
    answers.check({PROGRESS: ("by hand", "apply", "check", "what-if --after")})
