"""`kafka-topics --describe`: lines as Kafka writes them become Arrow columns; the others are parsed one by one.

A header or partition line of any version matches, also quoted or with its tabs turned to spaces. What does not match
(a config with commas, another distribution's columns, a bad topic name, a cut) is rare and goes to the tolerant parser
of `describe_line`. Tests hold both equal on every line that matches.
"""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.fact_tables import FactKind, build_facts, concat_in_order
from pipelines.ingest.formats.describe_line import parse_line
from pipelines.ingest.source_format import Format, Records, parse_each

_LOOKS = re.compile(r"(?:^|[\s>|\"'`*:-])topic\s?:.*?\s(?:partition|partitioncount)\s?:\s*(\d)?", re.I)

_SMALL = r"[0-9]{1,9}"  # nine digits always fit an int32
_IDS = rf"{_SMALL}(?:,{_SMALL})*"
_START = r"^[ \t>|]*(?i:topic): ?(?P<topic>[a-zA-Z0-9._-]*[a-zA-Z0-9_-])"
_PARTITION_LINE = (
    rf"{_START}[ \t]+(?i:partition): ?(?P<partition>{_SMALL})[ \t]+(?i:leader): ?(?P<leader>{_SMALL}|-1|none)"
    rf"[ \t]+(?i:replicas): ?(?P<replicas>{_IDS})[ \t]+(?i:isr): ?(?P<isr>|{_IDS})"
    rf"(?P<moves>[ \t]+Adding Replicas: ?(?P<adding>|{_IDS})[ \t]+Removing Replicas: ?(?P<removing>|{_IDS}))?"
    rf"(?P<elrs>[ \t]+Elr: ?(?P<elr>|N/A|{_IDS})[ \t]+LastKnownElr: ?(?P<known>|N/A|{_IDS}))?[ \t]*$"
)
# Only configs that can be split at every comma: dotted keys (or the one without a dot), plain values.
_KEY = r"(?:[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|preallocate)"
_VALUE = r"[a-zA-Z0-9_:/*+-]*(?:\.[a-zA-Z0-9_:/*+-]+)*"
_TOPIC_LINE = (
    rf"{_START}(?:[ \t]+TopicId: ?(?P<id>[a-zA-Z0-9_-]{{22}}))?"
    rf"[ \t]+PartitionCount: ?(?P<count>{_SMALL})[ \t]+ReplicationFactor: ?(?P<factor>{_SMALL})"
    rf"[ \t]+Configs: ?(?P<configs>|{_KEY}={_VALUE}(?:,{_KEY}={_VALUE})*)[ \t]*$"
)
_MAP = pa.map_(pa.string(), pa.string())


def _detect(lines: Sequence[str]) -> float:
    result = [match for line in lines if (match := _LOOKS.search(line[:2000]))]
    certain = sum(1 for match in result if match[1])
    return min(1.0, 0.8 + 0.02 * certain) if certain else 0.3 if result else 0.0


def _parse_batch(records: Records) -> pa.Table:
    raw = pa.array(records.raw, pa.string())
    numbers = pa.array(records.record_number, pa.int64())
    lines = pa.array(records.line_number, pa.int64())
    partitions, matched = _parse_partitions(raw, numbers, lines)
    # Only few lines are no partition as Kafka writes it, and matching costs more than all the rest.
    rest = np.flatnonzero(~matched.to_numpy(zero_copy_only=False))
    topics, matched = _parse_topics(*(column.take(pa.array(rest)) for column in (raw, numbers, lines)))
    others = records.take(rest[~matched.to_numpy(zero_copy_only=False)])
    return concat_in_order([partitions, topics, parse_each(others, parse_line)])


def _parse_partitions(raw: pa.Array, numbers: pa.Array, lines: pa.Array) -> tuple[pa.Table, pa.Array]:
    """Return (facts of the partition lines that match, which lines match)."""
    result = pc.extract_regex(raw, _PARTITION_LINE)
    # With a leader and an empty ISR at its end, a line is perhaps cut off: the other parser has to judge.
    doubtful = pc.and_(
        pc.and_(pc.equal(pc.struct_field(result, "isr"), ""), pc.equal(pc.struct_field(result, "moves"), "")),
        pc.and_(
            pc.equal(pc.struct_field(result, "elrs"), ""),
            pc.invert(pc.is_in(pc.struct_field(result, "leader"), pa.array(["none", "-1"]))),
        ),
    )
    matched = pc.and_(pc.is_valid(result), pc.invert(pc.fill_null(doubtful, True)))
    result, numbers, lines = (pc.filter(column, matched) for column in (result, numbers, lines))
    leader = pc.replace_substring(result.field("leader"), "none", "-1")
    has_moves = pc.not_equal(result.field("moves"), "")
    has_elr = pc.not_equal(result.field("elrs"), "")
    columns = {
        "kind": pa.repeat(FactKind.PARTITION.value, len(result)),
        "record_number": numbers,
        "line_number": lines,
        "topic": result.field("topic"),
        "partition": pc.cast(result.field("partition"), pa.int32()),
        "leader": pc.cast(leader, pa.int32()),
        "replicas": _split_ids(result.field("replicas")),
        "isr": _split_optional_ids(result.field("isr"), pc.is_valid(result)),
        "adding_replicas": _split_optional_ids(result.field("adding"), has_moves),
        "removing_replicas": _split_optional_ids(result.field("removing"), has_moves),
        "elr": _split_optional_ids(result.field("elr"), has_elr),
        "last_known_elr": _split_optional_ids(result.field("known"), has_elr),
    }
    return build_facts(columns, len(result)), matched


def _parse_topics(raw: pa.Array, numbers: pa.Array, lines: pa.Array) -> tuple[pa.Table, pa.Array]:
    """Return (facts of the topic lines that match, which lines match)."""
    result = pc.extract_regex(raw, _TOPIC_LINE)
    matched = pc.is_valid(result)
    result, numbers, lines = (pc.filter(column, matched) for column in (result, numbers, lines))
    topic_id = result.field("id")
    columns = {
        "kind": pa.repeat(FactKind.TOPIC.value, len(result)),
        "record_number": numbers,
        "line_number": lines,
        "topic": result.field("topic"),
        "topic_id": pc.if_else(pc.equal(topic_id, ""), pa.scalar(None, pa.string()), topic_id),
        "partition_count": pc.cast(result.field("count"), pa.int32()),
        "replication_factor": pc.cast(result.field("factor"), pa.int32()),
        "configs": _split_configs(result.field("configs")),
    }
    return build_facts(columns, len(result)), matched


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
    name="describe",
    title="kafka-topics --describe, any version",
    detect=_detect,
    parse_record=parse_line,
    parse_batch=_parse_batch,
)
