"""Recognises lines that show partitions in a form that no reader knows: rows of other tools' tables, free entries."""

import re

from pipelines.ingest.text import PROSE, classify_noise

_MAX_LOOK = 2_000  # characters of a line that are compared
_NUMBERS = r"[\[({]?-?[0-9]++(?:[,;|/ ]{1,2}[0-9]++)*+[\])}]?"
_DIGIT = re.compile(r"\d")
_CELL = re.compile(rf"(?:{_NUMBERS}|none|null|-|\[\]|\(\))?", re.I)
_NUMBER = re.compile(_NUMBERS)
_SEPARATOR = re.compile(r"\s*+\|\|?+\s*+|\t|;| {2,}+|\s*+</t[dh]>\s*+(?:<t[dh]\b[^>]*+>)?+\s*+")
_BORDER = re.compile(r"^[\s|<>a-z/]*+(?:<t[dh]\b[^>]*+>)|[\s|]++$|^[\s|]++", re.I)
_WORD = re.compile(
    r"\b(topic|partition|leader|replicas?|isr|in[- ]?sync)(?:\b|_?id\b|_count\b)\W{1,3}(?:[0-9]|none\b|null\b)", re.I
)
_PAIR = re.compile(r"(?:^|[\s,;|])\w[\w ]{0,30}?[:=;] ?(\S++)")
_RECAP = re.compile(r"\bok=[0-9]++\s++changed=[0-9]")  # of a playbook of Ansible
# A value of a structure that is printed over several lines, or a list of ids that a program prints of its objects.
_KEY = r"[\"':]?(?:partition(?:_?id|Id)?|leader|replicas?|isrs?|in_?sync_?replicas?|inSyncReplicas?)[\"']?"
_VALUE_LINE = re.compile(rf"[\s{{,-]*+{_KEY}\s*+(?:[:=]>?|=>)\s*+\[[\s0-9,]*+\]?[\s,;]*+", re.I)
_QUOTED_LINE = re.compile(r"""\s*+["'](?:partition|leader|replicas|isr)["']\s*+:\s*+(?:[0-9]++|\[)[\s,0-9\]]*+""", re.I)
# As the example of confluent-kafka-python for describing topics prints a node: Leader : (1) b1:9092.
_NODE_LINE = re.compile(r"\s++(?:Leader|Replica|In-Sync Replica)\s*+:\s*+\(-?[0-9]++\) \S++")
_YAML_LINE = re.compile(r"\s+(?:leader|partition(?:Id)?): -?[0-9]++,?")
_LINES = (_VALUE_LINE, _QUOTED_LINE, _NODE_LINE, _YAML_LINE)
_OBJECT = re.compile(r"\b(?:Topic|Partition)\w*+\(.*\[[0-9]")
_MIN_CELLS, _MIN_NUMBERS, _MIN_PAIRS = 4, 2, 4


def is_table_line(line: str) -> bool:
    """Return whether a line below the header of a table goes on with it: a row, or a rule."""
    line = line[:_MAX_LOOK]
    if not any(c.isalnum() for c in line):
        return True
    return _DIGIT.search(line) is not None and classify_noise(line) == PROSE


def looks_like_row(line: str) -> bool:
    """Return whether a line that no format claims shows a partition all the same, as far as a reader can tell.

    That is: two of Kafka's words with values, four keys with values, or four cells of a table, two of them numbers.
    """
    line = line[:_MAX_LOOK].replace("^I", "\t")  # as cat -A shows tabs
    if not _DIGIT.search(line) or classify_noise(line) != PROSE or _RECAP.search(line):
        return False
    if _has_keys(line):
        return True
    cells = [cell for cell in _SEPARATOR.split(_BORDER.sub("", line)) if cell]
    if len(cells) < _MIN_CELLS:
        cells = line.split()  # single blanks: only if nearly all are numbers
        return (
            len(cells) >= _MIN_CELLS and sum(_CELL.fullmatch(cell) is not None for cell in cells[1:]) == len(cells) - 1
        )
    return sum(_NUMBER.fullmatch(cell.strip()) is not None for cell in cells) >= _MIN_NUMBERS


def looks_like_cells(line: str) -> bool:
    """Return whether a line may be a row of a table: it names no keys beside its values."""
    return not _has_keys(line[:_MAX_LOOK])


def _has_keys(line: str) -> bool:
    if any(pattern.fullmatch(line.rstrip()) for pattern in _LINES) or _OBJECT.search(line):
        return True
    if len({word.lower().rstrip("s") for word in _WORD.findall(line)}) > 1:
        return True
    values = _PAIR.findall(line)
    return len(values) >= _MIN_PAIRS and sum(_NUMBER.match(value) is not None for value in values) >= _MIN_NUMBERS
