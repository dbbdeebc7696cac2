"""The syntax of sentences, and the cluster of a scenario as they change it: live brokers, topics, replicas, configs."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, NoReturn

from pipelines.simulation.scenario.scenario_file import LARGEST, LARGEST_ID, ScenarioFile
from udfs.simulation.cluster_events import BrokerIds, ClusterSettings, Event, InitialState, TopicPartition
from udfs.simulation.group_events import GroupEvent
from udfs.simulation.kernels.codes import EventKind
from udfs.wording import count_of, quote_value, shorten_text

# Sums of numbers stay within 64 bits; ids and partition numbers have 32 bits.
NUMBER = r"(\d{1,12})"
IDS = r"(\d{1,9}(?:\s*,\s*\d{1,9})*)"
BROKER = r"(\d{1,9})"
NAME = r"([A-Za-z0-9._-]+)"
PARTITION = r"([A-Za-z0-9._-]+-\d{1,9})"
PARTITIONS = r"([A-Za-z0-9._-]+-\d{1,9}(?:\s*,\s*[A-Za-z0-9._-]+-\d{1,9})*)"
LISTS = r"(\d{1,9}(?::\d{1,9})*(?:\s*,\s*\d{1,9}(?::\d{1,9})*)*)"  # as in kafka-topics --replica-assignment: 1:2,2:3
OPTIONS = r"((?: [a-z]+=\S+)*)"
_DURATION = r"(\d{1,12}(?:\.\d+)?(?:ms|s|m|h)?)"
_UNITS = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
_TIMES = re.compile(rf"t={_DURATION}(?:\.\.{_DURATION})?(?: every {_DURATION})? (.*)")

MAX_EVENTS = 1_000_000  # of one sentence
TOO_MANY_EVENTS = f"makes more than {MAX_EVENTS:,} events"
REPEAT_LESS = "Repeat it less often, or for a shorter time."
EXAMPLES = '"t=10 broker 2 down", "t=20s preferred election", "t=0..60 every 500ms followers fetch"'
_MAX_TOPICS_SHOWN = 8
_MAX_RUNS = 20  # long numbers of a sentence that are tried; each costs a look at the whole sentence


class SyntaxFault(Exception):
    """A sentence that is wrong: (problem, remedy)."""


def parse_milliseconds(text: str) -> int | None:
    """Parse a time, in seconds unless it has a unit; None if it is none."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d+)?)(ms|s|m|h)?", text)
    return round(float(match[1]) * _UNITS[match[2] or "s"]) if match else None


def parse_number(text: str) -> int | None:
    """Parse a whole number of 0 or more; None if it is none."""
    return int(text) if re.fullmatch(NUMBER, text) else None


# What may follow `name=`: (parser that returns None for a wrong value, what to write).
Option = tuple[Callable[[str], int | None], str]
TIME: Option = (parse_milliseconds, "Write a time, as in 500ms or 5s.")
WHOLE_NUMBER: Option = (parse_number, f"Write a whole number up to {LARGEST:,}.")
ACKS: Option = ({"0": 0, "1": 1, "all": -1, "-1": -1}.get, "Write 0, 1 or all.")


