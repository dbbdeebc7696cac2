"""Finds the labels of `kafka-topics --describe` in a line, with their values, also where separators were lost or added.

All patterns are linear: whatever a line repeats, each of its characters is looked at a fixed number of times.
"""

import html
import re
from typing import NamedTuple

TOPIC, TOPIC_ID, CONFIGS, DELETION = "topic", "topicid", "configs", "markedfordeletion"
PARTITION_COUNT, REPLICATION_FACTOR = "partitioncount", "replicationfactor"
PARTITION, LEADER, REPLICAS, ISR = "partition", "leader", "replicas", "isr"
HEADER_LABELS = frozenset({TOPIC_ID, PARTITION_COUNT, REPLICATION_FACTOR, CONFIGS, DELETION})
PARTITION_LABELS = frozenset(
    {LEADER, REPLICAS, ISR, "elr", "lastknownelr", "addingreplicas", "removingreplicas"}
    | {"observers", "liveobservers", "offline", DELETION}
)

REQUIRED_LABELS = frozenset({PARTITION, LEADER, REPLICAS, ISR})  # of a partition

_WORDS = frozenset({TOPIC, PARTITION, LEADER, REPLICAS, CONFIGS, "observers", "offline"})  # that sentences also have
_NO_WORDS = HEADER_LABELS - {CONFIGS} | {PARTITION}  # no sentence has these with a colon

# The first letters are written as sets, so that the search skips from one to the next.
_LABEL = re.compile(
    r"(?:[Tt](?i:opic(?:[ _-]?id)?)|[Pp](?i:artition(?:[ _-]?count)?)|[Rr](?i:eplication[ _-]?factor|eplicas)"
    r"|[Rr](?i:emoving[ _-]?replicas)|[Aa](?i:dding[ _-]?replicas)|[Oo](?i:ffline(?:[ _-]?replicas)?)"
    r"|[Cc](?i:onfigs)|[Mm](?i:arked[ _-]?for[ _-]?deletion)|[Ll](?i:eader|ast[ _-]?known[ _-]?elr)"
    r"|[Ii](?i:sr)|[Ee](?i:lr)|[Ll](?i:ive[ _-]?observers)|[Oo](?i:bservers))[*`_]{0,2}\s?[:：]"
)
_LABEL_END = re.compile(r"[:：](?:(?<=[cdtnrseCDTNRSE\u017f].)|(?<=[*`_\s].))")  # is found faster than a label
_ALIASES = {"offlinereplicas": "offline"}
_LETTERS = re.compile(r"[^a-z]")
_UNKNOWN = re.compile(r"[A-Z](?<!\S.)[\w-]*+(?: [A-Z][\w-]*+)?:|\t[^\S\t]*+[A-Za-z][\w-]*+(?: [A-Za-z][\w-]*+)*+\s?:")
_FIRST_WORD = re.compile(r"\s*+\S*+")
_WORD_OF_LABEL = re.compile(r"(?:^|\s)(?!None |Null |True |False )[A-Z][a-z]\w* $")
_WORDS_OF_LABEL = re.compile(r"\t[^\S\t]*(?!(?i:none|null) )[A-Za-z][\w-]*(?: [A-Za-z][\w-]*)* $")
_AFTER_CONFIGS = re.compile(
    r"\t[^\S\t]*+[A-Za-z][\w-]*+(?: [A-Za-z][\w-]*+)*+\s?:|[A-Z](?<=\s\s.)[\w-]*+(?: [A-Z][\w-]*+)?:(?=\s|$)", re.I
)
_WORD_END = re.compile(r"[\w.-]")
_MAX_GLUED = 2_000  # characters of a value that a label may follow directly

