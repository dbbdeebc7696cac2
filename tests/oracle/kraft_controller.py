"""The controller of Kafka 4.1 to 4.4 (KRaftController.java), and random lives of small clusters that it is told of."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.oracle.jvm import JavaProcess
from udfs.simulation.cluster_events import (
    BrokerIds,
    ClusterSettings,
    Event,
    InitialPartition,
    InitialState,
    TopicPartition,
)
from udfs.simulation.kernels.codes import EventKind

CHECK_MS = 300_000


class ControllerDiedError(Exception):
    """Kafka's own controller has thrown something that it does not catch."""


@dataclass(frozen=True)
class Stands:
    """A partition. isr, elr: in the controller's order.   leader: None = nobody."""

    replicas: BrokerIds
    isr: BrokerIds
    elr: BrokerIds
    leader: int | None
    leader_epoch: int
    last_known: BrokerIds = ()
    adding: BrokerIds = ()
    removing: BrokerIds = ()


Partitions = dict[TopicPartition, Stands]


class KRaftController(JavaProcess):
    """Kafka's controller in a JVM; a context manager."""

    def __init__(self, release: str) -> None:
        run = ("org.apache.kafka.controller.KRaftController",)
        self.completes_with_added = release != "4_1"
        super().__init__(f"controller_{release}", ("KRaftController", "Registries"), run, ("-Xmx512m",), text=True)

    def tell(self, *words: object) -> Partitions:
        """How all partitions stand after a sentence."""
        line = self._say(*words)
        if line.startswith("!"):
            raise ControllerDiedError(line)
        return dict(map(_stands, line.split(";"))) if line else {}

    def complete(self, *lists: BrokerIds) -> tuple[BrokerIds, BrokerIds] | None:
        """Replicas and ISR after a reassignment with these replicas, ISR, adding and removing; None: it still runs."""
        line = self._say("completes", *map(_text, lists))
        if line == "-":
            return None
        replicas, isr = map(_ids, line.split(" "))
        return replicas, isr

    def _say(self, *words: object) -> str:
        into, back = self._process.stdin, self._process.stdout
        assert into is not None
        assert back is not None
        into.write(" ".join(map(str, words)) + "\n")
        into.flush()
        line = back.readline()
        if not line:
            raise self.ended(f"after {words} the controller")
        return line.strip()


def _stands(text: str) -> tuple[TopicPartition, Stands]:
    topic, partition, replicas, isr, elr, leader, epoch, *others = text.split(" ")
    led_by = int(leader) if int(leader) >= 0 else None
    return (topic, int(partition)), Stands(_ids(replicas), _ids(isr), _ids(elr), led_by, int(epoch), *map(_ids, others))


def _text(ids: BrokerIds) -> str:
    return ",".join(map(str, ids)) or "-"


def _ids(text: str) -> BrokerIds:
    return () if text == "-" else tuple(map(int, text.split(",")))


@dataclass
class Life:
    """A cluster's begin and events, and after how many of these it stood how."""

    begin: InitialState
    events: list[Event] = field(default_factory=list)
    stood: list[tuple[int, Partitions]] = field(default_factory=list)
    seen: list[InitialState] = field(default_factory=list)  # what a complete snapshot would show at each of these

    def since(self, place: int) -> Life:
        """What is left of it after so many of `stood`, begun with a snapshot of then."""
        first, _ = self.stood[place]
        rest = [(size - first, stood) for size, stood in self.stood[place + 1 :]]
        return Life(self.seen[place], self.events[first:], rest)


def random_returns(kafka: KRaftController, seed: int) -> Life:
    """Brokers of a small cluster that fail and return, cleanly or not, and reassignments; nothing is balanced."""
    return _Returning(kafka, random.Random(seed), random.Random(seed)).live()


def random_life(kafka: KRaftController, seed: int, reverts: bool = True) -> Life:
    """Some events of a small cluster; what is asked is such that some of it is rejected.

    reverts: whether reassignments are cancelled, or followed by one to the former replicas.
    """
    return _Living(kafka, random.Random(seed), random.Random(seed) if reverts else None).live()


