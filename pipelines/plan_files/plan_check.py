"""Whether a plan still fits its cluster; after it ran, what is done and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.plan_files.fingerprints import digest, hashes, rack_names
from pipelines.plan_files.kafka_json import Key, broker_lists
from pipelines.plan_files.plan_progress import (
    CHANGED,
    DONE,
    FITS,
    IN_FLIGHT,
    PARTLY,
    ChangedPartition,
    ChangedRack,
    Move,
    Pending,
    PlanState,
    Unelected,
    WaveState,
)
from pipelines.plan_files.plan_reader import Change, StoredPlan, read_plan
from udfs.planning.cluster_model import ClusterModel


def check_plan(directory: Path, model: ClusterModel, partitions: pa.Table) -> PlanState:
    """What has become of the plan in a folder. model, partitions: of its cluster now (columns as in silver).

    A SourceError if the plan is another cluster's.
    """
    return state_of(read_plan(directory), model, partitions)


def state_of(plan: StoredPlan, model: ClusterModel, partitions: pa.Table) -> PlanState:
    """As check_plan, of a plan that has been read."""
    if plan.cluster != model.cluster_id:
        said = f"the plan is of the cluster {plan.cluster!r}, and this one is {model.cluster_id!r}"
        raise SourceError(model.cluster_id, said, f"If it is the same one, name it so: {plan.cluster}=PATH")
    differing = list(_differing(plan, model))
    now = _of_source(model, _rows(model, dict.fromkeys([*plan.changes, *plan.election, *differing])))
    moves = _moves(plan, partitions)
    moving = {(move.topic, move.partition) for move in moves}
    steps_done = {key: _steps_done(change, now.get(key)) for key, change in plan.changes.items()}
    others = [key for key in differing if key not in plan.changes and key not in moving]
    strays = [key for key, done in steps_done.items() if done is None and key not in moving]
    missing_topics = sorted(set(plan.topics) - set(model.topic_names))
    changed = [
        ChangedPartition(*key, now.get(key), _planned(plan, key))
        for key in sorted([*others, *strays])
        if key[0] not in missing_topics
    ]
    new_topics = sorted(set(model.topic_names) - set(plan.topics))
    pending = [
        Pending(*key, plan.changes[key].steps[done or 0][0], now.get(key, []), plan.changes[key].after)
        for key, done in sorted(steps_done.items())
        if done != len(plan.changes[key].steps)
    ]
    done = len(plan.changes) - len(pending)
    begun = any(steps_done.values()) or bool(moves) or not plan.changes
    live = set(model.broker_ids[model.live].tolist())
    gone = plan.live_brokers - live
    named = {id_ for one in pending for id_ in one.after}
    needed = named if begun else gone
    racks, racks_known = _changed_racks(plan, model, named)
    to_empty = named & set(model.broker_ids[model.draining].tolist()) - plan.draining_brokers
    if changed or missing_topics or new_topics or gone & needed or racks or to_empty:
        status = CHANGED
    elif moves:
        status = IN_FLIGHT
    else:
        status = PARTLY if pending and begun else FITS if pending else DONE
    unelected, leaders_known = _unelected(plan, model, partitions, {(one.topic, one.partition) for one in pending})
    known = set(model.broker_ids.tolist())
    return PlanState(
        status,
        len(plan.changes),
        done,
        _waves(plan, steps_done),
        tuple(pending),
        tuple(moves),
        tuple(changed),
        tuple(missing_topics),
        tuple(new_topics),
        tuple(sorted(gone - known)),
        tuple(sorted(gone & known)),
        tuple(sorted(live - plan.live_brokers)),
        tuple(racks),
        tuple(sorted(to_empty)),
        tuple(unelected),
        leaders_known,
        racks_known,
    )


def _changed_racks(plan: StoredPlan, model: ClusterModel, named: set[int]) -> tuple[list[ChangedRack], bool]:
    """(brokers of these in another rack than when the plan was made, whether that can be said).

    A source that shows no racks says nothing about them, as a describe does beside a list of brokers.
    """
    now = rack_names(model)
    if not now:
        return [], not plan.racks
    both = [ChangedRack(id_, plan.racks.get(id_), now[id_]) for id_ in sorted(named & now.keys())]
    return [one for one in both if one.before != one.now], True


def _rows(model: ClusterModel, keys: Iterable[Key]) -> dict[Key, int]:
    """{partition: its row in the model}, of those that are there."""
    number = {topic: i for i, topic in enumerate(model.topic_names)}
    begins = np.searchsorted(model.topic, np.arange(len(number) + 1)).tolist()
    out = {}
    for topic, partition in keys:
        if topic in number:
            begin, end = begins[number[topic]], begins[number[topic] + 1]
            row = begin + int(np.searchsorted(model.partition[begin:end], partition))
            if row < end and model.partition[row] == partition:
                out[topic, partition] = row
    return out


def _of_source(model: ClusterModel, rows: dict[Key, int]) -> dict[Key, list[int]]:
    """The replicas of rows, in the source's order."""
    as_is = model.replicas if model.as_is is None else model.as_is
    return dict(zip(rows, broker_lists(model, list(rows.values()), model.offsets, as_is), strict=True))


