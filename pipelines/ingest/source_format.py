"""What a source format is: how to recognise its data, how to cut text into records, how to parse records into facts.

Spark can spread parsing over batches: what a record (mostly a line, or an element of a JSON document) needs from its
surroundings (a znode's path, a CSV header, the topic of a topic id) becomes its `context`, so that it can be parsed
alone. It becomes at least one fact: what it says about a cluster, or that it is ignored or rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import BadValueError, unparsable
from pipelines.ingest.table_rows import is_table_line
from pipelines.ingest.text import find_mention, split_lines
from udfs.arrow.columns import to_array


class FactKind(StrEnum):
    """What a fact is about."""

    TOPIC = "topic"  # a topic's declaration: id, partition count, replication factor, configs, loads
    PARTITION = "partition"  # replicas and/or leader and ISR of a partition, and its loads
    PARTITION_CHANGE = "partition_change"  # KRaft log: null columns are unchanged
    TOPIC_REMOVED = "topic_removed"  # KRaft log
    CLEAR_ELR = "clear_elr"  # KRaft log: the ELR of a topic (null topic: of all topics) becomes empty
    CONFIG = "config"  # configs of a topic; in a KRaft log, a null value removes the key
    TOPIC_DEFAULTS = "topic_defaults"  # configs that brokers set for all topics
    BROKER = "broker"  # a broker: registration, rack, endpoint
    BROKER_CHANGE = "broker_change"  # KRaft log: fenced or unfenced
    BROKER_REMOVED = "broker_removed"  # KRaft log: unregistered
    QUORUM = "quorum"  # a node of the controller quorum: broker_id is its id
    REPLICA = "replica"  # one replica's log on one broker: size, lag, offsets
    VOLUME = "volume"  # a volume of a broker, as metrics show it: log_dir is where it is mounted
    LOG_DIR = "log_dir"  # a log directory of a broker: its bytes, or its error
    OFFSET = "offset"  # a partition's log end offset
    LOAD = "load"  # what one broker transfers of a topic, or of all; or what is transferred of a partition
    REPLICA_SIZE = "replica_size"  # the bytes of one replica, as metrics show it
    APPENDED = "appended"  # records that were appended to a replica while its topic's loads were measured
    IGNORED = "ignored"  # says nothing that we use; `reasons` has its one reason
    REJECTED = "rejected"  # cannot be understood: quarantined, with `reasons`


Fact = tuple[FactKind, dict[str, Any]]  # kind, and columns of FACTS; the other columns are null

_BATCH_RECORDS = 131_072  # bounds memory, and keeps a column's text under Arrow's 2 GB
_INTS = pa.list_(pa.int32())

# One row per fact. A null means "this record does not say". Units are in the names.
FACTS = pa.schema(
    [
        ("record_number", pa.int64()),  # ordinal of the record in its file, from 0
        ("line_number", pa.int64()),  # physical line where the record begins, from 1
        ("kind", pa.string()),  # a FactKind
        ("reasons", pa.list_(pa.string())),  # IGNORED: one; REJECTED: one or more
        ("warning", pa.string()),  # what the record shows that an answer may lack; a sentence without its full stop
        ("until_listing", pa.bool_()),  # the warning only counts if the file lists partitions above, and none below
        ("is_selection", pa.bool_()),  # a command that shows only some of the cluster's partitions; null: no command
        ("selection", pa.string()),  # the option of a command that selects by the ISR, as in at-min-isr-partitions
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
        ("observers", _INTS),  # Confluent: replicas that stay out of the ISR unless they are promoted
        ("offline_replicas", _INTS),  # replicas on brokers or log directories that are offline; empty = none
        ("failed_dir_replicas", _INTS),  # PARTITION: those of them whose log dir is not online; null: not shown
        # KRaft log: ids of log dirs: of replicas; a broker's online ones, and its cordoned ones (configs: paths or *)
        *((name, pa.list_(pa.string())) for name in ("directories", "cordoned_directories")),
        ("partition_count", pa.int32()),
        ("replication_factor", pa.int32()),
        ("configs", pa.map_(pa.string(), pa.string())),
        ("marked_for_deletion", pa.bool_()),
        ("rack", pa.string()),
        ("host", pa.string()),  # IGNORED: the brokers that a command asks, as in b1:9092,b2:9092
        ("port", pa.int32()),
        ("registered", pa.bool_()),  # registered, or whether it answered a tool; null: this source does not show it
        ("listed", pa.bool_()),  # true: an entry of a list of all brokers (REJECTED: perhaps an entry)
        ("listed_state", pa.string()),  # its state in such a list, as people write it: running, decommissioned
        ("in_model", pa.bool_()),  # true: a broker of a cluster model
        ("reported_live", pa.bool_()),  # what a tool says of the broker itself; null: nothing
        *(("fenced", pa.bool_()), ("cordoned", pa.bool_())),  # cordoned: BROKER: all of its log dirs are; LOG_DIR
        ("shutting_down", pa.bool_()),  # true: in a controlled shutdown; null: not shown
        ("controller", pa.bool_()),  # true: the active controller; false: no controller answers
        *(("voter", pa.bool_()), ("directory_id", pa.string())),  # QUORUM; voter: false = an observer
        ("caught_up_ms", pa.int64()),  # QUORUM: when it last had all records, since 1970; negative: before now
        # The releases that it may run, as 307 for Kafka 3.7: from one on, and before one; null: not shown. TOPIC,
        # TOPIC_DEFAULTS: those of the cluster, as the tool's output shows, which is weaker.
        *(("release_from", pa.int32()), ("release_before", pa.int32())),
        # Whether consumers fetch from replicas in their rack; whether it is to be emptied; null: not shown
        *(("follower_fetching", pa.bool_()), ("draining", pa.bool_())),
        ("follower_throttle_bytes_per_s", pa.float64()),  # BROKER: of its copies of throttled replicas
        ("size_bytes", pa.int64()),
        ("bytes_in_per_s", pa.float64()),  # TOPIC: sum over its partitions; LOAD: those that a broker leads
        ("bytes_out_per_s", pa.float64()),
        *(
            (f"bytes_{way}_{name}_per_s", pa.float64()) for way in ("in", "out") for name in ("mean", "p95", "peak")
        ),  # LOAD
        ("records", pa.int64()),  # APPENDED
        ("offset_lag", pa.int64()),  # messages
        ("log_end_offset", pa.int64()),
        ("high_watermark", pa.int64()),
        ("log_dir", pa.string()),
        ("is_future", pa.bool_()),  # a log being moved between directories of one broker
        *(("total_bytes", pa.int64()), ("usable_bytes", pa.int64())),  # LOG_DIR: of its volume
        ("log_dir_error", pa.string()),  # LOG_DIR: why it is offline; null: it is online
    ]
)


def ignore(reason: str, warning: str | None = None, is_selection: bool | None = None) -> list[Fact]:
    """Return the facts of a record that says nothing that we use.

    warning: what an answer may lack because of it, as in `the command failed: the listing may be cut`; is_selection:
    of a command, whether it shows only some of the cluster's partitions.
    """
    values = {"reasons": [reason], "warning": warning, "is_selection": is_selection}
    return [(FactKind.IGNORED, {name: value for name, value in values.items() if value is not None})]


# How the context of a record begins that was judged with the lines around it: what becomes of it, as JSON.
_DECIDED = ('{"reasons": ', '{"problem": ')


def decide_ignored(reason: str, **values: Any) -> str:
    """Return the context of a record that is ignored for this reason, with these columns of FACTS beside."""
    return json.dumps({"reasons": [reason]} | {name: value for name, value in values.items() if value is not None})


def decide_rejected(problem: str) -> str:
    """Return the context of a record that cannot be used because of this problem."""
    return json.dumps({"problem": problem})


def _parse_decided(context: str) -> list[Fact]:
    values = json.loads(context)
    if "problem" in values:
        raise unparsable(values["problem"])
    return [(FactKind.IGNORED, values)]


_NEWLINE = 10
_MAX_COLUMN = 2**31 - 1  # bytes of a column's text


def build_facts(columns: dict[str, pa.Array], rows: int) -> pa.Table:
    """Return a table of schema FACTS from some of its columns; the others are null."""
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in FACTS]
    return pa.Table.from_arrays(arrays, schema=FACTS)


def concat_in_order(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the facts of all parts, sorted by record number."""
    table = pa.concat_tables([part for part in parts if part.num_rows] or parts[:1])
    return table.take(pc.sort_indices(table["record_number"])).combine_chunks()


