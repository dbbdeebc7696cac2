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
from pipelines.ingest.formats.kafka_versions import FIRST_WITH_BLANKS, OLD_TOPIC_LINE
from pipelines.ingest.plain_records import parse_plain
from pipelines.ingest.source_format import FactKind, Format, PlainFacts, Signature, build_facts
from udfs.arrow.columns import to_array
from udfs.text.kernels import partition_lines as scanner

_SMALL = r"[0-9]{1,9}"  # nine digits always fit an int32
_START = r"^[ \t>|]*(?i:topic): ?(?P<topic>[a-zA-Z0-9._-]*[a-zA-Z0-9_-])"
# Only configs that can be split at every comma: dotted keys (or the one without a dot), plain values.
_KEY = r"(?:[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|preallocate)"
_VALUE = r"[a-zA-Z0-9_:/*+-]*(?:\.[a-zA-Z0-9_:/*+-]+)*"
_TOPIC_LINE = (
    rf"{_START}(?:[ \t]+TopicId: ?(?P<topic_id>[a-zA-Z0-9_-]{{22}}))?"
    rf"[ \t]+PartitionCount: ?(?P<partition_count>{_SMALL})[ \t]+ReplicationFactor: ?(?P<replication_factor>{_SMALL})"
    rf"[ \t]+Configs: ?(?P<configs>|{_KEY}={_VALUE}(?:,{_KEY}={_VALUE})*)[ \t]*$"
)
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


def _parse_partitions(lines: pa.Table) -> PlainFacts:
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


def _parse_topics(records: pa.Table) -> PlainFacts:
    is_old = pc.match_substring_regex(to_array(records["raw"]), OLD_TOPIC_LINE)
    columns = {"release_before": pc.if_else(is_old, pa.scalar(FIRST_WITH_BLANKS, pa.int32()), None)}
    return parse_plain(records, _TOPIC_LINE, FactKind.TOPIC, pc.is_null(to_array(records["context"])), columns)


def _parse_wrapped_partitions(records: pa.Table) -> PlainFacts:
    raw = pc.replace_substring_regex(records["raw"], r"\n[ \t]*", " ")
    return _parse_partitions(records.set_column(records.schema.get_field_index("raw"), "raw", raw))


FORMAT = Format(
    "describe",
    "kafka-topics --describe, any version",
    Signature(line=looks_like_data, beginning=looks_wrapped, plain_lines=PLAIN_RECORDS),
    parse_line,
    read_records,
    plain=(_parse_partitions, _parse_topics, _parse_wrapped_partitions),
)
