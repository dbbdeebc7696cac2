"""The YAML file of a scenario: its sentences, settings and cluster; errors name the line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from pipelines.errors import SourceError
from pipelines.ingest.formats.checked_values import explain_bad_topic_name
from udfs.failures.scenarios import QuorumVoters
from udfs.simulation.cluster_events import ClusterSettings, InitialPartition, InitialState
from udfs.wording import format_bytes, quote_value

_Event = Any  # ruamel declares no attributes of its events
_MAX_DEPTH = 20  # lists and mappings within each other
_MAX_DIGITS = 18
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=e))(?:e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)
_CONSTANTS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}


class YamlFault(Exception):
    """YAML that cannot be used: (problem, remedy, line)."""


class YamlMapping(dict[Any, Any]):
    """A mapping, and the line of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[Any, int] = {}


class YamlList(list[Any]):
    """A list, and the line of each item."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []


def read_yaml(text: str) -> Any:
    """Return the only document of a YAML text; raise YamlFault if it is wrong, or uses what no scenario needs."""
    try:
        return _Composer(text).read_document()
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise YamlFault(f"is not YAML: {error.problem}", "See docs/replay.md.", line) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"has a character that YAML does not allow: {quote_value(chr(error.character))}"
        raise YamlFault(problem, "Remove control characters.", line) from None


class _Composer:
    """Makes values of ruamel's events. Unlike ruamel's own, it follows no aliases and makes no objects of tags."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[_Event] = YAML(typ="rt", pure=True).parse(text)

    def read_document(self) -> Any:
        documents = [
            self._read_value(next(self._events), 0) for event in self._events if isinstance(event, DocumentStartEvent)
        ]
        if len(documents) > 1:
            raise YamlFault("has more than one document", "Write each scenario into a file of its own.", None)
        return documents[0] if documents else None

    def _read_value(self, event: _Event, depth: int) -> Any:
        if isinstance(event, AliasEvent) or event.anchor is not None:
            _fail(event, f"has the anchor or alias {quote_value(event.anchor)}", "Write the value where it is needed.")
        if event.tag is not None:
            _fail(event, f"has the tag {quote_value(str(event.tag))}", "Remove it: a value needs no tag.")
        if depth > _MAX_DEPTH:
            _fail(event, f"is nested more than {_MAX_DEPTH} deep", "A scenario needs at most 4 levels.")
        if isinstance(event, ScalarEvent):
            return _read_scalar(event)
        return self._read_list(depth) if isinstance(event, SequenceStartEvent) else self._read_mapping(depth)

    def _read_list(self, depth: int) -> YamlList:
        items = YamlList()
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.lines.append(_get_line(event))
            items.append(self._read_value(event, depth + 1))
        return items

    def _read_mapping(self, depth: int) -> YamlMapping:
        mapping = YamlMapping()
        while not isinstance(event := next(self._events), MappingEndEvent):
            if isinstance(event, SequenceStartEvent | MappingStartEvent):
                _fail(event, "has a list or a mapping as a key", "Write a name as the key.")
            key = self._read_value(event, depth + 1)
            if key == "<<" and event.implicit[0]:
                _fail(event, "merges mappings with <<", "Write the keys where they are needed.")
            if key in mapping:
                _fail(event, f"has the key {quote_value(key)} twice", "Write it once.")
            mapping.lines[key] = _get_line(event)
            mapping[key] = self._read_value(next(self._events), depth + 1)
        return mapping


