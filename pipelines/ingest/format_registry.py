"""The source formats by name, and the detection of a file's format. A new format is a module and an entry here."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.formats import cluster_model_file, describe, kraft_log, log_dirs, zookeeper_cli, zookeeper_json
from pipelines.ingest.formats.broker_and_topic_lists import BROKER_LIST, TOPIC_LIST
from pipelines.ingest.formats.offset_formats import OFFSET_CHECKPOINT, OFFSETS
from pipelines.ingest.formats.tool_documents import REASSIGNMENT, TOOL_INPUT, TOOL_OUTPUT
from pipelines.ingest.source_format import UNRECOGNISED, Format
from pipelines.ingest.sources import Source
from pipelines.ingest.text import read_text, split_lines

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        *(module.FORMAT for module in (describe, zookeeper_json, zookeeper_cli, kraft_log, log_dirs)),
        *(OFFSETS, OFFSET_CHECKPOINT, REASSIGNMENT, BROKER_LIST, TOPIC_LIST, cluster_model_file.FORMAT),
        *(TOOL_INPUT, TOOL_OUTPUT, UNRECOGNISED),
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
    if name not in FORMATS:
        raise SettingsError(f"no format {name!r}. Choose one of: {', '.join(FORMATS)}.")
    return FORMATS[name]


def detect_format(text: str, path: str) -> Format:
    """Return the format that fits the text of a file best. Raises: SourceError if none fits."""
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
    """Yield (file, format, text) of each of the source's files. format_name: format of all; None = detect each file's.

    Beside files of known formats, an empty or unrecognised file has format `unrecognised`.
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
    limit = _LINE_BEGIN + _LINE_END
    lines = [line if len(line) <= limit else line[:_LINE_BEGIN] + line[-_LINE_END:] for line in lines]
    confidence = {name: form.detect(lines) for name, form in FORMATS.items()}
    name = max(confidence, key=lambda name: confidence[name])
    return FORMATS[name] if confidence[name] > 0 else None
