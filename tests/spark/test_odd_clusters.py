"""Runs over clusters with nothing to compare: no live broker, no topic, a broker without replicas."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.cli.run_summary import print_summary
from pipelines.config.settings import load_settings
from pipelines.errors import TableFault
from pipelines.ingest.sources import find_sources
from pipelines.runner import Progress, Run, make_context
from pipelines.spark.store import Store
from pipelines.stages.stage_registry import steps_between
from pipelines.tables import RUN_TABLES
from pipelines.verdict.verdict_points import Level

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _line(partition: int, leader: str, replicas: str, isr: str) -> str:
    return f"Topic: t\tPartition: {partition}\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}\n"


def _log_dirs(broker: int, sizes: dict[int, int]) -> dict[str, object]:
    logs = [{"partition": f"t-{p}", "size": size, "offsetLag": 0, "isFuture": False} for p, size in sizes.items()]
    return {"broker": broker, "logDirs": [{"logDir": "/d", "error": None, "partitions": logs}]}


def _sources(folder: Path) -> list[str]:
    down, sized, half = folder / "down.txt", folder / "sized", folder / "half"
    header = "Topic: t\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: \n"
    down.write_text(header + "".join(_line(p, "none", "1,2", "1,2") for p in range(3)))
    (folder / "alone.csv").write_text("broker,rack\n1,a\n2,b\n3,c\n")
    for place, sizes in ((sized, {0: 10, 1: 20}), (half, {0: 10})):
        place.mkdir()
        # If broker 1 fails, partition 0 goes offline; broker 3 is live and has no replica.
        (place / "describe.txt").write_text(_line(0, "1", "1", "1") + _line(1, "2", "2", "2"))
        (place / "brokers.csv").write_text("broker\n1\n2\n3\n")
        answers = [_log_dirs(b, {p: s for p, s in sizes.items() if p == b - 1}) for b in (1, 2)]
        (place / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": answers}))
    (folder / "election.json").write_text('{"partitions": [{"topic": "t", "partition": 0}]}')  # no topic, no broker
    names = {"alone": "alone.csv", "nothing": "election.json", "sized": "sized", "half": "half"}
    return [f"[/q]down={down}", *(f"{name}={folder / file}" for name, file in names.items())]


class Warehouse(SimpleNamespace):
    """A store, and the context of its last run."""

    store: Store
    sources: Sequence[str]

    def run(self, first: str | None = None, sources: Sequence[str] | None = None) -> Run:
        settings = load_settings([f"store.warehouse={self.store.warehouse}"], environ={})
        self.context = make_context(find_sources(list(sources or self.sources)), settings, NOW)
        work = Run(self.store, self.context, Progress())
        work.go(steps_between(first, None), clock=lambda: NOW)
        return work

    def rows(self, name: str, where: str = "true") -> list[dict[str, object]]:
        return [row.asDict(recursive=True) for row in self.store.read(name).where(where).collect()]


@pytest.fixture(scope="module")
def warehouse(spark_application: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("odd")
    warehouse = Warehouse(store=Store(spark_application, str(folder / "w")), sources=_sources(folder))
    warehouse.run()
    return warehouse


@pytest.fixture(scope="module")
def summary(warehouse: Warehouse) -> list[list[str]]:
    """The cells of the summary table that `run` prints."""
    with redirect_stdout(StringIO()) as out:
        print_summary(warehouse.store, warehouse.context.sources, list(RUN_TABLES), None, warehouse.context.settings)
    return [re.split(" {2,}", line.strip()) for line in out.getvalue().splitlines()]


def test_a_cluster_without_a_live_broker(warehouse: Warehouse, summary: list[list[str]]) -> None:
    assert ["[/q]down", "observed", "0", "-", "-", "-", "-", "-", "-", "-"] in summary
    metrics = {r["metric"]: r["value"] for r in warehouse.rows("gold.scheme_comparison", "cluster_id = '[/q]down'")}
    assert metrics["offline_partitions"] == 3
    assert warehouse.rows("gold.failure_summary", "cluster_id = '[/q]down'") == []


def test_a_broker_list_alone(warehouse: Warehouse, summary: list[list[str]]) -> None:
    for scheme in ("observed", "kafka", "naive"):
        assert ["alone", scheme, "3 (3 unknown)", "-", "-", "-", "-", "0", "0", "0.00000"] in summary
    loads = warehouse.rows("gold.current_loads", "cluster_id = 'alone' AND scheme = 'observed'")
    zeros = {"leaders": 0, "preferred_leaders": 0, "replicas": 0, "size_bytes": None}
    assert sorted((r["broker_id"], r["rack"]) for r in loads) == [(1, "a"), (2, "b"), (3, "c")]
    assert all({name: r[name] for name in zeros} == zeros for r in loads)


def test_a_source_without_topic_and_broker(warehouse: Warehouse) -> None:
    assert warehouse.rows("gold.failure_summary", "cluster_id = 'nothing'") == []
    verdicts = print_summary(
        warehouse.store, warehouse.context.sources, list(RUN_TABLES), None, warehouse.context.settings
    )
    assert verdicts["nothing"].level is Level.UNKNOWN


def test_a_cluster_without_results_has_a_row_in_the_summary(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_rows = warehouse.store.read_rows

    def omit_cluster(name: str, *arguments: Any) -> list[dict[str, Any]]:
        return [row for row in read_rows(name, *arguments) if "gold" not in name or row["cluster_id"] != "alone"]

    monkeypatch.setattr(warehouse.store, "read_rows", omit_cluster)
    print_summary(
        warehouse.store, warehouse.context.sources, ["gold.scheme_comparison"], None, warehouse.context.settings
    )
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("alone "))
    assert row.split() == ["alone", "-", "3", "(3", "unknown)", "-", "-", "-", "-", "-", "-", "-"]


def test_offline_bytes_are_unknown_only_if_a_size_is_unknown(warehouse: Warehouse) -> None:
    def offline(cluster: str) -> dict[object, object]:
        rows = warehouse.rows("gold.failure_summary", f"cluster_id = '{cluster}' AND scheme = 'observed'")
        return {row["scenario"]: row["offline_size_bytes"] for row in rows if row["scenario_kind"] == "broker"}

    assert offline("sized") == {"broker:1": 10, "broker:2": 20, "broker:3": 0}
    assert offline("half") == {"broker:1": 10, "broker:2": None, "broker:3": 0}  # the size of partition 1 is unknown
    assert offline("alone") == {"broker:1": 0, "broker:2": 0, "broker:3": 0}  # nothing goes offline


def test_a_run_of_gold_alone_checks_the_quality_gate_and_blames_the_faulty_cluster(warehouse: Warehouse) -> None:
    """Run last, as it damages a table."""
    place = warehouse.store.location("silver.partitions")
    broken = warehouse.store.read("silver.partitions").where("cluster_id = 'sized' AND partition = 0")
    broken.write.format("delta").mode("append").save(place)
    before = {row.name: row.version for row in warehouse.store.list_tables()}
    with pytest.raises(TableFault, match=r"silver.partitions: keys_unique: 2 of \d+ rows") as raised:
        warehouse.run("gold")
    assert raised.value.exit_code == 2
    after = {row.name: row.version for row in warehouse.store.list_tables()}
    written = {name for name in RUN_TABLES if after[name] != before[name]}
    assert written <= {"internal.scheme_aggregates", "ops.quality_results", "ops.runs"}
    results = warehouse.rows("ops.quality_results")
    assert {r["cluster_id"] for r in results} == {"[/q]down", "alone", "nothing", "sized", "half"}
    (failed,) = (r for r in results if not r["success"])
    assert (failed["cluster_id"], failed["expectation"]) == ("sized", "keys_unique")
    assert (failed["checked_rows"], failed["unexpected_rows"]) == (3, 2)
    assert json.loads(str(failed["example"]))["cluster_id"] == "sized"
    checks = [r for r in results if r["expectation"] == "keys_unique" and r["table_name"] == "silver.partitions"]
    counts = {"[/q]down": 3, "alone": 0, "nothing": 0, "sized": 3, "half": 2}
    assert {r["cluster_id"]: r["checked_rows"] for r in checks} == counts
