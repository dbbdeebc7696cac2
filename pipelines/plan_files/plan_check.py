"""Check whether a plan still fits its cluster and, once it runs, what is done and what is missing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.plan_files.kafka_json import Key, get_current_log_dirs, get_source_lists
from pipelines.plan_files.plan_reader import StoredPlan
from pipelines.plan_files.plan_writer import find_topic_ranges, get_rack_names, hash_assignment, hash_partitions
from pipelines.plan_files.planned_cluster import NewBroker, find_target, select_reassigned
from udfs.arrow.ragged import offsets_of, take_segments
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults
from udfs.planning.broker_log_dirs import ANY
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.elections import find_in_sync_replicas
from udfs.wording import format_bytes


class PlanStatus(StrEnum):
    """Status of a plan: unchanged cluster, changed cluster, being reassigned (also by the plan), partly done, done."""

    FITS = "fits"
    CHANGED = "changed"
    IN_FLIGHT = "in flight"
    EXECUTING = "being executed"
    ROLLING_BACK = "being rolled back"
    PARTLY_DONE = "partly done"
    DONE = "done"


@dataclass(frozen=True)
class ChangedPartition:
    """A partition that is as neither the plan nor the cluster before it says."""

    topic: str
    partition: int
    now: list[int] | None  # Its replicas; None = the partition is gone
    # Its replicas before the plan and after each step; None = the plan does not change it
    planned: list[list[int]] | None
    elected: bool = False  # Whether election.json names it


@dataclass(frozen=True)
class Reassignment:
    """A reassignment under way."""

    topic: str
    partition: int
    adding: list[int]
    removing: list[int]
    target: list[int]  # The list that it leads to
    planned: bool  # Whether the plan leads there
    rolls_back: bool  # Whether its rollback does: to an earlier list of the plan
    wave: int | None  # The wave whose step it does, or undoes


@dataclass(frozen=True)
class WaveProgress:
    """How many of a wave's partitions are as it leaves them, and how many are not yet."""

    wave: int
    file: str
    done: int
    missing: int


@dataclass(frozen=True)
class PendingPartition:
    """A partition that is not yet as planned: its next wave, its replicas now and the planned ones."""

    topic: str
    partition: int
    wave: int
    now: list[int]
    after: list[int]


@dataclass(frozen=True)
class PendingElection:
    """A partition as planned whose preferred leader does not lead. leader: None = no broker leads."""

    topic: str
    partition: int
    leader: int | None
    preferred: int


@dataclass(frozen=True)
class ChangedRack:
    """A broker that the rest of the plan names, its rack when the plan was made (None = not known), and now."""

    broker: int
    before: str | None
    now: str | None


@dataclass(frozen=True)
class PlanProgress:
    """Progress of a plan."""

    status: PlanStatus  # Status
    planned: int  # Partitions that the plan changes, and that exist
    # Those of them that are as planned. new_topics, new_brokers: Not there when the plan was made. missing_brokers,
    # down_brokers: Live when the plan was made. returned_brokers: Not live then, and in sync now with replicas that the
    # rest of the plan moves away.
    done: int
    waves: tuple[WaveProgress, ...]
    pending: tuple[PendingPartition, ...]
    in_flight: tuple[Reassignment, ...]
    changed_partitions: tuple[ChangedPartition, ...]
    missing_topics: tuple[str, ...]
    new_topics: tuple[str, ...]
    missing_brokers: tuple[int, ...]
    add_brokers: tuple[str, ...]  # Missing brokers as --add-brokers names them, with their racks then
    down_brokers: tuple[int, ...]
    new_brokers: tuple[int, ...]
    returned_brokers: tuple[int, ...]
    changed_racks: tuple[ChangedRack, ...]  # Of brokers that the rest of the plan names
    # Brokers that the rest of the plan names and the source newly marks for draining
    drained_brokers: tuple[int, ...]
    pending_elections: tuple[PendingElection, ...]
    changes_beside_plan: bool  # Whether the cluster has changed where the plan changes nothing
    leaders_known: bool  # Whether a source shows leaders; else no election is pending
    racks_known: bool  # Whether a source shows racks, or none did when the plan was made
    log_dir_problems: tuple[str, ...] = ()  # Of log dirs that the rest of the plan needs
    undone_plans: tuple[str, ...] = ()  # Folders of the plans that it was made after, and that are not done
    follower: str | None = None  # Folder of the plan that was executed after it, and has moved on what it changed
    next_steps: tuple[str, ...] = ()  # What is to be done after the plan
    applied_at: str | None = None  # When it was carried out, if others have moved on what it changed

    @property
    def needs_only_brokers(self) -> bool:
        """Whether the plan fits once brokers that it needs are live again."""
        others = (
            *(self.changed_partitions, self.missing_topics, self.missing_brokers, self.returned_brokers),
            *(self.changed_racks, self.drained_brokers, self.log_dir_problems),
        )
        return self.status is PlanStatus.CHANGED and bool(self.down_brokers) and not any(others)

    @property
    def moved_on(self) -> list[Key]:
        """Partitions of the plan that now have other replicas than any list of it, though the plans before are done."""
        known = [one for one in self.changed_partitions if one.now is not None and one.planned is not None]
        return [] if self.undone_plans else [(one.topic, one.partition) for one in known]

    @property
    def has_begun(self) -> bool:
        """Whether partitions are as a step of the plan leaves them, or others have moved all of them."""
        return bool(self.done) or any(wave.done for wave in self.waves) or len(self.moved_on) == self.planned

    @property
    def is_undone(self) -> bool:
        """Whether partitions are not as planned, beside those that others have changed or reassign now."""
        foreign = {(one.topic, one.partition) for one in self.in_flight if not (one.planned or one.rolls_back)}
        return not {(one.topic, one.partition) for one in self.pending} <= foreign.union(self.moved_on)

    @property
    def may_execute(self) -> bool:
        """Return whether the rest of the plan may be executed now."""
        return self.status not in (PlanStatus.CHANGED, PlanStatus.IN_FLIGHT)


