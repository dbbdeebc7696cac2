"""Events of a cluster, and the arrays that the kernels fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from udfs.kernels.replay_control import CREATE, EVENT, RECORD
from udfs.kernels.replay_records import ABSENT_LIST, SAME_LEADER
from udfs.kernels.replay_state import Ids, Ints

Key = tuple[str, int]
List = tuple[int, ...]


@dataclass(frozen=True)
class Event:
    """One event. at_ms: milliseconds since the begin, or of the log's clock.   kind: a code of replay_control.

    broker: an id, or None.   partition: (topic, number), or None.   value: what the kind says: a number, a flag.
    replicas: the new AR (a creation, a reassignment), or the ISR (isr); of a record, None = unchanged, as the others.
    leader_epoch: of a record; -1 = one more where the leader is named.   whole: a record that says everything.
    offset: where it stands in a log, or in a scenario.
    request: number of the request that an append or a fetch belongs to, of its `parts` partitions; unique in a replay.
    wait_ms: a produce's timeout, a fetch's longest wait.   fetch_offset: None = the replica's own log end.
    leo, hw: what an `offsets` event says of the broker's replica, None = nothing. A fetch without broker: a consumer's.
    """

    at_ms: int
    kind: int
    broker: int | None = None
    partition: Key | None = None
    value: int = 0
    replicas: List | None = None
    isr: List | None = None
    elr: List | None = None
    last_known: List | None = None
    adding: List | None = None
    removing: List | None = None
    leader: int | None = None
    leader_epoch: int = -1
    whole: bool = False
    offset: int = 0
    request: int | None = None
    parts: int = 1
    acks: int = 1
    messages: int = 0
    wait_ms: int = 0
    min_bytes: int = 1
    fetch_offset: int | None = None
    leo: int | None = None
    hw: int | None = None


@dataclass(frozen=True)
class Packed:
    """Events as arrays. events: int64 (e, EVENT).   lists: int32.   keys: one a partition row; a topic made again has
    rows of its own.   capacity: int64 (p), slots that each row needs."""

    events: Ints
    lists: Ids
    keys: tuple[Key, ...]
    capacity: Ints


def pack(events: Sequence[Event], brokers: Sequence[int], held: Sequence[tuple[Key, int]]) -> Packed:
    """The events for a cluster of these brokers (ids, rising).

    held: partitions that are there at first, and how many replicas they have. Events of partitions that nobody has
    created are left to the caller to refuse: KeyError.
    """
    place = {broker: i for i, broker in enumerate(brokers)}
    rows = {key: i for i, (key, _) in enumerate(held)}
    keys, capacity = [key for key, _ in held], [size for _, size in held]
    lists: list[int] = []
    out = np.zeros((len(events), EVENT), np.int64)

    def put(ids: List | None) -> None:
        lists.append(ABSENT_LIST if ids is None else len(ids))
        lists.extend(place[b] for b in ids or ())

    for i, event in enumerate(events):
        row = -1
        if event.partition is not None:
            if event.kind == CREATE or event.whole:
                rows[event.partition] = len(keys)
                keys.append(event.partition)
                capacity.append(0)
            row = rows[event.partition]
            capacity[row] += len(event.replicas or ())
        broker = -1 if event.broker is None else place.get(event.broker, -1)  # a controller may be no broker
        out[i] = event.at_ms, event.kind, broker, row, len(lists), event.value
        if event.kind == RECORD:
            out[i, -1] = event.whole
            leader = event.leader
            lists.append(SAME_LEADER if leader is None else -1 if leader < 0 else place[leader])
            lists.append(event.leader_epoch)
            for ids in (event.replicas, event.isr, event.elr, event.last_known, event.adding, event.removing):
                put(ids)
        elif event.replicas is not None:
            put(event.replicas)
        else:
            out[i, 4] = -1
    room = np.minimum(np.array(capacity, np.int64), len(brokers))
    return Packed(out, np.array(lists, np.int32), tuple(keys), room)
