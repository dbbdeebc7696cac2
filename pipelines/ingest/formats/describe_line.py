"""Parses one record of `kafka-topics --describe` of any version, also as mails, tickets and scripts change it.

A record is a line, or several if a line was wrapped. Where newlines were lost, it has several topics and partitions.
"""

import json
import re
from dataclasses import dataclass, field

from pipelines.ingest.formats import describe_labels as labels
from pipelines.ingest.formats.checked_values import INT32, MAX_PARTITION, BadValueError, quote, unparsable
from pipelines.ingest.formats.kafka_configs import split_configs
from pipelines.ingest.formats.kafka_versions import FIRST_WITH_BLANKS, OLD_TOPIC_LINE
from pipelines.ingest.source_format import Fact, FactKind, ignore
from pipelines.ingest.table_rows import explain_struct
from pipelines.ingest.text import classify_noise

_NAMES = {
    labels.TOPIC: "Topic",
    labels.PARTITION: "Partition",
    labels.PARTITION_COUNT: "PartitionCount",
    labels.REPLICATION_FACTOR: "ReplicationFactor",
    labels.LEADER: "Leader",
    labels.REPLICAS: "Replicas",
    labels.ISR: "Isr",
}
_OF_HEADER = frozenset({labels.PARTITION_COUNT, labels.REPLICATION_FACTOR, labels.CONFIGS})
_REST_OF_VALUE = re.compile(r"\s*+[:,]|\s*+[0-9]++(?:,[0-9]++)*+\s")  # of the line above
_PAGER_CUT = re.compile(r"[0-9a-zA-Z,]>\s*$")  # as `less -S` marks a line that goes on
_CUT_TOPIC = re.compile(
    r"[\s>|\"'`*#/]*+(?:[\w.-]++\s++\|\s*+|[0-9]++[:-])?[\s>|\"'`*]*+"  # what stands before
    r"(?:T|To|Top|Topi|Topic)\s*+(?:\.{2,}|…)"
)
_HUNK = re.compile(r"@@ -[0-9]")  # git repeats the header of a topic behind it
_INTS = re.compile(r"[0-9]++(?:\s*+,\s*+[0-9]++)*+")
_BLANK_INTS = re.compile(r"(?:(?:0|[1-9][0-9]*+)(?: ++(?=[0-9])|$))*+")  # separated by blanks
_FULL_WIDTH_COMMAS = str.maketrans("，、", ",,")
_NO_INTS = ("n/a", "none", "null")
_NO_LEADER = ("none", "-1", "null")
_TOPIC_ID = re.compile(r"[\w-]{22}")
_PASTE = ": paste the whole line"
_OLD_TOPIC_LINE = re.compile(OLD_TOPIC_LINE)
NAME_TOPIC = "write Topic: NAME before Partition"


@dataclass
class _Record:
    """The fields of one topic or partition."""

    values: dict[str, str] = field(default_factory=dict)
    cut: str | None = None  # the label whose value may be incomplete
    was_cut: bool = False
    last: str | None = None  # the label that was added last

    @property
    def is_partition(self) -> bool:
        return not labels.REQUIRED_LABELS.isdisjoint(self.values)

    @property
    def is_header(self) -> bool:
        return not _OF_HEADER.isdisjoint(self.values)


# What stands before the first label in a line of an object: a brace, or a key that kafka-topics does not print.
_OBJECT = re.compile(r"\{|\bpartition(?:ErrorCode|Id)\b|\berror_?code\b", re.I)


def parse_line(context: str | None, raw: str) -> list[Fact]:
    """Return the facts of one record: topics, partitions, or why it is ignored. Raises: BadValueError.

    context: JSON of the topic of the header above, for partitions that do not name theirs; or of `is_header`, if the
    record names only the topic of the partitions below; None = it needs nothing from the lines around it.
    """
    around = {} if context is None else json.loads(context)
    if (problem := explain_struct(raw)) is not None:
        raise unparsable(problem)
    line = labels.tidy(raw)
    whole, gap = _split_cut(line)
    prefix, fields = labels.split_line(line if gap is None else whole)
    if not fields or not labels.is_known_prefix(prefix):
        if not fields and _CUT_TOPIC.fullmatch(line.rstrip()):
            raise unparsable(f"cut off in Topic{_PASTE}")
        if labels.has_data(fields) and not _HUNK.match(raw):
            name = _get_name(fields[0].label)
            if _REST_OF_VALUE.match(prefix):
                raise unparsable(f"{quote(prefix.strip())} stands before {name}, as in a wrapped line: join the lines")
            if _OBJECT.search(prefix):
                what = "is of an object that a program has printed, in a form that no reader knows"
                raise unparsable(f"{quote(raw.strip())} {what}: use kafka-topics --describe")
            remedy = (
                "delete it" if fields[0].label == labels.TOPIC else "write Topic: and the name of the topic instead"
            )
            raise unparsable(f"{quote(prefix.strip())} stands before {name}: {remedy}")
        return ignore(classify_noise(raw))
    if context is None and not _is_table(fields, gap, line):
        return ignore(classify_noise(raw))
    records = _split_records(fields, around.get("topic"))
    if gap is not None:
        last = records[-1]
        last.was_cut = True
        if last.last is not None:
            # Only a tab surely ends a value: `11 ...` may have been 11,12.
            value = last.values.get(last.last, "")
            last.cut = None if "\t" in gap and value and not value.endswith(",") else last.last
    facts = [fact for record in records for fact in _parse_record(record, "is_header" in around)]
    if _OLD_TOPIC_LINE.match(raw):
        for kind, values in facts:
            values |= {"release_before": FIRST_WITH_BLANKS} if kind == FactKind.TOPIC else {}
    return facts


