"""What tools and people put before a line of a tool's output: comment marks, quotes, host names, times."""

import re

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


def strip_wrapping(line: str, prefix: str) -> str:
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