def check_plan(
    plan: StoredPlan, model: ClusterModel, partitions: pa.Table, defaults: TopicDefaults = KAFKA_DEFAULTS
) -> PlanProgress:
    """Check a plan against its cluster now. Raise SourceError if it is another's.

    Changes of ignored topics do not count, unless the plan changes these topics.
    """
    if plan.cluster != model.cluster_id:
        problem = f"the plan is for cluster {plan.cluster!r}, but the source is named {model.cluster_id!r}"
        raise SourceError(model.cluster_id, problem, f"If it is the same cluster, use {plan.cluster}=PATH")
    used = plan.changes.keys() | set(plan.election)
    unused = pa.array(sorted({*plan.topics, *model.topic_names} - {topic for topic, _ in used}), pa.string())
    ignored = set(unused.filter(defaults.find_ignored(unused)).to_pylist())
    differing = [key for key in _find_changed_partitions(plan, model) if key[0] not in ignored]
    now = get_source_lists(model, _find_rows(model, [*plan.changes, *plan.election, *differing]).values())
    in_flight = _list_reassignments(plan, partitions)
    moving = {(move.topic, move.partition): move.target for move in in_flight}
    rows, steps_done = _find_rows(model, plan.changes), count_steps_done(plan, model, partitions)
    missing_topics = sorted(set(plan.topics) - set(model.topic_names) - ignored)
    unplanned = {key for key in differing if key not in plan.changes}
    unplanned |= {key for key, done in steps_done.items() if done is None}
    changed = [
        ChangedPartition(
            *key,
            now.get(key),
            [[*one] for one in plan.changes[key].lists] if key in plan.changes else None,
            key in plan.election,
        )
        for key in sorted(unplanned - moving.keys())
        if key[0] not in missing_topics
    ]
    new_topics = sorted(set(model.topic_names) - set(plan.topics) - ignored)
    pending = [
        PendingPartition(*key, plan.changes[key].steps[done or 0][0], now.get(key, []), plan.changes[key].after)
        for key, done in sorted(steps_done.items())
        if done != len(plan.changes[key].steps) and key in rows
    ]
    started = any(steps_done.values()) or bool(in_flight) or not plan.changes
    live, known = set(model.broker_ids[model.live].tolist()), set(model.broker_ids.tolist())
    lost = plan.live_brokers - live
    needed = {
        id_
        for key, done in steps_done.items()
        for _, replicas in plan.changes[key].steps[done or 0 :]
        for id_ in replicas
    }
    not_begun = [plan.changes[key] for key, done in steps_done.items() if done == 0 and key not in moving]
    moved_away = {id_ for change in not_begun for id_ in set(change.before) - set(change.after)}
    in_sync = np.unique(model.replicas[find_in_sync_replicas(model, model)])
    returned = moved_away & set(model.ids(in_sync)) - plan.live_brokers
    racks_now = get_rack_names(model)
    racks = [
        ChangedRack(id_, plan.racks.get(id_), racks_now[id_])
        for id_ in sorted(needed & racks_now.keys())
        if plan.racks.get(id_) != racks_now[id_]
    ]
    drained = needed & set(model.broker_ids[model.draining].tolist()) - plan.draining_brokers
    beside = [partition for partition in changed if (partition.topic, partition.partition) not in used]
    unused_topics = set(missing_topics) - {topic for topic, _ in used}
    unmoved = {(one.topic, one.partition) for one in pending}
    log_dir_problems = tuple(_find_log_dir_problems(plan, model, {key: rows[key] for key in rows if key in unmoved}))
    touched = len(changed) > len(beside) or len(missing_topics) > len(unused_topics)
    own = [move for move in in_flight if move.planned or move.rolls_back]
    is_lacking = lost & needed and not own  # apply waits for brokers that fail
    if touched or is_lacking or returned or racks or drained or log_dir_problems:
        status = PlanStatus.CHANGED
    elif in_flight:
        is_back = any(move.rolls_back for move in own)
        status = PlanStatus.ROLLING_BACK if is_back else PlanStatus.EXECUTING
        status = PlanStatus.IN_FLIGHT if len(own) < len(in_flight) else status
    elif pending:
        status = PlanStatus.PARTLY_DONE if started else PlanStatus.FITS
    else:
        status = PlanStatus.DONE
    elections, leaders_known = _find_pending_elections(
        plan, model, partitions, {(partition.topic, partition.partition) for partition in pending}
    )
    partition_lists = (tuple(pending), tuple(in_flight), tuple(changed), tuple(missing_topics), tuple(new_topics))
    missing = tuple(sorted(lost - known))
    to_add = tuple(str(NewBroker(id_, plan.racks.get(id_))) for id_ in missing)
    new = live - plan.live_brokers - {id_ for change in plan.changes.values() for id_ in change.before}
    brokers = (missing, to_add, tuple(sorted(lost & known)), tuple(sorted(new)), tuple(sorted(returned)))
    done = (len(rows), len(rows) - len(pending), _count_waves(plan, {key: steps_done[key] for key in rows}))
    members = (status, *done, *partition_lists, *brokers, tuple(racks), tuple(sorted(drained)), tuple(elections))
    changes_beside_plan = bool(beside or unused_topics or new_topics or live ^ plan.live_brokers)
    certainty = (leaders_known, bool(racks_now) or not plan.racks)
    steps = () if status is PlanStatus.CHANGED else plan.next_steps
    return PlanProgress(*members, changes_beside_plan, *certainty, log_dir_problems, next_steps=steps)