def _split_cut(line: str) -> tuple[str, str | None]:
    """Return (the line without the mark of a cut at its end, the blanks before it or None without a mark)."""
    if _PAGER_CUT.search(line) and "<" not in line:
        return line.rstrip()[:-1], ""
    end = line.rstrip(" \t\n\r\f\v\u00a0])")
    whole = end.rstrip(".…")
    dots = end[len(whole) :]
    if "…" not in dots and len(dots) < 2:
        return line, None
    before = whole.rstrip()
    return whole, whole[len(before) :]


def _is_table(fields: list[labels.Field], gap: str | None, line: str) -> bool:
    """Return whether a line with labels is a part of the table, perhaps cut off, rather than prose."""
    if labels.has_data(fields):
        return True
    if fields[0].label != labels.TOPIC:
        return False
    if gap is not None or "\t" in line or (len(fields) > 1 and " " not in fields[0].value):
        return True
    words = fields[0].value.split()
    if len(words) > 1:  # prose, unless the rest is the beginning of a label
        tail = words[-1].lower()
        return len(words) == 2 and any(label.startswith(tail) for label in (labels.PARTITION_COUNT, labels.TOPIC_ID))
    return True


def _split_records(fields: list[labels.Field], topic: str | None) -> list[_Record]:
    """Return the records of a line: a new one begins at a second topic, and at a second partition of a topic."""
    records = [_Record() if topic is None or fields[0].label == labels.TOPIC else _Record({labels.TOPIC: topic})]
    for item in fields:
        record = records[-1]
        if item.label == labels.TOPIC and record.values:
            records.append(_Record())
        elif item.label == labels.PARTITION and (labels.PARTITION in record.values or record.is_header):
            named = record.values.get(labels.TOPIC)
            records.append(_Record() if named is None else _Record({labels.TOPIC: named}))
        record = records[-1]
        if item.label in record.values:
            raise unparsable(f"{_get_name(item.label)} appears twice: write one partition or topic in a line")
        record.values[item.label] = item.value
        record.last = item.unknown or item.label
    return records


def _parse_record(record: _Record, is_lone_topic: bool) -> list[Fact]:
    values = record.values
    if labels.TOPIC not in values:
        if labels.PARTITION in values:
            raise unparsable(f"neither the line nor a header above it names the topic of the partition: {NAME_TOPIC}")
        raise unparsable(f"Topic is missing{_PASTE}")
    if record.is_partition:
        return _parse_partition(record)
    if record.is_header or (_TOPIC_ID.fullmatch(values.get(labels.TOPIC_ID, "")) and not record.was_cut):
        return _parse_topic(record)
    if is_lone_topic and len(values) == 1:
        return [(FactKind.TOPIC, {"topic": _get_topic(record)})]
    raise unparsable(f"cut off before Partition or PartitionCount{_PASTE}")


def _parse_topic(record: _Record) -> list[Fact]:
    """Return the topic, and a rejection where a part of its line cannot be used."""
    topic = _get_topic(record)
    configs = record.values.get(labels.CONFIGS)
    pairs, problems = split_configs(configs or "", cut=record.cut == labels.CONFIGS)
    if record.was_cut and not problems:
        problems = [
            f"cut off in {_get_name(record.cut)}"
            if record.cut
            else f"cut off behind {_get_name(record.last or labels.TOPIC)}"
        ]
    has_counts = labels.PARTITION_COUNT in record.values or labels.REPLICATION_FACTOR in record.values
    if problems and not pairs and not has_counts:
        raise unparsable(problems[0])
    values = {
        "topic": topic,
        "topic_id": record.values.get(labels.TOPIC_ID) or None,
        "partition_count": _get_count(record, labels.PARTITION_COUNT),
        "replication_factor": _get_count(record, labels.REPLICATION_FACTOR),
        "marked_for_deletion": _get_deletion_mark(record),
        "configs": None if configs is None else pairs,
    }
    facts: list[Fact] = [(FactKind.TOPIC, values)]
    if problems:
        reasons = [f"unparsable: {problem}; the rest of the line is used" for problem in problems]
        facts.append((FactKind.REJECTED, {"topic": topic, "reasons": reasons}))
    return facts


