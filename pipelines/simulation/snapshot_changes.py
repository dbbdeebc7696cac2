"""Snapshots of one cluster, one after another, as the events that must have been between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from udfs.simulation.cluster_events import Begin, Event, Held
from udfs.simulation.kernels import codes as k

STEP_MS = 1000  # between two snapshots, whose times no source tells


def between(snapshots: Sequence[Begin]) -> list[Event]:
    """Events, a second a snapshot from the first on; offset: the place of the snapshot that shows them."""
    events: list[Event] = []
    for number, (before, after) in enumerate(pairwise(accumulate(snapshots, _with_epochs)), 1):
        events.extend(_changes(before, after, number * STEP_MS, number))
    return events


def _with_epochs(before: Begin, after: Begin) -> Begin:
    """The later snapshot; where its source shows no epochs at all, as a describe, with those that are known.

    A leader that has changed is one epoch more, at least.
    """
    if after.controller_epoch or any(one.leader_epoch or one.controller_epoch for one in after.partitions):
        return after
    was = {one.key: one for one in before.partitions}
    partitions = []
    for one in after.partitions:
        old = was.get(one.key)
        if old is not None:
            epoch = old.leader_epoch + (one.leader != old.leader)
            one = replace(one, leader_epoch=epoch, controller_epoch=old.controller_epoch)
        partitions.append(one)
    controller = before.controller if after.controller is None else after.controller
    epoch = before.controller_epoch
    return replace(after, partitions=tuple(partitions), controller=controller, controller_epoch=epoch)


def _changes(before: Begin, after: Begin, at: int, number: int) -> Iterator[Event]:
    if (after.controller, after.controller_epoch) != (before.controller, before.controller_epoch):
        yield Event(at, k.LED_BY, after.controller, value=after.controller_epoch, offset=number)
    for broker in sorted(before.live - after.live):
        yield Event(at, k.FENCED, broker, offset=number)
    for broker in sorted(after.live - before.live):
        yield Event(at, k.UNFENCED, broker, offset=number)
    held = {one.key: one for one in before.partitions}
    shown = {one.key: one for one in after.partitions}
    for key in sorted(held.keys() - shown.keys()):
        yield Event(at, k.FORGET, partition=key, offset=number)
    for key, one in shown.items():
        was = held.get(key)
        if was is None or _placed(one) != _placed(was):
            yield _record(one, was, at, number)
        yield from _offsets(one, was, at, number)


def _placed(one: Held) -> Held:
    """The partition without its offsets, which grow while nothing happens to it."""
    return replace(one, leos=(), hws=()) if one.leos or one.hws else one


def _offsets(one: Held, before: Held | None, at: int, number: int) -> Iterator[Event]:
    """What is new of the offsets of its replicas; what is not known any more stays as it was."""
    if before is not None and (one.leos, one.hws, one.replicas) == (before.leos, before.hws, before.replicas):
        return
    was = {} if before is None else _by_broker(before)
    for broker, (leo, hw) in _by_broker(one).items():
        leo_before, hw_before = was.get(broker, (None, None))
        leo, hw = (None if leo == leo_before else leo), (None if hw == hw_before else hw)
        if leo is not None or hw is not None:
            yield Event(at, k.OFFSETS, broker, one.key, leo=leo, hw=hw, offset=number)


def _by_broker(one: Held) -> dict[int, tuple[int | None, int | None]]:
    """{broker: (log end, high watermark)} of the replicas."""
    nothing = (None,) * len(one.replicas)
    return dict(zip(one.replicas, zip(one.leos or nothing, one.hws or nothing, strict=True), strict=True))


def _record(one: Held, before: Held | None, at: int, number: int) -> Event:
    """What is new of a partition. Where no source shows epochs, each change of leader is one more."""
    told = one.leader_epoch > 0 or (before is not None and before.leader_epoch > 0)
    moved = before is None or one.leader != before.leader or one.leader_epoch != before.leader_epoch
    return Event(
        at,
        k.RECORD,
        partition=one.key,
        replicas=one.replicas if before is None or one.replicas != before.replicas else None,
        isr=one.isr,
        elr=one.elr if before is None or one.elr != before.elr else None,
        leader=(-1 if one.leader is None else one.leader) if moved else None,
        leader_epoch=one.leader_epoch if told or before is None else -1,
        whole=before is None,
        offset=number,
    )
