"""`kafka-configs --describe`: the configs of topics, what brokers set for all topics, their replica selector, versions.

And the line of `kafka-features describe` that shows the version of the cluster.

Headers and config lines are as ConfigCommand prints them, of Kafka 0.9 to 4.1.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from pipelines.ingest.formats.checked_values import as_int, as_topic, quote, unparsable
from pipelines.ingest.formats.kafka_versions import date_cluster, read_feature
from pipelines.ingest.formats.metadata_quorum import make_node
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, ignore
from pipelines.ingest.text import MAX_LOOK, classify_noise, find_marked, split_lines
from udfs.failures.disk_limits import are_all_cordoned
from udfs.failures.topic_defaults import CAPS_MIN_ISR, UNKNOWN_RELEASE, ReleaseRange, parse_release

# Kafka joins configs with commas and escapes nothing, so a comma separates two configs only where a config key
# and `=` follow. Every topic config key has a dot, except one.
_KEY = r"(?:[a-z][a-z0-9_-]*+(?:\.[a-z0-9_-]++)++|preallocate)"
_NEXT_KEY = re.compile(rf",\s*+(?={_KEY}\s*+=)")
_ANY_KEY = re.compile(r"[\w.-]+")
# No list in a config contains dotted names: after a comma, such a name is the next key.
_KEY_BEGINS = re.compile(r"\s*+[a-z][a-z0-9_-]*+\.[a-z0-9._-]*+")
# Somebody shortened the value: no config of Kafka has such dots.
_SHORTENED = re.compile(r"\.{3,}+|…|\.\.\s*+$")
_ASSIGNMENT = re.compile(r"\w\s?=")
_MARKS = re.compile(r'[\[\]{}()"]|\\++')
_CLOSING = {"[": "]", "{": "}", "(": ")", '"': '"'}
_MAX_PROBLEMS = 20
_CURLY = str.maketrans("“”„", '"""')


def split_configs(text: str, cut: bool = False) -> tuple[list[tuple[str, str]], list[str]]:
    """Return ((key, value) pairs in order, problems of the other pieces). cut: the text breaks off at its end."""
    if "{“" in text:
        text = text.translate(_CURLY)
    # A line end after a comma or `=` is none of a value; at others, a value may have been divided.
    pieces = _split_pieces(re.sub(r"(?<=[,=])\n", "", text))
    whole = len(pieces)
    if cut and pieces:
        before, comma, rest = pieces[-1].rpartition(",")
        if comma and _KEY_BEGINS.fullmatch(rest):
            pieces[-1:] = [before, rest]  # a key that breaks off
        # After a bracket or quote that is still open, the rest may belong to that value.
        is_open = (i for i, piece in enumerate(pieces) if not is_balanced(piece))
        whole = next(is_open, len(pieces) - 1)
    pairs, problems = [], []
    for i, piece in enumerate(pieces):
        key, equals, value = piece.partition("=")
        if i >= whole or _SHORTENED.search(value):
            problems.append(f"Configs has {quote(piece)}, which is cut off")
        elif "\n" in piece.strip():
            head, _, tail = piece.strip().partition("\n")
            problems.append(f"Configs breaks off at {quote(head)}, and the next line has {quote(tail)}: join the lines")
        elif not equals or not _ANY_KEY.fullmatch(key.strip()):
            problems.append(f"Configs has {quote(piece)}, expected key=value")
        else:
            pairs.append((key.strip(), value.strip()))
    if len(problems) > _MAX_PROBLEMS:
        problems[_MAX_PROBLEMS:] = [f"Configs has {len(problems) - _MAX_PROBLEMS} more problems"]
    return pairs, problems


def is_continued_by(configs: str, line: str) -> bool:
    """Return whether a line is the rest of configs that were wrapped: it continues a value, or has the next key."""
    if not line or any(a[-1] not in ",:" and not b.startswith("=") for a, b in pairwise(line.split())):
        return False  # words: no config but one that people write contains a blank
    return (
        line[0] == ","
        or configs.endswith((",", "="))
        or _ASSIGNMENT.search(line) is not None
        or not is_balanced(configs)
    )


def is_balanced(text: str) -> bool:
    """Return whether all brackets and quotes of a text pair up."""
    return _find_nesting(text)[1]


def _split_pieces(text: str) -> list[str]:
    text = text.strip().rstrip(",")
    if not text:
        return []
    spans, balanced = _find_nesting(text)
    spans.append((len(text), len(text)))
    pieces, begin, at = [], 0, 0
    for match in _NEXT_KEY.finditer(text):
        comma = match.start()
        while spans[at][1] < comma:
            at += 1
        # A lone bracket or quote in a value (a regular expression, say) must not swallow the configs after it.
        if not (balanced and spans[at][0] < comma):
            pieces.append(text[begin:comma])
            begin = match.end()
    return [*pieces, text[begin:]]