def _steps_done(change: Change, now: list[int] | None) -> int | None:
    """How many of the steps a partition has behind it; None = it is as neither before nor after any of them."""
    if now == change.before:
        return 0
    return next((done for done, (_, replicas) in enumerate(change.steps, 1) if replicas == now), None)


def _planned(plan: StoredPlan, key: Key) -> list[list[int]] | None:
    change = plan.changes.get(key)
    return None if change is None else [change.before, *(replicas for _, replicas in change.steps)]


def _differing(plan: StoredPlan, model: ClusterModel) -> Iterator[Key]:
    """The partitions of topics that were and are there, that are new, missing, or have another list than before."""
    if digest(model) == plan.sha256:
        return
    now = hashes(model)
    begins = np.searchsorted(model.topic, np.arange(len(model.topic_names) + 1)).tolist()
    for topic, begin, end in zip(model.topic_names, begins[:-1], begins[1:], strict=True):
        if topic not in plan.topics:
            continue
        old_ids, old = plan.topics[topic]
        ids, new = model.partition[begin:end].astype(np.int64), now[begin:end]
        differ = set(np.setxor1d(old_ids, ids).tolist())
        both, at_old, at_new = np.intersect1d(old_ids, ids, return_indices=True)
        differ |= set(both[old[at_old] != new[at_new]].tolist())
        yield from ((topic, partition) for partition in sorted(differ))


def _moves(plan: StoredPlan, partitions: pa.Table) -> list[Move]:
    """Every reassignment under way, by topic and partition."""
    counts = [pc.fill_null(pc.list_value_length(partitions[f"{name}_replicas"]), 0) for name in ("adding", "removing")]
    under_way = partitions.filter(pc.greater(pc.add(*counts), 0))
    columns = ["topic", "partition", "replicas", "adding_replicas", "removing_replicas"]
    out = []
    for row in under_way.select(columns).to_pylist():
        adding, removing = row["adding_replicas"] or [], row["removing_replicas"] or []
        target = [broker for broker in row["replicas"] or [] if broker not in removing]
        key = (row["topic"], row["partition"])
        planned = target in (_planned(plan, key) or [])[1:]
        out.append(Move(*key, adding, removing, target, planned))
    return sorted(out, key=lambda move: (move.topic, move.partition))


def _waves(plan: StoredPlan, steps_done: dict[Key, int | None]) -> tuple[WaveState, ...]:
    done, every = [0] * len(plan.files), [0] * len(plan.files)
    for key, change in plan.changes.items():
        for number, (wave, _) in enumerate(change.steps):
            every[wave - 1] += 1
            done[wave - 1] += number < (steps_done[key] or 0)
    return tuple(WaveState(i + 1, file, done[i], every[i] - done[i]) for i, file in enumerate(plan.files))


def _unelected(
    plan: StoredPlan, model: ClusterModel, partitions: pa.Table, pending: set[Key]
) -> tuple[list[Unelected], bool]:
    """(partitions as planned whose first replica lives and does not lead, whether a source tells who leads)."""
    keys = sorted({*plan.changes, *plan.election} - pending)
    rows = _rows(model, keys)
    inferred = "state_inferred" in partitions.column_names and bool(pc.any(partitions["state_inferred"]).as_py())
    if model.leader is None or inferred:
        return [], False
    live = set(model.broker_ids[model.live].tolist())
    out = []
    for key, replicas in _of_source(model, rows).items():
        place = int(model.leader[rows[key]])
        leader = int(model.broker_ids[place]) if place >= 0 else None
        if leader != replicas[0] and replicas[0] in live:
            out.append(Unelected(*key, leader, replicas[0]))
    return out, True
