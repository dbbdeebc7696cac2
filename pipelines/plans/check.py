"""Whether a plan still fits its cluster; after it ran, what is done and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.plans.documents import Key, broker_lists
from pipelines.plans.fingerprints import digest, hashes
from pipelines.plans.folder import ELECTION
from pipelines.plans.stored import Change, StoredPlan, read_plan
from udfs.planning.problem import Problem

FITS, CHANGED, IN_FLIGHT, PARTLY, DONE = "fits", "changed", "in flight", "partly done", "done"

_SHOWN = 10  # of each kind, for people


@dataclass(frozen=True)
class ChangedPartition:
    """now: its replicas, None = it is not there.   planned: what it was before, and after each step; None = the plan
    leaves it alone."""

    topic: str
    partition: int
    now: list[int] | None
    planned: list[list[int]] | None


@dataclass(frozen=True)
class Move:
    """A reassignment under way. target: the list that it leads to.   planned: whether the plan wants that list."""

    topic: str
    partition: int
    adding: list[int]
    removing: list[int]
    target: list[int]
    planned: bool


@dataclass(frozen=True)
class WaveState:
    """How many of a wave's partitions are as it leaves them, and how many not yet."""

    wave: int
    file: str
    done: int
    missing: int


@dataclass(frozen=True)
class Pending:
    """A partition that is not yet as planned. wave: its next one.   now, after: its replicas, and the planned ones."""

    topic: str
    partition: int
    wave: int
    now: list[int]
    after: list[int]


@dataclass(frozen=True)
class Unelected:
    """A partition as planned whose preferred leader does not lead. leader: None = nobody."""

    topic: str
    partition: int
    leader: int | None
    preferred: int


@dataclass(frozen=True)
class PlanState:
    """What has become of a plan. status: FITS, CHANGED, IN_FLIGHT, PARTLY or DONE.

    planned, done: partitions that it changes, and those that are as planned.   new_topics and new_brokers are not
    those of the plan; dead_brokers and missing_brokers lived when it was made.
    leaders_known: whether a source tells who leads; else nothing is unelected.
    """

    status: str
    planned: int
    done: int
    waves: tuple[WaveState, ...]
    pending: tuple[Pending, ...]
    in_flight: tuple[Move, ...]
    changed_partitions: tuple[ChangedPartition, ...]
    missing_topics: tuple[str, ...]
    new_topics: tuple[str, ...]
    missing_brokers: tuple[int, ...]
    dead_brokers: tuple[int, ...]
    new_brokers: tuple[int, ...]
    unelected: tuple[Unelected, ...]
    leaders_known: bool

    def as_dict(self) -> dict[str, Any]:
        """The state as JSON has it."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The state as a person reads it."""
        return list(_lines(self))


def check_plan(directory: Path, problem: Problem, partitions: pa.Table) -> PlanState:
    """What has become of the plan in a folder. problem, partitions: of its cluster now (columns as in silver)."""
    return state_of(read_plan(directory), problem, partitions)


def state_of(plan: StoredPlan, problem: Problem, partitions: pa.Table) -> PlanState:
    """As check_plan, of a plan that has been read."""
    differing = list(_differing(plan, problem))
    now = _of_source(problem, _rows(problem, dict.fromkeys([*plan.changes, *plan.election, *differing])))
    moves = _moves(plan, partitions)
    moving = {(move.topic, move.partition) for move in moves}
    steps_done = {key: _steps_done(change, now.get(key)) for key, change in plan.changes.items()}
    others = [key for key in differing if key not in plan.changes and key not in moving]
    strays = [key for key, done in steps_done.items() if done is None and key not in moving]
    missing_topics = sorted(set(plan.topics) - set(problem.topic_names))
    changed = [
        ChangedPartition(*key, now.get(key), _planned(plan, key))
        for key in sorted([*others, *strays])
        if key[0] not in missing_topics
    ]
    new_topics = sorted(set(problem.topic_names) - set(plan.topics))
    pending = [
        Pending(*key, plan.changes[key].steps[done or 0][0], now.get(key, []), plan.changes[key].after)
        for key, done in sorted(steps_done.items())
        if done != len(plan.changes[key].steps)
    ]
    done = len(plan.changes) - len(pending)
    begun = any(steps_done.values()) or bool(moves) or not plan.changes
    living = set(problem.broker_ids[problem.living].tolist())
    gone = plan.living_brokers - living
    needed = {id_ for one in pending for id_ in one.after} if begun else gone
    if changed or missing_topics or new_topics or gone & needed:
        status = CHANGED
    elif moves:
        status = IN_FLIGHT
    else:
        status = PARTLY if pending and begun else FITS if pending else DONE
    unelected, leaders_known = _unelected(plan, problem, partitions, {(one.topic, one.partition) for one in pending})
    known = set(problem.broker_ids.tolist())
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
        tuple(sorted(living - plan.living_brokers)),
        tuple(unelected),
        leaders_known,
    )


def _rows(problem: Problem, keys: Iterable[Key]) -> dict[Key, int]:
    """{partition: its row in the problem}, of those that are there."""
    number = {topic: i for i, topic in enumerate(problem.topic_names)}
    begins = np.searchsorted(problem.topic, np.arange(len(number) + 1)).tolist()
    out = {}
    for topic, partition in keys:
        if topic in number:
            begin, end = begins[number[topic]], begins[number[topic] + 1]
            row = begin + int(np.searchsorted(problem.partition[begin:end], partition))
            if row < end and problem.partition[row] == partition:
                out[topic, partition] = row
    return out


