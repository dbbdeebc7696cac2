"""Proposals: plans in folders, with what has become of each. A proposal is in one state at any time.

PROPOSALS/ID/proposal.json is what was proposed, with the digest of its plan; PROPOSALS/ID/plan is the plan;
PROPOSALS/ID/history.jsonl has a line for each change of state, which is on disk before what it announces is done.
Those that have ended are in PROPOSALS/ended.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pipelines.errors import SettingsError, SourceError
from pipelines.execution.journal import append_entry, read_entries, repair_lines
from pipelines.whole_files import create_folder, replace_text

PLAN, APPROVAL = "plan", "approval.json"
_PROPOSAL, _HISTORY, _LOCK, _ENDED = "proposal.json", "history.jsonl", ".lock", "ended"


class ProposalState(StrEnum):
    """What has become of a proposal."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    EXECUTING = "executing"  # begun, perhaps with waves that are left for the next window
    EXECUTED = "executed"
    ROLLED_BACK = "rolled back"
    FAILED = "failed"  # begun, and given up without a rollback
    REJECTED = "rejected"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"  # the cluster or the plan has changed since, or nothing calls for it any longer


_S = ProposalState
_ENDS_UNBEGUN = {_S.REJECTED, _S.EXPIRED, _S.SUPERSEDED}
_NEXT: dict[ProposalState, set[ProposalState]] = {
    _S.PROPOSED: {_S.APPROVED, *_ENDS_UNBEGUN},
    _S.APPROVED: {_S.EXECUTING, *_ENDS_UNBEGUN},
    _S.EXECUTING: {_S.EXECUTING, _S.EXECUTED, _S.ROLLED_BACK, _S.FAILED},
}


class Proposal(BaseModel):
    """What was proposed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    cluster: str
    goal: str
    kinds: tuple[str, ...]  # findings that recommend the plan, as in gold.findings
    reason: str  # the most serious of them, in words
    level: str  # verdict of check on the plan
    bytes_to_copy: float | None  # None = not known
    created_at: datetime  # UTC
    expires_at: datetime  # UTC; it is not begun later
    digest: str  # SHA-256 of the plan's files


@dataclass(frozen=True)
class StateChange:
    """A change of a proposal's state."""

    at: datetime  # UTC
    state: ProposalState
    reason: str = ""
    by: str = ""
    failed: bool = False  # whether an attempt to carry it out has failed


@dataclass(frozen=True)
class ProposalRecord:
    """A proposal, and its history from the first line on."""

    folder: Path
    proposal: Proposal
    history: tuple[StateChange, ...]

    @property
    def state(self) -> ProposalState:
        """The state that it is in."""
        return self.history[-1].state

    @property
    def is_open(self) -> bool:
        """Whether its state may still change."""
        return self.state in _NEXT

    @property
    def changed_at(self) -> datetime:
        """When its state changed last (UTC)."""
        return self.history[-1].at

    @property
    def failures(self) -> int:
        """How many attempts to carry it out have failed."""
        return sum(change.failed for change in self.history)

    @property
    def approver(self) -> str | None:
        """Who has approved it; None = not approved."""
        return next((change.by for change in self.history if change.state is _S.APPROVED), None)

    @property
    def plan_folder(self) -> Path:
        """The folder of its plan."""
        return self.folder / PLAN

    def explain_changed_plan(self) -> str | None:
        """Say that the plan's files are not those that were proposed; None if they are."""
        return (
            None if compute_digest(self.plan_folder) == self.proposal.digest else "the files of its plan have changed"
        )


