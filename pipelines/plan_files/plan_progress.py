"""What has become of a plan: every state that its cluster may be in, as JSON has it and as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.plan_files.plan_folder import ELECTION

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
class ChangedRack:
    """A broker that the rest of the plan names, and its rack when the plan was made, and now; None = not known then."""

    broker: int
    before: str | None
    now: str | None


@dataclass(frozen=True)
class PlanState:
    """What has become of a plan. status: FITS, CHANGED, IN_FLIGHT, PARTLY or DONE.

    planned, done: partitions that it changes, and those that are as planned.   new_topics and new_brokers are not
    those of the plan; down_brokers and missing_brokers lived when it was made.   changed_racks, to_empty: of brokers
    that the rest of the plan names; to_empty = the source wants them empty, and did not when it was made.
    leaders_known: whether a source tells who leads; else nothing is unelected.   racks_known: whether one tells racks,
    or none did when the plan was made.
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
    down_brokers: tuple[int, ...]
    new_brokers: tuple[int, ...]
    changed_racks: tuple[ChangedRack, ...]
    to_empty: tuple[int, ...]
    unelected: tuple[Unelected, ...]
    leaders_known: bool
    racks_known: bool

    def as_dict(self) -> dict[str, Any]:
        """The state as JSON has it."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The state as a person reads it."""
        return list(_lines(self))


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
    yield from _some("brokers that have failed", state.down_brokers)
    yield from _some("brokers that are new", state.new_brokers)
    yield from _some("brokers in another rack than then", [_rack_text(one) for one in state.changed_racks])
    yield from _some("brokers that are to be emptied now, and were not", state.to_empty)
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
    if not state.racks_known and state.status != DONE:
        yield "  note: no source tells racks now, so whether they are as they were cannot be checked"


def _rack_text(one: ChangedRack) -> str:
    return f"{one.broker} is in {one.now}, was in {one.before or 'no known one'}"


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
