"""Write views as Delta tables of their names, for tools that read Delta tables without Spark."""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark import delta_log, delta_rs
from pipelines.spark.arrow_frames import copy_table
from pipelines.spark.delta_rs import Commit
from pipelines.spark.delta_tables import DeltaTables
from pipelines.spark.sql_text import match_snapshots, quote_text
from pipelines.spark.views import HISTORY_VIEWS, SNAPSHOTS, View, find_dependencies
from pipelines.spark.views import use_temporary_names as rename
from pipelines.tables import TABLES
from pipelines.tables.ops_tables import RUNS

_MAX_COPIED_ROWS = 200_000  # of the snapshots that a view reads of one table; views of more are written by executors
_HISTORY = "__history"  # the end of the name of a temporary view with all snapshots, and columns that are needed
_THREADS = 4  # Spark uses little of a processor while it plans a query
_LAST_COMMITS = 4  # VACUUM adds two
# Without these, Spark divides the work on a few rows into dozens of tasks, and compiles code for each query.
_ONE_TASK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# VACUUM removes what is older than the table's retention, a week by default, after each so many commits.
_VACUUM_INTERVAL = 10

_log = logging.getLogger(__name__)


class ViewTask(NamedTuple):
    """A view whose table is not up to date, and what its table's next commit records."""

    view: View
    inputs: str  # the state of all that it reads, as JSON
    is_small: bool = False  # whether all that it reads was copied into the session
    # Of HISTORY_VIEWS: the first number of each cluster whose rows are not up to date; None = all rows are written.
    first_numbers: Mapping[str, int] | None = None

    @property
    def is_history(self) -> bool:
        """Whether it reads all snapshots."""
        return self.view.name in HISTORY_VIEWS and self.first_numbers is None


