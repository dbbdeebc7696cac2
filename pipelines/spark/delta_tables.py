"""Create, write and open the Delta tables of a warehouse: by path in a folder, or by name in a catalog.

Every statement is SQL or a data frame, because Spark Connect serves delta-spark's DeltaTable only with a server plugin.
"""

import fcntl
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.readwriter import DataFrameWriter

from pipelines.errors import KafkaPlacementError, StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark import delta_rs, table_files, table_upgrades
from pipelines.spark.arrow_frames import cast_rows, copy_table
from pipelines.spark.delta_log import check_log, last_version, list_commits
from pipelines.spark.storage_faults import explain_storage_fault, read_message, repeat_after_conflicts
from pipelines.spark.warehouse_folder import check_place
from pipelines.sql_text import match_numbers, match_snapshots, quote_name
from pipelines.tables import TABLES
from pipelines.tables.earlier_tables import EARLIER_TABLES
from pipelines.tables.table_contract import Table
from pipelines.warehouse_urls import redact_urls

_SPARK_ERROR = re.compile(r"\[[A-Z][A-Z_.]+\] [^\n]*")
# Set in conf/spark.toml: this Spark runs within the process that started it, on local files.
EMBEDDED = "spark.kafkaPlacement.embedded"
SMALL = "spark.kafkaPlacement.small"  # likewise: it was started for few rows
_PARALLEL_CHECKS = 4
_MAX_LOCAL_ROWS = 1_000_000
_KNOWN = {**TABLES, **EARLIER_TABLES}
_INCOMPLETE_LOG = "DELTA_CANNOT_VACUUM_LITE"  # commits since the last VACUUM are gone: runs are weeks apart

_log = logging.getLogger(__name__)


