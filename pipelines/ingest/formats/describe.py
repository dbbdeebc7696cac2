"""`kafka-topics --describe`: lines as Kafka writes them become Arrow columns; the others are parsed one by one.

Partition lines are scanned as bytes, and topic lines matched by a pattern. A line that differs (a config with commas,
another distribution's columns, a bad topic name, a cut) is rare and goes to the tolerant parser of `describe_line`.
Tests hold both equal on every line that matches.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats import describe_labels as labels
from pipelines.ingest.formats.describe_labels import looks_like_data
from pipelines.ingest.formats.describe_line import NAME_TOPIC, parse_line
from pipelines.ingest.formats.inactive_lines import HUNK, MARKS, reject_marked
from pipelines.ingest.formats.kafka_configs import is_continued_by
from pipelines.ingest.formats.kafka_versions import FIRST_WITH_BLANKS, OLD_TOPIC_LINE
from pipelines.ingest.plain_records import parse_plain
from pipelines.ingest.source_format import (
    FactKind,
    Format,
    PlainFacts,
    Records,
    Row,
    Signature,
    build_facts,
    decide_rejected,
)
from pipelines.ingest.text import BLANK, DIFF_HEADER, PROMPT, PROSE, classify_noise, find_line_end, split_lines
from udfs.arrow.columns import to_array
from udfs.text.kernels import partition_lines as scanner

# Whole lines above the next record, as tools print them: they need nothing from others, so no code looks at each.
# Finds what a line of `kafka-topics --describe` needs from others: its topic, or the rest of a wrapped line.
# A partition without `Topic:` belongs to the header above it. A line that was wrapped is joined with its rest. Where
# either is in doubt, the lines are quarantined.
_PLAIN = (
    r"(?:[ \t>|]*+[Tt]opic: ?+[a-zA-Z0-9._-]++[ \t]++[Pp](?:artition|artitionCount): ?+[0-9][^\n]{1,100000}+\n"
    r"|[ \t>|]*+Topic: ?+[a-zA-Z0-9._-]++[ \t]++TopicId: ?+[^\n]{1,100000}+\n)(?=[ \t>|]*+[Tt]opic:|\Z)"
)
_PLAIN_LINES = re.compile(rf"(?:{_PLAIN})*+")
# The same, wrapped between values, as a narrow terminal wraps all of a long listing.
_WRAP, _GAP = r"[ \t]*+(?:\n[ \t]*+)?+", r"(?:[ \t]++(?:\n[ \t]*+)?+|\n[ \t]*+)"
_SOME_IDS = r"[0-9]++(?:,[0-9]++)*+"
_WRAPPED = (
    rf"[ \t>|]*+[Tt]opic: ?+[a-zA-Z0-9._-]++[ \t]++[Pp]artition:{_WRAP}[0-9]++{_GAP}[Ll]eader:{_WRAP}(?:-?[0-9]++|none)"
    rf"{_GAP}[Rr]eplicas:{_WRAP}{_SOME_IDS}{_GAP}[Ii]sr:{_WRAP}{_SOME_IDS}[ \t]*+\n(?=[ \t>|]*+[Tt]opic:|\Z)"
)
_WRAPPED_RECORD = re.compile(_WRAPPED)
PLAIN_RECORDS = re.compile(rf"(?:{_PLAIN}|{_WRAPPED})*+")
_MAX_LINES, _MAX_LENGTH = 50, 100_000  # of one record; characters
_ONLY_NUMBERS = re.compile(r"[\s>|,#/*]*+(?:[0-9][0-9,\s]*+|none|null|N/A|true|false)[\s|]*+", re.I)
_REST_OF_LIST = re.compile(r"[\s>|]*+[0-9,]*[0-9]\s")  # in front of a label
_DECORATION = re.compile(r"^[\s>|#/*]*+")
_IN_PARTITION = labels.PARTITION_LABELS - {labels.DELETION} | {labels.PARTITION}
_CUT = (".", "…")


@dataclass
class _Pending:
    """A record that the next line may continue."""

    line_number: int
    lines: list[str]
    fields: list[labels.Field]
    context: str | None = None

    @property
    def names(self) -> set[str]:
        return {item.label for item in self.fields}

    @property
    def is_partition(self) -> bool:
        return not self.names.isdisjoint(_IN_PARTITION)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing: a partition has its ISR, a header its counts, a list what follows a comma."""
        last = self.fields[-1]
        if last.value.endswith(",") or (last.label not in (labels.CONFIGS, *_IN_PARTITION) and not last.value):
            return False
        if self.is_partition:
            return self.names >= labels.REQUIRED_LABELS and (last.label != labels.ISR or last.value != "")
        return not self.names.isdisjoint({labels.CONFIGS, labels.REPLICATION_FACTOR})

    def build_row(self) -> Row:
        return self.line_number, self.context, "\n".join(self.lines)

    @property
    def is_full(self) -> bool:
        """Whether no more lines may be joined."""
        return len(self.lines) >= _MAX_LINES or sum(map(len, self.lines)) > _MAX_LENGTH

    def join(self, line: str) -> None:
        """Add the line that continues the record."""
        self.lines.append(line)
        self.fields = labels.split_line(labels.tidy("\n".join(self.lines)))[1] or self.fields


