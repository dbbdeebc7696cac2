"""The journal of an execution: JSON lines beside the plan, each on disk before what it announces is done.

The journal says what was intended, and what has to be cleaned up. What has happened, only the cluster knows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.errors import SourceError
from pipelines.execution.planned_steps import Direction
from pipelines.execution.wave_window import describe_waves
from pipelines.live.kafka_connection import Key
from pipelines.whole_files import replace_text

JOURNAL = "execution.jsonl"
BEGIN, WAVE, THROTTLE, UNTHROTTLE, ALTER, CANCEL, RESTORE_ORDER, ELECT, WAVE_DONE, PAUSE, RATE, END = (
    *("begin", "wave", "throttle", "unthrottle", "alter", "cancel", "restore-order", "elect", "wave-done", "pause"),
    *("rate", "end"),
)
CORDON, UNCORDON, FOREIGN_THROTTLE = "cordon", "uncordon", "foreign-throttle"
_UNDOES = {UNTHROTTLE: THROTTLE, UNCORDON: CORDON}

_KEYS = {  # that entries need, beside the time and the event
    BEGIN: ("direction", "kafka_cluster_id", "throttle_bytes_per_s"),
    WAVE: ("wave", "direction", "partitions"),
    THROTTLE: ("earlier_brokers", "earlier_topics"),
    UNTHROTTLE: ("brokers", "topics"),
    FOREIGN_THROTTLE: ("earlier_brokers", "earlier_topics"),
    CORDON: ("earlier_brokers", "earlier_topics"),
    UNCORDON: ("brokers", "topics"),
    CANCEL: ("origins",),
    RESTORE_ORDER: ("partitions",),
    WAVE_DONE: ("copied_bytes",),
    RATE: ("throttle_bytes_per_s",),
}


@dataclass
class EarlierConfigs:
    """Configs as they were before the throttles, or the cordons, of an execution.

    Values are None where a config was not set.
    """

    brokers: dict[int, dict[str, str | None]] = field(default_factory=dict)
    topics: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether anything has to be restored."""
        return bool(self.brokers or self.topics)

    def without(self, known: EarlierConfigs) -> EarlierConfigs:
        """Return the configs of the brokers and topics that others do not name."""
        return EarlierConfigs(
            {broker: one for broker, one in self.brokers.items() if broker not in known.brokers},
            {topic: one for topic, one in self.topics.items() if topic not in known.topics},
        )


