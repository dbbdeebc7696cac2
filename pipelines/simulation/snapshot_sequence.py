"""Snapshots of one cluster, one after another: a check of their order, and the events that must have happened between.

Only what sources show counts. A topic whose id has changed was deleted and created again: its epochs start anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.simulation.source_snapshots import FILTERED, SourceSnapshot
from udfs.simulation.cluster_events import Event, InitialPartition, InitialState, TopicPartition
from udfs.simulation.kernels.codes import EventKind

STEP_MS = 1000  # between two snapshots: no source shows their times
_ONE_CLUSTER = "Give snapshots of one cluster; replay another cluster by itself."
_EARLIEST_FIRST = "Epochs never go back: give the snapshots in their order, the earliest first."


def check_order(snapshots: Sequence[SourceSnapshot]) -> tuple[str, ...]:
    """Check that snapshots of one cluster are in their order; return warnings, or raise SourceError."""
    warnings = []
    for one in snapshots if len(snapshots) > 1 else ():
        for name in one.filtered:
            problem = f"{name} {FILTERED}" if name not in one.path else FILTERED
            raise SourceError(one.path, problem, "Others would count as removed. Use a describe of all topics.")
    for before, after in pairwise(snapshots):
        if _share_only_brokers(before, after):
            warnings.append(f"{after.path}: shows no topic that {before.path} shows. Do they belong to one cluster?")
        for owner, old, new in () if after.has_gaps else _compare_epochs(before, after):
            if new < old:
                problem = f"the epoch of {owner} is {new}, but {old} in {before.path}"
                raise SourceError(after.path, problem, _EARLIEST_FIRST)
    return tuple(warnings)


def _share_only_brokers(before: SourceSnapshot, after: SourceSnapshot) -> bool:
    """Return whether two snapshots share brokers but no topics; raise SourceError if of different clusters."""
    if before.cluster is not None and after.cluster is not None:
        if before.cluster != after.cluster:
            problem = f"belongs to cluster {after.cluster}, but {before.path} to cluster {before.cluster}"
            raise SourceError(after.path, problem, _ONE_CLUSTER)
        return False
    if _overlap(_list_topic_ids(before.snapshot), _list_topic_ids(after.snapshot)):
        return False
    if _overlap(_list_addresses(before.snapshot), _list_addresses(after.snapshot)):
        return True
    raise SourceError(after.path, f"shows no broker and no topic that {before.path} shows", _ONE_CLUSTER)


def _overlap(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> bool:
    """Return whether a key has the same value in both, as far as the values are known."""
    shared = before.keys() & after.keys()
    return any(None in (before[key], after[key]) or before[key] == after[key] for key in shared)


def _list_topic_ids(snapshot: Snapshot) -> dict[str, str | None]:
    return dict(zip(snapshot.topics["topic"].to_pylist(), snapshot.topics["topic_id"].to_pylist(), strict=True))


def _list_addresses(snapshot: Snapshot) -> dict[int, tuple[str, int] | None]:
    columns = (snapshot.brokers[name].to_pylist() for name in ("broker_id", "host", "port"))
    return {broker: None if host is None else (host, port) for broker, host, port in zip(*columns, strict=True)}


def _compare_epochs(before: SourceSnapshot, after: SourceSnapshot) -> Iterator[tuple[str, int, int]]:
    """Yield (owner of the epoch, epoch before, epoch after) of all that is the same in both, where both are known."""
    if after.controller_epoch:
        yield "the controller", before.state.controller_epoch, after.controller_epoch
    old_partitions = {one.key: one for one in before.state.partitions}
    old_ids, ids = _list_topic_ids(before.snapshot), _list_topic_ids(after.snapshot)
    leader_epochs = _list_leader_epochs(after.snapshot)
    for one in after.state.partitions:
        old, (topic, number) = old_partitions.get(one.key), one.key
        if old is None:
            continue
        if one.controller_epoch:
            yield f"the controller that wrote {topic}-{number}", old.controller_epoch, one.controller_epoch
        if one.key in leader_epochs and ids[topic] is not None and ids[topic] == old_ids[topic]:
            yield f"the leader of {topic}-{number}", old.leader_epoch, leader_epochs[one.key]


def _list_leader_epochs(snapshot: Snapshot) -> dict[TopicPartition, int]:
    rows = snapshot.partitions.filter(pc.is_valid(snapshot.partitions["leader_epoch"]))
    keys = zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True)
    return dict(zip(keys, rows["leader_epoch"].to_pylist(), strict=True))


# ---- events between snapshots


def derive_events(states: Sequence[InitialState]) -> list[Event]:
    """Derive the events between states, one second apart; offset: number of the state that shows the event."""
    events: list[Event] = []
    for number, (before, after) in enumerate(pairwise(accumulate(states, _inherit_epochs)), 1):
        events.extend(_compare_states(before, after, number * STEP_MS, number))
    return events


def _inherit_epochs(before: InitialState, after: InitialState) -> InitialState:
    """Give the later state the earlier one's epochs if its source, such as a describe, shows none."""
    # A leader that has changed has a higher epoch: one more, at least.
    if after.controller_epoch or any(one.leader_epoch or one.controller_epoch for one in after.partitions):
        return after
    old_partitions = {one.key: one for one in before.partitions}
    partitions = []
    for one in after.partitions:
        old = old_partitions.get(one.key)
        if old is not None:
            epoch = old.leader_epoch + (one.leader != old.leader)
            one = replace(one, leader_epoch=epoch, controller_epoch=old.controller_epoch)
        partitions.append(one)
    controller = before.controller if after.controller is None else after.controller
    epoch = before.controller_epoch
    return replace(after, partitions=tuple(partitions), controller=controller, controller_epoch=epoch)