@dataclass
class _Scope:
    """The topic of partitions that do not name theirs."""

    topic: str | None = None
    problem: str | None = None  # why there is no topic although a header is above
    last: str | None = None  # the last partition that was shown

    def find_context(self, fields: list[labels.Field]) -> str | None:
        """Return the context of a record that begins without a topic, and note its partitions."""
        if self.problem is not None:
            return decide_rejected(self.problem)
        if self.topic is None:
            return None
        for item in fields:
            if item.label != labels.PARTITION:
                continue
            if not _ascends(self.last, item.value):
                self.problem = (
                    f"unclear topic: partition {item.value[:20]} follows partition {str(self.last)[:20]} "
                    f"of {self.topic[:249]}, the topic above; perhaps a header is missing: {NAME_TOPIC}"
                )
                return decide_rejected(self.problem)
            self.last = item.value
        return json.dumps({"topic": self.topic})


def read_records(text: str, _path: str = "") -> Records:
    """Return the records of a text: a line each, or several where a line was wrapped."""
    if _PLAIN_LINES.match(text).end() == len(text):  # type: ignore[union-attr]
        return Records.from_plain_text(text)
    lines = split_lines(text)
    numbers: list[int] = []
    contexts: list[str | None] = []
    raws: list[str] = []

    def extend(rows: Iterable[Row]) -> None:
        for number, context, raw in rows:
            numbers.append(number)
            contexts.append(context)
            raws.append(raw)

    reader = RecordReader()
    position, at = 0, 0  # of the text; of the lines
    while at < len(lines):
        end = _PLAIN_LINES.match(text, position).end()  # type: ignore[union-attr]
        if end > position:
            extend(reader.finish())
            last = at + text.count("\n", position, end)
            numbers.extend(range(at + 1, last + 1))
            contexts.extend(repeat(None, last - at))
            raws.extend(lines[at:last])
            position, at = end, last
        elif (record := _WRAPPED_RECORD.match(text, position)) is not None:
            extend(reader.finish())
            extend([(at + 1, None, record[0][:-1])])
            position, at = record.end(), at + record[0].count("\n")
        else:
            extend(reader.add(at + 1, lines[at]))
            position, at = find_line_end(text, position) + 1, at + 1
    extend(reader.finish())
    records = Records(range(len(raws)), numbers, contexts, raws)
    return reject_marked(records) if reader.has_marks else records


def looks_wrapped(lines: Sequence[str]) -> bool:
    """Return whether lines that each look like nothing are data of describe when they are joined."""
    rows = join_lines(enumerate(lines, 1))
    return any("\n" in raw and labels.looks_like_data(raw) for _, _, raw in rows)


def join_lines(lines: Iterable[tuple[int, str]]) -> Iterator[Row]:
    """Yield (line number, context, text) of the records of some lines, given as (line number, line)."""
    reader = RecordReader()
    for number, line in lines:
        yield from reader.add(number, line)
    yield from reader.finish()


