"""`kafka-dump-log --cluster-metadata-decoder`: a KRaft log or snapshot as text, or its payloads alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipelines.ingest.formats.checked_values import (
    BadValueError,
    Fact,
    as_object,
    ignored,
    loads,
    parse_each,
    unparsable,
)
from pipelines.ingest.formats.kraft_records import record_facts
from pipelines.ingest.formats.noise_lines import PROSE, TOOL_MESSAGE, noise_reason
from pipelines.ingest.records import Format, Records
from pipelines.ingest.text import lines_of

ABORTED = "aborted transaction"
UNFINISHED = "unfinished transaction"

_PAYLOAD = re.compile(r"\bpayload:\s?")
_ENTRY = re.compile(r"\s*\|?\s*offset: ")
_BATCH = re.compile(r"\s*baseOffset: ")
_CONTROL = re.compile(
    r"\s*\|? ?offset: .*?(?:LeaderChange|SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters|endTxnMarker|"
    r"controlType|controlRecord)",
    re.I,
)
_HEAD = re.compile(r"\s*(?:Dumping |Log starting offset: |Snapshot end offset: |Starting offset: )")
_TYPE = re.compile(r'\{\s*"type"\s*:\s*"(\w+)"')
_TOPIC_ID = re.compile(r'"topicId"\s*:\s*"([^"\\]+)"')
_SIGN = re.compile(r'.*"type"\s*:\s*"\w+_RECORD"')

_WITH_TOPIC_ID = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "REMOVE_TOPIC_RECORD")

Row = tuple[int, str | None, str]


def _score(lines: Sequence[str]) -> float:
    if any(_SIGN.match(line) for line in lines):
        return 0.98
    heads = sum(1 for line in lines if _HEAD.match(line) or _BATCH.match(line))
    return 0.6 if heads else 0.0


def _frame(text: str, _path: str) -> Records:
    return Records.of(_Framer().rows(text))


class _Framer:
    """Resolves topic ids and marks transactions that never ended; both need the log in order."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._rows: list[Row] = []
        self._begun: int | None = None  # index of the row that began the open transaction
        self._names_before: dict[str, str] = {}

    def rows(self, text: str) -> Iterator[Row]:
        """(line, context, raw) of every line."""
        for number, line in enumerate(lines_of(text), 1):
            payload = payload_of(line)
            context = self._context(payload) if payload is not None else None
            self._rows.append((number, context, line))
        if self._begun is not None:
            self._void(UNFINISHED)
        return iter(self._rows)

    def _context(self, payload: str) -> str | None:
        match = _TYPE.match(payload)
        kind = match[1] if match else _type_of(payload)
        if kind == "TOPIC_RECORD":
            self._learn(payload)
        elif kind in _WITH_TOPIC_ID:
            found = _TOPIC_ID.search(payload)
            topic = self._names.get(found[1]) if found else None
            if topic is not None and kind == "REMOVE_TOPIC_RECORD":
                del self._names[found[1]]  # type: ignore[index]
            return None if topic is None else json.dumps({"topic": topic})
        elif kind == "BEGIN_TRANSACTION_RECORD":
            if self._begun is not None:
                self._void(UNFINISHED)
            self._begun = len(self._rows)
            self._names_before = dict(self._names)
        elif kind == "END_TRANSACTION_RECORD":
            self._begun = None
        elif kind == "ABORT_TRANSACTION_RECORD" and self._begun is not None:
            self._void(ABORTED)
            return json.dumps({"ignored": ABORTED})
        return None

    def _learn(self, payload: str) -> None:
        try:
            data = as_object(json.loads(payload)["data"], "data")
            name, topic_id = data["name"], data["topicId"]
        except (ValueError, KeyError, TypeError, RecursionError, BadValueError):
            return  # the record becomes a fault when it is parsed, and its id stays unknown
        if isinstance(name, str) and isinstance(topic_id, str):
            self._names[topic_id] = name

    def _void(self, reason: str) -> None:
        """Mark the records since the transaction began, and forget what they said."""
        context = json.dumps({"ignored": reason})
        for i in range(self._begun or 0, len(self._rows)):
            number, _, line = self._rows[i]
            if payload_of(line) is not None:
                self._rows[i] = (number, context, line)
        self._names = self._names_before
        self._begun = None


def payload_of(line: str) -> str | None:
    """The JSON of a record's line, or None when the line shows no record."""
    match = _PAYLOAD.search(line)
    if match is not None and (_ENTRY.match(line) or line.lstrip().startswith("payload:")):
        return line[match.end() :].strip()
    stripped = line.strip()
    return stripped if stripped.startswith("{") else None


def _type_of(payload: str) -> str | None:
    try:
        kind = json.loads(payload)["type"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return kind if isinstance(kind, str) else None


def _facts(context: str | None, raw: str) -> list[Fact]:
    payload = payload_of(raw)
    if payload is None:
        return ignored(_reason(raw))
    topic = None
    if context is not None:
        around = as_object(loads(context, "the context"), "the context")
        if "ignored" in around:
            return ignored(around["ignored"])
        topic = around["topic"]
    return record_facts(as_object(loads(payload, "the payload"), "the payload"), topic)


def _reason(raw: str) -> str:
    if _BATCH.match(raw):
        return "batch header"
    if _CONTROL.match(raw):
        return "control record"
    if _HEAD.match(raw):
        return "dump header"
    if _ENTRY.match(raw):
        raise unparsable("an entry without a decoded payload (dump with --cluster-metadata-decoder)")
    reason = noise_reason(raw)
    return TOOL_MESSAGE if reason == PROSE and raw.startswith("Error at ") else reason


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="kraft-log",
    title="KRaft metadata log or snapshot, as kafka-dump-log --cluster-metadata-decoder prints it",
    score=_score,
    frame=_frame,
    parse=_parse,
)
