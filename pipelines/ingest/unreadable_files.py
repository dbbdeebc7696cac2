"""Errors about files that have nothing to read: what each file is, and what to run or do instead."""

import zlib
from pathlib import Path

from pipelines.errors import SourceError
from pipelines.ingest.text import MAX_LINE, read_unzipped, split_lines
from pipelines.ingest.unsupported_inputs import find_by_name, find_by_text

_DESCRIBE = "Save the output of kafka-topics --describe to a file."
_SEGMENT = (
    "Run kafka-dump-log --cluster-metadata-decoder on a segment of __cluster_metadata-0 and save its output, "
    "or run kafka-topics --describe."
)
_EXTRACT = "Extract it, and name the file or folder of its contents."
# First bytes of a file -> what it is, and the remedy.
_MAGIC = (
    (b"PK\x03\x04", "is a zip archive", _EXTRACT),
    (b"7z\xbc\xaf'\x1c", "is a 7z archive", _EXTRACT),
    (b"BZh", "is compressed with bzip2", _EXTRACT),
    (b"\xfd7zXZ", "is compressed with xz", _EXTRACT),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd", _EXTRACT),
    (b"\x89PNG", "is an image", "Copy the text instead of a screenshot."),
    (b"\xff\xd8\xff", "is an image", "Copy the text instead of a screenshot."),
    (b"GIF8", "is an image", "Copy the text instead of a screenshot."),
    (b"%PDF", "is a PDF", "Copy its text into a file."),
    (b"PAR1", "is a Parquet file", _DESCRIBE),
    (b"SQLite format 3", "is a database", _DESCRIBE),
)
_SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
_TAR_MAGIC = slice(257, 262)
_MAX_LINE = 80  # characters of a line that a message repeats


def explain_unused_text(text: str, path: str) -> SourceError:
    """Return the error of a text of which nothing is used."""
    if (named := find_by_name(path)) is not None:
        return SourceError(path, named.problem, named.remedy)
    long_line = next((n for n, line in enumerate(split_lines(text), 1) if len(line) > MAX_LINE), None)
    if long_line is not None:
        problem = f"the line has more than {MAX_LINE:,} characters, and only JSON may have so long a line"
        return SourceError(path, problem, "Save the output again, with its line breaks.", long_line)
    if (finding := find_by_text(text)) is not None:
        line = f": {_shorten(finding.line)!r}" if finding.line else ""
        return SourceError(path, f"{finding.entry.problem}{line}", finding.entry.remedy, finding.line_number)
    first = next((line.strip() for line in split_lines(text) if line.strip()), "")
    problem = f"nothing in it is output of a tool that this program reads; it begins with {_shorten(first)!r}"
    return SourceError(path, problem, f"{_DESCRIBE} If you know the format of the file, name it with --format.")


def explain_unreadable(path: Path, error: SourceError) -> SourceError:
    """Return the error of a file that is no text, with what it is if its first bytes or its name show that."""
    if "is binary" not in str(error):
        return error
    first = _read_first_bytes(path)
    if first[_TAR_MAGIC] == b"ustar":
        return SourceError(str(path), "is a tar archive", _EXTRACT)
    for magic, what, remedy in _MAGIC:
        if first.startswith(magic):
            return SourceError(str(path), what, remedy)
    if path.suffix in _SEGMENT_SUFFIXES:
        return SourceError(str(path), f"is binary, as Kafka's own {path.suffix} files", _SEGMENT)
    return error


def _read_first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return bytes(read_unzipped(file, 512))
    except (OSError, EOFError, zlib.error):
        return b""


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1] + "…"
