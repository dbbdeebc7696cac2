"""`kafka-topics --describe`: lines as Kafka writes them become Arrow columns; the others are parsed one by one.

A line that does not match (a config with commas, another distribution's columns, a bad topic name, a cut) is rare and
goes to the tolerant parser of `describe_line`. Tests hold both equal on every line that matches.
"""

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.describe_labels import looks_like_data
from pipelines.ingest.formats.describe_line import parse_line
from pipelines.ingest.formats.describe_records import PLAIN_RECORDS, looks_wrapped, read_records
from pipelines.ingest.source_format import (
    FactKind,
    Format,
    Records,
    Signature,
    build_facts,
    concat_in_order,
    parse_each,
)
from udfs.arrow.columns import to_array

_SMALL = r"[0-9]{1,9}"  # nine digits always fit an int32
_PARTITION = r"[0-9]{1,6}"  # at most MAX_PARTITION
_IDS = rf"{_SMALL}(?:,{_SMALL})*"
_START = r"^[ \t>|]*(?i:topic): ?(?P<topic>[a-zA-Z0-9._-]*[a-zA-Z0-9_-])"
_PARTITION_LINE = (
    rf"{_START}[ \t]+(?i:partition): ?(?P<partition>{_PARTITION})[ \t]+(?i:leader): ?(?P<leader>{_SMALL}|-1|none)"
    rf"[ \t]+(?i:replicas): ?(?P<replicas>{_IDS})[ \t]+(?i:isr): ?(?P<isr>|{_IDS})"
    rf"(?P<moves>[ \t]+Adding Replicas: ?(?P<adding>|{_IDS})[ \t]+Removing Replicas: ?(?P<removing>|{_IDS}))?"
    rf"(?P<elrs>[ \t]+Elr: ?(?P<elr>|N/A|{_IDS})[ \t]+LastKnownElr: ?(?P<known>|N/A|{_IDS}))?"
    # Confluent's columns
    rf"(?P<offlines>[ \t]+Offline: ?(?P<offline>|{_IDS}))?(?P<watchers>[ \t]+Observers: ?(?P<observers>|{_IDS}))?"
    rf"[ \t]*$"
)
_OPTIONAL = ("moves", "elrs", "offlines", "watchers")  # groups of columns that only some lines have
# Only configs that can be split at every comma: dotted keys (or the one without a dot), plain values.
_KEY = r"(?:[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|preallocate)"
_VALUE = r"[a-zA-Z0-9_:/*+-]*(?:\.[a-zA-Z0-9_:/*+-]+)*"
_TOPIC_LINE = (
    rf"{_START}(?:[ \t]+TopicId: ?(?P<id>[a-zA-Z0-9_-]{{22}}))?"
    rf"[ \t]+PartitionCount: ?(?P<count>{_SMALL})[ \t]+ReplicationFactor: ?(?P<factor>{_SMALL})"
    rf"[ \t]+Configs: ?(?P<configs>|{_KEY}={_VALUE}(?:,{_KEY}={_VALUE})*)[ \t]*$"
)
_MAP = pa.map_(pa.string(), pa.string())
_LINES = pa.schema(
    [("raw", pa.string()), ("context", pa.string()), ("record_number", pa.int64()), ("line_number", pa.int64())]
)


def _parse_batch(records: Records) -> pa.Table:
    columns = (records.raw, records.context, records.record_number, records.line_number)
    lines = pa.table([pa.array(column, field.type) for column, field in zip(columns, _LINES, strict=True)], _LINES)
    partitions, matched = _parse_partitions(lines)
    # Only few lines are no partition as Kafka writes it, and matching costs more than all the rest.
    rest = np.flatnonzero(~matched)
    topics, matched = _parse_topics(lines.take(pa.array(rest)))
    parts, rest = [partitions, topics], rest[~matched]
    is_wrapped = np.array(["\n" in records.raw[i] for i in rest.tolist()], dtype=bool)
    if is_wrapped.any():
        joined = lines.take(pa.array(rest[is_wrapped]))
        raw = pc.replace_substring_regex(joined["raw"], r"\n[ \t]*", " ")
        wrapped, matched = _parse_partitions(joined.set_column(0, "raw", raw))
        parts.append(wrapped)
        rest = np.sort(np.concatenate([rest[~is_wrapped], rest[is_wrapped][~matched]]))
    return concat_in_order([*parts, parse_each(records.take(rest), parse_line)])


