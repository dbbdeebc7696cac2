"""A cluster seen on two days, for the tests of views and of their tables: one run for both files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pipelines.config.settings import load_settings
from pipelines.ingest.sources import SnapshotKey, find_source
from pipelines.runner import Progress, Run, make_context
from pipelines.spark.session import open_session
from pipelines.spark.store import Store
from pipelines.spark.views import VIEWS, find_dependencies
from tests.commands import in_sail
from tests.shared_runs import SharedFolder
from tests.steps import list_steps_to

BEFORE = """\
Topic: orders\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: min.insync.replicas=1
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3
\tTopic: orders\tPartition: 2\tLeader: 3\tReplicas: 3,1\tIsr: 3,1
Topic: lonely\tTopicId: BBBBBBBBBBBBBBBBBBBBBB\tPartitionCount: 2\tReplicationFactor: 1\tConfigs:
\tTopic: lonely\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1
\tTopic: lonely\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1
"""
_NEW = (
    ("eligible", "C", "min.insync.replicas=2", "Replicas: 2,1\tIsr: 2\tElr: 1\tLastKnownElr:"),
    ("rough", "D", "unclean.leader.election.enable=true", "Replicas: 2,3\tIsr: 2"),
)
AFTER = (
    BEFORE.replace("Partition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3", "Partition: 1\tLeader: 3\tReplicas: 2,3\tIsr: 3")
    .replace("Replicas: 3,1\tIsr: 3,1", "Replicas: 3,2\tIsr: 3,2")
    .replace("Partition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2", "Partition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 2,1")
    .replace("lonely", "alone")
) + "".join(
    f"Topic: {name}\tTopicId: {letter * 22}\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: {config}\n"
    f"\tTopic: {name}\tPartition: 0\tLeader: 2\t{rest}\n"
    for name, letter, config, rest in _NEW
)


def make_run(store: Store, day: int, at: datetime) -> Run:
    """Make a run over the source of a day, beside the tables."""
    options = (
        f"store.warehouse={store.warehouse}",
        "failures.seeds=1",
        "hotspots.seeds=20",
        'failures.custom=[{"brokers": [1, 2]}]',
    )
    source = find_source(f"prod={Path(store.warehouse).parent}/day-{day}.txt")
    return Run(store, make_context([source], load_settings(options, environ={}), at), Progress())


class DayRun(NamedTuple):
    """A run over the description of a day: its snapshots, and the steps that it ran."""

    snapshots: list[SnapshotKey]
    steps: list[str]


def run_day(warehouse: Path | str, day: int, text: str) -> DayRun:
    """Run what the views need over the description of a cluster on a day of November 2026, without Java."""
    Path(warehouse).with_name(f"day-{day}.txt").write_text(text)
    return in_sail(_run_day, str(warehouse), day)


def _run_day(warehouse: str, day: int) -> DayRun:
    session = open_session("tests", warehouse=None, small=True, without_java=True)
    at = datetime(2026, 11, 20 + day, tzinfo=UTC)
    run = make_run(Store(session, warehouse), day, at)
    run.go(list_steps_to(find_dependencies([view.name for view in VIEWS])[0]), clock=lambda: at)
    return DayRun(run.snapshots, list(run.seconds))


def create_warehouse(shared_folder: SharedFolder) -> Path:
    """Return the folder of two days' runs with its `tables`, made once. Read or copy it, but never change it."""

    def run(folder: Path) -> None:
        for day, text in enumerate((BEFORE, AFTER), 1):
            run_day(folder / "tables", day, text)

    return shared_folder.once("two-days", run)
