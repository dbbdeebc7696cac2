"""Plans that are carried out one after another: what each has still to do on the cluster that the others leave."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.kafka_json import Key
from pipelines.plan_files.plan_check import PlanProgress, check_plan, count_steps_done, set_rollback_lists
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_reader import PlannedChange, StoredPlan
from pipelines.plan_files.reassignment_reader import PlanWave, list_remaining_waves
from pipelines.plan_files.state_after_plan import make_changes, undo_planned_moves
from udfs.failures.topic_defaults import TopicDefaults
from udfs.planning.cluster_model import ClusterModel


@dataclass(frozen=True)
class ConsecutivePlans:
    """The waves that plans have still to do, and the cluster on which they do it."""

    waves: Sequence[PlanWave]
    progress: Sequence[tuple[Path, PlanProgress]]  # of the folders
    snapshot: Snapshot  # without what the plans are copying
    model: ClusterModel  # of it; a rollback leads to the lists before the first plan


def chain_plans(
    plans: Sequence[tuple[Path, StoredPlan | PlanWave]], snapshot: Snapshot, defaults: TopicDefaults
) -> ConsecutivePlans:
    """Check plans in their order, folders and files, each on the cluster as those before it leave it.

    Raises: SourceError if a folder is of another cluster, or if no source shows replicas.
    """
    waves: list[PlanWave] = []
    progress: list[tuple[Path, PlanProgress]] = []
    before: dict[Key, list[int]] = {}
    after, last_folder = snapshot, max((i for i, one in enumerate(plans) if isinstance(one[1], StoredPlan)), default=-1)
    for number, (path, plan) in enumerate(plans):
        if isinstance(plan, StoredPlan):
            model = build_snapshot_model(after, defaults)
            progress.append((path, check_plan(plan, model, after.partitions, defaults)))
            rest = list_remaining_waves(plan, count_steps_done(plan, model, after.partitions))
            waves += [replace(one, name=f"{path.name}/{one.name}") for one in rest] if len(plans) > 1 else rest
            moves = progress[-1][1].in_flight
            snapshot, after = (undo_planned_moves(one, plan, moves) for one in (snapshot, after))
            before = {key: change.before for key, change in plan.changes.items()} | before
        else:
            waves.append(plan)
        if number < last_folder:
            after = _carry_out(after, plan)
    return ConsecutivePlans(
        waves, progress, snapshot, set_rollback_lists(before, build_snapshot_model(snapshot, defaults))
    )


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
