"""A cluster from its begin through its events: what was written on the way, and how it stands at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from udfs.kernels.replay_control import LED_BY, RULES, fold
from udfs.kernels.replay_state import (
    AR,
    CONTROLLER,
    CONTROLLER_EPOCH,
    ELR,
    ISR,
    NEXT_CHECK,
    NOBODY,
    OFFLINE,
    ONLINE,
    TARGET,
    WHO,
    Cluster,
    Ids,
    Ints,
    new_journal,
)
from udfs.replay.events import Event, Key, List, Packed, pack

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Held:
    """A partition at the begin. leader: an id, or None.   controller_epoch: of who wrote it."""

    key: Key
    replicas: List
    isr: List
    leader: int | None
    leader_epoch: int = 0
    controller_epoch: int = 0
    elr: List = ()
    unclean: bool = False
    min_isr: int = 1


@dataclass(frozen=True)
class Rules:
    """How a cluster is run: Kafka's settings of the same names.

    first_check_ms: of the leaders' imbalance, after a controller has started.
    """

    kraft: bool = False
    elr: bool = False
    auto_leader_rebalance: bool = True
    leader_imbalance_check_ms: int = 300_000
    leader_imbalance_percent: int = 10
    first_check_ms: int = 5_000

    def packed(self) -> Ints:
        """As the kernel reads them; KRaft looks at no percentage."""
        percent = -1 if self.kraft else self.leader_imbalance_percent
        every, first = self.leader_imbalance_check_ms, self.first_check_ms
        values = [self.kraft, self.elr, self.auto_leader_rebalance, every, first, percent]
        assert len(values) == RULES
        return np.array(values, np.int64)


@dataclass(frozen=True)
class Begin:
    """How a cluster stands before the first event. alive: ids; brokers: all that it has, alive or not."""

    brokers: tuple[int, ...] = ()
    alive: frozenset[int] = frozenset()
    partitions: tuple[Held, ...] = ()
    controller: int | None = None
    controller_epoch: int = 0
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True)
class Replayed:
    """What a fold gives. brokers: ids, rising; places in all arrays are places here.

    keys: (topic, partition) of each row.   journals: [(leadership, states, lists)], in order.
    """

    brokers: tuple[int, ...]
    packed: Packed
    cluster: Cluster
    journals: tuple[tuple[Ints, Ints, Ids], ...]

    def alive_isr(self, row: int, place: int) -> List:
        """The ISR that was written at that place of journal `row`."""
        lists = self.journals[row][2]
        return tuple(self.brokers[b] for b in lists[place + 1 : place + 1 + lists[place]].tolist())

    def held(self, row: int, which: int) -> List:
        """The AR, ISR, ELR or target of a row, at the end."""
        lists = {AR: self.cluster.ar, ISR: self.cluster.isr, ELR: self.cluster.elr, TARGET: self.cluster.target}
        begin = int(self.cluster.offsets[row])
        return tuple(
            self.brokers[b] for b in lists[which][begin : begin + int(self.cluster.sizes[row, which])].tolist()
        )


def replay(begin: Begin, events: Sequence[Event]) -> Replayed:
    """The events, in their order, folded from the begin."""
    brokers = tuple(sorted({*begin.brokers, *_named(events)}))
    packed = pack(events, brokers, [(held.key, len(held.replicas)) for held in begin.partitions])
    cluster = _cluster(begin, brokers, packed)
    rules = begin.rules.packed()
    if begin.rules.auto_leader_rebalance and events:
        cluster.who[NEXT_CHECK] = events[0].at_ms + begin.rules.leader_imbalance_check_ms
    journals: list[tuple[Ints, Ints, Ids]] = []
    done = 0
    while done < len(events):
        journal = new_journal(len(packed.keys), len(cluster.ar), len(events))
        done = fold(cluster, journal, rules, packed.events, packed.lists, done)
        used = journal.used.tolist()
        kept = journal.leadership[: used[0]], journal.states[: used[1]], journal.lists[: used[2]]
        journals.append((kept[0].copy(), kept[1].copy(), kept[2].copy()))
    return Replayed(brokers, packed, cluster, tuple(journals))


def _named(events: Sequence[Event]) -> Iterator[int]:
    for event in events:
        if event.broker is not None and event.kind != LED_BY:
            yield event.broker
        for ids in (event.replicas, event.isr, event.elr, event.last_known, event.adding, event.removing):
            yield from ids or ()


def _cluster(begin: Begin, brokers: tuple[int, ...], packed: Packed) -> Cluster:
    n, p = len(brokers), len(packed.keys)
    place = {broker: i for i, broker in enumerate(brokers)}
    offsets = np.concatenate([[0], np.cumsum(packed.capacity)]).astype(np.int64)
    slots = int(offsets[-1])
    who = np.zeros(WHO, np.int64)
    who[CONTROLLER] = NOBODY if begin.controller is None else place[begin.controller]
    who[CONTROLLER_EPOCH], who[NEXT_CHECK] = begin.controller_epoch, _NEVER
    cluster = Cluster(
        alive=np.array([b in begin.alive for b in brokers], np.bool_),
        leaving=np.zeros(n, np.bool_),
        who=who,
        offsets=offsets,
        ar=np.full(slots, NOBODY, np.int32),
        isr=np.full(slots, NOBODY, np.int32),
        elr=np.full(slots, NOBODY, np.int32),
        target=np.full(slots, NOBODY, np.int32),
        sizes=np.zeros((p, 4), np.int8),
        replica=np.full(slots, NOBODY, np.int32),
        replica_state=np.zeros(slots, np.int8),
        replicas=np.zeros(p, np.int8),
        leader=np.full(p, NOBODY, np.int32),
        leader_epoch=np.zeros(p, np.int32),
        written=np.zeros(p, np.int32),
        last_known=np.full(p, NOBODY, np.int32),
        state=np.zeros(p, np.int8),
        unclean=np.zeros(p, np.bool_),
        deleted=np.zeros(p, np.bool_),
        min_isr=np.ones(p, np.int32),
    )
    for row, held in enumerate(begin.partitions):
        at = int(offsets[row])
        for which, lists, ids in (
            (AR, cluster.ar, held.replicas),
            (ISR, cluster.isr, held.isr),
            (ELR, cluster.elr, held.elr),
        ):
            lists[at : at + len(ids)] = [place[b] for b in ids]
            cluster.sizes[row, which] = len(ids)
        cluster.replica[at : at + len(held.replicas)] = [place[b] for b in held.replicas]
        cluster.replica_state[at : at + len(held.replicas)] = [
            ONLINE if b in begin.alive else OFFLINE for b in held.replicas
        ]
        cluster.replicas[row] = len(held.replicas)
        cluster.leader[row] = NOBODY if held.leader is None else place[held.leader]
        cluster.leader_epoch[row], cluster.written[row] = held.leader_epoch, held.controller_epoch
        cluster.state[row] = OFFLINE if held.leader is None else ONLINE
        cluster.unclean[row], cluster.min_isr[row] = held.unclean, held.min_isr
    return cluster