def parse_ids(text: str) -> BrokerIds:
    """Parse broker ids, as in 1,2,3."""
    return tuple(int(part) for part in text.split(","))


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse partitions, as in orders-0,orders-1."""
    parts = [part.strip().rpartition("-") for part in text.split(",")]
    return [(topic, int(number)) for topic, _, number in parts]


def parse_times(sentence: str) -> tuple[range, str]:
    """Return (times of a sentence, ms; the rest of it); raise SyntaxFault if the times are wrong."""
    match = _TIMES.fullmatch(sentence)
    if match is None:
        check_sizes(sentence, _TIMES.fullmatch)
        raise SyntaxFault(f"{quote_value(sentence)} is not a sentence", f"Begin with a time: {EXAMPLES}.")
    first, last, every = (parse_milliseconds(text or "") for text in match.groups()[:3])
    assert first is not None
    if last is None and every is None:
        return range(first, first + 1), match[4]
    if last is None or every is None:
        raise SyntaxFault("a repetition needs an end and an interval", "As in: t=0..60 every 500ms followers fetch.")
    if every == 0:
        raise SyntaxFault(f"every {match[3]} never ends", "Repeat it every 1ms or more.")
    if last < first:
        raise SyntaxFault(f"ends at {match[2]}, before it starts", f"Write an end after {match[1]}.")
    times = range(first, last + 1, every)
    if len(times) > MAX_EVENTS:
        raise SyntaxFault(TOO_MANY_EVENTS, REPEAT_LESS)
    return times, match[4]


def check_sizes(text: str, parse: Callable[[str], object]) -> None:
    """Raise SyntaxFault if `parse` returns None for a text only because a number is too large."""
    runs = list(re.finditer(r"\d{10,}", text))

    def parse_with(place: int, value: str) -> object:
        """Parse the text with this value at one place, and with ids at the others."""
        values = iter([value if i == place else str(LARGEST_ID) for i in range(len(runs))])
        return parse(re.sub(r"\d{10,}", lambda _: next(values), text))

    for i, run in enumerate(runs[:_MAX_RUNS]):
        if not parse_with(i, run[0]):
            allowed = next((largest for largest in (LARGEST, LARGEST_ID) if parse_with(i, str(largest))), None)
            if allowed is not None:
                raise SyntaxFault(f"{shorten_text(run[0])} is too large a number", f"Write at most {allowed:,}.")
            return


@dataclass(frozen=True)
class SentenceTime:
    """A sentence at one of its times."""

    at_ms: int = 0
    place: int = 0  # among all sentences, by time
    line: int | None = None  # in the file; None = implied


class ScenarioCluster:
    """Checks what sentences name, and remembers what they change."""

    def __init__(self, file: ScenarioFile, initial_state: InitialState, settings: ClusterSettings) -> None:
        """Start with the initial state of a scenario."""
        self.file, self.settings = file, settings
        self.time = SentenceTime()  # of the current sentence
        self.brokers, self.live = initial_state.brokers, set(initial_state.live)
        self.controllers = {*initial_state.quorum.voters} - {*self.brokers}
        self._leaving: set[int] = set()
        # All brokers that may have a replica: during and after a reassignment, the former ones too.
        self.replicas: dict[str, dict[int, BrokerIds]] = {}
        self.configs: dict[str, dict[int, int]] = {}  # by topic: those that new partitions get
        for one in initial_state.partitions:
            topic, number = one.key
            self.replicas.setdefault(topic, {})[number] = one.replicas
            configs: dict[int, int] = {
                EventKind.SET_UNCLEAN_ELECTION: int(one.unclean),
                EventKind.SET_MIN_ISR: one.min_isr,
            }
            self.configs.setdefault(topic, configs)
        # Partitions of deleted topics: leaders and clients may not know it yet.
        self._deleted: set[TopicPartition] = set()
        self._requests = count()

    def fail(self, problem: str, remedy: str) -> NoReturn:
        """Raise a SourceError with the line of the current sentence."""
        self.file.fail(problem, remedy, self.time.line)

    def make_event(
        self, kind: int, broker: int | None = None, key: TopicPartition | None = None, value: int = 0, **fields: Any
    ) -> Event:
        """Make an event of the current sentence."""
        return Event(self.time.at_ms, kind, broker, key, value, offset=self.time.place, **fields)

    def next_request(self) -> int:
        """Return the number of the next request."""
        return next(self._requests)

    def read_broker(self, text: str) -> int:
        """Return the id of a broker that exists."""
        if int(text) not in self.brokers:
            self.fail(f"there is no broker {int(text)}", f"Brokers: {', '.join(map(str, self.brokers))}.")
        return int(text)

    def read_brokers(self, text: str) -> BrokerIds:
        """Return the ids of distinct brokers that exist."""
        ids = parse_ids(text)
        for broker in ids:
            self.read_broker(str(broker))
        if len(set(ids)) < len(ids):
            self.fail(f"{text} names a broker twice", "Name distinct brokers.")
        return ids

    def read_partitions(self, text: str, or_deleted: bool = False) -> list[TopicPartition]:
        """Return distinct partitions that exist, or, if allowed, that belong to deleted topics."""
        keys = parse_partitions(text)
        for topic, number in keys:
            is_deleted = or_deleted and (topic, number) in self._deleted
            if number not in self.replicas.get(topic, {}) and not is_deleted:
                self.fail(f"there is no partition {topic}-{number}", f"Topics: {self._describe_topics()}.")
        if len(set(keys)) < len(keys):
            self.fail(f"{text} names a partition twice", "Name distinct partitions.")
        return keys

    def read_topic(self, topic: str) -> list[TopicPartition]:
        """Return all partitions of a topic that exists."""
        if topic not in self.replicas:
            self.fail(f"there is no topic {topic}", f"Topics: {self._describe_topics()}.")
        return [(topic, number) for number in self.replicas[topic]]

    def read_options(self, text: str, known: Mapping[str, tuple[str, Option]]) -> dict[str, Any]:
        """Return {field of the event: value} of the options `name=value ...` that are given; known: by name."""
        values: dict[str, Any] = {}
        for part in text.split():
            name, _, value = part.partition("=")
            if name not in known:
                self.fail(f"{quote_value(name)} is not an option of this sentence", f"Options: {', '.join(known)}.")
            field, (parse, remedy) = known[name]
            if field in values:
                self.fail(f"{name} is given twice", "Write it once.")
            parsed = parse(value)
            if parsed is None:
                self.fail(f"{shorten_text(part)} is not valid", remedy)
            values[field] = parsed
        return values

    def list_partitions(self) -> list[TopicPartition]:
        """Return all partitions."""
        return [(topic, number) for topic, partitions in self.replicas.items() for number in partitions]

    def list_active(self) -> set[int]:
        """Return the brokers that are live and not shutting down."""
        return self.live - self._leaving

    def check_any_live(self) -> None:
        """Fail if no broker is live that could take a request."""
        if not self.live:
            problem = f"no broker is up at t={self.time.at_ms / 1000:g}s to take the request"
            self.fail(problem, "Start a broker earlier.")

    def change_brokers(self, brokers: BrokerIds, kind: int) -> None:
        """Change which brokers are live or shutting down by an event of this kind."""
        if kind == EventKind.BROKER_UP:
            for broker in brokers:
                if broker in self.live & self._leaving:
                    problem = f"broker {broker} is shutting down: it must go down before it is up again"
                    self.fail(problem, f"Write `broker {broker} down` before it.")
            self._leaving.difference_update(brokers)
            self.live.update(brokers)
        elif kind == EventKind.BROKER_DOWN:
            self.live.difference_update(brokers)
        else:
            self._leaving.update(self.live.intersection(brokers))

    def is_deleted(self, topic: str) -> bool:
        """Return whether a topic was deleted: if its deletion has to wait, it is not created again."""
        return any(name == topic for name, _ in self._deleted)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        self._deleted |= {(topic, number) for number in self.replicas.pop(topic)}
        self.configs.pop(topic, None)

    def _describe_topics(self) -> str:
        first = list(self.replicas.items())[:_MAX_TOPICS_SHOWN]
        sizes = [f"{topic} ({count_of(len(ids), 'partition')})" for topic, ids in first]
        return ", ".join(sizes) or "none"


NewEvents = Iterator[Event] | Iterator[GroupEvent]
# Makes the events of a sentence at one of its times, from the match of its pattern.
EventMaker = Callable[[ScenarioCluster, "re.Match[str]"], NewEvents]
