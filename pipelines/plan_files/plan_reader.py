"""A plan's folder read back: whole, and as it was written, or a SourceError that names file, line and value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import SourceError
from pipelines.ingest.topic_names import bad_topic_name
from pipelines.plan_files.fingerprints import Hashes, ids_in
from pipelines.plan_files.kafka_json import Key, Lists
from pipelines.plan_files.plan_folder import ELECTION, PLAN, REASSIGNMENT, ROLLBACK
from udfs.planning.cluster_model import Ints

REMEDY = "Put back the file that `plan` wrote, or plan anew"

_Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Replicas = Annotated[list[_Id], Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True)


class _Partition(_Model):
    topic: str
    partition: _Id


class _Assigned(_Partition):
    replicas: _Replicas


class _Reassignment(_Model):
    version: Literal[1] = 1
    partitions: list[_Assigned]


class _Election(_Model):
    partitions: list[_Partition]


class _Step(_Model):
    wave: Annotated[int, Field(ge=1)]
    replicas: _Replicas


class _Change(_Partition):
    before: _Replicas
    after: _Replicas
    steps: Annotated[list[_Step], Field(min_length=1)]


class _Wave(_Model):
    wave: int
    file: Annotated[str, Field(pattern=r"^wave-[0-9]+\.json$")]


class _Topic(_Model):
    partitions: str
    hashes: Annotated[str, Field(pattern=r"^([0-9a-f]{8})+$")]


class _Before(_Model):
    sha256: str
    cluster: str
    live_brokers: list[_Id]
    draining_brokers: list[_Id]
    racks: dict[str, list[_Id]]
    topics: dict[str, _Topic]


class _Plan(_Model):
    kind: Literal["kafka-placement plan"]
    version: Literal[1]
    waves: list[_Wave]
    assignment_before: _Before
    changes: list[_Change]


_Any = TypeVar("_Any", bound=_Model)
_Keyed = TypeVar("_Keyed", bound=_Partition)


@dataclass(frozen=True)
class Change:
    """A partition's list before, and after each of its steps with its wave, from 1; the last is the planned one."""

    before: list[int]
    steps: tuple[tuple[int, list[int]], ...]

    @property
    def after(self) -> list[int]:
        return self.steps[-1][1]


@dataclass(frozen=True)
class StoredPlan:
    """A plan as its folder has it.

    files: of the waves.   sha256, cluster, live_brokers, draining_brokers, racks ({broker: rack}, of those whose rack
    was known): of the cluster before.   topics: {topic: (partition ids, rising;
    their hashes)}.   changes: {(topic, partition): Change}.   election: partitions to be elected after it.
    """

    files: tuple[str, ...]
    sha256: str
    cluster: str
    live_brokers: frozenset[int]
    draining_brokers: frozenset[int]
    racks: dict[int, str]
    topics: dict[str, tuple[Ints, Hashes]]
    changes: dict[Key, Change]
    election: tuple[Key, ...]


def read_plan(directory: Path) -> StoredPlan:
    """The plan of a folder whose files are all there and say the same."""
    if not directory.is_dir():
        raise SourceError(str(directory), "there is no such folder", "Name the folder that `plan --out` made")
    path = directory / PLAN
    text, plan = _read(path, _Plan)
    changes = {
        key: Change(change.before, tuple((step.wave, step.replicas) for step in change.steps))
        for key, change in _by_key(path, text, plan.changes).items()
    }
    for key, change in _by_key(path, text, plan.changes).items():
        waves = [step.wave for step in change.steps]
        if change.after != change.steps[-1].replicas:
            raise _at(path, text, key, f"its last step is {change.steps[-1].replicas}, and not {change.after}")
        if waves != sorted(set(waves)) or waves[-1] > len(plan.waves):
            raise _at(path, text, key, f"its steps are in the waves {waves} of {len(plan.waves)}")
    by_wave: list[Lists] = [{} for _ in plan.waves]
    for key, one in changes.items():
        for wave, replicas in one.steps:
            by_wave[wave - 1][key] = replicas
    _expect(directory / REASSIGNMENT, {key: change.after for key, change in changes.items()})
    before = plan.assignment_before
    live = set(before.live_brokers)
    _expect(
        directory / ROLLBACK, {key: change.before for key, change in changes.items() if live.issuperset(change.before)}
    )
    for entry, lists in zip(plan.waves, by_wave, strict=True):
        _expect(directory / entry.file, lists)
    election_path = directory / ELECTION
    election_text, election = _read(election_path, _Election)
    return StoredPlan(
        tuple(wave.file for wave in plan.waves),
        before.sha256,
        before.cluster,
        frozenset(before.live_brokers),
        frozenset(before.draining_brokers),
        {id_: rack for rack, ids in before.racks.items() for id_ in ids},
        {topic: _fingerprints(path, topic, short) for topic, short in before.topics.items()},
        changes,
        tuple(_by_key(election_path, election_text, election.partitions)),
    )


