"""What has to be right before a plan is carried out: the cluster, its topics, its brokers, and room on their disks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pipelines.errors import SourceError
from pipelines.execution.cluster_view import SILENCE_REMEDY, ClusterView, describe_silence, name_partitions
from pipelines.execution.plan_waves import PlanWaves
from pipelines.execution.replica_sizes import LogDirs, list_replica_sizes
from pipelines.live.kafka_connection import KafkaConnection, KafkaFault, Key
from pipelines.plan_files.plan_reader import StoredPlan
from udfs.failures.disk_limits import FULL_RATIO
from udfs.failures.volumes import Volume, choose_emptiest, list_volumes
from udfs.plurals import count_of, join_names


class WaveWork(NamedTuple):
    """What a wave does. copied_bytes: None where no size is known."""

    wave: int
    partitions: int
    copies: int
    copied_bytes: int | None


def check_identity(plan: StoredPlan, view: ClusterView, servers: str) -> None:
    """Check that this is the cluster that the plan was made for. Raises: SourceError."""
    cluster_id = view.state.cluster_id
    if plan.kafka_cluster_id and cluster_id and plan.kafka_cluster_id != cluster_id:
        problem = f"this is cluster {cluster_id}, but the plan is for cluster {plan.kafka_cluster_id}"
        raise SourceError(servers, problem, "Name a broker of that cluster, or make a plan for this one")


def check_topics(plan: StoredPlan, view: ClusterView, servers: str) -> None:
    """Check that the topics are those that the plan was made for. Raises: SourceError."""
    for topic, topic_id in plan.topic_ids.items():
        if view.is_recreated(topic, plan.topic_ids):
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


def find_problems(
    steps: PlanWaves,
    view: ClusterView,
    log_dirs: LogDirs,
    permissions: Sequence[str],
    max_disk_ratio: float = FULL_RATIO,
) -> list[str]:
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
        silent = set(view.state.silent_brokers)
        reasons = {broker: "fenced" if broker in fenced else "not registered" for broker in down}
        reasons |= dict.fromkeys(silent & reasons.keys(), "does not answer")
        states = ", ".join(f"{broker} ({reason})" for broker, reason in reasons.items())
        problems.append(f"brokers that the rest of the plan needs are down: {states}. Start them, or make a new plan")
    stuck = [
        key
        for key, (_, after) in _list_rest(steps, view).items()
        if not view.live_brokers.isdisjoint({*view.partitions[key].offline}.intersection(after))
    ]
    if stuck:
        count = count_of(len(stuck), "partition")
        text = f"the plan leaves replicas of {count} in failed log dirs ({name_partitions(stuck)}), so that Kafka "
        problems.append(f"{text}would not end their reassignments. Make a plan with --goal repair first")
    return problems + _find_full_disks(steps, view, log_dirs, max_disk_ratio)


def find_lost_places(steps: PlanWaves, view: ClusterView, connection: KafkaConnection) -> str | None:
    """Say which failed log dirs forbid to roll a plan back; None without any.

    Which of the replicas that a rollback copies back to a broker were in its failed log dir is no longer shown, and
    Kafka would never finish these.
    """
    keys: dict[int, list[Key]] = {}
    for key, one in steps.partitions.items():
        if (partition := view.partitions.get(key)) is not None:
            for broker in set(one.lists[0]) - set(partition.replicas):
                keys.setdefault(broker, []).append(key)
    for broker in sorted(keys.keys() & view.live_brokers):
        with suppress(KafkaFault):  # the user may not see log dirs
            if failed := [one["log_dir"] for one in connection.describe_log_dirs(broker) if one.get("error")]:
                count = count_of(len(keys[broker]), "partition")
                return (
                    f"log dir {failed[0]} of broker {broker} failed, and the rollback would copy {count} back to that "
                    f"broker ({name_partitions(keys[broker])}), which Kafka may never finish. Replace the disk first"
                )
    return None


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


def _list_online(log_dirs: LogDirs, broker: int) -> list[dict[str, Any]]:
    """List the log dirs of a broker that have not failed; bytes that it does not know, as -1 says, are None."""
    unknown = {"usable_bytes": -1, "total_bytes": -1}
    return [
        {**one, **{name: None if one.get(name, -1) < 0 else one[name] for name in unknown}}
        for one in log_dirs.get(broker, ())
        if not one.get("error")
    ]


def find_unchecked_disks(steps: PlanWaves, view: ClusterView, log_dirs: LogDirs) -> list[str]:
    """Return sentences on the log dirs that failed, and on those of unknown room, of brokers that get replicas."""
    failed, unknown = [], []
    for broker in sorted(_list_copies(steps, view, log_dirs)):
        failed += [f"{one['log_dir']} of broker {broker}" for one in log_dirs.get(broker, ()) if one.get("error")]
        online = _list_online(log_dirs, broker)
        lacking = [one["log_dir"] for one in online if None in (one["usable_bytes"], one["total_bytes"])]
        unknown += [f"broker {broker}"] * (len(lacking) == len(online))
        unknown += [f"{path} of broker {broker}" for path in lacking if len(lacking) < len(online)]
    texts = [f"log dir {name} failed: no replica can be in it until its disk is replaced" for name in failed]
    if unknown:
        texts.append(f"free bytes of log dirs are not known: {join_names(unknown, 5)}. Check that they have room")
    return texts


class _Copy(NamedTuple):
    """A replica that the rest of a plan copies to a broker."""

    log_dir: str | None  # that the plan chooses
    size_bytes: int  # still to be copied


def _list_copies(steps: PlanWaves, view: ClusterView, log_dirs: LogDirs) -> dict[int, list[_Copy]]:
    """List what the rest of a plan copies, by broker."""
    sizes = _measure_partitions(log_dirs)
    present = {(one.broker, one.key): one.size_bytes for one in list_replica_sizes(log_dirs)}
    copies: dict[int, list[_Copy]] = {}
    for key, (before, after) in _list_rest(steps, view).items():
        for broker in set(after) - set(before):
            size = sizes.get(key, 0) - present.get((broker, key), 0)
            copies.setdefault(broker, []).append(_Copy(steps.partitions[key].log_dirs.get(broker), size))
    return copies


def _find_full_disks(steps: PlanWaves, view: ClusterView, log_dirs: LogDirs, max_disk_ratio: float) -> list[str]:
    """Return a sentence for each disk without room for what the rest of the plan copies to it."""
    problems = []
    for broker, copies in sorted(_list_copies(steps, view, log_dirs).items()):
        online = _list_online(log_dirs, broker)
        failed = {one["log_dir"] for one in log_dirs.get(broker, ()) if one.get("error")}
        problems += [
            f"log dir {path} of broker {broker} failed, and the plan needs it. Make a new plan"
            for path in sorted(failed.intersection(copy.log_dir for copy in copies))
        ]
        for volume, size in _sum_by_volume(online, copies):
            total, free = volume.total_bytes, volume.free_bytes
            if total is not None and free is not None and total - free + size > max_disk_ratio * total:
                is_all = len(volume.log_dirs) == len(online)
                disks = "its disks" if is_all else f"log dir {online[volume.log_dirs[0]]['log_dir']}"
                problems.append(
                    f"broker {broker} has {free / 1e9:.1f} GB left on {disks}, too little for the "
                    f"{size / 1e9:.1f} GB that the plan copies to it. Free space, or make a plan with --max-bytes"
                )
    return problems


def _sum_by_volume(online: Sequence[Mapping[str, Any]], copies: Sequence[_Copy]) -> Iterator[tuple[Volume, int]]:
    """Yield the volumes of a broker's log dirs, and the bytes that are copied to each.

    Where the plan names no log dir, Kafka puts a replica into the one with the fewest.
    """
    paths = [log_dir["log_dir"] for log_dir in online]
    counts = [sum(len(topic["partitions"]) for topic in log_dir["topics"]) for log_dir in online]
    added = [0] * len(online)
    unplaced = [copy for copy in copies if copy.log_dir is None]
    for copy in copies:
        if copy.log_dir in paths:
            counts[paths.index(copy.log_dir)] += 1
            added[paths.index(copy.log_dir)] += copy.size_bytes
    for copy, at in zip(unplaced, choose_emptiest(counts, len(unplaced) if online else 0), strict=bool(online)):
        added[at] += copy.size_bytes
    for volume in list_volumes(online, {}):
        yield volume, sum(added[i] for i in volume.log_dirs)
