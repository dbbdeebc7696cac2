"""Publish the views: in a catalog as views, in a folder as Delta tables, for tools that read these without Spark."""

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.delta_rs import Commit
from pipelines.spark.sql_session import SparkSql, SqlSession
from pipelines.spark.store import Store, select_views
from pipelines.spark.views import HISTORY_VIEWS, SNAPSHOTS, VIEWS, View, create_views, find_dependencies
from pipelines.sql_text import match_numbers
from pipelines.tables.ops_tables import RUNS

_THREADS = 4  # of which most wait
_LAST_COMMITS = 4  # VACUUM adds two
# VACUUM removes what is older than the table's retention, a week by default, after each so many commits.
_VACUUM_INTERVAL = 10

_log = logging.getLogger(__name__)


class ViewTask(NamedTuple):
    """A view whose table is not up to date, and what its table's next commit records."""

    view: View
    inputs: str  # the state of all that it reads, as JSON
    # Of HISTORY_VIEWS: the first number of each cluster whose rows are not up to date; None = all rows are written.
    first_numbers: Mapping[str, int] | None = None

    @property
    def is_history(self) -> bool:
        """Whether it reads all snapshots."""
        return self.view.name in HISTORY_VIEWS and self.first_numbers is None


def publish_views(store: Store) -> None:
    """Create every view whose tables exist in the catalog; in a folder, write its rows as a table."""
    tables, _ = find_dependencies([view.name for view in VIEWS])
    if store.has_catalog:
        create_views(store.spark, select_views(VIEWS, set(store.register(tables))))
    elif views := select_views(VIEWS, {name for name in tables if store.exists(name)}):
        write_view_tables(store, views)


def write_view_tables(store: Store, views: Sequence[View]) -> None:
    """Write the rows of views, the first of which lists the snapshots; skip those that read nothing new.

    Of a view that reads all snapshots, only the rows of later snapshots are written if earlier ones did not change.
    """
    snapshots, tasks = _compare_inputs(store, views)
    stale = [
        task._replace(first_numbers=_find_first_numbers(store, task, inputs, snapshots))
        for task, inputs in tasks
        if task.inputs != inputs
    ]
    recent = _find_recent(snapshots, stale)
    for read, group in (
        (recent, [task for task in stale if not task.is_history]),
        (None, [task for task in stale if task.is_history]),
    ):
        if group:
            session = store.open_sql([task.view.name for task in group], read, {SNAPSHOTS: snapshots})
            # Spark uses little of a processor while it plans a query; DuckDB divides each query among all of them.
            with ThreadPoolExecutor(_THREADS if isinstance(session, SparkSql) else 1) as pool:
                list(pool.map(partial(_write_view, store, session), group))


def find_current(store: Store, views: Sequence[View]) -> list[str]:
    """Find the views of a local folder whose tables are up to date."""
    existing = select_views(views, {name for name in find_dependencies(v.name for v in views)[0] if store.exists(name)})
    if not existing or not store.exists(SNAPSHOTS):
        return []
    return [task.view.name for task, inputs in _compare_inputs(store, existing)[1] if task.inputs == inputs]


def _compare_inputs(store: Store, views: Sequence[View]) -> tuple[pa.Table, list[tuple[ViewTask, str]]]:
    """Return the snapshots, and what the last write to the table of each view has recorded as its inputs."""
    tables = find_dependencies([view.name for view in views])[0]
    with ThreadPoolExecutor(_THREADS) as pool:
        states = dict(zip(tables, pool.map(store.read_state, tables), strict=True))
    with store.explain_faults():
        snapshots = store.open_sql([SNAPSHOTS]).run(f"SELECT * FROM {SNAPSHOTS}")
    tasks = [ViewTask(view, _describe_inputs(view, states, snapshots)) for view in views]
    with ThreadPoolExecutor(_THREADS) as pool:
        written = pool.map(lambda view: _read_inputs(store, view.name), views)
        return snapshots, list(zip(tasks, written, strict=True))


def _write_view(store: Store, session: SqlSession, task: ViewTask) -> None:
    """Replace the rows of the table of a view in one commit, and remove old files now and then."""
    view = task.view
    sql = f"SELECT * FROM {SNAPSHOTS}" if view.name == SNAPSHOTS else view.sql
    if task.first_numbers:
        sql = f"SELECT * FROM ({sql}) WHERE {match_numbers(task.first_numbers)}"
    rows = session.stream(sql, view.columns)
    if not store.overwrite(view.name, rows, view.comment, task.inputs, task.first_numbers):
        return
    version = store.last_version(view.name)
    if version > 0 and version % _VACUUM_INTERVAL == 0:
        store.vacuum(view.name)
    _log.info("%s: written", view.name)