PlainFacts = tuple[pa.Table, npt.NDArray[np.bool_]]  # facts of some of n records; bool (n), which these are
ParsePlain = Callable[[pa.Table], PlainFacts]  # of records (schema RECORDS) those that it can parse, all at once


Row = tuple[int, str | None, str]  # line number, context, raw text
ParseRecord = Callable[[str | None, str], Iterable[Fact]]  # (context, raw text) -> facts; may raise BadValueError
ExplainIgnored = Callable[[str], str | None]  # text of a record that says nothing -> why it is rejected all the same


class ArrowSequence(Sequence[Any]):
    """The values of an Arrow array, as a sequence that becomes Python objects only where they are read."""

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.array)

    def __getitem__(self, at: Any) -> Any:
        """Return a value, or a sequence of those of a slice."""
        return ArrowSequence(self.array[at]) if isinstance(at, slice) else self.array[at].as_py()

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values."""
        return iter(self.array.to_pylist())


def _to_arrow(column: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    if isinstance(column, ArrowSequence):
        return column.array
    if isinstance(column, range):  # they need not become Python numbers one by one
        return pa.array(np.arange(column.start, column.stop, column.step))
    return pa.array(column, data_type)


def _take(column: Sequence[Any], positions: npt.NDArray[Any]) -> Sequence[Any]:
    if isinstance(column, ArrowSequence):
        return ArrowSequence(column.array.take(pa.array(positions, pa.int64())))
    return [column[i] for i in positions.tolist()]


RECORDS = pa.schema(
    [("record_number", pa.int64()), ("line_number", pa.int64()), ("context", pa.string()), ("raw", pa.string())]
)


@dataclass(frozen=True)
class Records:
    """Records of one file in file order: sequences of equal length."""

    record_number: Sequence[int]
    line_number: Sequence[int]
    context: Sequence[str | None]
    raw: Sequence[str]

    @staticmethod
    def from_rows(rows: Iterable[Row]) -> Records:
        """Number rows from 0."""
        lines: list[int] = []
        contexts: list[str | None] = []
        raws: list[str] = []
        for line, context, raw in rows:
            lines.append(line)
            contexts.append(context)
            raws.append(raw)
        return Records(range(len(raws)), lines, contexts, raws)

    @staticmethod
    def from_table(table: pa.Table | pa.RecordBatch) -> Records:
        """Return the records of a table or batch with the columns RECORDS."""
        return Records(*(ArrowSequence(to_array(table.column(name))) for name in RECORDS.names))

    @staticmethod
    def from_plain_text(text: str) -> Records:
        """Return one record per line of a text, without a Python object for each."""
        data = np.frombuffer(text.encode(), dtype=np.uint8)
        if len(data) > _MAX_COLUMN:
            return read_lines(text)
        ends = np.flatnonzero(data == _NEWLINE)
        if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
            ends = np.append(ends, len(data))
        count = len(ends)
        offsets = np.zeros(count + 1, dtype=np.int32)
        offsets[1:] = ends - np.arange(count)
        raw = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data[data != _NEWLINE]))
        context = ArrowSequence(pa.nulls(count, pa.string()))
        return Records(range(count), range(1, count + 1), context, ArrowSequence(raw))

    def to_table(self) -> pa.Table:
        """Return the records as a table (schema RECORDS)."""
        return pa.table([_to_arrow(getattr(self, field.name), field.type) for field in RECORDS], RECORDS)

    def find(self, numbers: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the positions of the records of these numbers, in order."""
        own = np.asarray(_to_arrow(self.record_number, pa.int64()))
        return np.flatnonzero(np.isin(own, np.asarray(numbers)))

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.raw)

    def __iter__(self) -> Iterator[tuple[int, int, str | None, str]]:
        """Iterate over (record number, line number, context, raw text)."""
        return zip(self.record_number, self.line_number, self.context, self.raw, strict=True)

    def renumber(self, numbers: npt.NDArray[np.int64]) -> Records:
        """Return the same records with other record numbers."""
        return Records(numbers.tolist(), self.line_number, self.context, self.raw)

    def move_down(self, lines: int) -> Records:
        """Return the same records, so many lines further down."""
        numbers = [line + lines for line in self.line_number] if lines else self.line_number
        return Records(self.record_number, numbers, self.context, self.raw)

    def slice(self, begin: int, end: int) -> Records:
        """Return the records at positions begin to end - 1."""
        return Records(*(column[begin:end] for column in vars(self).values()))

    def take(self, positions: npt.NDArray[Any]) -> Records:
        """Return the records at these positions (int, ascending)."""
        return Records(*(_take(column, positions) for column in vars(self).values()))


