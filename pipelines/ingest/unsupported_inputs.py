"""Inputs that are recognised but show no replicas: what each is, and what to run or do instead.

Lines of them beside other data are ignored under their name. A file that has nothing else is an error that names it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from pipelines.ingest import unsupported_catalogue as catalogue
from pipelines.ingest.formats.checked_values import quote
from pipelines.ingest.formats.describe_line import parse_line
from pipelines.ingest.formats.json_documents import DOCUMENT_BEGIN
from pipelines.ingest.sections import find_document_end
from pipelines.ingest.source_format import (
    Fact,
    FactKind,
    Format,
    Row,
    Signature,
    decide_ignored,
    decide_rejected,
    ignore,
)
from pipelines.ingest.table_rows import find_table, is_row
from pipelines.ingest.text import BLANK, LOG_LINE, MARKUP, MAX_LOOK, PROMPT, TOOL_MESSAGE, classify_noise, split_lines

_MAX_HEAD, _MAX_LINES = 200_000, 200  # characters and filled lines that show what a whole file is
_ANY_TOOL = re.compile("|".join(f"({entry.pattern.pattern})" for entry in catalogue.TOOLS))
# The log of a broker has errors, too; that of a client or a tool shows why a command failed.
_LOG = re.compile(r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:,.]++Z?\]? ")
_CLIENT_LOG = re.compile(
    r"\bclientId=|AdminClient|NetworkClient|\((?:kafka\.admin|org\.apache\.kafka\.(?:tools|clients))\."
    r"|\] (?:ERROR|FATAL) [\w.$]*?(?:Exception|Error)\b"
)
_LOGGED_ERROR = re.compile(r"\s++at |\s*+(?:Caused by: |\.\.\. |[\w.$]*?(?:Exception|Error)\b)")
# They have the form of a replication-offset-checkpoint, but their offsets are no high watermarks.
_FILES = re.compile(r"(?:recovery-point|log-start|cleaner)-offset-checkpoint", re.I)


def find_by_name(name: str) -> catalogue.UnsupportedInput | None:
    """Return what a file is by its name alone, or None."""
    match = _FILES.search(PurePath(name).name)
    if match is None:
        return None
    remedy = "Use replication-offset-checkpoint, which has the high watermarks, beside a kafka-topics --describe."
    return catalogue.make_input(match[0].lower(), "", "whose offsets are not those of the replicas", remedy)


def find_by_text(text: str) -> tuple[catalogue.UnsupportedInput, int | None, str] | None:
    """Return (what a text is of which no line is used; number and text of the line that shows it), or None."""
    numbered = enumerate(split_lines(text[:_MAX_HEAD]), 1)
    lines = [(number, line[:MAX_LOOK]) for number, line in numbered if line.strip()][:_MAX_LINES]
    for number, line in lines:
        if table := _find_table(line):
            return table, number, line.strip()
    without_logs = list(_leave_out_logs(lines))
    for entries, candidates in (
        (catalogue.TOOLS, lines),
        (catalogue.FAILURES, without_logs),
        (catalogue.WHOLE_FILES, lines),
    ):
        for entry in entries:
            for number, line in candidates:
                if entry.pattern.match(line):
                    return entry, number, line.strip()
    if document := _find_document(text):
        return document, None, ""
    named = [line for _, line in lines if classify_noise(line) != MARKUP]
    is_list = bool(named) and all(map(catalogue.NAMES_ONLY.pattern.match, named))
    return (catalogue.NAMES_ONLY, None, "") if is_list else None


def _leave_out_logs(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not of a log of a broker: what it logs is no error of a command."""
    is_logged = False
    for number, line in lines:
        if _LOG.match(line):
            is_logged = not _CLIENT_LOG.search(line)
        elif not _LOGGED_ERROR.match(line):
            is_logged = False
        if not is_logged:
            yield number, line


def _find_line(line: str) -> catalogue.UnsupportedInput | None:
    line = line[:MAX_LOOK]
    match = _ANY_TOOL.match(line)  # one pattern is faster than many
    return _find_table(line) if match is None else catalogue.TOOLS[(match.lastindex or 1) - 1]


def _find_table(line: str) -> catalogue.UnsupportedInput | None:
    title = find_table(line)
    return None if title is None else catalogue.make_unread(title, "")


def _find_document(text: str) -> catalogue.UnsupportedInput | None:
    return next((entry for entry in catalogue.DOCUMENTS if entry.pattern.search(text)), None)


def _read_rows(text: str, path: str) -> Iterator[Row]:
    """Give each line the input that it is of; rows of a table have it from the line above."""
    if (named := find_by_name(path)) is not None:
        for number, line in enumerate(split_lines(text), 1):
            yield number, decide_ignored(f"{named.title}: not used" if line.strip() else BLANK), line
        return
    entry: catalogue.UnsupportedInput | None = None
    document: catalogue.UnsupportedInput | None = None
    is_table = False
    warned: set[str] = set()
    begin = document_end = 0  # positions in the text; end of the document
    for number, line in enumerate(split_lines(text), 1):
        if begin >= document_end and DOCUMENT_BEGIN.match(line):
            document_end = find_document_end(text, begin)
            document = _find_document(text[begin : min(document_end, begin + _MAX_HEAD)])
        own = (document if begin < document_end else None) or _find_line(line)
        if own is not None:
            entry, is_table = own, find_table(line) is not None
        elif not line.strip():
            entry = None
        begin += len(line) + 1
        has_row = is_table and find_table(line) is None and is_row(line)
        is_beside = False
        if own is None and not has_row:  # a prompt, a log, a sentence in a table
            is_beside = is_table and any(map(str.isalnum, line))
            is_beside = is_beside or classify_noise(line) in (TOOL_MESSAGE, LOG_LINE, PROMPT)
        if entry is None or is_beside or not line.strip():
            yield number, None, line
        elif has_row:
            what = f"a row of {entry.title}, which this program does not read"
            yield number, decide_rejected(f"{quote(line.strip())} is {what}: use kafka-topics --describe"), line
        else:
            warning = None
            if entry.shows_partitions and not is_table and entry.title not in warned:
                warned.add(entry.title)
                remedy = f"{entry.remedy[0].lower()}{entry.remedy[1:-1]}"
                warning = f"this program does not read {entry.title}: {remedy}"
            yield number, json.dumps({"reason": f"{entry.title}: not used", "warning": warning}), line


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    facts = parse_line(None, raw)
    if context is None or any(kind != FactKind.IGNORED for kind, _ in facts):  # data never vanishes under a name
        return facts
    return ignore(**json.loads(context))


FORMAT = Format(
    "unsupported",
    "recognised, but not used",
    Signature(
        line=lambda line: _find_line(line) is not None,
        document=lambda text: _find_document(text) is not None,
        table=lambda line: find_table(line) is not None or catalogue.TABLE_HEADER.match(line) is not None,
        has_rows=True,
    ),
    _parse_record,
    _read_rows,
)
