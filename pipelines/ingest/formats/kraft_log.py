"""`kafka-dump-log --cluster-metadata-decoder`: a KRaft log or snapshot as text, or its payloads alone."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pipelines.ingest.fact_tables import Fact, ignore
from pipelines.ingest.formats.checked_values import BadValueError, parse_object, unparsable
from pipelines.ingest.formats.kraft_records import WITH_TOPIC_ID, parse_payload
from pipelines.ingest.formats.noise_lines import PROSE, TOOL_MESSAGE, classify_noise
from pipelines.ingest.source_format import Format, Records, Row
from pipelines.ingest.text import split_lines

_ABORTED = "aborted transaction"
_UNFINISHED = "unfinished transaction"

_PAYLOAD = re.compile(r"\bpayload:\s?")
_ENTRY = re.compile(r"\s*\|?\s*offset: ")
_BATCH = re.compile(r"\s*baseOffset: ")
_CONTROL = re.compile(
    r"\s*\|? ?offset: .*?(?:LeaderChange|SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters|endTxnMarker|"
    r"controlType|controlRecord)",
    re.I,
)
_DUMP_HEADER = re.compile(r"\s*(?:Dumping |Log starting offset: |Snapshot end offset: |Starting offset: )")
_TYPE = re.compile(r'\{\s*"type"\s*:\s*"(\w+)"')
_TOPIC_ID = re.compile(r'"topicId"\s*:\s*"([^"\\]+)"')
_RECORD = re.compile(r'.*"type"\s*:\s*"\w+_RECORD"')


def _detect(lines: Sequence[str]) -> float:
    if any(_RECORD.match(line) for line in lines):
        return 0.98
    return 0.6 if any(_DUMP_HEADER.match(line) or _BATCH.match(line) for line in lines) else 0.0


def _read_records(text: str, _path: str) -> Records:
    return Records.from_rows(_LogReader().read_rows(text))


class _LogReader:
    """Resolves topic ids and marks records of transactions that were not committed; both need the log in order."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._rows: list[Row] = []
        self._begin: int | None = None  # index of the row that began the open transaction
        self._names_before: dict[str, str] = {}

    def read_rows(self, text: str) -> Iterator[Row]:
        """Return a row for each line."""
        for number, line in enumerate(split_lines(text), 1):
            payload = find_payload(line)
            context = self._build_context(payload) if payload is not None else None
            self._rows.append((number, context, line))
        if self._begin is not None:
            self._discard_transaction(_UNFINISHED)
        return iter(self._rows)

    def _build_context(self, payload: str) -> str | None:
        match = _TYPE.match(payload)
        kind = match[1] if match else _find_type(payload)
        if kind == "TOPIC_RECORD":
            self._add_topic(payload)
        elif kind in WITH_TOPIC_ID:
            result = _TOPIC_ID.search(payload)
            topic = self._names.get(result[1]) if result else None
            if topic is not None and kind == "REMOVE_TOPIC_RECORD":
                del self._names[result[1]]  # type: ignore[index]
            return None if topic is None else json.dumps({"topic": topic})
        elif kind == "BEGIN_TRANSACTION_RECORD":
            if self._begin is not None:
                self._discard_transaction(_UNFINISHED)
            self._begin = len(self._rows)
            self._names_before = dict(self._names)
        elif kind == "END_TRANSACTION_RECORD":
            self._begin = None
        elif kind == "ABORT_TRANSACTION_RECORD" and self._begin is not None:
            self._discard_transaction(_ABORTED)
            return json.dumps({"ignored": _ABORTED})
        return None

    def _add_topic(self, payload: str) -> None:
        with suppress(BadValueError):  # the record is rejected when it is parsed, and its id stays unknown
            data = parse_object(payload, "the payload").get_object("data")
            self._names[data.get_text("topicId")] = data.get_text("name")

    def _discard_transaction(self, reason: str) -> None:
        """Mark the records since the transaction began, and undo what they said about topic ids."""
        context = json.dumps({"ignored": reason})
        for i in range(self._begin or 0, len(self._rows)):
            number, _, line = self._rows[i]
            if find_payload(line) is not None:
                self._rows[i] = (number, context, line)
        self._names = self._names_before
        self._begin = None


def find_payload(line: str) -> str | None:
    """Return the JSON of a record's line, or None for a line without a record."""
    match = _PAYLOAD.search(line)
    if match is not None and (_ENTRY.match(line) or line.lstrip().startswith("payload:")):
        return line[match.end() :].strip()
    stripped = line.strip()
    return stripped if stripped.startswith("{") else None


def _find_type(payload: str) -> str | None:
    with suppress(BadValueError):
        return parse_object(payload, "the payload").get_text("type")
    return None


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    payload = find_payload(raw)
    if payload is None:
        return ignore(_classify_line(raw))
    topic = None
    if context is not None:
        surroundings = json.loads(context)
        if "ignored" in surroundings:
            return ignore(surroundings["ignored"])
        topic = surroundings["topic"]
    return parse_payload(parse_object(payload, "the payload", "the payload"), topic)


def _classify_line(raw: str) -> str:
    if _BATCH.match(raw):
        return "batch header"
    if _CONTROL.match(raw):
        return "control record"
    if _DUMP_HEADER.match(raw):
        return "dump header"
    if _ENTRY.match(raw):
        raise unparsable("an entry without a decoded payload (dump with --cluster-metadata-decoder)")
    reason = classify_noise(raw)
    return TOOL_MESSAGE if reason == PROSE and raw.startswith("Error at ") else reason


FORMAT = Format(
    name="kraft-log",
    title="KRaft metadata log or snapshot, as kafka-dump-log --cluster-metadata-decoder prints it",
    detect=_detect,
    parse_record=_parse_record,
    read_records=_read_records,
)
