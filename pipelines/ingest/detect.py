"""Which format a text is, by its content."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.formats.registry import FORMATS
from pipelines.ingest.records import Format
from pipelines.ingest.text import lines_of

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
