"""Plans that are carried out one after another: what each has still to do on the cluster that the others leave."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.kafka_json import Key
from pipelines.plan_files.plan_check import PlanProgress, PlanStatus, check_plan, count_steps_done, set_rollback_lists
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_reader import PlannedChange, StoredPlan, read_plan
from pipelines.plan_files.reassignment_reader import PlanWave, is_plan_folder, list_remaining_waves
from pipelines.plan_files.state_after_plan import make_changes, undo_planned_moves
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults
from udfs.planning.cluster_model import ClusterModel


@dataclass(frozen=True)
class PlanPart:
    """A plan of a folder or of files, and the cluster that it is compared with: as those before it leave it."""

    path: Path  # of the folder, or of the first file
    plan: StoredPlan | None  # of the folder
    waves: Sequence[PlanWave]  # that it has still to do
    snapshot: Snapshot  # without what the plan is copying
    model: ClusterModel  # of it; a rollback leads to the lists before the first plan


@dataclass(frozen=True)
class ConsecutivePlans:
    """Plans that are carried out one after another."""

    parts: Sequence[PlanPart]
    progress: Sequence[tuple[Path, PlanProgress]]  # of the folders


def chain_plans(
    plans: Sequence[tuple[Path, StoredPlan | PlanWave]], snapshot: Snapshot, defaults: TopicDefaults
) -> ConsecutivePlans:
    """Check plans in their order, folders and files, each on the cluster as those before it leave it.

    Files in a row are the waves of one plan.
    Raises: SourceError if a folder is of another cluster, or if no source shows replicas.
    """
    parts: list[PlanPart] = []
    progress: list[tuple[Path, PlanProgress]] = []
    before: dict[Key, list[int]] = {}
    after, last_folder = snapshot, max((i for i, one in enumerate(plans) if isinstance(one[1], StoredPlan)), default=-1)
    for number, (path, plan) in enumerate(plans):
        follows_file = number > 0 and isinstance(plans[number - 1][1], PlanWave)
        if isinstance(plan, StoredPlan):
            model = build_snapshot_model(after, defaults)
            progress.append((path, check_after(plan, model, after.partitions, defaults)))
            waves = list_remaining_waves(plan, count_steps_done(plan, model, after.partitions))
            waves = [replace(one, name=f"{path.name}/{one.name}") for one in waves] if len(plans) > 1 else waves
            after = undo_planned_moves(after, plan, progress[-1][1].in_flight)
            before = {key: change.before for key, change in plan.changes.items()} | before
        else:
            waves = [plan]
        if isinstance(plan, PlanWave) and follows_file:
            parts[-1] = replace(parts[-1], waves=[*parts[-1].waves, plan])
        else:
            model = set_rollback_lists(before, build_snapshot_model(after, defaults))
            parts.append(PlanPart(path, plan if isinstance(plan, StoredPlan) else None, waves, after, model))
        if number < max(last_folder, len(plans) - 1 if isinstance(plan, StoredPlan) else 0):
            after = _carry_out(after, plan)
    return ConsecutivePlans(parts, progress)


def check_after(
    plan: StoredPlan, model: ClusterModel, partitions: pa.Table, defaults: TopicDefaults = KAFKA_DEFAULTS
) -> PlanProgress:
    """Check a plan as check_plan does; if it does not fit, name the plans before it that are not done."""
    progress = check_plan(plan, model, partitions, defaults)
    if progress.status is not PlanStatus.CHANGED:
        return progress
    undone = []
    for folder in plan.preceding_plans:
        earlier = read_plan(Path(folder)) if is_plan_folder(Path(folder)) else None
        if earlier is None or check_plan(earlier, model, partitions, defaults).status is not PlanStatus.DONE:
            undone.append(folder)
    return replace(progress, undone_plans=tuple(undone))


def _carry_out(snapshot: Snapshot, plan: StoredPlan | PlanWave) -> Snapshot:
    """Return the snapshot after a plan, but for what Kafka would reject."""
    partitions = snapshot.partitions.select(["topic", "partition", "replicas"]).to_pylist()
    now = {(one["topic"], one["partition"]): one["replicas"] or [] for one in partitions}
    if isinstance(plan, StoredPlan):
        changes, election = plan.changes, plan.election
    else:
        lists, election = {(one.topic, one.partition): [*one.replicas] for one in plan.lists}, ()
        changes = {key: PlannedChange(now.get(key, []), ((1, new),)) for key, new in lists.items()}
    brokers = set(snapshot.brokers["broker_id"].to_pylist())
    accepted = {key: one for key, one in changes.items() if key in now and one.after and brokers.issuperset(one.after)}
    return make_changes(snapshot, accepted, [key for key in election if key in now])
