"""Parses one line of `kafka-topics --describe` of any version, also as mails, tickets and scripts change it."""

import re
from dataclasses import dataclass, field

from pipelines.ingest.formats.checked_values import INT32, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, ignore
from pipelines.ingest.text import classify_noise

# Kafka joins configs with commas and escapes nothing, so a comma separates two configs only where a config key
# and `=` follow. Every topic config key has a dot, except one.
_NEXT_KEY = re.compile(r",\s*(?=(?:[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|preallocate)\s*=)")
# No list in a config contains dotted names: after a comma, such a name is the next key.
_KEY_BEGINS = re.compile(r"\s*[a-z][a-z0-9_-]*\.[a-z0-9._-]*")
# Somebody shortened the value: no config of Kafka has such dots.
_SHORTENED = re.compile(r"\.{3,}|…|\.\.\s*$")
_CLOSING = {"[": "]", "{": "}", "(": ")", '"': '"'}


def split_configs(text: str, cut: bool = False) -> tuple[list[tuple[str, str]], list[str]]:
    """Return ((key, value) pairs in order, problems of the other pieces). cut: the text breaks off at its end."""
    pieces = _split_pieces(text)
    whole = len(pieces)
    if cut and pieces:
        before, comma, rest = pieces[-1].rpartition(",")
        if comma and _KEY_BEGINS.fullmatch(rest):
            pieces[-1:] = [before, rest]  # a key that breaks off
        # After a bracket or quote that is still open, the rest may belong to that value.
        is_open = (i for i, piece in enumerate(pieces) if not _find_nesting(piece)[1])
        whole = next(is_open, len(pieces) - 1)
    pairs, problems = [], []
    for i, piece in enumerate(pieces):
        key, equals, value = piece.partition("=")
        if i >= whole or _SHORTENED.search(value):
            problems.append(f"Configs has {quote(piece)}, which is cut off")
        elif not equals or not key.strip():
            problems.append(f"Configs has {quote(piece)}, expected key=value")
        else:
            pairs.append((key.strip(), value.strip()))
    return pairs, problems


def _split_pieces(text: str) -> list[str]:
    text = text.strip().rstrip(",")
    if not text:
        return []
    is_nested, is_balanced = _find_nesting(text)
    pieces, begin = [], 0
    for match in _NEXT_KEY.finditer(text):
        # A lone bracket or quote in a value (a regular expression, say) must not swallow the configs after it.
        if not (is_balanced and is_nested[match.start()]):
            pieces.append(text[begin : match.start()])
            begin = match.end()
    return [*pieces, text[begin:]]


def _find_nesting(text: str) -> tuple[list[bool], bool]:
    """Return (whether each character is inside brackets or quotes, whether all brackets and quotes pair up)."""
    is_nested = []
    closing: list[str] = []  # what closes each open bracket or quote
    is_escaped = False
    for c in text:
        is_nested.append(bool(closing))
        if is_escaped:
            is_escaped = False
        elif closing and c == closing[-1]:
            closing.pop()
        elif closing and closing[-1] == '"':
            is_escaped = c == "\\"
        elif c in _CLOSING:
            closing.append(_CLOSING[c])
    return is_nested, not closing


_PARTITION_LABELS = ("Partition", "Leader", "Replicas", "Isr")
_LABELS = (
    *("Adding Replicas", "Removing Replicas", "LastKnownElr", "MarkedForDeletion", "ReplicationFactor"),
    *("PartitionCount", "LiveObservers", "Observers", "Partition", "Replicas", "Offline", "TopicId"),
    *("Configs", "Leader", "Topic", "Elr", "Isr"),
)
# Quote marks and indent; the number `grep -n` puts first; the container name of docker compose.
_INDENT = re.compile(r"[\s>|\"'`*]*(?:[\w.-]+\s+\|\s*|[0-9]+[:-])?[\s>|\"'`*]*")
_TOPIC = re.compile(r"topic\s?:", re.I)
_CUT_TOPIC = re.compile(r"(?:T|To|Top|Topi|Topic)\s*(?:\.{2,}|…)")
_CUT = re.compile(r"(\s*)(?:\.{2,}|…)[\s\])]*$")
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
    """Labels (lower case) and their values, in order."""

    values: dict[str, str] = field(default_factory=dict)
    cut: str | None = None  # the label whose value may be incomplete
    was_cut: bool = False
    last: str | None = None  # the label that was added last


