"""The cluster of a scenario as its sentences change it: live brokers, topics, replicas, configs."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import NoReturn

from pipelines.simulation.scenario.scenario_file import ScenarioFile
from pipelines.simulation.scenario.sentence_syntax import Option, parse_ids, parse_partitions
from udfs.simulation.cluster_events import BrokerIds, ClusterSettings, Event, InitialState, TopicPartition
from udfs.simulation.group_simulation import GroupEvent
from udfs.simulation.kernels.codes import EventKind

_MAX_TOPICS_SHOWN = 8


@dataclass(frozen=True)
class SentenceTime:
    """A sentence at one of its times. place: among all sentences, by time; line: in the file, None = implied."""

    at_ms: int
    place: int
    line: int | None


class ScenarioCluster:
    """Checks what sentences name, and remembers what they change."""

    def __init__(self, file: ScenarioFile, initial_state: InitialState, settings: ClusterSettings) -> None:
        """Start with the initial state of a scenario."""
        self.file, self.settings = file, settings
        self.brokers, self.live = initial_state.brokers, set(initial_state.live)
        self._leaving: set[int] = set()
        # All brokers that may have a replica: during and after a reassignment, the former ones too.
        self.replicas: dict[str, dict[int, BrokerIds]] = {}
        self.configs: dict[str, dict[int, int]] = {}  # by topic: those that new partitions get
        for one in initial_state.partitions:
            topic, number = one.key
            self.replicas.setdefault(topic, {})[number] = one.replicas
            self.configs.setdefault(
                topic, {EventKind.SET_UNCLEAN_ELECTION: int(one.unclean), EventKind.SET_MIN_ISR: one.min_isr}
            )
        # Partitions of deleted topics: leaders and clients may not know it yet.
        self._deleted: set[TopicPartition] = set()
        self._requests = count()
        self._time = SentenceTime(0, 0, None)

    def advance(self, time: SentenceTime) -> None:
        """Go on to the next sentence: errors name its line."""
        self._time = time

    def fail(self, problem: str, remedy: str) -> NoReturn:
        """Raise a SourceError with the line of the current sentence."""
        self.file.fail(problem, remedy, self._time.line)

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

    def read_options(self, text: str, known: Mapping[str, Option]) -> dict[str, int]:
        """Return the values of the options `name=value ...` that are given."""
        values: dict[str, int] = {}
        for part in text.split():
            name, _, value = part.partition("=")
            if name not in known:
                self.fail(f"{name!r} is not an option of this sentence", f"Options: {', '.join(known)}.")
            if name in values:
                self.fail(f"{name} is given twice", "Write it once.")
            parsed = known[name].parse(value)
            if parsed is None:
                self.fail(f"{part} is not valid", known[name].remedy)
            values[name] = parsed
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
            problem = f"no broker is up at t={self._time.at_ms / 1000:g}s to take the request"
            self.fail(problem, "Start a broker before.")

    def change_brokers(self, brokers: BrokerIds, kind: int) -> None:
        """Change which brokers are live or shutting down by an event of this kind."""
        if kind == EventKind.BROKER_UP:
            for broker in brokers:
                if broker in self.live & self._leaving:
                    problem = f"broker {broker} is shutting down: it must go down before it is up again"
                    self.fail(problem, f"Write broker {broker} down before.")
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
        sizes = [f"{topic} ({len(ids)} partition{'' if len(ids) == 1 else 's'})" for topic, ids in first]
        return ", ".join(sizes) or "none"


NewEvents = Iterator[Event] | Iterator[GroupEvent]
# Makes the events of a sentence at one of its times, from the match of its pattern.
EventMaker = Callable[[ScenarioCluster, SentenceTime, "re.Match[str]"], NewEvents]