class ViewTables(DeltaTables):
    """Tables of views in a warehouse that is a folder or URL."""

    def write_view_tables(self, views: Sequence[View]) -> None:
        """Write the rows of views, the first of which lists the snapshots; skip those that read nothing new.

        Of a view that reads all snapshots, only the rows of later snapshots are written if earlier ones did not change.
        """
        tables = find_dependencies([view.name for view in views])[0]
        with ThreadPoolExecutor(_THREADS) as pool:
            states = dict(zip(tables, pool.map(self._read_state, tables), strict=True))
        with self._plan_one_task():
            snapshots = self._list_snapshots(views[0])
            tasks = [ViewTask(view, _describe_inputs(view, states, snapshots)) for view in views]
            with ThreadPoolExecutor(_THREADS) as pool:
                written = list(pool.map(self._read_inputs, [view.name for view in views]))
            stale = [
                task._replace(first_numbers=self._find_first_numbers(task, inputs, snapshots))
                for task, inputs in zip(tasks, written, strict=True)
                if task.inputs != inputs
            ]
            copied = self._open_inputs(stale, _find_recent(snapshots, stale))
            stale = [task._replace(is_small=copied.issuperset(_list_inputs(task))) for task in stale]
            self._write_all([task for task in stale if task.is_small])
        self._write_all([task for task in stale if not task.is_small])

    def _find_first_numbers(self, task: ViewTask, written: str, snapshots: pa.Table) -> Mapping[str, int] | None:
        """Find the first number of each cluster whose rows are not in the table of a view; None = write all rows.

        written: what its last commit has recorded.
        """
        if task.view.name not in HISTORY_VIEWS or task.view.name == SNAPSHOTS or not written:
            return None
        try:
            before, now = json.loads(written), json.loads(task.inputs)
            numbers = before["numbers"] if before["query"] == now["query"] else None
        except (ValueError, TypeError, KeyError):  # an earlier version wrote it
            return None
        if numbers is None:
            return None
        if not all(self._has_only_appends(name, before["tables"].get(name, "")) for name in now["tables"]):
            return None
        rows = snapshots.to_pylist()
        later = [1 if _digest_snapshots(rows, numbers, less) == before["history"][less] else 0 for less in (0, 1)]
        if not any(later):
            return None
        return {row["cluster_id"]: numbers.get(row["cluster_id"], 0) + later[0] for row in rows}

    def _has_only_appends(self, name: str, state: str) -> bool:
        """Tell whether since a state of a table, rows were only added, by commits that its log still has."""
        version, _, _ = state.partition(" ")
        if not version or self._read_state(name, int(version)) != state:
            return False
        count = self.last_version(name) - int(version)
        return count == 0 or all(map(_is_append, self.read_history(name, count)))

    @contextmanager
    def _plan_one_task(self) -> Iterator[None]:
        """Make Spark plan each query on copied rows as one task; elsewhere none are copied, nor may settings change."""
        conf = self.spark.conf
        settings = _ONE_TASK if self._is_local else {}
        previous = {name: conf.get(name) or value for name, value in settings.items()}
        try:
            for name, value in settings.items():
                conf.set(name, value)
            yield
        finally:
            for name, value in previous.items():
                conf.set(name, value)

    def _list_snapshots(self, view: View) -> pa.Table:
        """Evaluate the view of snapshots, which all others read, once; a temporary view holds its rows."""
        task = ViewTask(view, "")
        self._open_inputs([task], ())
        frame = self.spark.sql(_rename_inputs(task))
        rows = frame.toArrow()
        copy_table(self.spark, rows, frame.schema).coalesce(1).createOrReplaceTempView(rename(view.name))
        return rows

    def _open_inputs(self, tasks: Sequence[ViewTask], recent: Sequence[SnapshotKey]) -> set[str]:
        """Make the tables of views known by the names of `_list_inputs`; return what queries read without a file.

        recent: the snapshots that views read, but for those that read all.
        """
        inputs = {temporary: table for task in tasks for temporary, table in _list_inputs(task).items()}
        tables = {temporary: table for temporary, table in inputs.items() if table in TABLES}

        def open_table(temporary: str) -> bool:
            name = tables[temporary]
            is_history = temporary.endswith(_HISTORY)
            sql = "\n".join(task.view.sql for task in tasks if temporary in _list_inputs(task))
            columns = [c for c in TABLES[name].column_names if c in set(re.findall(r"\w+", sql)) or not is_history]
            rows = self._copy_rows(name, None if is_history else recent, columns, _MAX_COPIED_ROWS)
            frame = self._open(name) if rows is None else rows.coalesce(1)
            if rows is None and not is_history:
                frame = frame.where(match_snapshots(recent))
            frame.createOrReplaceTempView(temporary)
            return rows is not None

        with ThreadPoolExecutor(_THREADS) as pool:
            are_copied = list(pool.map(open_table, tables))
        return set(inputs) - {name for name, is_copied in zip(tables, are_copied, strict=True) if not is_copied}

    def _copy_rows(
        self, name: str, snapshots: Sequence[SnapshotKey] | None, columns: Sequence[str], max_rows: int
    ) -> DataFrame | None:
        """Copy the rows of snapshots into the session; None if they may be many, or are not on this machine."""
        rows = self.read_arrow(name, snapshots, columns, max_rows)
        if rows is None:
            return None
        schema = StructType([field for field in TABLES[name].schema if field.name in columns])
        return copy_table(self.spark, rows, schema)

    def _write_all(self, tasks: Sequence[ViewTask]) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._write_view, tasks))

    def _write_view(self, task: ViewTask) -> None:
        """Replace the rows of the table of a view in one commit, and remove old files now and then."""
        view, location = task.view, self.location(task.view.name)
        rows = self.spark.sql(f"SELECT * FROM {rename(SNAPSHOTS)}" if view.name == SNAPSHOTS else _rename_inputs(task))
        numbers = task.first_numbers
        changed = _match_numbers(numbers, quote_text) if numbers else "true"
        rows = rows.where(changed)
        arrow_rows = rows.toArrow() if task.is_small else None
        with self._lock(view.name), self.explain_faults(f"table {view.name} at {location}"):
            if arrow_rows is not None:
                condition = _match_numbers(numbers, delta_rs.quote) if numbers else ""
                delta_rs.overwrite_table(Path(location), arrow_rows, view.comment, task.inputs, condition)
            else:
                writer = rows.write.format("delta").mode("overwrite").option("userMetadata", task.inputs)
                writer = writer.option(*(("replaceWhere", changed) if numbers else ("overwriteSchema", "true")))
                writer.option("optimizeWrite", "true").save(location)
            if self.last_version(view.name) % _VACUUM_INTERVAL == 0:
                self.vacuum(view.name)
        _log.info("%s: written", view.name)

    def _read_state(self, name: str, version: int | None = None) -> str:
        """Read the number and the time of a commit of a table, by default of the last; empty if it is gone."""
        if self._is_local:
            commits = reversed(delta_log.list_commits(Path(self.location(name))))
            commit = next((file for file in commits if version is None or int(file.stem) == version), None)
            return f"{int(commit.stem)} {commit.stat().st_mtime_ns}" if commit else ""
        history = self.spark.sql(f"DESCRIBE HISTORY {self._sql_name(name)} {'LIMIT 1' if version is None else ''}")
        chosen = history if version is None else history.where(F.col("version") == version)
        row = chosen.selectExpr("version", "CAST(timestamp AS STRING) AS time").first()
        return f"{row.version} {row.time}" if row else ""

    def _read_inputs(self, name: str) -> str:
        """Read what the last write to the table of a view has recorded as its inputs; empty = nothing."""
        commits = [commit for commit in self.read_history(name, _LAST_COMMITS) if commit.operation == "WRITE"]
        return commits[0].metadata if commits else ""


def _is_append(commit: Commit) -> bool:
    """Tell whether a commit left all rows that a table had: it added some, or wrote them to other files."""
    return (
        commit.mode == "Append" if commit.operation == "WRITE" else commit.operation.startswith(("OPTIMIZE", "VACUUM"))
    )


def _match_numbers(first_numbers: Mapping[str, int], quote: Callable[[str], str]) -> str:
    """Write the condition that a row of a history is to be written."""
    parts = (f"(cluster_id = {quote(cluster)} AND number >= {n})" for cluster, n in sorted(first_numbers.items()))
    return " OR ".join(parts)


def _list_inputs(task: ViewTask) -> dict[str, str]:
    """List the names of the temporary views that a view reads, and the table or view that each shows."""
    suffix = _HISTORY if task.is_history else ""
    return {f"{rename(name)}{suffix if name in TABLES else ''}": name for name in task.view.dependencies}


def _rename_inputs(task: ViewTask) -> str:
    """Return the query of a view over its temporary views."""
    sql = rename(task.view.sql)
    for temporary, name in _list_inputs(task).items():
        sql = re.sub(rf"\b{rename(name)}\b", temporary, sql)
    return sql


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
    return json.dumps({**inputs, "query": _digest(view.sql)})


def _digest_snapshots(rows: Sequence[Mapping[str, Any]], numbers: Mapping[str, int], less: int) -> str:
    """Digest the snapshots up to the number of each cluster, less 0 or 1."""
    earlier = [row for row in rows if row["number"] <= numbers.get(row["cluster_id"], 0) - less]
    return _digest("\n".join(sorted(str({**row, "newest": None}) for row in earlier)))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
