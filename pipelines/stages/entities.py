"""silver.entities: raw records parsed in batches, brought together by topic, and merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pipelines.ingest import records as r
from pipelines.ingest.formats.registry import FORMATS
from pipelines.ingest.records import Records
from pipelines.ingest.resolve.resolve import BROKER_LIST, SOURCED_FACTS, resolve
from pipelines.ingest.resolve.shapes import SCHEMAS
from pipelines.tables.silver import ENTITIES, ENTITY_OF

_ORIGIN = ("cluster_id", "snapshot_id", "source", "format")
_FACTS = pa.schema([*((name, pa.string()) for name in _ORIGIN), *r.FACTS])
_BROKER_KINDS = (r.BROKER, r.BROKER_CHANGE, r.BROKER_REMOVED)
_ENTITY_ARROW = to_arrow_schema(ENTITIES.schema)


@dataclass(frozen=True)
class EntityParameters:
    """shares: {cluster: into how many shares its topics are cut}; a cluster that is not named has one."""

    shares: Mapping[str, int]


def _parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        column = {name: batch.column(i).to_pylist() for i, name in enumerate(batch.schema.names)}
        origin = list(zip(*(column[name] for name in _ORIGIN), strict=True))
        begin = 0
        for end in range(1, len(origin) + 1):
            if end < len(origin) and origin[end] == origin[begin]:
                continue
            cut = slice(begin, end)
            names = ("record_number", "line_number", "context", "raw")
            facts = FORMATS[column["format"][begin]].parse(Records(*(column[name][cut] for name in names)))
            fixed = [pa.array([value] * facts.num_rows, pa.string()) for value in origin[begin]]
            yield from pa.Table.from_arrays([*fixed, *facts.columns], schema=_FACTS).combine_chunks().to_batches()
            begin = end


def _resolve_share(key: tuple[pa.Scalar, ...], facts: pa.Table) -> pa.Table:
    """All entities (the columns of silver.entities) of one share of a cluster."""
    cluster_id, snapshot_id, share = (scalar.as_py() for scalar in key)
    resolution = resolve(facts.select(SOURCED_FACTS.names).cast(SOURCED_FACTS))
    parts = []
    for name in SCHEMAS:
        # Every share has seen every broker's facts; one of them speaks for all.
        if name == "registrations" and share != 0:
            continue
        rows: pa.Table = getattr(resolution, name).combine_chunks()
        n = rows.num_rows
        if not n:
            continue
        struct = pa.StructArray.from_arrays([c.combine_chunks() for c in rows.columns], fields=list(rows.schema))
        columns = []
        for field in _ENTITY_ARROW:
            if field.name == "cluster_id":
                columns.append(pa.array([cluster_id] * n, pa.string()))
            elif field.name == "snapshot_id":
                columns.append(pa.array([snapshot_id] * n, pa.string()))
            elif field.name == "entity":
                columns.append(pa.array([name] * n, pa.string()))
            else:
                columns.append(struct.cast(field.type) if field.name == ENTITY_OF[name] else pa.nulls(n, field.type))
        parts.append(pa.Table.from_arrays(columns, names=_ENTITY_ARROW.names))
    return pa.concat_tables(parts) if parts else _ENTITY_ARROW.empty_table()


def entities(raw: DataFrame, parameters: EntityParameters) -> DataFrame:
    """Rows of silver.entities. raw: rows of bronze.raw_metadata, whole snapshots."""
    needed = raw.select(*_ORIGIN, "record_number", "line_number", "context", "raw")
    facts = needed.mapInArrow(_parse, from_arrow_schema(_FACTS))
    shares = F.lit(1)
    for cluster_id, count in parameters.shares.items():
        if count > 1:
            shares = F.when(F.col("cluster_id") == F.lit(cluster_id), F.lit(count)).otherwise(shares)
    of_topic = F.when(F.col("topic").isNull(), F.lit(0)).otherwise(F.pmod(F.xxhash64("topic"), shares).cast("int"))
    # Facts on brokers go to every share: they tell which replicas are outside of a complete broker list.
    # So do faulty entries of such a list: with a gap it is not complete.
    entry = F.coalesce("listed", F.lit(False)) | (F.col("format") == BROKER_LIST)
    for_all = (
        F.col("kind").isin(*_BROKER_KINDS)
        | ((F.col("kind") == r.CLEAR_ELR) & F.col("topic").isNull())
        | ((F.col("kind") == r.FAULT) & entry)
    )
    where = F.when(for_all, F.sequence(F.lit(0), shares - 1)).otherwise(F.array(of_topic))
    shared = facts.withColumn("share", F.explode(where)).withColumn("home", ~for_all | (F.col("share") == 0))
    keyed = shared.groupBy("cluster_id", "snapshot_id", "share")
    return keyed.applyInArrow(_resolve_share, ENTITIES.schema).select(*ENTITIES.column_names)
