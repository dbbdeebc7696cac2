"""Recognises a table of partitions that no reader knows, by its header and its rows, which are quarantined."""

import re

from pipelines.ingest.table_rows import looks_like_row
from pipelines.ingest.text import PROSE, classify_noise

_MAX_LOOK = 2_000  # characters of a line that are compared
_SEPARATOR = re.compile(r"\s*+\|\|?+\s*+|\t|[,;]| {2,}+|\s*+</t[dh]>\s*+(?:<t[dh]\b[^>]*+>)?+\s*+")
_BORDER = re.compile(r"^[\s>|]*+(?:<tr\b[^>]*+>)?(?:<t[dh]\b[^>]*+>)?|[\s|]++$|</tr>\s*+$", re.I)
_NO_LETTERS = re.compile(r"[^a-z]")
_PARTITION = frozenset({"partition", "partitions", "partitionid", "partitionnumber"})
_PLACE = frozenset(
    {
        *("leader", "leaderid", "replicas", "replica", "assignedreplicas", "isr", "isrs", "insync", "insyncreplicas"),
        *("followers", "isleader", "isinisr", "leaderbroker"),
    }
)
_COLUMNS = (
    _PARTITION | _PLACE | {"topic", "isobserver", "isisreligible", "iscaughtup", "logstartoffset", "logendoffset"}
)
_COLUMNS |= {"lastcaughtuplagms", "lastfetchlagms", "clusterlink"}
# A column that only one tool has -> whose table it is.
_TOOLS = {
    "highwatermark": "a table of kaf",
    "distinctracks": "a table of topicctl",
    "oldestoffset": "a table of kafkactl",
    "latestoffset": "a table of CMAK",
    "isinisr": "output of kafka-replica-status",
    "msgin": "partition_load of Cruise Control",
    "earliestoffset": "output of avn service topic-get",
}
_READ = (["partition", "leader", "epoch"], ["partition", "leader", "replicas"])  # of rpk
_UNKNOWN = "a table of partitions of another tool"
_WIDE_GAP = re.compile(r"\||\t|\S {2,}+\S|</t[dh]>", re.I)
_WORD = re.compile(r"[A-Za-z][a-z]*+(?:['’][a-z]++|[.,;:!?])?+")
_NUMBER = re.compile(r"[\[({]?[0-9]")
_MIN_WORDS, _MIN_NUMBERS = 3, 2


def find_table(line: str) -> str | None:
    """Return what a table of partitions is if a line is its header, or None."""
    line = line[:_MAX_LOOK]
    lower = line.lower()
    if ("leader" not in lower and "isr" not in lower) or ":" in lower or "=" in lower:
        return None
    cells = [cell for cell in _SEPARATOR.split(_BORDER.sub("", lower)) if cell]
    if len(cells) < 3:  # single blanks: only if all words are names of columns
        cells = lower.split()
        if any(cell not in _COLUMNS for cell in cells):
            return None
    names = [_NO_LETTERS.sub("", cell.partition("(")[0]) for cell in cells]
    if names[:3] in _READ or "outofsync" in names:
        return None
    place = sum(name in _PLACE for name in names)
    if not (_PARTITION.intersection(names) or "id" in names) or place < 1 or len(names) < 3:
        return None
    tool = next((_TOOLS[name] for name in names if name in _TOOLS), None)
    return tool or (_UNKNOWN if place > 1 and _is_short(cells) else None)


def _is_short(cells: list[str]) -> bool:
    """Return whether all cells are as short as names of columns, so that they are no sentence with commas."""
    return all(len(cell.split()) <= 4 for cell in cells)


def is_row(line: str) -> bool:
    """Return whether a line below the header of a table is perhaps a row, also a damaged one, rather than text."""
    line = line[:_MAX_LOOK]
    if not any(c.isalnum() for c in line):
        return False
    if looks_like_row(line):
        return True
    if _WIDE_GAP.search(line.strip()) is None:
        words = line.split()
        of_sentence = sum(_WORD.fullmatch(word) is not None for word in words)
        if of_sentence >= _MIN_WORDS and len(words) < 2 * of_sentence:
            return False
        if not any(c.isdigit() or c in ",;" for c in line):
            return False
    if classify_noise(line) == PROSE:
        return True
    # A name may begin like a line of a log: kafka.orders.
    return sum(_NUMBER.match(cell) is not None for cell in _SEPARATOR.split(_BORDER.sub("", line))) >= _MIN_NUMBERS
