"""Reassignments of other tools: judged, and written as a plan folder of this program, with waves of its own."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from pipelines.config.capacity_file import add_disk_capacities
from pipelines.config.plan_parameters import build_wave_limits
from pipelines.config.setting_sections import Settings
from pipelines.errors import SettingsError
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.plan_creation import build_snapshot_model, find_topic_ids
from pipelines.plan_files.plan_judgement import (
    PlanJudgement,
    judge_planned_waves,
    judge_waves,
    measure_disk_room,
    read_steps,
)
from pipelines.plan_files.plan_writer import write_plan
from pipelines.plan_files.reassignment_reader import PlanWave
from udfs.arrow.ragged import take_segments
from udfs.json_answers import to_json
from udfs.planning.broker_log_dirs import ANY_LOG_DIR
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.log_dir_balance import add_log_dirs
from udfs.planning.plan_judge import JudgeOptions
from udfs.planning.plan_states import PlanLevel
from udfs.planning.planned_waves import plan_waves


class ForeignPlan(NamedTuple):
    """Files of reassignments, each a wave, and the plan folder that is to stand for them."""

    files: Sequence[Path]
    waves: Sequence[PlanWave]
    folder: Path


class HarmfulPlan(SettingsError):
    """A plan is not carried out, as its judgement says why."""

    def __init__(self, file: Path, judgement: PlanJudgement) -> None:
        super().__init__(
            f"{file}: {judgement.level}",
            *(f"  {finding.level}: {finding.text}" for finding in judgement.findings if finding.level.is_harmful),
            "Correct it first; `check` judges it again"
            if judgement.level is PlanLevel.REJECTED
            else "Correct it, or add --accept-harm to carry it out all the same",
        )


def judge_lists(
    waves: Sequence[PlanWave], snapshot: Snapshot, model: ClusterModel, options: JudgeOptions, settings: Settings
) -> PlanJudgement:
    """Judge waves on a snapshot, with what is known of its disks."""
    return judge_waves(waves, *_add_disks(model, options, snapshot, settings), _list_incomplete(snapshot))


def _list_incomplete(snapshot: Snapshot) -> list[str]:
    """List the topics of which sources may not show every partition."""
    names: list[str] = snapshot.topics.filter(pc.field("incomplete"))["topic"].to_pylist()
    return names


def _add_disks(
    model: ClusterModel, options: JudgeOptions, snapshot: Snapshot, settings: Settings
) -> tuple[ClusterModel, JudgeOptions]:
    """Return the model and the options with what is known of disks, also from the file of capacities."""
    snapshot, ratio = add_disk_capacities(snapshot, settings.capacity.file), settings.capacity.max_disk_ratio
    room, free, _ = measure_disk_room(snapshot, model, ratio, settings.plans.broker_bytes)
    model = add_log_dirs(model, snapshot.log_dirs, snapshot.partitions, snapshot.stray_logs)
    return model, replace(options, disk_room=room, disk_free=free, max_disk_ratio=ratio)


def hash_files(files: Sequence[Path]) -> dict[str, str]:
    """Return the sha256 of files, in hex, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def write_foreign_plan(
    plan: ForeignPlan,
    snapshot: Snapshot,
    settings: Settings,
    throttle_bytes_per_s: int | None,
    *,
    factor: int | None = None,
    accepts_harm: bool = False,
) -> PlanJudgement:
    """Judge reassignments, and write what they change as a plan, in waves of this program, which are judged as well.

    A partition that several files name goes to its last list at once. throttle_bytes_per_s: None = of the settings.
    factor: the replication factor that they are to give; None = that of each topic.
    Raises: HarmfulPlan if Kafka rejects it, or if it is harmful and that is not accepted; SettingsError if it chooses
    log dirs.
    """
    files, waves = plan.files, plan.waves
    for path, wave in zip(files, waves, strict=True):
        if any({*one.log_dirs} - {ANY_LOG_DIR} for one in wave.lists if one.log_dirs):
            problem = f"{path} chooses log dirs, which apply takes from plans of its own only"
            raise SettingsError(f"{problem}. Write {ANY_LOG_DIR} for each, or use kafka-reassign-partitions")
    model = build_snapshot_model(snapshot, settings.topics.defaults)
    limits = build_wave_limits(settings)
    if throttle_bytes_per_s is not None:
        limits = replace(limits, throttle_bytes_per_s=float(throttle_bytes_per_s))
    options = JudgeOptions(() if factor is None else (factor,), throttle_bytes_per_s=limits.throttle_bytes_per_s)
    model, options = _add_disks(model, options, snapshot, settings)
    in_files = judge_waves(waves, model, options, _list_incomplete(snapshot))
    execution = plan_waves(model, _propose_lists(model, waves), limits)
    judgement = judge_planned_waves(execution, options)  # of what is executed
    for one in (in_files, judgement):
        if one.level is PlanLevel.REJECTED or (one.level.is_harmful and not accepts_harm):
            raise HarmfulPlan(files[0], one)
    facts = {
        "cluster": model.cluster_id,
        "kafka_cluster_id": snapshot.kafka_cluster_id,
        "topic_ids": find_topic_ids(execution, snapshot),
        "source_files": hash_files(files),
        "judgement": to_json(judgement),
    }
    write_plan(plan.folder, execution, facts)
    return judgement


def _propose_lists(model: ClusterModel, waves: Sequence[PlanWave]) -> ProposedAssignment:
    """Propose the last list of each partition that waves name, and the present ones of all others."""
    steps = read_steps(waves, model).steps
    chosen = np.arange(model.partitions)
    chosen[steps.row] = model.partitions + np.arange(len(steps.row))  # of several steps, the last one counts
    lists = np.concatenate([model.replicas, steps.replicas])
    offsets = np.concatenate([model.offsets, model.offsets[-1] + steps.offsets[1:]])
    replicas, offsets = take_segments(lists, offsets, chosen)
    reason = np.where(chosen < model.partitions, -1, 0).astype(np.int16)
    return ProposedAssignment(offsets, replicas, reason, ("named by a reassignment of another tool",))
