"""Read a plan's folder, and check that its files are complete and agree. Errors name file, line and value."""

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import SourceError
from pipelines.ingest.formats.checked_values import explain_bad_topic_name
from pipelines.plan_files.kafka_json import Key, Lists, LogDirPaths, list_log_dirs
from pipelines.plan_files.plan_writer import (
    ELECTION,
    PLAN,
    REASSIGNMENT,
    ROLLBACK,
    ROLLBACK_ELECTION,
    Hashes,
    parse_ranges,
)
from pipelines.plan_files.planned_cluster import NewBroker
from udfs.planning.cluster_model import Ints
from udfs.wording import format_bytes, quote_value, shorten_text

_MAX_BYTES = 2**31  # the plan of a million partitions has a tenth of it
REMEDY = "Restore the file that `plan` wrote, or make a new plan"

_Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Replicas = Annotated[list[_Id], Field(min_length=1)]
# Path by broker id, which is a text in JSON.
_LogDirs = dict[Annotated[str, Field(pattern=r"^[0-9]{1,10}$")], Annotated[str, Field(min_length=1)]]


class PlanDocument(BaseModel):
    """A JSON document, or a part of one, whose types are those of JSON."""

    model_config = ConfigDict(strict=True)


class _Partition(PlanDocument):
    topic: str
    partition: _Id


class _Assigned(_Partition):
    replicas: _Replicas
    log_dirs: list[str] | None = None


class _Reassignment(PlanDocument):
    version: Literal[1] = 1
    partitions: list[_Assigned]


class _Election(PlanDocument):
    partitions: list[_Partition]


class _Step(PlanDocument):
    wave: Annotated[int, Field(ge=1)]
    replicas: _Replicas


class _Change(_Partition):
    before: _Replicas
    after: _Replicas
    steps: Annotated[list[_Step], Field(min_length=1)]
    log_dirs_before: _LogDirs = {}
    log_dirs: _LogDirs = {}
    bytes_to_copy: float | int | None = None


class PlannedWave(PlanDocument):
    """A wave in plan.json, with what the plan estimates for it; None = no sizes known."""

    wave: int
    file: Annotated[str, Field(pattern=r"^wave-[0-9]+\.json$")]
    bytes_to_copy: float | int | None = None
    busiest_bytes: float | int | None = None  # that its slowest broker copies
    seconds: float | int | None = None


class _Topic(PlanDocument):
    partitions: str
    hashes: Annotated[str, Field(pattern=r"^([0-9a-f]{8})+$")]


class _Before(PlanDocument):
    sha256: str
    cluster: str
    live_brokers: list[_Id]
    draining_brokers: list[_Id]
    racks: dict[str, list[_Id]]
    topics: dict[str, _Topic]


class _AddedBroker(PlanDocument):
    broker_id: _Id
    rack: str | None


class _Request(PlanDocument):
    goal: str = ""
    factor: int | None = None
    brokers: list[int] = []
    replacements: list[list[int]] = []


class _Limits(PlanDocument):
    throttle_bytes_per_s: float | int | None = None


class _Omitted(PlanDocument):
    partitions: int


class _Plan(PlanDocument):
    kind: Literal["kafka-placement plan"]
    version: Literal[1]
    kafka_cluster_id: str | None = None
    topic_ids: dict[str, str] = {}
    source_files: dict[str, str] = {}
    preceding_plans: list[str] = []
    next_steps: list[str] = []
    request: _Request = _Request()
    judgement: dict[str, Any] = {}
    limits: _Limits = _Limits()
    added_brokers: list[_AddedBroker] = []
    waves: list[PlannedWave]
    assignment_before: _Before
    changes: list[_Change]
    not_in_rollback: _Omitted


_Document = TypeVar("_Document", bound=PlanDocument)
_Entry = TypeVar("_Entry", bound=_Partition)


