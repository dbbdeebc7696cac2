"""Facts: what single records say about a cluster, as rows of typed columns.

A record becomes at least one fact: what it says, or that it is ignored (`FactKind.IGNORED`) or rejected
(`FactKind.REJECTED`). Facts of all sources are merged by `pipelines.ingest.merge`.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class FactKind(StrEnum):
    """What a fact is about."""

    TOPIC = "topic"  # a topic's declaration: id, partition count, replication factor, configs, loads
    PARTITION = "partition"  # replicas and/or leader and ISR of a partition, and its loads
    PARTITION_CHANGE = "partition_change"  # KRaft log: null columns are unchanged
    TOPIC_REMOVED = "topic_removed"  # KRaft log
    CLEAR_ELR = "clear_elr"  # KRaft log: the ELR of a topic (null topic: of all topics) becomes empty
    CONFIG = "config"  # configs of a topic; in a KRaft log, a null value removes the key
    BROKER = "broker"  # a broker: registration, rack, endpoint
    BROKER_CHANGE = "broker_change"  # KRaft log: fenced or unfenced
    BROKER_REMOVED = "broker_removed"  # KRaft log: unregistered
    REPLICA = "replica"  # one replica's log on one broker: size, lag, offsets
    OFFSET = "offset"  # a partition's log end offset
    IGNORED = "ignored"  # says nothing that we use; `reasons` has its one reason
    REJECTED = "rejected"  # cannot be understood: quarantined, with `reasons`


Fact = tuple[FactKind, dict[str, Any]]  # kind, and columns of FACTS; the other columns are null

_INTS = pa.list_(pa.int32())

# One row per fact. A null means "this record does not say". Units are in the names.
FACTS = pa.schema(
    [
        ("record_number", pa.int64()),  # ordinal of the record in its file, from 0
        ("line_number", pa.int64()),  # physical line where the record begins, from 1
        ("kind", pa.string()),  # a FactKind
        ("reasons", pa.list_(pa.string())),  # IGNORED: one; REJECTED: one or more
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("broker_id", pa.int32()),
        ("leader", pa.int32()),  # -1 = no leader
        ("leader_epoch", pa.int32()),
        ("controller_epoch", pa.int32()),  # of the controller that wrote a partition's state; IGNORED: the cluster's
        ("replicas", _INTS),  # preference order
        ("isr", _INTS),
        ("elr", _INTS),
        ("last_known_elr", _INTS),
        ("adding_replicas", _INTS),
        ("removing_replicas", _INTS),
        ("partition_count", pa.int32()),
        ("replication_factor", pa.int32()),
        ("configs", pa.map_(pa.string(), pa.string())),
        ("marked_for_deletion", pa.bool_()),
        ("rack", pa.string()),
        ("host", pa.string()),
        ("port", pa.int32()),
        ("registered", pa.bool_()),  # true: registered, or answering a tool; null: this source does not show it
        ("listed", pa.bool_()),  # true: an entry of a list of all brokers (REJECTED: perhaps an entry)
        ("fenced", pa.bool_()),
        ("controller", pa.bool_()),
        ("draining", pa.bool_()),  # true: the broker is to be emptied (a model's `removed`)
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),  # TOPIC: sum over its partitions; PARTITION: of the partition
        ("bytes_out_per_s", pa.float64()),
        ("offset_lag", pa.int64()),  # messages
        ("log_end_offset", pa.int64()),
        ("high_watermark", pa.int64()),
        ("log_dir", pa.string()),
        ("is_future", pa.bool_()),  # a log being moved between directories of one broker
    ]
)


def ignore(reason: str) -> list[Fact]:
    """Return the facts of a record that says nothing that we use."""
    return [(FactKind.IGNORED, {"reasons": [reason]})]


class FactBuilder:
    """Collects facts as columns. A column that no fact mentions costs nothing until the end."""

    def __init__(self) -> None:
        """Begin without facts."""
        self._columns: dict[str, list[Any]] = {}
        self._rows = 0

    def add(self, record_number: int, line_number: int, kind: FactKind, **values: Any) -> None:
        """Append one fact; `values` are columns of FACTS."""
        values.update(record_number=record_number, line_number=line_number, kind=kind)
        for name, value in values.items():
            column = self._columns.setdefault(name, [])
            column.extend([None] * (self._rows - len(column)))
            column.append(value)
        self._rows += 1

    def build(self) -> pa.Table:
        """Return the facts (schema FACTS)."""
        arrays = {}
        for name, column in self._columns.items():
            column.extend([None] * (self._rows - len(column)))
            arrays[name] = pa.array(column, FACTS.field(name).type)
        return build_facts(arrays, self._rows)


def build_facts(columns: dict[str, pa.Array], rows: int) -> pa.Table:
    """Return a table of schema FACTS from some of its columns; the others are null."""
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in FACTS]
    return pa.Table.from_arrays(arrays, schema=FACTS)


def concat_in_order(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the facts of all parts, sorted by record number."""
    table = pa.concat_tables([part for part in parts if part.num_rows] or parts[:1])
    return table.take(pc.sort_indices(table["record_number"])).combine_chunks()
