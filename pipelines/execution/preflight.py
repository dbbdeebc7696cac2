"""What has to be right before a plan is carried out: the cluster, its topics, its brokers, and room on their disks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pipelines.config.capacity_file import match_disks, read_disk_capacities
from pipelines.errors import SourceError
from pipelines.execution.cluster_view import SILENCE_REMEDY, ClusterView, describe_silence, name_partitions
from pipelines.execution.copy_progress import LogDirs, get_replica_sizes
from pipelines.execution.planned_steps import Direction, Place, PlannedSteps, WaveTarget
from pipelines.execution.wave_window import ALL_WAVES, WaveRange, WaveWindow
from pipelines.live.kafka_connection import KafkaConnection, KafkaFault, Key
from pipelines.plan_files.fault_sentences import describe_changed, describe_running
from pipelines.plan_files.plan_reader import StoredPlan
from udfs.failures.disk_limits import Volume, choose_emptiest, compute_room, list_broker_disks
from udfs.failures.replica_logs import sum_logs
from udfs.wording import count_of, join_names

if TYPE_CHECKING:
    from pipelines.config.setting_sections import Settings
    from pipelines.ingest.snapshot_reader import Snapshot


class WaveWork(NamedTuple):
    """What a wave does. copied_bytes: None where no size is known. seconds: of the whole wave, None = not known."""

    wave: int
    keys: tuple[Key, ...]  # partitions
    copies: int
    copied_bytes: int | None
    seconds: float | None = None

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.keys)


class ClusterDisks(NamedTuple):
    """What is known of the disks of a running cluster."""

    log_dirs: LogDirs
    disks: Mapping[int, Sequence[Volume]]  # by broker, as list_broker_disks lists them
    sizes: Mapping[Key, int]  # bytes of partitions, as far as known: of the leader's log, which is copied
    max_disk_ratio: float  # share of a disk up to which replicas are copied to it


def measure_disks(snapshot: Snapshot, log_dirs: LogDirs, settings: Settings) -> ClusterDisks:
    """Measure the disks of a running cluster. log_dirs: as it shows them, as the snapshot does."""
    capacities = match_disks(read_disk_capacities(settings.capacity.file), snapshot.cluster_id)
    partitions, brokers = snapshot.partitions, snapshot.brokers["broker_id"].to_pylist()
    sums = sum_logs(partitions, snapshot.stray_logs, snapshot.brokers)
    disks = list_broker_disks(sums, snapshot.log_dirs, brokers, capacities, settings.plans.broker_bytes)
    rows = partitions.select(["topic", "partition", "size_bytes"]).to_pylist()
    sizes = {(row["topic"], row["partition"]): row["size_bytes"] for row in rows if row["size_bytes"] is not None}
    return ClusterDisks(log_dirs, disks, sizes, settings.capacity.max_disk_ratio)


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
    steps: PlannedSteps,
    view: ClusterView,
    disks: ClusterDisks,
    permissions: Sequence[str],
    waves: WaveRange = ALL_WAVES,
) -> list[str]:
    """Return what forbids to carry out these waves of a plan, as sentences. permissions: those that the user lacks."""
    problems = []
    if permissions:
        problems.append(f"the user lacks permissions: {join_names(permissions, 5)}. Grant them with kafka-acls")
    problems += describe_running(steps.list_foreign(view.reassignments))
    steps = steps.end_with(waves.last)  # what later waves need may come back until then
    fenced = {broker.id for broker in view.state.brokers if broker.is_fenced}
    rest = _list_rest(steps, view)
    needed = {broker for lists in rest.values() for after in lists[1:] for broker in after}
    if down := sorted(needed - view.live_brokers):
        silent = set(view.state.silent_brokers)
        reasons = {broker: "fenced" if broker in fenced else "not registered" for broker in down}
        reasons |= dict.fromkeys(silent & reasons.keys(), "does not answer")
        states = ", ".join(f"{broker} ({reason})" for broker, reason in reasons.items())
        problems.append(f"brokers that {waves.describe_needs()} are down: {states}. Start them, or make a new plan")
    stuck = [
        key
        for key, lists in rest.items()
        if not view.live_brokers.isdisjoint({*view.partitions[key].offline}.intersection(lists[-1]))
    ]
    if stuck:
        count = count_of(len(stuck), "partition")
        text = f"the plan leaves replicas of {count} in failed log dirs ({name_partitions(stuck)}), so that Kafka "
        problems.append(f"{text}would not end their reassignments. Make a plan with --goal repair first")
    return problems + _find_full_disks(steps, view, disks)


def list_irreversible(steps: PlannedSteps, view: ClusterView) -> set[Key]:
    """List partitions whose earlier replicas are on brokers that are down: Kafka takes no such list."""
    return {
        key
        for key, one in steps.partitions.items()
        if not view.live_brokers.issuperset(one.lists[0])
        and (partition := view.partitions.get(key)) is not None
        and partition.replicas != one.lists[0]
    }


def list_changed(
    steps: PlannedSteps, view: ClusterView, waves: WaveRange = ALL_WAVES, direction: Direction = Direction.APPLY
) -> list[Key]:
    """List the partitions of these waves with replicas that the plan does not know, or on their way to such."""
    chosen = (wave for wave in steps.list_waves(direction) if wave in waves)
    return sorted({key for wave in chosen for key in steps.list_left(wave, direction, view, (Place.CHANGED,))})


def explain_changed(changed: Sequence[Key], direction: Direction) -> str:
    """Say that partitions of a plan were changed by others, and what to do about it."""
    if direction is Direction.APPLY:
        return f"{describe_changed(changed)}. Make a new plan"
    was = "was" if len(changed) == 1 else "were"
    remedy = (
        "Roll back the plans that were executed later first, the last one first, then this one. What another tool has "
        "changed, return to its list in reassignment.json of this plan before, with kafka-reassign-partitions"
    )
    names = name_partitions(changed)
    return f"{count_of(len(changed), 'partition')} {was} changed after this plan ({names}). {remedy}"


def find_window_problem(
    steps: PlannedSteps, view: ClusterView, direction: Direction, window: WaveWindow, rate: int | None
) -> str | None:
    """Say why the waves of a night cannot be chosen so: one before them is not done, or their ends are not known."""
    waves = steps.list_waves(direction)
    chosen = [wave for wave in waves if wave in window.waves]
    ignored = list_irreversible(steps, view) if direction is Direction.ROLLBACK else set()
    for wave in waves[: waves.index(chosen[0])] if chosen else ():
        if left := steps.list_left(wave, direction, view).keys() - ignored:
            done = "done" if direction is Direction.APPLY else "rolled back"
            count = count_of(len(left), "partition")
            return f"wave {wave} is not {done} ({count} left: {name_partitions(left)}). Begin with it: --waves {wave}"
    if window.until is None:
        return None
    for wave in chosen:
        if steps.estimate_seconds(wave, rate) is None:
            remedy = "Name a rate with --throttle" if rate is None else "Leave out --until, or make a plan with sizes"
            return f"how long wave {wave} takes is not known, so --until cannot end before it. {remedy}"
    return None


def find_lost_places(steps: PlannedSteps, view: ClusterView, connection: KafkaConnection) -> str | None:
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


def list_work(
    steps: PlannedSteps,
    view: ClusterView,
    sizes: Mapping[Key, int],
    rate: int | None = None,
    direction: Direction = Direction.APPLY,
    present: Mapping[tuple[int, Key], int] | None = None,
) -> list[WaveWork]:
    """List what each wave has still to do. sizes: of partitions, as far as known; rate: None = no throttle.

    present: bytes that brokers have of partitions; None = nothing of what is still to be copied.
    """
    work, ignored = [], list_irreversible(steps, view) if direction is Direction.ROLLBACK else set()
    existing = {} if present is None or steps.moves_log_dirs else present
    for wave in steps.list_waves(direction):
        rest = {key: one for key, one in steps.list_left(wave, direction, view).items() if key not in ignored}
        copies, shares = list[tuple[int, int, int]](), dict[Key, float]()
        for key, target in rest.items():
            whole = _list_wave_copies(steps, view, key, target, sizes)
            left = [(source, broker, max(size - existing.get((broker, key), 0), 0)) for source, broker, size in whole]
            total = sum(size for *_, size in whole)
            shares[key] = sum(size for *_, size in left) / total if total else 1.0
            copies += left
        seconds = steps.estimate_seconds(wave, rate, shares)
        if direction is Direction.ROLLBACK:
            ways = Counter[tuple[bool, int]]()
            for source, broker, size in copies:
                ways.update({(False, source): size, (True, broker): size})
            seconds = max(ways.values(), default=0) / rate if rate and sizes else None
        copied = sum(size for *_, size in copies) if sizes else None
        work.append(WaveWork(wave, tuple(rest), len(copies), copied, seconds))
    return work


def _list_wave_copies(
    steps: PlannedSteps, view: ClusterView, key: Key, target: WaveTarget, sizes: Mapping[Key, int]
) -> list[tuple[int, int, int]]:
    """List what a wave has still to copy of a partition: from which broker to which one, and how many bytes."""
    if steps.moves_log_dirs:
        paths = steps.list_dirs(key, target.after).items()
        logs = [(broker, view.logs.get(broker, {}).get(key), path) for (*_, broker), path in paths]
        return [(broker, broker, log.size) for broker, log, path in logs if log is not None and log.path != path]
    before, after = (steps.partitions[key].lists[index] for index in target)
    leader = view.partitions[key].leader
    source = leader if leader in before else before[0]
    return [(source, broker, sizes.get(key, 0)) for broker in after if broker not in before]


def _list_rest(steps: PlannedSteps, view: ClusterView) -> dict[Key, Sequence[tuple[int, ...]]]:
    """Return the lists of the partitions that are not there yet, from the one of now to the last of the plan."""
    rest: dict[Key, Sequence[tuple[int, ...]]] = {}
    for key, one in steps.partitions.items():
        if (partition := view.partitions.get(key)) is not None:
            move = view.reassignments.get(key)
            done = one.count_steps_done(partition.replicas, None if move is None else move.target)
            if done is not None and done < len(one.waves):
                rest[key] = one.lists[done:]
    return rest


def find_unchecked_disks(steps: PlannedSteps, view: ClusterView, disks: ClusterDisks) -> list[str]:
    """Return sentences on the log dirs that failed, and on those of unknown room, of brokers that get replicas."""
    failed, unknown = [], []
    for broker in sorted(_list_copies(steps, view, disks)):
        failed += [f"{path} of broker {broker}" for path in _list_log_dirs(disks, broker, has_failed=True)]
        own = disks.disks.get(broker, ())
        lacking = [path for disk in own if not disk.is_known for path in disk.log_dirs]
        if any(disk.is_known for disk in own):
            unknown += [f"{path} of broker {broker}" for path in lacking]
        else:
            unknown.append(f"broker {broker}")
    texts = [f"log dir {name} failed: no replica can be in it until its disk is replaced" for name in failed]
    if unknown:
        texts.append(f"free bytes of log dirs are not known: {join_names(unknown, 5)}. Check that they have room")
    return texts


def _list_log_dirs(disks: ClusterDisks, broker: int, *, has_failed: bool) -> dict[str, int]:
    """Return the log dirs of a broker that have failed, or that may get replicas, with their number of logs."""
    return {
        one["log_dir"]: sum(len(topic["partitions"]) for topic in one["topics"])
        for one in disks.log_dirs.get(broker, ())
        if bool(one.get("error")) is has_failed and (has_failed or not one.get("is_cordoned"))
    }


class _Copy(NamedTuple):
    """A replica that the rest of a plan copies to a broker."""

    log_dir: str | None  # that the plan chooses
    size_bytes: int  # still to be copied


def _list_copies(steps: PlannedSteps, view: ClusterView, disks: ClusterDisks) -> dict[int, list[_Copy]]:
    """List what the rest of a plan copies, by broker."""
    present = get_replica_sizes(disks.log_dirs)
    copies: dict[int, list[_Copy]] = {}
    for key, lists in _list_rest(steps, view).items():
        for broker in set(lists[-1]) - set(lists[0]):
            size = max(disks.sizes.get(key, 0) - present.get((broker, key), 0), 0)
            copies.setdefault(broker, []).append(_Copy(steps.partitions[key].log_dirs.get(broker), size))
    return copies


def _find_full_disks(steps: PlannedSteps, view: ClusterView, disks: ClusterDisks) -> list[str]:
    """Return a sentence for each disk without room for what the rest of the plan copies to it."""
    problems = []
    for broker, copies in sorted(_list_copies(steps, view, disks).items()):
        online = _list_log_dirs(disks, broker, has_failed=False)
        failed = _list_log_dirs(disks, broker, has_failed=True).keys() & {copy.log_dir for copy in copies}
        problems += [
            f"log dir {path} of broker {broker} failed, and the plan needs it. Make a new plan"
            for path in sorted(failed)
        ]
        added = _sum_by_log_dir(online, copies)
        for disk in disks.disks.get(broker, ()):
            total, free = disk.total_bytes, disk.free_bytes
            is_all = len(disk.log_dirs) in (0, len(online))
            size = sum(copied for path, copied in added.items() if is_all or path in disk.log_dirs)
            if total is not None and free is not None and size > compute_room(total, free, disks.max_disk_ratio):
                name = "its disks" if is_all else f"log dir {disk.log_dirs[0]}"
                problems.append(
                    f"broker {broker} has {free / 1e9:.1f} GB left on {name}, too little for the "
                    f"{size / 1e9:.1f} GB that the plan copies to it. Free space, or make a plan with --max-bytes"
                )
    return problems


def _sum_by_log_dir(online: Mapping[str, int], copies: Sequence[_Copy]) -> dict[str | None, int]:
    """Sum the bytes that are copied to each log dir. online: log dirs of the broker, with their number of logs.

    Where the plan names no log dir, Kafka puts a replica into the one with the fewest; None where none is known.
    """
    counts = Counter(copy.log_dir for copy in copies)
    unplaced = [copy for copy in copies if copy.log_dir is None]
    chosen = choose_emptiest([count + counts[path] for path, count in online.items()] or [0], len(unplaced))
    paths: list[str | None] = [*online] or [None]
    added = Counter[str | None]()
    for copy in copies:
        if copy.log_dir is not None:
            added[copy.log_dir] += copy.size_bytes
    for copy, at in zip(unplaced, chosen, strict=True):
        added[paths[at]] += copy.size_bytes
    return added
