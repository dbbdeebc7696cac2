"""`KafkaTopic` resources of Strimzi as YAML, alone or as `kubectl get kafkatopics -o yaml` lists them.

They declare partition count, replication factor and configs, which Strimzi's topic operator applies to the cluster. A
resource that is not ready, or not managed, is not applied.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pipelines.ingest.formats.checked_values import as_int, as_topic, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, decide_ignored, ignore
from pipelines.ingest.text import MARKUP, PROSE, classify_noise, find_marked, split_lines

_KIND = re.compile(r"( *+)(- )?kind: *+[\"']?KafkaTopic[\"']?\s*+")
_ENTRY = re.compile(r"( *+)((?:- )*+)[\"']?([\w./-]++)[\"']?:(?:\s++(.*))?")
_LAST_APPLIED = re.compile(r' ++\{"apiVersion":"kafka\.strimzi\.io/\w++","kind":"KafkaTopic",')
_COMMENT = re.compile(r"\s#.*")
_TITLE = "KafkaTopic of Strimzi"
_COUNTS = {"partitions": "partition_count", "replicas": "replication_factor"}
_NOT_READY = (("Ready", "False"), ("NotReady", "True"))  # type and status of a condition


class _Entry(NamedTuple):
    """A key of a resource, as in spec.config: the keys above it, and the text behind it."""

    line_number: int
    path: tuple[str, ...]
    value: str


def _is_annotation(text: str) -> bool:
    """Return whether a JSON document is the one that kubectl apply keeps inside of a resource: its last input."""
    return text[:1] == " " and _LAST_APPLIED.match(text) is not None


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    lines = split_lines(text)
    contexts: dict[int, str] = {}
    for begin, line in enumerate(lines):
        if _KIND.fullmatch(line):
            contexts |= _describe_resource(list(_read_entries(lines, begin)))
    for number, line in enumerate(lines, 1):
        yield number, contexts.get(number), line


def _read_entries(lines: Sequence[str], begin: int) -> Iterator[_Entry]:
    """Yield the entries of the resource whose kind is at this index, to the next resource or other text."""
    kind = _KIND.fullmatch(lines[begin])
    base = len(kind[1]) + len(kind[2] or "") if kind is not None else 0
    above: list[tuple[int, str]] = []  # indentation and key
    for number, line in enumerate(lines[begin:], begin + 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        entry = _ENTRY.fullmatch(line)
        indent = len(line) - len(line.lstrip(" "))
        if number > begin + 1 and (indent < base or (indent == base and entry is None) or _KIND.fullmatch(line)):
            return
        if entry is None:
            continue
        column = len(entry[1]) + len(entry[2])
        while above and above[-1][0] >= column:
            above.pop()
        above.append((column, entry[3]))
        yield _Entry(number, tuple(key for _, key in above), _read_scalar(entry[4] or ""))


def _read_scalar(text: str) -> str:
    text = text.strip()
    if text[:1] in ("'", '"'):
        return text[1:].partition(text[0])[0]
    return _COMMENT.sub("", f" {text}").strip()


def _describe_resource(entries: Sequence[_Entry]) -> dict[int, str]:
    """Return the contexts of a resource's lines by line number."""
    values = {entry.path: entry.value for entry in entries}
    topic = values.get(("spec", "topicName")) or values.get(("metadata", "name"))
    problem = _find_problem(entries)
    contexts: dict[int, str] = {}
    for entry in entries:
        context: dict[str, Any] = {"topic": topic, "key": entry.path[-1], "value": entry.value}
        if problem or not _is_used(entry):
            context = {}
        contexts[entry.line_number] = json.dumps(context)
        if problem and entry.path == ("kind",):
            warning = f"KafkaTopic {topic} {problem}: its counts and configs are not used"
            contexts[entry.line_number] = decide_ignored(f"{_TITLE}: not used", warning=warning)
    return contexts


def _is_used(entry: _Entry) -> bool:
    """Return whether an entry is a count, a config, or one that should have its keys on lines of their own."""
    match entry.path:
        case ("spec", "config", _):
            return True
        case ("spec", key):
            return key in _COUNTS or (key == "config" and entry.value not in ("", "{}"))
        case ("spec",):
            return entry.value != ""
    return False


def _find_problem(entries: Sequence[_Entry]) -> str | None:
    """Return why a resource is not applied to the cluster, or None."""
    if any(entry.path[:2] == ("metadata", "annotations") and entry.path[-1] == "strimzi.io/managed"
           and entry.value == "false" for entry in entries):  # fmt: skip
        return "is not managed by Strimzi"
    condition: dict[str, str] = {}
    for entry in entries:
        if entry.path[:2] != ("status", "conditions") or len(entry.path) != 3:
            continue
        if entry.path[2] in condition:  # of the next condition
            condition = {}
        condition[entry.path[2]] = entry.value
        if (condition.get("type"), condition.get("status")) in _NOT_READY:
            return "is not ready"
    return None


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    values = {} if context is None else json.loads(context)
    if context is None and raw.lstrip().startswith("{") and not _is_annotation(raw):
        raise unparsable(f"{quote(raw.strip()[:60])} is no part of a KafkaTopic")
    if not values:
        reason = classify_noise(raw)
        is_inside = context is not None or raw.startswith((" ", "-", "apiVersion:"))
        return ignore(_TITLE if reason in (PROSE, MARKUP) and is_inside else reason)
    key, value = values["key"], values["value"]
    if values["topic"] is None:
        raise unparsable(f"{key} of which topic? metadata.name is missing")
    topic = as_topic(values["topic"], "metadata.name")
    if key in ("spec", "config"):
        raise unparsable(f"{key} is {quote(value)}, expected its keys on lines of their own")
    if key in _COUNTS:
        return [(FactKind.TOPIC, {"topic": topic, _COUNTS[key]: as_int(value, key, 1)})]
    return [(FactKind.CONFIG, {"topic": topic, "configs": [(key, value)]})]


FORMAT = Format(
    "strimzi-topics",
    "KafkaTopic resources of Strimzi, as YAML",
    *(Signature(line=find_marked("KafkaTopic", _KIND.fullmatch), document=_is_annotation), _parse_record, _read_rows),
)