_NUMBER, _IDS = r"[0-9]++", r"(?:[0-9]++(?:\s*+,\s*+[0-9]++)*+|N/A|n/a)"
_COMPLETE = {
    TOPIC: re.compile(r"[\w.-]+"),
    TOPIC_ID: re.compile(r"[\w-]+"),
    PARTITION_COUNT: re.compile(_NUMBER),
    REPLICATION_FACTOR: re.compile(_NUMBER),
    PARTITION: re.compile(_NUMBER),
    LEADER: re.compile(r"-?[0-9]++|none|null", re.I),
    DELETION: re.compile(r"true|false", re.I),
    CONFIGS: re.compile(r"[\w.-]+=.*", re.S),
}
_IS_LIST = re.compile(_IDS)
_SQUARE, _BRACKETS = {"[": "]"}, {"[": "]", "{": "}", "(": ")"}  # around any value; around lists
_FREE = frozenset({TOPIC, CONFIGS})  # labels whose values may contain what begins a note
_NOTE = re.compile(r"(?<=[\w\])}])\s++(?:#|//|<-|<<|[←⬅◀◄])[^\n]*+\Z")  # that somebody wrote behind a line

_UNTIDY = re.compile(r"[<&\\\u00ad\u200b-\u200f\u2060\ufeff]")
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"))
_ENTITY = re.compile(r"&(?:nbsp|amp|lt|gt|quot|apos|[lr]squo|[lr]dquo|#[0-9]{1,6}|#x[0-9a-fA-F]{1,6});")
# Not all that is in angle brackets: `<broker id>` is what documentation writes for a value.
_TAG_NAMES = (
    "a|abbr|article|b|big|blockquote|body|br|button|center|cite|code|dd|del|details|div|dl|dt|em|font|h[1-6]|hr|html|i"
    "|img|ins|kbd|label|li|main|mark|nobr|o:p|ol|p|pre|q|s|samp|section|small|span|strike|strong|sub|summary|sup"
    "|table|tbody|td|tfoot|th|thead|tr|tt|u|ul|var|wbr"
)
_TAG = re.compile(rf"</?(?:{_TAG_NAMES})(?:[\s/][^<>\n]{{0,200}})?>", re.I)
_PRE, _PRE_END = re.compile(r"<pre(?:\s[^<>\n]{0,200})?>", re.I), re.compile("</pre>", re.I)
_LAST_TAG = re.compile(r"(?:</[a-zA-Z][\w]{0,20}>|<br\s?/?>)[\s`]*+$")
_NEXT_LINE = re.compile(r"\n[\s>|#/*]*+")
_TAG_BEFORE_LABEL = re.compile(rf">\s{{0,9}}+{_LABEL.pattern}")
_ESCAPE = re.compile(r"\\[tnr]")
_ESCAPE_AT_END = re.compile(rf"\\[tnr](?=(?:\\[tnr]){{0,3}}+(?:{_LABEL.pattern}|\s*+(?:[\"'][\s+,;)]*+)?+$))")

# What stands before a line: quote marks, comment marks, numbers, times, names with a colon, a bar or in brackets.
_WORD_BEFORE = re.compile(
    r"[>|│┃\"'`*#/;%“”‘’]*+(?:\w[\w./@-]*[:|]|[\w./@-]*?[0-9]+[:-]|[\w./@:-]*\w:[0-9]+[:-]|\[[^\[\]]*+\][:|]?|[0-9]++[.)]?"
    r"|\[?[0-9]{4}-[0-9][0-9]-[0-9][0-9](?:T[0-9:.,]++(?:Z|[+-][0-9:]++)?)?\]?:?|[0-9][0-9]:[0-9][0-9:.,]*+Z?\]?:?"
    r"|\[?(?:TRACE|DEBUG|INFO|WARN|ERROR)\]?:?|[-–—•·‣◦▪●○$]|b(?=[\"']))?[>|\"'`*#/;“”‘’]*+"
)
# Whole prefixes of logs: of containers, of syslog, and of programs as in `[12:00:02] INFO  check.py:88 - `.
_LOG_PREFIX = re.compile(
    r"[\s>]*+(?:[0-9]{4}-\S++ (?:stdout|stderr) F|(?:<[0-9]++>)?[A-Z][a-z][a-z] [ 0-9][0-9] [0-9:]++ [\w.-]++ [\w./-]++"
    r"(?:\[[0-9]++\])?:|\[?[0-9][0-9:.,T -]*+Z?\]?(?: \[[^\[\]]*+\])? \[?(?:TRACE|DEBUG|INFO|WARN|ERROR)\]? ++\S++ -"
    r")\s*+"
)
_NAME_BEFORE = re.compile(r"[\w./@-]++")
_MAX_PREFIX = 300
AROUND = " \t\n\r\f\v\u00a0\u3000>|│┃;`*\"'“”‘’„«»"
_STRING_END = re.compile(r"(?:\\[tnr])*+[\"'“”‘’][\s+,;)]*+$")


