"""The records that no reader understands: a file in no known format, unknown JSON documents, lines without end."""

from pipelines.ingest.formats.checked_values import quote, unparsable
from pipelines.ingest.formats.go_structs import reject_struct
from pipelines.ingest.source_format import Fact, Format, Records, Signature, ignore, read_lines
from pipelines.ingest.text import PROSE, classify_noise, split_lines

DOCUMENT, LONG_LINE, ROW, REST, EMPTY = "document", "long line", "row", "rest", "empty"  # contexts
NO_TEXT = "empty, or not text"  # reason
MAX_RAW = 2_000  # characters of such a record that are kept


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    if context == DOCUMENT:
        raise reject_struct(raw) or unparsable(f"a JSON document that no reader understands: {quote(raw[:60])}")
    if context == REST:
        if (reason := classify_noise(raw)) != PROSE:
            return ignore(reason)
        raise unparsable(f"{quote(raw.strip())} is perhaps the rest of the JSON document above, which breaks off")
    if context == ROW:
        problem = f"{quote(raw.strip())} looks like a partition in a form that no reader knows"
        raise unparsable(f"{problem}: use kafka-topics --describe")
    if context is not None and context.startswith(LONG_LINE):
        raise unparsable(f"a line of {context.removeprefix(LONG_LINE).strip()} characters: too long for any format")
    return ignore(NO_TEXT if context == EMPTY else "unrecognised file")


def _read_records(text: str, path: str) -> Records:
    """Return the lines of a file; one record if there is none, so that the account of records names the file."""
    return read_lines(text, path) if text.strip() else Records.from_rows([(1, EMPTY, "")])


UNRECOGNISED = Format("unrecognised", "text in no known format", Signature(), _parse_record, _read_records)


def read_document(text: str, line_number: int) -> Records:
    """Return the record of a JSON document that no reader understands."""
    return Records.from_rows([(line_number, DOCUMENT, text[:MAX_RAW])])


def read_rows(text: str, line_number: int) -> Records:
    """Return the records of lines that look like rows of a table that no reader knows."""
    return Records.from_rows((number, ROW, line) for number, line in enumerate(split_lines(text), line_number))


def read_rest(text: str, line_number: int) -> Records:
    """Return the records of lines below a JSON document that breaks off, which are perhaps its rest."""
    return Records.from_rows((number, REST, line) for number, line in enumerate(split_lines(text), line_number))


def read_long_line(text: str, line_number: int) -> Records:
    """Return the record of a line that is too long for any format."""
    return Records.from_rows([(line_number, f"{LONG_LINE} {len(text)}", text[:MAX_RAW])])
