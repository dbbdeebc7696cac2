"""Errors about files that have nothing to read: what each file is, and what to run or do instead."""

import re
import zlib
from contextlib import suppress
from pathlib import Path

from pipelines.errors import SourceError
from pipelines.ingest.formats.checked_values import shorten
from pipelines.ingest.formats.partition_filters import find_selection, lists_partitions
from pipelines.ingest.formats.shell_commands import find_commands
from pipelines.ingest.text import (
    BLANK,
    ELLIPSIS,
    MARKUP,
    MAX_LINE,
    MAX_LOOK,
    PROMPT,
    classify_noise,
    read_unzipped,
    split_lines,
)
from pipelines.ingest.unsupported_inputs import find_by_name, find_by_text

_DESCRIBE = "Save the output of kafka-topics --describe to a file."
_SEGMENT = (
    "Run kafka-dump-log --cluster-metadata-decoder on a segment of __cluster_metadata-0 and save its output, "
    "or run kafka-topics --describe."
)
_SHEET = (
    "Save its sheet as tab-separated text if it has the lines of kafka-topics --describe, or as CSV if it has the "
    "columns broker_id and rack, or topic, partitions and replication_factor. No other sheet is read: run "
    "kafka-topics --describe."
)
_EXTRACT = "Extract it, and name the file or folder of its contents."
# First bytes of a file -> what it is, and the remedy.
_MAGIC = (
    (b"PK\x03\x04", "is a zip archive", _EXTRACT),
    (b"7z\xbc\xaf'\x1c", "is a 7z archive", _EXTRACT),
    (b"BZh", "is compressed with bzip2", _EXTRACT),
    (b"\xfd7zXZ", "is compressed with xz", _EXTRACT),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd", _EXTRACT),
    *(
        (magic, "is an image", "Copy the text instead of a screenshot.")
        for magic in (b"\x89PNG", b"\xff\xd8\xff", b"GIF8")
    ),
    (b"%PDF", "is a PDF", "Copy its text into a file."),
    (b"PAR1", "is a Parquet file", _DESCRIBE),
    (b"SQLite format 3", "is a database", _DESCRIBE),
)
# Zip archives by their suffix.
_DOCUMENTS = {
    **dict.fromkeys((".xlsx", ".xlsm", ".ods", ".numbers"), ("is a spreadsheet", _SHEET)),
    **dict.fromkeys((".docx", ".odt", ".pages"), ("is a document of a word processor", "Save it as plain text.")),
}
# What the first line of a list of brokers may have.
_BROKER_CELLS = re.compile(
    r"(?:^|[,;\t])[\s\"]*+(?:node|broker|host ?name|fqdn|server|az|zone|availability[ _-]zone|failure[ _-]domain|rack)"
    r"[\s\"]*+(?:[,;\t]|$)",
    re.I,
)
_BROKER_IDS = re.compile(r"[0-9]{1,10}(?:[\s,;]++[0-9]{1,10})*+\s*+")
_BROKER_ROW = re.compile(r'\s*+"?[0-9]{1,9}"?[,;\t]\s*+"?[\w.-]++"?\s*+')
_SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
_WIDE_LETTERS = re.compile(rb"(?:[\x20-\x7e]\0){8}|(?:\0[\x20-\x7e]){8}")  # of UTF-16: each beside a zero
_LOOK = 65_536  # bytes of a file that show what it is


