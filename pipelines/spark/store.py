"""The only module that reads or writes Delta tables: by path under one warehouse folder, or by name in a catalog.

A write is one commit that replaces the given snapshots' rows: readers see all of a snapshot in a table, or none of it,
and the same snapshot again replaces itself. Where another run writes to the table at the same time, the write is done
again: for another cluster it then finds nothing in its way, and for the same snapshots the last one holds.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.delta_log import DataFile, data_files, last_version, rows_of, table_of
from pipelines.spark.local_frames import frame_of_rows
from pipelines.spark.view_creation import find_views, keep_views, make_views, quoted
from pipelines.spark.views import BY_NAME, VIEWS, View, needed
from pipelines.tables import TABLES
from pipelines.tables.table_contract import Table

# What Delta says where another writer was faster: it wrote to the table, made it, or is about to.
_OUTRUN = re.compile(
    r"DELTA_(CONCURRENT_\w+|PROTOCOL_CHANGED|METADATA_CHANGED|CREATE_TABLE_WITH_NON_EMPTY_LOCATION)"
    r"|\b(Concurrent\w+|ProtocolChanged|MetadataChanged)Exception\b"
)
_GLOB = re.compile(r"[][{}*?\\^]")  # Spark takes paths with these for patterns
# Set in conf/spark.toml: this Spark runs within the process that started it, on local files.
_EMBEDDED = "spark.kafkaPlacement.embedded"
_SCHEMAS = "|".join(sorted({name.split(".")[0] for name in (*TABLES, *BY_NAME)}))
_NAME = re.compile(rf"('(?:[^'\\\\]|\\\\.)*')|\b({_SCHEMAS})\.(\w+)")  # a string, or the name of a table or view
# Each refusal means that another write has gone through, so as many runs as this may meet in one table.
_TRIES = 12
_LONGEST_WAIT_SECONDS = 4.0
_MOST_ROWS_READ_HERE = 1_000_000


def check_folder(warehouse: str, writing: bool) -> None:
    """Nothing; raises StoreError if tables cannot be in this folder of this machine, or, if `writing`, be written."""
    folder = Path(warehouse).resolve()
    remedy = "Choose another folder: --warehouse DIR"
    try:
        there = next(place for place in (folder, *folder.parents) if place.exists())
        if not there.is_dir():
            raise StoreError(f"--warehouse {warehouse}: {there} is a file, not a folder. {remedy}")
        if writing:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        elif there == folder:
            next(folder.iterdir(), None)
    except OSError as error:
        can = "written to" if writing else "read"
        raise StoreError(f"--warehouse {warehouse}: {folder} cannot be {can}: {error.strerror}. {remedy}") from error


def holds_less(warehouse: str, limit_bytes: int) -> bool:
    """Whether all files of this folder have fewer bytes than this."""
    total = 0
    for file in Path(warehouse).rglob("*.parquet"):
        total += file.stat().st_size
        if total >= limit_bytes:
            return False
    return True


def listing_without_spark(warehouse: str) -> list[dict[str, Any]] | None:
    """Return what Store.listing does, for small tables in a folder of this machine; None if Delta has to be asked."""
    out = []
    for name in TABLES:
        folder = Path(warehouse).resolve() / name.replace(".", "/")
        version = last_version(folder)
        if version < 0:
            continue
        files = data_files(folder)
        rows = None if files is None else rows_of(files)
        if rows is None:
            return None
        out.append(_listed(name, rows, version, str(folder)))
    return out


def _listed(name: str, rows: int, version: int, place: str) -> dict[str, Any]:
    return {"table": name, "rows": rows, "version": version, "comment": TABLES[name].comment, "place": place}


def of_snapshots(snapshots: Sequence[SnapshotKey]) -> str:
    """SQL: the row is of one of these snapshots."""
    held = sorted(snapshots)
    if not held:
        return "false"
    if len(held) == 1:
        return f"cluster_id = {quoted(held[0].cluster_id)} AND snapshot_id = {quoted(held[0].snapshot_id)}"

    def among(column: str, values: Sequence[str]) -> str:
        return f"{column} IN ({', '.join(map(quoted, sorted(set(values))))})"

    # Looked up, not compared one by one: a hundred comparisons are more code than Java takes in a method. The length
    # says where the id of a snapshot ends, which may be anything in a stream; the first two skip files.
    return " AND ".join(
        (
            among("cluster_id", [s.cluster_id for s in held]),
            among("snapshot_id", [s.snapshot_id for s in held]),
            among(
                "concat(length(snapshot_id), ' ', snapshot_id, cluster_id)",
                [f"{len(s.snapshot_id)} {s.snapshot_id}{s.cluster_id}" for s in held],
            ),
        )
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes and threads out of this folder, as far as they ask here; make it if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _temporary_names(sql: str) -> str:
    """Replace the names of tables and views, as gold.plans, by those of temporary views, as gold__plans."""
    return _NAME.sub(lambda found: found[1] or f"{found[2]}__{found[3]}", sql)


class Store:
    """The tables of one warehouse.

    warehouse: folder, used when `catalog` is empty.   catalog: name of a catalog that the session knows.
    """

    def __init__(self, spark: SparkSession, warehouse: str, catalog: str = "") -> None:
        self.spark = spark
        self._catalog = catalog
        self._existing: set[str] = set()  # as far as it is known: tables are never removed
        self._registered: list[str] = []
        self.warehouse = str(Path(warehouse).resolve()) if "://" not in warehouse else warehouse.rstrip("/")
        # Elsewhere a path may mean another file system than this machine's.
        self._local = not catalog and "://" not in warehouse and spark.conf.get(_EMBEDDED, "false") == "true"

    def place(self, name: str) -> str:
        """Where the table is, for a person: its path, or its name in the catalog."""
        return self._name(name) if self._catalog else f"{self.warehouse}/{name.replace('.', '/')}"

    def _name(self, name: str) -> str:
        return f"`{self._catalog}`.{name}"

    def _sql_name(self, name: str) -> str:
        return self._name(name) if self._catalog else f"delta.`{self.place(name)}`"

    def exists(self, name: str) -> bool:
        """Whether the table has been made."""
        if self._local:
            return last_version(Path(self.place(name))) >= 0
        if name not in self._existing and self._is_there(name):
            self._existing.add(name)
        return name in self._existing

    def _is_there(self, name: str) -> bool:
        if self._catalog:
            return self.spark.catalog.tableExists(self._name(name))
        try:
            self.spark.sql(f"DESCRIBE DETAIL {self._sql_name(name)}").collect()
        except AnalysisException:
            return False
        return True

    def may_hold(self, name: str, rows: int) -> bool:
        """Whether the table can have so many rows: it is there, and if rows > 0, something has been written to it."""
        return self.exists(name) and (not self._local or rows == 0 or last_version(Path(self.place(name))) > 0)

    def create(self, table: Table) -> None:
        """Make the table with its contract, if it is not there."""
        with self._alone(table):
            self._create(table)

    @contextmanager
    def _alone(self, table: Table) -> Iterator[None]:
        """Keep others on this machine from writing to a table of a folder meanwhile.

        A folder's log keeps the last of two commits of one number, so that of two at once one would be lost.
        """
        if not self._local:
            yield
            return
        with _locked(Path(self.place(table.name))):
            yield

    def _create(self, table: Table) -> None:
        if table.name in self._existing or (self._local and self.exists(table.name)):
            return
        if self._local:
            # Of a run that was killed while it made the table. Delta would take it for a table without columns.
            shutil.rmtree(Path(self.place(table.name), "_delta_log"), ignore_errors=True)
        lines = []
        for field in table.schema.fields:
            null = "" if field.nullable else " NOT NULL"
            lines.append(
                f"`{field.name}` {field.dataType.simpleString()}{null} COMMENT {quoted(field.metadata['comment'])}"
            )
        partitioned = f"PARTITIONED BY ({', '.join(table.partition_by)})" if table.partition_by else ""
        skip_by = ",".join(table.skip_by)
        properties = f"TBLPROPERTIES ('delta.dataSkippingStatsColumns' = '{skip_by}')" if skip_by else ""
        if self._catalog:
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS `{self._catalog}`.{table.name.split('.')[0]}")
        statement = (
            f"CREATE TABLE IF NOT EXISTS {self._sql_name(table.name)} ({', '.join(lines)}) USING delta "
            f"{partitioned} COMMENT {quoted(table.comment)} {properties}"
        )
        self._insist(table, lambda: self.spark.sql(statement))
        self._existing.add(table.name)

    def _insist(self, table: Table, write: Callable[[], Any]) -> None:
        """Nothing; does `write` again, after a short wait, while other runs write to the table at the same time."""
        for attempt in range(_TRIES):
            try:
                write()
                return
            except Exception as error:
                if not _OUTRUN.search(str(error)):
                    raise
                outrun = error
            longest = min(0.25 * 2**attempt, _LONGEST_WAIT_SECONDS)
            time.sleep(random.uniform(0.1, 1) * longest)  # each its own wait, lest they meet again
        problem = f"other runs kept writing to {self.place(table.name)}: {_TRIES} attempts to write to it failed"
        raise StoreError(f"{problem}. Run again when they have ended.") from outrun

    def read(self, name: str, snapshots: Sequence[SnapshotKey] | None = None) -> DataFrame:
        """The table's rows, of these snapshots only if given."""
        try:
            frame = self._load(name, snapshots)
        except AnalysisException as error:
            problem = f"there is no table {name} at {self.place(name)}"
            raise StoreError(f"{problem}. Run the earlier stages first: kafka-placement run SOURCE...") from error
        expected = TABLES[name].column_names
        if frame.columns != expected:
            problem = f"{self.place(name)} has columns {frame.columns}, not {expected}: another version made it"
            raise StoreError(f"{problem}. Use another --warehouse, or remove this one.")
        return frame if snapshots is None else frame.where(of_snapshots(snapshots))

    def _load(self, name: str, snapshots: Sequence[SnapshotKey] | None = None) -> DataFrame:
        if self._catalog:
            return self.spark.table(self._name(name))
        return self._load_files(name, snapshots) or self.spark.read.format("delta").load(self.place(name))

    def rows(self, name: str, snapshots: Sequence[SnapshotKey], columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return these columns of these snapshots' rows as plain values, of a small table without Spark.

        Times have no zone where Spark was asked, else UTC: compare them with each other alone.
        """
        found = self._table_in_files(name, snapshots, columns)
        if found is None:
            return [row.asDict() for row in self.read(name, snapshots).select(*columns).collect()]
        rows: list[dict[str, Any]] = found.select(columns).to_pylist()
        return rows

    def _table_in_files(self, name: str, snapshots: Sequence[SnapshotKey], columns: Sequence[str]) -> pa.Table | None:
        """Read these columns and the snapshots' from the files of a small table; None if Spark has to be asked."""
        files = self._data_files(name, snapshots)
        count = rows_of(files) if files else None
        if not files or count is None or count > _MOST_ROWS_READ_HERE:
            return None
        key = ("cluster_id", "snapshot_id")
        found = table_of(files, list(dict.fromkeys((*key, *columns))))
        for column in key:  # most that is not wanted, without a Python value for each row
            wanted = pa.array([getattr(one, column) for one in snapshots], pa.string())
            found = found.filter(pc.is_in(found[column], wanted))
        ours = {(one.cluster_id, one.snapshot_id) for one in snapshots}
        mine = [one in ours for one in zip(*(found[column].to_pylist() for column in key), strict=True)]
        return found.filter(pa.array(mine, pa.bool_()))

    def _data_files(self, name: str, snapshots: Sequence[SnapshotKey] | None = None) -> list[DataFile] | None:
        """Return the files of a small table of a folder that may have rows of these snapshots.

        Returns:
            None if Delta has to be asked.

        Raises:
            StoreError: if a file is missing.
        """
        files = data_files(Path(self.place(name))) if self._local else None
        if files is None:
            return None
        gone = next((file.path for file in files if not Path(file.path).exists()), None)
        if gone is not None:
            problem = f"{gone} is missing, a file that {name} consists of: it was removed by hand"
            raise StoreError(f"{problem}. Remove the whole folder {self.place(name)}, and run again.")
        if snapshots is None:
            return files
        clusters = {key.cluster_id for key in snapshots}
        return [file for file in files if file.partition.get("cluster_id") in clusters or not file.partition]

    def _load_files(self, name: str, snapshots: Sequence[SnapshotKey] | None) -> DataFrame | None:
        """Read the files of a small table; None if Delta has to be asked."""
        table = TABLES[name]
        files = None if _GLOB.search(self.warehouse) else self._data_files(name, snapshots)
        if files is None:
            return None
        if not files:
            return frame_of_rows(self.spark, [], table.schema)
        reader = self.spark.read.schema(table.schema).option("basePath", self.place(name))
        return reader.parquet(*(file.path for file in files)).select(*table.column_names)

    def replace(self, table: Table, rows: DataFrame, snapshots: Sequence[SnapshotKey]) -> None:
        """Make `rows` all that the table has of these snapshots, in one commit."""
        writer = rows.select(*table.column_names).write.format("delta")
        with self._alone(table):
            self._create(table)
            if self._has_none(table, snapshots):  # to append takes a third of the time that to look for rows takes
                self._save(writer.mode("append"), table)
            else:
                self._save(writer.mode("overwrite").option("replaceWhere", of_snapshots(snapshots)), table)

    def _has_none(self, table: Table, snapshots: Sequence[SnapshotKey]) -> bool:
        """Whether it is known without Spark that the table has no row of these snapshots."""
        if self._data_files(table.name, snapshots) == []:
            return True
        found = self._table_in_files(table.name, snapshots, ())
        return found is not None and found.num_rows == 0

    def rows_by_cluster(self, names: Sequence[str], snapshots: Sequence[SnapshotKey]) -> dict[tuple[str, str], int]:
        """{(table, cluster): rows of these snapshots}, as they have just been written."""
        counts: dict[tuple[str, str], int] = {}
        unknown = []
        for name in names:
            logged = self._logged_rows(name, snapshots)
            if logged is None:
                logged = self._rows_in_files(name, snapshots)
            if logged is None:
                unknown.append(name)
            else:
                counts |= {(name, cluster): n for cluster, n in logged.items()}
        parts = [
            self.read(name, snapshots).groupBy("cluster_id").count().select(F.lit(name).alias("name"), "*")
            for name in unknown
        ]
        if parts:
            for row in reduce(DataFrame.unionByName, parts).collect():
                counts[row["name"], row["cluster_id"]] = row["count"]
        return counts

    def _logged_rows(self, name: str, snapshots: Sequence[SnapshotKey]) -> dict[str, int] | None:
        """Rows by cluster as the table's last commit tells them; None where it cannot tell.

        Asking Spark to count costs seconds for all tables of a run; what a commit added to a table of this machine
        stands in its log, if it took nothing away, and by cluster, if the table is partitioned so.
        """
        log = Path(self.place(name), "_delta_log")
        by_cluster = TABLES[name].partition_by == ("cluster_id",)
        if self._catalog or not log.is_dir() or not (by_cluster or len(snapshots) == 1):
            return None
        out: dict[str, int] = {}
        ours = {snapshot.cluster_id for snapshot in snapshots}
        commit = max(file for file in log.glob("*.json") if file.stem.isdigit())
        for line in commit.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            if "remove" in action:
                return None
            if "add" not in action:
                continue
            cluster = action["add"]["partitionValues"].get("cluster_id") if by_cluster else snapshots[0].cluster_id
            stats = json.loads(action["add"].get("stats") or "{}")
            if "numRecords" not in stats or cluster not in ours:  # the commit of another run
                return None
            out[cluster] = out.get(cluster, 0) + stats["numRecords"]
        return out

    def _rows_in_files(self, name: str, snapshots: Sequence[SnapshotKey]) -> dict[str, int] | None:
        """Count rows of a small table by cluster, without Spark; None if that is not possible."""
        found = self._table_in_files(name, snapshots, ())
        if found is None:
            return None
        counts = found.group_by("cluster_id").aggregate([([], "count_all")])
        return dict(zip(*(counts[column].to_pylist() for column in ("cluster_id", "count_all")), strict=True))

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows to an append-only table."""
        with self._alone(table):
            self._create(table)
            self._save(rows.select(*table.column_names).write.format("delta").mode("append"), table)

    def _save(self, writer: Any, table: Table) -> None:
        if self._catalog:
            self._insist(table, lambda: writer.saveAsTable(self._name(table.name)))
        else:
            self._insist(table, lambda: writer.save(self.place(table.name)))

    def register(self, names: Sequence[str]) -> list[str]:
        """The names among these whose tables exist; `SELECT ... FROM schema.table` works for them from now on."""
        known = self._registered = [name for name in names if self.exists(name)]
        if self._catalog:
            self.spark.catalog.setCurrentCatalog(self._catalog)
            return known
        for schema in sorted({name.split(".")[0] for name in known}):
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for name in known:
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")
            self.spark.sql(f"CREATE TABLE {name} USING delta LOCATION {quoted(self.place(name))}")
        return known

    def querier(self, names: Sequence[str]) -> Callable[[str], DataFrame]:
        """Return what runs the program's own SQL over those of these tables and views that exist.

        Small tables of a folder are then temporary views over their files: `register` gives them to Delta, which
        takes five times as long.
        """
        tables, views = needed([*names])
        there = {name for name in tables if self.exists(name)}
        made = [view for view in views if set(needed([view.name])[0]) <= there]
        if not self._local:
            self.register(sorted(there))
            self.register_views(made)
            return self.spark.sql
        for name in sorted(there):
            self._load(name).createOrReplaceTempView(_temporary_names(name))
        for view in made:
            sql = _temporary_names(view.sql)
            self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_temporary_names(view.name)} AS {sql}")
        return lambda sql: self.spark.sql(_temporary_names(sql))

    def register_views(self, views: Sequence[View]) -> None:
        """Nothing; `SELECT ... FROM insights.view` works from now on: what they read is registered already.

        In a catalog they stay, if it holds views; of a folder they last as long as the session.
        """
        if self._catalog:
            find_views(self.spark, self._catalog, views, self._registered)
        else:
            make_views(self.spark, views)

    def keep_views(self) -> None:
        """Nothing; every view whose tables are there is in the catalog as it is defined now, if it holds views."""
        if not self._catalog:
            return
        tables, _ = needed([view.name for view in VIEWS])
        there = set(self.register(tables))
        keep_views(self.spark, [view for view in VIEWS if set(needed([view.name])[0]) <= there])

    def listing(self) -> list[dict[str, Any]]:
        """What tables there are: name, rows, version, comment, place; in the order in which a run fills them."""
        out = []
        for name in TABLES:
            try:
                rows = self._count(name)
            except AnalysisException:
                continue
            out.append(_listed(name, rows, self._version(name), self.place(name)))
        return out

    def _count(self, name: str) -> int:
        files = self._data_files(name)
        rows = None if files is None else rows_of(files)
        return self._load(name).count() if rows is None else rows

    def _version(self, name: str) -> int:
        """The number of the table's last commit."""
        if self._local:  # no need to ask Spark, which takes its time
            return last_version(Path(self.place(name)))
        history = self.spark.sql(f"DESCRIBE HISTORY {self._sql_name(name)} LIMIT 1").select(F.col("version")).first()
        return int(history[0]) if history else 0