def _build(kind: str, lines: pa.Table, matched: pa.Array, columns: dict[str, pa.Array]) -> tuple[pa.Table, np.ndarray]:
    """Return (facts of the lines that match, bool per line: matches)."""
    lines = lines.filter(matched)
    columns |= {name: to_array(lines[name]) for name in ("record_number", "line_number")}
    facts = build_facts({"kind": pa.repeat(kind, lines.num_rows), **columns}, lines.num_rows)
    return facts, matched.to_numpy(zero_copy_only=False)


def _parse_partitions(lines: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """Return (facts of the partition lines that match, which lines match)."""
    result = pc.extract_regex(to_array(lines["raw"]), _PARTITION_LINE)
    # With a leader and an empty ISR at its end, a line is perhaps cut off: the other parser has to judge.
    ends = reduce(pc.and_, (pc.equal(pc.struct_field(result, name), "") for name in _OPTIONAL))
    leaderless = pc.is_in(pc.struct_field(result, "leader"), pa.array(["none", "-1"]))
    doubtful = pc.and_(pc.and_(pc.equal(pc.struct_field(result, "isr"), ""), ends), pc.invert(leaderless))
    matched = pc.and_(_find_plain(lines, result), pc.invert(pc.fill_null(doubtful, True)))
    result = pc.filter(result, matched)
    has_moves, has_elr, has_offline, has_observers = (pc.not_equal(result.field(name), "") for name in _OPTIONAL)
    columns = {
        "topic": result.field("topic"),
        "partition": pc.cast(result.field("partition"), pa.int32()),
        "leader": pc.cast(pc.replace_substring(result.field("leader"), "none", "-1"), pa.int32()),
        "replicas": _split_ids(result.field("replicas")),
        "isr": _split_optional_ids(result.field("isr"), pc.is_valid(result)),
        "adding_replicas": _split_optional_ids(result.field("adding"), has_moves),
        "removing_replicas": _split_optional_ids(result.field("removing"), has_moves),
        "elr": _split_optional_ids(result.field("elr"), has_elr),
        "last_known_elr": _split_optional_ids(result.field("known"), has_elr),
        "offline_replicas": _split_optional_ids(result.field("offline"), has_offline),
        "observers": _split_optional_ids(result.field("observers"), has_observers),
    }
    return _build(FactKind.PARTITION.value, lines, matched, columns)


def _find_plain(lines: pa.Table, result: pa.Array) -> pa.Array:
    """Return which lines match and need nothing from the lines around them."""
    return pc.and_(pc.is_valid(result), pc.is_null(to_array(lines["context"])))


def _parse_topics(lines: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """Return (facts of the topic lines that match, which lines match)."""
    result = pc.extract_regex(to_array(lines["raw"]), _TOPIC_LINE)
    matched = _find_plain(lines, result)
    result = pc.filter(result, matched)
    topic_id = result.field("id")
    columns = {
        "topic": result.field("topic"),
        "topic_id": pc.if_else(pc.equal(topic_id, ""), pa.scalar(None, pa.string()), topic_id),
        "partition_count": pc.cast(result.field("count"), pa.int32()),
        "replication_factor": pc.cast(result.field("factor"), pa.int32()),
        "configs": _split_configs(result.field("configs")),
    }
    return _build(FactKind.TOPIC.value, lines, matched, columns)


def _split_ids(column: pa.Array) -> pa.Array:
    return pc.cast(pc.split_pattern(column, ","), pa.list_(pa.int32()))


def _split_optional_ids(column: pa.Array, present: pa.Array) -> pa.Array:
    """Return lists of ids: null where the column is absent or says N/A, empty where it is empty."""
    empty = pc.equal(column, "")
    unknown = pc.or_(pc.invert(present), pc.equal(column, "N/A"))
    lists = _split_ids(pc.if_else(pc.or_(empty, unknown), pa.scalar(None, pa.string()), column))
    return pc.if_else(pc.and_(empty, present), pa.scalar([], lists.type), lists)


def _split_configs(column: pa.Array) -> pa.Array:
    pieces = pc.split_pattern(pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column), ",")
    pairs = pc.split_pattern(pieces.flatten(), "=", max_splits=1)
    lengths = pc.fill_null(pc.list_value_length(pieces), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cast(pc.cumulative_sum(lengths), pa.int32())])
    return pa.MapArray.from_arrays(offsets, pc.list_element(pairs, 0), pc.list_element(pairs, 1)).cast(_MAP)


FORMAT = Format(
    "describe",
    "kafka-topics --describe, any version",
    Signature(line=looks_like_data, beginning=looks_wrapped, plain_lines=PLAIN_RECORDS, is_exhaustive=True),
    parse_line,
    read_records,
    parse_batch=_parse_batch,
)
