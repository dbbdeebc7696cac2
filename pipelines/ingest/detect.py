"""Which format a text is, by its content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.formats import unrecognised
from pipelines.ingest.formats.format_registry import FORMATS
from pipelines.ingest.records import Format
from pipelines.ingest.sources import Source
from pipelines.ingest.text import lines_of, read_text

# What the formats look at. A document may be one huge line: its beginning and end are enough. The last lines
# tell what the first cannot, such as a long list of brokers that has partitions behind it.
_FIRST_LINES = 2_000
_LAST_LINES = 200
_LINE_HEAD = 400_000
_LINE_TAIL = 20_000


def recognise(text: str, path: str) -> Format:
    """The format that the text is most surely in; path: only for the error."""
    lines = lines_of(text)
    found = _best(_window(lines))
    if found is None and len(lines) > _FIRST_LINES + _LAST_LINES:  # the data may begin behind a long log
        found = _best([_ends(line) for line in lines])
    if found is not None:
        return found
    first = next((line.strip() for line in lines if line.strip()), "")
    if len(first) > 80:
        first = first[:79] + "…"
    raise SourceError(
        path,
        f"none of the known formats; its first line is {first!r}",
        f"Name the format with --format: {', '.join(FORMATS)}.",
    )


def by_name(name: str) -> Format:
    """The format of that name."""
    found = FORMATS.get(name)
    if found is None:
        raise SettingsError(f"no format {name!r}. Take one of: {', '.join(FORMATS)}.")
    return found


def read_files(source: Source, format_name: str | None) -> Iterator[tuple[Path, Format, str]]:
    """(file, format, text) of each of the source's files.

    format_name overrides recognition. In a folder, an empty or unrecognised file is read as `unrecognised` beside
    others that are known; alone, it is an error.
    """
    failures: list[SourceError] = []
    for file in source.files:
        text = ""
        try:
            text = read_text(file)
            chosen = by_name(format_name) if format_name else recognise(text, str(file))
        except SourceError as error:
            failures.append(error)
            if len(failures) == len(source.files):
                raise
            chosen = unrecognised.FORMAT
        yield file, chosen, text


def text_of(path: str, format_name: str) -> str:
    """The file's text; none of an unrecognised file that is no text at all."""
    try:
        return read_text(path)
    except SourceError:
        if format_name == unrecognised.FORMAT.name:
            return ""
        raise


def _best(lines: Sequence[str]) -> Format | None:
    scores = {name: form.score(lines) for name, form in FORMATS.items()}
    name = max(scores, key=lambda name: scores[name])
    return FORMATS[name] if scores[name] > 0 else None


def _window(lines: list[str]) -> list[str]:
    if len(lines) > _FIRST_LINES + _LAST_LINES:
        lines = lines[:_FIRST_LINES] + lines[-_LAST_LINES:]
    return [_ends(line) for line in lines]


def _ends(line: str) -> str:
    if len(line) <= _LINE_HEAD + _LINE_TAIL:
        return line
    return line[:_LINE_HEAD] + line[-_LINE_TAIL:]
