"""Recognises text that shows partitions in a form that no reader knows: tables of other tools, entries, structs."""

import re

from pipelines.ingest.text import MAX_LOOK, PROSE, classify_noise

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
_OBJECT = re.compile(r"\b(?:Topic|Partition)\w*+\(.*\[[0-9]")
_MIN_CELLS, _MIN_NUMBERS, _MIN_PAIRS = 4, 2, 4

_CELL_SEPARATOR = re.compile(rf"{_SEPARATOR.pattern}|[,;]")
_BEFORE_ROW = re.compile(r"^[\s>|]*+(?:<tr\b[^>]*+>)?(?:<t[dh]\b[^>]*+>)?|[\s|]++$|</tr>\s*+$", re.I)
_NO_LETTERS = re.compile(r"[^a-z]")
# Names of columns, as letters.
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
_WIDE_GAP = re.compile(r"\||\t|\S {2,}+\S|</t[dh]>", re.I)
_WORD_OF_SENTENCE = re.compile(r"[A-Za-z][a-z]*+(?:['’][a-z]++|[.,;:!?])?+")
_NUMBER_BEGINS = re.compile(r"[\[({]?[0-9]")
# Partitions as Go programs print their structs (`%+v`, `%#v`): kafka-go, sarama, franz-go, confluent.
_MAX_STRUCT = 20_000  # characters
_STRUCT_LEADER, _STRUCT_REPLICAS = re.compile(r"[{ ]Leader:[\w{-]"), re.compile(r" Replicas:\[")


def is_table_line(line: str) -> bool:
    """Return whether a line below the header of a table goes on with it: a row, or a rule."""
    line = line[:MAX_LOOK]
    if not any(c.isalnum() for c in line):
        return True
    return _DIGIT.search(line) is not None and classify_noise(line) == PROSE


def looks_like_row(line: str) -> bool:
    """Return whether a line that no format claims shows a partition all the same, as far as a reader can tell.

    That is: two of Kafka's words with values, four keys with values, or four cells of a table, two of them numbers.
    """
    line = line[:MAX_LOOK].replace("^I", "\t")  # as cat -A shows tabs
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
    return not _has_keys(line[:MAX_LOOK])


def _has_keys(line: str) -> bool:
    if any(
        pattern.fullmatch(line.rstrip()) for pattern in (_VALUE_LINE, _QUOTED_LINE, _NODE_LINE, _YAML_LINE)
    ) or _OBJECT.search(line):
        return True
    if len({word.lower().rstrip("s") for word in _WORD.findall(line)}) > 1:
        return True
    values = _PAIR.findall(line)
    return len(values) >= _MIN_PAIRS and sum(_NUMBER.match(value) is not None for value in values) >= _MIN_NUMBERS


def find_table(line: str) -> str | None:
    """Return what a table of partitions is if a line is its header, or None."""
    line = line[:MAX_LOOK]
    lower = line.lower()
    if ("leader" not in lower and "isr" not in lower) or ":" in lower or "=" in lower:
        return None
    cells = [cell for cell in _CELL_SEPARATOR.split(_BEFORE_ROW.sub("", lower)) if cell]
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
    is_short = all(len(cell.split()) <= 4 for cell in cells)  # as names of columns: no sentence with commas
    return tool or ("a table of partitions of another tool" if place > 1 and is_short else None)


def is_row(line: str) -> bool:
    """Return whether a line below the header of a table is perhaps a row, also a damaged one, rather than text."""
    line = line[:MAX_LOOK]
    if not any(c.isalnum() for c in line):
        return False
    if looks_like_row(line):
        return True
    if _WIDE_GAP.search(line.strip()) is None:
        words = line.split()
        of_sentence = sum(_WORD_OF_SENTENCE.fullmatch(word) is not None for word in words)
        if of_sentence >= 3 and len(words) < 2 * of_sentence:
            return False
        if not any(c.isdigit() or c in ",;" for c in line):
            return False
    if classify_noise(line) == PROSE:
        return True
    # A name may begin like a line of a log: kafka.orders.
    cells = _CELL_SEPARATOR.split(_BEFORE_ROW.sub("", line))
    return sum(_NUMBER_BEGINS.match(cell) is not None for cell in cells) >= _MIN_NUMBERS


def explain_struct(text: str) -> str | None:
    """Return why a text that shows partitions as structs is rejected; None for other texts."""
    text = text[:_MAX_STRUCT]
    if "{" not in text or _STRUCT_LEADER.search(text) is None or _STRUCT_REPLICAS.search(text) is None:
        return None
    return "a struct of a Go program, which this program does not read: use kafka-topics --describe"
