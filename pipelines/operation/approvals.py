"""Approvals: a file beside a proposal, or a merge into the main branch of a Git repository.

What is approved is a digest: that of the plan as it was proposed.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import SettingsError
from pipelines.operation.proposals import APPROVAL, PLAN, ProposalRecord, compute_digest

_FOLDER = "kafka-placement"  # in a repository


@dataclass(frozen=True)
class Approval:
    """Who has approved which plan. digest: of its files."""

    digest: str
    by: str


@dataclass(frozen=True)
class GitApprovals:
    """A repository in which merging a proposal's branch is its approval. branch: what is merged into."""

    repository: Path
    branch: str = "main"

    def propose(self, record: ProposalRecord) -> str:
        """Commit a proposal to a branch of its own, if there is none yet, and return the branch's name."""
        name = f"proposal/{record.proposal.id}"
        if self._git("branch", "--list", name):
            return name
        with tempfile.TemporaryDirectory() as scratch:
            tree = Path(scratch, "tree")
            self._git("worktree", "add", "--quiet", "-b", name, str(tree), self.branch)
            try:
                place = tree / _FOLDER / record.proposal.id
                shutil.copytree(record.folder, place, ignore=shutil.ignore_patterns("history.jsonl", "execution.jsonl"))
                title = f"Carry out plan {record.proposal.id}: {record.proposal.reason}"
                self._git("add", "--all", at=tree)
                author = ("-c", "user.name=kafka-placement", "-c", "user.email=kafka-placement@localhost")
                self._git(*author, "commit", "--quiet", "-m", title, at=tree)
            finally:
                self._git("worktree", "remove", "--force", str(tree))
        return name

    def find(self, record: ProposalRecord) -> Approval | None:
        """Return the approval of a proposal whose files are in the main branch; None if they are not."""
        path = f"{_FOLDER}/{record.proposal.id}"
        if not self._git("ls-tree", self.branch, "--", path):
            return None
        files = self._run("archive", "--format=tar", self.branch, path)
        with tempfile.TemporaryDirectory() as scratch:
            with tarfile.open(fileobj=io.BytesIO(files)) as archive:
                archive.extractall(scratch, filter="data")
            digest = compute_digest(Path(scratch, path, PLAN))  # of what was merged, which may have been edited
        committer = self._git("log", "-1", "--first-parent", "--format=%an", self.branch, "--", path)
        return Approval(digest, committer)

    def _git(self, *arguments: str, at: Path | None = None) -> str:
        return self._run(*arguments, at=at).decode(errors="replace").strip()

    def _run(self, *arguments: str, at: Path | None = None) -> bytes:
        """Run Git, and return what it prints. Raises: SettingsError if it fails."""
        try:
            done = subprocess.run(
                ["git", "-C", str(at or self.repository), *arguments], capture_output=True, check=False, timeout=120
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SettingsError(f"{self.repository}: git cannot be run: {error}. Install Git") from error
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
            raise SettingsError(f"{self.repository}: git {arguments[0]} failed: {lines[0]}. Check the repository")
        return done.stdout


def find_approvals(record: ProposalRecord, repository: GitApprovals | None) -> Iterable[Approval]:
    """Yield the approvals of a proposal. Raises: SettingsError if its file is damaged."""
    file = record.folder / APPROVAL
    if file.exists():
        try:
            values = json.loads(file.read_text())
            yield Approval(str(values["digest"]), str(values["by"]))
        except (ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{file}: is no approval. Delete it, and approve again") from error
    if repository is not None and (merged := repository.find(record)) is not None:
        yield merged
