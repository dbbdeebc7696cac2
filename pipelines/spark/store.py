"""Read and write the tables of a warehouse by snapshot; the only module through which stages and commands do so.

A write is one commit that replaces the rows of its snapshots, so that readers see all of them or none; it is repeated
if another run writes to the table at the same time.
"""

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark import delta_rs
from pipelines.spark import views as sql_views
from pipelines.spark.arrow_frames import complete_frame, copy_table, create_frame
from pipelines.spark.delta_tables import DeltaTables
from pipelines.spark.sql_session import SparkSql, SqlSession
from pipelines.spark.table_upgrades import make_replace_statement
from pipelines.spark.views import VIEWS, View, find_dependencies
from pipelines.spark.warehouse_folder import TableListing
from pipelines.sql_text import match_clusters, match_snapshots, quote_text
from pipelines.tables import TABLES
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table

_MANY_ROWS = 50_000  # of a table that Spark reads itself

if TYPE_CHECKING:
    from pipelines.spark.local_sql import LocalSql

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Written:
    """Rows that this process has written, so that later stages need no file."""

    version: int
    snapshots: frozenset[SnapshotKey]
    rows: pa.Table
    open_frame: Callable[[], DataFrame]

    @cached_property
    def frame(self) -> DataFrame:
        """The rows in Spark."""
        return self.open_frame()

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Their number by cluster."""
        return {r["values"]: r["counts"] for r in self.rows["cluster_id"].value_counts().to_pylist()}


class Store(DeltaTables):
    """The tables of one warehouse, by snapshot; small tables in a local folder are read without Delta."""

    @cached_property
    def _written(self) -> dict[str, _Written]:
        return {}

    def can_have_rows(self, name: str, rows: int) -> bool:
        """Tell whether a table may have a number of rows: it exists, and if rows > 0, something was written to it."""
        return self.exists(name) and (not self._is_local or rows == 0 or self.last_version(name) > 0)

    def read(self, name: str, snapshots: Sequence[SnapshotKey] | None = None) -> DataFrame:
        """Read the rows of a table or of snapshots; raise StoreError if it does not exist or has other columns."""
        own = self._find_written(name)
        if own and snapshots is not None and own.snapshots == {*snapshots}:
            return own.frame
        try:
            frame = self._load(name, snapshots)
        except AnalysisException as error:
            problem = f"there is no table {name} at {self.location(name)}"
            raise StoreError(f"{problem}. Run the earlier stages first: kafka-placement run SOURCE...") from error
        if frame.columns != TABLES[name].column_names:  # an earlier version has written it
            frame = complete_frame(frame, TABLES[name].schema)
        return frame if snapshots is None else frame.where(match_snapshots(snapshots))

    def read_rows(self, name: str, snapshots: Sequence[SnapshotKey], columns: Sequence[str]) -> list[dict[str, Any]]:
        """Read columns of snapshots as plain values, times in UTC; a local table is read without Spark."""
        rows = self.read_arrow(name, snapshots, columns)
        if rows is None:
            with self.explain_faults():
                rows = self.read(name, snapshots).select(*columns).toArrow()
        return list(rows.to_pylist())

    def replace(self, table: Table, rows: DataFrame | pa.Table, snapshots: Sequence[SnapshotKey]) -> None:
        """Replace all rows of snapshots by `rows`, in one commit.

        Of a table that keeps only the newest snapshot, all rows of their clusters.
        """
        with self.lock(table.name):
            self._create(table)
            is_new = not table.only_newest and self._has_no_rows(table, snapshots)
            if self._is_small or (self._has_delta_rs and isinstance(rows, pa.Table)):
                written = self._write_few(table, rows, () if is_new else snapshots)
                self._written[table.name] = _Written(
                    self.last_version(table.name),
                    frozenset(snapshots),
                    written,
                    lambda: copy_table(self.spark, written, table.schema),
                )
            else:
                frame = copy_table(self.spark, rows, table.schema) if isinstance(rows, pa.Table) else rows
                writer = frame.select(*table.column_names).write.mode("append" if is_new else "overwrite")
                replaced = match_clusters(snapshots) if table.only_newest else match_snapshots(snapshots)
                self._save(table, writer if is_new else writer.option("replaceWhere", replaced))
        if _log.isEnabledFor(logging.INFO):
            counts = self._count_local(table.name, snapshots)
            _log.info("%s: written%s", table.name, "" if counts is None else f", {sum(counts.values())} rows")

    def rewrite(self, table: Table, source: str, query: str) -> None:
        """Replace all rows and columns of a table, in one commit, by a query over a table, which it calls {source}."""
        with self.lock(table.name):
            if (local := self._open_local_sql([source], None, {})) is not None:
                folder, rows = Path(self.location(table.name)), local.stream(query.format(source=source), table.columns)
                delta_rs.create_table(folder, table)
                described = rows.cast(pa.schema([field.with_nullable(True) for field in table.columns]))
                delta_rs.overwrite_table(folder, described, table.comment, "")
            else:
                query = query.format(source=self._sql_name(source))
                statement = make_replace_statement(table, self._sql_name(table.name), query)
                self._retry(table, lambda: self.spark.sql(statement))
        self._existing.add(table.name)
        self._properties.pop(table.name, None)

    def rename(self, earlier: str, name: str) -> bool:
        """Rename a table to a name that no other has; return False at a URL, where that is not possible."""
        if self._is_local:
            with self.lock(earlier):
                shutil.rmtree(self.location(name), ignore_errors=True)  # what a run left that was killed: no table
                Path(self.location(earlier)).rename(self.location(name))
        elif self._catalog:
            self.spark.catalog.setCurrentCatalog(self._catalog)
            self.spark.sql(f"ALTER TABLE {earlier} RENAME TO {name}")
        self._existing.discard(earlier)
        return self._is_local or self.has_catalog

    def remove_view(self, name: str) -> None:
        """Remove a view of an earlier version, but not its rows at a URL."""
        if self._is_local:
            shutil.rmtree(self.location(name), ignore_errors=True)
        elif self._catalog:
            with suppress(AnalysisException):  # a catalog that holds tables only
                self.spark.sql(f"DROP VIEW IF EXISTS {self.location(name)}")

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

    def register(self, names: Sequence[str], only_rows: bool = False) -> list[str]:
        """Make tables known to Spark SQL as `schema.table`, those of views as `schema_rows.view`; return which exist.

        only_rows: their rows are read as they are now, in a folder without Delta, which takes seconds for a table.
        """
        existing = [name for name in names if self.exists(name)]
        if self._catalog:
            self.spark.catalog.setCurrentCatalog(self._catalog)
            return existing
        known_as = {name: name if name in TABLES else sql_views.name_rows(name) for name in existing}
        for schema in sorted({name.split(".")[0] for name in known_as.values()}):
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for name in existing:
            columns, place = "", self.location(name)
            if self._has_delta_rs:
                files = delta_rs.list_files(Path(place), None)  # raises StoreError if the table is damaged
                state = delta_rs.read_state(Path(place)) if only_rows else None
                if files is not None and state is not None:
                    columns = state.schema.toDDL()
                    names = ",".join(Path(file).name for file in files)
                    place = f"{place}/{{{names}}}" if files else f"{place}/none"  # a path without files has no rows
            self.spark.sql(f"DROP TABLE IF EXISTS {known_as[name]}")
            kind = f"({columns}) USING parquet" if columns else "USING delta"
            with self.explain_faults():
                self.spark.sql(f"CREATE TABLE {known_as[name]} {kind} LOCATION {quote_text(place)}")
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
        return [*tables, *(view.name for view in select_views(VIEWS, set(tables)))]

    def register_all(self) -> None:
        """Make every table that exists known to Spark SQL by name, and every view whose tables exist."""
        tables = self.register(list(TABLES))
        self.register_views(select_views(VIEWS, set(tables)), tables)

    def open_sql(
        self,
        names: Sequence[str],
        snapshots: Sequence[SnapshotKey] | None = None,
        known: Mapping[str, pa.Table] | None = None,
    ) -> SqlSession:
        """Open a session for SQL of this program over these tables and views, those that exist, as they are now.

        snapshots: those whose rows it reads, of all tables but those of schema ops; None = all; a catalog has all.
        known: rows of other names, or, but in a catalog, of views that need not be evaluated.
        """
        known = known or {}
        tables, views = find_dependencies([*names])
        existing = [name for name in tables if self.exists(name)]
        complete_views = [view for view in select_views(views, set(existing)) if view.name not in known]
        if (local := self._open_local_sql(existing, snapshots, known)) is not None:
            for view in complete_views:
                local.create_view(view)
            return local
        for name, rows in known.items():
            self.spark.createDataFrame(rows).createOrReplaceTempView(sql_views.use_temporary_names(name))
        if self._catalog:
            self.register(existing)
            self.register_views(complete_views, existing)
            return SparkSql(self.spark, has_catalog=True)
        for name in existing:
            frame = self.read(name, None if name.startswith("ops.") else snapshots)
            frame.createOrReplaceTempView(sql_views.use_temporary_names(name))
        for view in complete_views:
            name, sql = sql_views.use_temporary_names(view.name), sql_views.use_temporary_names(view.sql)
            self.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {sql}")
        return SparkSql(self.spark, has_catalog=False)

    def _open_local_sql(
        self, tables: Sequence[str], snapshots: Sequence[SnapshotKey] | None, known: Mapping[str, pa.Table]
    ) -> "LocalSql | None":
        """Open a session without Spark; None if Spark must read one of the tables."""
        if not self._has_delta_rs:
            return None
        from pipelines.spark.local_sql import LocalSql

        rows, folders = {}, {name: Path(self.location(name)) for name in tables}
        for name, folder in folders.items():
            read = None if name.startswith("ops.") else snapshots
            table = TABLES[name]
            rows[name] = delta_rs.open_rows(folder, read, table.select(table.column_names))
            if rows[name] is None:
                return None
        return LocalSql({**rows, **known}, folders)

    def _load(self, name: str, snapshots: Sequence[SnapshotKey] | None = None) -> DataFrame:
        """Open a table; in a local folder, without the files of other snapshots.

        Few rows are copied into the session.
        """
        if not self._has_delta_rs:
            return self._open(name)
        own = self._find_written(name)
        if own and own.rows.num_rows == delta_rs.count_rows(Path(self.location(name))):
            return own.frame  # which are all rows
        table, location = TABLES[name], Path(self.location(name))
        if self._is_small:
            rows = self.read_arrow(name, snapshots, table.column_names, _MANY_ROWS)
            if rows is not None:
                return copy_table(self.spark, rows, table.schema)
        files = delta_rs.list_files(location, snapshots)
        if files is None:
            return self._open(name)
        if not files:
            return create_frame(self.spark, [], table.schema)
        return self.spark.read.schema(table.schema).option("basePath", str(location)).parquet(*files)

    def _find_written(self, name: str) -> _Written | None:
        """Return what this process has written to a table, unless another commit came after it."""
        own = self._written.get(name)
        return own if own and own.version == self.last_version(name) else None

    def _has_no_rows(self, table: Table, snapshots: Sequence[SnapshotKey]) -> bool:
        """Tell whether a table has no rows of snapshots, so that they can be appended, in a third of the time."""
        if not self._has_delta_rs:
            return False
        rows = delta_rs.read_rows(Path(self.location(table.name)), snapshots, table.select(SNAPSHOT_KEY[:1]))
        return rows is not None and rows.num_rows == 0

    def _count_local(self, name: str, snapshots: Sequence[SnapshotKey]) -> Mapping[str, int] | None:
        """Count the rows of snapshots by cluster without Spark; None if that is not possible."""
        if not self._has_delta_rs:
            return None
        own = self._find_written(name)
        if own and own.snapshots == {*snapshots}:
            return own.counts
        return delta_rs.count_by_cluster(Path(self.location(name)), snapshots)


def select_views(views: Sequence[View], tables: set[str]) -> list[View]:
    """Select the views whose tables are all among these."""
    return [view for view in views if set(find_dependencies([view.name])[0]) <= tables]
