"""One step of operation: decides what becomes of each proposal now, and carries out what is approved.

Safe to repeat at any moment, also after a crash: each decision is on disk before it is acted on, and an execution that
was cut off continues by its own journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pipelines.config.policies import Policy
from pipelines.execution.wave_window import describe_waves
from pipelines.operation.approvals import GitApprovals, find_approvals
from pipelines.operation.proposals import ProposalFolder, ProposalRecord, ProposalState
from udfs.wording import format_bytes, join_names

ROLL_BACK = "roll-back"
_POLICY = "policy"  # instead of the name of who has approved a plan


@dataclass(frozen=True)
class Obstacles:
    """Why a plan is not carried out now. changed: the cluster is no longer the plan's; waits: what may pass."""

    changed: str = ""
    waits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What an attempt has led to. left: waves for another window; problem: why it cannot go on, empty = it can."""

    left: Sequence[int] = ()
    problem: str = ""


class Executor(Protocol):
    """What can be done with the plan of one proposal on its cluster."""

    def find_obstacles(self) -> Obstacles:
        """Find what forbids to begin, or to continue, now."""

    def execute(self, until: datetime) -> Outcome:
        """Carry out the waves that end before a moment; a plan that is done already has nothing left."""

    def roll_back(self) -> Outcome:
        """Return to the assignment before the plan."""


@dataclass(frozen=True)
class Operation:
    """What a step works on. clock: the time (UTC), which passes while plans are carried out."""

    proposals: ProposalFolder
    policies: Sequence[Policy]
    make_executor: Callable[[ProposalRecord], Executor]
    clock: Callable[[], datetime]
    repository: GitApprovals | None = None

    def step(self, cluster: str | None = None) -> Iterator[tuple[ProposalRecord, str]]:
        """Go through the open proposals of a cluster, or of all; yield each as it is then, with a sentence.

        Raises: SettingsError if another process does so.
        """
        with self.proposals.lock():
            records = self.proposals.list_open(cluster)
            # What has begun is continued first: two plans are never under way at once.
            for record in sorted(records, key=lambda record: record.state is not ProposalState.EXECUTING):
                sentence = self._decide(record)
                changed = self.proposals.find(record.proposal.id)
                yield changed, sentence
                if changed.state is ProposalState.EXECUTING:
                    break

    def _decide(self, record: ProposalRecord) -> str:
        proposal, now = record.proposal, self.clock()
        own = (one for one in self.policies if (one.cluster, one.goal) == (proposal.cluster, proposal.goal))
        policy = next(own, None)
        if record.state is not ProposalState.EXECUTING:
            if (end := self._find_end(record, policy, now)) is not None:
                return self._change(record, *end)
            is_by_policy = record.approver == _POLICY and policy is not None and policy.needs_approval
            if record.state is ProposalState.PROPOSED or is_by_policy:  # the policy has changed since
                by, others = self._find_approver(record, policy)
                if by is None:
                    text = f"waits for approval until {proposal.expires_at:%Y-%m-%d %H:%M} UTC"
                    return f"{text}; {join_names(others)} approved other files than were proposed" if others else text
                if record.state is ProposalState.PROPOSED:
                    record = self.proposals.change(record, ProposalState.APPROVED, now, by=by)
        if policy is None:
            return "has begun, and no policy allows it any longer: end it with kafka-placement apply"
        until = policy.find_window_end(now)
        if until is None:
            return f"{record.state}, waits for its next window"
        return self._carry_out(record, policy, until)

    def _find_end(
        self, record: ProposalRecord, policy: Policy | None, now: datetime
    ) -> tuple[ProposalState, str] | None:
        """Find whether a proposal that has not begun has ended, and why."""
        if policy is None:
            return ProposalState.SUPERSEDED, "no policy allows it any longer"
        if (changed := record.explain_changed_plan()) is not None:
            return ProposalState.SUPERSEDED, changed
        if now >= record.proposal.expires_at:
            return ProposalState.EXPIRED, "its time is over"
        if policy.max_bytes is not None and (record.proposal.bytes_to_copy or 0) > policy.max_bytes:
            return ProposalState.SUPERSEDED, f"the policy allows only {format_bytes(policy.max_bytes)} now"
        return None

    def _find_approver(self, record: ProposalRecord, policy: Policy | None) -> tuple[str | None, list[str]]:
        """Return who has approved the plan as it was proposed (None = not approved), and who other files."""
        if policy is not None and not policy.needs_approval:
            return _POLICY, []
        approvals = list(find_approvals(record, self.repository))
        by = next((one.by for one in approvals if one.digest == record.proposal.digest), None)
        return by, [one.by for one in approvals if one.digest != record.proposal.digest]

    def _carry_out(self, record: ProposalRecord, policy: Policy, until: datetime) -> str:
        has_begun = record.state is ProposalState.EXECUTING
        if has_begun and (changed := record.explain_changed_plan()) is not None:
            return self._change(record, ProposalState.FAILED, changed)  # it cannot be rolled back by them, either
        executor = self.make_executor(record)
        obstacles = executor.find_obstacles()
        if obstacles.changed and not has_begun:
            return self._change(record, ProposalState.SUPERSEDED, obstacles.changed)
        if obstacles.waits and not obstacles.changed:
            return f"{record.state}, waits: {'; '.join(obstacles.waits)}"
        if has_begun and record.failures >= policy.stop_after_failures:
            return self._give_up(record, policy, executor)
        if not has_begun:
            record = self.proposals.change(record, ProposalState.EXECUTING, self.clock(), "begins")
        outcome = Outcome(problem=obstacles.changed) if obstacles.changed else executor.execute(until)
        if not outcome.problem:
            if not outcome.left:
                return self._change(record, ProposalState.EXECUTED, "")
            left = f"{describe_waves(outcome.left)} left for another window"
            return self._change(record, ProposalState.EXECUTING, left)
        record = self.proposals.change(record, ProposalState.EXECUTING, self.clock(), outcome.problem, failed=True)
        if record.failures < policy.stop_after_failures:
            return f"failed, and is tried again: {outcome.problem}"
        if policy.if_failed == ROLL_BACK and self.clock() >= until:
            return f"failed, and is rolled back in the next window: {outcome.problem}"
        return self._give_up(record, policy, executor)

    def _give_up(self, record: ProposalRecord, policy: Policy, executor: Executor) -> str:
        reason = next(change.reason for change in reversed(record.history) if change.failed)
        if policy.if_failed != ROLL_BACK:
            return self._change(record, ProposalState.FAILED, reason)
        back = executor.roll_back()
        if back.problem or back.left:
            return self._change(record, ProposalState.FAILED, f"{reason}; the rollback failed, too: {back.problem}")
        return self._change(record, ProposalState.ROLLED_BACK, reason)

    def _change(self, record: ProposalRecord, state: ProposalState, reason: str) -> str:
        self.proposals.change(record, state, self.clock(), reason)
        return f"{state}: {reason}" if reason else str(state)