class Field(NamedTuple):
    """A label of a line and its value."""

    label: str  # lower case, without blanks
    value: str
    unknown: str = ""  # the last unknown label between this label and the next


class _Label(NamedTuple):
    name: str
    begin: int
    end: int


def tidy(line: str) -> str:
    """Return a line without invisible characters, HTML and escaped tabs; configs keep what may be theirs."""
    if "\n" in line:
        line = _NEXT_LINE.sub("\n", line)
    if not _UNTIDY.search(line):
        return line
    line = line.translate(_INVISIBLE)
    if "&" in line:
        line = _ENTITY.sub(lambda match: html.unescape(match[0]), line)
    if "</" in line or "<p" in line:
        line = _cut_outside_pre(line)
    configs = _find_configs(line)
    if "<" in line:
        first = _TAG.search(line)
        if first is not None and (
            first.start() < configs
            or _LAST_TAG.search(line, max(0, len(line) - 100))
            or _TAG_BEFORE_LABEL.search(line, first.start())
        ):
            line = _TAG.sub("\t", line)
            configs = _find_configs(line)
    if "\\" in line:
        line = _ESCAPE.sub("\t", line[:configs]) + _ESCAPE_AT_END.sub("\t", line[configs:])
    return line


def _cut_outside_pre(line: str) -> str:
    """Return a line without the text around <pre> and </pre>, unless that has labels too."""
    matches = list(_LABEL.finditer(line))
    if not matches:
        return line
    end = _PRE_END.search(line, matches[-1].end())
    line = line[: end.start()] if end is not None else line
    begins = list(_PRE.finditer(line, 0, matches[0].start()))
    return line[begins[-1].end() :] if begins else line


def _find_configs(line: str) -> int:
    return next((match.start() for match in _LABEL.finditer(line) if _name(match[0]) == CONFIGS), len(line))


def _name(text: str) -> str:
    name = _LETTERS.sub("", text.lower())
    return _ALIASES.get(name, name)


def split_line(line: str) -> tuple[str, list[Field]]:
    """Return (the text before the first label of a tidy line, its fields in order).

    Unknown labels and their values are left out.
    """
    labels = _find_labels(line)
    if not labels:
        return line, []
    prefix = line[: labels[0].begin]
    line = _strip_wrapping(line, prefix)
    ends = [*(label.begin for label in labels[1:]), len(line)]
    raws = [line[label.end : end] for label, end in zip(labels, ends, strict=True)]
    # Commas separate all fields of a line: otherwise, a comma at the end of a list was damaged.
    comma = len(raws) > 1 and all(raw.rstrip().endswith(",") for raw in raws[:-1])
    fields = [
        _build_field(label.name, raw, comma, is_followed=i + 1 < len(raws))
        for i, (label, raw) in enumerate(zip(labels, raws, strict=True))
    ]
    return prefix, fields


