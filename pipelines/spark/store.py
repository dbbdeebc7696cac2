"""Read and write the tables of a warehouse by snapshot; the only module through which stages and commands do so.

A write is one commit that replaces the rows of its snapshots, so that readers see all of them or none; it is repeated
if another run writes to the table at the same time.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark import delta_log
from pipelines.spark import views as sql_views
from pipelines.spark.arrow_frames import copy_table, create_frame
from pipelines.spark.delta_log import DataFile
from pipelines.spark.sql_text import match_clusters, match_snapshots, quote_text
from pipelines.spark.view_tables import ViewTables
from pipelines.spark.views import VIEWS, View, find_dependencies
from pipelines.spark.warehouse_folder import TableListing
from pipelines.tables import TABLES
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table

_GLOB = re.compile(r"[][{}*?\\^]")  # Spark takes paths with these for patterns
_MAX_LOCAL_ROWS = 1_000_000
_FEW_FILES, _MANY_ROWS = 16, 50_000  # of a table that Spark reads itself, as each file costs it milliseconds
_PARALLEL_LOADS = 3  # Spark uses little of a processor while it opens a table

_log = logging.getLogger(__name__)


class _Written(NamedTuple):
    """Rows that this process has written, so that later stages need no file."""

    version: int
    snapshots: frozenset[SnapshotKey]
    rows: DataFrame
    row_count: int


class Store(ViewTables):
    """The tables of one warehouse, by snapshot; small tables in a local folder are read without Delta."""

    def __init__(self, spark: SparkSession, warehouse: str, catalog: str = "") -> None:
        super().__init__(spark, warehouse, catalog)
        self._written: dict[str, _Written] = {}

    def can_have_rows(self, name: str, rows: int) -> bool:
        """Tell whether a table may have a number of rows: it exists, and if rows > 0, something was written to it."""
        return self.exists(name) and (not self._is_local or rows == 0 or self.last_version(name) > 0)

    def read(self, name: str, snapshots: Sequence[SnapshotKey] | None = None) -> DataFrame:
        """Read the rows of a table or of snapshots; raise StoreError if it does not exist or has other columns."""
        own = self._find_written(name)
        if own and snapshots is not None and own.snapshots == {*snapshots}:
            return own.rows
        try:
            frame = self._load(name, snapshots)
        except AnalysisException as error:
            problem = f"there is no table {name} at {self.location(name)}"
            raise StoreError(f"{problem}. Run the earlier stages first: kafka-placement run SOURCE...") from error
        expected = TABLES[name].column_names
        if frame.columns != expected:
            problem = f"{self.location(name)} has columns {frame.columns}, not {expected}: another version created it"
            raise StoreError(f"{problem}. Use another --warehouse, or remove this one.")
        return frame if snapshots is None else frame.where(match_snapshots(snapshots))

    def read_rows(self, name: str, snapshots: Sequence[SnapshotKey], columns: Sequence[str]) -> list[dict[str, Any]]:
        """Read columns of snapshots as plain values, times in UTC; a small table is read without Spark."""
        local = self._read_local(name, snapshots, columns)
        if local is None:
            with self.explain_faults():
                return [row.asDict() for row in self.read(name, snapshots).select(*columns).collect()]
        return list(local.select(columns).to_pylist())

    def replace(self, table: Table, rows: DataFrame, snapshots: Sequence[SnapshotKey]) -> None:
        """Replace all rows of snapshots by `rows`, in one commit.

        Of a table that keeps only the newest snapshot, all rows of their clusters.
        """
        with self._lock(table.name):
            self._create(table)
            existing: Sized | None
            if table.only_newest:  # of whole partitions, Delta reads no file
                existing = self._list_local_files(table.name, snapshots)
                replaced = match_clusters(snapshots)
            else:
                existing = self._read_local(table.name, snapshots, ())
                replaced = match_snapshots(snapshots)
            is_new = existing is not None and len(existing) == 0  # appending takes a third of the time
            writer = rows.select(*table.column_names).write
            if self._is_small:
                written = self._write_few(table, rows, () if is_new else snapshots)
                frame = copy_table(self.spark, written, table.schema)
                self._written[table.name] = _Written(
                    self.last_version(table.name), frozenset(snapshots), frame, written.num_rows
                )
            elif is_new:
                self._save(table, writer.mode("append"))
            else:
                self._save(table, writer.mode("overwrite").option("replaceWhere", replaced))
        if _log.isEnabledFor(logging.INFO):
            counts = self._count_last_commit(table.name, snapshots)
            _log.info("%s: written%s", table.name, "" if counts is None else f", {sum(counts.values())} rows")

    def count_by_cluster(self, names: Sequence[str], snapshots: Sequence[SnapshotKey]) -> dict[tuple[str, str], int]:
        """Count the rows of snapshots, which have just been written, by table and cluster."""
        counts: dict[tuple[str, str], int] = {}
        uncounted = []
        for name in names:
            rows = self._count_last_commit(name, snapshots)
            if rows is None and (local := self._read_local(name, snapshots, ())) is not None:
                rows = Counter(local["cluster_id"].to_pylist())
            if rows is None:
                uncounted.append(name)
            else:
                counts |= {(name, cluster): count for cluster, count in rows.items()}
        parts = [
            self.read(name, snapshots).groupBy("cluster_id").count().select(F.lit(name).alias("name"), "*")
            for name in uncounted
        ]
        if parts:
            with self.explain_faults():
                for row in reduce(DataFrame.unionByName, parts).collect():
                    counts[row["name"], row["cluster_id"]] = row["count"]
        return counts

    def list_tables(self) -> list[TableListing]:
        """List the tables that exist, in the order in which a run fills them."""
        listing = []
        for name, table in TABLES.items():
            files = self._list_local_files(name)
            rows = None if files is None else delta_log.count_rows(files)
            try:
                with self.explain_faults():
                    rows = self._load(name).count() if rows is None else rows
            except AnalysisException:
                continue
            version, location = self.last_version(name), self.describe_location(name)
            listing.append(TableListing(name, rows, version, table.comment, location))
        return listing

    def register(self, names: Sequence[str]) -> list[str]:
        """Make tables known to Spark SQL as `schema.table`; return the names of those that exist."""
        existing = [name for name in names if self.exists(name)]
        if self._catalog:
            self.spark.catalog.setCurrentCatalog(self._catalog)
            return existing
        for schema in sorted({name.split(".")[0] for name in existing}):
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for name in existing:
            self._list_local_files(name)  # raises StoreError if the table is damaged
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")
            with self.explain_faults():
                self.spark.sql(f"CREATE TABLE {name} USING delta LOCATION {quote_text(self.location(name))}")
        return existing

    def register_views(self, views: Sequence[View], tables: Sequence[str] = ()) -> None:
        """Make views known as `insights.view`; their tables, and `tables` read beside them, are registered."""
        if self._catalog:
            sql_views.register_catalog_views(self.spark, self._catalog, views, tables)
        else:
            sql_views.create_views(self.spark, views)

    def list_names(self) -> list[str]:
        """List the tables that exist, then the views whose tables exist."""
        tables = [name for name in TABLES if self.exists(name)]
        return [*tables, *(view.name for view in _select_views(VIEWS, set(tables)))]

    def register_all(self) -> None:
        """Make every table that exists known to Spark SQL by name, and every view whose tables exist."""
        tables = self.register(list(TABLES))
        self.register_views(_select_views(VIEWS, set(tables)), tables)

    def publish_views(self) -> None:
        """Create every view whose tables exist in the catalog; in a folder, write its rows as a table."""
        tables, _ = find_dependencies([view.name for view in VIEWS])
        if self._catalog:
            sql_views.create_views(self.spark, _select_views(VIEWS, set(self.register(tables))))
            return
        if views := _select_views(VIEWS, {name for name in tables if self.exists(name)}):
            self.write_view_tables(views)

    def prepare_sql(self, names: Sequence[str]) -> Callable[[str], DataFrame]:
        """Return a function that runs SQL of this program over these tables and views, if they exist."""
        tables, views = find_dependencies([*names])
        existing = [name for name in tables if self.exists(name)]
        complete_views = _select_views(views, set(existing))
        if not self._is_local:
            self.register(existing)
            self.register_views(complete_views, existing)
            return self.spark.sql
        with ThreadPoolExecutor(_PARALLEL_LOADS) as pool:
            for name, rows in zip(existing, pool.map(partial(self._load, copies_small=True), existing), strict=True):
                rows.createOrReplaceTempView(sql_views.use_temporary_names(name))
        for view in complete_views:
            name, sql = sql_views.use_temporary_names(view.name), sql_views.use_temporary_names(view.sql)
            self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {sql}")
        return lambda sql: self.spark.sql(sql_views.use_temporary_names(sql))

    def _list_local_files(self, name: str, snapshots: Sequence[SnapshotKey] | None = None) -> list[DataFile] | None:
        """List the files of a small table in a local folder that may have rows of snapshots; None = ask Delta."""
        files = delta_log.list_data_files(Path(self.location(name))) if self._is_local else None
        if files is None or snapshots is None:
            return files
        clusters = {key.cluster_id for key in snapshots}
        return [file for file in files if file.partition.get("cluster_id") in clusters or not file.partition]

    def _copy(self, name: str, files: Sequence[DataFile]) -> DataFrame:
        """Copy a table into the session."""
        schema = TABLES[name].schema
        rows = delta_log.read_files(Path(self.location(name)), files, TABLES[name].column_names)
        return copy_table(self.spark, rows, schema)

    def _load(
        self, name: str, snapshots: Sequence[SnapshotKey] | None = None, *, copies_small: bool = False
    ) -> DataFrame:
        """Open a table. copies_small: copy one of few rows in many files, which costs Spark less than the files."""
        files = self._list_local_files(name, snapshots)
        own = self._find_written(name)
        if own and files and own.row_count == delta_log.count_rows(files):
            return own.rows  # which are all rows
        is_in_many_files = copies_small and files is not None and len(files) > _FEW_FILES
        if files is not None and is_in_many_files and (delta_log.count_rows(files) or _MANY_ROWS) < _MANY_ROWS:
            return self._copy(name, files)
        if files is None or _GLOB.search(self.warehouse):
            return self._open(name)
        table, location = TABLES[name], self.location(name)
        if not files:
            return create_frame(self.spark, [], table.schema)
        delta_log.check_files(Path(location), files)
        reader = self.spark.read.schema(table.schema).option("basePath", location)
        return reader.parquet(*(file.path for file in files)).select(*table.column_names)

    def _find_written(self, name: str) -> _Written | None:
        """Return what this process has written to a table, unless another commit came after it."""
        own = self._written.get(name)
        return own if own and own.version == self.last_version(name) else None

    def _read_local(self, name: str, snapshots: Sequence[SnapshotKey], columns: Sequence[str]) -> pa.Table | None:
        """Read keys and columns of the rows of snapshots from the files of a small table; None = ask Spark."""
        files = self._list_local_files(name, snapshots)
        count = None if files is None else delta_log.count_rows(files)
        if files is None or count is None or count > _MAX_LOCAL_ROWS:
            return None
        rows = delta_log.read_files(Path(self.location(name)), files, list(dict.fromkeys((*SNAPSHOT_KEY, *columns))))
        for column in SNAPSHOT_KEY:  # removes most other rows without a Python value for each
            rows = rows.filter(
                pc.is_in(rows[column], pa.array([getattr(key, column) for key in snapshots], pa.string()))
            )
        keys = {(key.cluster_id, key.snapshot_id) for key in snapshots}
        matches = [key in keys for key in zip(*(rows[column].to_pylist() for column in SNAPSHOT_KEY), strict=True)]
        return rows.filter(pa.array(matches, pa.bool_()))

    def _count_last_commit(self, name: str, snapshots: Sequence[SnapshotKey]) -> dict[str, int] | None:
        """Count a table's last commit by cluster without Spark; None if that is not all rows of the snapshots."""
        by_cluster = TABLES[name].partition_by == ("cluster_id",)
        if self._catalog or not (by_cluster or len(snapshots) == 1):
            return None
        files = delta_log.list_added_files(Path(self.location(name)))
        if files is None:
            return None
        clusters = {key.cluster_id for key in snapshots}
        counts: Counter[str] = Counter()
        for file in files:
            cluster = file.partition.get("cluster_id") if by_cluster else snapshots[0].cluster_id
            if file.rows is None or cluster not in clusters:  # the commit of another run
                return None
            counts[str(cluster)] += file.rows
        return counts


def _select_views(views: Sequence[View], tables: set[str]) -> list[View]:
    return [view for view in views if set(find_dependencies([view.name])[0]) <= tables]