def count_steps_done(plan: StoredPlan, model: ClusterModel, partitions: pa.Table) -> dict[Key, int | None]:
    """Count the steps that each partition of a plan has behind it; None = it is where no step takes it."""
    rows = _find_rows(model, plan.changes)
    now = get_source_lists(model, rows.values())
    moving = {(move.topic, move.partition): move.target for move in _list_reassignments(plan, partitions)}
    done = {key: change.count_steps_done(now.get(key, ()), moving.get(key)) for key, change in plan.changes.items()}
    paths = get_current_log_dirs(model, rows.values())
    for key, change in plan.changes.items():
        if change.moves_log_dirs and done[key] is not None:
            now_in = paths.get(key, {})
            is_there = all(now_in.get(broker) == path for broker, path in change.log_dirs.items())
            done[key] = len(change.steps) if is_there else 0
    return done


def set_rollback_lists(lists_before: Mapping[Key, Sequence[int]], model: ClusterModel) -> ClusterModel:
    """Return the model with the lists before a plan as those that its rollback leads to. Others stay as they are."""
    rows, indices = _find_rows(model, lists_before), {id_: i for i, id_ in enumerate(model.broker_ids.tolist())}
    before = [[indices[id_] for id_ in lists_before[key] if id_ in indices] for key in rows]
    chosen = np.arange(model.partitions)
    chosen[list(rows.values())] = model.partitions + np.arange(len(rows))
    lists = np.concatenate([model.replicas, np.array([id_ for one in before for id_ in one], dtype=np.int32)])
    offsets = np.concatenate([np.diff(model.offsets), np.array([len(one) for one in before], dtype=np.int64)])
    return replace(model, rollback_lists=take_segments(lists, offsets_of(offsets), chosen))


def _find_rows(model: ClusterModel, keys: Iterable[Key]) -> dict[Key, int]:
    """Return the rows of those partitions that exist."""
    ranges = {topic: (begin, end) for topic, begin, end in find_topic_ranges(model)}
    rows = {}
    for topic, partition in keys:
        begin, end = ranges.get(topic, (0, 0))
        row = begin + int(np.searchsorted(model.partition[begin:end], partition))
        if row < end and model.partition[row] == partition:
            rows[topic, partition] = row
    return rows


def _find_changed_partitions(plan: StoredPlan, model: ClusterModel) -> Iterator[Key]:
    """Find partitions that are new, missing or have another list than before, of topics that are not new or gone."""
    if hash_assignment(model) == plan.sha256:
        return
    now = hash_partitions(model)
    for topic, begin, end in find_topic_ranges(model):
        if topic not in plan.topics:
            continue
        old_ids, old = plan.topics[topic]
        ids, new = model.partition[begin:end].astype(np.int64), now[begin:end]
        differ = set(np.setxor1d(old_ids, ids).tolist())
        both, at_old, at_new = np.intersect1d(old_ids, ids, return_indices=True)
        differ |= set(both[old[at_old] != new[at_new]].tolist())
        yield from ((topic, partition) for partition in sorted(differ))