def _read_scalar(event: ScalarEvent) -> Any:
    """Return the value of a scalar: text, unless it is plain and reads as a number, true, false or null."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if (lower := text.lower()) in _CONSTANTS:
        return _CONSTANTS[lower]
    if _WHOLE.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            _fail(event, f"{quote_value(text)} is too large a number", f"Write at most {_MAX_DIGITS} digits.")
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _get_line(event: _Event) -> int:
    return int(event.start_mark.line) + 1


def _fail(event: _Event, problem: str, remedy: str) -> NoReturn:
    raise YamlFault(problem, remedy, _get_line(event))


FETCH_EVERY = "followers_fetch_every_ms"  # a setting of the scenario, not of the cluster
LARGEST, LARGEST_ID = 10**12 - 1, 10**9 - 1  # numbers, and ids of brokers and partitions
_MAX_BYTES = 2_000_000
_KEYS = ("brokers", "controller", "voters", "topics", "settings", "events")
_CHOICES = {"truncate_to": ("epoch", "high_watermark")}
_MINIMUM = {"leader_imbalance_check_ms": 1, "replica_lag_time_max_ms": 2, "checkpoint_ms": 1, "message_bytes": 1}
_TYPES: dict[Any, str] = {bool: "true or false", int: "a whole number", str: "text"}


@dataclass(frozen=True)
class ScenarioFile:
    """A scenario's file. content: its mapping, which knows lines. Lines count from 1."""

    path: str
    content: YamlMapping

    def fail(self, problem: str, remedy: str, line: int | None = None) -> NoReturn:
        """Raise a SourceError with the file and the line."""
        raise SourceError(self.path, problem, remedy, line)

    def get_line(self, key: str) -> int | None:
        """Return the line of a top-level key."""
        return self.content.lines.get(key)

    def read_sentences(self, remedy: str) -> list[tuple[str, int]]:
        """Return (sentence, its line) of all events."""
        written, sentences = self.content.get("events"), []
        if written is not None and not isinstance(written, YamlList):
            self.fail("events is not a list", remedy, self.get_line("events"))
        for line, sentence in zip(written.lines, written, strict=True) if written else ():
            if not isinstance(sentence, str):
                self.fail(f"{quote_value(sentence)} is not a sentence", remedy, line)
            sentences.append((" ".join(sentence.split()), line))
        return sentences

    def read_settings(self) -> tuple[dict[str, Any], int]:
        """Return (fields of ClusterSettings; how often followers fetch, ms, 0 = only if a sentence says so)."""
        types = {field.name: field.type for field in fields(ClusterSettings)} | {FETCH_EVERY: int}
        settings = self._read_mapping("settings", "Write it like this: settings: {kraft: true}.")
        for key, value in settings.items():
            line = settings.lines[key]
            if key not in types:
                self.fail(f"settings: {quote_value(key)} is unknown", f"Settings: {', '.join(types)}.", line)
            if (remedy := _check_setting(key, value, types[key])) is not None:
                self.fail(f"settings: {key} is {quote_value(value)}", remedy, line)
        cluster = dict(settings)
        return cluster, cluster.pop(FETCH_EVERY, 500)

    def read_cluster(self, settings: dict[str, Any]) -> InitialState:
        """Return the cluster that the scenario describes. settings: fields of ClusterSettings."""
        brokers = self._read_ids("brokers", "List their ids, as in brokers: [1, 2, 3]; or give a source with it.")
        voters: list[int] = []
        if "voters" in self.content:
            voters = self._read_ids("voters", "List the ids of the quorum's voters, as in voters: [1, 2, 3].")
            if not settings.get("kraft"):
                self.fail("voters need KRaft", "Add kraft: true under settings.", self.get_line("voters"))
        controller = self.content.get("controller", min(brokers))
        if not _is_whole(controller) or controller not in brokers:
            problem = f"controller {quote_value(controller)} is not one of the brokers"
            self.fail(problem, f"Brokers: {brokers}.", self.get_line("controller"))
        ids, partitions = tuple(sorted(brokers)), tuple(self._read_partitions(list(brokers)))
        quorum = QuorumVoters(tuple(voters), leader=min(voters, default=None))
        return InitialState(ids, frozenset(ids), partitions, controller, 1, ClusterSettings(**settings), quorum=quorum)

    def _read_ids(self, key: str, remedy: str) -> list[int]:
        ids, line = self.content.get(key), self.get_line(key)
        if not isinstance(ids, list) or not ids or not all(_is_whole(one) and one >= 0 for one in ids):
            self.fail(f"{key} is {quote_value(ids)}", remedy, line)
        if len(set(ids)) < len(ids):
            self.fail(f"{key} is {quote_value(ids)}: one is listed twice", "List distinct ids.", line)
        if max(ids) > LARGEST_ID:
            self.fail(
                f"{key.removesuffix('s')} {max(ids)} is too large a number", f"Write at most {LARGEST_ID:,}.", line
            )
        return ids

    def reject_cluster(self) -> None:
        """Fail if the scenario describes a cluster although it is given with a source."""
        for key in ("brokers", "controller", "voters", "topics"):
            if key in self.content:
                problem = f"defines {key}, but so does the source given with it"
                self.fail(problem, f"Remove {key} from the scenario.", self.get_line(key))

    def check_topic_name(self, topic: Any, line: int | None) -> None:
        """Fail if Kafka does not allow a topic of this name."""
        problem = explain_bad_topic_name(topic) if isinstance(topic, str) else f"topic {quote_value(topic)} is not text"
        if problem:
            self.fail(problem, "Write the name of a topic.", line)

    def _read_mapping(self, key: str, remedy: str) -> Any:
        mapping = self.content.get(key)
        if mapping is not None and not isinstance(mapping, dict):
            self.fail(f"{key} is not a mapping", remedy, self.get_line(key))
        return mapping or YamlMapping()

    def _read_partitions(self, brokers: list[int]) -> Iterator[InitialPartition]:
        topics = self._read_mapping("topics", "Write it like this: topics: {orders: [[1, 2], [2, 3]]}.")
        for topic, lists in topics.items():
            line = topics.lines[topic]
            self.check_topic_name(topic, line)
            if not isinstance(lists, list) or not lists:
                problem = f"topic {topic}: {quote_value(lists)} is not a list of replica lists"
                self.fail(problem, "As in: [[1, 2], [2, 3]].", line)
            for number, ids in enumerate(lists):
                is_valid = isinstance(ids, list) and ids and all(map(_is_whole, ids))
                if not is_valid or len(set(ids)) < len(ids) or not set(ids) <= set(brokers):
                    problem = f"topic {topic}: the replicas of partition {number} are {quote_value(ids)}"
                    self.fail(problem, f"Write distinct brokers out of {brokers}.", line)
                yield InitialPartition((topic, number), tuple(ids), tuple(ids), ids[0])


