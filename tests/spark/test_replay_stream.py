"""Event logs that arrive file by file give the tables that all at once give; stopped and begun again, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.commands.replay import Asked, snapshot_of_log, timeline, write_log
from pipelines.replay_run import write_events, write_replay
from pipelines.replay_stream import follow
from pipelines.store import Store
from tests.spark.test_replay_tables import SCENARIO, in_order, rows

GOLD = ("leadership_events", "state_transitions", "replication_health", "requests", "replayed_partitions")


@pytest.mark.slow
def test_a_stream_is_as_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    scenario = tmp_path / "night.yaml"
    scenario.write_text(SCENARIO)
    told = timeline(Asked([str(scenario)]))
    whole, key = Store(spark, str(tmp_path / "whole")), snapshot_of_log(told)
    write_events(spark, whole, told.log, [key])
    write_replay(whole, [key])
    log = tmp_path / "log.jsonl"
    write_log(told, log)
    lines = log.read_text().splitlines(keepends=True)
    folder = tmp_path / "arriving"
    folder.mkdir()
    streamed = Store(spark, str(tmp_path / "streamed"))
    third = len(lines) // 3
    for part in range(3):  # each time the query is begun again, from its checkpoint
        end = len(lines) if part == 2 else (part + 1) * third
        (folder / f"part-{part}.jsonl").write_text("".join(lines[part * third : end]))
        assert follow(spark, streamed, str(folder), once=True).awaitTermination(300)
    for table in GOLD:
        assert in_order(rows(streamed, f"gold.{table}")) == in_order(rows(whole, f"gold.{table}")), table
    assert streamed.read("silver.cluster_events").count() == len(lines)


def test_what_is_no_event_stops_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "arriving"
    folder.mkdir()
    (folder / "bad.jsonl").write_text(
        '{"cluster_id": "c", "snapshot_id": "s", "event": 0, "at_ms": 1, "kind": "dances"}\n'
    )
    store = Store(spark, str(tmp_path / "w"))
    with pytest.raises(Exception, match=r"bad\.jsonl.*dances"):
        follow(spark, store, str(folder), once=True).awaitTermination(300)
    assert not store.exists("silver.cluster_events")