def _read(path: Path, model: type[_Any]) -> tuple[str, _Any]:
    """(text, content) of one file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        raise SourceError(str(path), "this file of the plan is missing", REMEDY) from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise SourceError(str(path), f"cannot be read: {problem}", REMEDY) from problem
    try:
        found = json.loads(text)
    except json.JSONDecodeError as problem:
        raise SourceError(str(path), f"is not JSON: {problem.msg}", REMEDY, problem.lineno) from problem
    except RecursionError as problem:
        raise SourceError(str(path), "is not JSON that could be read: nested too deeply", REMEDY) from problem
    try:
        return text, model.model_validate(found)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        said = f"{where}: {first['msg']}, but it is {_shown(first['input'])}"
        raise SourceError(str(path), said, REMEDY, _line_in(text, found, first["loc"])) from problem


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _line_in(text: str, found: Any, place: Sequence[int | str]) -> int | None:
    """The line of the partition that a fault is in, if it is in one."""
    for part in place:
        try:
            found = found[part]
        except (KeyError, IndexError, TypeError):
            return None
        if isinstance(found, Mapping) and "topic" in found and "partition" in found:
            return _line_of(text, (found["topic"], found["partition"]))
    return None


def _line_of(text: str, key: tuple[Any, Any]) -> int | None:
    """The line that a partition's entry begins on, if it is written as `plan` writes it."""
    entry = json.dumps({"topic": key[0], "partition": key[1]}, separators=(",", ":"))
    at = max(text.find(entry[:-1] + end) for end in (",", "}"))
    return None if at < 0 else text.count("\n", 0, at) + 1


def _at(path: Path, text: str, key: Key, problem: str) -> SourceError:
    return SourceError(str(path), f"partition {key[0]}-{key[1]}: {problem}", REMEDY, _line_of(text, key))


def _by_key(path: Path, text: str, entries: Sequence[_Keyed]) -> dict[Key, _Keyed]:
    out: dict[Key, _Keyed] = {}
    for entry in entries:
        key = (entry.topic, entry.partition)
        bad = bad_topic_name(entry.topic)
        if bad is not None:
            raise _at(path, text, key, bad)
        if key in out:
            raise _at(path, text, key, "it is there twice")
        out[key] = entry
    return out


def _expect(path: Path, wanted: Lists) -> None:
    """Nothing; a SourceError where the reassignment file does not say what plan.json does."""
    text, document = _read(path, _Reassignment)
    found = _by_key(path, text, document.partitions)
    for key, entry in found.items():
        if key not in wanted:
            raise _at(path, text, key, f"{PLAN} does not name it here")
        if entry.replicas != wanted[key]:
            raise _at(path, text, key, f"its replicas are {entry.replicas}, {PLAN} says {wanted[key]}")
    for topic, partition in wanted:
        if (topic, partition) not in found:
            raise SourceError(str(path), f"partition {topic}-{partition} of {PLAN} is missing", REMEDY)


def _fingerprints(path: Path, topic: str, short: _Topic) -> tuple[Ints, Hashes]:
    hashes = np.frombuffer(bytes.fromhex(short.hashes), dtype=">u4").astype(np.uint32)
    try:
        return ids_in(short.partitions, len(hashes)), hashes
    except ValueError as problem:
        raise SourceError(str(path), f"assignment_before.topics.{topic}: partitions {problem}", REMEDY) from problem