def read_lines(text: str, _path: str = "") -> Records:
    """Return one record per physical line, without context."""
    lines = split_lines(text)
    return Records(range(len(lines)), range(1, len(lines) + 1), [None] * len(lines), lines)


def parse_each(
    records: Records, parse_record: ParseRecord, explain_ignored: ExplainIgnored = lambda _raw: None
) -> pa.Table:
    """Return the facts of all records, each parsed alone; a BadValueError rejects the record."""
    columns: dict[str, list[Any]] = {}  # a column that no fact mentions costs nothing until the end
    rows = 0
    for number, line, context, raw in records:
        try:
            if context is not None and context.startswith(_DECIDED):
                facts = _parse_decided(context)
            else:
                facts = list(parse_record(context, raw))
            if any(kind is FactKind.IGNORED for kind, _ in facts) and (problem := explain_ignored(raw)) is not None:
                raise BadValueError(problem)
        except BadValueError as error:
            facts = [(FactKind.REJECTED, {"reasons": [str(error)]})]
        if len(facts) == 1 and facts[0][0] is FactKind.IGNORED and facts[0][1].get("warning") is None:
            facts[0][1].update(find_mention(facts[0][1]["reasons"][0], raw))
        for kind, values in facts:
            for name, value in {**values, "record_number": number, "line_number": line, "kind": kind}.items():
                column = columns.setdefault(name, [])
                column.extend([None] * (rows - len(column)))
                column.append(value)
            rows += 1
    for column in columns.values():
        column.extend([None] * (rows - len(column)))
    return build_facts({name: pa.array(column, FACTS.field(name).type) for name, column in columns.items()}, rows)