@dataclass
class Journal:
    """The journal of a plan's folder. entries: what it has, from the first line on."""

    path: Path
    entries: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Read the journal of a folder. Raises: SourceError if it cannot be read, or a line but the last is damaged."""
        path = folder / JOURNAL
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return cls(path)
        except OSError as error:
            raise SourceError(str(path), f"cannot be read: {error.strerror}", "Check its permissions") from error
        return cls(path, list(read_entries(path, data)))

    def repair(self) -> None:
        """Cut off a last line that was not written as a whole: it would swallow the next one."""
        repair_lines(self.path)

    def write(self, event: str, **values: Any) -> None:
        """Append an entry, and return once it is on disk."""
        entry = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **values}
        self.entries.append(json.loads(append_entry(self.path, entry)))

    @property
    def last_begin(self) -> dict[str, Any] | None:
        """The entry of the last execution, or None."""
        return next((entry for entry in reversed(self.entries) if entry["event"] == BEGIN), None)

    @property
    def last_end(self) -> dict[str, Any] | None:
        """The last entry, if an execution ended with it."""
        return self.entries[-1] if self.entries and self.entries[-1]["event"] == END else None

    @property
    def is_open(self) -> bool:
        """Whether an execution has not ended, or waves of the plan are left for another night."""
        begun, end = self.last_begin, self.last_end
        if begun is None or end is None:
            return begun is not None
        return "waves_left" in end and begun["direction"] == Direction.APPLY

    @property
    def applied_at(self) -> str | None:
        """When the last execution ended, if it has carried out the whole plan; else None."""
        begun, end = self.last_begin, self.last_end
        if begun is None or end is None or begun["direction"] != Direction.APPLY:
            return None
        return None if self.is_open or end.get("partitions_left_out") else str(end["at"])

    @property
    def open_rate(self) -> int | None:
        """The throttle of an execution that has not ended, in bytes per second; None = without one, or all have."""
        rates = [entry["throttle_bytes_per_s"] for entry in self.entries if entry["event"] in (BEGIN, RATE)]
        return None if self.last_end or not rates else rates[-1]

    def describe_open(self) -> str | None:
        """Describe what has not ended, or has left waves for another night; None without any."""
        begun, end = self.last_begin, self.last_end or {}
        if begun is None or (end and "waves_left" not in end):
            return None
        left = f"left {describe_waves(end['waves_left'])} for another night" if end else "has not ended"
        return f"{begun['direction']} began at {begun['at']} and {left}"

    def find_cancelled_lists(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """Find the lists that cancelled reassignments began with, of cancellations after the last end."""
        lists: dict[tuple[str, int], tuple[int, ...]] = {}
        for entry in self.entries:
            if entry["event"] == END or (entry["event"] == RESTORE_ORDER and not entry["partitions"]):
                lists.clear()
            elif entry["event"] == CANCEL:
                lists |= {(topic, partition): tuple(replicas) for topic, partition, replicas in entry["origins"]}
        return lists

    def find_restored_configs(self) -> EarlierConfigs:
        """Find the configs that were there before throttles, and that are restored since, or were never replaced."""
        return self._split_earlier_configs(THROTTLE)[1]

    def find_earlier_configs(self, change: str = THROTTLE) -> EarlierConfigs:
        """Find the configs that throttles, or cordons, have replaced, and that are not restored yet."""
        return self._split_earlier_configs(change)[0]

    def _split_earlier_configs(self, change: str) -> tuple[EarlierConfigs, EarlierConfigs]:
        """Return the configs that changes have replaced: those that are not restored yet, and those that are."""
        outstanding, restored = EarlierConfigs(), EarlierConfigs()
        for entry in self.entries:
            if entry["event"] == change:
                _add_earlier(outstanding, entry)
            elif entry["event"] == FOREIGN_THROTTLE and change == THROTTLE:
                restored = EarlierConfigs()  # what was there when the last execution began counts
                _add_earlier(restored, entry)
            elif _UNDOES.get(entry["event"]) == change:
                for broker in entry["brokers"]:
                    restored.brokers[broker] = outstanding.brokers.pop(broker, {})
                for topic in entry["topics"]:
                    restored.topics[topic] = outstanding.topics.pop(topic, {})
        return outstanding, restored


def list_keys(keys: Iterable[Key]) -> list[list[str | int]]:
    """List partitions as entries of the journal have them."""
    return [[topic, partition] for topic, partition in sorted(keys)]


def list_origins(moving: Mapping[Key, Sequence[int]]) -> list[list[object]]:
    """List partitions with the replicas that they had, as entries of the journal have them."""
    return [[topic, partition, list(replicas)] for (topic, partition), replicas in sorted(moving.items())]


def _add_earlier(earlier: EarlierConfigs, entry: Mapping[str, Any]) -> None:
    """Add the configs that a change replaces and that are not known yet: those before the first change count."""
    for broker, configs in entry["earlier_brokers"].items():
        earlier.brokers[int(broker)] = configs | earlier.brokers.get(int(broker), {})
    for topic, configs in entry["earlier_topics"].items():
        earlier.topics[topic] = configs | earlier.topics.get(topic, {})


def append_entry(path: Path, entry: Mapping[str, Any]) -> str:
    """Append an entry to a file of JSON lines, and return its line once it is on disk."""
    line = json.dumps(entry, separators=(",", ":"), allow_nan=False) + "\n"
    is_new = not path.exists()
    with path.open("ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        _sync_folder(path.parent)
    return line


def repair_lines(path: Path) -> None:
    """Cut off a last line that was not written as a whole: it would swallow the next one."""
    data = path.read_bytes() if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
            os.fsync(file.fileno())


def read_entries(path: Path, data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the entries; a last line without its end is one that was not written as a whole.

    Raises: SourceError if another line is damaged.
    """
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict) or not isinstance(entry.get("event"), str):
                raise ValueError("no entry")
            if missing := {"at", *_KEYS.get(entry["event"], ())} - entry.keys():
                raise ValueError(f"without {missing}")
        except ValueError as error:
            remedy = "Restore it from a backup: it says which throttles have to be removed"
            raise SourceError(str(path), "this line is damaged", remedy, number) from error
        yield entry


def _sync_folder(folder: Path) -> None:
    """Have the name of a new file on disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Another throttle for an execution that runs: a file beside its journal, which it looks for between two looks.
_NEW_THROTTLE = "new-throttle"  # bytes per second of a broker
NO_THROTTLE = 0  # instead of a rate


def leave_throttle(folder: Path, rate: int | None) -> None:
    """Leave a throttle for the execution of a plan folder; None = it is to copy without one."""
    replace_text(folder / _NEW_THROTTLE, str(rate or NO_THROTTLE))


def take_throttle(folder: Path) -> int | None:
    """Return the throttle that was left, which is taken once, or NO_THROTTLE; None = no change was left."""
    path = folder / _NEW_THROTTLE
    with suppress(FileNotFoundError, ValueError):
        rate = int(path.read_text())
        path.unlink()
        return rate
    return None