def read_scenario_file(path: str) -> ScenarioFile:
    """Read the file of a scenario; raise SourceError if it is no YAML mapping with known keys."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise SourceError(
                path, f"has more than {format_bytes(_MAX_BYTES)}", "Give a scenario in YAML, or split it."
            )
        content = read_yaml(data.decode("utf-8"))
    except OSError as error:
        raise SourceError(path, f"cannot be read ({error.strerror})", "Give a scenario in YAML.") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(path, f"byte {error.start} is not UTF-8", "Save the scenario as UTF-8.", line) from None
    except YamlFault as fault:
        raise SourceError(path, *fault.args) from None
    if not isinstance(content, YamlMapping):
        raise SourceError(path, "has no mapping", f"Write the keys {', '.join(_KEYS)}.")
    file = ScenarioFile(path, content)
    for key in content:
        if key not in _KEYS:
            file.fail(
                f"{quote_value(key)} is not a key of a scenario", f"Keys: {', '.join(_KEYS)}.", file.get_line(key)
            )
    return file


def _is_whole(value: Any) -> bool:
    """Return whether a value is a whole number; in Python, true and false are ints too."""
    return isinstance(value, int) and not isinstance(value, bool)


def _check_setting(key: str, value: Any, required: Any) -> str | None:
    """Return how to correct the value of a setting of this type; None if it is right."""
    if not isinstance(value, required) or isinstance(value, bool) != (required is bool):
        return f"Write {_TYPES[required]}."
    if key in _CHOICES:
        return None if value in _CHOICES[key] else f"Write {' or '.join(_CHOICES[key])}."
    if required is int and value < _MINIMUM.get(key, 0):
        return f"Write {_MINIMUM.get(key, 0)} or more."
    return f"Write at most {LARGEST:,}." if required is int and value > LARGEST else None
