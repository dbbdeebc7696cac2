"""Plans that are compared with a cluster and judged: folders that plan wrote, and reassignment files of any tool."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.config.plan_parameters import build_wave_limits
from pipelines.config.setting_sections import Settings
from pipelines.execution.journal import Journal
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.consecutive_plans import chain_plans
from pipelines.plan_files.foreign_plan import judge_lists
from pipelines.plan_files.plan_check import PlanProgress
from pipelines.plan_files.plan_creation import begin_with_earlier_plans
from pipelines.plan_files.plan_judgement import PlanJudgement, describe_baseline, join_judgements
from pipelines.plan_files.plan_reader import StoredPlan, read_plan
from pipelines.plan_files.planned_cluster import add_new_brokers, explain_assumption, list_unknown_brokers
from pipelines.plan_files.reassignment_reader import PlanWave, is_plan_folder, read_reassignment
from udfs.planning.plan_judge import JudgeOptions


@dataclass(frozen=True)
class CheckedPlans:
    """Plans, each after the one before it, on a cluster."""

    journals: dict[Path, Journal]  # of folders
    progress: list[tuple[Path, PlanProgress]]  # of folders
    judgement: PlanJudgement | None  # of what is left of all of them; None = nothing is
    assumptions: tuple[str, ...] = ()  # on brokers that the cluster does not have yet, in sentences

    @property
    def may_execute(self) -> bool:
        """Whether nothing forbids to carry them out."""
        is_harmful = self.judgement is not None and self.judgement.level.is_harmful
        return not is_harmful and all(one.may_execute for _, one in self.progress)


def check_plans(
    paths: Sequence[Path],
    snapshot: Snapshot,
    settings: Settings,
    *,
    now: Snapshot | None = None,
    rf: int | None = None,
    throttle_bytes_per_s: float | None = None,
    preceding_plans: Sequence[Path] = (),
) -> CheckedPlans:
    """Compare plans with a cluster, and judge what is left of them.

    now: the cluster as it is, if the snapshot is it after preceding_plans. rf: replication factor that files are to
    give. throttle_bytes_per_s: None = that of the plans, else that of the settings.
    Raises: SourceError if a file is no plan, a plan is of another cluster, or no source shows replicas.
    """
    defaults = settings.topics.defaults
    plans: list[tuple[Path, StoredPlan | PlanWave]] = [
        (path, read_plan(path) if is_plan_folder(path) else read_reassignment(path)) for path in paths
    ]
    stored = {path: plan for path, plan in plans if isinstance(plan, StoredPlan)}
    journals = {path: Journal.open(path) for path in stored}
    own_rates = [*(one.open_rate for one in journals.values()), *(one.throttle_bytes_per_s for one in stored.values())]
    rate = throttle_bytes_per_s or next(filter(None, own_rates), None)
    rate = float(rate or build_wave_limits(settings).throttle_bytes_per_s)
    assumptions = []
    for plan in stored.values():
        if assumed := list_unknown_brokers(snapshot, plan.added_brokers):
            snapshot = add_new_brokers(snapshot, assumed)
            assumptions.append(explain_assumption(assumed))
    applied = {path: one.applied_at for path, one in journals.items()}
    parts, progress = chain_plans(plans, snapshot, defaults, applied)
    judged = []
    for one in (part for part in parts if not part.is_over):
        factors = {rf} if one.plan is None else {rf, one.plan.asked_factor}
        emptied = () if one.plan is None else tuple(sorted(one.plan.emptied_brokers))
        options = JudgeOptions(tuple(filter(None, factors)), throttle_bytes_per_s=rate, emptied=emptied)
        own = judge_lists(one.waves, one.snapshot, one.model, options, settings)
        judged.append((one.path.name, begin_with_earlier_plans(own, now or snapshot, one.snapshot)))
    judgement = join_judgements(judged) if judged else None
    if judgement and len(judged) == 1:
        judgement = replace(judgement, baseline=describe_baseline(preceding_plans))
    return CheckedPlans(journals, progress, judgement, tuple(assumptions))
