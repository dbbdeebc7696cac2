"""What a run proposes, from the findings of the runs before it and its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.config.capacity_file import add_disk_capacities
from pipelines.config.plan_parameters import build_metric_options, build_request, build_wave_limits
from pipelines.config.policies import Policy
from pipelines.config.setting_sections import Settings
from pipelines.errors import Infeasible, SourceError
from pipelines.execution.execution_history import record_executions
from pipelines.execution.journal import JOURNAL
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import SnapshotKey, Source
from pipelines.maintenance import read_seen
from pipelines.operation.approvals import GitApprovals
from pipelines.operation.proposals import ProposalFolder, ProposalRecord, ProposalState
from pipelines.operation.proposing import Observation, Proposer, WrittenPlan
from pipelines.plan_files.change_ticket import make_ticket
from pipelines.plan_files.plan_creation import create_plan
from pipelines.plan_files.plan_reader import read_plan
from pipelines.plan_files.plan_writer import TICKET
from pipelines.spark.arrow_frames import make_rows, to_utc
from pipelines.spark.store import Store
from pipelines.tables.execution_tables import PROPOSALS
from pipelines.verdict.finding_rows import FINDING_COLUMNS, read_finding_rows
from pipelines.verdict.recommended_plans import RecommendedPlan
from udfs.planning.plan_states import PlanLevel

_FINDINGS = "gold.findings"
_OBSERVATIONS = 100  # runs that are looked back


def open_repository(settings: Settings) -> GitApprovals | None:
    """Return the repository in which a merge approves a proposal; None without one."""
    operation = settings.operation
    return GitApprovals(Path(operation.git_repository), operation.git_branch) if operation.git_repository else None


def propose_plans(
    store: Store, sources: Mapping[SnapshotKey, Source], settings: Settings, format_name: str | None
) -> Iterator[str]:
    """Propose what the policies of the run's clusters allow; yield a sentence for each policy and branch."""
    proposals, repository = ProposalFolder(Path(settings.operation.proposals)), open_repository(settings)
    for key, source in sources.items():
        own = [policy for policy in settings.operation.policies if policy.cluster == key.cluster_id]
        observations = _read_observations(store, key) if own else []
        if not observations:
            continue
        snapshot = load_snapshot(source, format_name, settings.ingest.max_file_bytes)

        def write(policy: Policy, plan: RecommendedPlan, folder: Path, snapshot: Snapshot = snapshot) -> WrittenPlan:
            return _write_plan(snapshot, settings, policy, plan, folder)

        yield from Proposer(proposals, key.cluster_id, write).propose(own, observations)
        gated = {policy.goal for policy in own if policy.needs_approval}
        for record in proposals.list_open(key.cluster_id):
            is_waiting = record.state is ProposalState.PROPOSED and record.proposal.goal in gated
            if repository is not None and is_waiting:
                yield f"{record.proposal.id}: merge branch {repository.propose(record)} to approve it"
        records = proposals.list_all(key.cluster_id)
        _record_executions(store, key.cluster_id, records)
        rows = [_make_row(key, record) for record in records]
        store.replace(PROPOSALS, make_rows(rows, PROPOSALS.schema), [key])


def _record_executions(store: Store, cluster: str, records: Iterable[ProposalRecord]) -> None:
    """Record what `operate` has carried out since the run before, as that run's rows of proposals show."""
    names = ("cluster_id", "proposal_id", "changed_at")
    before = store.read_columns(PROPOSALS.name, names).to_pylist() if store.exists(PROPOSALS.name) else []
    known = {row["proposal_id"]: to_utc(row["changed_at"]) for row in before if row["cluster_id"] == cluster}
    for record in records:
        if known.get(record.proposal.id) != record.changed_at and (record.plan_folder / JOURNAL).exists():
            record_executions(store, record.plan_folder, read_plan(record.plan_folder))


def _make_row(key: SnapshotKey, record: ProposalRecord) -> tuple[Any, ...]:
    """Return the row of a proposal (PROPOSALS)."""
    proposal, last = record.proposal, record.history[-1]
    what = (proposal.id, proposal.goal, list(proposal.kinds), proposal.reason, proposal.level, proposal.bytes_to_copy)
    when = (proposal.digest, proposal.created_at, proposal.expires_at)
    return (
        key.cluster_id,
        key.snapshot_id,
        *what,
        *when,
        str(last.state),
        last.at,
        last.reason,
        record.approver,
        record.failures,
    )


def _read_observations(store: Store, newest: SnapshotKey) -> list[Observation]:
    """Read what the last runs have found of a cluster, the newest first; none if this run has not judged it."""
    seen = sorted(read_seen(store, [newest.cluster_id]), key=lambda one: one.as_of, reverse=True)[:_OBSERVATIONS]
    if not seen or seen[0].key != newest:  # an older snapshot is read again
        return []
    names = ["snapshot_id", *(field.name for field in FINDING_COLUMNS)]
    rows = store.read_rows(_FINDINGS, list(dict.fromkeys(one.key for one in seen)), names)
    return [
        Observation(one.as_of, read_finding_rows([row for row in rows if row["snapshot_id"] == one.snapshot_id]))
        for one in seen
    ]


def _write_plan(
    snapshot: Snapshot, settings: Settings, policy: Policy, plan: RecommendedPlan, folder: Path
) -> WrittenPlan:
    """Write the plan of a policy, with its ticket."""
    now = add_disk_capacities(snapshot, settings.capacity.file)
    limits, defaults = build_wave_limits(settings), settings.topics.defaults
    request = build_request(settings, policy.goal, **{**plan.fields, **policy.make_fields(limits.throttle_bytes_per_s)})
    try:
        created = create_plan(now, request, folder, limits, build_metric_options(settings), defaults)
    except (Infeasible, SourceError) as error:
        return WrittenPlan(PlanLevel.SAFE, None, changes_nothing=True, obstacle=" ".join(f"{error}".split()))
    commands = ["kafka-placement operate carries it out in the next window, once it is approved"]
    (folder / TICKET).write_text(make_ticket(created, now, folder, defaults, commands), encoding="utf-8")
    metrics = created.facts.metrics
    changes = metrics.lists_changed or int(created.summary.elections.elected.sum())
    disks = [state.balance.size_bytes.max_over_mean for state in (metrics.before, metrics.after)]
    gain = None if disks[0] is None or disks[1] is None else 100 * (disks[0] - disks[1])
    return WrittenPlan(created.facts.judgement.level, metrics.bytes_to_copy, not changes, gain)
