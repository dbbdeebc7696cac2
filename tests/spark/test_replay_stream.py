"""Event logs that arrive file by file give the tables that all at once give; stopped and begun again, too."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from pipelines.commands.replay import Asked, timeline, write_rows
from pipelines.ingest.sources import SnapshotKey
from pipelines.replay_run import write_events, write_replay
from pipelines.replay_stream import follow
from pipelines.store import Store
from tests.spark.test_replay_tables import SCENARIO
from tests.unit.replay.any_cases import with_data, with_raft
from udfs.replay.events import Begin, Event, event_log

GOLD = (
    "leadership_events",
    "state_transitions",
    "replication_health",
    "requests",
    "replayed_partitions",
    "availability",
)


class _Stopped(Store):
    """A store whose machine goes off, once, when a table is to be written."""

    at = ""

    def replace(self, table: Any, rows: Any, snapshots: Any) -> None:
        if table.name == self.at:
            self.at = ""
            raise RuntimeError("off")
        super().replace(table, rows, snapshots)


def _arrive(draw: random.Random, name: str, begin: Begin, events: list[Event]) -> list[pa.Table]:
    """The log in three pieces, as they arrive; its begin knows nothing of what is to come."""
    whole = event_log(begin, events, cluster=name, snapshot=name)
    first = event_log(begin, [], events[0].at_ms, cluster=name, snapshot=name)
    cuts = sorted(draw.randint(0, len(events)) for _ in range(2))
    number = whole["event"]
    pieces = [
        whole.filter(pc.and_(pc.greater_equal(number, low), pc.less(number, high)))
        for low, high in zip([0, *cuts], [*cuts, len(events)], strict=True)
    ]
    return [pa.concat_tables([first, pieces[0]]), *pieces[1:]]


@pytest.mark.slow
def test_a_stream_is_as_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Also where events arrive late, requests have several partitions, and the machine goes off meanwhile."""
    draw = random.Random(8)
    scenario = tmp_path / "night.yaml"
    scenario.write_text(SCENARIO)
    told = timeline(Asked([str(scenario)]))
    cases = {f"c{n}": (with_raft if n % 3 == 0 else with_data)(n) for n in range(8)}
    cases["told"] = (told.begin, list(told.events))
    arriving = {name: _arrive(draw, name, *case) for name, case in cases.items()}
    arriving["c1"] = [arriving["c1"][0], *arriving["c1"][:0:-1]]
    whole = Store(spark, str(tmp_path / "whole"))
    keys = [SnapshotKey(name, name) for name in cases]
    logs = [event_log(*case, cluster=name, snapshot=name) for name, case in cases.items()]
    write_events(spark, whole, pa.concat_tables(logs), keys)
    write_replay(whole, keys)
    folder = tmp_path / "arriving"
    folder.mkdir()
    streamed = _Stopped(spark, str(tmp_path / "streamed"))
    for part in range(3):  # each time the query is begun again, from its checkpoint
        write_rows(pa.concat_tables([pieces[part] for pieces in arriving.values()]), folder / f"part-{part}.jsonl")
        if part == 2:  # a file that has come before comes again
            (folder / "again.jsonl").write_text((folder / "part-1.jsonl").read_text())
        if part == 1:
            streamed.at = "gold.replayed_partitions"
            with pytest.raises(Exception, match="off"):
                follow(spark, streamed, str(folder), once=True).awaitTermination(300)
        assert follow(spark, streamed, str(folder), once=True).awaitTermination(300)
    assert streamed.read("silver.cluster_events").count() == whole.read("silver.cluster_events").count()
    for table in GOLD:
        want = streamed.read(f"gold.{table}").exceptAll(whole.read(f"gold.{table}")).collect()
        assert not want, (table, want[:3])
        assert streamed.read(f"gold.{table}").count() == whole.read(f"gold.{table}").count(), table


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
