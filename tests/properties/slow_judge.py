"""A slow judge of plans for sick clusters, one partition after the other. It shares no code with the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.properties.sick_clusters import Key, Planned, SickCluster, Waves

REJECTED = {
    *("unknown_partition", "repeated_partition", "empty_list", "repeated_replica", "log_dirs_length"),
    *("unknown_broker", "unusable_log_dir", "cordoned_log_dir", "down_broker", "cordoned_broker", "under_way"),
}
HARMFUL = {
    *("last_copy", "drops_in_sync", "no_source", "cannot_complete", "replication_factor", "fewer_racks"),
    *("disk_overflow", "log_dir_overflow"),
}
Places = dict[int, dict[str, bool]]  # whether the log dirs of the brokers that show theirs are online, by path


@dataclass(frozen=True)
class Rules:
    """asked: the replication factor that the plan is to give. emptied: brokers that it is to empty."""

    asked: int | None = None
    waits_for_all: bool = True
    drops_at_once: bool = False
    emptied: frozenset[int] = frozenset()
    incomplete: frozenset[str] = frozenset()  # topics of which some partitions may not be shown


@dataclass
class State:
    """A partition between two steps."""

    replicas: list[int]
    isr: list[int]  # live members
    leader: int | None


@dataclass
class Step:
    """A step of a partition."""

    wave: int  # from 1
    planned: Planned
    before: State
    after: State
    copied: list[int]
    awaited: list[int]  # not copied, and out of sync before


def list_rejected(
    cluster: SickCluster, waves: Waves, places: Places, rules: Rules
) -> Iterator[tuple[str, str, int, Planned]]:
    """Yield what Kafka and its tools reject, whatever state the cluster is in: fault, partition, wave and entry."""
    for number, wave in enumerate(waves, 1):
        seen: set[Key] = set()
        for planned in wave:
            if fault := _find_rejection(cluster, planned, seen, places, rules):
                yield fault, f"{planned.key[0]}-{planned.key[1]}", number, planned
            seen.add(planned.key)


def _find_rejection(cluster: SickCluster, planned: Planned, seen: set[Key], places: Places, rules: Rules) -> str | None:
    key, replicas, paths = planned
    if key in seen:
        return "repeated_partition"
    if key not in cluster.partitions:
        return "unshown_partition" if key[0] in rules.incomplete else "unknown_partition"
    if not replicas:
        return "empty_list"
    if any(replicas.count(broker) > 1 for broker in replicas):
        return "repeated_replica"
    if paths is not None and len(paths) != len(replicas):
        return "log_dirs_length"
    if any(broker not in cluster.racks for broker in replicas):
        return "unknown_broker"
    for broker, path in zip(replicas, paths or (), strict=False):
        is_there = broker not in places or places[broker].get(path, False)
        if path != "any" and (not is_there or broker in cluster.failed.get(key, ())):
            return "unusable_log_dir"
        if (broker, path) in cluster.cordoned_dirs and not (cluster.rejects_cordoned and broker in cluster.cordoned):
            return "cordoned_log_dir"
    return None


def list_steps(cluster: SickCluster, waves: Waves, places: Places, rules: Rules) -> dict[Key, list[Step]]:
    """Carry out what Kafka may accept, as it does. Returns: the steps of each partition."""
    rejected = {(wave, id(planned)) for _, _, wave, planned in list_rejected(cluster, waves, places, rules)}
    steps: dict[Key, list[Step]] = {}
    for number, wave in enumerate(waves, 1):
        for planned in wave:
            if (number, id(planned)) not in rejected:
                own = steps.setdefault(planned.key, [])
                state = own[-1].after if own else get_state(cluster, planned.key)
                own.append(_carry_out(cluster, planned, state, number, rules, is_first=not own))
    return steps


def get_state(cluster: SickCluster, key: Key) -> State:
    """Return the state of a partition now."""
    one = cluster.partitions[key]
    usable = set(cluster.live) - cluster.failed.get(key, frozenset())
    return State(list(one.replicas), [broker for broker in one.isr if broker in usable], one.leader)


def _carry_out(
    cluster: SickCluster, planned: Planned, before: State, number: int, rules: Rules, *, is_first: bool
) -> Step:
    key, new, _ = planned
    usable = set(cluster.live) - cluster.failed.get(key, frozenset())
    being_added = set(cluster.partitions[key].adding) if is_first else set()
    copied = [broker for broker in new if broker not in before.replicas or broker in being_added]
    isr = [b for b in new if b in usable and (b in before.isr or (b in copied and before.isr))]
    dropped = [broker for broker in before.replicas if broker not in new]
    waits = len(dropped) > len(copied) or (rules.waits_for_all and bool(copied or dropped))
    awaited = [b for b in new if waits and b not in isr and b not in copied]
    if before.isr and not rules.drops_at_once:
        isr = [b for b in new if b in isr or (b in awaited and b in usable)]
    leader = before.leader if before.leader in isr else next(iter(isr), None)
    return Step(number, planned, before, State(list(new), isr, leader), copied, awaited)


def judge_slowly(
    cluster: SickCluster, waves: Waves, rules: Rules, places: Places | None = None
) -> dict[tuple[str, object], int]:
    """Judge a plan: the first wave, from 1, by fault and partition; of what is rejected in any state, by fault."""
    first: dict[tuple[str, object], int] = {}
    rejected = list(list_rejected(cluster, waves, places or {}, rules))
    for fault, name, _, _ in rejected:
        first[fault, name] = min(number for other, _, number, _ in rejected if other == fault)
    for key, steps in list_steps(cluster, waves, places or {}, rules).items():
        for fault, number in _judge_partition(cluster, key, steps, rules):
            first.setdefault((fault, key), number)
    return first


def _judge_partition(cluster: SickCluster, key: Key, steps: Sequence[Step], rules: Rules) -> Iterator[tuple[str, int]]:
    topic = next(topic for topic in cluster.topics if topic.name == key[0])
    one, live = topic.partitions[key[1]], set(cluster.live)
    failed, now = cluster.failed.get(key, frozenset()), steps[0].before
    last_copies = set(one.isr) - (live - failed) if not now.isr else set()
    for step in steps:
        number, new, copied, state, after = step.wave, step.planned.replicas, step.copied, step.before, step.after
        surely = [broker for broker in after.isr if broker not in step.awaited]
        if not live.issuperset(new):
            yield "down_broker", number
        if cluster.rejects_cordoned and cluster.cordoned.intersection(new):
            yield "cordoned_broker", number
        if one.is_reassigned:
            yield "under_way", number
        dropped = [broker for broker in state.replicas if broker not in new]
        dropped_in_sync = [broker for broker in dropped if broker in state.isr]
        if (dropped_in_sync and not surely) or (not state.isr and last_copies.intersection(dropped)):
            yield "last_copy", number
        if dropped_in_sync and surely:
            needed = cluster.find_min_isr(topic.min_isr, len(new))
            left = len(surely if rules.drops_at_once else {*surely, *step.awaited, *copied})
            most = max(len(new), len(steps[-1].planned.replicas))  # what one wave drops, a later one may bring back
            if left < min(len(state.isr), most) or left < min(needed, len(state.isr)):
                yield "drops_in_sync", number
        if cluster.unknown.intersection(copied):
            yield "unknown_state", number
        if not state.isr and copied:
            yield "no_source", number
        if state.isr and live & failed & {*step.awaited, *copied}:
            yield "cannot_complete", number
        if (live - failed).intersection(step.awaited):
            yield "waits_for_lagging", number
        yield from ((fault, number) for fault in _find_weaknesses(cluster, topic.min_isr, now, state, after, copied))
    yield from ((fault, steps[-1].wave) for fault in _judge_last(cluster, topic.factor, now, steps[-1].after, rules))


def _find_weaknesses(
    cluster: SickCluster, min_isr: int, now: State, before: State, after: State, copied: Sequence[int]
) -> Iterator[str]:
    both = {*before.replicas, *copied}
    least, most = (cluster.find_min_isr(min_isr, len(one)) for one in (before.replicas, both))
    if copied and before.isr and least <= len(before.isr) < most:
        yield "blocked_while_copying"
    old, new = (_find_weaknesses_of(cluster, min_isr, state) for state in (now, after))
    if after.isr:
        worse = {name for name, is_so in new.items() if is_so and not old[name]}
        # What takes a partition offline also blocks it.
        worse -= {f"{unit}_blocks" for unit in ("broker", "rack") if new[f"{unit}_takes_offline"]}
        yield from worse


def _find_weaknesses_of(cluster: SickCluster, min_isr: int, state: State) -> dict[str, bool]:
    """Return what a partition does not bear, or has not, in a state."""
    needed, isr = cluster.find_min_isr(min_isr, len(state.replicas)), state.isr
    racks: set[str | None] = {cluster.racks[broker] for broker in isr}
    known = [cluster.racks[broker] for broker in cluster.live]
    has_racks = None not in known and len({*cluster.racks.values()} - {None}) > 1
    left = min((sum(cluster.racks[broker] != rack for broker in isr) for rack in racks), default=0)
    return {
        "under_min_isr": len(isr) < needed,
        "broker_takes_offline": len(isr) < 2,
        "broker_blocks": len(isr) < 2 or len(isr) - 1 < needed,
        "rack_takes_offline": has_racks and not left,
        "rack_blocks": has_racks and (not left or left < needed),
    }


def _judge_last(cluster: SickCluster, factor: int, now: State, last: State, rules: Rules) -> Iterator[str]:
    size = len(last.replicas)
    if size == 1 < len(now.replicas):
        yield "single_replica"
    if size not in (len(now.replicas), factor, rules.asked):
        yield "replication_factor"
    live = set(cluster.live)
    if any(cluster.racks[broker] is None for broker in live):
        return
    in_sync = {cluster.racks[broker] for broker in now.isr}
    listed = {cluster.racks[broker] for broker in now.replicas} - {None}
    after = {cluster.racks[broker] for broker in last.replicas}
    staying = (live - rules.emptied) | set(last.replicas)
    most = min(size, len({cluster.racks[broker] for broker in staying}))
    if len(after) < min(len(in_sync), most):
        yield "fewer_racks"
    elif len(after) < min(len(listed), most):
        yield "lagging_rack"
