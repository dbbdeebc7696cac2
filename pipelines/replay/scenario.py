"""A scenario that a person writes: a cluster, and sentences of what happens to it. The grammar is in docs/replay.md."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from pipelines.errors import SourceError
from pipelines.ingest.topic_names import bad_topic_name
from udfs.kernels import replay_codes as k
from udfs.replay.events import Begin, Event, Held, Key, List, Rules

SUFFIXES = (".yaml", ".yml")
_KEYS = ("brokers", "controller", "topics", "settings", "events")
_AT = re.compile(r"t=(\d+(?:\.\d+)?)(ms|s|m|h)?\s+(.*)", re.S)
_UNITS = {None: 1000.0, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
_IDS = r"(\d+(?:\s*,\s*\d+)*)"
_NAME = r"([A-Za-z0-9._-]+)"
_PARTITION = r"([A-Za-z0-9._-]+)-(\d+)"
_LISTS = r"(\d+(?::\d+)*(?:\s*,\s*\d+(?::\d+)*)*)"  # as kafka-topics --replica-assignment writes them: 1:2,2:3
_BROKER_KINDS = {
    "down": k.BROKER_DOWN,
    "fenced": k.BROKER_DOWN,
    "up": k.BROKER_UP,
    "unfenced": k.BROKER_UP,
    "shutting down": k.SHUTDOWN,
}
_CONFIGS = {"unclean.leader.election.enable": k.SET_UNCLEAN, "min.insync.replicas": k.SET_MIN_ISR}
_EXAMPLES = '"t=10 broker 2 down", "t=20s preferred election", "t=1m reassign orders-0 to 1,2,3"'


@dataclass(frozen=True)
class Scenario:
    """begin: None where the scenario is to be told of a source. events: by time, then as written."""

    begin: Begin | None
    events: tuple[Event, ...]
    settings: Mapping[str, Any]


def is_scenario(path: str) -> bool:
    """Whether a source on the command line is a scenario."""
    return path.endswith(SUFFIXES)


def read_scenario(path: str, beside: Begin | None) -> Scenario:
    """The scenario in this file. beside: how the source stands that it is told of. SourceError with its line."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(path, f"cannot be read ({error})", "Name a scenario in YAML.") from None
    try:
        content = YAML(typ="rt").load(io.StringIO(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise SourceError(path, f"is no YAML: {error.problem}", "See docs/replay.md.", line) from None
    if not isinstance(content, dict):
        raise SourceError(path, "holds no mapping", f"Write the keys {', '.join(_KEYS)}.")
    return _Reader(path, content, beside).scenario()


class _Reader:
    def __init__(self, path: str, content: Any, beside: Begin | None) -> None:
        self._path, self._content, self._beside = path, content, beside
        for key in content:
            if key not in _KEYS:
                self._fail(f"{key!r} is no key of a scenario", f"Keys: {', '.join(_KEYS)}.", content.lc.key(key)[0])
        self._topics: dict[str, int] = {}  # partitions of each topic, as events go

    def _fail(self, problem: str, remedy: str, line: int | None = None) -> None:
        raise SourceError(self._path, problem, remedy, None if line is None else line + 1)

    def scenario(self) -> Scenario:
        settings = self._settings()
        begin = self._begin(settings)
        for held in (begin or self._beside or Begin()).partitions:
            topic, number = held.key
            self._topics[topic] = max(self._topics.get(topic, 0), number + 1)
        timed = []
        sentences: Any = self._content.get("events") or []
        if not isinstance(sentences, list):
            self._fail("events is no list", f"Write sentences: {_EXAMPLES}.", self._content.lc.key("events")[0])
        for i, sentence in enumerate(sentences):
            line = sentences.lc.item(i)[0]
            timed.append((*self._timed(sentence, line), line))
        timed.sort(key=lambda one: one[0])  # stable: of the same time as written
        events: list[Event] = []
        for number, (at, words, line) in enumerate(timed):
            events.extend(self._events(at, words, line, number))
        return Scenario(begin, tuple(events), settings)

    def _settings(self) -> dict[str, Any]:
        known = {field.name: field.type for field in fields(Rules)}
        found: Any = self._content.get("settings") or {}
        for key, value in found.items():
            line = found.lc.key(key)[0]
            if key not in known:
                self._fail(f"settings: {key!r} is not known", f"Settings: {', '.join(known)}.", line)
            wanted = bool if known[key] == "bool" else int
            if type(value) is not wanted:
                self._fail(f"settings: {key} is {value!r}", f"Write a {wanted.__name__}.", line)
        return dict(found)

    def _begin(self, settings: dict[str, Any]) -> Begin | None:
        brokers: Any = self._content.get("brokers")
        topics: Any = self._content.get("topics") or {}
        if self._beside is not None:
            if brokers or topics:
                self._fail("names brokers or topics, which the source beside it has", "Leave them to the source.")
            return None
        if not isinstance(brokers, list) or not all(type(b) is int and b >= 0 for b in brokers) or not brokers:
            self._fail(f"brokers is {brokers!r}", "List their ids, as in brokers: [1, 2, 3]; or give a source beside.")
        controller = self._content.get("controller", min(brokers))
        if controller not in brokers:
            self._fail(f"controller {controller!r} is none of the brokers", f"Brokers: {brokers}.")
        held = []
        for topic, lists in topics.items():
            line = topics.lc.key(topic)[0]
            self._name(topic, line)
            if not isinstance(lists, list) or not lists:
                self._fail(f"topic {topic}: {lists!r} is no list of replica lists", "As in: [[1, 2], [2, 3]].", line)
            for number, ids in enumerate(lists):
                if not isinstance(ids, list) or not ids or len(set(ids)) < len(ids) or set(ids) - set(brokers):
                    self._fail(
                        f"topic {topic}: partition {number} is on {ids!r}", f"Name distinct brokers of {brokers}.", line
                    )
                held.append(Held((topic, number), tuple(ids), tuple(ids), ids[0]))
        rules = Rules(**settings)
        return Begin(tuple(sorted(brokers)), frozenset(brokers), tuple(held), controller, 1, rules)

    def _name(self, topic: Any, line: int) -> None:
        fault = bad_topic_name(topic) if isinstance(topic, str) else f"topic {topic!r} is no text"
        if fault:
            self._fail(fault, "Write a topic's name.", line)

    def _timed(self, sentence: Any, line: int) -> tuple[int, str]:
        found = _AT.fullmatch(" ".join(sentence.split())) if isinstance(sentence, str) else None
        if found is None:
            self._fail(f"{sentence!r} is no sentence", f"Begin with a time: {_EXAMPLES}.", line)
        assert found is not None
        return round(float(found[1]) * _UNITS[found[2]]), found[3]

    def _events(self, at: int, words: str, line: int, number: int) -> Iterator[Event]:
        for pattern, make in _SENTENCES:
            if found := pattern.fullmatch(words):
                yield from make(self, at, found, line, number)
                return
        self._fail(f"{words!r} is not understood", f"Write, for example, {_EXAMPLES}; all forms: docs/replay.md.", line)

    # ---- what sentences mean

    def _broker(self, at: int, found: re.Match[str], line: int, number: int) -> Iterator[Event]:
        for broker in _ids(found[1]):
            self._known(broker, line)
            yield Event(at, _BROKER_KINDS[found[2]], broker, offset=number)

    def _controller(self, at: int, found: re.Match[str], line: int, number: int) -> Iterator[Event]:
        if found[1]:
            self._known(int(found[1]), line)
        yield Event(at, k.CONTROLLER_LOST, int(found[1]) if found[1] else None, offset=number)

    def _created(self, at: int, found: re.Match[str], line: int, number: int) -> Iterator[Event]:
        topic, grown = found[1], found[2] == "grown"
        if (topic in self._topics) != grown:
            self._fail(f"topic {topic} {'is not there' if grown else 'is there already'}", "Change its name.", line)
        self._name(topic, line)
        first = self._topics.get(topic, 0)
        for i, text in enumerate(found[3].split(",")):
            ids = self._replicas(text.replace(":", ","), line)
            self._topics[topic] = first + i + 1
            yield Event(at, k.CREATE, partition=(topic, first + i), replicas=ids, offset=number)

    def _deleted(self, at: int, found: re.Match[str], line: int, number: int) -> Iterator[Event]:
        for key in self._of_topic(found[1], line):
            yield Event(at, k.DELETE, partition=key, offset=number)
        del self._topics[found[1]]

    def _config(self, at: int, found: re.Match[str], line: int, number: int) -> Iterator[Event]:
        topic, name, text = found[1], found[2], found[3]
        if name not in _CONFIGS:
            self._fail(f"config {name} changes nothing here", f"Configs: {', '.join(_CONFIGS)}.", line)
        value = (
            {"true": 1, "false": 0}.get(text) if name.startswith("unclean") else int(text) if text.isdigit() else None
        )
        if value is None:
            self._fail(f"{name}={text} is no value of it", "Write true or false, or a number.", line)
        for key in self._of_topic(topic, line):
            yield Event(at, _CONFIGS[name], partition=key, value=value or 0, offset=number)

    def _reassigned(self, at: int, found: re.Match[str], line: int, number: int) -> Iterator[Event]:
        key = self._key(found[1], found[2], line)
        yield Event(at, k.REASSIGN, partition=key, replicas=self._replicas(found[3], line), offset=number)

    def _preferred(self, at: int, found: re.Match[str], line: int, number: int) -> Iterator[Event]:
        keys = (
            [self._key(found[1], found[2], line)]
            if found[1]
            else [(topic, i) for topic, count in self._topics.items() for i in range(count)]
        )
        for key in keys:
            yield Event(at, k.ELECT_PREFERRED, partition=key, offset=number)

    def _isr(self, at: int, found: re.Match[str], line: int, number: int) -> Iterator[Event]:
        key = self._key(found[1], found[2], line)
        yield Event(at, k.SET_ISR, partition=key, replicas=self._replicas(found[3], line), offset=number)

    def _brokers(self) -> tuple[int, ...]:
        return tuple(self._content.get("brokers") or ()) if self._beside is None else self._beside.brokers

    def _known(self, broker: int, line: int) -> None:
        if broker not in self._brokers():
            ids = ", ".join(map(str, self._brokers()))
            self._fail(f"there is no broker {broker}", f"Brokers: {ids}.", line)

    def _replicas(self, text: str, line: int) -> List:
        ids = _ids(text)
        for broker in ids:
            self._known(broker, line)
        if len(set(ids)) < len(ids):
            self._fail(f"{text} names a broker twice", "Name distinct brokers.", line)
        return ids

    def _key(self, topic: str, partition: str, line: int) -> Key:
        if int(partition) >= self._topics.get(topic, 0):
            topics = ", ".join(f"{name} ({count} partitions)" for name, count in list(self._topics.items())[:8])
            self._fail(f"there is no partition {topic}-{partition}", f"Topics: {topics or 'none'}.", line)
        return topic, int(partition)

    def _of_topic(self, topic: str, line: int) -> list[Key]:
        return [self._key(topic, str(i), line) for i in range(max(self._topics.get(topic, 0), 1))]


def _ids(text: str) -> List:
    return tuple(int(part) for part in text.split(","))


_Maker = Callable[[_Reader, int, "re.Match[str]", int, int], Iterator[Event]]
_SENTENCES: tuple[tuple[re.Pattern[str], _Maker], ...] = tuple(
    (re.compile(pattern), maker)
    for pattern, maker in (
        (rf"brokers? {_IDS} (down|up|fenced|unfenced|shutting down)", _Reader._broker),
        (r"controller lost(?: to (\d+))?", _Reader._controller),
        (rf"topic {_NAME} (created|grown) {_LISTS}", _Reader._created),
        (rf"topic {_NAME} deleted", _Reader._deleted),
        (rf"topic {_NAME} config ([a-z.]+)=(\S+)", _Reader._config),
        (rf"reassign {_PARTITION} to {_IDS}", _Reader._reassigned),
        (rf"preferred election(?: {_PARTITION})?", _Reader._preferred),
        (rf"isr {_PARTITION} {_IDS}", _Reader._isr),
    )
)
