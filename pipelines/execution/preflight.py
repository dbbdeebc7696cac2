"""What has to be right before a plan is carried out: the cluster, its topics, its brokers, and room on their disks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.errors import SourceError
from pipelines.execution.cluster_view import SILENCE_REMEDY, ClusterView, describe_silence, name_partitions
from pipelines.execution.plan_waves import PlanWaves
from pipelines.execution.replica_sizes import LogDirs, list_replica_sizes
from pipelines.live.kafka_connection import Key
from pipelines.plan_files.plan_reader import StoredPlan
from udfs.plurals import count_of, join_names

_RESERVE = 0.05  # of a disk's bytes, which a plan leaves free


class WaveWork(NamedTuple):
    """What a wave does. copied_bytes: None where no size is known."""

    wave: int
    partitions: int
    copies: int
    copied_bytes: int | None


class DiskRoom(NamedTuple):
    """Bytes of a broker's log dirs; None where its version of Kafka does not show them (before 3.3)."""

    usable: int | None
    total: int | None


def check_identity(plan: StoredPlan, view: ClusterView, servers: str) -> None:
    """Check that this is the cluster that the plan was made for. Raises: SourceError."""
    cluster_id = view.state.cluster_id
    if plan.kafka_cluster_id and cluster_id and plan.kafka_cluster_id != cluster_id:
        problem = f"this is cluster {cluster_id}, but the plan is for cluster {plan.kafka_cluster_id}"
        raise SourceError(servers, problem, "Name a broker of that cluster, or make a plan for this one")


def check_topics(plan: StoredPlan, view: ClusterView, servers: str) -> None:
    """Check that the topics are those that the plan was made for. Raises: SourceError."""
    for topic, topic_id in plan.topic_ids.items():
        if view.topic_ids.get(topic) not in (None, topic_id):
            problem = (
                f"topic {topic} has id {view.topic_ids[topic]}, but had {topic_id}: it was deleted and created again"
            )
            raise SourceError(servers, problem, "Make a new plan")


def check_answers(unanswered: Mapping[int, str], servers: str) -> None:
    """Check that all live brokers answer this client, and not only each other. Raises: SourceError.

    Throttles are set on the brokers themselves, and any of them may have to pass a request on to the controller.
    """
    if unanswered:
        raise SourceError(servers, describe_silence(unanswered), f"Nothing was changed. {SILENCE_REMEDY}")


def find_problems(steps: PlanWaves, view: ClusterView, log_dirs: LogDirs, permissions: Sequence[str]) -> list[str]:
    """Return what forbids to carry out a plan, as sentences. permissions: those that the user lacks."""
    problems = []
    if permissions:
        problems.append(f"the user lacks permissions: {join_names(permissions, 5)}. Grant them with kafka-acls")
    if foreign := steps.list_foreign(view.reassignments):
        count = count_of(len(foreign), "partition")
        problems.append(f"{count} are being reassigned beside the plan ({name_partitions(foreign)}). Wait for them")
    fenced = {broker.id for broker in view.state.brokers if broker.is_fenced}
    needed = {broker for one in _list_next_lists(steps, view) for broker in one}
    if down := sorted(needed - view.live_brokers):
        states = ", ".join(f"{broker} ({'fenced' if broker in fenced else 'not registered'})" for broker in down)
        problems.append(f"brokers that the rest of the plan needs are down: {states}. Start them, or make a new plan")
    return problems + _find_full_disks(steps, view, log_dirs)


def list_work(steps: PlanWaves, view: ClusterView, log_dirs: LogDirs) -> list[WaveWork]:
    """List what each wave has still to do."""
    sizes = _measure_partitions(log_dirs)
    work = []
    for wave in range(1, steps.waves + 1):
        partitions = copies = copied = 0
        for key, lists in _list_rest(steps, view, wave).items():
            partitions += 1
            before, after = lists
            added = len(set(after) - set(before))
            copies += added
            copied += added * sizes.get(key, 0)
        work.append(WaveWork(wave, partitions, copies, copied if sizes else None))
    return work


def _list_next_lists(steps: PlanWaves, view: ClusterView) -> Iterator[tuple[int, ...]]:
    """Yield the lists that partitions still have to get."""
    for key, one in steps.partitions.items():
        if (partition := view.partitions.get(key)) is not None:
            move = view.reassignments.get(key)
            index = one.find(partition.replicas if move is None else move.target)
            if index is not None:
                yield from one.lists[index + (move is None) :]


def _list_rest(
    steps: PlanWaves, view: ClusterView, wave: int | None = None
) -> dict[Key, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the lists now and at the end, or before and after a wave, of the partitions that are not there yet."""
    rest = {}
    for key, one in steps.partitions.items():
        partition = view.partitions.get(key)
        if partition is None:
            continue
        move = view.reassignments.get(key)
        index = one.find(partition.replicas if move is None else move.target)
        if index is None:
            continue
        index = max(0, index - (move is not None))
        if wave is None and index < len(one.waves):
            rest[key] = (one.lists[index], one.lists[-1])
        elif wave in one.waves and (number := one.waves.index(wave)) >= index:
            rest[key] = (one.lists[number], one.lists[number + 1])
    return rest


def _measure_partitions(log_dirs: LogDirs) -> dict[Key, int]:
    """Return the size of the largest replica of each partition, in bytes."""
    sizes: dict[Key, int] = {}
    for one in list_replica_sizes(log_dirs):
        sizes[one.key] = max(sizes.get(one.key, 0), one.size_bytes)
    return sizes


def measure_disk(log_dirs: Sequence[Mapping[str, Any]]) -> DiskRoom:
    """Sum up the bytes of a broker's log dirs."""
    usable, total = ([log_dir.get(name, -1) for log_dir in log_dirs] for name in ("usable_bytes", "total_bytes"))
    is_known = bool(log_dirs) and min(*usable, *total) >= 0
    return DiskRoom(sum(usable), sum(total)) if is_known else DiskRoom(None, None)


def _find_full_disks(steps: PlanWaves, view: ClusterView, log_dirs: LogDirs) -> list[str]:
    """Return a sentence for each broker whose disk has no room for what the rest of the plan copies to it."""
    sizes = _measure_partitions(log_dirs)
    present = {(one.broker, one.key): one.size_bytes for one in list_replica_sizes(log_dirs)}
    added: dict[int, int] = {}
    for key, (before, after) in _list_rest(steps, view).items():
        for broker in set(after) - set(before):
            added[broker] = added.get(broker, 0) + sizes.get(key, 0) - present.get((broker, key), 0)
    problems = []
    for broker, count in sorted(added.items()):
        room = measure_disk(log_dirs.get(broker, ()))
        if room.usable is not None and room.total is not None and count > room.usable - _RESERVE * room.total:
            problems.append(
                f"broker {broker} has {room.usable / 1e9:.1f} GB left on its disks, too little for the "
                f"{count / 1e9:.1f} GB that the plan copies to it. Free space, or make a plan with --max-bytes"
            )
    return problems