@dataclass(frozen=True)
class PlannedChange:
    """A partition's list before the plan, and (wave, from 1; list) after each step; the last is the planned list."""

    before: list[int]
    steps: tuple[tuple[int, list[int]], ...]
    # Paths by broker; a broker without one has any. Both are empty if the plan chooses no log dir.
    log_dirs_before: Mapping[int, str] = field(default_factory=dict)
    log_dirs: Mapping[int, str] = field(default_factory=dict)
    bytes_to_copy: float | None = None  # in all steps, by the size when the plan was made; None = not known

    @cached_property
    def lists(self) -> tuple[tuple[int, ...], ...]:
        """The list before the plan, and after each step."""
        return (tuple(self.before), *(tuple(replicas) for _, replicas in self.steps))

    @cached_property
    def waves(self) -> tuple[int, ...]:
        """The waves of the steps, from 1, rising."""
        return tuple(wave for wave, _ in self.steps)

    def find(self, replicas: Sequence[int]) -> int | None:
        """Return the last index of a list, or None."""
        return max((index for index, one in enumerate(self.lists) if one == tuple(replicas)), default=None)

    def count_steps_done(self, replicas: Sequence[int], target: Sequence[int] | None) -> int | None:
        """Count the steps that a partition has behind it; None = it is where no step takes it.

        target: where a reassignment under way takes it: that step is not done yet; None = none is.
        """
        index = self.find(replicas if target is None else target)
        return index if index is None or target is None else max(index - 1, 0)

    def find_origin(self, replicas: Set[int], target: Sequence[int]) -> int | None:
        """Return the index of the list with these replicas from which a reassignment leads to its target; None = none.

        Of several, a neighbour of the target counts.
        """
        index = self.find(target) or 0
        order = (index - 1, index + 1, *range(len(self.lists)))
        return next((i for i in order if 0 <= i < len(self.lists) and set(self.lists[i]) == replicas), None)

    def leads_back(self, replicas: Set[int], target: Sequence[int]) -> bool:
        """Return whether a reassignment of these replicas undoes a step: its target is an earlier list."""
        index, origin = self.find(target), self.find_origin(replicas, target)
        return index == 0 or (index is not None and origin is not None and origin > index)

    def list_moves(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """List what a reassignment may do to the partition: the lists before and after it, of a step or of all."""
        pairs = [*zip(self.lists, self.lists[1:], strict=False), (self.lists[0], self.lists[-1])]
        return [*pairs, *((after, before) for before, after in pairs)]

    @property
    def after(self) -> list[int]:
        """Return the planned list."""
        return self.steps[-1][1]

    @property
    def moves_log_dirs(self) -> bool:
        """Return whether replicas stay on their brokers, and some move to another log dir."""
        return bool(self.log_dirs) and self.before == self.after


@dataclass(frozen=True)
class StoredPlan:
    """A plan as its folder has it."""

    waves: tuple[PlannedWave, ...]
    sha256: str  # of the cluster before the plan, as cluster, live_brokers and draining_brokers
    plan_sha256: str  # of plan.json
    cluster: str
    live_brokers: frozenset[int]
    draining_brokers: frozenset[int]
    added_brokers: tuple[NewBroker, ...]  # Brokers that no source showed then
    racks: dict[int, str]  # Racks of brokers before the plan, as far as known
    topics: dict[str, tuple[Ints, Hashes]]  # {topic: (partition ids, rising; hashes of their lists)} before the plan
    changes: dict[Key, PlannedChange]  # Changes by partition
    election: tuple[Key, ...]  # Partitions to elect a leader for after the plan
    kafka_cluster_id: str | None  # The id that Kafka gave the cluster, if a source showed it
    topic_ids: dict[str, str]  # Ids of the topics that the plan changes, as far as sources showed them
    throttle_bytes_per_s: int | None
    asked_factor: int | None = None  # The replication factor that it is to give, if it is for that
    emptied_brokers: tuple[int, ...] = ()  # Brokers that it is to empty
    source_files: Mapping[str, str] = field(default_factory=dict)  # sha256 by name, if other tools have made it
    preceding_plans: tuple[str, ...] = ()  # Folders of the plans that it was made after
    rollback_election: tuple[Key, ...] = ()  # Partitions to elect a leader for after its rollback
    next_steps: tuple[str, ...] = ()  # What is to be done after it
    level: str = ""  # How check judged it when it was made; empty = not known


def read_plan(directory: Path) -> StoredPlan:
    """Read the plan of a folder; raise SourceError if a file is missing or damaged, or files do not agree."""
    if not directory.is_dir():
        raise SourceError(str(directory), "there is no such folder", "Name the folder that `plan --out` made")
    path = directory / PLAN
    text, plan = _read(path, _Plan)
    entries = _by_key(path, text, plan.changes)
    changes = {
        key: PlannedChange(
            change.before,
            tuple((step.wave, step.replicas) for step in change.steps),
            {int(broker): path for broker, path in change.log_dirs_before.items()},
            {int(broker): path for broker, path in change.log_dirs.items()},
            change.bytes_to_copy,
        )
        for key, change in entries.items()
    }
    for key, change in entries.items():
        waves = [step.wave for step in change.steps]
        if change.after != change.steps[-1].replicas:
            last, after = quote_value(change.steps[-1].replicas), quote_value(change.after)
            raise _error(path, text, key, f"its last step is {last}, not {after}")
        if absent := sorted(changes[key].log_dirs.keys() - set(change.after)):
            raise _error(path, text, key, f"it has a log dir on broker {absent[0]}, but no replica there")
        if waves != sorted(set(waves)) or waves[-1] > len(plan.waves):
            raise _error(path, text, key, f"its steps are in the waves {quote_value(waves)} of {len(plan.waves)}")
    by_wave: list[Lists] = [{} for _ in plan.waves]
    for key, planned in changes.items():
        for wave, replicas in planned.steps:
            by_wave[wave - 1][key] = replicas
    before = plan.assignment_before
    log_dirs = {key: change.log_dirs for key, change in changes.items() if change.log_dirs}
    _check_lists(directory / REASSIGNMENT, {key: change.after for key, change in changes.items()}, log_dirs)
    rollback = {key: change.before for key, change in changes.items()}
    dirs_before = {key: changes[key].log_dirs_before for key in log_dirs}
    _check_lists(directory / ROLLBACK, rollback, dirs_before, plan.not_in_rollback.partitions)
    for entry, lists in zip(plan.waves, by_wave, strict=True):
        _check_lists(directory / entry.file, lists, log_dirs)
    topics = {}
    for topic, short in before.topics.items():
        hashes = np.frombuffer(bytes.fromhex(short.hashes), dtype=">u4").astype(np.uint32)
        try:
            topics[topic] = parse_ranges(short.partitions, len(hashes)), hashes
        except ValueError as error:
            problem = f"assignment_before.topics.{shorten_text(topic)}: partitions {error}"
            raise SourceError(str(path), problem, REMEDY) from error
    drained = plan.request.brokers if plan.request.goal == "drain" else ()
    return StoredPlan(
        tuple(plan.waves),
        before.sha256,
        hashlib.sha256(text.encode()).hexdigest(),
        before.cluster,
        frozenset(before.live_brokers),
        frozenset(before.draining_brokers),
        tuple(NewBroker(broker.broker_id, broker.rack) for broker in plan.added_brokers),
        {id_: rack for rack, ids in before.racks.items() for id_ in ids},
        topics,
        changes,
        _read_election(directory / ELECTION),
        plan.kafka_cluster_id,
        plan.topic_ids,
        None if plan.limits.throttle_bytes_per_s is None else int(plan.limits.throttle_bytes_per_s),
        plan.request.factor,
        (*drained, *(old for old, *_ in plan.request.replacements)),
        plan.source_files,
        tuple(plan.preceding_plans),
        _read_election(directory / ROLLBACK_ELECTION) if (directory / ROLLBACK_ELECTION).exists() else (),
        tuple(plan.next_steps),
        str(plan.judgement.get("level", "")),
    )


def _read_election(path: Path) -> tuple[Key, ...]:
    """Read which partitions a file elects leaders for."""
    text, election = _read(path, _Election)
    return tuple(_by_key(path, text, election.partitions))


def _read(path: Path, document: type[_Document]) -> tuple[str, _Document]:
    """Read one file: (text, content)."""
    text = read_text(path, REMEDY)
    return text, parse_document(path, text, document, REMEDY)


def read_text(path: Path, remedy: str) -> str:
    """Read a text file. Raises: SourceError if it cannot be read, or is larger than any plan."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError(f"it has more than {format_bytes(_MAX_BYTES)}, which no plan has")
        return data.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SourceError(str(path), f"cannot be read: {reason}", remedy) from error


def parse_document(path: Path, text: str, document: type[_Document], remedy: str) -> _Document:
    """Parse JSON. Raises: SourceError with line, value and remedy."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise SourceError(str(path), f"is not JSON: {error.msg}", remedy, error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise SourceError(str(path), f"cannot be read: {error}", remedy) from error
    try:
        return document.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(shorten_text, map(str, first["loc"]))) or "the document"
        problem = f"{where}: {first['msg']}, but it is {quote_value(first['input'])}"
        raise SourceError(str(path), problem, remedy, _find_line_in(text, content, first["loc"])) from error