def _find_nesting(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return (begin and end of each outermost bracket or quote, whether all brackets and quotes pair up)."""
    spans: list[tuple[int, int]] = []
    closing: list[str] = []  # what closes each open bracket or quote
    begin, escaped = 0, -1
    for match in _MARKS.finditer(text):
        mark, at = match[0], match.start()
        is_quoted = closing and closing[-1] == '"'
        if is_quoted and mark[0] == "\\":
            escaped = match.end() if len(mark) % 2 else -1
        elif closing and mark == closing[-1]:
            if is_quoted and at == escaped:
                continue
            closing.pop()
            if not closing:
                spans.append((begin, at))
        elif not is_quoted and mark in _CLOSING:
            begin = begin if closing else at
            closing.append(_CLOSING[mark])
    return spans, not closing


_START = r"[\s>|#`]*+"
# What the configs below a header, or behind it, are of.
_HEADER = re.compile(
    _START + r"(?:(?P<origin>[A-Z][a-zA-Z]*+(?: credential)?) )?(?:default )?[Cc]onfigs? for (?:default )?"
    r"(?P<entity>topic|broker|broker-logger|client-metric|group|client|user|ip|client-id|user-principal)s?"
    r"(?:[ :]'?(?P<name>[^\s']++)'?)?(?:,[^\n=]{1,300}?)?(?: in the cluster)? "
    r"are(?::?\s*+$|\s++(?P<configs>[a-zA-Z][a-zA-Z0-9._-]*+=.*))",
    re.DOTALL,
)
_IN_CLUSTER = "in"  # the word behind `brokers` in the header of the default of all brokers
# Whose value it is, also where a topic is described: no topic sets its own.
_SET_BY_BROKERS = re.compile(r"\bsynonyms=\{(?:STATIC|DYNAMIC|DYNAMIC_DEFAULT)_BROKER_CONFIG:")
_SENSITIVE = " sensitive="
_CONFIG = re.compile(_START + r"(?P<key>[a-zA-Z][a-zA-Z0-9._-]*+)=(?P<value>.*)", re.DOTALL)
# Contexts of config lines; those of a topic have its name behind, and those of one broker its id.
_TOPIC, _BROKERS, _OTHER = "topic ", "brokers", "other"
_PROTOCOL = "inter.broker.protocol.version"  # at most that of the broker, which it is by default
# kafka-features describe: of the node that answers, and of all.
_FEATURE = re.compile(
    _START + r"Feature: metadata\.version\s++SupportedMinVersion: \S++\s++SupportedMaxVersion: (?P<supported>\S++)"
    r"\s++FinalizedVersionLevel: (?P<finalized>\S++)"
)
_VOTERS = "controller.quorum.voters"  # of a quorum whose voters never change
_VOTER = re.compile(r"\s*+([0-9]++)@([^@\s]+):([0-9]{1,5})\s*+")
CORDONED = "cordoned.log.dirs"
_LOG_DIRS = ("log.dirs", "log.dir")  # the first one that is set counts
_NOT_USED = "output of kafka-configs: not used"
_FOLLOWER_RATE, _NO_LIMIT = "follower.replication.throttled.rate", 2**63 - 1  # by default
_SELECTOR = "replica.selector.class"
_LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
_RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
MINIMUM, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"


def parse_defaults(configs: Iterable[tuple[str, str | None]]) -> list[Fact]:
    """Return the facts of what brokers set for the topics without an own value; None removes a config."""
    used = [(key, value) for key, value in configs if key in (MINIMUM, UNCLEAN)]
    return [(FactKind.TOPIC_DEFAULTS, {"configs": used})] if used else ignore(_NOT_USED)


def _is_line(line: str) -> bool:
    line = line[:MAX_LOOK]
    is_config = _SENSITIVE in line and _CONFIG.match(line) is not None
    return is_config or _HEADER.match(line) is not None or _FEATURE.match(line) is not None


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    entity: str | None = None
    dirs: dict[str, str] = {}  # of the broker that the lines are of
    rows = []
    for number, line in enumerate(split_lines(text), 1):
        header = _match_header(line)
        if header is not None:
            entity, dirs = _find_entity(header), {}
        elif "log.dir" in line[:MAX_LOOK] and (config := _CONFIG.match(line)) is not None:
            dirs[config["key"]] = _read_value(config)
        rows.append((number, entity, line, dirs))
    for number, entity, line, dirs in rows:
        is_cordoned = CORDONED in line and (entity or "").startswith(f"{_BROKERS} ")
        own = next((dirs[key] for key in _LOG_DIRS if dirs.get(key, "null") != "null"), "") if is_cordoned else ""
        yield number, f"{entity} {own}" if own else entity, line


def _read_value(config: re.Match[str]) -> str:
    return config["value"].partition(_SENSITIVE)[0].strip()


def _match_header(line: str) -> re.Match[str] | None:
    return _HEADER.match(line) if "onfig" in line[:200] else None


def _find_entity(header: re.Match[str]) -> str:
    """Return the context of the config lines below a header."""
    if header["entity"] == "topic" and header["name"]:
        return _TOPIC + header["name"]
    is_default = header["name"] in (None, _IN_CLUSTER) or header["origin"] == "Default"
    if header["entity"] == "broker" and (header["name"] or "").isdecimal():
        return f"{_BROKERS} {header['name']}"
    return _BROKERS if header["entity"] == "broker" or (header["entity"] == "topic" and is_default) else _OTHER


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    header = _match_header(raw)
    if header is not None:
        return _parse_header(header, context or _OTHER)
    if (feature := _FEATURE.match(raw)) is not None:
        return _parse_feature(feature)
    if _SENSITIVE not in raw or (config := _CONFIG.match(raw)) is None:
        return ignore(classify_noise(raw))
    key, value = config["key"], _read_value(config)
    if context is None and key in (MINIMUM, UNCLEAN):
        if not _SET_BY_BROKERS.search(raw):
            raise unparsable(
                f"{key} of which topic or brokers? the line above is missing, as in: Dynamic configs for topic t are:"
            )
        context = _BROKERS
    return _parse_configs(context or _OTHER, [(key, value)])


def _parse_header(header: re.Match[str], context: str) -> list[Fact]:
    configs, problems = split_configs(header["configs"] or "")
    if problems and context != _OTHER:
        raise unparsable("; ".join(problems))
    if not context.startswith(_TOPIC):
        return _parse_configs(context, configs)
    topic = as_topic(context.removeprefix(_TOPIC), "topic")
    return [(FactKind.CONFIG, {"topic": topic, "configs": configs})]


def _parse_configs(context: str, configs: list[tuple[str, str]]) -> list[Fact]:
    if context.startswith(_TOPIC):
        known = [(key, value) for key, value in configs if value != "null"]  # Kafka hides passwords so
        topic = as_topic(context.removeprefix(_TOPIC), "topic")
        return [(FactKind.CONFIG, {"topic": topic, "configs": known})] if known else ignore(_NOT_USED)
    if not context.startswith(_BROKERS):
        return ignore(_NOT_USED)
    broker, _, dirs = context.removeprefix(_BROKERS).strip().partition(" ")
    selector = _parse_broker(broker, dict(configs)) + _parse_protocol(broker, dict(configs).get(_PROTOCOL))
    selector += parse_cordoned(broker, dict(configs).get(CORDONED), dirs) + parse_voters(dict(configs).get(_VOTERS))
    return [*selector, *(fact for fact in parse_defaults(configs) if not selector or fact[0] != FactKind.IGNORED)]


def _parse_protocol(broker: str, value: str | None) -> list[Fact]:
    """Return what the protocol between brokers shows of their version: a lower one than 3.7 is weak evidence."""
    release = None if value is None else parse_release(value)
    if release is None:
        return []
    if release < CAPS_MIN_ISR or not broker:
        return [date_cluster(ReleaseRange(release, CAPS_MIN_ISR if release < CAPS_MIN_ISR else None))]
    return [(FactKind.BROKER, {"broker_id": as_int(broker, "id"), "release_from": release})]


def parse_cordoned(broker: str, value: str | None, dirs: str = "") -> list[Fact]:
    """Return the cordoned log dirs of a broker, and whether these are all. dirs: all that it has; empty = not shown."""
    if not broker or value is None:
        return []
    own, cordoned = ({name.strip() for name in text.split(",")} - {"", "null"} for text in (dirs, value))
    values: dict[str, Any] = {"broker_id": as_int(broker, "id"), "cordoned_directories": sorted(cordoned)}
    if own or not cordoned or "*" in cordoned:
        values["cordoned"] = are_all_cordoned(["*" in cordoned or name in cordoned for name in own or ("*",)])
    return [(FactKind.BROKER, values)]


def parse_voters(value: str | None) -> list[Fact]:
    """Return the voters that a node's settings name, as 1@host:9093,2@host:9093."""
    voters = [_VOTER.fullmatch(one) for one in (value or "").split(",")]
    return [
        make_node(as_int(one[1], "id"), voter=True, host=one[2], port=as_int(one[3], "port", 0, 65535))
        for one in voters
        if one is not None
    ]


def _parse_feature(feature: re.Match[str]) -> list[Fact]:
    """Return what kafka-features shows: a level that all brokers have, or the version of the one that answers."""
    releases = ReleaseRange(read_feature(feature["finalized"]).first, read_feature(feature["supported"]).before)
    return ignore(_NOT_USED) if releases == UNKNOWN_RELEASE else [date_cluster(releases)]


def _parse_broker(broker: str, configs: Mapping[str, str]) -> list[Fact]:
    """Return whether consumers fetch from replicas in their rack, and the throttle of a broker's copies."""
    values: dict[str, Any] = {}
    if configs.get(_SELECTOR) in ("", "null", _LEADER_ONLY, _RACK_AWARE):  # another class may do either
        values["follower_fetching"] = configs[_SELECTOR] == _RACK_AWARE
    if (rate := configs.get(_FOLLOWER_RATE, "")).isdecimal() and int(rate) < _NO_LIMIT:
        values["follower_throttle_bytes_per_s"] = float(rate)
    return [(FactKind.BROKER, {"broker_id": as_int(broker, "id"), **values})] if broker and values else []


FORMAT = Format(
    "topic-configs",
    "kafka-configs --describe",
    Signature(find_marked(f"onfigs? for |{_SENSITIVE}|Feature: ", _is_line)),
    *(_parse_record, _read_rows),
)
