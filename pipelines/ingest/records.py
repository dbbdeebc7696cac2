"""The two shapes that every reader shares: framed records (text in) and facts (typed columns out).

A reader works in two steps, so that Spark can spread the second over batches:

`frame`  reads one file's text in order and cuts it into records - mostly lines; elements where a format
         is one JSON document. What a record needs from its surroundings (a znode's path, a CSV header, the
         topic of a topic id) is put beside it as `context`, so each record can then be parsed alone.
`parse`  turns any batch of records of one file into facts: rows of `FACTS`, at least one per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# What a fact speaks of. A record becomes at least one fact: what it carries, IGNORED or FAULT.
TOPIC = "topic"  # a topic's declaration: id, partition count, replication factor, configs, loads
PARTITION = "partition"  # replicas and/or leader and ISR of a partition, and its loads
PARTITION_CHANGE = "partition_change"  # KRaft log: null columns are unchanged
TOPIC_REMOVED = "topic_removed"  # KRaft log
CLEAR_ELR = "clear_elr"  # KRaft log: the ELR of a topic (null topic: of all) is emptied
CONFIG = "config"  # configs of a topic; in a KRaft log, a null value removes the key
BROKER = "broker"  # a broker: registration, rack, endpoint
BROKER_CHANGE = "broker_change"  # KRaft log: fenced or unfenced
BROKER_REMOVED = "broker_removed"  # KRaft log: unregistered
REPLICA = "replica"  # one replica's log on one broker: size, lag, offsets
OFFSET = "offset"  # a partition's log end offset
IGNORED = "ignored"  # carries nothing for us; `reasons` holds its one named reason
FAULT = "fault"  # cannot be understood: goes to quarantine with `reasons`

_INTS = pa.list_(pa.int32())

# One row per fact. A null means "this record does not say". Units are in the names.
FACTS = pa.schema(
    [
        ("record_number", pa.int64()),  # ordinal of the record in its file, from 0
        ("line_number", pa.int64()),  # physical line where the record begins, from 1
        ("kind", pa.string()),  # one of the constants above
        ("reasons", pa.list_(pa.string())),  # IGNORED: one; FAULT: one or more
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("broker_id", pa.int32()),
        ("leader", pa.int32()),  # -1 = no leader; null = not said
        ("leader_epoch", pa.int32()),
        ("controller_epoch", pa.int32()),  # of who wrote a partition's state; IGNORED: of the cluster's controller
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
        ("registered", pa.bool_()),  # true: seen registered or answering; null: this source does not show it
        ("listed", pa.bool_()),  # true: an entry of a list that names every broker of the cluster (FAULT: may be one)
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


@dataclass(frozen=True)
class Records:
    """Framed records of one file: parallel lists of equal length, in file order."""

    record_number: Sequence[int]
    line_number: Sequence[int]
    context: Sequence[str | None]
    raw: Sequence[str]

    @staticmethod
    def of(rows: Iterable[tuple[int, str | None, str]]) -> Records:
        """Records from (line_number, context, raw), numbered in order."""
        lines: list[int] = []
        contexts: list[str | None] = []
        raws: list[str] = []
        for line_number, context, raw in rows:
            lines.append(line_number)
            contexts.append(context)
            raws.append(raw)
        return Records(range(len(raws)), lines, contexts, raws)

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[tuple[int, int, str | None, str]]:
        return zip(self.record_number, self.line_number, self.context, self.raw, strict=True)


class FactBuilder:
    """Collects facts as columns; a column that no fact mentions costs nothing until the end."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {}
        self._rows = 0

    def add(self, record_number: int, line_number: int, kind: str, **fields: Any) -> None:
        """Append one fact; `fields` are columns of FACTS, the others stay null."""
        fields["record_number"] = record_number
        fields["line_number"] = line_number
        fields["kind"] = kind
        for name, value in fields.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = []
            if len(column) < self._rows:
                column.extend([None] * (self._rows - len(column)))
            column.append(value)
        self._rows += 1

    def ignore(self, record_number: int, line_number: int, reason: str) -> None:
        """Append a record that carries nothing for us, with its named reason."""
        self.add(record_number, line_number, IGNORED, reasons=[reason])

    def fault(self, record_number: int, line_number: int, *reasons: str) -> None:
        """Append a record that cannot be understood: it goes to quarantine with these reasons."""
        self.add(record_number, line_number, FAULT, reasons=list(reasons))

    def table(self) -> pa.Table:
        """Facts as an Arrow table of schema FACTS."""
        arrays = []
        for field in FACTS:
            column = self._columns.get(field.name)
            if column is None:
                arrays.append(pa.nulls(self._rows, field.type))
                continue
            column.extend([None] * (self._rows - len(column)))
            arrays.append(pa.array(column, field.type))
        return pa.Table.from_arrays(arrays, schema=FACTS)


@dataclass(frozen=True)
class Format:
    """A source format.

    name: what `--format` takes and `bronze.raw_metadata.format` shows.
    score: 0.0 (surely not) to 1.0 (surely) for the first lines of a file; the highest wins.
    frame: (whole text, file name) -> records.   parse: records -> table of schema FACTS.
    """

    name: str
    title: str
    score: Callable[[Sequence[str]], float]
    frame: Callable[[str, str], Records]
    parse: Callable[[Records], pa.Table]
