"""The source formats by name, and the detection of a file's format. A new format is a module and an entry here."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.formats import (
    broker_list,
    describe,
    kraft_log,
    log_dirs,
    model_file,
    offset_checkpoint,
    offsets,
    reassignment,
    topic_list,
    zookeeper_cli,
    zookeeper_json,
)
from pipelines.ingest.formats.without_placement import TOOL_INPUT, TOOL_OUTPUT, UNRECOGNISED
from pipelines.ingest.source_format import Format
from pipelines.ingest.sources import Source
from pipelines.ingest.text import read_text, split_lines

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        describe.FORMAT,
        zookeeper_json.FORMAT,
        zookeeper_cli.FORMAT,
        kraft_log.FORMAT,
        log_dirs.FORMAT,
        offsets.FORMAT,
        offset_checkpoint.FORMAT,
        reassignment.FORMAT,
        broker_list.FORMAT,
        topic_list.FORMAT,
        model_file.FORMAT,
        TOOL_INPUT,
        TOOL_OUTPUT,
        UNRECOGNISED,
    )
}

# The part of a file that formats look at. A document may be one huge line: its beginning and end are enough. The last
# lines show what the first cannot, such as partitions after a long list of brokers.
_FIRST_LINES = 2_000
_LAST_LINES = 200
_LINE_BEGIN = 400_000
_LINE_END = 20_000


def get_format(name: str) -> Format:
    """Return the format of this name."""
    result = FORMATS.get(name)
    if result is None:
        raise SettingsError(f"no format {name!r}. Choose one of: {', '.join(FORMATS)}.")
    return result


def detect_format(text: str, path: str) -> Format:
    """Return the format that fits the text best.

    Args:
        text: Text of a file.
        path: Path of the file, for an error.

    Raises:
        SourceError: No format fits.
    """
    lines = split_lines(text)
    is_long = len(lines) > _FIRST_LINES + _LAST_LINES
    result = _find_best(lines[:_FIRST_LINES] + lines[-_LAST_LINES:] if is_long else lines)
    if result is None and is_long:  # the data may begin after a long log
        result = _find_best(lines)
    if result is not None:
        return result
    first = next((line.strip() for line in lines if line.strip()), "")
    if len(first) > 80:
        first = first[:79] + "…"
    problem = f"none of the known formats; its first line is {first!r}"
    raise SourceError(path, problem, f"Name the format with --format: {', '.join(FORMATS)}.")


def read_files(source: Source, format_name: str | None) -> Iterator[tuple[Path, Format, str]]:
    """Yield (file, format, text) of each of the source's files.

    Beside files of known formats, an empty or unrecognised file has format `unrecognised`.

    Args:
        source: One cluster's files.
        format_name: Format of all files; None = detect each file's.

    Raises:
        SourceError: No file can be read.
    """
    failures = 0
    for file in source.files:
        text = ""
        try:
            text = read_text(file)
            form = get_format(format_name) if format_name else detect_format(text, str(file))
        except SourceError:
            failures += 1
            if failures == len(source.files):
                raise
            form = UNRECOGNISED
        yield file, form, text


def read_text_as(path: str, format_name: str) -> str:
    """Return the file's text; none for an unrecognised file that is not text at all."""
    try:
        return read_text(path)
    except SourceError:
        if format_name == UNRECOGNISED.name:
            return ""
        raise


def _find_best(lines: Sequence[str]) -> Format | None:
    lines = [_shorten(line) for line in lines]
    confidence = {name: form.detect(lines) for name, form in FORMATS.items()}
    name = max(confidence, key=lambda name: confidence[name])
    return FORMATS[name] if confidence[name] > 0 else None


def _shorten(line: str) -> str:
    return line if len(line) <= _LINE_BEGIN + _LINE_END else line[:_LINE_BEGIN] + line[-_LINE_END:]