class RecordReader:
    """Goes through lines in order; a record is known when the line after it is."""

    def __init__(self) -> None:
        self._pending: _Pending | None = None
        self._blank: list[Row] = []  # the blank lines after it
        self._scope = _Scope()
        self._incomplete: int | None = None  # the line above that breaks off, unless something else came between
        self.has_marks = False  # whether a line seems to be commented out, struck out or of a diff

    def finish(self) -> Iterator[Row]:
        """Yield the record that no line continues."""
        if self._pending is not None:
            yield self._pending.build_row()
            yield from self._blank
            if not self._pending.is_complete:
                self._incomplete = self._pending.line_number
            self._pending, self._blank = None, []

    def add(self, number: int, line: str) -> Iterator[Row]:
        """Yield the records that end before or with this line."""
        has_colon = ":" in line or "：" in line
        prefix, fields = labels.split_line(labels.tidy(line)) if has_colon else (line, [])
        self.has_marks = self.has_marks or (MARKS if fields else HUNK).match(line) is not None
        begins = bool(fields) and labels.is_known_prefix(prefix)
        if self._pending is not None and not line.strip():
            self._blank.append((number, None, line))
            return
        if self._pending is not None and self._is_rest(self._pending, line, begins, fields):
            if not self._blank:
                self._pending.join(line)
                return
            if not self._pending.is_complete or not self._pending.fields[-1].value:
                problem = f"perhaps line {number} is the rest of it: join the lines, or delete line {number}"
                self._pending.context = decide_rejected(problem)
        is_lost = self._is_lost_rest(line, begins, fields)
        if begins and self._is_beginning(fields):
            yield from self._begin(number, line, fields)
            return
        yield from self.finish()
        if is_lost:
            problem = (
                "perhaps the rest of the line above, which is complete without it: join the lines, or delete this one"
            )
            if self._incomplete is not None:
                problem = f"perhaps the rest of line {self._incomplete}: join the lines"
            yield number, decide_rejected(problem), line
            return
        self._leave(line)
        yield number, None, line

    def _is_beginning(self, fields: list[labels.Field]) -> bool:
        """Return whether a record begins with these fields."""
        first = fields[0]
        if first.label == labels.TOPIC or labels.has_data(fields):
            return True
        return first.label == labels.PARTITION and labels.is_complete(first.label, first.value.partition("\t")[0])

    def _begin(self, number: int, line: str, fields: list[labels.Field]) -> Iterator[Row]:
        """Begin a record; yield the one before it."""
        context = None
        if fields[0].label != labels.TOPIC:
            above = self._pending
            if above is not None and len(above.fields) == 1 and above.fields[0].label == labels.TOPIC:
                above.context = json.dumps({"is_header": True})
            context = self._scope.find_context(fields)
        yield from self.finish()
        self._incomplete = None
        self._enter(fields)
        self._pending = _Pending(number, [line], fields, context)

    def _enter(self, fields: list[labels.Field]) -> None:
        """Enter the scope of the last topic that a record names."""
        at = max((i for i, item in enumerate(fields) if item.label == labels.TOPIC), default=None)
        if at is None:
            return
        topic = fields[at].value
        if not topic or topic.endswith(_CUT):
            self._scope = _Scope(problem=f"the header above has no topic, or it is cut off: {NAME_TOPIC}")
        elif len(fields) == 1 and " " in topic:
            self._scope = _Scope()  # a sentence
        else:
            partitions = [item.value for item in fields[at:] if item.label == labels.PARTITION]
            self._scope = _Scope(topic, None, partitions[-1] if partitions else None)

    def _leave(self, line: str) -> None:
        """Leave the scope of a topic at other text, or at a gap of a diff: what follows may be of another topic."""
        reason = classify_noise(line)
        if reason == BLANK or not any(c.isalnum() for c in line):
            return
        self._incomplete = None
        if reason in (PROMPT, PROSE, DIFF_HEADER) and self._scope.topic is not None:
            self._scope = _Scope(
                problem=f"other text stands between the partition and the header above it: {NAME_TOPIC}"
            )

    def _is_rest(self, pending: _Pending, line: str, begins: bool, fields: list[labels.Field]) -> bool:
        """Return whether a line continues the pending record."""
        if pending.is_full or pending.lines[-1].rstrip("]) \t").endswith(_CUT):
            return False
        names, last = pending.names, pending.fields[-1]
        if not fields:
            is_number = _ONLY_NUMBERS.fullmatch(line) is not None
            if last.label == labels.CONFIGS:
                return is_number or is_continued_by(last.value, _DECORATION.sub("", line, count=1))
            return is_number and (len(names) > 1 or not last.value)
        own = {item.label for item in fields}
        if labels.TOPIC in own:
            return False
        if not names.isdisjoint(own):  # a label twice makes both unclear, but several may be a record of their own
            return begins and len(own) == 1 and self._is_lost_rest(line, begins, fields) and labels.PARTITION not in own
        if not begins:  # a label or a value was wrapped inside
            is_cut = last.value[-1:].isdigit() and _REST_OF_LIST.match(line) is not None
            return (is_cut or not pending.is_complete) and len(names) > 1
        if fields[0].label == labels.PARTITION:
            return False
        if pending.is_complete and not all(
            not item.value or item.value.endswith(",") or labels.is_complete(item.label, item.value) for item in fields
        ):
            return False
        return own <= (labels.PARTITION_LABELS if pending.is_partition else labels.HEADER_LABELS)

    def _is_lost_rest(self, line: str, begins: bool, fields: list[labels.Field]) -> bool:
        """Return whether a line is a part of a record that cannot be joined: it must not pass for prose."""
        if self._pending is None and self._incomplete is None:
            return False
        if not fields:
            return _ONLY_NUMBERS.fullmatch(line) is not None
        return begins and labels.is_complete(fields[0].label, fields[0].value)


def _ascends(last: str | None, number: str) -> bool:
    """Return whether a partition may follow another one of its topic: Kafka prints them in ascending order."""
    if last is None or not (last.isdecimal() and number.isdecimal()):
        return True
    last, number = last.lstrip("0"), number.lstrip("0")
    return (len(number), number) > (len(last), last)


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
