"""What a fold of one cluster wrote, event by event, and how the cluster stood before each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from udfs.simulation.event_names import CAUSES
from udfs.simulation.kernels import codes as k
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.kernels.simulation_state import Ints
from udfs.simulation.simulator import Folded

Bools = npt.NDArray[np.bool_]
_DOWN = (st.DOWN, st.DOWN_CONTROLLER, st.DOWN_LAST, st.SEEN_DOWN)
_UP = (st.UP, st.UP_CONTROLLER, st.UP_UNCLEAN, st.SEEN_UP)


class Story:
    """A cursor over the journals: `reach` events in their order.

    partition_state: (p), replica_state: (slots), live: (brokers), before the event that was reached.
    """

    def __init__(self, of: Folded) -> None:
        packed = of.packed
        if len(packed.clusters) != 1:
            raise ValueError(f"steps are told of one cluster, not of {len(packed.clusters)}")
        self.cluster = packed.clusters[0][0]
        self.topics = np.array(packed.topics.to_pylist(), object)
        self.numbers, self.ids = packed.partitions, packed.brokers
        self._now = packed.state.now
        self._member = packed.state.slot[:, st.MEMBER]
        self._partition = np.repeat(np.arange(len(self._now)), self._now[:, st.SLOTS])
        self._lists = of.journals.lists
        self._leaderships = _by_event(_of_controller(of), st.L_EVENT)
        self._states = _by_event(of.journals.states, st.S_EVENT)
        self._applied = 0
        self.live: Bools = packed.flags != 0
        self._begin(packed.state)

    def _begin(self, state: st.State) -> None:
        """Nothing; states as before the first transition of each: what that left, or what never changed."""
        rows = self._states[::-1]
        whole, replica = rows[rows[:, st.S_BROKER] < 0], rows[rows[:, st.S_BROKER] >= 0]
        self.partition_state: Ints = state.now[:, st.STATE].copy()
        self.partition_state[whole[:, st.S_PARTITION]] = whole[:, st.S_FROM]
        self.replica_state: Ints = state.slot[:, st.REPLICA_STATE].copy()
        self.replica_state[self._slots(replica)] = replica[:, st.S_FROM]

    def _slots(self, rows: Ints) -> Ints:
        """Rows of slots of transitions of replicas."""
        if not len(rows):
            return np.empty(0, np.int64)
        n = len(self.ids)
        found: Ints = np.searchsorted(
            self._partition * n + self._member, rows[:, st.S_PARTITION] * n + rows[:, st.S_BROKER]
        )
        return found

    def reach(self, event: int) -> None:
        """Nothing; all transitions before this event have been."""
        end = int(np.searchsorted(self._states[:, st.S_EVENT], event))
        rows = self._states[self._applied : end]
        rows = rows[rows[:, st.S_LEGAL] != 0]
        whole, replica = rows[rows[:, st.S_BROKER] < 0], rows[rows[:, st.S_BROKER] >= 0]
        self.partition_state[whole[:, st.S_PARTITION]] = whole[:, st.S_TO]  # of one that comes twice the last counts
        self.replica_state[self._slots(replica)] = replica[:, st.S_TO]
        self._applied = max(self._applied, end)

    def brokers_change(self, kind: int, place: int) -> None:
        """Nothing; who lives after a step of this kind."""
        if kind in _DOWN or kind in _UP:
            self.live[place] = kind in _UP

    def leaderships(self, first: int, last: int, at: int) -> Ints:
        """What was written at these events themselves, not by time that passed before them."""
        rows = _between(self._leaderships, st.L_EVENT, first, last)
        chosen: Ints = rows[rows[:, st.L_AT] == at]
        return chosen

    def states(self, first: int, last: int) -> Ints:
        """Legal transitions at these events."""
        rows = _between(self._states, st.S_EVENT, first, last)
        chosen: Ints = rows[rows[:, st.S_LEGAL] != 0]
        return chosen

    def there(self) -> Bools:
        """Which partitions exist."""
        found: Bools = self.partition_state != k.ABSENT
        found[self._partition[self.replica_state != k.ABSENT]] = True  # replicas of a topic that is being deleted
        return found

    def topics_there(self) -> list[str]:
        """The topics that exist, by name."""
        return sorted(set(self.topics[self.there()]))

    def on(self, place: int) -> Bools:
        """Which partitions have a replica on the broker."""
        found = np.zeros(len(self._now), np.bool_)
        found[self._partition[(self._member == place) & (self.replica_state != k.ABSENT)]] = True
        return found

    def concerned(self, partitions: Ints) -> list[int]:
        """Ids of live brokers with a replica of these partitions."""
        chosen = np.isin(self._partition, partitions) & (self.replica_state != k.ABSENT)
        places = np.unique(self._member[chosen])
        return [int(b) for b in self.ids[places[self.live[places]]]]

    def replicas_live(self) -> Bools:
        """Of each replica that there is, whether its broker lives."""
        found: Bools = self.live[self._member[self.replica_state != k.ABSENT]]
        return found

    def live_brokers(self) -> list[int]:
        """Ids of live brokers."""
        return [int(b) for b in self.ids[self.live]]

    def broker(self, place: int) -> int | None:
        """The id at a place; None for nobody."""
        return int(self.ids[place]) if place >= 0 else None

    def name(self, p: int) -> str:
        """The partition as Kafka names it."""
        return f"{self.topics[p]}-{self.numbers[p]}"

    def isr(self, row: Ints) -> list[int]:
        """Ids of the ISR that a leadership wrote."""
        place = row[st.L_ISR]
        return [int(b) for b in self.ids[self._lists[place + 1 : place + 1 + self._lists[place]]]]

    def znode(self, row: Ints) -> str:
        """The data of the `state` znode that a leadership wrote, as Kafka writes it."""
        leader = self.broker(row[st.L_TO])
        return text(
            controller_epoch=int(row[st.L_CONTROLLER_EPOCH]),
            leader=-1 if leader is None else leader,
            version=1,
            leader_epoch=int(row[st.L_EPOCH]),
            isr=self.isr(row),
        )


def _of_controller(of: Folded) -> Ints:
    """What was written, without the ISRs that leaders changed as time passed: with ZooKeeper those keep the epoch."""
    rows, health = of.journals.leadership, of.journals.health
    if of.packed.numbers[0, st.KRAFT] or not len(rows):
        return rows
    epoch = np.zeros(len(of.packed.state.now), np.int64)  # at first: a health's first time begins with it
    epoch[health[::-1, st.H_PARTITION]] = health[::-1, st.H_EPOCH]
    p = rows[:, st.L_PARTITION]
    same = np.append(False, p[1:] == p[:-1])
    before = np.where(same, np.roll(rows[:, st.L_EPOCH], 1), epoch[p])
    later = rows[:, st.L_AT] > of.packed.numbers[0, st.RULES]
    by_leader = later & np.isin(rows[:, st.L_CAUSE], (k.SHRUNK, k.EXPANDED)) & (rows[:, st.L_EPOCH] == before)
    kept: Ints = rows[~by_leader]
    return kept


def causes(rows: Ints) -> dict[str, int]:
    """How many leaderships were written why."""
    codes, counts = np.unique(rows[:, st.L_CAUSE], return_counts=True)
    return {CAUSES[code]: int(count) for code, count in zip(codes, counts, strict=True)}


def text(**data: Any) -> str:
    """JSON as Kafka writes it: no spaces."""
    return json.dumps(data, separators=(",", ":"))


def _by_event(rows: Ints, column: int) -> Ints:
    ordered: Ints = rows[np.argsort(rows[:, column], kind="stable")]
    return ordered


def _between(rows: Ints, column: int, first: int, last: int) -> Ints:
    begin, end = np.searchsorted(rows[:, column], [first, last + 1])
    chosen: Ints = rows[begin:end]
    return chosen