class DeltaTables:
    """The Delta tables of one warehouse: a folder or URI, or a catalog of the session, if it is named."""

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession],
        warehouse: str,
        catalog: str = "",
        *,
        small: bool = False,
    ) -> None:
        """Open a warehouse.

        spark: or what starts Spark in this process, once it is needed, for few rows (small) or many.
        """
        check_place(warehouse)
        self._session = None if callable(spark) else spark
        self._start_spark = spark if callable(spark) else lambda: spark
        self._starting = threading.Lock()
        self.warehouse = str(Path(warehouse).resolve()) if "://" not in warehouse else warehouse.rstrip("/")
        self._catalog = catalog
        if catalog:
            self._check_catalog()
        self._existing: set[str] = set()  # tables known to exist: they are never removed
        self._properties: dict[str, dict[str, str]] = {}  # of existing tables, as Spark has found them
        self._upgraded: set[str] = set()  # of these, those known to have all columns of this version
        # Another Spark may resolve a path on another file system than this machine's.
        conf = None if callable(spark) else spark.conf
        is_embedded = conf is None or conf.get(EMBEDDED, "false") == "true"
        self._is_local = not catalog and "://" not in warehouse and is_embedded
        self._has_delta_rs = self._is_local and delta_rs.is_plain(self.warehouse)
        # Few rows pass through this process: delta-rs commits them in a tenth of the time that Spark takes.
        self._is_small = self._has_delta_rs and (small if conf is None else conf.get(SMALL, "false") == "true")

    @property
    def spark(self) -> SparkSession:
        """The Spark session, which is started now if it has not been needed before; raise EnvironmentFault if not."""
        with self._starting:
            if self._session is None:
                self._session = self._start_spark()
        return self._session

    def _check_catalog(self) -> None:
        """Raise StoreError if the session has no such catalog."""
        catalog = self.spark.catalog
        try:
            current = catalog.currentCatalog()
            catalog.setCurrentCatalog(self._catalog)
            catalog.setCurrentCatalog(current)
        except Exception as error:  # of Spark, Java or the catalog itself
            message = read_message(error)
            reason = match[0] if (match := _SPARK_ERROR.search(message)) else message.partition("\n")[0]
            problem = f"store.catalog={self._catalog}: Spark cannot use this catalog: {reason.rstrip('.')}"
            remedy = "Configure it in Spark (docs/spark-cluster.md), or leave store.catalog empty to use a folder"
            raise StoreError(f"{problem}. {remedy}") from error

    @property
    def has_catalog(self) -> bool:
        """Whether tables are those of a catalog."""
        return bool(self._catalog)

    @property
    def has_local_files(self) -> bool:
        """Whether this process reads and writes the files of tables without Spark."""
        return self._has_delta_rs

    def location(self, name: str) -> str:
        """Return the path of a table, or its name in the catalog."""
        return f"{quote_name(self._catalog)}.{name}" if self._catalog else f"{self.warehouse}/{name.replace('.', '/')}"

    def describe_location(self, name: str) -> str:
        """Return the location of a table as it may be printed and stored: without secrets."""
        return redact_urls(self.location(name))

    @contextmanager
    def explain_faults(self, written: str | None = None) -> Iterator[None]:
        """Raise StoreError instead of an error of Spark or the system that the storage of tables has caused.

        written: the table or file that the block writes, and where.
        """
        try:
            yield
        except KafkaPlacementError:
            raise
        except Exception as error:
            if self._is_local and not Path(self.warehouse).is_dir():
                problem = f"the folder {self.warehouse} of the warehouse has disappeared"
                raise StoreError(f"{problem}. Restore it, or start anew: kafka-placement run SOURCE...") from error
            fault = explain_storage_fault(error, written, [self.location(name) for name in TABLES])
            if fault is None and redact_urls(self.warehouse) != self.warehouse and self.warehouse in str(error):
                fault = StoreError(read_message(error).partition("\n")[0])  # the rest would show a secret
            if fault is None:
                raise
            raise fault from error

    def exists(self, name: str) -> bool:
        """Tell whether a table exists; raise StoreError if commits of its log are lost."""
        if self._is_local:
            return check_log(Path(self.location(name)))
        if name not in self._existing and self._describe(name):
            self._existing.add(name)
        return name in self._existing

    def last_version(self, name: str) -> int:
        """Return the number of a table's last commit; -1 if there is none."""
        if self._is_local:  # Spark takes longer
            return last_version(Path(self.location(name)))
        history = self.spark.sql(f"DESCRIBE HISTORY {self._sql_name(name)} LIMIT 1").select(F.col("version")).first()
        return int(history[0]) if history else -1

    def read_arrow(
        self,
        name: str,
        snapshots: Sequence[SnapshotKey] | None,
        columns: Sequence[str],
        max_rows: int | None = _MAX_LOCAL_ROWS,
    ) -> pa.Table | None:
        """Read columns of the rows of snapshots (None = all) without Spark; None if Spark must, or they may be many."""
        if not self._has_delta_rs:
            return None
        schema = TABLES[name].select(columns)
        return delta_rs.read_rows(Path(self.location(name)), snapshots, schema, max_rows)

    def read_state(self, name: str, version: int | None = None) -> str:
        """Read the number and the time of a commit of a table, by default of the last; empty if it is gone."""
        if self._is_local:
            commits = reversed(list_commits(Path(self.location(name))))
            commit = next((file for file in commits if version is None or int(file.stem) == version), None)
            return f"{int(commit.stem)} {commit.stat().st_mtime_ns}" if commit else ""
        history = self.spark.sql(f"DESCRIBE HISTORY {self._sql_name(name)} {'LIMIT 1' if version is None else ''}")
        chosen = history if version is None else history.where(F.col("version") == version)
        row = chosen.selectExpr("version", "CAST(timestamp AS STRING) AS time").first()
        return f"{row.version} {row.time}" if row else ""

    def read_history(self, name: str, commits: int) -> list[delta_rs.Commit]:
        """Read so many of the last commits of a table, the newest first; empty if there is no table."""
        if self._has_delta_rs:
            return delta_rs.read_history(Path(self.location(name)), commits)
        try:
            history = self.spark.sql(f"DESCRIBE HISTORY {self._sql_name(name)} LIMIT {commits}")
            rows = history.select("operation", "operationParameters", "userMetadata").collect()
        except AnalysisException:
            return []
        return [delta_rs.Commit.parse(*row) for row in rows]

    def read_columns(
        self, name: str, columns: Sequence[str], snapshots: Sequence[SnapshotKey] | None = None
    ) -> pa.Table:
        """Read columns of the rows of snapshots (None = all), however many they are."""
        if (rows := self.read_arrow(name, snapshots, columns, None)) is not None:
            return rows
        with self.explain_faults():
            frame = self._open(name).select(*columns)
            return (frame if snapshots is None else frame.where(match_snapshots(snapshots))).toArrow()

    def delete(self, name: str, snapshots: Sequence[SnapshotKey], condition: str = "true") -> None:
        """Delete the rows of snapshots that meet a condition, which any SQL reads, in one commit."""
        with self.lock(name):
            if self._has_delta_rs:
                delta_rs.delete_snapshots(Path(self.location(name)), snapshots, condition)
            else:
                rows = f"({match_snapshots(snapshots)}) AND {condition}"
                self._retry(TABLES[name], lambda: self.spark.sql(f"DELETE FROM {self._sql_name(name)} WHERE {rows}"))

    def overwrite(
        self,
        name: str,
        rows: pa.RecordBatchReader | DataFrame,
        comment: str,
        metadata: str,
        first_numbers: Mapping[str, int] | None = None,
    ) -> bool:
        """Replace rows in one commit that records metadata; a table without a contract has the columns of its rows.

        Return False, without a commit, if the table has the same few rows already.
        first_numbers: of each cluster, the first `number` of the rows that are replaced; None = all rows.
        """
        location = self.location(name)
        with self.lock(name):
            if isinstance(rows, pa.RecordBatchReader):
                condition = match_numbers(first_numbers, delta_rs.quote) if first_numbers else ""
                return delta_rs.overwrite_table(Path(location), rows, comment, metadata, condition)
            writer = rows.write.format("delta").mode("overwrite").option("userMetadata", metadata)
            changed = ("replaceWhere", match_numbers(first_numbers)) if first_numbers else ("overwriteSchema", "true")
            writer.option(*changed).option("optimizeWrite", "true").save(location)
            return True

    def count_files(self, name: str) -> int:
        """Count the files of a table."""
        if self._has_delta_rs:
            return table_files.count_files(Path(self.location(name)))
        row = self._describe(name)
        return int(row.numFiles) if row else 0

    def compact(self, name: str) -> None:
        """Write the rows of a table to few files."""
        with self.lock(name):
            if self._has_delta_rs:
                table_files.compact_table(Path(self.location(name)))
            else:
                self.spark.sql(f"OPTIMIZE {self._sql_name(name)}")

    def vacuum(self, name: str, days: float | None = None) -> int:
        """Remove the files that a table has not had for so many days; return their number, where it is known.

        days: None, and where Spark does it, as the table's own properties say, which is a week by default.
        """
        with self.explain_faults(f"table {name} at {self.location(name)}"):
            if self._has_delta_rs:
                return table_files.vacuum_table(Path(self.location(name)), days)
            statement = f"VACUUM {self._sql_name(name)}"
            try:
                self.spark.sql(f"{statement} LITE")  # reads the log instead of listing files in thousands of tasks
            except Exception as error:
                if _INCOMPLETE_LOG not in read_message(error):
                    raise
                self.spark.sql(statement)
            return 0

    def create(self, table: Table) -> None:
        """Create a table by its contract if it does not exist."""
        with self.lock(table.name):
            self._create(table)

    def check_versions(self, names: Iterable[str]) -> None:
        """Raise StoreError if one of these tables cannot be continued, before any of them is written."""
        existing = [_KNOWN[name] for name in names if name in _KNOWN and self.exists(name)]
        with ThreadPoolExecutor(_PARALLEL_CHECKS) as pool:
            for table, upgrade in zip(existing, pool.map(self._find_upgrade, existing), strict=True):
                if upgrade.is_empty:
                    self._upgraded.add(table.name)

    def find_table_state(self, name: str) -> table_upgrades.TableState:
        """Find the columns and the version of a table that exists."""
        state = delta_rs.read_state(Path(self.location(name))) if self._has_delta_rs else None
        if state is None:
            if name not in self._properties:
                self._describe(name)
            state = table_upgrades.TableState.of_properties(self._open(name).schema, self._properties.get(name, {}))
        return state

    def append(self, table: Table, rows: pa.Table) -> None:
        """Append rows to a table, which is created if it does not exist."""
        with self.lock(table.name):
            self._create(table)
            if self._has_delta_rs:
                self._write_few(table, rows)
            else:
                frame = copy_table(self.spark, rows, table.schema)
                self._save(table, frame.select(*table.column_names).write.mode("append"))

    def _sql_name(self, name: str) -> str:
        return self.location(name) if self._catalog else f"delta.{quote_name(self.location(name))}"

    def _describe(self, name: str) -> Row | None:
        """Look for a table with Spark, and note its properties."""
        with self.explain_faults():
            try:
                row = self.spark.sql(f"DESCRIBE DETAIL {self._sql_name(name)}").first()
            except AnalysisException:
                return None
        self._properties[name] = dict(row.properties or {}) if row else {}
        return row

    def _open(self, name: str) -> DataFrame:
        if self._is_local:
            check_log(Path(self.location(name)))  # Spark would read a table without its last commits
        with self.explain_faults():
            if self._catalog:
                return self.spark.table(self.location(name))
            return self.spark.read.format("delta").load(self.location(name))

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Lock a table to write to it: in a folder, of two commits with one number the second replaces the first."""
        with self.explain_faults(f"table {name} at {self.location(name)}"), ExitStack() as stack:
            if self._is_local:
                folder = Path(self.location(name))
                folder.mkdir(parents=True, exist_ok=True)
                lock = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _create(self, table: Table) -> None:
        if table.name in self._upgraded:
            return
        if self.exists(table.name):
            self._upgrade(table)
        else:
            self._create_new(table)
        self._existing.add(table.name)
        self._upgraded.add(table.name)

    def _create_new(self, table: Table) -> None:
        if self._is_local:
            # Left by a run that was killed while it created the table. Delta would see a table without columns.
            shutil.rmtree(Path(self.location(table.name), "_delta_log"), ignore_errors=True)
        if self._catalog:
            schema = table.name.split(".")[0]
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote_name(self._catalog)}.{schema}")
        if self._is_small:
            delta_rs.create_table(Path(self.location(table.name)), table)
        else:
            statement = table_upgrades.make_create_statement(table, self._sql_name(table.name))
            self._retry(table, lambda: self.spark.sql(statement))

    def _upgrade(self, table: Table) -> None:
        """Add to a table what an earlier version of this program did not write; raise StoreError if that fails."""
        upgrade = self._find_upgrade(table)
        if upgrade.earlier_columns:
            raise table_upgrades.make_migration_error(f"table {table.name} at {self.describe_location(table.name)}")
        if self._has_delta_rs and not upgrade.is_empty:
            delta_rs.upgrade_table(Path(self.location(table.name)), upgrade)
        elif not upgrade.is_empty:
            for clause in table_upgrades.make_alter_clauses(upgrade):
                statement = f"ALTER TABLE {self._sql_name(table.name)} {clause}"
                self._retry(table, partial(self.spark.sql, statement))
        self._properties.pop(table.name, None)

    def _find_upgrade(self, table: Table) -> table_upgrades.Upgrade:
        place = f"table {table.name} at {self.describe_location(table.name)}"
        return table_upgrades.find_upgrade(table, self.find_table_state(table.name), place)

    def _write_few(self, table: Table, rows: DataFrame | pa.Table, replaced: Sequence[SnapshotKey] = ()) -> pa.Table:
        """Write rows through this process, in place of those of snapshots, or of their clusters if only_newest.

        Without any, there is no commit.
        """
        arrow = rows if isinstance(rows, pa.Table) else rows.select(*table.column_names).toArrow()
        collected = cast_rows(arrow, table.schema)
        # Copied, as Spark's empty columns lack the buffers that delta-rs reads.
        collected = collected.take(np.arange(collected.num_rows))
        if collected.num_rows or replaced:
            folder = Path(self.location(table.name))
            delta_rs.write_rows(folder, collected, replaced, whole_clusters=table.only_newest)
        return collected

    def _save(self, table: Table, writer: DataFrameWriter) -> None:
        save = writer.format("delta").saveAsTable if self._catalog else writer.format("delta").save
        self._retry(table, lambda: save(self.location(table.name)))

    def _retry(self, table: Table, write: Callable[[], Any]) -> None:
        """Write, and try again while other runs write to the table at the same time."""
        repeat_after_conflicts(write, table.name, self.location(table.name))
