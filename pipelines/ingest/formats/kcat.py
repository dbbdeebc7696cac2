"""`kcat -L` (kafkacat): live brokers, topics and their partitions as text; `kcat -L -J` is read by metadata_json."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import as_int, as_partition, as_topic, quote, unparsable
from pipelines.ingest.formats.partition_filters import warn_of_topics
from pipelines.ingest.plain_records import parse_plain
from pipelines.ingest.source_format import (
    Fact,
    FactKind,
    Format,
    PlainFacts,
    Records,
    Signature,
    decide_ignored,
    ignore,
)
from pipelines.ingest.text import MAX_LOOK, classify_noise, find_marked, split_lines
from udfs.arrow.columns import to_array
from udfs.wording import count_of, is_or_are

_QUOTE = r"(?:[\"“”']|&quot;)"
_BEFORE = r"(?:^|[\s>|\"'`*:#-])"  # what mails, tickets and grep put before a line, and kcat's own indent
# With `partition(s)`, `leader:` and brackets, it is what programs in Python print of librdkafka's metadata.
_TOPIC = re.compile(
    rf"{_BEFORE}(?:topic )?{_QUOTE}([^\"“”'&\n]*+){_QUOTE} with ([0-9]{{1,9}}) "
    r"(?:partitions?:|partition\(s\)[:,]?)\s*+(.*)",
    re.I,
)
_TOPIC_LINE = re.compile(
    r"[\s>|#*-]*+(?=topic|[^\n]*partition\(s\))(?:topic:? )?"
    r"([a-zA-Z0-9._-]++)(?: with|:| has) ([0-9]{1,9}) partition(?:s|\(s\))?[:,]?(\s*+)",
    re.I,
)
# Behind the number: a comma, as kcat has it, or as programs have it a colon, a dash or nothing.
_AFTER_NUMBER = r"(?:\s*+[,:–—-]\s*+|\s)"
_PARTITION_BEGINS = re.compile(rf"{_BEFORE}partition [0-9]++(?:,\s*+leader\b|{_AFTER_NUMBER}leader\s?[:=])", re.I)
_PARTITION = re.compile(
    rf"{_BEFORE}partition ([0-9]++){_AFTER_NUMBER}leader\s?[:=]?+\s*+(-?[0-9]++|none)[,\s]\s*+"
    r"replicas[:=][ \t]*+[\[(]?([0-9, \t]*+)(?:[\])],?\s*+)?isrs?[:=][ \t]*+[\[(]?([0-9, \t]*+)"
    r"(?:[\])](?:\s*+errstr:.*+)?+)?+(.*)",
    re.I,
)
# A time of day is no host and port.
_BROKER = re.compile(
    _BEFORE + r"broker (?P<id>-?[0-9]++) at (?=[^\s]*?[a-z.\[][^\s]*?:[0-9]{2})(?P<address>[^\s:]*+(?::[^\s:]*+)*+)"
    r"(?:\s++\(controller\))?\W*+$",
    re.I,
)
# As programs in Python print it; only in a list of brokers, as it could be anything elsewhere.
_PYTHON_BROKER = re.compile(r"[\s>|#*`-]*+(?P<address>[^\s/:]++:[0-9]++)/(?P<id>[0-9]++)(?:\s++\(controller\))?\W*+$")
_COUNT = re.compile(_BEFORE + r"([0-9]{1,9}) (broker|topic)s?:$", re.I)
_METADATA = re.compile(_BEFORE + r"Metadata for (.{1,300}?) \(from broker ", re.I)
_ALL_TOPICS = "all topics"
_HEADER = re.compile(r"[\s>|#]*+(?:[0-9]++ (?:brokers?|topics?):\s*+$|Metadata for .{0,300}\(from broker )", re.I)
_PREFIXED_HEADER = re.compile(_BEFORE + r"(?:Metadata for .{0,300}\(from broker |[0-9]++ (?:brokers|topics):\s*+$)")
_MARKUP_TAIL = re.compile(r"(?:\s|<br\s*+/?>|</?[a-z]{1,10}>|[`*|\"'\\])*+", re.I)
_ERROR = re.compile(r"\b(?:Broker|Local): ([A-Z][a-z'][a-z' ]{3,80})")  # of librdkafka, behind a partition
_REST = re.compile(r"[\s>|#]*+(?:replicas[:=]|isrs[:=])")  # the rest of a partition line that was wrapped
_PLAIN_LINES = re.compile(
    r"(?: {4}partition [0-9]++, leader -?[0-9]++, replicas: [0-9]++(?:,[0-9]++)*+, isrs: [0-9,]*+\n"
    r'|  topic "[a-zA-Z0-9._-]++" with [0-9]++ partitions:\n)*+'
)
_IDS = "[0-9]{1,9}(?:,[0-9]{1,9})*"  # nine digits always fit an int32
_PLAIN_PARTITION = (
    r"^[ \t>|]*partition (?P<partition>[0-9]{1,6}), leader (?P<leader>-1|[0-9]{1,9}), "
    rf"replicas: (?P<replicas>{_IDS}), isrs: (?P<isr>{_IDS})[ \t]*$"
)
_PLAIN_TOPIC = "^topic (?P<topic>[a-zA-Z0-9._-]{0,248}[a-zA-Z0-9_-])$"  # of a context
# Patterns that recognise a line, and words that it must have, which are found faster.
_SIGNS = (
    (_PARTITION_BEGINS, ("partition ", "leader")),
    (_TOPIC, (" with ", " partition")),
    (_TOPIC_LINE, (" partition",)),
    (_BROKER, ("broker ", " at ")),
    (_PREFIXED_HEADER, ("metadata for ", "(from broker ")),
    (_PREFIXED_HEADER, ("s:",)),
)
# One of them is in each line that a sign finds.
_MARKS = r"(?i:partition |broker .* at |metadata for | partition)|[0-9] (?:brokers|topics):|[^\x00-\x7f]"
_ALL, _OF_TOPIC = "all brokers", "topic "  # contexts


def _is_line(line: str) -> bool:
    line = line[:MAX_LOOK]
    lower = line.lower()
    return any(
        pattern.search(line) for pattern, words in _SIGNS if all(word in lower for word in words) or not line.isascii()
    )


def _read_records(text: str, _path: str) -> Records:
    """Give each partition line its topic, each broker line whether the list of brokers is whole; join wrapped lines."""
    lines = split_lines(text)
    contexts: list[str | None] = [None] * len(lines)
    begins = (i for i, line in enumerate(lines) if "opic" in line or "partition(s)" in line)
    for begin, end in pairwise([*begins, len(lines)]):
        if match := _find_topic(lines[begin][:MAX_LOOK]):
            contexts[begin:end] = [_OF_TOPIC + match[1]] * (end - begin)
    for i in (i for i, line in enumerate(lines) if "roker" in line and " at " in line):
        contexts[i] = None
    for i, warning in _find_selections(lines).items():
        contexts[i] = decide_ignored("header", warning=warning, is_selection=True)
    for at, name, count, listed in _find_lists(lines):
        if (missing := count - len(listed)) > 0:
            part = f"{missing} of {count_of(count, name)} {is_or_are(missing)} not shown below"
            contexts[at] = decide_ignored("header", warning=f"{part}: paste the whole output")
        elif name == "broker" and not missing:
            for i in listed:
                contexts[i] = _ALL
    wrapped = [i for i, line in enumerate(lines[:-1]) if "artition " in line and "isrs:" not in line]
    for i in wrapped:
        if _PARTITION_BEGINS.search(lines[i][:MAX_LOOK]) and _REST.match(lines[i + 1]):
            lines[i] += " " + lines[i + 1].lstrip(" \t>|#")
            lines[i + 1], contexts[i + 1] = "", decide_ignored("rest of a wrapped line")
    return Records(range(len(lines)), range(1, len(lines) + 1), contexts, lines)


def _find_topic(line: str) -> re.Match[str] | None:
    """Return name, number of partitions and error of a line that begins a topic."""
    return _TOPIC.search(line) or (_TOPIC_LINE.fullmatch(line) if "artition" in line else None)


def _find_selections(lines: Sequence[str]) -> dict[int, str | None]:
    """Return the positions of the headers that each name the one topic that is shown, as with -t; the first warns."""
    headers = ((i, _METADATA.search(line[:MAX_LOOK])) for i, line in enumerate(lines) if "etadata for " in line)
    names = {i: match[1] for i, match in headers if match is not None and match[1] != _ALL_TOPICS}
    return warn_of_topics({i: (name, f'"Metadata for {name}"') for i, name in names.items()}, "the headers")


def _find_lists(lines: Sequence[str]) -> Iterator[tuple[int, str, int, list[int]]]:
    """Yield each count of brokers or topics: its position, its word and number, and the positions that it counts."""
    open_lists: dict[str, tuple[int, str, int, list[int]]] = {}
    for i, line in enumerate(lines):
        # Nearly all lines are partitions, which end in a digit.
        head = line[:MAX_LOOK].rstrip()
        if head.endswith(":") and (match := _COUNT.search(head)):
            name = match[2].lower()
            ended = ("broker", "topic") if name == "broker" else ("topic",)
            yield from (open_lists.pop(word) for word in ended if word in open_lists)
            open_lists[name] = i, name, int(match[1]), []
        elif "broker" in open_lists and ":" in line and _find_broker(line[:MAX_LOOK]):
            open_lists["broker"][3].append(i)
        elif "topic" in open_lists and ("opic" in line or "partition(s)" in line) and _find_topic(line[:MAX_LOOK]):
            open_lists["topic"][3].append(i)
    yield from open_lists.values()


def _find_broker(line: str) -> re.Match[str] | None:
    """Return id and address of a broker that a line of a list of brokers has."""
    return _BROKER.search(line) or _PYTHON_BROKER.match(line)


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    topic = context.removeprefix(_OF_TOPIC) if context is not None and context.startswith(_OF_TOPIC) else None
    if _PARTITION_BEGINS.search(raw):
        return _parse_partition(topic, raw)
    if match := _find_topic(raw):
        return _parse_topic(match)
    if match := _find_broker(raw) if context == _ALL else _BROKER.search(raw):
        return _parse_broker(match, context == _ALL)
    if _PREFIXED_HEADER.search(raw) or _HEADER.match(raw):
        return ignore("header")
    if _REST.match(raw):
        raise unparsable(f"{quote(raw.strip())} is a piece of a partition line")
    return ignore(classify_noise(raw))


def _parse_partition(topic: str | None, raw: str) -> list[Fact]:
    match = _PARTITION.search(raw)
    if match is None:
        raise unparsable(f"{quote(raw.strip())} is no whole partition line (cut off?)")
    if topic is None:
        raise unparsable('no line as in topic "orders" with 6 partitions is above: the topic is unknown')
    replicas, isr = (_parse_ids(match[group], name) for group, name in ((3, "replicas"), (4, "isrs")))
    has_leader = match[2].lower() not in ("-1", "none")
    leader = as_int(match[2], "leader") if has_leader else -1
    if not _MARKUP_TAIL.fullmatch(match[5]):
        if "..." in match[5] or "…" in match[5] or not (match[4].rstrip().endswith(",") or not match[4].strip()):
            raise unparsable(f"isrs is {quote((match[4] + match[5]).strip())}, expected broker ids separated by commas")
    elif match[4].rstrip().endswith(","):
        raise unparsable(f"cut off in isrs, after {quote(match[4].strip())}")
    if not replicas:
        raise unparsable("replicas is empty")
    if has_leader and not isr:
        raise unparsable(f"isrs is empty although leader is {leader} (cut off?)")
    values = {
        "topic": as_topic(topic, "topic"),
        "partition": as_partition(match[1], "partition"),
        "leader": leader,
        "replicas": replicas,
        "isr": isr,
    }
    facts: list[Fact] = [(FactKind.PARTITION, values)]
    if has_leader and (error := _ERROR.search(match[5])) is not None:
        facts += ignore("error of a partition", f"kcat reports an error of {topic}-{match[1]}: {error[1].strip()}")
    return facts


def _parse_ids(text: str, what: str) -> list[int]:
    text = text.strip().removesuffix(",").rstrip()
    return [as_int(item.strip(), what) for item in text.split(",")] if text else []


def _parse_topic(match: re.Match[str]) -> list[Fact]:
    topic, count = as_topic(match[1], "topic"), int(match[2])
    error = match[3].strip()
    if count:  # beside partitions, an error says only which of them have no leader
        return [(FactKind.TOPIC, {"topic": topic, "partition_count": count})]
    problem = unparsable(f"kcat shows no partition of topic {quote(topic)}" + (f": {quote(error)}" if error else ""))
    return [(FactKind.REJECTED, {"topic": topic, "reasons": [str(problem)]})]


def _parse_broker(match: re.Match[str], is_whole_list: bool) -> list[Fact]:
    broker_id = as_int(match["id"], "broker", -1)
    host, _, port = match["address"].rpartition(":")
    if broker_id < 0:
        return ignore("bootstrap server, not a broker")
    # The controller that kcat marks is not used: with KRaft, brokers name any live broker.
    values = {"broker_id": broker_id, "host": host or None, "port": as_int(port, "port", 0, 65535)}
    return [(FactKind.BROKER, values | ({"registered": True} if is_whole_list else {}))]


def _parse_plain_partitions(records: pa.Table) -> PlainFacts:
    contexts = to_array(records["context"]).dictionary_encode()  # one for all partitions of a topic
    topics = pc.struct_field(pc.extract_regex(contexts.dictionary, _PLAIN_TOPIC), "topic").take(contexts.indices)
    return parse_plain(records, _PLAIN_PARTITION, FactKind.PARTITION, pc.is_valid(topics), {"topic": topics})


FORMAT = Format(
    "kcat",
    "kcat -L (kafkacat): live brokers, topics, partitions",
    Signature(line=find_marked(_MARKS, _is_line), plain_lines=_PLAIN_LINES),
    *(_parse_record, _read_records, (_parse_plain_partitions,)),
)
