"""gold.plans and gold.plan_moves of a run over several clusters, against the command without Spark."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipelines.cli.common_options import PlanOptions
from pipelines.cli.plan_command import parse_request
from pipelines.config.plan_parameters import build_metric_options, build_wave_limits
from pipelines.config.settings import load_settings
from pipelines.errors import StoreError
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source, find_source, find_sources
from pipelines.plan_files.plan_creation import create_plan
from pipelines.runner import Progress, Run, make_context
from pipelines.spark.store import Store
from pipelines.stages.plan_stage import PlanParameters, pack_plans, unpack_plan_moves
from pipelines.stages.stage_registry import STEPS
from pipelines.tables.gold_tables import PLAN_MOVES
from pipelines.verdict.recommended_plans import list_recommended_plans
from pipelines.what_if.what_if_answers import evaluate_brokers
from tests.unit.planning import judge
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults
from udfs.planning.plan_batches import BROKERS, PARTITIONS, TOPICS
from udfs.planning.plan_metrics import MetricOptions
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_rows import METRICS, PLAN, PLAN_METRICS, build_metric_rows, build_plan_row, read_metric
from udfs.planning.waves import WaveLimits

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAN_TABLES = ("internal.packed_plans", "gold.plans", "gold.plan_metrics", "gold.plan_moves")
# What the verdicts that recommend plans need, beside the silver tables.
AGGREGATES = (
    *("gold.cluster_findings", "internal.scheme_aggregates", "gold.failure_summary", "gold.leader_hotspots"),
    *("gold.disk_after_failure", "gold.over_capacity", "gold.headroom", "gold.findings"),
)
BEFORE = STEPS[: STEPS.index("quality") + 1]
KEYS = (("cluster_id", pa.string()), ("snapshot_id", pa.string()))
Rows = list[dict[str, Any]]


def _line(partition: int, leader: str, replicas: str, isr: str, more: str = "") -> str:
    return f"Topic: t\tPartition: {partition}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}{more}\n"


def _sources(folder: Path, samples: Path) -> dict[str, Path]:
    made = {"kraft": samples / "kafka-4.1.1-kraft", "empty": folder / "empty.csv"}
    for name, removed in (("model", [3]), ("rack", [0, 3, 6, 9, 12, 15])):
        made[name] = folder / f"{name}.json"
        made[name].write_text(json.dumps(judge.model(3, removed=removed)))
    made["empty"].write_text("broker,rack\n1,a\n2,b\n")
    made["one"] = folder / "one.txt"
    made["one"].write_text(_line(0, "1", "1", "1") + _line(1, "1", "1", "1"))
    made["moving"] = folder / "moving.txt"
    under_way = "\tAdding Replicas: 3\tRemoving Replicas: 2"
    lines = [_line(p, "1", "1,2", "1,2") for p in range(3)] + [_line(3, "1", "1,2,3", "1,2", under_way)]
    made["moving"].write_text("".join(lines) + _line(4, "none", "9,8", "9") + _line(5, "1", "1,9", "1"))
    return made


class Plans:
    """The tables of a goal, by cluster."""

    def __init__(self, store: Store, context: Any) -> None:
        self.warehouse = store.warehouse
        self.plans = {row["cluster_id"]: row for row in _rows(store, context, "gold.plans")}
        self.metrics: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in self.plans}
        for row in _rows(store, context, "gold.plan_metrics"):
            self.metrics[row["cluster_id"]][row["metric"]] = {name: row[name] for name in PLAN_METRICS.names}
        self.moves: dict[str, Rows] = {name: [] for name in self.plans}
        for row in _rows(store, context, "gold.plan_moves"):
            self.moves[row["cluster_id"]].append(row)


def _rows(store: Store, context: Any, name: str) -> Rows:
    return [row.asDict(recursive=True) for row in store.read(name, context.snapshots).collect()]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> dict[str, Path]:
    return _sources(tmp_path_factory.mktemp("plans"), samples)


@pytest.fixture(scope="module")
def made(
    sources: dict[str, Path], spark_application: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Plans]:
    """A run with the goal leaders, then drain, then none."""
    folder = tmp_path_factory.mktemp("warehouse")
    out: dict[str, Plans] = {}
    for goal in ("leaders", "drain", ""):
        settings = load_settings([f"store.warehouse={folder}", f"plans.goals={goal or '[]'}"], environ={})
        context = make_context(find_sources([f"{name}={path}" for name, path in sources.items()]), settings, NOW)
        store = Store(spark_application, str(folder), "")
        steps = PLAN_TABLES if out else (*BEFORE, *AGGREGATES, *PLAN_TABLES)
        Run(store, context, Progress()).go(steps, clock=lambda: NOW)
        out[goal] = Plans(store, context)
    return out


@pytest.mark.parametrize(("goal", "cluster"), [("leaders", "kraft"), ("leaders", "moving"), ("drain", "model")])
def test_as_the_command_without_spark(
    goal: str, cluster: str, made: dict[str, Plans], sources: dict[str, Path], tmp_path: Path
) -> None:
    settings = load_settings(environ={})
    request = parse_request(PlanOptions(goal), settings)
    snapshot = load_snapshot(find_source(f"{cluster}={sources[cluster]}"))
    options = (build_wave_limits(settings), build_metric_options(settings), settings.topics.defaults)
    created = create_plan(snapshot, request, tmp_path / "plan", *options)
    assert build_plan_row(request, created.summary).to_pylist() == [
        {name: made[goal].plans[cluster][name] for name in PLAN.names}
    ]
    metrics = build_metric_rows(request, created.summary).to_pylist()
    assert {row["metric"]: row for row in metrics} == made[goal].metrics[cluster]
    written = json.loads((tmp_path / "plan" / "plan.json").read_text())
    for name in METRICS:
        found = made[goal].metrics[cluster][name]
        assert [found["before"], found["after"]] == [
            read_metric(written["metrics"][when], name) for when in ("before", "after")
        ]
    rows = sorted(made[goal].moves[cluster], key=lambda row: (row["topic"], row["partition"]))
    assert len(rows) == len(written["changes"]) == made[goal].plans[cluster]["changed_partitions"]
    for row, change in zip(rows, written["changes"], strict=True):
        assert {row["goal"]} == {goal}
        assert (row["topic"], row["partition"], row["reason"]) == tuple(
            change[name] for name in ("topic", "partition", "reason")
        )
        before, after = change["before"], change["after"]
        assert (row["replicas_before"], row["replicas_after"]) == (before, after)
        assert row["adding_replicas"] == [broker for broker in after if broker not in before]
        assert row["removing_replicas"] == [broker for broker in before if broker not in after]
        assert (row["copied_bytes"] or 0) == (change["bytes_to_copy"] or 0)  # neither knows what no source shows
        assert [row["first_wave"], row["last_wave"]] == [change["steps"][i]["wave"] for i in (0, -1)]


def test_metrics_are_rows(made: dict[str, Plans]) -> None:
    row, metrics = made["drain"].plans["model"], made["drain"].metrics["model"]
    assert {*METRICS, "copied_bytes", "moves", "leader_changes"} < {*metrics}
    assert metrics["replicas_max_over_mean"]["after"] < metrics["replicas_max_over_mean"]["before"]
    assert metrics["loss_probability_of_3_brokers"]["after"] is not None
    assert metrics["loss_probability_of_4_brokers"]["after"] is None
    for name in ("copied_bytes", "moves", "leader_changes"):
        assert (metrics[name]["before"], metrics[name]["after"]) == (0, row[name])
    assert json.loads(row["plan_request"])["goal"] == "drain"
    assert json.loads(row["certificate"])["lower_bound"] == row["lower_bound"] <= row["objective_value"]


def test_an_infeasible_request_is_a_row_with_reasons(made: dict[str, Plans]) -> None:
    for goal, infeasible in (("leaders", set()), ("drain", {"kraft", "empty", "one", "moving", "rack"})):
        plans = made[goal].plans
        assert set(plans) == {"kraft", "empty", "model", "rack", "one", "moving"}
        assert {name for name, row in plans.items() if not row["feasible"]} == infeasible
        for name in infeasible:
            row = plans[name]
            assert (row["moves"], row["certificate"], made[goal].moves[name]) == (None, None, [])
            assert made[goal].metrics[name] == {}
    assert "there is no broker to drain" in made["drain"].plans["kraft"]["reasons"][0]
    assert "rack r0 would have no broker left" in made["drain"].plans["rack"]["reasons"][0]


def test_odd_clusters(made: dict[str, Plans]) -> None:
    plans = made["leaders"].plans
    assert plans["one"]["changed_partitions"] == plans["empty"]["changed_partitions"] == 0
    metrics = made["leaders"].metrics
    assert metrics["one"]["worst_survivor_ratio"]["before"] is None
    assert metrics["one"]["leaders_max_over_mean"]["before"] == 1.0
    assert metrics["empty"]["replicas_max_over_mean"]["before"] is None
    assert plans["moving"]["frozen_partitions"] == 3  # one moves, one is offline, one has a down replica
    assert [reason.split(",")[0] for reason in plans["moving"]["frozen_reasons"]] == [
        "1 because of an ongoing reassignment",
        "1 because of the lack of an in-sync replica on a live broker",
        "1 because of a replica on a down broker",
    ]
    assert {row["partition"] for row in made["leaders"].moves["moving"]} <= {0, 1, 2}


def test_plans_of_other_settings_are_rejected(
    made: dict[str, Plans], sources: dict[str, Path], spark: SparkSession
) -> None:
    settings = load_settings([f"store.warehouse={made[''].warehouse}", "plans.goals=expand"], environ={})
    context = make_context(find_sources([f"one={sources['one']}"]), settings, NOW)
    run = Run(Store(spark, made[""].warehouse, ""), context, Progress())
    # Without a goal there are no rows, and so no settings that they depend on.
    run.go(PLAN_TABLES[1:2], clock=lambda: NOW)
    run.go(PLAN_TABLES[:1], clock=lambda: NOW)
    other = make_context(find_sources([f"one={sources['one']}"]), load_settings(environ={}), NOW)
    with pytest.raises(StoreError, match=r"internal\.packed_plans was made with other settings: plans\.goals"):
        Run(Store(spark, made[""].warehouse, ""), other, Progress()).go(PLAN_TABLES[1:], clock=lambda: NOW)


def test_without_a_goal_there_are_no_plans(made: dict[str, Plans]) -> None:
    assert made[""].plans == {}
    assert made[""].moves == {}


def test_moves_of_a_small_cluster(spark: SparkSession) -> None:
    """Broker 1 leads both partitions of a topic: one of them changes its order."""
    key = {"cluster_id": "c", "snapshot_id": "s"}
    brokers = [
        key
        | {"broker_id": id_, "rack": None, "live": True, "draining": False}
        | {"release_from": None, "release_before": None, "follower_fetching": None, "cordoned": None}
        for id_ in (1, 2)
    ]
    topics = [key | {"topic": "t", "marked_for_deletion": False, "min_insync_replicas": 1, "replication_factor": 2}]
    loads = {"size_bytes": None, "bytes_in_per_s": None, "bytes_out_per_s": None}
    partitions = [
        key
        | loads
        | {"topic": "t", "partition": p, "leader": 1, "replicas": [1, 2], "isr": [1, 2]}
        | {"adding_replicas": None, "removing_replicas": None, "offline_replicas": None}
        | {"replica_sizes": [None, None]}
        for p in (0, 1)
    ]
    frames = [
        spark.createDataFrame([tuple(row[f.name] for f in fields) for row in rows], StructType(fields))
        for rows, schema in ((topics, TOPICS), (partitions, PARTITIONS), (brokers, BROKERS))
        for fields in [[*from_arrow_schema(pa.schema([*KEYS, *schema]))]]
    ]
    parameters = PlanParameters({"c": [PlanRequest("leaders")]}, WaveLimits(), MetricOptions(), KAFKA_DEFAULTS, "{}")
    moves = unpack_plan_moves(pack_plans(*frames, parameters))
    (changed,) = [row.partition for row in moves.collect()]
    expected = ("c", "s", "leaders", "t", changed, [1, 2], [2, 1], [], [], None, 1, 1)
    reason = "preferred leader: to even out leaders (mean: 1.0 per broker)"
    frame = spark.createDataFrame([(*expected, reason)], PLAN_MOVES.schema)
    assert_df_equality(moves, frame, ignore_nullable=True, ignore_metadata=True)


def test_plans_that_the_verdict_recommends(
    made: dict[str, Plans], sources: dict[str, Path], spark: SparkSession
) -> None:
    """Of each cluster those that the verdict of `what-if` names, with the options of its commands; else leaders."""
    settings = load_settings([f"store.warehouse={made[''].warehouse}"], environ={})
    context = make_context(find_sources([f"{name}={path}" for name, path in sources.items()]), settings, NOW)
    store = Store(spark, made[""].warehouse, "")
    Run(store, context, Progress()).go(PLAN_TABLES, clock=lambda: NOW)
    requests: dict[str, dict[str, Any]] = {name: {} for name in sources}
    for row in _rows(store, context, "gold.plans"):
        requests[row["cluster_id"]][row["goal"]] = json.loads(row["plan_request"])
    for name, path in sources.items():
        steps = [] if name == "empty" else _list_plan_steps(find_source(f"{name}={path}"), settings.topics.defaults)
        goals = {words[words.index("--goal") + 1]: words for words in steps}
        assert set(requests[name]) == (set(goals) or {"leaders"})
        for goal, words in goals.items():
            if "--rf" in words:
                assert requests[name][goal]["factor"] == int(words[words.index("--rf") + 1])
                assert requests[name][goal]["topics"] == sorted(words[words.index("--topics") + 1].split(","))
    assert {goal for goals in requests.values() for goal in goals} > {"rf", "repair"}


def _list_plan_steps(source: Source, defaults: TopicDefaults) -> list[list[str]]:
    """List the words of the commands of plans that the verdict of `what-if` recommends."""
    plans = list_recommended_plans(evaluate_brokers(load_snapshot(source), defaults).verdict)
    commands = [plan.step.partition("kafka-placement plan")[2] for plan in plans]
    return [shlex.split(command.split(";")[0]) for command in commands]
