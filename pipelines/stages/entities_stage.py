"""internal.entities: raw records parsed in batches, brought together by topic, and merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pipelines.ingest import records as r
from pipelines.ingest.formats.format_registry import FORMATS
from pipelines.ingest.merge.cluster_merge import BROKER_LIST, SOURCED_FACTS, resolve
from pipelines.ingest.merge.merged_schemas import SCHEMAS
from pipelines.ingest.records import Records
from pipelines.ingest.snapshot import sourced
from pipelines.tables.silver_tables import ENTITIES, ENTITY_OF
from udfs.arrow.columns import whole
from udfs.arrow.ipc import packed, topic_shards, unpacked

_ORIGIN = ("cluster_id", "snapshot_id", "source", "format")
_RECORD = ("record_number", "line_number", "context", "raw")
_BROKER_KINDS = (r.BROKER, r.BROKER_CHANGE, r.BROKER_REMOVED)
_ENTITY_ARROW = to_arrow_schema(ENTITIES.schema)


@dataclass(frozen=True)
class EntityParameters:
    """shards: {cluster: into how many shards its topics are cut}; a cluster that is not named has one."""

    shard_counts: Mapping[str, int]


# Facts on their way to their shard: an Arrow table each, as Spark need not look into them. Row by row, their lists and
# nulls would cost several times what parsing and resolving them do.
_IPC_BATCHES = pa.schema(
    [("cluster_id", pa.string()), ("snapshot_id", pa.string()), ("shard", pa.int32()), ("facts", pa.binary())]
)


def _parser(shard_counts: Mapping[str, int]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: raw records -> Arrow IPC batches of facts (_IPC_BATCHES)."""

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bounds = _runs(batch)
            for begin, end in pairwise(bounds):
                part = batch.slice(begin, end - begin)
                cluster, snapshot, source, form = (part.column(name)[0].as_py() for name in _ORIGIN)
                facts = FORMATS[form].parse(Records(*(part.column(name).to_pylist() for name in _RECORD)))
                for shard, table in _by_shard(sourced(facts, source, form), cluster, shard_counts.get(cluster, 1)):
                    row = [[cluster], [snapshot], [shard], [packed(table)]]
                    yield pa.RecordBatch.from_arrays(
                        [pa.array(v, f.type) for v, f in zip(row, _IPC_BATCHES, strict=True)], schema=_IPC_BATCHES
                    )

    return parse


def _runs(batch: pa.RecordBatch) -> list[int]:
    """Where the rows of each source begin, and the end."""
    change = np.zeros(max(batch.num_rows - 1, 0), dtype=np.bool_)
    for name in _ORIGIN:
        codes = np.asarray(pc.dictionary_encode(batch.column(name)).indices)
        change |= codes[1:] != codes[:-1]
    return [0, *(np.flatnonzero(change) + 1).tolist(), batch.num_rows] if batch.num_rows else [0]


def _by_shard(facts: pa.Table, cluster: str, shard_counts: int) -> Iterator[tuple[int, pa.Table]]:
    """(shard, its facts) of one source (schema SOURCED_FACTS): whole topics, and what all shards need to know."""
    if shard_counts == 1:
        yield 0, facts
        return
    for_all = np.asarray(whole(_for_all(facts)))
    home = topic_shards(pc.fill_null(whole(facts["topic"]), ""), shard_counts)
    home[np.asarray(pc.is_null(whole(facts["topic"]))) | for_all] = 0
    for shard in np.unique(home).tolist() if not for_all.any() else range(shard_counts):
        part = facts.filter(pa.array(for_all | (home == shard)))
        if shard != 0:
            at_home = pa.array(home[for_all | (home == shard)] == shard)
            part = part.set_column(part.schema.get_field_index("home"), "home", at_home)
        if part.num_rows:
            yield shard, part


def _for_all(facts: pa.Table) -> pa.ChunkedArray:
    """Facts on brokers: they tell which replicas are outside of a complete broker list.

    So do faulty entries of such a list: with a gap it is not complete.
    """
    entry = pc.or_(pc.fill_null(facts["listed"], False), pc.equal(facts["format"], BROKER_LIST))
    kind = facts["kind"]
    clears_all = pc.and_(pc.equal(kind, r.CLEAR_ELR), pc.is_null(facts["topic"]))
    return pc.or_(pc.or_(pc.is_in(kind, pa.array(_BROKER_KINDS)), clears_all), pc.and_(pc.equal(kind, r.FAULT), entry))


def _resolve_shard(key: tuple[pa.Scalar, ...], ipc_batches: pa.Table) -> pa.Table:
    """All entities (the columns of internal.entities) of one shard of a cluster (Arrow IPC batches: schema
    _IPC_BATCHES)."""
    cluster_id, snapshot_id, shard = (scalar.as_py() for scalar in key)
    resolution = resolve(unpacked(ipc_batches["facts"].to_pylist(), SOURCED_FACTS))
    parts = []
    for name in SCHEMAS:
        # Every shard has seen every broker's facts; one of them speaks for all.
        if name == "registrations" and shard != 0:
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
    """Rows of internal.entities. raw: rows of bronze.raw_metadata, whole snapshots."""
    needed = raw.select(*_ORIGIN, *_RECORD)
    ipc_batches = needed.mapInArrow(_parser(parameters.shard_counts), from_arrow_schema(_IPC_BATCHES))
    keyed = ipc_batches.groupBy("cluster_id", "snapshot_id", "shard")
    return keyed.applyInArrow(_resolve_shard, ENTITIES.schema).select(*ENTITIES.column_names)