def _parse_partition(record: _Record) -> list[Fact]:
    topic = _get_topic(record)
    has_leader = _get_required(record, labels.LEADER).lower() not in _NO_LEADER
    leader = _get_int(record, labels.LEADER, "a broker id, none or -1") if has_leader else -1
    isr = _get_ids(record, labels.ISR)
    if not isr and leader >= 0 and record.last == labels.ISR:
        raise unparsable(f"Isr is empty although Leader is {leader}{_PASTE}")
    observers = _find_ids(record, "observers")
    values = {
        "topic": topic,
        "partition": _get_int(record, labels.PARTITION, high=MAX_PARTITION),
        "leader": leader,
        "replicas": _get_ids(record, labels.REPLICAS, min_size=1),
        "isr": isr,
        "elr": _get_optional_ids(record, "elr"),
        "last_known_elr": _get_optional_ids(record, "lastknownelr"),
        "adding_replicas": _get_optional_ids(record, "addingreplicas"),
        "removing_replicas": _get_optional_ids(record, "removingreplicas"),
        "observers": _find_ids(record, "liveobservers") if observers is None else observers,
        "offline_replicas": _find_ids(record, "offline"),
    }
    facts: list[Fact] = [(FactKind.PARTITION, values)]
    if _get_deletion_mark(record):  # Kafka 2.2 to 2.7 say it on every line; a filtered output has no other
        facts.append((FactKind.TOPIC, {"topic": topic, "marked_for_deletion": True}))
    return facts


def _get_name(label: str) -> str:
    return _NAMES.get(label, label)


def _get_required(record: _Record, label: str) -> str:
    value = record.values.get(label)
    if value is None:
        raise unparsable(f"{_get_name(label)} is missing{_PASTE}")
    if record.cut == label:
        raise unparsable(f"cut off in {_get_name(label)}, after {quote(value)}{_PASTE}")
    return value


def _get_topic(record: _Record) -> str:
    name = _get_required(record, labels.TOPIC)
    if not name:
        raise unparsable(f"Topic is empty{_PASTE}")
    return name


def _get_count(record: _Record, label: str) -> int | None:
    """Return a count of a header; a header may lack it, unless the line seems to be cut off there."""
    others = labels.HEADER_LABELS - {label}
    if label not in record.values and record.last != labels.PARTITION_COUNT and not others.isdisjoint(record.values):
        return None
    return _get_int(record, label)


def _get_int(record: _Record, label: str, expected: str = "a whole number", high: int = INT32) -> int:
    text = _get_required(record, label)
    if not (text.isascii() and text.isdigit()):
        raise unparsable(f"{_get_name(label)} is {quote(text)}, expected {expected}")
    return _to_int(text, label, high)


def _to_int(text: str, label: str, high: int = INT32) -> int:
    # int() of thousands of digits raises, also of zeros; ten digits are enough for an int32
    digits = text.lstrip("0") or "0"
    number = int(digits) if len(digits) <= 10 else INT32 + 1
    if number > high:
        raise unparsable(f"{_get_name(label)} is {quote(text)}, expected 0 to {high}")
    return number


def _get_ids(record: _Record, label: str, min_size: int = 0) -> list[int]:
    text = _get_required(record, label).translate(_FULL_WIDTH_COMMAS)
    if not text and not min_size:
        return []
    if " " in text and _has_blanks_as_commas(record):
        text = ",".join(text.split())
    if not text:
        raise unparsable(f"{_get_name(label)} is empty{_PASTE}")
    if "\n" in text and not _INTS.fullmatch(text):
        head, _, tail = text.partition("\n")
        raise unparsable(
            f"{_get_name(label)} breaks off at {quote(head)}, and the next line has {quote(tail)}: join the lines"
        )
    if text.endswith(","):
        raise unparsable(f"{_get_name(label)} is {quote(text)}, which ends with a comma{_PASTE}")
    if not text.isascii() or not _INTS.fullmatch(text):
        raise unparsable(f"{_get_name(label)} is {quote(text)}, expected broker ids separated by commas")
    return [_to_int(item.strip(), label) for item in text.split(",")]


def _has_blanks_as_commas(record: _Record) -> bool:
    """Return whether blanks separate the ids of a partition: its leader and ISR would not fit another reading."""
    replicas, isr = record.values.get(labels.REPLICAS, ""), record.values.get(labels.ISR, "")
    if " " not in replicas or not (_BLANK_INTS.fullmatch(replicas) and _BLANK_INTS.fullmatch(isr)):
        return False
    leader = record.values.get(labels.LEADER, "").lower()
    ids = set(replicas.split())
    return ids.issuperset(isr.split()) and (leader in ids or leader in _NO_LEADER)


def _get_optional_ids(record: _Record, label: str) -> list[int] | None:
    text = record.values.get(label)
    # Cut off after Isr: the columns before are complete, this one is unknown.
    if text is None or text.lower() in _NO_INTS or record.cut == label:
        return None
    return _get_ids(record, label)


def _find_ids(record: _Record, label: str) -> list[int] | None:
    """Return the ids of a column that a partition is clear without: None if it is damaged."""
    try:
        return _get_optional_ids(record, label)
    except BadValueError:
        return None


def _get_deletion_mark(record: _Record) -> bool | None:
    text = record.values.get(labels.DELETION)
    return True if text is not None and text.lower() == "true" else None
