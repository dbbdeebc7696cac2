"""The tolerant parser of one line of `kafka-topics --describe`, of any version and as people keep it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pipelines.ingest.formats.checked_values import INT32, Fact, ignored, shown, unparsable
from pipelines.ingest.formats.describe_configs import split_configs
from pipelines.ingest.formats.noise_lines import ELLIPSIS, noise_reason
from pipelines.ingest.records import FAULT, PARTITION, TOPIC

_PARTITION_LABELS = ("Partition", "Leader", "Replicas", "Isr")
_LABELS = (
    *("Adding Replicas", "Removing Replicas", "LastKnownElr", "MarkedForDeletion", "ReplicationFactor"),
    *("PartitionCount", "LiveObservers", "Observers", "Partition", "Replicas", "Offline", "TopicId"),
    *("Configs", "Leader", "Topic", "Elr", "Isr"),
)
# Quote marks and indent; the number `grep -n` puts first; the container name of docker compose.
_LEAD = re.compile(r"[\s>|\"'`*]*(?:[\w.-]+\s+\|\s*|[0-9]+[:-])?[\s>|\"'`*]*")
_TOPIC = re.compile(r"topic\s?:", re.I)
_CUT_TOPIC = re.compile(r"(?:T|To|Top|Topi|Topic)\s*(?:\.{2,}|…)")
_CUT = re.compile(r"\s*(?:\.{2,}|…)[\s\])]*$")
_KNOWN = re.compile(r"(?<!\S)(" + "|".join(_LABELS) + r")\s?:", re.I)
_UNKNOWN = re.compile(r"(?:^|(?<=\s))[A-Z][\w-]*(?: [A-Z][\w-]*)?:")
_CHUNK = re.compile(r"\s*([A-Za-z][\w-]*(?: [A-Za-z][\w-]*)*)\s?:")
_FIRST_WORD = re.compile(r"(?:^|\s)([A-Z][a-z]\w*) $")
_CONFIGS = re.compile(r"(?<!\S)configs\s?:", re.I)
_AFTER_CONFIGS = re.compile(
    r"\t\s*[A-Za-z][\w-]*(?: [A-Za-z][\w-]*)*\s?:|\s{2,}[A-Z][\w-]*(?: [A-Z][\w-]*)?:(?=\s|$)"
    r"|\s(?:MarkedForDeletion|PartitionCount|ReplicationFactor|TopicId)\s?:",
    re.I,
)
_TABLE = re.compile(r"(?<!\S)(?:partition|partitioncount|topicid|leader|replicas|isr|configs)\s?:", re.I)
_WHOLE_TABLE = re.compile(r"\btopic:.*\spartition:.*\sreplicas:.*\sisr:", re.I)
_INTS = re.compile(r"[0-9]+(?:\s*,\s*[0-9]+)*")
_NO_INTS = ("n/a", "none", "null")


@dataclass
class _Fields:
    """Labels (lower case) and their values, in order; `cut` is the label whose value may be incomplete."""

    values: dict[str, str] = field(default_factory=dict)
    cut: str | None = None
    was_cut: bool = False
    last: str | None = None


def line_facts(_context: str | None, raw: str) -> list[Fact]:
    """The facts of one line: a topic, a partition, or why it is ignored; else a BadValueError."""
    line = raw[_LEAD.match(raw).end() :]  # type: ignore[union-attr]
    if not _TOPIC.match(line):
        if _CUT_TOPIC.fullmatch(line.rstrip()):
            raise unparsable("cut off in Topic")
        if _WHOLE_TABLE.search(raw):
            raise unparsable(f"text before Topic: {shown(raw[: _WHOLE_TABLE.search(raw).start()])}")  # type: ignore[union-attr]
        return ignored(noise_reason(raw))
    fields = _split(line)
    values = fields.values
    if "partitioncount" in values or "replicationfactor" in values:
        return _topic(fields)
    if any(label.lower() in values for label in _PARTITION_LABELS):
        return _partition(fields)
    if not _looks_like_table(line, fields):
        return ignored(noise_reason(raw) if noise_reason(raw) != ELLIPSIS else ELLIPSIS)
    raise unparsable("cut off before Partition or PartitionCount")


def _looks_like_table(line: str, fields: _Fields) -> bool:
    if fields.was_cut or "\t" in line or _TABLE.search(line):
        return True
    words = fields.values.get("topic", "").split()
    if len(words) > 1:  # prose, unless the rest is the beginning of a label
        tail = words[-1].lower()
        return len(words) == 2 and any(label.startswith(tail) for label in ("partitioncount", "topicid"))
    return True


def _split(line: str) -> _Fields:
    fields = _Fields()
    cut = _CUT.search(line)
    if cut:
        fields.was_cut = True
        line = line[: cut.start()] + _blanks(cut.group())
    configs = _CONFIGS.search(line)
    tail = ""
    if configs:
        tail, line = line[configs.end() :], line[: configs.start()]
    for chunk in line.split("\t"):
        _split_chunk(chunk, fields)
    if configs:
        _split_configs_tail(tail, fields)
    if fields.was_cut and fields.last is not None:
        # Only a tab ends a value for sure: `11 ...` may have been 11,12.
        value = fields.values[fields.last]
        ended = cut is not None and "\t" in _blanks(cut.group()) and value and not value.endswith(",")
        fields.cut = None if ended else fields.last
    return fields


def _blanks(text: str) -> str:
    """The blanks that the text begins with."""
    return text[: len(text) - len(text.lstrip())]


def _put(fields: _Fields, label: str, value: str) -> None:
    label = " ".join(label.lower().split())
    if label in fields.values and label in _KNOWN_LOWER:
        raise unparsable(f"{label} appears twice")
    fields.values[label] = value.strip()
    fields.last = label


def _split_chunk(chunk: str, fields: _Fields) -> None:
    """Add the fields of what stands between two tabs: one, or more where tabs became spaces."""
    if not chunk or chunk.isspace():
        return
    own = _CHUNK.match(chunk)
    found = list(_KNOWN.finditer(chunk))
    if own and (not found or found[0].start() > own.start(1)):  # an unknown label opens the chunk
        label, begin = own.group(1), own.end()
        found = [m for m in found if m.start() >= begin]
    elif found:
        label, begin = found[0].group(1), found[0].end()
        found = found[1:]
    else:  # no label at all: the rest of a value that held a tab, or of a cut label
        if fields.last is not None:
            fields.values[fields.last] = f"{fields.values[fields.last]} {chunk.strip()}".strip()
        return
    for match in found:
        value = chunk[begin : match.start()]
        word = None
        if label.lower() not in ("topic", "topicid", "configs"):
            word = _FIRST_WORD.search(value)  # "Offline Replicas:" is not "Replicas:"
        if word:
            _put_value(fields, label, value[: word.start()])
            label = f"{word.group(1)} {match.group(1)}"
        else:
            _put_value(fields, label, value)
            label = match.group(1)
        begin = match.end()
    _put_value(fields, label, chunk[begin:])


def _put_value(fields: _Fields, label: str, value: str) -> None:
    """Add a field, leaving out the unknown labels (and their values) that stand in its value."""
    unknown = _UNKNOWN.search(value)
    if unknown is None:
        _put(fields, label, value)
        return
    _put(fields, label, value[: unknown.start()])
    rest = value[unknown.start() :]
    name, _, other = rest.partition(":")
    _put_value(fields, name, other)


def _split_configs_tail(tail: str, fields: _Fields) -> None:
    after = None
    for match in _AFTER_CONFIGS.finditer(tail):
        before = tail[: match.start()]
        if before.count("{") == before.count("}") and before.count('"') % 2 == 0:
            after = match
            break
    if after is None:
        _put(fields, "configs", tail)
        return
    _put(fields, "configs", tail[: after.start()])
    for chunk in tail[after.start() :].split("\t"):
        _split_chunk(chunk, fields)


def _topic(fields: _Fields) -> list[Fact]:
    """The topic, and a fault beside it where something on its line is not to be used."""
    topic = _name(fields)
    configs = fields.values.get("configs")
    pairs, problems = split_configs(configs or "", cut=fields.cut == "configs")
    if fields.was_cut and not problems:
        problems = [f"cut off in {fields.cut}" if fields.cut else f"cut off behind {fields.last}"]
    facts: list[Fact] = [
        (
            TOPIC,
            {
                "topic": topic,
                "topic_id": fields.values.get("topicid") or None,
                "partition_count": _int(fields, "PartitionCount"),
                "replication_factor": _int(fields, "ReplicationFactor"),
                "marked_for_deletion": _marked(fields),
                "configs": None if configs is None else pairs,
            },
        )
    ]
    if problems:
        reasons = [f"unparsable: {problem}; the rest of the line is used" for problem in problems]
        facts.append((FAULT, {"topic": topic, "reasons": reasons}))
    return facts


def _partition(fields: _Fields) -> list[Fact]:
    topic = _name(fields)
    leader = _leader(fields)
    isr = _ids(fields, "Isr")
    if not isr and leader >= 0 and fields.last == "isr":
        raise unparsable(f"Isr is empty although Leader is {leader} (cut off?)")
    facts: list[Fact] = [
        (
            PARTITION,
            {
                "topic": topic,
                "partition": _int(fields, "Partition"),
                "leader": leader,
                "replicas": _ids(fields, "Replicas", least=1),
                "isr": isr,
                "elr": _optional_ids(fields, "Elr"),
                "last_known_elr": _optional_ids(fields, "LastKnownElr"),
                "adding_replicas": _optional_ids(fields, "Adding Replicas"),
                "removing_replicas": _optional_ids(fields, "Removing Replicas"),
            },
        )
    ]
    if _marked(fields):  # Kafka 2.2 to 2.7 say it on every line; a filtered output has no other
        facts.append((TOPIC, {"topic": topic, "marked_for_deletion": True}))
    return facts


def _need(fields: _Fields, label: str) -> str:
    value = fields.values.get(label.lower())
    if value is None:
        raise unparsable(f"{label} is missing (cut off?)")
    if fields.cut == label.lower():
        raise unparsable(f"cut off in {label}, after {shown(value)}")
    return value


def _name(fields: _Fields) -> str:
    name = _need(fields, "Topic")
    if not name:
        raise unparsable("Topic is empty")
    return name


def _int(fields: _Fields, label: str) -> int:
    text = _need(fields, label)
    if not (text.isascii() and text.isdigit()):
        raise unparsable(f"{label} is {shown(text)}, expected a whole number")
    return _small(text, label)


def _small(text: str, label: str) -> int:
    # int() of thousands of digits raises; ten digits are enough for an int32
    number = int(text) if len(text.lstrip("0")) <= 10 else INT32 + 1
    if number > INT32:
        raise unparsable(f"{label} is {shown(text)}, expected 0 to {INT32}")
    return number


def _leader(fields: _Fields) -> int:
    text = _need(fields, "Leader")
    if text.lower() in ("none", "-1"):
        return -1
    if not (text.isascii() and text.isdigit()):
        raise unparsable(f"Leader is {shown(text)}, expected a broker id, none or -1")
    return _small(text, "Leader")


def _ids(fields: _Fields, label: str, least: int = 0) -> list[int]:
    text = _need(fields, label)
    if not text and not least:
        return []
    if not text.isascii() or not _INTS.fullmatch(text):
        raise unparsable(f"{label} is {shown(text)}, expected broker ids with commas between")
    return [_small(item.strip(), label) for item in text.split(",")]


def _optional_ids(fields: _Fields, label: str) -> list[int] | None:
    text = fields.values.get(label.lower())
    # Cut off behind Isr: what the line says up to there is whole, this column is unknown.
    if text is None or text.lower() in _NO_INTS or fields.cut == label.lower():
        return None
    return _ids(fields, label)


def _marked(fields: _Fields) -> bool | None:
    text = fields.values.get("markedfordeletion")
    return True if text is not None and text.lower() == "true" else None


_KNOWN_LOWER = frozenset(label.lower() for label in _LABELS)