class _Living:
    def __init__(self, kafka: KRaftController, draw: random.Random, reverts: random.Random | None) -> None:
        self.kafka, self.draw, self.reverts = kafka, draw, reverts
        self.brokers = tuple(sorted(draw.sample(range(1, 20), draw.choice([1, 2, 3, 3, 4, 4, 5]))))
        elr = draw.random() < 0.6
        rules = ClusterSettings(True, elr, draw.random() < 0.5, completes_with_added=kafka.completes_with_added)
        self.life = Life(InitialState(self.brokers, frozenset(self.brokers), (), self.brokers[0], 1, rules))
        self.live_brokers, self.leaving = set(self.brokers), set[int]()
        self.at, self.check, self.settings = 0, CHECK_MS, rules
        self.now = kafka.tell("begin", int(elr), ",".join(map(str, self.brokers)))
        self.least: dict[str, int] = {}  # min.insync.replicas of topics that have set it
        self.dirty: dict[str, bool] = {}  # whether a topic's elections may be unclean
        self.factor: dict[str, int] = {}  # replicas of a partition, as the topic was made
        self.names = iter(f"t{number}" for number in range(1000))

    def live(self) -> Life:
        draw = self.draw
        self.create()
        steps = self.steps()
        for _ in range(draw.randint(3, 16)):
            self.at += draw.choice([0, 500, 20_000, 20_000, 200_000])
            self.checked()
            try:
                draw.choice(steps)()
            except ControllerDiedError:  # who is eligible without a replica is looked up when the topic is gone
                break
        return self.life

    def steps(self) -> list[Callable[[], None]]:
        steps: list[Callable[[], None]] = [self.create, self.grow, self.delete, self.minimum, self.unclean]
        steps += [self.leave, self.reassign, self.reassign, self.prefer, self.isr, self.isr, self.isr]
        return steps + [self.go] * 4 + [self.come] * 4

    def checked(self) -> None:
        """Leaders are balanced every five minutes, as long as there is time."""
        if not self.settings.auto_leader_rebalance:
            return
        while self.check <= self.at:
            self.check += CHECK_MS
            self.now = self.kafka.tell("balance")

    def happens(self, words: tuple[object, ...], *events: Event) -> None:
        self.now = self.kafka.tell(*words)
        self.life.events += events
        self.life.stood.append((len(self.life.events), self.now))
        self.life.seen.append(self.snapshot())

    def snapshot(self) -> InitialState:
        partitions = (
            InitialPartition(
                *(key, one.replicas, one.isr, one.leader, one.leader_epoch, 1, one.elr),
                *(self.dirty.get(key[0], False), self.least.get(key[0], 1)),
                last_known=one.last_known,
                adding=one.adding,
                removing=one.removing,
            )
            for key, one in self.now.items()
        )
        live, left = frozenset(self.live_brokers), frozenset(self.leaving)
        return InitialState(self.brokers, live, tuple(partitions), self.brokers[0], 1, self.settings, left)

    def event(self, kind: int, broker: int | None = None, **more: object) -> Event:
        return Event(self.at, kind, broker, **more)  # type: ignore[arg-type]

    # Brokers.

    def go(self) -> None:
        broker = self.draw.choice(self.brokers)
        if broker in self.live_brokers:
            word = "down" if broker in self.leaving or self.draw.random() < 0.7 else "fenced"
            self.live_brokers.discard(broker)
            self.happens((word, broker), self.event(EventKind.BROKER_DOWN, broker))

    def come(self) -> None:
        down = [broker for broker in self.brokers if broker not in self.live_brokers]
        if down:
            broker = self.draw.choice(down)
            same = broker not in self.leaving and self.draw.random() < 0.3
            self.live_brokers.add(broker)
            self.leaving.discard(broker)
            self.happens(
                ("unfenced" if same else "up", broker), self.event(EventKind.BROKER_UP, broker, value=int(same))
            )

    def leave(self) -> None:
        broker = self.draw.choice(self.brokers)
        if broker in self.live_brokers:
            self.leaving.add(broker)
            self.happens(("leaves", broker), self.event(EventKind.CONTROLLED_SHUTDOWN, broker))

    # Topics.

    def lists(self, count: int, size: int) -> list[BrokerIds]:
        return [tuple(self.draw.sample(self.brokers, size)) for _ in range(count)]

    def create(self) -> None:
        topic, size = next(self.names), self.draw.randint(1, min(3, len(self.brokers)))
        lists = self.lists(self.draw.randint(1, 3), size)
        self.factor[topic] = size
        self.made("create", topic, 0, lists)

    def grow(self) -> None:
        if self.now:
            topic, _ = self.draw.choice(list(self.now))
            sizes = [len(one.replicas) for (name, _), one in self.now.items() if name == topic]
            if set(sizes) == {self.factor[topic]}:  # else which is the topic's is a matter of a hash table's order
                self.made("grow", topic, len(sizes), self.lists(self.draw.randint(1, 2), sizes[0]))

    def made(self, word: str, topic: str, first: int, lists: list[BrokerIds]) -> None:
        text = ":".join(",".join(map(str, ids)) for ids in lists)
        events = []
        for number, ids in enumerate(lists, first):
            events.append(self.event(EventKind.CREATE_PARTITION, partition=(topic, number), replicas=ids))
            if topic in self.least:
                events.append(self.event(EventKind.SET_MIN_ISR, partition=(topic, number), value=self.least[topic]))
            if self.dirty.get(topic):
                events.append(self.event(EventKind.SET_UNCLEAN_ELECTION, partition=(topic, number), value=1))
        active = self.live_brokers - self.leaving
        if all(active & set(ids) for ids in lists):  # else the whole request is rejected, which its reader has to know
            self.happens((word, topic, text), *events)
        else:
            assert self.kafka.tell(word, topic, text) == self.now

    def delete(self) -> None:
        if self.now and self.draw.random() < 0.5:
            topic, _ = self.draw.choice(list(self.now))
            mine = [key for key in self.now if key[0] == topic]
            self.happens(("delete", topic), *(self.event(EventKind.DELETE_PARTITION, partition=key) for key in mine))

    def minimum(self) -> None:
        if self.now:
            topic, _ = self.draw.choice(list(self.now))
            mine = [key for key in self.now if key[0] == topic]
            # A minimum above the topic's factor counts as that of partition 0, which other partitions do not know.
            least = self.draw.randint(1, 3 if len(mine) == 1 else self.factor[topic])
            events = [self.event(EventKind.SET_MIN_ISR, partition=key, value=least) for key in mine]
            changed, self.least[topic] = self.least.get(topic) != least, least
            if self.settings.elr and changed:
                events += [self.event(EventKind.CLEAR_ELR, partition=key) for key in mine]
            self.happens(("set", topic, "min.insync.replicas", least), *events)

    def unclean(self) -> None:
        """Of topics that are led: who is not is elected when Kafka looks next, every five minutes."""
        if self.now:
            topic, _ = self.draw.choice(list(self.now))
            mine = [key for key in self.now if key[0] == topic]
            stay = all(len(self.now[key].replicas) == self.factor[topic] for key in mine)
            if stay and all(self.now[key].leader is not None for key in mine):
                value = self.draw.random() < 0.8
                self.dirty[topic] = value
                events = [self.event(EventKind.SET_UNCLEAN_ELECTION, partition=key, value=int(value)) for key in mine]
                self.happens(("set", topic, "unclean.leader.election.enable", str(value).lower()), *events)

    def isr(self) -> None:
        if self.now:
            topic, number = key = self.draw.choice(list(self.now))
            replicas = self.now[key].replicas
            isr = tuple(self.draw.sample(replicas, self.draw.randint(1, len(replicas))))
            self.happens(
                ("isr", topic, number, ",".join(map(str, isr))),
                self.event(EventKind.ALTER_ISR, partition=key, replicas=isr),
            )

    def reassign(self) -> None:
        """Not where elections that are not of the ISR alone cross it: 4.1 ends it with any next change, or rejects."""
        clean = [key for key in self.now if not self.dirty.get(key[0])]
        moved = [key for key in clean if self.now[key].leader is not None or not self.settings.elr]
        if moved:
            topic, number = key = self.draw.choice(moved)
            alone = sum(1 for name, _ in self.now if name == topic) == 1
            (ids,) = self.lists(1, self.draw.randint(1, min(3, len(self.brokers))) if alone else self.factor[topic])
            adding, replicas = self.now[key].adding, self.now[key].replicas
            if adding and self.reverts and self.reverts.random() < 0.5:
                ids = tuple(broker for broker in replicas if broker not in adding)
            is_cancelled = self.reverts is not None and self.reverts.random() < 0.2
            more = {"value": 1} if is_cancelled else {"replicas": ids}
            self.happens(
                ("reassign", topic, number, _text(() if is_cancelled else ids)),
                self.event(EventKind.REASSIGN_PARTITION, partition=key, **more),
            )

    def prefer(self) -> None:
        if self.now:
            topic, number = key = self.draw.choice(list(self.now))
            self.happens(("prefer", topic, number), self.event(EventKind.ELECT_PREFERRED_LEADER, partition=key))


class _Returning(_Living):
    def __init__(self, kafka: KRaftController, draw: random.Random, reverts: random.Random) -> None:
        super().__init__(kafka, draw, reverts)
        self.reassigns = draw.random() < 0.3
        self.settings = replace(self.settings, auto_leader_rebalance=False)
        self.life.begin = replace(self.life.begin, settings=self.settings)
        self.create()

    def steps(self) -> list[Callable[[], None]]:
        steps = [self.minimum, self.minimum, self.unclean, self.isr, self.leave, self.leave]
        steps += [self.reassign] * 12 * self.reassigns
        return steps + [self.go] * 6 + [self.come] * 5