def _find_labels(line: str) -> list[_Label]:
    candidates = [_Label(_name(match[0]), match.start(), match.end()) for match in _LABEL.finditer(line)]
    labels: list[_Label] = []
    balance = _Balance(line)
    for i, label in enumerate(candidates):
        previous = labels[-1] if labels else None
        if previous is not None and previous.name == CONFIGS:
            ends = _ends_configs(line, previous.end, label, candidates[i + 1 : i + 3]) and balance.is_even(
                previous.end, label.begin
            )
        else:
            ends = _ends_value(line, previous, label)
        if ends:
            labels.append(label)
    return labels


def _ends_value(line: str, previous: _Label | None, label: _Label) -> bool:
    """Return whether a value ends where this label begins: otherwise, the label is a part of a longer word."""
    before = line[label.begin - 1 : label.begin]
    if not before or not _WORD_END.match(before):
        return before != " " or previous is None or not _is_rest_of_label(line, previous, label)
    if previous is None or label.begin - previous.end > _MAX_GLUED:
        return False
    value = _strip_value(previous.name, line[previous.end : label.begin], has_comma=False)
    return is_complete(previous.name, value)


def _is_rest_of_label(line: str, previous: _Label, label: _Label) -> bool:
    """Return whether the label is the end of an unknown one: "Preferred Replicas:" is not "Replicas:"."""
    begin = previous.end
    if previous.name in (TOPIC, TOPIC_ID):
        begin = _FIRST_WORD.match(line, begin).end()  # type: ignore[union-attr]
    before = line[max(begin, label.begin - 60) : label.begin]
    if _WORDS_OF_LABEL.search(before):
        return True
    return previous.name not in (TOPIC, TOPIC_ID) and _WORD_OF_LABEL.search(before) is not None


def _ends_configs(line: str, begin: int, label: _Label, after: list[_Label]) -> bool:
    """Return whether configs end where this label begins: they may contain all characters, and words with a colon."""
    before = line[max(begin, label.begin - 2) : label.begin]
    if before[-1:] in ("\t", "\n") or (before.isspace() and (len(before) == 2 or line[begin : label.begin].isspace())):
        return True
    if not before:
        return True
    if label.name in (PARTITION_COUNT, REPLICATION_FACTOR, TOPIC_ID, DELETION):
        return before[-1:].isspace() or line[label.begin].isupper()
    if not after or after[0].begin - label.end > _MAX_GLUED:
        return False
    names = [item.name for item in after]
    if label.name == TOPIC:
        begins_record = names[0] == PARTITION or PARTITION_COUNT in names[: 1 + (names[0] == TOPIC_ID)]
    else:
        begins_record = label.name == PARTITION and names[0] == LEADER
    return begins_record and is_complete(
        label.name, _strip_value(label.name, line[label.end : after[0].begin], has_comma=True)
    )


