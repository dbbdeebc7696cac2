"""`kafka-configs --describe`: the configs of topics, what brokers set for all topics, their replica selector, versions.

And the line of `kafka-features describe` that shows the version of the cluster.

Headers and config lines are as ConfigCommand prints them, of Kafka 0.9 to 4.1.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipelines.ingest.formats.checked_values import as_int, as_topic, unparsable
from pipelines.ingest.formats.kafka_versions import date_cluster, read_feature
from pipelines.ingest.formats.metadata_quorum import make_node
from pipelines.ingest.formats.topic_configs import split_configs
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, ignore
from pipelines.ingest.text import MAX_LOOK, classify_noise, split_lines
from udfs.failures.disk_limits import are_all_cordoned
from udfs.failures.kafka_releases import CAPS_MIN_ISR, UNKNOWN_RELEASE, ReleaseRange, parse_release

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
    if _HEADER.match(line) is not None or (_SENSITIVE in line and _CONFIG.match(line) is not None):
        return True
    return "Feature: " in line and _FEATURE.match(line) is not None


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


FORMAT = Format("topic-configs", "kafka-configs --describe", Signature(line=_is_line), *(_parse_record, _read_rows))
