"""`kafka-topics --describe`: lines as Kafka writes them become Arrow columns; the others are parsed one by one.

Partition lines are scanned as bytes, and topic lines matched by a pattern. A line that differs (a config with commas,
another distribution's columns, a bad topic name, a cut) is rare and goes to the tolerant parser of `describe_line`.
Tests hold both equal on every line that matches.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.describe_labels import looks_like_data
from pipelines.ingest.formats.describe_line import parse_line
from pipelines.ingest.formats.describe_records import PLAIN_RECORDS, looks_wrapped, read_records
from pipelines.ingest.formats.kafka_versions import OLD_TOPIC_LINE
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
from udfs.text.kernels import partition_lines as scanner

_SMALL = r"[0-9]{1,9}"  # nine digits always fit an int32
_START = r"^[ \t>|]*(?i:topic): ?(?P<topic>[a-zA-Z0-9._-]*[a-zA-Z0-9_-])"
# Only configs that can be split at every comma: dotted keys (or the one without a dot), plain values.
_KEY = r"(?:[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|preallocate)"
_VALUE = r"[a-zA-Z0-9_:/*+-]*(?:\.[a-zA-Z0-9_:/*+-]+)*"
_TOPIC_LINE = (
    rf"{_START}(?:[ \t]+TopicId: ?(?P<id>[a-zA-Z0-9_-]{{22}}))?"
    rf"[ \t]+PartitionCount: ?(?P<count>{_SMALL})[ \t]+ReplicationFactor: ?(?P<factor>{_SMALL})"
    rf"[ \t]+Configs: ?(?P<configs>|{_KEY}={_VALUE}(?:,{_KEY}={_VALUE})*)[ \t]*$"
)
_MAP = pa.map_(pa.string(), pa.string())
# Columns of FACTS, and the lists of the scanner that they come from.
_LISTS = {
    "replicas": scanner.REPLICAS,
    "isr": scanner.ISR,
    "adding_replicas": scanner.ADDING,
    "removing_replicas": scanner.REMOVING,
    "elr": scanner.ELR,
    "last_known_elr": scanner.LAST_KNOWN_ELR,
    "offline_replicas": scanner.OFFLINE,
    "observers": scanner.OBSERVERS,
}


def _parse_batch(records: Records) -> pa.Table:
    lines = records.to_table()
    partitions, matched = _parse_partitions(lines)
    parts = [partitions]
    if len(rest := np.flatnonzero(~matched)):
        topics, matched = _parse_topics(lines.take(pa.array(rest)))
        parts.append(topics)
        rest = rest[~matched]
    if len(rest):
        is_wrapped = np.array(["\n" in records.raw[i] for i in rest.tolist()], dtype=bool)
        if is_wrapped.any():
            joined = lines.take(pa.array(rest[is_wrapped]))
            raw = pc.replace_substring_regex(joined["raw"], r"\n[ \t]*", " ")
            wrapped, matched = _parse_partitions(joined.set_column(joined.schema.get_field_index("raw"), "raw", raw))
            parts.append(wrapped)
            rest = np.sort(np.concatenate([rest[~is_wrapped], rest[is_wrapped][~matched]]))
        parts.append(parse_each(records.take(rest), parse_line))
    return concat_in_order(parts)


def _parse_partitions(lines: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """Return (facts of the partition lines as Kafka prints them, bool per line: is one)."""
    raw = to_array(lines["raw"])
    _, offsets, data = raw.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[raw.offset : raw.offset + len(raw) + 1]
    text = np.frombuffer(data or b"", dtype=np.uint8)[starts[0] : starts[-1]]
    scanned = scanner.allocate_partition_lines(len(raw), len(text))
    count = scanner.scan_partition_lines(scanned, text, starts - starts[0])
    rows = scanned.row[:count]
    needs_nothing = np.asarray(pc.is_null(to_array(lines["context"])))[rows]  # from the lines around it
    topic = pa.StringArray.from_buffers(count, pa.py_buffer(scanned.topic_offsets), pa.py_buffer(scanned.topic))
    columns = {
        "kind": pa.repeat(FactKind.PARTITION.value, count),
        "topic": pa.concat_arrays([topic]),  # copied, so that the scanner's buffers are freed
        "partition": pa.array(scanned.partition[:count].copy()),
        "leader": pa.array(scanned.leader[:count].copy()),
    }
    for name, which in _LISTS.items():
        present = scanned.present[which, :count]
        if present.any():
            list_offsets = scanned.id_offsets[which, : count + 1]
            ids, mask = scanned.ids[which, : list_offsets[-1]].copy(), None if present.all() else pa.array(~present)
            columns[name] = pa.ListArray.from_arrays(pa.array(list_offsets.copy()), pa.array(ids), mask=mask)
    at = pa.array(rows)
    columns |= {name: to_array(lines[name]).take(at) for name in ("record_number", "line_number")}
    facts = build_facts(columns, count)
    is_partition = np.zeros(len(raw), dtype=np.bool_)
    is_partition[rows[needs_nothing]] = True
    return (facts if needs_nothing.all() else facts.filter(pa.array(needs_nothing))), is_partition


def _parse_topics(lines: pa.Table) -> tuple[pa.Table, np.ndarray]:
    """Return (facts of the topic lines that match, bool per line: matches)."""
    result = pc.extract_regex(to_array(lines["raw"]), _TOPIC_LINE)
    matched = pc.and_(pc.is_valid(result), pc.is_null(to_array(lines["context"])))
    result, lines = pc.filter(result, matched), lines.filter(matched)
    topic_id = result.field("id")
    columns = {
        "kind": pa.repeat(FactKind.TOPIC.value, lines.num_rows),
        "topic": result.field("topic"),
        "topic_id": pc.if_else(pc.equal(topic_id, ""), pa.scalar(None, pa.string()), topic_id),
        "partition_count": pc.cast(result.field("count"), pa.int32()),
        "replication_factor": pc.cast(result.field("factor"), pa.int32()),
        "configs": _split_configs(result.field("configs")),
        "caps_min_isr": pc.if_else(
            pc.match_substring_regex(to_array(lines["raw"]), OLD_TOPIC_LINE),
            pa.scalar(False),
            pa.scalar(None, pa.bool_()),
        ),
        **{name: to_array(lines[name]) for name in ("record_number", "line_number")},
    }
    return build_facts(columns, lines.num_rows), matched.to_numpy(zero_copy_only=False)


def _split_configs(column: pa.Array) -> pa.Array:
    pieces = pc.split_pattern(pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column), ",")
    pairs = pc.split_pattern(pieces.flatten(), "=", max_splits=1)
    lengths = pc.fill_null(pc.list_value_length(pieces), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cast(pc.cumulative_sum(lengths), pa.int32())])
    return pa.MapArray.from_arrays(offsets, pc.list_element(pairs, 0), pc.list_element(pairs, 1)).cast(_MAP)


FORMAT = Format(
    "describe",
    "kafka-topics --describe, any version",
    Signature(line=looks_like_data, beginning=looks_wrapped, plain_lines=PLAIN_RECORDS),
    parse_line,
    read_records,
    parse_batch=_parse_batch,
)
