"""Walks through a replay's steps and requests: what is done at each is told by subclasses."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from udfs.simulation.controller.explanations import Story, text
from udfs.simulation.kernels import codes as k
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.kernels.broker_timeline import C_AT, C_EVENT, C_ID, C_KIND, C_VALUE
from udfs.simulation.kernels.simulation_state import Ints
from udfs.simulation.simulator import Folded

Row = dict[str, Any]
_TOLD = (k.CREATE, k.DELETE, k.RECORD, k.FORGET, k.DELETION_STARTS)


def made_topic_id(cluster: str, topic: str, event: int) -> str:
    """A topic id as Kafka writes it (22 characters), made of a hash of these: Kafka draws it."""
    raw = bytearray(hashlib.sha256(f"{cluster}\0{topic}\0{event}".encode()).digest()[:16])
    raw[0] &= 0x7F  # the first character is no "-"
    raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80  # a UUID of version 4
    return base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")


@dataclass(frozen=True)
class Group:
    """Events of one kind, topic and time, one behind another: one request, or one batch of records."""

    kind: int
    first: int
    last: int
    at: int
    partitions: Ints
    lists: Ints
    value: int


class Teller:
    """Walks through steps and events; subclasses say what is done at each."""

    def __init__(self, of: Folded) -> None:
        self._of, self._story = of, Story(of)
        numbers = of.packed.numbers[0]
        self._controller, self._epoch = self._story.broker(numbers[st.RULES + 3]), int(numbers[st.RULES + 4])
        self._rows: list[Row] = []
        self._event, self._at = -1, 0

    def rows(self) -> list[Row]:
        timeline = self._of.timeline
        items: list[tuple[int, Any]] = [(int(row[st.T_ORDER]), t) for t, row in enumerate(timeline.world.steps)]
        items += [(2 * group.first + 1 + (group.kind == k.DELETION_STARTS), group) for group in self._groups()]
        old = self._of.packed.of_clusters
        items += [(2 * int(row[C_EVENT]) + 1, row) for row in old[old[:, C_KIND] == k.OLD_CONTROLLER]]
        for _, item in sorted(items, key=lambda pair: pair[0]):
            if isinstance(item, Group):
                self._reach(item.first, item.at)
                self._told(item)
            elif isinstance(item, int):
                self._take(item)
            else:
                self._reach(int(item[C_EVENT]), int(item[C_AT]))
                self._old(item)
        return self._rows

    def _reach(self, event: int, at: int) -> None:
        self._event, self._at = event, at
        self._story.reach(event)

    def _take(self, t: int) -> None:
        row = self._of.timeline.world.steps[t]
        kind, place, event = int(row[st.T_KIND]), int(row[st.T_BROKER]), int(row[st.T_EVENT])
        self._reach(event, int(row[st.T_AT]))
        wrote = self._story.leaderships(event, event, self._at)
        checked = wrote[:, st.L_CAUSE] == k.REBALANCED
        # What a check writes, and what the event that follows it writes, stand under one event.
        own = checked & (wrote[:, st.L_TO] == place) if kind == st.CHECK else ~checked
        wrote = wrote[own & (wrote[:, st.L_CAUSE] != k.REMOVED)]  # that is told with the topic's deletion
        after = self._controls(t, kind, event), int(row[st.T_EPOCH])
        self._step(kind, place, after, wrote)
        self._controller, self._epoch = after

    def _controls(self, t: int, kind: int, event: int) -> int | None:
        """Who controls after a step; a quorum's leader may be no broker."""
        events = self._of.packed.of_clusters
        if kind == st.QUORUM:
            told = int(events[np.searchsorted(events[:, C_EVENT], event), C_ID])
            return None if told < 0 else told
        who = self._story.broker(int(self._of.timeline.controllers[t]))
        return self._controller if who is None and self._of.packed.numbers[0, st.KRAFT] else who

    def _step(self, kind: int, place: int, after: tuple[int | None, int], wrote: Ints) -> None:
        raise NotImplementedError

    def _told(self, group: Group) -> None:
        raise NotImplementedError

    def _say(self, action: str, path: str | None = None, data: str | None = None) -> None:
        again = bool(self._rows) and self._rows[-1]["event"] == self._event
        row = {"event": self._event, "at_ms": self._at, "step": self._rows[-1]["step"] + 1 if again else 0}
        row |= {"controller_id": self._controller, "controller_epoch": self._epoch}
        self._rows.append({**row, "action": action, "path": path, "data": data})

    def _old(self, row: Ints) -> None:
        """Nothing; a request of a controller is taken unless its epoch is older than the brokers know."""
        epoch, of = int(row[C_VALUE]), self._old_partitions.get(int(row[C_EVENT]))
        said = {} if row[C_ID] < 0 else {"broker": int(row[C_ID])}
        data = text(**said) if of is None else text(**said, partition=self._story.name(of))
        if epoch > self._epoch:
            self._say(f"not possible: no controller has had epoch {epoch} yet, it is {self._epoch}", data=data)
        elif epoch < self._epoch:
            self._say(f"rejected: STALE_CONTROLLER_EPOCH, {epoch} < {self._epoch}", data=data)
        else:
            self._say(f"accepted: controller epoch {epoch}", data=data)

    def _groups(self) -> Iterator[Group]:
        """Events of partitions that the controller does something at, as requests and batches."""
        now, events = self._of.packed.state.now, self._of.packed.own.events
        p = np.searchsorted(now[:, st.OWN_END], np.arange(len(events)), side="right")
        kind = events[:, st.E_KIND]
        old = np.flatnonzero(kind == k.OLD_CONTROLLER)
        self._old_partitions = dict(zip(events[old, st.E_EVENT].tolist(), p[old].tolist(), strict=True))
        chosen = np.flatnonzero(np.isin(kind, _TOLD))
        chosen = chosen[np.lexsort((kind[chosen] == k.DELETION_STARTS, events[chosen, st.E_EVENT]))]
        if not len(chosen):
            return
        rows, of = events[chosen], p[chosen]
        topic = np.unique(self._story.topics, return_inverse=True)[1][of]
        topic = np.where(rows[:, st.E_KIND] == k.RECORD, -1, topic)  # a batch holds records of any topics
        key = np.stack([rows[:, st.E_KIND], rows[:, st.E_AT], topic, rows[:, st.E_VALUE]])
        new = np.any(key[:, 1:] != key[:, :-1], axis=0) | (np.diff(rows[:, st.E_EVENT]) > 1)
        for part in np.split(np.arange(len(rows)), np.flatnonzero(new) + 1):
            one, last = rows[part[0]], rows[part[-1]]
            yield Group(
                int(one[st.E_KIND]),
                int(one[st.E_EVENT]),
                int(last[st.E_EVENT]),
                int(one[st.E_AT]),
                of[part],
                rows[part, st.E_LIST],
                int(one[st.E_VALUE]),
            )

    def _assigned(self, group: Group) -> dict[str, list[int]]:
        """The replicas of each partition that is created, by number."""
        packed, story = self._of.packed, self._story
        out = {}
        for p, place in zip(group.partitions, group.lists, strict=True):
            slots = packed.own.lists[place + 1 : place + 1 + packed.own.lists[place]]
            member = packed.state.slot[packed.state.now[p, st.SLOT_BEGIN] + slots, st.MEMBER]
            out[str(story.numbers[p])] = [int(b) for b in story.ids[member]]
        return out

    def _is_grown(self, group: Group) -> bool:
        """Whether the topic has other partitions than those that are created."""
        story = self._story
        others = story.there() & (story.topics == self._topic(group))
        others[group.partitions] = False
        return bool(others.any())

    def _is_taken(self, group: Group) -> bool:
        """Whether any of the partitions is created: else the request is rejected."""
        return bool((self._story.states(group.first, group.last)[:, st.S_TO] == k.NEW).any())

    def _topic(self, group: Group) -> str:
        return str(self._story.topics[group.partitions[0]])
