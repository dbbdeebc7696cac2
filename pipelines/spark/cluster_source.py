"""A data source of Spark, for clusters without a run: spark.read.format("kafka_placement").load("kafka://b1:9092").

Each source is read by one task; its rows reach Spark as Arrow batches. Call register_source(spark) once in a session.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.types import StructType

from pipelines.cluster_api import read
from pipelines.errors import SourceError
from pipelines.ingest.silver_rows import TABLES, make_silver_rows
from pipelines.tables import TABLES as ALL_TABLES
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table
from udfs.wording import quote_value

_BATCH_ROWS = 65_536
_FILTERS = "spark.sql.python.filterPushdown.enabled"


def register_source(spark: SparkSession) -> None:
    """Register the format, and let Spark hand filters to data sources in Python, without which it rejects this one."""
    spark.conf.set(_FILTERS, "true")
    spark.dataSource.register(ClusterSource)


class ClusterSource(DataSource):
    """The format kafka_placement.

    load takes a file, a folder, kafka://HOST:PORT, or a list of these, each with NAME= before it if it needs a name.

    Options: table: one of brokers, topics, partitions (default) and conflicts, with the columns of the silver table;
    client_properties: file, to connect to running clusters; conf: a file of settings.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafka_placement"

    @property
    def table(self) -> Table:
        """The silver table whose columns the rows have. Raises: SourceError for another."""
        name = self.options.get("table", "partitions")
        if name not in TABLES:
            raise SourceError(f"option table {quote_value(name)}", "is unknown", f"Name one of {', '.join(TABLES)}")
        return ALL_TABLES[f"silver.{name}"]

    def schema(self) -> StructType:
        """Return the columns of the table."""
        return self.table.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the sources."""
        return _ClusterReader(self.table, {**self.options})


class _ClusterReader(DataSourceReader):
    """Reads each source in a task of its own."""

    def __init__(self, table: Table, options: dict[str, str]) -> None:
        self._table, self._options = table, options
        self._filters: list[EqualTo | In] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        """Take equality with values of plain columns; Spark applies the others."""
        plain = {field.name for field in self._table.columns if not pa.types.is_nested(field.type)}
        for one in filters:
            if isinstance(one, EqualTo | In) and len(one.attribute) == 1 and one.attribute[0] in plain:
                self._filters.append(one)
            else:
                yield one

    def partitions(self) -> list[InputPartition]:
        """Return a part for each source. Raises: SourceError without any."""
        options = self._options
        sources = json.loads(options["paths"]) if "paths" in options else [options.get("path")]
        if not any(sources):
            raise SourceError("kafka_placement", "has no source", 'Name one, as in .load("prod=dumps/prod")')
        return [InputPartition(source) for source in sources]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a source."""
        options = {name: Path(self._options[name]) for name in ("client_properties", "conf") if name in self._options}
        cluster = read(partition.value, **options)  # type: ignore[arg-type]
        name = self._table.name.partition(".")[2]
        rows = make_silver_rows(cluster.snapshot, name, cluster.settings.topics.defaults)
        for key, value in zip(SNAPSHOT_KEY, (cluster.snapshot.cluster_id, cluster.snapshot_id), strict=True):
            rows = rows.append_column(key, pa.repeat(value, rows.num_rows))
        for one in self._filters:
            values = [one.value] if isinstance(one, EqualTo) else list(one.value)
            column = rows[one.attribute[0]]
            rows = rows.filter(pc.is_in(column, pa.array(values).cast(column.type)))
        yield from rows.select(self._table.column_names).to_batches(_BATCH_ROWS)