def parse_line(_context: str | None, raw: str) -> list[Fact]:
    """Return the facts of one line: a topic, a partition, or why it is ignored. Raises: BadValueError."""
    line = raw[_INDENT.match(raw).end() :]  # type: ignore[union-attr]
    if not _TOPIC.match(line):
        if _CUT_TOPIC.fullmatch(line.rstrip()):
            raise unparsable("cut off in Topic")
        if table := _WHOLE_TABLE.search(raw):
            raise unparsable(f"text before Topic: {quote(raw[: table.start()])}")
        return ignore(classify_noise(raw))
    fields = _split(line)
    values = fields.values
    if "partitioncount" in values or "replicationfactor" in values:
        return _parse_topic(fields)
    if any(label.lower() in values for label in _PARTITION_LABELS):
        return _parse_partition(fields)
    if _looks_like_table(line, fields):
        raise unparsable("cut off before Partition or PartitionCount")
    return ignore(classify_noise(raw))


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
        line = line[: cut.end(1)]
    configs = _CONFIGS.search(line)
    tail = ""
    if configs:
        tail, line = line[configs.end() :], line[: configs.start()]
    for chunk in line.split("\t"):
        _split_chunk(chunk, fields)
    if configs:
        _split_configs_tail(tail, fields)
    if fields.was_cut and fields.last is not None:
        # Only a tab surely ends a value: `11 ...` may have been 11,12.
        value = fields.values[fields.last]
        ended = cut is not None and "\t" in cut[1] and value and not value.endswith(",")
        fields.cut = None if ended else fields.last
    return fields


def _add(fields: _Fields, label: str, value: str) -> None:
    label = " ".join(label.lower().split())
    if label in fields.values and label in map(str.lower, _LABELS):
        raise unparsable(f"{label} appears twice")
    fields.values[label] = value.strip()
    fields.last = label


def _split_chunk(chunk: str, fields: _Fields) -> None:
    """Add the fields between two tabs: one, or more where tabs became spaces."""
    if not chunk or chunk.isspace():
        return
    own = _CHUNK.match(chunk)
    result = list(_KNOWN.finditer(chunk))
    if own and (not result or result[0].start() > own.start(1)):  # an unknown label opens the chunk
        label, begin = own.group(1), own.end()
        result = [m for m in result if m.start() >= begin]
    elif result:
        label, begin = result[0].group(1), result[0].end()
        result = result[1:]
    else:  # no label: the rest of a value that contained a tab, or of a cut label
        if fields.last is not None:
            fields.values[fields.last] = f"{fields.values[fields.last]} {chunk.strip()}".strip()
        return
    for match in result:
        value = chunk[begin : match.start()]
        word = None if label.lower() in ("topic", "topicid", "configs") else _FIRST_WORD.search(value)
        # "Offline Replicas:" is not "Replicas:".
        _add_known(fields, label, value[: word.start()] if word else value)
        label = f"{word.group(1)} {match.group(1)}" if word else match.group(1)
        begin = match.end()
    _add_known(fields, label, chunk[begin:])


def _add_known(fields: _Fields, label: str, value: str) -> None:
    """Add a field; unknown labels inside its value, and their values, become fields of their own."""
    while unknown := _UNKNOWN.search(value):
        _add(fields, label, value[: unknown.start()])
        label, _, value = value[unknown.start() :].partition(":")
    _add(fields, label, value)


def _split_configs_tail(tail: str, fields: _Fields) -> None:
    """Add the configs, and the fields after them."""
    end = len(tail)
    for match in _AFTER_CONFIGS.finditer(tail):
        before = tail[: match.start()]
        if before.count("{") == before.count("}") and before.count('"') % 2 == 0:
            end = match.start()
            break
    _add(fields, "configs", tail[:end])
    for chunk in tail[end:].split("\t"):
        _split_chunk(chunk, fields)


