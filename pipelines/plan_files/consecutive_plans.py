"""Plans that are carried out one after another: what each has still to do on the cluster that the others leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.kafka_json import Key
from pipelines.plan_files.plan_check import PlanProgress, PlanStatus, check_plan, count_steps_done, set_rollback_lists
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_reader import PlannedChange, StoredPlan, read_plan
from pipelines.plan_files.reassignment_reader import PlanWave, is_plan_folder, list_remaining_waves
from pipelines.plan_files.state_after_plan import find_lists, make_changes, undo_planned_moves
from udfs.failures.topic_defaults import TopicDefaults
from udfs.planning.cluster_model import ClusterModel


@dataclass(frozen=True)
class PlanPart:
    """A plan of a folder or of files, and the cluster that it is compared with: as those before it leave it."""

    path: Path  # of the folder, or of the first file
    plan: StoredPlan | None  # of the folder
    waves: Sequence[PlanWave]  # that it has still to do
    snapshot: Snapshot  # without what the plan is copying
    model: ClusterModel  # of it; a rollback leads to the lists before the first plan
    is_over: bool = False  # whether partitions of the folder were moved on: it is over, or another plan followed it


def chain_plans(
    plans: Sequence[tuple[Path, StoredPlan | PlanWave]],
    snapshot: Snapshot,
    defaults: TopicDefaults,
    applied: Mapping[Path, str | None],
) -> tuple[list[PlanPart], list[tuple[Path, PlanProgress]]]:
    """Check plans in their order, folders and files, each on the cluster as those before it leave it.

    Files in a row are the waves of one plan. applied: when folders were carried out as a whole, by their journals.
    Returns: the plans, and how far those of folders are.
    Raises: SourceError if a folder is of another cluster, or if no source shows replicas.
    """
    parts: list[PlanPart] = []
    progress: list[tuple[Path, PlanProgress]] = []
    before: dict[Key, list[int]] = {}
    after, is_over, lists = snapshot, False, find_lists(snapshot.partitions)
    last_folder = max((i for i, one in enumerate(plans) if isinstance(one[1], StoredPlan)), default=-1)
    for number, (path, plan) in enumerate(plans):
        follows_file = number > 0 and isinstance(plans[number - 1][1], PlanWave)
        if isinstance(plan, StoredPlan):
            model = build_snapshot_model(after, defaults)
            own = check_after(plan, model, after.partitions, defaults)
            if own.status is not PlanStatus.DONE and (follower := find_follower(plan, plans[number + 1 :], lists)):
                own = replace(own, status=PlanStatus.DONE, follower=str(follower), undone_plans=())
            elif own.moved_on and (at := applied.get(path)):
                own = replace(own, status=PlanStatus.DONE, applied_at=at)
            progress.append((path, own))
            is_over = own.follower is not None or bool(own.moved_on)
            waves = list_remaining_waves(plan, count_steps_done(plan, model, after.partitions))
            waves = [replace(one, name=f"{path.name}/{one.name}") for one in waves] if len(plans) > 1 else waves
            after = undo_planned_moves(after, plan, progress[-1][1].in_flight)
            before = {key: change.before for key, change in plan.changes.items()} | before
        else:
            waves, is_over = [plan], False
        if isinstance(plan, PlanWave) and follows_file:
            parts[-1] = replace(parts[-1], waves=[*parts[-1].waves, plan])
        else:
            model = set_rollback_lists(before, build_snapshot_model(after, defaults))
            parts.append(PlanPart(path, plan if isinstance(plan, StoredPlan) else None, waves, after, model, is_over))
        if number < max(last_folder, len(plans) - 1 if isinstance(plan, StoredPlan) else 0) and not parts[-1].is_over:
            after = _carry_out(after, plan)
    return parts, progress


def check_after(plan: StoredPlan, model: ClusterModel, partitions: pa.Table, defaults: TopicDefaults) -> PlanProgress:
    """Check a plan as check_plan does; if it does not fit, name the plans before it that are not done.

    Not what of these another plan has moved on. Once this one has begun, they are done.
    """
    progress = check_plan(plan, model, partitions, defaults)
    if progress.status is not PlanStatus.CHANGED:
        return progress
    earlier = {one: read_plan(Path(one)) if is_plan_folder(Path(one)) else None for one in plan.preceding_plans}
    if _has_begun(plan, [one for one in earlier.values() if one], find_lists(partitions)):
        return progress
    checked = {one: check_plan(each, model, partitions, defaults) if each else None for one, each in earlier.items()}
    undone = [one for one, each in checked.items() if each is None or each.is_undone]
    return replace(progress, undone_plans=tuple(undone))


def find_follower(
    plan: StoredPlan, later: Sequence[tuple[Path, StoredPlan | PlanWave]], lists: Mapping[Key, tuple[int, ...]]
) -> Path | None:
    """Return the last of the later plans that have begun, if these have moved on all that is not as planned."""
    stored = [(path, one) for path, one in later if isinstance(one, StoredPlan)]
    begun = [(path, one) for path, one in stored if _has_begun(one, [plan], lists)]
    left = {key for key, change in plan.changes.items() if lists.get(key, ()) not in ((), tuple(change.after))}
    moved_on = {key for _, one in begun for key in left if _has_moved(one, key, lists)}
    return begun[-1][0] if begun and left == moved_on else None


def _has_begun(plan: StoredPlan, earlier: Sequence[StoredPlan], lists: Mapping[Key, tuple[int, ...]]) -> bool:
    """Return whether partitions are where this plan takes them, and no earlier one."""
    moved = (key for key in plan.changes if _has_moved(plan, key, lists))
    return any(
        all(key not in one.changes or lists[key] not in one.changes[key].lists for one in earlier) for key in moved
    )


def _has_moved(plan: StoredPlan, key: Key, lists: Mapping[Key, tuple[int, ...]]) -> bool:
    """Return whether a partition is where a step of the plan takes it, and not as before."""
    return key in plan.changes and lists.get(key) in {*plan.changes[key].lists} - {tuple(plan.changes[key].before)}


def _carry_out(snapshot: Snapshot, plan: StoredPlan | PlanWave) -> Snapshot:
    """Return the snapshot after a plan, but for what Kafka would reject."""
    now = find_lists(snapshot.partitions)
    if isinstance(plan, StoredPlan):
        changes, election = plan.changes, plan.election
    else:
        lists, election = {(one.topic, one.partition): [*one.replicas] for one in plan.lists}, ()
        changes = {key: PlannedChange([*now.get(key, ())], ((1, new),)) for key, new in lists.items()}
    brokers = set(snapshot.brokers["broker_id"].to_pylist())
    accepted = {key: one for key, one in changes.items() if key in now and one.after and brokers.issuperset(one.after)}
    return make_changes(snapshot, accepted, [key for key in election if key in now])