def explain_unused_text(text: str, path: str) -> SourceError:
    """Return the error of a text of which nothing is used."""
    if (named := find_by_name(path)) is not None:
        return SourceError(path, named.problem, named.remedy)
    long_line = next((n for n, line in enumerate(split_lines(text), 1) if len(line) > MAX_LINE), None)
    if long_line is not None:
        problem = f"the line has more than {MAX_LINE:,} characters, and only JSON may have so long a line"
        return SourceError(path, problem, "Save the output again, with its line breaks.", long_line)
    # What Markdown, Jira and HTML put around a paste is none of it.
    lines = [line for line in split_lines(text[:_LOOK]) if classify_noise(line) not in (BLANK, ELLIPSIS, MARKUP)]
    if _BROKER_IDS.fullmatch("\n".join(lines)):
        remedy = "Write the line broker_id at its top, and one broker per line."
        return SourceError(path, "is perhaps a list of brokers without a header", remedy)
    if (finding := find_by_text(text)) is not None:
        entry, number, line = finding
        return SourceError(path, entry.problem + (f": {shorten(line)!r}" if line else ""), entry.remedy, number)
    if (silent := _explain_silent_command(text, path)) is not None:
        return silent
    if (brokers := _explain_broker_list(lines, path)) is not None:
        return brokers
    begin = f"it begins with {shorten(lines[0].strip())!r}" if lines else "it has no text but marks"
    problem = f"nothing in it is output of a tool that this program reads; {begin}"
    return SourceError(path, problem, f"{_DESCRIBE} If you know the format of the file, name it with --format.")


def _explain_silent_command(text: str, path: str) -> SourceError | None:
    """Return the error of a text that has only commands, of which one lists partitions: it printed nothing."""
    lines = split_lines(text)
    commands = list(find_commands(lines))
    own = {number for command in commands for number in range(command.line_number, command.last_line + 1)}
    rest = (line for number, line in enumerate(lines, 1) if number not in own)
    if any(classify_noise(line) not in (BLANK, MARKUP, PROMPT) for line in rest):
        return None
    for command in commands:
        part = next(filter(lists_partitions, command.parts), None)
        if part is None:
            continue
        selection = find_selection(part)
        if selection is None:
            problem = "the command printed nothing: no topic exists, or this user may describe none"
            remedy = "Pass the settings of a client that may describe topics with --command-config."
        elif selection.nothing is not None:
            problem = f"the command printed nothing: {selection.nothing}"
            remedy = f"Run it without {selection.option}."
        else:
            problem, remedy = "the command printed nothing", f"Run it without {selection.option}."
        return SourceError(path, problem, remedy, command.line_number)
    return None


def _explain_broker_list(lines: list[str], path: str) -> SourceError | None:
    """Return the error of a text that is perhaps a list of brokers in columns that are not read."""
    if lines and all(_BROKER_ROW.fullmatch(line) for line in lines):
        return SourceError(
            path, "is perhaps a list of brokers without a header", "Add the line broker_id,rack at its top."
        )
    if not lines or not _BROKER_CELLS.search(lines[0][:MAX_LOOK]) or not any(mark in lines[0] for mark in ",;\t"):
        return None
    problem = f"is perhaps a list of brokers, but with columns that are not read: {shorten(lines[0])!r}"
    remedy = "Name the column of their numbers broker_id, that of their zones rack, and that of their states status."
    return SourceError(path, problem, remedy)


def explain_unreadable(path: Path, error: SourceError) -> SourceError:
    """Return the error of a file that is no text, with what it is if its first bytes or its name show that."""
    if "is binary" not in str(error):
        return error
    first = b""
    with suppress(OSError, EOFError, zlib.error), path.open("rb") as file:
        first = bytes(read_unzipped(file, _LOOK))
    if first[257:262] == b"ustar":
        return SourceError(str(path), "is a tar archive", _EXTRACT)
    if first.startswith(_MAGIC[0][0]) and path.suffix.lower() in _DOCUMENTS:
        return SourceError(str(path), *_DOCUMENTS[path.suffix.lower()])
    for magic, what, remedy in _MAGIC:
        if first.startswith(magic):
            return SourceError(str(path), what, remedy)
    if path.suffix in _SEGMENT_SUFFIXES:
        return SourceError(str(path), f"is binary, as Kafka's own {path.suffix} files", _SEGMENT)
    if _WIDE_LETTERS.search(first):
        return SourceError(str(path), "is partly UTF-16, as PowerShell's >> writes it", "Save all of it as UTF-8.")
    return error