def _parse_topic(fields: _Fields) -> list[Fact]:
    """Return the topic, and a rejection where a part of its line cannot be used."""
    topic = _get_topic(fields)
    configs = fields.values.get("configs")
    pairs, problems = split_configs(configs or "", cut=fields.cut == "configs")
    if fields.was_cut and not problems:
        problems = [f"cut off in {fields.cut}" if fields.cut else f"cut off behind {fields.last}"]
    values = {
        "topic": topic,
        "topic_id": fields.values.get("topicid") or None,
        "partition_count": _get_int(fields, "PartitionCount"),
        "replication_factor": _get_int(fields, "ReplicationFactor"),
        "marked_for_deletion": _get_deletion_mark(fields),
        "configs": None if configs is None else pairs,
    }
    facts: list[Fact] = [(FactKind.TOPIC, values)]
    if problems:
        reasons = [f"unparsable: {problem}; the rest of the line is used" for problem in problems]
        facts.append((FactKind.REJECTED, {"topic": topic, "reasons": reasons}))
    return facts


def _parse_partition(fields: _Fields) -> list[Fact]:
    topic = _get_topic(fields)
    has_leader = _get_required(fields, "Leader").lower() not in ("none", "-1")
    leader = _get_int(fields, "Leader", "a broker id, none or -1") if has_leader else -1
    isr = _get_ids(fields, "Isr")
    if not isr and leader >= 0 and fields.last == "isr":
        raise unparsable(f"Isr is empty although Leader is {leader} (cut off?)")
    values = {
        "topic": topic,
        "partition": _get_int(fields, "Partition"),
        "leader": leader,
        "replicas": _get_ids(fields, "Replicas", min_size=1),
        "isr": isr,
        "elr": _get_optional_ids(fields, "Elr"),
        "last_known_elr": _get_optional_ids(fields, "LastKnownElr"),
        "adding_replicas": _get_optional_ids(fields, "Adding Replicas"),
        "removing_replicas": _get_optional_ids(fields, "Removing Replicas"),
    }
    facts: list[Fact] = [(FactKind.PARTITION, values)]
    if _get_deletion_mark(fields):  # Kafka 2.2 to 2.7 say it on every line; a filtered output has no other
        facts.append((FactKind.TOPIC, {"topic": topic, "marked_for_deletion": True}))
    return facts


def _get_required(fields: _Fields, label: str) -> str:
    value = fields.values.get(label.lower())
    if value is None:
        raise unparsable(f"{label} is missing (cut off?)")
    if fields.cut == label.lower():
        raise unparsable(f"cut off in {label}, after {quote(value)}")
    return value


def _get_topic(fields: _Fields) -> str:
    name = _get_required(fields, "Topic")
    if not name:
        raise unparsable("Topic is empty")
    return name


def _get_int(fields: _Fields, label: str, expected: str = "a whole number") -> int:
    text = _get_required(fields, label)
    if not (text.isascii() and text.isdigit()):
        raise unparsable(f"{label} is {quote(text)}, expected {expected}")
    return _to_int32(text, label)


def _to_int32(text: str, label: str) -> int:
    # int() of thousands of digits raises; ten digits are enough for an int32
    number = int(text) if len(text.lstrip("0")) <= 10 else INT32 + 1
    if number > INT32:
        raise unparsable(f"{label} is {quote(text)}, expected 0 to {INT32}")
    return number


def _get_ids(fields: _Fields, label: str, min_size: int = 0) -> list[int]:
    text = _get_required(fields, label)
    if not text and not min_size:
        return []
    if not text.isascii() or not _INTS.fullmatch(text):
        raise unparsable(f"{label} is {quote(text)}, expected broker ids separated by commas")
    return [_to_int32(item.strip(), label) for item in text.split(",")]


def _get_optional_ids(fields: _Fields, label: str) -> list[int] | None:
    text = fields.values.get(label.lower())
    # Cut off after Isr: the columns before are complete, this one is unknown.
    if text is None or text.lower() in _NO_INTS or fields.cut == label.lower():
        return None
    return _get_ids(fields, label)


def _get_deletion_mark(fields: _Fields) -> bool | None:
    text = fields.values.get("markedfordeletion")
    return True if text is not None and text.lower() == "true" else None
