"""A year of a cluster whose plans are proposed, approved and carried out, with churn, failures and crashes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from pipelines.config.policies import MaintenanceWindow, Policy
from pipelines.errors import SettingsError
from pipelines.operation import proposals as storage
from pipelines.operation.operating import Executor, Obstacles, Operation, Outcome
from pipelines.operation.proposals import ProposalFolder, ProposalRecord, ProposalState, write_approval
from pipelines.operation.proposing import Observation, Proposer, WrittenPlan
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.recommended_plans import RecommendedPlan
from pipelines.verdict.verdict_points import Level, NextPlan, VerdictPoint
from udfs.planning.plan_states import PlanLevel

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
CLUSTER = "prod"
WAVE = timedelta(minutes=50)
NIGHT = MaintenanceWindow(days=("mon", "tue", "thu", "sat"), begins="23:00", ends="04:00", time_zone="Europe/Berlin")
POLICIES = (
    Policy(cluster=CLUSTER, goal="leaders", approval="none", windows=(NIGHT,), cool_down_days=2),
    Policy(cluster=CLUSTER, goal="balance", windows=(NIGHT,), expires_days=4, if_failed="roll-back", cool_down_days=3),
    Policy(cluster=CLUSTER, goal="repair", windows=(NIGHT,), repair_after_hours=30, stop_after_failures=3),
)
KINDS = {"leaders": "leaders_kind", "balance": "balance_kind", "repair": "down"}


class Crash(BaseException):
    """The process ends here."""


@dataclass
class Year:
    """The cluster, the clock and what has happened. generation: counts changes that no plan has made."""

    root: Path
    random: random.Random
    now: datetime = BEGIN
    generation: int = 0
    down_since: datetime | None = None
    other_balancer: bool = False
    running: str | None = None
    begun: set[str] = field(default_factory=set)
    waves: list[tuple[str, int]] = field(default_factory=list)
    crashes: int = 0

    def may_crash(self) -> None:
        if self.random.random() < 0.02:
            self.crashes += 1
            raise Crash

    def observe(self, observations: list[Observation]) -> None:
        """Add what the run of this night finds."""
        found = ["repair"] if self.down_since else []
        found += [goal for goal in ("leaders", "balance") if self.random.random() < 0.8]
        points = tuple(
            VerdictPoint(Level.AT_RISK, f"{goal} is needed", "plan", KINDS[goal], NextPlan(goal)) for goal in found
        )
        verdict = Verdict(Level.AT_RISK, "", points)
        observations.insert(0, Observation(self.now, verdict))

    def write_plan(self, policy: Policy, plan: RecommendedPlan, folder: Path) -> WrittenPlan | None:
        """Write a plan of up to nine waves, for the cluster as it is."""
        self.may_crash()
        folder.mkdir()
        waves = self.random.randrange(10)
        text = {"generation": self.generation, "waves": waves, "goal": plan.goal}
        (folder / "plan.json").write_text(json.dumps(text))
        return WrittenPlan(self.random.choice(list(PlanLevel)), 1.0, changes_nothing=not waves)


@dataclass
class SimulatedExecutor(Executor):
    """Carries out a plan of the year, and checks that it may."""

    year: Year
    record: ProposalRecord

    def __post_init__(self) -> None:
        self.plan = json.loads((self.record.plan_folder / "plan.json").read_text())
        self.journal = self.record.plan_folder / "execution.jsonl"

    @property
    def done(self) -> int:
        return len(self.journal.read_text()) if self.journal.exists() else 0

    def find_obstacles(self) -> Obstacles:
        self.year.may_crash()
        changed = "other topics" if self.plan["generation"] != self.year.generation and not self.done else ""
        return Obstacles(changed, ("another balancer moves replicas",) if self.year.other_balancer else ())

    def execute(self, until: datetime) -> Outcome:
        year, own = self.year, self.record.proposal.id
        assert year.running in (None, own), "two plans at once"
        check_permission(ProposalFolder(year.root).find(own), self.plan)
        year.running = own
        try:
            while self.done < self.plan["waves"]:
                year.may_crash()
                if year.now + WAVE > until:
                    return Outcome(range(self.done + 1, self.plan["waves"] + 1))
                if year.random.random() < 0.04:
                    return Outcome(problem="a broker has failed")
                policy = next(one for one in POLICIES if one.goal == self.plan["goal"])
                assert policy.find_window_end(year.now) is not None, "a wave begins outside of the window"
                year.now += WAVE
                assert policy.find_window_end(year.now - timedelta(seconds=1)) is not None, "a wave ends outside"
                with self.journal.open("a") as file:
                    file.write(".")
                year.waves.append((own, self.done))
                year.may_crash()
        finally:
            year.running = None
        return Outcome()

    def roll_back(self) -> Outcome:
        self.year.may_crash()
        policy = next(one for one in POLICIES if one.goal == self.plan["goal"])
        assert policy.find_window_end(self.year.now) is not None, "a rollback begins outside of the window"
        return Outcome(problem="no broker answers" if self.year.random.random() < 0.2 else "")


def check_permission(record: ProposalRecord, plan: dict[str, object]) -> None:
    """Check from the files alone that this very plan was approved, and is not too late to begin."""
    assert storage.compute_digest(record.plan_folder) == record.proposal.digest, "another plan than proposed"
    approvals = [change for change in record.history if change.state is ProposalState.APPROVED]
    assert len(approvals) == 1
    if plan["goal"] != "leaders":
        approval = json.loads((record.folder / "approval.json").read_text())
        assert approval["digest"] == record.proposal.digest, "an approval of another plan"
        assert approvals[0].by == approval["by"]
    begins = [change.at for change in record.history if change.state is ProposalState.EXECUTING]
    assert begins[0] < record.proposal.expires_at, "begun too late"


@contextmanager
def torn_writes(year: Year) -> Iterator[None]:
    """Let the process crash before, within and after each write of a history."""
    write: Callable[..., str] = storage.append_entry

    def append(path: Path, entry: dict[str, object]) -> str:
        year.may_crash()
        if year.random.random() < 0.02:
            with path.open("a") as file:
                file.write('{"at": "20')
            year.crashes += 1
            raise Crash
        line = write(path, entry)
        year.may_crash()
        return line

    with patch.object(storage, "append_entry", append):
        yield


def live_through(root: Path, seed: int, days: int = 365) -> tuple[Year, list[ProposalRecord]]:
    """Live through a year, and return it with all proposals."""
    year = Year(root, random.Random(seed))
    folder = ProposalFolder(root)
    operation = Operation(folder, POLICIES, lambda record: SimulatedExecutor(year, record), lambda: year.now)
    observations: list[Observation] = []
    with torn_writes(year):
        for day in range(days):
            year.now = max(year.now, BEGIN + timedelta(days=day))
            change_the_world(year)
            year.observe(observations)
            with suppress(Crash):
                list(Proposer(folder, CLUSTER, year.write_plan).propose(POLICIES, observations[:40]))
            decide_like_people(year, folder)
            for hour in range(0, 24, 3):
                year.now = max(year.now, BEGIN + timedelta(days=day, hours=hour))
                with suppress(Crash):
                    list(operation.step())
    return year, folder.list_all()


def change_the_world(year: Year) -> None:
    """Change the cluster: topics come, brokers fail and return, another balancer works."""
    chance = year.random.random
    if chance() < 0.15:
        year.generation += 1
    if year.down_since is None and chance() < 0.05:
        year.down_since = year.now
    elif year.down_since is not None and chance() < 0.4:
        year.down_since = None
    year.other_balancer = chance() < 0.1


def decide_like_people(year: Year, folder: ProposalFolder) -> None:
    """Approve, forget, reject, tamper with plans, and approve what was not proposed."""
    for record in folder.list_open():
        if record.state is ProposalState.EXECUTING and year.random.random() < 0.02:
            with (record.plan_folder / "plan.json").open("a") as file:
                file.write(" ")
        if record.state is not ProposalState.PROPOSED:
            continue
        chance = year.random.random()
        if chance < 0.4:
            with suppress(SettingsError):  # of a plan whose files have changed
                write_approval(record, "ada", year.now)
        elif chance < 0.5:
            (record.folder / "approval.json").write_text(json.dumps({"digest": "0" * 64, "by": "eve"}))
        elif chance < 0.55:
            with (record.plan_folder / "plan.json").open("a") as file:
                file.write(" ")
        elif chance < 0.6:
            with suppress(Crash):
                folder.change(record, ProposalState.REJECTED, year.now, by="bob")