def _find_first_numbers(store: Store, task: ViewTask, written: str, snapshots: pa.Table) -> Mapping[str, int] | None:
    """Find the first number of each cluster whose rows are not in the table of a view; None = write all rows.

    written: what its last commit has recorded.
    """
    has_numbers = any(one.name == "number" for one in task.view.columns)
    if task.view.name not in HISTORY_VIEWS or task.view.name == SNAPSHOTS or not (has_numbers and written):
        return None
    try:
        before, now = json.loads(written), json.loads(task.inputs)
        numbers = before["numbers"] if before["query"] == now["query"] else None
    except (ValueError, TypeError, KeyError):  # an earlier version wrote it
        return None
    if numbers is None:
        return None
    if not all(_has_only_appends(store, name, before["tables"].get(name, "")) for name in now["tables"]):
        return None
    rows = snapshots.to_pylist()
    later = [1 if _digest_snapshots(rows, numbers, less) == before["history"][less] else 0 for less in (0, 1)]
    if not any(later):
        return None
    return {row["cluster_id"]: numbers.get(row["cluster_id"], 0) + later[0] for row in rows}


def _has_only_appends(store: Store, name: str, state: str) -> bool:
    """Tell whether since a state of a table, rows were only added, by commits that its log still has."""
    version, _, _ = state.partition(" ")
    if not version or store.read_state(name, int(version)) != state:
        return False
    count = store.last_version(name) - int(version)
    return count == 0 or all(map(_is_append, store.read_history(name, count)))


def _is_append(commit: Commit) -> bool:
    """Tell whether a commit left all rows that a table had: it added some, or wrote them to other files."""
    return (
        commit.mode == "Append" if commit.operation == "WRITE" else commit.operation.startswith(("OPTIMIZE", "VACUUM"))
    )


def _read_inputs(store: Store, name: str) -> str:
    """Read what the last write to the table of a view has recorded as its inputs; empty = nothing."""
    commits = [commit for commit in store.read_history(name, _LAST_COMMITS) if commit.operation == "WRITE"]
    return commits[0].metadata if commits else ""


def _find_recent(snapshots: pa.Table, tasks: Sequence[ViewTask]) -> list[SnapshotKey]:
    """Find the snapshots that views read of most tables: of each cluster the newest one and the one before it.

    Views of the history also read those whose rows they write, and the one before these.
    """
    rows = snapshots.to_pylist()
    first = {row["cluster_id"]: row["number"] for row in rows if row["newest"]}
    for task in tasks:
        for cluster, number in (task.first_numbers or {}).items():
            first[cluster] = min(first[cluster], number)
    return [
        SnapshotKey(row["cluster_id"], row["snapshot_id"])
        for row in rows
        if row["number"] >= first[row["cluster_id"]] - 1
    ]


def _describe_inputs(view: View, states: Mapping[str, str], snapshots: pa.Table) -> str:
    """Describe all that the rows of a view depend on, as JSON."""
    is_timeless = view.name != SNAPSHOTS and "seen_at" not in view.sql  # a cluster seen again changes only the time
    used = snapshots.drop_columns(["first_seen_at", "seen_at"]) if is_timeless else snapshots
    tables = {name: states[name] for name in view.dependencies if name in states and name != RUNS.name}
    inputs = {"tables": tables, "snapshots": _digest("\n".join(sorted(map(str, used.to_pylist()))))}
    if view.name in HISTORY_VIEWS and view.name != SNAPSHOTS:
        rows = snapshots.to_pylist()
        numbers = {row["cluster_id"]: row["number"] for row in rows if row["newest"]}
        inputs |= {"numbers": numbers, "history": [_digest_snapshots(rows, numbers, less) for less in (0, 1)]}
    return json.dumps({**inputs, "query": _digest(view.sql)}, sort_keys=True)


def _digest_snapshots(rows: Sequence[Mapping[str, Any]], numbers: Mapping[str, int], less: int) -> str:
    """Digest the snapshots up to the number of each cluster, less 0 or 1."""
    earlier = [row for row in rows if row["number"] <= numbers.get(row["cluster_id"], 0) - less]
    return _digest("\n".join(sorted(str({**row, "newest": None}) for row in earlier)))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