def _list_reassignments(plan: StoredPlan, partitions: pa.Table) -> list[Reassignment]:
    """Return every reassignment under way, by topic and partition."""
    columns = ["topic", "partition", "replicas", "adding_replicas", "removing_replicas"]
    reassignments = []
    for row in select_reassigned(partitions).select(columns).to_pylist():
        adding, removing = row["adding_replicas"] or [], row["removing_replicas"] or []
        target = find_target(row) or []
        key = (row["topic"], row["partition"])
        change = plan.changes.get(key)
        index = None if change is None else change.find(target)
        planned, rolls_back, wave = False, False, None
        if change is not None and index is not None:
            rolls_back = change.leads_back(set(row["replicas"]) - set(adding), target)
            planned, wave = not rolls_back, change.waves[index if rolls_back else index - 1]
        reassignments.append(Reassignment(*key, adding, removing, target, planned, rolls_back, wave))
    return sorted(reassignments, key=lambda move: (move.topic, move.partition))


def _count_waves(plan: StoredPlan, steps_done: dict[Key, int | None]) -> tuple[WaveProgress, ...]:
    done, planned = [0] * len(plan.waves), [0] * len(plan.waves)
    for key, steps in steps_done.items():
        for number, (wave, _) in enumerate(plan.changes[key].steps):
            planned[wave - 1] += 1
            done[wave - 1] += number < (steps or 0)
    files = [wave.file for wave in plan.waves]
    return tuple(WaveProgress(i + 1, file, done[i], planned[i] - done[i]) for i, file in enumerate(files))


def _find_pending_elections(
    plan: StoredPlan, model: ClusterModel, partitions: pa.Table, pending: set[Key]
) -> tuple[list[PendingElection], bool]:
    """Return partitions as planned whose preferred leader is live and does not lead, and whether leaders are known."""
    inferred = "state_inferred" in partitions.column_names and bool(pc.any(partitions["state_inferred"]).as_py())
    if model.leader is None or inferred:
        return [], False
    rows = _find_rows(model, sorted({*plan.changes, *plan.election} - pending))
    live = set(model.broker_ids[model.live].tolist())
    elections = []
    for key, replicas in get_source_lists(model, rows.values()).items():
        place = int(model.leader[rows[key]])
        leader = int(model.broker_ids[place]) if place >= 0 else None
        if leader != replicas[0] and replicas[0] in live:
            elections.append(PendingElection(*key, leader, replicas[0]))
    return elections, True


def _find_log_dir_problems(plan: StoredPlan, model: ClusterModel, rows: Mapping[Key, int]) -> Iterator[str]:
    """Explain which log dirs of the rest of a plan are missing, offline, cordoned, or without room for it.

    rows: of the partitions whose replicas are not yet in their planned log dirs.
    """
    log_dirs = model.log_dirs
    if log_dirs is None:
        return
    index = {
        (int(model.broker_ids[broker]), path): i
        for i, (broker, path) in enumerate(zip(log_dirs.broker.tolist(), log_dirs.paths, strict=True))
    }
    brokers_with_dirs = set(model.broker_ids[np.unique(log_dirs.broker)].tolist())
    incoming = np.zeros(len(log_dirs.paths))
    unusable: dict[tuple[int, str], str] = {}
    for key, row in rows.items():
        replicas = slice(*model.offsets[row : row + 2].tolist())
        here = dict(zip(model.ids(model.replicas[replicas]), range(replicas.start, replicas.stop), strict=True))
        for broker, path in plan.changes[key].log_dirs.items():
            at = index.get((broker, path), ANY)
            if broker in brokers_with_dirs and (at == ANY or not log_dirs.online[at]):
                unusable[broker, path] = "does not exist" if at == ANY else "is offline"
            elif at != ANY and (broker not in here or log_dirs.of_replica[here[broker]] != at):
                incoming[at] += log_dirs.size[here[broker]] if broker in here else model.size[row]
                if not log_dirs.receives[at]:
                    unusable[broker, path] = "is cordoned"
    for (broker, path), state in sorted(unusable.items()):
        yield f"log dir {path} of broker {broker} {state}, and the plan needs it"
    for (broker, path), at in sorted(index.items()):
        if incoming[at] > log_dirs.compute_room(1.0)[at]:
            yield (
                f"log dir {path} of broker {broker} has {format_bytes(log_dirs.usable[at])} left, too little for the "
                f"{format_bytes(incoming[at])} that the plan moves to it"
            )
