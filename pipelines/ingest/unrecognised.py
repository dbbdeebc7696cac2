"""The records that no reader understands: a file in no known format, unknown JSON documents, lines without end."""

from collections.abc import Iterator

from pipelines.ingest.formats.checked_values import quote
from pipelines.ingest.source_format import Format, Row, Signature, decide_ignored, decide_rejected, ignore, read_lines
from pipelines.ingest.table_rows import explain_struct
from pipelines.ingest.text import PROSE, classify_noise, split_lines

DOCUMENT, LONG_LINE, ROW, REST = "document", "long line", "row", "rest"  # what stands in text that no format claims
NO_TEXT = "empty, or not text"  # reason
MAX_RAW = 2_000  # characters of such a record that are kept


UNRECOGNISED = Format(
    *("unrecognised", "text in no known format", Signature()),
    lambda _context, _raw: ignore("unrecognised file"),
    # One record of a file without lines, so that the account of records names it
    lambda text, path: read_lines(text, path) if text.strip() else [(1, decide_ignored(NO_TEXT), "")],
)


def read_unclaimed(text: str, content: str, line_number: int) -> Iterator[Row]:
    """Yield the records of text that no format claims, with why each is rejected; content: what it is."""
    if content == DOCUMENT:
        problem = explain_struct(text[:MAX_RAW]) or f"a JSON document that no reader understands: {quote(text[:60])}"
        yield line_number, decide_rejected(problem), text[:MAX_RAW]
    elif content == LONG_LINE:
        problem = f"a line of {len(text)} characters: too long for any format"
        yield line_number, decide_rejected(problem), text[:MAX_RAW]
    else:
        for number, line in enumerate(split_lines(text), line_number):
            yield number, _judge_line(line, content), line


def _judge_line(line: str, content: str) -> str:
    if content == ROW:
        problem = f"{quote(line.strip())} looks like a partition in a form that no reader knows"
        return decide_rejected(f"{problem}: use kafka-topics --describe")
    if (reason := classify_noise(line)) != PROSE:
        return decide_ignored(reason)
    return decide_rejected(f"{quote(line.strip())} is perhaps the rest of the JSON document above, which breaks off")
