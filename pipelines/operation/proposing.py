"""Proposes plans: for findings that several runs in a row have, within the budget of a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from pipelines.config.policies import REPAIR, Policy
from pipelines.operation.proposals import PLAN, Proposal, ProposalFolder, ProposalState, compute_digest
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.recommended_plans import RecommendedPlan, list_all_plans
from udfs.planning.plan_states import PlanLevel

_FAILED = (ProposalState.FAILED, ProposalState.ROLLED_BACK)
_DOWN = "down"  # the finding that brokers are down
_HARMLESS = (PlanLevel.SAFE, PlanLevel.RISKY)


class Observation(NamedTuple):
    """What a run has found of a cluster."""

    at: datetime  # UTC
    verdict: Verdict


class WrittenPlan(NamedTuple):
    """A plan whose files are written, unless there is an obstacle.

    level: verdict of check. bytes_to_copy: None = not known. gain: by how many percent of the mean the fullest disk
    comes down; None = not known. obstacle: why there is no plan.
    """

    level: PlanLevel
    bytes_to_copy: float | None
    changes_nothing: bool
    gain: float | None = None
    obstacle: str = ""

    def explain_unfit(self, policy: Policy) -> str:
        """Say why a policy does not allow to propose the plan; empty if it does."""
        if self.obstacle or self.changes_nothing:
            return self.obstacle or "it would change nothing"
        if self.level not in _HARMLESS:
            return f"check calls it {self.level}"
        if not policy.needs_approval and self.level is not PlanLevel.SAFE:
            return f"check calls it {self.level}, and no approval is required"
        least, copied = policy.least_gain_per_tb, self.bytes_to_copy
        if least is not None and copied and self.gain is not None and (gain := self.gain / (copied / 1e12)) < least:
            return f"it gains {gain:.3g} per TB, and least_gain_per_tb is {least:g}"
        return ""


@dataclass(frozen=True)
class Proposer:
    """Proposes plans of one cluster. write_plan: writes a plan to a folder."""

    proposals: ProposalFolder
    cluster: str
    write_plan: Callable[[Policy, RecommendedPlan, Path], WrittenPlan]

    def propose(self, policies: Sequence[Policy], observations: Sequence[Observation]) -> Iterator[str]:
        """Propose what policies allow, and end what nothing calls for any longer; yield a sentence for each policy.

        observations: of the runs, the newest first; there is one at least.
        """
        with self.proposals.lock():
            for policy in policies:
                if policy.cluster == self.cluster:
                    yield f"{self.cluster}, {policy.goal}: {self._consider(policy, observations)}"

    def _consider(self, policy: Policy, observations: Sequence[Observation]) -> str:
        now = observations[0].at
        plan = self._find_plan(policy, observations[0])
        own = (record for record in self.proposals.list_open(self.cluster) if record.proposal.goal == policy.goal)
        open_one = next(own, None)
        if open_one is not None:
            if plan is None and open_one.state in (ProposalState.PROPOSED, ProposalState.APPROVED):
                self.proposals.change(open_one, ProposalState.SUPERSEDED, now, "its findings are gone")
                return f"{open_one.proposal.id} is superseded: its findings are gone"
            return f"{open_one.proposal.id} is {open_one.state}"
        if plan is None:
            return "nothing to propose"
        if reason := self._explain_waiting(policy, observations):
            return reason

        unfit = ""

        def write(folder: Path) -> Proposal | None:
            nonlocal unfit
            written = self.write_plan(policy, plan, folder / PLAN)
            if unfit := written.explain_unfit(policy):
                return None
            return Proposal(
                id=proposal_id,
                cluster=self.cluster,
                goal=policy.goal,
                kinds=plan.kinds,
                reason=next(point.text for point in observations[0].verdict.points if point.kind == plan.kinds[0]),
                level=str(written.level),
                bytes_to_copy=written.bytes_to_copy,
                created_at=now.astimezone(UTC),
                expires_at=(now + timedelta(days=policy.expires_days)).astimezone(UTC),
                digest=compute_digest(folder / PLAN),
            )

        proposal_id = f"{self.cluster}-{policy.goal}-{now.astimezone(UTC):%Y%m%d-%H%M%S}"
        record = self.proposals.create(proposal_id, write)
        return f"no plan may be proposed: {unfit}" if record is None else f"{proposal_id} is proposed"

    def _find_plan(self, policy: Policy, observation: Observation) -> RecommendedPlan | None:
        """Find the plan that the findings of a run recommend for a policy; None without any."""
        for plan in list_all_plans(observation.verdict):
            kinds = tuple(kind for kind in plan.kinds if not policy.findings or kind in policy.findings)
            if plan.goal == policy.goal and kinds:
                return RecommendedPlan(plan.plan, plan.step, kinds)
        return None

    def _explain_waiting(self, policy: Policy, observations: Sequence[Observation]) -> str:
        """Say why a policy proposes nothing yet; empty if it may."""
        now, runs = observations[0].at, observations[: policy.stable_runs]
        if len(runs) < policy.stable_runs or any(self._find_plan(policy, one) is None for one in runs):
            return f"waits until {policy.stable_runs} runs in a row have the finding"
        down_since = _find_down_since(observations)
        if policy.goal != REPAIR and down_since is not None:
            return "waits: a broker is down"
        if policy.repair_after_hours is not None:
            wait = timedelta(hours=policy.repair_after_hours)
            if down_since is not None and now - down_since < wait:
                return f"waits: the broker may come back; it has been down since {down_since:%Y-%m-%d %H:%M} UTC"
        ended = self.proposals.list_ended(self.cluster, policy.goal, policy.stop_after_failures)
        if ended and now < ended[-1].changed_at + timedelta(days=policy.cool_down_days):
            return f"waits: {ended[-1].proposal.id} has only just ended ({ended[-1].state})"
        if len(ended) == policy.stop_after_failures and all(one.state in _FAILED for one in ended):
            return f"stopped, as {', '.join(one.proposal.id for one in ended)} failed: move their folders away to go on"
        return ""


def _find_down_since(observations: Sequence[Observation]) -> datetime | None:
    """Return the first of the last runs in a row with brokers down (UTC); None if the newest has none."""
    since = None
    for observation in observations:
        if all(point.kind != _DOWN for point in observation.verdict.points):
            break
        since = observation.at
    return since
