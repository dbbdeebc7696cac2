"""`kafka-topics --describe`: lines as Kafka writes them go through Arrow, the others one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipelines.ingest.formats.checked_values import parse_each
from pipelines.ingest.formats.describe_columns import partition_facts, topic_facts
from pipelines.ingest.formats.describe_line import line_facts
from pipelines.ingest.formats.noise_lines import line_records
from pipelines.ingest.formats.record_batches import in_order, pick, rows_of
from pipelines.ingest.records import Format, Records

_BATCH = 131_072  # records at a time: bounds memory, and keeps a column's text under Arrow's 2 GB

_LOOKS = re.compile(r"(?:^|[\s>|\"'`*:-])topic\s?:.*?\s(?:partition|partitioncount)\s?:\s*(\d)?", re.I)


def _score(lines: Sequence[str]) -> float:
    found = [match for line in lines if (match := _LOOKS.search(line[:2000]))]
    sure = sum(1 for match in found if match[1])
    return min(1.0, 0.8 + 0.02 * sure) if sure else 0.3 if found else 0.0


def _frame(text: str, _path: str) -> Records:
    return line_records(text)


def _parse(records: Records) -> pa.Table:
    if len(records) <= _BATCH:
        return _parse_batch(records)
    starts = range(0, len(records), _BATCH)
    return pa.concat_tables([_parse_batch(rows_of(records, slice(i, i + _BATCH))) for i in starts])


def _parse_batch(records: Records) -> pa.Table:
    raw = pa.array(records.raw, pa.string())
    numbers = pa.array(records.record_number, pa.int64())
    lines = pa.array(records.line_number, pa.int64())
    partitions, matched = partition_facts(raw, numbers, lines)
    # What is no partition as Kafka writes it, some lines of a hundred: matching costs more than all the rest.
    left = np.flatnonzero(~matched.to_numpy(zero_copy_only=False))
    rest = pa.array(left)
    topics, also_matched = topic_facts(raw.take(rest), numbers.take(rest), lines.take(rest))
    parts = [partitions, topics]
    others = left[~also_matched.to_numpy(zero_copy_only=False)]
    if len(others):
        parts.append(parse_each(pick(records, others), line_facts))
    return in_order(parts)


FORMAT = Format(name="describe", title="kafka-topics --describe, any version", score=_score, frame=_frame, parse=_parse)
