"""Check whether a plan still fits its cluster and, once it runs, what is done and what is missing."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.plan_files.fingerprints import find_topic_ranges, get_rack_names, hash_assignment, hash_partitions
from pipelines.plan_files.kafka_json import Key, list_broker_ids
from pipelines.plan_files.plan_progress import (
    ChangedPartition,
    ChangedRack,
    PendingElection,
    PendingPartition,
    PlanProgress,
    PlanStatus,
    Reassignment,
    WaveProgress,
)
from pipelines.plan_files.plan_reader import PlannedChange, StoredPlan, read_plan
from udfs.planning.cluster_model import ClusterModel


def check_plan(directory: Path, model: ClusterModel, partitions: pa.Table) -> PlanProgress:
    """Check the plan in a folder.

    Args:
        directory: The plan's folder.
        model: Its cluster now.
        partitions: The partitions of its cluster now (columns as in silver).

    Raises:
        SourceError: The plan is another cluster's, or its files are damaged.
    """
    plan = read_plan(directory)
    if plan.cluster != model.cluster_id:
        problem = f"the plan is of the cluster {plan.cluster!r}, and this one is {model.cluster_id!r}"
        raise SourceError(model.cluster_id, problem, f"If it is the same cluster, name it so: {plan.cluster}=PATH")
    differing = list(_find_changed_partitions(plan, model))
    now = _get_lists(model, _find_rows(model, dict.fromkeys([*plan.changes, *plan.election, *differing])))
    in_flight = _list_reassignments(plan, partitions)
    moving = {(move.topic, move.partition) for move in in_flight}
    steps_done = {key: _count_steps_done(change, now.get(key)) for key, change in plan.changes.items()}
    missing_topics = sorted(set(plan.topics) - set(model.topic_names))
    unplanned = {key for key in differing if key not in plan.changes}
    unplanned |= {key for key, done in steps_done.items() if done is None}
    changed = [
        ChangedPartition(*key, now.get(key), _list_planned(plan, key))
        for key in sorted(unplanned - moving)
        if key[0] not in missing_topics
    ]
    new_topics = sorted(set(model.topic_names) - set(plan.topics))
    pending = [
        PendingPartition(*key, plan.changes[key].steps[done or 0][0], now.get(key, []), plan.changes[key].after)
        for key, done in sorted(steps_done.items())
        if done != len(plan.changes[key].steps)
    ]
    started = any(steps_done.values()) or bool(in_flight) or not plan.changes
    live, known = set(model.broker_ids[model.live].tolist()), set(model.broker_ids.tolist())
    lost = plan.live_brokers - live
    needed = {id_ for partition in pending for id_ in partition.after}
    racks, racks_known = _find_changed_racks(plan, model, needed)
    drained = needed & set(model.broker_ids[model.draining].tolist()) - plan.draining_brokers
    lost_needed = lost & needed if started else lost
    if changed or missing_topics or new_topics or lost_needed or racks or drained:
        status = PlanStatus.CHANGED
    elif in_flight:
        status = PlanStatus.IN_FLIGHT
    elif pending:
        status = PlanStatus.PARTLY_DONE if started else PlanStatus.FITS
    else:
        status = PlanStatus.DONE
    elections, leaders_known = _find_pending_elections(
        plan, model, partitions, {(partition.topic, partition.partition) for partition in pending}
    )
    return PlanProgress(
        status=status,
        planned=len(plan.changes),
        done=len(plan.changes) - len(pending),
        waves=_count_waves(plan, steps_done),
        pending=tuple(pending),
        in_flight=tuple(in_flight),
        changed_partitions=tuple(changed),
        missing_topics=tuple(missing_topics),
        new_topics=tuple(new_topics),
        missing_brokers=tuple(sorted(lost - known)),
        down_brokers=tuple(sorted(lost & known)),
        new_brokers=tuple(sorted(live - plan.live_brokers)),
        changed_racks=tuple(racks),
        drained_brokers=tuple(sorted(drained)),
        pending_elections=tuple(elections),
        leaders_known=leaders_known,
        racks_known=racks_known,
    )


def _find_changed_racks(plan: StoredPlan, model: ClusterModel, needed: set[int]) -> tuple[list[ChangedRack], bool]:
    """Return those of the brokers whose rack has changed, and whether that can be said.

    A source that shows no racks says nothing about them, as a describe beside a list of brokers.
    """
    now = get_rack_names(model)
    if not now:
        return [], not plan.racks
    racks = [ChangedRack(id_, plan.racks.get(id_), now[id_]) for id_ in sorted(needed & now.keys())]
    return [rack for rack in racks if rack.before != rack.now], True


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


def _get_lists(model: ClusterModel, rows: dict[Key, int]) -> dict[Key, list[int]]:
    """Return the replicas of rows in the source's order."""
    lists = list_broker_ids(model, list(rows.values()), model.offsets, model.source_order)
    return dict(zip(rows, lists, strict=True))


def _count_steps_done(change: PlannedChange, now: list[int] | None) -> int | None:
    """Return how many steps a partition has behind it; None if it is as neither before nor after any of them."""
    if now == change.before:
        return 0
    return next((done for done, (_, replicas) in enumerate(change.steps, 1) if replicas == now), None)


def _list_planned(plan: StoredPlan, key: Key) -> list[list[int]] | None:
    change = plan.changes.get(key)
    return None if change is None else [change.before, *(replicas for _, replicas in change.steps)]


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
    counts = [pc.fill_null(pc.list_value_length(partitions[f"{name}_replicas"]), 0) for name in ("adding", "removing")]
    under_way = partitions.filter(pc.greater(pc.add(*counts), 0))
    columns = ["topic", "partition", "replicas", "adding_replicas", "removing_replicas"]
    reassignments = []
    for row in under_way.select(columns).to_pylist():
        adding, removing = row["adding_replicas"] or [], row["removing_replicas"] or []
        target = [broker for broker in row["replicas"] or [] if broker not in removing]
        key = (row["topic"], row["partition"])
        planned = target in (_list_planned(plan, key) or [])[1:]
        reassignments.append(Reassignment(*key, adding, removing, target, planned))
    return sorted(reassignments, key=lambda move: (move.topic, move.partition))


def _count_waves(plan: StoredPlan, steps_done: dict[Key, int | None]) -> tuple[WaveProgress, ...]:
    done, planned = [0] * len(plan.wave_files), [0] * len(plan.wave_files)
    for key, change in plan.changes.items():
        for number, (wave, _) in enumerate(change.steps):
            planned[wave - 1] += 1
            done[wave - 1] += number < (steps_done[key] or 0)
    return tuple(WaveProgress(i + 1, file, done[i], planned[i] - done[i]) for i, file in enumerate(plan.wave_files))


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
    for key, replicas in _get_lists(model, rows).items():
        place = int(model.leader[rows[key]])
        leader = int(model.broker_ids[place]) if place >= 0 else None
        if leader != replicas[0] and replicas[0] in live:
            elections.append(PendingElection(*key, leader, replicas[0]))
    return elections, True
