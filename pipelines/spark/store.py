"""Read and write the tables of a warehouse by snapshot; the only module through which stages and commands do so.

A write is one commit that replaces the rows of its snapshots, so that readers see all of them or none; it is repeated
if another run writes to the table at the same time.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark import delta_rs
from pipelines.spark import views as sql_views
from pipelines.spark.arrow_frames import copy_table, create_frame
from pipelines.spark.sql_text import match_clusters, match_snapshots, quote_text
from pipelines.spark.view_tables import ViewTables
from pipelines.spark.views import VIEWS, View, find_dependencies
from pipelines.spark.warehouse_folder import TableListing
from pipelines.tables import TABLES
from pipelines.tables.ops_tables import RUNS
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table

_MANY_ROWS = 50_000  # of a table that Spark reads itself
# No SQL of this program reads these columns, which are most bytes of their table.
_UNREAD = {RUNS.name: {"settings"}}
_PARALLEL_LOADS = 3  # Spark uses little of a processor while it opens a table

_log = logging.getLogger(__name__)


class _Written(NamedTuple):
    """Rows that this process has written, so that later stages need no file."""

    version: int
    snapshots: frozenset[SnapshotKey]
    rows: DataFrame
    counts: Mapping[str, int]  # by cluster


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
        """Read columns of snapshots as plain values, times in UTC; a local table is read without Spark."""
        rows = self.read_arrow(name, snapshots, columns)
        if rows is None:
            with self.explain_faults():
                return [row.asDict() for row in self.read(name, snapshots).select(*columns).collect()]
        return list(rows.to_pylist())

    def replace(self, table: Table, rows: DataFrame, snapshots: Sequence[SnapshotKey]) -> None:
        """Replace all rows of snapshots by `rows`, in one commit.

        Of a table that keeps only the newest snapshot, all rows of their clusters.
        """
        with self._lock(table.name):
            self._create(table)
            replaced = match_clusters(snapshots) if table.only_newest else match_snapshots(snapshots)
            is_new = not table.only_newest and self._has_no_rows(table.name, snapshots)
            writer = rows.select(*table.column_names).write
            if self._is_small:
                written = self._write_few(table, rows, () if is_new else snapshots)
                frame = copy_table(self.spark, written, table.schema)
                by_cluster = {r["values"]: r["counts"] for r in written["cluster_id"].value_counts().to_pylist()}
                version = self.last_version(table.name)
                self._written[table.name] = _Written(version, frozenset(snapshots), frame, by_cluster)
            elif is_new:
                self._save(table, writer.mode("append"))
            else:
                self._save(table, writer.mode("overwrite").option("replaceWhere", replaced))
        if _log.isEnabledFor(logging.INFO):
            counts = self._count_local(table.name, snapshots)
            _log.info("%s: written%s", table.name, "" if counts is None else f", {sum(counts.values())} rows")

    def count_by_cluster(self, names: Sequence[str], snapshots: Sequence[SnapshotKey]) -> dict[tuple[str, str], int]:
        """Count the rows of snapshots, which have just been written, by table and cluster."""
        local = {name: self._count_local(name, snapshots) for name in names}
        counts = {(name, cluster): n for name, by_cluster in local.items() for cluster, n in (by_cluster or {}).items()}
        uncounted = [name for name in names if local[name] is None]
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
            if self._has_delta_rs and not self.exists(name):
                continue
            rows = delta_rs.count_rows(Path(self.location(name))) if self._has_delta_rs else None
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
            if self._has_delta_rs:
                delta_rs.list_files(Path(self.location(name)), None)  # raises StoreError if the table is damaged
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

    def prepare_sql(
        self, names: Sequence[str], snapshots: Sequence[SnapshotKey] | None = None
    ) -> Callable[[str], DataFrame]:
        """Return a function that runs SQL of this program over these tables and views, if they exist.

        snapshots: those whose rows it reads, of all tables but those of schema ops; None = all.
        """
        tables, views = find_dependencies([*names])
        existing = [name for name in tables if self.exists(name)]
        complete_views = _select_views(views, set(existing))
        if not self._is_local:
            self.register(existing)
            self.register_views(complete_views, existing)
            return self.spark.sql

        def load(name: str) -> DataFrame:
            columns = [column for column in TABLES[name].column_names if column not in _UNREAD.get(name, ())]
            return self._load(name, None if name.startswith("ops.") else snapshots, columns)

        with ThreadPoolExecutor(_PARALLEL_LOADS) as pool:
            for name, rows in zip(existing, pool.map(load, existing), strict=True):
                rows.createOrReplaceTempView(sql_views.use_temporary_names(name))
        for view in complete_views:
            name, sql = sql_views.use_temporary_names(view.name), sql_views.use_temporary_names(view.sql)
            self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {sql}")
        return lambda sql: self.spark.sql(sql_views.use_temporary_names(sql))

    def _load(
        self, name: str, snapshots: Sequence[SnapshotKey] | None = None, columns: Sequence[str] = ()
    ) -> DataFrame:
        """Open columns (none = all) of a table; in a local folder, without the files of other snapshots.

        Few rows are copied into the session.
        """
        own = self._find_written(name) if self._has_delta_rs else None
        if own and sum(own.counts.values()) == delta_rs.count_rows(Path(self.location(name))):
            return own.rows  # which are all rows
        if not self._has_delta_rs:
            return self._open(name)
        table, location = TABLES[name], Path(self.location(name))
        selected = list(columns or table.column_names)
        if self._is_small and (rows := self._copy_rows(name, snapshots, selected, _MANY_ROWS)) is not None:
            return rows
        files = delta_rs.list_files(location, snapshots)
        if files is None:
            return self._open(name)
        if not files:
            return create_frame(self.spark, [], table.schema)
        reader = self.spark.read.schema(table.schema).option("basePath", str(location))
        return reader.parquet(*files).select(*selected)

    def _find_written(self, name: str) -> _Written | None:
        """Return what this process has written to a table, unless another commit came after it."""
        own = self._written.get(name)
        return own if own and own.version == self.last_version(name) else None

    def _has_no_rows(self, name: str, snapshots: Sequence[SnapshotKey]) -> bool:
        """Tell whether a table has no rows of snapshots, so that they can be appended, in a third of the time."""
        rows = self.read_arrow(name, snapshots, SNAPSHOT_KEY[:1])
        return rows is not None and rows.num_rows == 0

    def _count_local(self, name: str, snapshots: Sequence[SnapshotKey]) -> Mapping[str, int] | None:
        """Count the rows of snapshots by cluster without Spark; None if that is not possible."""
        if not self._has_delta_rs:
            return None
        own = self._find_written(name)
        if own and own.snapshots == {*snapshots}:
            return own.counts
        return delta_rs.count_by_cluster(Path(self.location(name)), snapshots)


def _select_views(views: Sequence[View], tables: set[str]) -> list[View]:
    return [view for view in views if set(find_dependencies([view.name])[0]) <= tables]