def compute_digest(folder: Path) -> str:
    """Return the SHA-256 of the files of a plan that say what is carried out: their names and bytes, in order."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.json")):
        data = file.read_bytes()
        digest.update(f"{file.name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


class _NothingToProposeError(Exception):
    pass


@dataclass(frozen=True)
class ProposalFolder:
    """The folder of all proposals."""

    root: Path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder alone. Raises: SettingsError if another process holds it."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / _LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SettingsError(f"{self.root}: another process works on these proposals. Wait for it") from None
            yield

    def list_open(self, cluster: str | None = None) -> list[ProposalRecord]:
        """Return the open proposals of a cluster, or of all, the oldest first; raise SourceError if one is damaged."""
        records = []
        for record in self._read_all(self.root, "*"):
            if not record.is_open:
                self._put_away(record)  # a crash came between
            elif cluster in (None, record.proposal.cluster):
                records.append(record)
        return records

    def list_ended(self, cluster: str, goal: str, last: int) -> list[ProposalRecord]:
        """Return the last proposals of a cluster for a goal that have ended, the oldest first; last: how many."""
        own = self._read_all(self.root / _ENDED, f"{cluster}-{goal}-*", last)
        return [one for one in own if (one.proposal.cluster, one.proposal.goal) == (cluster, goal)]

    def list_all(self, cluster: str | None = None) -> list[ProposalRecord]:
        """Return all proposals of a cluster, or of all, the oldest first."""
        records = [*self._read_all(self.root, "*"), *self._read_all(self.root / _ENDED, "*")]
        return sorted((one for one in records if cluster in (None, one.proposal.cluster)), key=_order)

    def find(self, proposal_id: str) -> ProposalRecord:
        """Return a proposal. Raises: SettingsError if there is none."""
        for place in (self.root, self.root / _ENDED):
            if Path(proposal_id).name == proposal_id and (place / proposal_id / _PROPOSAL).is_file():
                return self._read(place / proposal_id)
        raise SettingsError(f"{self.root} has no proposal {proposal_id}. kafka-placement operate lists them")

    def _read_all(self, place: Path, pattern: str, last: int = 0) -> list[ProposalRecord]:
        files = sorted(place.glob(f"{pattern}/{_PROPOSAL}"))  # names of one goal end with their times
        return sorted((self._read(file.parent) for file in files[-last:] if file.parent.name[0] != "."), key=_order)

    def _put_away(self, record: ProposalRecord) -> ProposalRecord:
        """Move an ended proposal out of the way of those that are open."""
        place = self.root / _ENDED / record.proposal.id
        place.parent.mkdir(exist_ok=True)
        record.folder.rename(place)
        return replace(record, folder=place)

    def _read(self, folder: Path) -> ProposalRecord:
        file = folder / _PROPOSAL
        try:
            proposal = Proposal.model_validate_json(file.read_text())
        except (ValidationError, OSError) as error:
            raise SourceError(str(file), "is damaged", "Restore it, or move its folder away") from error
        history = [
            StateChange(
                datetime.fromisoformat(entry["at"]), _S(entry["event"]), entry["reason"], entry["by"], entry["failed"]
            )
            for entry in read_entries(file.with_name(_HISTORY), _read_bytes(file.with_name(_HISTORY)))
        ]
        first = StateChange(proposal.created_at, _S.PROPOSED)
        return ProposalRecord(folder, proposal, (first, *history))

    def create(self, proposal_id: str, write: Callable[[Path], Proposal | None]) -> ProposalRecord | None:
        """Create a proposal as a whole. write: writes the plan to a folder; None = there is nothing to propose."""
        folder = self.root / proposal_id
        try:
            with create_folder(folder) as new:
                if (proposal := write(new)) is None:
                    raise _NothingToProposeError
                replace_text(new / _PROPOSAL, proposal.model_dump_json(indent=2) + "\n")
        except _NothingToProposeError:  # so that the folder does not appear
            return None
        return self._read(folder)

    def change(
        self, record: ProposalRecord, state: ProposalState, at: datetime, reason: str = "", **values: Any
    ) -> ProposalRecord:
        """Change the state of a proposal, and return once that is on disk. values: by and failed of StateChange."""
        if state not in _NEXT.get(record.state, set()):
            raise SettingsError(f"{record.proposal.id} is {record.state}: it cannot become {state}")
        change = StateChange(at.astimezone(UTC), state, reason, **values)
        entry = {"reason": change.reason, "by": change.by, "failed": change.failed}
        repair_lines(record.folder / _HISTORY)  # a crash may have cut its last line off
        append_entry(record.folder / _HISTORY, {"at": change.at.isoformat(), "event": str(state), **entry})
        changed = replace(record, history=(*record.history, change))
        return changed if changed.is_open else self._put_away(changed)


def _order(record: ProposalRecord) -> tuple[datetime, str]:
    return record.proposal.created_at, record.proposal.id


def _read_bytes(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def write_approval(record: ProposalRecord, by: str, at: datetime) -> None:
    """Write that somebody has approved the plan that was proposed. Raises: SettingsError if it is too late."""
    if record.state is not _S.PROPOSED:
        raise SettingsError(f"{record.proposal.id} is {record.state}: it cannot be approved")
    if at >= record.proposal.expires_at:
        when = f"{record.proposal.expires_at:%Y-%m-%d %H:%M} UTC"
        raise SettingsError(f"{record.proposal.id} expired at {when}: it cannot be approved. A run proposes anew")
    if (changed := record.explain_changed_plan()) is not None:
        raise SettingsError(f"{record.proposal.id}: {changed}. The next operate ends it, and a run proposes anew")
    text = json.dumps({"digest": record.proposal.digest, "by": by, "at": at.astimezone(UTC).isoformat()}, indent=2)
    replace_text(record.folder / APPROVAL, text + "\n")