class _Balance:
    """Counts braces and quotes, going through a line once."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._begin = self._position = -1
        self._depth = self._quotes = 0

    def is_even(self, begin: int, end: int) -> bool:
        """Return whether all braces and quotes of the text between are closed. Ends must ascend."""
        if begin != self._begin:
            self._begin = self._position = begin
            self._depth = self._quotes = 0
        line, at = self._line, self._position
        self._depth += line.count("{", at, end) - line.count("}", at, end)
        self._quotes += line.count('"', at, end)
        self._position = end
        return self._depth == 0 and self._quotes % 2 == 0


def is_complete(name: str, value: str) -> bool:
    """Return whether a value is one that Kafka prints for this label."""
    return _COMPLETE.get(name, _IS_LIST).fullmatch(value) is not None


def _build_field(name: str, raw: str, has_comma: bool, is_followed: bool) -> Field:
    begin, end = _find_unknown(name, raw)
    value = _strip_value(name, raw[:begin], has_comma and is_followed, is_followed)
    if not is_followed and name not in _FREE and not is_complete(name, value):
        value = _strip_value(name, _NOTE.sub("", value), has_comma=False)
    return Field(name, value, " ".join(raw[begin:end].rstrip(": ").split()))


def _strip_value(name: str, raw: str, has_comma: bool, is_followed: bool = True) -> str:
    if name == CONFIGS:
        value = raw.strip().rstrip("|│┃").rstrip()
        if value.endswith('"') and value.count('"') % 2:  # a spreadsheet quotes a cell that has commas
            value = value[:-1]
        return value.rstrip(",;|`").rstrip() if is_followed else value
    value = raw.strip(AROUND)
    if value[:1] == "<":  # a template: a reason should show it as it is
        return raw.strip()
    if has_comma:
        value = value.removesuffix(",").rstrip(AROUND)
    if len(value) > 1 and value[-1] == (_BRACKETS if name not in _COMPLETE else _SQUARE).get(value[0]):
        value = value[1:-1].strip()
    return value


def _find_unknown(name: str, raw: str) -> tuple[int, int]:
    """Return begin and end of the first unknown label in what follows a label."""
    if ":" not in raw:
        return len(raw), len(raw)
    if name == CONFIGS:
        balance = _Balance(raw)
        outside = (match for match in _AFTER_CONFIGS.finditer(raw) if balance.is_even(0, match.start()))
        match = next(outside, None)
    else:
        # The first word of a topic is its name, even if it begins with a capital letter and a colon follows.
        begin = _FIRST_WORD.match(raw).end() if name == TOPIC else 0  # type: ignore[union-attr]
        match = _UNKNOWN.search(raw, begin)
    return match.span() if match is not None else (len(raw), len(raw))


def looks_like_data(line: str) -> bool:
    """Return whether a line is data of describe rather than prose: two of its labels with values, or a cut table."""
    if ":" not in line and "：" not in line:
        return False
    if len(_LABEL_END.findall(line)) < 2 and "\n" not in line and not _UNTIDY.search(line):
        return False
    return has_data(split_line(tidy(line))[1])


def has_data(fields: list[Field]) -> bool:
    """Return whether the fields of a line are data of describe."""
    if len(fields) < 2:
        return False
    if len({item.label for item in fields if _is_plausible(item)}) > 1:
        return True
    names = {item.label for item in fields}
    if len(names) < 2:
        return False
    if len(names - _WORDS) > 1:
        return True
    return TOPIC in names and (not names.isdisjoint(_NO_WORDS) or " " not in fields[0].value)


def _is_plausible(item: Field) -> bool:
    """Return whether a value looks like one of its label, perhaps damaged."""
    if not item.value or item.label == TOPIC or is_complete(item.label, item.value):
        return bool(item.value)
    first, *_ = *item.value.split(None, 1), ""
    return is_complete(item.label, first.rstrip(".,;"))


def _strip_wrapping(line: str, prefix: str) -> str:
    """Return a line without the end of what its beginning opens: quotes, backticks, bars, bold text."""
    if not prefix or prefix.isspace() or not any(mark in prefix for mark in "`\"'“‘|*"):
        return line
    line = line.rstrip()
    if any(mark in prefix for mark in "\"'“‘"):
        end = _STRING_END.search(line, max(0, len(line) - 40))
        line = line[: end.start()] if end else line
    for mark in ("`", "|", "**"):
        if mark in prefix:
            line = line.rstrip(mark[0]) if line.endswith(mark) else line
    return line.removesuffix("*/") if "/*" in prefix else line


def is_known_prefix(prefix: str) -> bool:
    """Return whether the text before the first label is of those that tools and people put before a line."""
    if not prefix or prefix.isspace():
        return True
    if len(prefix) > _MAX_PREFIX:
        return not prefix.strip(AROUND)
    if _LOG_PREFIX.fullmatch(prefix):
        return True
    words = prefix.split()
    for i, word in enumerate(words):
        if _WORD_BEFORE.fullmatch(word):
            continue
        if not (words[i + 1 : i + 2] == ["|"] and _NAME_BEFORE.fullmatch(word)):
            return False
    return True
