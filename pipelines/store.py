"""The only module that reads or writes Delta tables: by path under one warehouse folder, or by name in a catalog.

A write is one commit that replaces the given snapshots' rows: readers see all of a snapshot in a table, or none of it,
and the same snapshot again replaces itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.tables import TABLES
from pipelines.tables.contract import Table


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _of_snapshots(snapshots: Sequence[SnapshotKey]) -> str:
    """SQL: the row is of one of these snapshots."""
    one = (
        f"(cluster_id = {_quoted(s.cluster_id)} AND snapshot_id = {_quoted(s.snapshot_id)})" for s in sorted(snapshots)
    )
    return " OR ".join(one) or "false"


class Store:
    """The tables of one warehouse.

    warehouse: folder, used when `catalog` is empty.   catalog: name of a catalog that the session knows.
    """

    def __init__(self, spark: SparkSession, warehouse: str, catalog: str = "") -> None:
        self.spark = spark
        self._catalog = catalog
        self._made: set[str] = set()
        self.warehouse = str(Path(warehouse).resolve()) if "://" not in warehouse else warehouse.rstrip("/")

    def place(self, name: str) -> str:
        """Where the table is, for a person: its path, or its name in the catalog."""
        return self._name(name) if self._catalog else f"{self.warehouse}/{name.replace('.', '/')}"

    def _name(self, name: str) -> str:
        return f"`{self._catalog}`.{name}"

    def _sql_name(self, name: str) -> str:
        return self._name(name) if self._catalog else f"delta.`{self.place(name)}`"

    def exists(self, name: str) -> bool:
        """Whether the table has been made."""
        try:
            self.spark.sql(f"DESCRIBE DETAIL {self._sql_name(name)}").collect()
        except AnalysisException:
            return False
        return True

    def create(self, table: Table) -> None:
        """Make the table with its contract, if it is not there."""
        if table.name in self._made:
            return
        lines = []
        for field in table.schema.fields:
            null = "" if field.nullable else " NOT NULL"
            lines.append(
                f"`{field.name}` {field.dataType.simpleString()}{null} COMMENT {_quoted(field.metadata['comment'])}"
            )
        partitioned = f"PARTITIONED BY ({', '.join(table.partition_by)})" if table.partition_by else ""
        skip_by = ",".join(table.skip_by)
        properties = f"TBLPROPERTIES ('delta.dataSkippingStatsColumns' = '{skip_by}')" if skip_by else ""
        if self._catalog:
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS `{self._catalog}`.{table.name.split('.')[0]}")
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self._sql_name(table.name)} ({', '.join(lines)}) USING delta "
            f"{partitioned} COMMENT {_quoted(table.comment)} {properties}"
        )
        self._made.add(table.name)

    def read(self, name: str, snapshots: Sequence[SnapshotKey] | None = None) -> DataFrame:
        """The table's rows, of these snapshots only if given."""
        try:
            frame = self._load(name)
        except AnalysisException as error:
            problem = f"there is no table {name} at {self.place(name)}"
            raise StoreError(f"{problem}. Run the earlier stages first: kafka-placement run SOURCE...") from error
        expected = TABLES[name].column_names
        if frame.columns != expected:
            problem = f"{self.place(name)} has columns {frame.columns}, not {expected}: another version made it"
            raise StoreError(f"{problem}. Use another --warehouse, or remove this one.")
        return frame if snapshots is None else frame.where(_of_snapshots(snapshots))

    def _load(self, name: str) -> DataFrame:
        if self._catalog:
            return self.spark.table(self._name(name))
        return self.spark.read.format("delta").load(self.place(name))

    def replace(self, table: Table, rows: DataFrame, snapshots: Sequence[SnapshotKey]) -> None:
        """Make `rows` all that the table has of these snapshots, in one commit."""
        self.create(table)
        writer = rows.select(*table.column_names).write.format("delta").mode("overwrite")
        self._save(writer.option("replaceWhere", _of_snapshots(snapshots)), table)

    def append(self, table: Table, rows: DataFrame) -> None:
        """Add rows to an append-only table."""
        self.create(table)
        self._save(rows.select(*table.column_names).write.format("delta").mode("append"), table)

    def _save(self, writer: Any, table: Table) -> None:
        if self._catalog:
            writer.saveAsTable(self._name(table.name))
        else:
            writer.save(self.place(table.name))

    def register(self, names: Sequence[str]) -> list[str]:
        """The names among these whose tables exist; `SELECT ... FROM schema.table` works for them from now on."""
        if self._catalog:
            self.spark.catalog.setCurrentCatalog(self._catalog)
            return [name for name in names if self.exists(name)]
        known = [name for name in names if self.exists(name)]
        for schema in sorted({name.split(".")[0] for name in known}):
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for name in known:
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")
            self.spark.sql(f"CREATE TABLE {name} USING delta LOCATION {_quoted(self.place(name))}")
        return known

    def listing(self) -> list[dict[str, Any]]:
        """What tables there are: name, rows, version, comment, place; in the order in which a run fills them."""
        out = []
        for name, table in TABLES.items():
            if self.exists(name):
                history = self.spark.sql(f"DESCRIBE HISTORY {self._sql_name(name)} LIMIT 1")
                version = history.select(F.col("version")).first()
                rows = self._load(name).count()
                row = {"table": name, "rows": rows, "version": version[0] if version else 0}
                out.append({**row, "comment": table.comment, "place": self.place(name)})
        return out
