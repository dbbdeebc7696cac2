"""What counts as an approval: the digest of the plan as it was proposed."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.config.policies import Policy
from pipelines.errors import SettingsError, SourceError
from pipelines.operation.approvals import Approval, GitApprovals, find_approvals
from pipelines.operation.operating import Obstacles, Operation, Outcome
from pipelines.operation.proposals import Proposal, ProposalFolder, ProposalRecord, ProposalState, compute_digest
from pipelines.operation.proposals import write_approval as approve

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)


def propose(
    root: Path, name: str = "prod-balance-20270301-120000", goal: str = "balance", size: float | None = None
) -> ProposalRecord:
    def write(folder: Path) -> Proposal:
        (folder / "plan").mkdir()
        (folder / "plan" / "plan.json").write_text("{}")
        (folder / "plan" / "ticket.md").write_text("# Change\n")
        return Proposal(
            id=name,
            cluster="prod",
            goal=goal,
            kinds=("broker_offline",),
            reason="disks are uneven",
            level="SAFE",
            bytes_to_copy=size,
            created_at=NOW,
            expires_at=NOW + timedelta(days=7),
            digest=compute_digest(folder / "plan"),
        )

    record = ProposalFolder(root).create(name, write)
    assert record is not None
    return record


def run_git(repository: Path, *arguments: str) -> None:
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", "-C", str(repository), *author, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> GitApprovals:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", "-b", "main", str(folder)], check=True)
    run_git(folder, "commit", "--quiet", "--allow-empty", "-m", "Begin")
    return GitApprovals(folder)


def test_a_merge_approves_what_was_proposed(tmp_path: Path, repository: GitApprovals) -> None:
    record = propose(tmp_path / "proposals")
    branch = repository.propose(record)
    assert repository.propose(record) == branch  # once
    assert list(find_approvals(record, repository)) == []
    run_git(repository.repository, "merge", "--no-ff", "-m", "Approve", branch)
    assert list(find_approvals(record, repository)) == [Approval(record.proposal.digest, "Ada")]
    shown = repository.repository / "kafka-placement" / record.proposal.id
    assert (shown / "plan" / "ticket.md").is_file()
    assert compute_digest(shown / "plan") == record.proposal.digest


def test_an_edited_merge_approves_another_digest(tmp_path: Path, repository: GitApprovals) -> None:
    record = propose(tmp_path / "proposals")
    run_git(repository.repository, "merge", "--no-ff", "-m", "Approve", repository.propose(record))
    file = repository.repository / "kafka-placement" / record.proposal.id / "plan" / "plan.json"
    file.write_text('{"waves": []}')
    run_git(repository.repository, "commit", "--quiet", "-am", "Change the plan")
    assert all(one.digest != record.proposal.digest for one in find_approvals(record, repository))


def test_a_folder_that_is_no_repository(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="git branch failed"):
        GitApprovals(tmp_path).propose(propose(tmp_path / "proposals"))


def test_an_approval_is_of_a_digest(tmp_path: Path) -> None:
    record = propose(tmp_path)
    approve(record, "ada", NOW)
    assert list(find_approvals(record, None)) == [Approval(record.proposal.digest, "ada")]
    (record.folder / "approval.json").write_text(json.dumps({"by": "eve"}))
    with pytest.raises(SettingsError, match="is no approval"):
        list(find_approvals(record, None))


class WaitingExecutor:
    """A cluster that does not let a plan begin."""

    def find_obstacles(self) -> Obstacles:
        return Obstacles(waits=("the cluster is busy",))

    def execute(self, until: datetime) -> Outcome:
        raise AssertionError(until)

    def roll_back(self) -> Outcome:
        raise AssertionError


def step(root: Path, policy: dict[str, object], repository: GitApprovals | None = None) -> tuple[ProposalState, str]:
    window = {"begins": "00:00", "ends": "00:00"}
    one = Policy.model_validate({"cluster": "prod", "goal": "balance", "windows": [window], **policy})
    operation = Operation(ProposalFolder(root), [one], lambda _: WaitingExecutor(), lambda: NOW, repository)
    ((record, sentence),) = operation.step("prod")
    return record.state, sentence


def test_who_approved_other_files_is_named(tmp_path: Path, repository: GitApprovals) -> None:
    root = tmp_path / "proposals"
    record = propose(root)
    run_git(repository.repository, "merge", "--no-ff", "-m", "Approve", repository.propose(record))
    file = repository.repository / "kafka-placement" / record.proposal.id / "plan" / "plan.json"
    file.write_text('{"waves": []}')
    run_git(repository.repository, "commit", "--quiet", "-am", "Change the plan")
    state, sentence = step(root, {}, repository)
    assert state is ProposalState.PROPOSED
    assert sentence == "waits for approval until 2027-03-08 12:00 UTC; Ada approved other files than were proposed"


def test_a_policy_that_allows_fewer_bytes_ends_what_was_approved(tmp_path: Path) -> None:
    approve(propose(tmp_path, size=2e11), "ada", NOW)
    assert step(tmp_path, {"max_bytes": "300GB"}) == (ProposalState.APPROVED, "approved, waits: the cluster is busy")
    state, sentence = step(tmp_path, {"max_bytes": "100GB"})
    assert (state, sentence) == (ProposalState.SUPERSEDED, "superseded: the policy allows only 100 GB now")


def test_an_approval_by_a_policy_ends_with_that_policy(tmp_path: Path) -> None:
    record = propose(tmp_path, goal="failover")
    failover = {"goal": "failover", "approval": "none"}
    assert step(tmp_path, failover)[0] is ProposalState.APPROVED
    assert step(tmp_path, failover | {"approval": "required"})[1].startswith("waits for approval until ")
    text = json.dumps({"digest": record.proposal.digest, "by": "ada"})
    (record.folder / "approval.json").write_text(text)
    assert step(tmp_path, failover | {"approval": "required"})[1] == "approved, waits: the cluster is busy"


def test_what_has_expired_cannot_be_approved(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expired at 2027-03-08 12:00 UTC"):
        approve(propose(tmp_path), "ada", NOW + timedelta(days=7))


def test_a_changed_plan_cannot_be_approved(tmp_path: Path) -> None:
    record = propose(tmp_path)
    (record.plan_folder / "wave-02.json").write_text("{}")
    with pytest.raises(SettingsError, match="files of its plan have changed"):
        approve(record, "ada", NOW)


def test_states_change_only_as_they_may(tmp_path: Path) -> None:
    folder, record = ProposalFolder(tmp_path), propose(tmp_path)
    with pytest.raises(SettingsError, match="it cannot become executed"):
        folder.change(record, ProposalState.EXECUTED, NOW)
    ended = folder.change(record, ProposalState.REJECTED, NOW, by="bob")
    assert folder.list_open() == []
    assert folder.find(record.proposal.id) == ended
    assert folder.list_ended("prod", "balance", 5) == [ended]
    with pytest.raises(SettingsError, match="is rejected: it cannot be approved"):
        approve(ended, "ada", NOW)


def test_damaged_and_unknown_proposals(tmp_path: Path) -> None:
    record = propose(tmp_path)
    with pytest.raises(SettingsError, match="has no proposal"):
        ProposalFolder(tmp_path).find("../etc")
    (record.folder / "proposal.json").write_text("{}")
    with pytest.raises(SourceError, match="is damaged"):
        ProposalFolder(tmp_path).list_open()


def test_only_one_process_works_on_proposals(tmp_path: Path) -> None:
    folder = ProposalFolder(tmp_path)
    with folder.lock(), pytest.raises(SettingsError, match="another process"), folder.lock():
        pass