def _never(_text: str | Sequence[str]) -> bool:
    return False


@dataclass(frozen=True)
class Signature:
    """How data of a format is recognised. Each function must be certain: what it claims goes to no other format."""

    line: Callable[[str], object] = _never  # one line of text
    document: Callable[[str], object] = _never  # a JSON document: its text, of a long one its beginning and end
    beginning: Callable[[Sequence[str]], bool] = _never  # the first lines of a file whose other lines look like nothing
    request: Callable[[str], object] = _never  # a line of the format: whether the next document answers it
    plain_lines: re.Pattern[str] | None = None  # a run of whole lines as tools print them: only saves time
    row: Callable[[str], object] = _never  # a line below its own that it does not claim: whether it may be its data
    is_aside: bool = False  # whether its lines stand between those of other formats, whose readers also see them
    has_rows: bool = False  # whether its lines may look like rows of the tables of other formats
    table: Callable[[str], object] = _never  # a line of the format: whether rows follow, which no other format may read
    table_line: Callable[[str], object] = is_table_line  # a line below such a one: whether it may be a row, or a rule

    @property
    def reads_documents(self) -> bool:
        """Whether the format has JSON documents."""
        return self.document is not _never or self.request is not _never

    @property
    def may_hide_lines(self) -> bool:
        """Whether lines inside its documents and tables reach its reader though another format would claim them."""
        return self.reads_documents or self.table is not _never


@dataclass(frozen=True)
class Format:
    """A source format."""

    name: str  # what `--format` takes and `bronze.raw_metadata.format` shows
    title: str  # for people
    signature: Signature
    parse_record: ParseRecord
    read: Callable[[str, str], Records | Iterable[Row]] = read_lines  # (text of a file, its path) -> records
    plain: Sequence[ParsePlain] = ()  # parsers of records as tools print them; parse_record has the others

    def read_records(self, text: str, path: str) -> Records:
        """Return the records of a file's text."""
        read = self.read(text, path)
        return read if isinstance(read, Records) else Records.from_rows(read)

    def parse_facts(self, records: Records, explain_ignored: ExplainIgnored = lambda _raw: None) -> pa.Table:
        """Return the facts of the records (schema FACTS), in order."""
        if not self.plain:
            return parse_each(records, self.parse_record, explain_ignored)
        begins = range(0, max(len(records), 1), _BATCH_RECORDS)
        batches = (records.slice(i, i + _BATCH_RECORDS) for i in begins)
        return pa.concat_tables([self._parse_batch(batch, explain_ignored) for batch in batches])

    def _parse_batch(self, records: Records, explain_ignored: ExplainIgnored) -> pa.Table:
        table, rest = records.to_table(), np.arange(len(records))
        parts = []
        for parse_plain_records in self.plain:
            facts, matched = parse_plain_records(table)
            parts.append(facts)
            rest = rest[~matched]
            if not len(rest):
                return concat_in_order(parts)
            table = table.take(pa.array(np.flatnonzero(~matched)))
        others = records if len(rest) == len(records) else records.take(rest)
        return concat_in_order([*parts, parse_each(others, self.parse_record, explain_ignored)])
