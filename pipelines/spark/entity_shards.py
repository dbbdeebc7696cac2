"""Read the packed rows of internal.entities: a function gets a shard, with the brokers of its whole cluster."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.ingest.merge.entities import BROKERS, ENTITY_SCHEMAS
from pipelines.ingest.merge.topic_merge import infer_state
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.arrow.ipc import unpack_tables
from udfs.failures.replica_logs import LOG_SUMS, sum_logs

Shard = Mapping[str, Any]  # a row of internal.entities: the key, and some packed entities
_BATCH_ROWS = 20_000  # of what Python hands to Spark
_BROKER_STATES = pa.schema(
    [BROKERS.field(name) for name in ("broker_id", "live", "rack", "release_from", "release_before")]
)


def unpack(packed: Iterable[bytes | None], entity: str) -> pa.Table:
    """Return the rows of an entity (schema ENTITY_SCHEMAS[entity]) from packed shards; null ones have none."""
    return unpack_tables((rows for rows in packed if rows is not None), ENTITY_SCHEMAS[entity])


def add_brokers(shards: DataFrame, brokers: DataFrame) -> DataFrame:
    """Add a column of the whole cluster's brokers to rows of internal.entities."""
    states = F.collect_list(F.struct(*_BROKER_STATES.names)).alias("brokers")
    by_snapshot = brokers.groupBy(*SNAPSHOT_KEY).agg(states)
    return shards.join(F.broadcast(by_snapshot), on=list(SNAPSHOT_KEY), how="left")


def read_brokers(shard: Shard) -> pa.Table:
    """Return id, state, rack and releases of the brokers of a shard's cluster."""
    return pa.Table.from_pylist(shard["brokers"] or [], _BROKER_STATES)


def infer_partitions(shard: Shard) -> pa.Table:
    """Return the partitions of a shard (schema INFERRED_PARTITIONS), by topic and partition."""
    return infer_state(unpack([shard["partitions"]], "partitions"), read_brokers(shard)).combine_chunks()


def map_shards(shards: DataFrame, make: Callable[[Shard], pa.Table], schema: pa.Schema) -> DataFrame:
    """Return what `make` gives for each row of some columns of internal.entities.

    schema: of the result, with the key of the snapshot in front; `make` gives the columns behind the key.
    """
    key = [schema.field(name) for name in SNAPSHOT_KEY]

    def map_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for shard in (shard for batch in batches for shard in batch.to_pylist()):
            rows = make(shard)
            keys = [pa.repeat(pa.scalar(shard[field.name], field.type), rows.num_rows) for field in key]
            columns = dict(zip((*SNAPSHOT_KEY, *rows.column_names), [*keys, *rows.columns], strict=True))
            yield from pa.table({name: columns[name] for name in schema.names}).cast(schema).to_batches(_BATCH_ROWS)

    return shards.mapInArrow(map_batches, from_arrow_schema(schema))


def sum_shard_logs(entities: DataFrame, brokers: DataFrame) -> DataFrame:
    """Sum what each broker of each snapshot holds in each log dir (LOG_SUMS): internal.entities, silver.brokers."""
    shards = entities.where("partitions IS NOT NULL OR stray_logs IS NOT NULL")
    shards = add_brokers(shards.select(*SNAPSHOT_KEY, "partitions", "stray_logs"), brokers)
    schema = pa.schema([*(pa.field(name, pa.string()) for name in SNAPSHOT_KEY), *LOG_SUMS])

    def add_up(shard: Shard) -> pa.Table:
        return sum_logs(infer_partitions(shard), unpack([shard["stray_logs"]], "stray_logs"), read_brokers(shard))

    sums = (F.sum(name).alias(name) for name in LOG_SUMS.names[2:])
    return map_shards(shards, add_up, schema).groupBy(*SNAPSHOT_KEY, "broker_id", "log_dir").agg(*sums)
