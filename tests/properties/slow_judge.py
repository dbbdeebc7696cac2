"""A slow judge of plans for sick clusters, one partition after the other. It shares no code with the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.properties.sick_clusters import Key, SickCluster

REJECTED = {"down_broker", "under_way"}
HARMFUL = {"last_copy", "drops_in_sync", "no_source", "cannot_complete", "replication_factor", "fewer_racks"}


@dataclass(frozen=True)
class Rules:
    """asked: the replication factor that the plan is to give. emptied: brokers that it is to empty."""

    asked: int | None = None
    waits_for_all: bool = True
    emptied: frozenset[int] = frozenset()


@dataclass
class _State:
    replicas: list[int]
    isr: list[int]  # live members


def judge_slowly(
    cluster: SickCluster, waves: Sequence[Mapping[Key, list[int]]], rules: Rules
) -> dict[tuple[str, Key], int]:
    """Judge a plan: the first wave, from 1, by fault and partition."""
    first: dict[tuple[str, Key], int] = {}
    for key in {key for wave in waves for key in wave}:
        steps = [(number, wave[key]) for number, wave in enumerate(waves, 1) if key in wave]
        for fault, number in _judge_partition(cluster, key, steps, rules):
            first.setdefault((fault, key), number)
    return first


def _judge_partition(
    cluster: SickCluster, key: Key, steps: Sequence[tuple[int, list[int]]], rules: Rules
) -> Iterator[tuple[str, int]]:
    topic = next(topic for topic in cluster.topics if topic.name == key[0])
    one = topic.partitions[key[1]]
    live = set(cluster.live)
    now = _State(list(one.replicas), [broker for broker in one.isr if broker in live])
    state = now
    last_copies = set(one.isr) - live if not now.isr else set()
    for index, (number, new) in enumerate(steps):
        if not live.issuperset(new):
            yield "down_broker", number
        if one.is_reassigned:
            yield "under_way", number
        being_added = set(one.adding) if index == 0 else set()
        copied = [broker for broker in new if broker not in state.replicas or broker in being_added]
        dropped = [broker for broker in state.replicas if broker not in new]
        after = _State(new, [b for b in new if b in live and (b in state.isr or (b in copied and state.isr))])
        dropped_in_sync = [broker for broker in dropped if broker in state.isr]
        if (dropped_in_sync and not after.isr) or (not state.isr and last_copies.intersection(dropped)):
            yield "last_copy", number
        if dropped_in_sync and after.isr:
            needed = min(topic.min_isr, len(new))
            left = len(after.isr)
            if left < min(len(state.isr), len(new)) or left < min(needed, len(state.isr)):
                yield "drops_in_sync", number
        if not state.isr and copied:
            yield "no_source", number
        stays_out = [b for b in new if b in live and b not in after.isr and b not in copied]
        if (copied or dropped) and stays_out and (rules.waits_for_all or len(dropped) > len(copied)):
            yield "waits_for_lagging", number
        yield from ((fault, number) for fault in _find_weaknesses(cluster, topic.min_isr, now, state, after, copied))
        state = after
    yield from ((fault, steps[-1][0]) for fault in _judge_last(cluster, topic.factor, now, state, rules))


def _find_weaknesses(
    cluster: SickCluster, min_isr: int, now: _State, before: _State, after: _State, copied: Sequence[int]
) -> Iterator[str]:
    both = {*before.replicas, *copied}
    if copied and before.isr and min(min_isr, len(before.replicas)) <= len(before.isr) < min(min_isr, len(both)):
        yield "blocked_while_copying"
    old, new = (_find_weaknesses_of(cluster, min_isr, state) for state in (now, after))
    if after.isr:
        worse = {name for name, is_so in new.items() if is_so and not old[name]}
        # What takes a partition offline also blocks it.
        worse -= {f"{unit}_blocks" for unit in ("broker", "rack") if new[f"{unit}_takes_offline"]}
        yield from worse


def _find_weaknesses_of(cluster: SickCluster, min_isr: int, state: _State) -> dict[str, bool]:
    """Return what a partition does not bear, or has not, in a state."""
    needed, isr = min(min_isr, len(state.replicas)), state.isr
    racks: set[str | None] = {cluster.racks[broker] for broker in isr}
    known = [cluster.racks[broker] for broker in cluster.live]
    has_racks = None not in known and len({*cluster.racks.values()}) > 1
    left = min((sum(cluster.racks[broker] != rack for broker in isr) for rack in racks), default=0)
    return {
        "under_min_isr": len(isr) < needed,
        "broker_takes_offline": len(isr) < 2,
        "broker_blocks": len(isr) < 2 or len(isr) - 1 < needed,
        "rack_takes_offline": has_racks and not left,
        "rack_blocks": has_racks and (not left or left < needed),
    }


def _judge_last(cluster: SickCluster, factor: int, now: _State, last: _State, rules: Rules) -> Iterator[str]:
    size = len(last.replicas)
    if size not in (len(now.replicas), factor, rules.asked):
        yield "replication_factor"
    live = set(cluster.live)
    if any(cluster.racks[broker] is None for broker in live):
        return
    before = {cluster.racks[broker] for broker in now.isr}
    after = {cluster.racks[broker] for broker in last.replicas}
    staying = (live - rules.emptied) | (live & set(last.replicas))
    if len(after) < min(len(before), size, len({cluster.racks[broker] for broker in staying})):
        yield "fewer_racks"
