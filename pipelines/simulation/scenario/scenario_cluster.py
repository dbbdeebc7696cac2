"""What the sentences so far have told of a cluster: its brokers, who of them lives, the replicas of each partition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from pipelines.simulation.scenario.sentence_patterns import Option, ids_of, keys_of
from pipelines.simulation.scenario.yaml_document import Page
from udfs.simulation.cluster_events import Begin, Event, Key, List, Rules
from udfs.simulation.groups.group_simulation import GroupEvent
from udfs.simulation.kernels import codes as k

_NAMED = 8


@dataclass(frozen=True)
class Said:
    """A sentence at one of its times. place: among all sentences, by time.   line: of the file, None = not written."""

    at_ms: int
    place: int
    line: int | None


class Told:
    """Checks what sentences name, and remembers what they change."""

    def __init__(self, page: Page, begin: Begin, rules: Rules) -> None:
        self.page, self.rules = page, rules
        self.brokers, self.live = begin.brokers, set(begin.live)
        self._leaving: set[int] = set()
        # Whoever may hold a replica: during a reassignment, and after it, those of before too.
        self.replicas: dict[str, dict[int, List]] = {}
        for held in begin.partitions:
            self.replicas.setdefault(held.key[0], {})[held.key[1]] = held.replicas
        # Of topics: what each partition that is added gets too.
        self.configs: dict[str, dict[int, int]] = {}
        for held in begin.partitions:
            self.configs.setdefault(held.key[0], {k.SET_UNCLEAN: int(held.unclean), k.SET_MIN_ISR: held.min_isr})
        self._gone: set[Key] = set()  # of topics that were to be deleted: leaders and clients may not know it yet
        self._requests = count()

    def request(self) -> int:
        """The number of the next request."""
        return next(self._requests)

    def broker(self, text: str, line: int | None) -> int:
        """A broker that there is."""
        if int(text) not in self.brokers:
            ids = ", ".join(map(str, self.brokers))
            self.page.fail(f"there is no broker {int(text)}", f"Brokers: {ids}.", line)
        return int(text)

    def live_on(self, brokers: List, kind: int, line: int | None) -> None:
        """Nothing; which brokers live, and which shut down, after an event of this kind of these."""
        if kind == k.BROKER_UP:
            for broker in brokers:
                if broker in self.live & self._leaving:
                    problem = f"broker {broker} is shutting down: it goes before it is up again"
                    self.page.fail(problem, f"Write broker {broker} down before.", line)
            self._leaving.difference_update(brokers)
            self.live.update(brokers)
        elif kind == k.BROKER_DOWN:
            self.live.difference_update(brokers)
        else:
            self._leaving.update(self.live.intersection(brokers))

    def active(self) -> set[int]:
        """Brokers that live and do not shut down."""
        return self.live - self._leaving

    def ids(self, text: str, line: int | None) -> List:
        """Brokers that there are, each once."""
        ids = ids_of(text)
        for broker in ids:
            self.broker(str(broker), line)
        if len(set(ids)) < len(ids):
            self.page.fail(f"{text} names a broker twice", "Name distinct brokers.", line)
        return ids

    def keys(self, text: str, line: int | None, deleted: bool = False) -> list[Key]:
        """Partitions that there are, each once. deleted: or those of topics that were to be deleted."""
        keys = keys_of(text)
        for topic, partition in keys:
            known = deleted and (topic, partition) in self._gone
            if partition not in self.replicas.get(topic, {}) and not known:
                self.page.fail(f"there is no partition {topic}-{partition}", f"Topics: {self._topics()}.", line)
        if len(set(keys)) < len(keys):
            self.page.fail(f"{text} names a partition twice", "Name distinct partitions.", line)
        return keys

    def of_topic(self, topic: str, line: int | None) -> list[Key]:
        """All partitions of a topic that there is."""
        if topic not in self.replicas:
            self.page.fail(f"there is no topic {topic}", f"Topics: {self._topics()}.", line)
        return [(topic, partition) for partition in self.replicas[topic]]

    def taken(self, said: Said) -> None:
        """Nothing; some broker lives that takes a request to the controller."""
        if not self.live:
            problem = f"no broker is up at t={said.at_ms / 1000:g}s: nobody takes the request"
            self.page.fail(problem, "Let a broker be up before.", said.line)

    def was_deleted(self, topic: str) -> bool:
        """Whether the topic was to be deleted: while that waits, it is not created again."""
        return any(name == topic for name, _ in self._gone)

    def forget(self, topic: str) -> None:
        """Nothing; the topic is to be deleted."""
        self._gone |= {(topic, partition) for partition in self.replicas.pop(topic)}
        self.configs.pop(topic, None)

    def every(self) -> list[Key]:
        """All partitions."""
        return [(topic, partition) for topic, held in self.replicas.items() for partition in held]

    def options(self, text: str, known: Mapping[str, Option], line: int | None) -> dict[str, int]:
        """The values of `name=value ...`, of those that are there."""
        found: dict[str, int] = {}
        for part in text.split():
            name, _, value = part.partition("=")
            if name not in known:
                self.page.fail(f"{name!r} is no option of this sentence", f"Options: {', '.join(known)}.", line)
            if name in found:
                self.page.fail(f"{name} is there twice", "Write it once.", line)
            read = known[name].read(value)
            if read is None:
                self.page.fail(f"{part} is no value of it", known[name].remedy, line)
            found[name] = read
        return found

    def _topics(self) -> str:
        shown = [f"{topic} ({len(held)} partitions)" for topic, held in list(self.replicas.items())[:_NAMED]]
        return ", ".join(shown) or "none"


Made = Iterator[Event] | Iterator[GroupEvent]
Maker = Callable[[Told, Said, "re.Match[str]"], Made]  # of a sentence's pattern: what it makes at one of its times
