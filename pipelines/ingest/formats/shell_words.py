"""Finds commands of Kafka's tools, and those that show a file, in lines of a shell session; splits them into words."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipelines.ingest.text import MAX_LOOK

_MAX_COMMAND = 20_000  # characters of a command over several lines

_TOOL = re.compile(
    r"(?<![\w.-])(?:[\w.~$()%{}:-]*[/\\])*"
    r"(kafka-[a-z]++(?:-[a-z]++)*+(?=\.sh\b|\.bat\b|\s|$)|(?:kafka|k)cat(?=(?:\.exe|:[\w.-]++)?(?:\s|$))"
    r"|rpk(?=\s++(?:-[^\n]{0,300}?\s)?(?:topic|cluster|redpanda)\b))"
    r"(?:\.sh|\.bat|\.exe|:[\w.-]++(?=\s|$))?(?![\w/.-])"  # an image of a container has a tag
)
_WRAPPERS = (
    r"sudo|docker|docker-compose|kubectl|oc|podman|nerdctl|crictl|ssh|watch|time|timeout|nohup|env|exec|bash|sh|xargs"
    r"|parallel|pssh|pdsh|dsh|clush|ansible|salt|su|doas|runuser|nsenter|chroot|stdbuf|flock|unbuffer"
    r"|Every|for \w++ in|while (?:true|:|read|sleep|\[)|if \[|[A-Z_]++=\S*+|\w++=\$\(|\||&&|;"
)
# What stands before a command: marks of quotes and lists, a prompt, commands that run it. Or nothing.
_BEFORE = re.compile(
    rf"[\s>|+*`#\"'-]*+(?:[^\n]{{0,300}}[$#%>❯➜»]\s*+|\\\s*+)?[\s`\"'({{]*+(?:do\s++|(?:{_WRAPPERS})(?![\w-])[^\n]{{0,500}})?+"
)
# Commands that show the lines of a file, all or some.
VIEWERS = frozenset(
    {
        *("awk", "bat", "cat", "column", "egrep", "fgrep", "findstr", "gawk", "gc", "Get-Content", "grep"),
        *("head", "jq", "less", "mawk", "more", "rg", "sed", "Select-String", "sls", "sort", "tac", "tail", "type"),
        *("zcat", "zgrep", "zless"),
    }
)
_SHELL_PROMPT = (
    r"\$|[❯➜]|\[[^\]\n]{1,100}\]\s?[$#%]|[\w.-]++@[^\s$#%>]{1,100}[ ~]{0,2}[$#%>]|(?:ba|z|c|k)?sh-?[0-9.]*+[$#%]"
    r"|PS [^>\n]{0,200}>|[A-Za-z]:\\[^>\n]{0,200}>|[/~][^\s$#%]{0,100} ?[$#]"
)
_VIEW = rf"(?:sudo\s++)?(?:[\w.~-]*+/)*+(?:{'|'.join(map(re.escape, sorted(VIEWERS)))})\s++\S"
# Without a prompt, or behind a mark of a comment or a quote, only a line that names a file is a command.
_VIEWS = re.compile(
    rf"\s*+(?:(?:{_SHELL_PROMPT})\s*+{_VIEW}|[#%>`»]?\s*+{_VIEW}[^\n]{{0,500}}?\.(?:csv|gz|json|log|out|txt)\b)"
)
# Any other command that runs it: it has an option, and `--` or a quote stands in front of the tool.
_RUN_BY = re.compile(
    r"[\s>|#$%]*+[a-z][\w./-]*+\s(?=[^\n]{0,300}?(?<=\s)-)(?:[^\n.,;:!?]|[.,;:!?](?!\s)){0,300}?"
    r"(?:(?<=\s)-- [\"']?|(?<=\s)[\"']|=[\"'])"
)
# Whatever runs it, behind a prompt, or in front of a quote that ends with the line.
_PROMPTED = re.compile(rf"[\s>|]*+(?:{_SHELL_PROMPT})\s[^\n]{{0,500}}")
_QUOTED = re.compile(r"[\s>|]*+[a-z][\w./-]*+(?:\s[\w./-]++)*+\s([\"'])")
_INTRODUCES = re.compile(r":[\s`*_]*+$")  # a sentence before the output of the command that it names
_LISTS = re.compile(r"[-–—]{1,2}describe\b|\s-[A-Za-z]*L")
_CONTINUED = re.compile(r"[\\^`]\s*+$")
_FLAGS = (
    r"bootstrap-servers?|zookeeper|describe|topic(?:-id|s-with-overrides)?|broker-list|command-config"
    r"|under-replicated-partitions|unavailable-partitions|under-min-isr-partitions|at-min-isr-partitions"
    r"|exclude-internal|topic-list"
)
_REST = re.compile(rf"[\s>|]*+(?:\\\s*+)?(?:--|–|—)(?:{_FLAGS})(?:[\s=]|$)|\s*+\| ?(?:grep|egrep|head|tail|awk|sed)\s")
# The rest of a command that the width of a terminal has cut, perhaps inside a word.
_CUT_REST = re.compile(rf"[\s>|]*+(?:[\w.:,/@=-]{{1,80}}\s++){{1,2}}(?:--|–|—)(?:{_FLAGS})(?:[\s=]|$)")
# A command under another name, behind a prompt.
_ALIAS = re.compile(rf"\s*+(?:{_SHELL_PROMPT})\s*+[\w./~-]++\s[^\n]{{0,300}}?--des[a-z]*+(?:\s|$)")
# Calls of Kafka's clients that name topics.
_CALL = re.compile(
    r"[\s>|`]*+(?:jshell> ?|In \[[0-9]{1,5}\]: ?|scala> ?)?[\w.\s=(]{0,200}?"
    r"describe_?[tT]opics\(\s*+(?:topics\s*+=\s*+)?(?:\[|\(|\{|[A-Za-z]+(?:\.[a-zA-Z]+)?\()\s*+"
    r"((?:[\"'][\w.-]{1,249}[\"'](?:\s*+,\s*+)?)++)"
)
_LOOP = re.compile(r"\bfor\s++(\w++)\s++in\s++([\w.\s-]{1,2000}?)\s*+;\s*+do\b")
_WORD = re.compile(r"\|\||&&|[|;]|[<>]++&?|(?:[^\s|;<>\"']++|\"[^\"]*+\"|'[^']*+'|[\"'])++")
_REPEATS = frozenset({"do", "done", "xargs"})
_QUOTE_MARKS = frozenset("\"'")
_VALUE_BEGINS = re.compile(r"=[\"']")
_QUOTES = str.maketrans("", "", "\"'`")


class Command(NamedTuple):
    """A command of a tool, as its words, and the words of each command that its output is piped into."""

    tool: str  # without folder and suffix; empty = only flags of a command are shown; or what shows a file: cat, grep
    words: Sequence[str]
    pipes: Sequence[Sequence[str]]
    is_repeated: bool = False  # in a loop, perhaps over all topics


def begins_command(line: str) -> bool:
    """Return whether a line is a command of a tool or one that shows a file, or a sentence that ends by naming one."""
    line = line[:MAX_LOOK]
    if _VIEWS.match(line) or ("--des" in line and _ALIAS.match(line)) or ("escribe" in line and _CALL.match(line)):
        return True
    if not any(mark in line for mark in ("kafka-", "kcat", "kafkacat", "rpk ")):
        return False
    tool = _TOOL.search(line)
    if tool is None:
        return False
    if _BEFORE.fullmatch(line, 0, tool.start()) or _RUN_BY.fullmatch(line, 0, tool.start()):
        return tool.end() < len(line.rstrip(" `:*"))  # the name of a tool alone is no command
    if _LISTS.search(line, tool.end()) is None:
        return False
    quoted = _QUOTED.fullmatch(line, 0, tool.start())
    is_run = _PROMPTED.fullmatch(line, 0, tool.start()) or (quoted is not None and line.rstrip().endswith(quoted[1]))
    return bool(is_run) or _INTRODUCES.search(line, max(0, len(line) - 20)) is not None


def is_rest(line: str) -> bool:
    """Return whether a line is the rest of a command that begins on a line above."""
    return _REST.match(line[:MAX_LOOK]) is not None


def is_continued(line: str) -> bool:
    """Return whether a command goes on in the next line."""
    return _CONTINUED.search(line, max(0, len(line) - 20)) is not None


def is_cut_rest(line: str) -> bool:
    """Return whether a line may be the rest of a command that the width of a terminal has cut inside a word."""
    return "--" in line and _CUT_REST.match(line[:MAX_LOOK]) is not None


def parse_commands(text: str) -> Iterator[Command]:
    """Yield the commands of tools in the text of a command, whose lines are joined by blanks."""
    text = text[:_MAX_COMMAND]
    if call := _CALL.match(text):
        names = re.findall(r"[\w.-]+", call[1])
        yield Command("kafka-topics", ["--describe", "--topic", ",".join(names)], [])
        return
    if loop := _LOOP.search(text):  # over topics that are named
        names = loop[2].split()
        text = re.sub(rf"\$\{{?{loop[1]}\b\}}?", ",".join(names), text[loop.end() :])
    words = [match[0] for match in _WORD.finditer(text)]
    inner = [word for word in words if " " in word and not _QUOTE_MARKS.isdisjoint(word) and _TOOL.search(word)]
    if inner:  # bash -c "kafka-topics --describe", --command="kafka-topics --describe"
        text = text.replace(inner[0], _VALUE_BEGINS.sub("= ", inner[0]).translate(_QUOTES))
        words = [match[0] for match in _WORD.finditer(text)]
    yield from _split_pipes([word for word in words if word != "\\"])


def _split_pipes(words: Sequence[str]) -> Iterator[Command]:
    groups: list[list[str]] = [[]]
    pipes: list[bool] = [False]  # whether the group reads the output of the one before it
    for word in words:
        if word in ("|", "||", "&&", ";"):
            groups.append([])
            pipes.append(word == "|")
        else:
            groups[-1].append(word.translate(_QUOTES))
    for i, group in enumerate(groups):
        tool, rest = _find_tool(group)
        if tool is None and not pipes[i]:
            tool, rest = _find_viewer(group)
        if tool is None and not (i == 0 and any(word.startswith(("--", "–", "—")) for word in group)):
            continue
        after = next((j for j in range(i + 1, len(groups)) if not pipes[j]), len(groups))
        yield Command(tool or "", rest, groups[i + 1 : after], not _REPEATS.isdisjoint(words))


def _find_tool(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    for i, word in enumerate(words):
        if tool := _TOOL.fullmatch(word) or (_TOOL.match(" ".join(words[i:])) if word == "rpk" else None):
            return tool[1], words[i + 1 :]
    return None, words


def _find_viewer(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    for i, word in enumerate(words[:-1]):
        if (name := word.rpartition("/")[2]) in VIEWERS:
            return name, words[i + 1 :]
    return None, words