def _find_line_in(text: str, content: Any, place: Sequence[int | str]) -> int | None:
    """Return the line of the partition's entry that `place` is in, if it is in one."""
    for part in place:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return None
        if isinstance(content, Mapping) and "topic" in content and "partition" in content:
            return _find_line(text, (content["topic"], content["partition"]))
    return None


def _find_line(text: str, key: tuple[Any, Any]) -> int | None:
    """Return the line that a partition's entry begins on, if it is written as `plan` writes it."""
    entry = json.dumps({"topic": key[0], "partition": key[1]}, separators=(",", ":"))
    at = max(text.find(entry[:-1] + end) for end in (",", "}"))
    return None if at < 0 else text.count("\n", 0, at) + 1


def _error(path: Path, text: str, key: Key, problem: str) -> SourceError:
    problem = f"partition {shorten_text(key[0])}-{key[1]}: {problem}"
    return SourceError(str(path), problem, REMEDY, _find_line(text, key))


def _by_key(path: Path, text: str, entries: Sequence[_Entry]) -> dict[Key, _Entry]:
    out: dict[Key, _Entry] = {}
    for entry in entries:
        key = (entry.topic, entry.partition)
        if (bad := explain_bad_topic_name(entry.topic)) is not None:
            raise _error(path, text, key, bad)
        if key in out:
            raise _error(path, text, key, "it is listed twice")
        out[key] = entry
    return out


def _check_lists(path: Path, planned: Lists, log_dirs: LogDirPaths, omitted: int = 0) -> None:
    """Check that a reassignment file has the lists and the log dirs of plan.json, all but `omitted` partitions."""
    text, document = _read(path, _Reassignment)
    entries = _by_key(path, text, document.partitions)
    for key, entry in entries.items():
        if key not in planned:
            raise _error(path, text, key, f"{PLAN} does not name it here")
        paths = list_log_dirs(planned[key], log_dirs[key]) if key in log_dirs else None
        for name, now, then in (("replicas", entry.replicas, planned[key]), ("log_dirs", entry.log_dirs, paths)):
            if now != then:
                values = f"{quote_value(now)}, but {PLAN} has {quote_value(then)}"
                raise _error(path, text, key, f"its {name} are {values}")
    missing = planned.keys() - entries.keys()
    if len(missing) != omitted:
        topic, partition = min(missing, default=("", 0))
        absent = f"partition {topic}-{partition} of {PLAN} is missing"
        raise SourceError(str(path), absent if missing else f"{PLAN} leaves out {omitted} of its partitions", REMEDY)
