"""Read the waves of a plan: of a folder that `plan` wrote, or reassignments of any tool, one file per wave."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipelines.errors import SourceError
from pipelines.plan_files.kafka_json import list_log_dirs
from pipelines.plan_files.plan_reader import PlanDocument, StoredPlan, parse_document, read_text
from pipelines.plan_files.plan_writer import PLAN

_REMEDY = (
    'Give a JSON file with "partitions", as kafka-reassign-partitions takes it, the output of its --generate, '
    "proposals of Cruise Control as JSON, or a folder that plan wrote"
)
_PROPOSED = "Proposed partition reassignment configuration"  # what --generate prints before the new assignment

_Id = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


@dataclass(frozen=True)
class PlannedList:
    """What a wave sets: the replicas of a partition, and their log dirs if it names some."""

    topic: str
    partition: int
    replicas: Sequence[int]
    log_dirs: Sequence[str] | None = None


@dataclass(frozen=True)
class PlanWave:
    """A wave of a plan."""

    name: str  # of its file
    lists: Sequence[PlannedList]


class _ListedPartition(PlanDocument):
    topic: str
    partition: _Id
    replicas: list[_Id]
    log_dirs: list[str] | None = None


class _ReassignmentFile(PlanDocument):
    partitions: list[_ListedPartition]


class _TopicPartition(PlanDocument):
    topic: str
    partition: _Id


class _Proposal(PlanDocument):
    topic_partition: Annotated[_TopicPartition, Field(alias="topicPartition")]
    replicas: Annotated[list[_Id], Field(alias="newReplicas")]


class _Proposals(PlanDocument):
    proposals: list[_Proposal]


def is_plan_folder(path: Path) -> bool:
    """Return whether a path is a folder that `plan` wrote."""
    return path.is_dir() and (path / PLAN).is_file()


def list_remaining_waves(plan: StoredPlan, steps_done: dict[tuple[str, int], int | None]) -> list[PlanWave]:
    """List what the waves of a stored plan have still to do. steps_done: by partition; None = all steps are left."""
    waves: list[list[PlannedList]] = [[] for _ in plan.waves]
    for key, change in plan.changes.items():
        for wave, replicas in change.steps[steps_done.get(key) or 0 :]:
            paths = list_log_dirs(replicas, change.log_dirs) if change.log_dirs else None
            waves[wave - 1].append(PlannedList(*key, replicas, paths))
    return [PlanWave(one.file, lists) for one, lists in zip(plan.waves, waves, strict=True)]


def read_reassignment(path: Path) -> PlanWave:
    """Read a file of reassignments. Raises: SourceError with file, line, value and remedy."""
    return PlanWave(path.name, _read_lists(path))


def _read_lists(path: Path) -> list[PlannedList]:
    if path.is_dir():
        raise SourceError(str(path), "is a folder without plan.json", _REMEDY)
    text = read_text(path, _REMEDY)
    head, proposed, rest = text.partition(_PROPOSED)
    if proposed:  # the current assignment stands above it
        blank = "\n" * (head + proposed).count("\n")
        text = blank + rest[: rest.rfind("}") + 1]
    if '"proposals"' in text and '"topicPartition"' in text:
        proposals = parse_document(path, text, _Proposals, _REMEDY).proposals
        return [
            PlannedList(one.topic_partition.topic, one.topic_partition.partition, one.replicas) for one in proposals
        ]
    entries = parse_document(path, text, _ReassignmentFile, _REMEDY).partitions
    return [PlannedList(one.topic, one.partition, one.replicas, one.log_dirs) for one in entries]