def _of_source(problem: Problem, rows: dict[Key, int]) -> dict[Key, list[int]]:
    """The replicas of rows, in the source's order."""
    as_is = problem.replicas if problem.as_is is None else problem.as_is
    return dict(zip(rows, broker_lists(problem, list(rows.values()), problem.offsets, as_is), strict=True))


def _steps_done(change: Change, now: list[int] | None) -> int | None:
    """How many of the steps a partition has behind it; None = it is as neither before nor after any of them."""
    if now == change.before:
        return 0
    return next((done for done, (_, replicas) in enumerate(change.steps, 1) if replicas == now), None)


def _planned(plan: StoredPlan, key: Key) -> list[list[int]] | None:
    change = plan.changes.get(key)
    return None if change is None else [change.before, *(replicas for _, replicas in change.steps)]


def _differing(plan: StoredPlan, problem: Problem) -> Iterator[Key]:
    """The partitions of topics that were and are there, that are new, missing, or have another list than before."""
    if digest(problem) == plan.sha256:
        return
    now = hashes(problem)
    begins = np.searchsorted(problem.topic, np.arange(len(problem.topic_names) + 1)).tolist()
    for topic, begin, end in zip(problem.topic_names, begins[:-1], begins[1:], strict=True):
        if topic not in plan.topics:
            continue
        old_ids, old = plan.topics[topic]
        ids, new = problem.partition[begin:end].astype(np.int64), now[begin:end]
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
    plan: StoredPlan, problem: Problem, partitions: pa.Table, pending: set[Key]
) -> tuple[list[Unelected], bool]:
    """(partitions as planned whose first replica lives and does not lead, whether a source tells who leads)."""
    keys = sorted({*plan.changes, *plan.election} - pending)
    rows = _rows(problem, keys)
    assumed = "state_assumed" in partitions.column_names and bool(pc.any(partitions["state_assumed"]).as_py())
    if problem.leader is None or assumed:
        return [], False
    living = set(problem.broker_ids[problem.living].tolist())
    out = []
    for key, replicas in _of_source(problem, rows).items():
        place = int(problem.leader[rows[key]])
        leader = int(problem.broker_ids[place]) if place >= 0 else None
        if leader != replicas[0] and replicas[0] in living:
            out.append(Unelected(*key, leader, replicas[0]))
    return out, True


def _lines(state: PlanState) -> Iterator[str]:
    says = {
        FITS: "the plan fits: the assignment is as it was when it was made, and nothing is being reassigned",
        CHANGED: "the plan does not fit: the cluster has changed since it was made. Plan anew",
        IN_FLIGHT: "wait: partitions are being reassigned",
        PARTLY: "the plan is partly done",
        DONE: "the plan is done: all is as planned",
    }
    yield f"{state.status}: {says[state.status]}"
    yield f"  partitions as planned: {state.done} of {state.planned}"
    yield from _some("topics that are gone", state.missing_topics)
    yield from _some("topics that are new", state.new_topics)
    yield from _some("brokers that are gone", state.missing_brokers)
    yield from _some("brokers that have died", state.dead_brokers)
    yield from _some("brokers that are new", state.new_brokers)
    yield from _some("partitions that have changed", [_changed_text(one) for one in state.changed_partitions])
    yield from _some("partitions being reassigned", [_move_text(move) for move in state.in_flight])
    if state.done or state.status == PARTLY:
        for wave in state.waves:
            yield f"  {wave.file}: {wave.done} of {wave.done + wave.missing} done"
    begun = next((wave for wave in state.waves if wave.missing), None)
    if begun is not None and state.status in (FITS, PARTLY):
        beyond = any(wave.done for wave in state.waves if wave.wave > begun.wave)
        file = "reassignment.json" if beyond else begun.file
        yield f"  next: kafka-reassign-partitions --execute with {file}"
        if beyond:  # an earlier wave's file has lists that some partitions are past
            yield "    (no wave file: later waves are done in part, and an earlier one would take that back)"
    if state.status in (PARTLY, DONE):
        texts = [f"{one.topic}-{one.partition} (led by {one.leader}, not {one.preferred})" for one in state.unelected]
        yield from _some(f"preferred leaders that do not lead, see {ELECTION}", texts)
        if not state.leaders_known:
            yield "  note: no source tells who leads, so elections cannot be checked"


def _changed_text(one: ChangedPartition) -> str:
    name = f"{one.topic}-{one.partition}"
    if one.now is None:
        return f"{name} is gone"
    if one.planned is None:
        return f"{name} is {one.now}, and was not, or not there"
    return f"{name} is {one.now}, neither as before {one.planned[0]} nor as planned {one.planned[-1]}"


def _move_text(move: Move) -> str:
    by_whom = "as planned" if move.planned else "not of this plan"
    return f"{move.topic}-{move.partition} (adding {move.adding}, removing {move.removing}, {by_whom})"


def _some(what: str, texts: Iterable[Any]) -> Iterator[str]:
    listed = list(texts)
    if listed:
        more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        yield f"  {what}: {', '.join(map(str, listed[:_SHOWN]))}{more}"