def _compare_states(before: InitialState, after: InitialState, at: int, number: int) -> Iterator[Event]:
    if (after.controller, after.controller_epoch) != (before.controller, before.controller_epoch):
        yield Event(at, EventKind.CONTROLLER_CHANGE, after.controller, value=after.controller_epoch, offset=number)
    for broker in sorted(before.live - after.live):
        is_shut_down = int(broker in after.shut_down)
        yield Event(at, EventKind.BROKER_FENCED, broker, value=is_shut_down, offset=number)
    for broker in sorted(after.live - before.live):
        yield Event(at, EventKind.BROKER_UNFENCED, broker, offset=number)
    old_partitions = {one.key: one for one in before.partitions}
    for key in sorted(old_partitions.keys() - {one.key for one in after.partitions}):
        yield Event(at, EventKind.REMOVE_PARTITION, partition=key, offset=number)
    for one in after.partitions:
        old = old_partitions.get(one.key)
        if old is None or _without_offsets(one) != _without_offsets(old):
            yield _make_record(one, old, at, number)
        yield from _compare_offsets(one, old, at, number)


def _without_offsets(one: InitialPartition) -> InitialPartition:
    return replace(one, leos=(), hws=()) if one.leos or one.hws else one


def _compare_offsets(one: InitialPartition, old: InitialPartition | None, at: int, number: int) -> Iterator[Event]:
    """Yield events for offsets that have changed; those that are no longer known stay as they were."""
    if old is not None and (one.leos, one.hws, one.replicas) == (old.leos, old.hws, old.replicas):
        return
    old_offsets = {} if old is None else _list_offsets(old)
    for broker, (leo, hw) in _list_offsets(one).items():
        old_leo, old_hw = old_offsets.get(broker, (None, None))
        leo, hw = (None if leo == old_leo else leo), (None if hw == old_hw else hw)
        if leo is not None or hw is not None:
            yield Event(at, EventKind.REPLICA_OFFSETS, broker, one.key, leo=leo, hw=hw, offset=number)


def _list_offsets(one: InitialPartition) -> dict[int, tuple[int | None, int | None]]:
    """Return {broker: (log end offset, high watermark)}."""
    unknown = (None,) * len(one.replicas)
    return dict(zip(one.replicas, zip(one.leos or unknown, one.hws or unknown, strict=True), strict=True))


def _make_record(one: InitialPartition, old: InitialPartition | None, at: int, number: int) -> Event:
    """Return what has changed of a partition; where no source shows epochs, a new leader increments the epoch."""
    has_epoch = one.leader_epoch > 0 or (old is not None and old.leader_epoch > 0)
    is_new_leader = old is None or one.leader != old.leader or one.leader_epoch != old.leader_epoch
    return Event(
        at,
        EventKind.PARTITION_RECORD,
        partition=one.key,
        replicas=one.replicas if old is None or one.replicas != old.replicas else None,
        isr=one.isr,
        elr=one.elr if old is None or one.elr != old.elr else None,
        last_known=one.last_known if old is None or one.last_known != old.last_known else None,
        adding=one.adding if old is None or one.adding != old.adding else None,
        removing=one.removing if old is None or one.removing != old.removing else None,
        leader=(-1 if one.leader is None else one.leader) if is_new_leader else None,
        leader_epoch=one.leader_epoch if has_epoch or old is None else -1,
        is_full_record=old is None,
        offset=number,
    )
