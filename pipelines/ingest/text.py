"""Reads a source file as text, however it was saved, and names lines that say nothing about a cluster."""

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from io import BufferedReader
from pathlib import Path
from typing import Any

from pipelines.errors import SourceError
from udfs.wording import format_bytes

_GZIP = b"\x1f\x8b"
# PowerShell's `>` writes UTF-16 with a byte order mark. UTF-32 first: its mark begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE_ENDS = re.compile("\r++\n?")  # of Windows, of terminals in raw mode, of old Macs
_TERMINAL_CODES = re.compile(r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b\n]*+(?:\x07|\x1b\\))")  # colours, titles
TYPOGRAPHIC_QUOTES = frozenset("“”„")
_STRAIGHT_QUOTES = {ord(quote): '"' for quote in TYPOGRAPHIC_QUOTES}
# A line of text above this many characters is quarantined. A JSON document may be one line of any length.
MAX_LINE = 1_000_000
MAX_LOOK = 2_000  # characters of a line that show what it is
MAX_FILE_BYTES = 2**31 - 1  # a column's text in Arrow has at most 2 GB

# A line of Docker's log of a container, in which each line of output is a JSON document.
_CONTAINER_LOG = re.compile(
    r'\s*+\{\s*+"log"\s*+:\s*+(?P<text>"(?:[^"\\\n]++|\\.)*+")\s*+,\s*+"stream"\s*+:\s*+"[a-z]++'
)
_FIRST_LINES = 20  # of which one shows that a file is such a log, though another is damaged

_BLOCK = 1 << 20  # bytes
_LOOK = 4_096  # bytes that show the encoding

BLANK = "blank line"
ELLIPSIS = "ellipsis"
PROMPT = "prompt"
LOG_LINE = "log line"
PROSE = "prose"
TOOL_MESSAGE = "tool message"
STATE_MESSAGE = "message on the state of partitions"
MARKUP = "markup"
DIFF_HEADER = "header of a diff"

_ELLIPSIS = re.compile(r"[\s>|\[(]*(?:\.{2,}|…|⋮|\.\s\.\s\.)[\s\])]*")
# What Markdown, Jira and HTML put around pasted text, and rules of dashes.
_MARKUP = re.compile(r"\s*+(?:`{3,}+\w*+|~{3,}+\w*+|\{[\w:|=.# -]++\}|</?[a-zA-Z][^<>]*+>|[-=*_#+]{3,}+)\s*+")
_TOOL = (
    r"(?:[\w./\\~-]*(?:kafka-[a-z-]+|zookeeper-shell|zkCli|connect-[a-z-]+)(?:\.sh|\.bat|\.cmd)?"
    r"|(?:docker|kubectl|oc|podman|ssh|sudo|cat|grep|egrep|awk|sed|head|tail|less|more|watch|exit|export|cd|ls|echo)\b)"
)
_PROMPT = re.compile(
    r"[\s>]*+(?:"
    r"\$(?:\s|$)"  # $ kafka-topics ...
    r"|\[[^\]\s@]++@[^\]]*+\]\s*+[$#%]"  # [user@host ~]$
    r"|[\w.-]++@[\w.-]++[:\s][^$#%]*+[$#%](?:\s|$)"  # user@host:~$
    r"|(?:ba|z|c|k)?sh-?[\d.]*[$#%](?:\s|$)"  # sh-4.2$
    r"|PS\s[^>]*+>|[A-Za-z]:\\[^>]*+>"  # PowerShell, cmd
    r"|[#%>❯➜]\s*" + _TOOL + r"|" + _TOOL + r"(?:\s|$)"
    r"|\\?+\s*+--(?:bootstrap-server|zookeeper|describe|topic|broker-list|command-config)\b"  # continued command
    r")"
)
_LOG_LINE = re.compile(
    r"\s*+(?:"
    r"\[?\d{4}-\d\d-\d\d[T ,]"
    r"|\[?\d\d/\d\d/\d\d(?:\d\d)? \d"
    r"|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b[\s:\]]"
    r"|\[(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\]"
    r"|(?:SLF4J|log4j)\s*:|(?:log4j|SLF4J)\b"
    r"|(?:OpenJDK|Java HotSpot)\b.*\bwarning:|Picked up _?JAVA"
    r"|(?:Exception|Caused by|java\.|org\.apache\.|kafka\.|scala\.)\S*.*"
    r"|at [\w.$]+\(.*\)|\.\.\. \d+ more"
    r"|Error while executing"
    r")"
)

# What kubectl and ssh print beside the output of a command.
_TOOL_MESSAGE = re.compile(
    r"\s*+(?:Defaulted container \"|Defaulting container name to |Use 'kubectl |If you don't see a command prompt"
    r"|Unable to use a TTY|pod \"[^\"\n]++\" deleted|Warning: Permanently added '"
    r"|(?:Shared c|C)onnection to \S++ closed\.)"
)
_RANGE = r"[0-9]++(?:,[0-9]++)?+"
CHANGED_LINES = rf"{_RANGE}[acd]{_RANGE}\s*+$"  # of a plain diff, as in 3,4c3
_DIFF_HEADER = re.compile(
    r"(?:---|\+\+\+|\*\*\*) \S++(?:\s++[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]++(?: ?[+-][0-9:]++)?)?\s*+$"
    rf"|@@ -[0-9]|diff (?:--git|-[a-zA-Z]) "
    rf"|index [0-9a-f]{{7,40}}\.\.[0-9a-f]{{7,40}}\b|{CHANGED_LINES}|\\ No newline at end of file"
)

# A reassignment, which a terminal or a mail may have broken into lines, also within names and numbers.
_REASSIGNMENT = re.compile(
    r'(?:^[ \t]*+>[ \t>]*+)?(?P<document>\{"version": ?1, ?"partitions": ?\[(?:[^{}]++|\{[^{}]*+\})*+\})', re.M
)
_LINE_BREAK = re.compile(r"\n[ \t>]*+")
_MAX_WRAPPED = 10_000_000  # characters of a text that may be wrapped


def read_text(path: str | Path, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Read a file as text: UTF-8, or what its byte order mark says; gzip is unzipped; lines end with a newline.

    Bytes that cannot be decoded become U+FFFD, so one bad byte costs one line, not the file. Colours of terminals are
    removed. max_bytes: of the text as it is after unzipping. Raises: SourceError.
    """
    name = str(path)
    data = _read_bytes(name, max_bytes)
    mark, encoding = next(((m, e) for m, e in _BYTE_ORDER_MARKS if data.startswith(m)), (b"", _find_encoding(data)))
    if not mark and encoding == "utf-8" and (position := data.find(b"\0")) >= 0:
        remedy = "Pass the text that Kafka's tools print, not Kafka's own files."
        line = data.count(b"\n", 0, position) + 1
        raise SourceError(name, f"is binary, not text: line {line:,} has a NUL byte", remedy)
    text = str(memoryview(data)[len(mark) :], encoding, errors="replace")
    if "\r" in text:
        text = _LINE_ENDS.sub("\n", text)
    if "\x1b" in text:
        text = _TERMINAL_CODES.sub("", text)
    if not text.isascii() and '"' not in text:  # a word processor has made all quotes typographic
        text = text.translate(_STRAIGHT_QUOTES)
    if '"log"' in text[:_LOOK] and any(map(_CONTAINER_LOG.match, text.split("\n", _FIRST_LINES)[:_FIRST_LINES])):
        text = "\n".join(map(_unwrap_log_line, text.split("\n")))
    if len(text) <= _MAX_WRAPPED and '"partitions"' in text:
        text = _REASSIGNMENT.sub(_join_wrapped, text)
    if not text or text.isspace():
        raise SourceError(name, "the file is empty", "Save the tool's output again, or leave the file out.")
    return text


def _join_wrapped(match: re.Match[str]) -> str:
    """Return a reassignment on one line if only line breaks and marks of quotes keep it from being JSON.

    Empty lines behind it keep the numbers of the lines below.
    """
    text = match["document"]
    for candidate in (text, _LINE_BREAK.sub("", text)):
        try:
            json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        return candidate + "\n" * (text.count("\n") - candidate.count("\n"))
    return match[0]


def _unwrap_log_line(line: str) -> str:
    """Return what a container wrote of a line of Docker's log; other lines stay as they are."""
    match = _CONTAINER_LOG.match(line)
    if match is None:
        return line
    try:
        text = str(json.loads(match["text"])).rstrip("\n").replace("\n", " ")
        text.encode()  # JSON can spell half of a surrogate pair, which is no text
    except ValueError:
        return line
    return text


def _find_encoding(data: bytearray) -> str:
    """Return the encoding of text without a byte order mark: UTF-16 if every other byte of its beginning is zero."""
    begin = bytes(data[: min(len(data), _LOOK) // 2 * 2])
    for encoding, zeros in (("utf-16-le", begin[1::2]), ("utf-16-be", begin[::2])):
        others = begin[::2] if encoding == "utf-16-le" else begin[1::2]
        if len(begin) >= 16 and len(data) % 2 == 0 and not any(zeros) and all(others):
            return encoding
    return "utf-8"


def _read_bytes(name: str, max_bytes: int) -> bytearray:
    """Return the unzipped bytes of a file, and never hold more than `max_bytes` of them, whatever the file is."""
    try:
        with Path(name).open("rb") as file:
            is_gzip = has_gzip(file)
            try:
                data = read_unzipped(file, max_bytes + 1, may_be_binary=False)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise SourceError(name, f"is broken gzip ({error})", "Copy or compress the file again.") from None
    except FileNotFoundError:
        raise SourceError(name, "no such file", "Check the path.") from None
    except IsADirectoryError:
        raise SourceError(name, "is a folder, not a file", "Name one file, or the folder as a source.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(name, f"cannot be read ({reason})", "Check the path and its permissions.") from None
    if len(data) > max_bytes:
        unzipped = " after unzipping" if is_gzip else ""
        problem = f"has more than {format_bytes(max_bytes)}{unzipped}, the limit for one file"
        raise SourceError(name, problem, "Split it by topic, or raise ingest.max_file_bytes.")
    return data


def has_gzip(file: BufferedReader) -> bool:
    """Return whether a file is compressed with gzip, without moving in it."""
    return file.peek(2)[:2] == _GZIP


def read_unzipped(file: BufferedReader, most: int, *, may_be_binary: bool = True) -> bytearray:
    """Return at most so many bytes of a file after unzipping. Raises: what gzip and the file raise.

    may_be_binary: False = read no more than the beginning of a file that is no text.
    """
    data = bytearray()
    with gzip.open(file) if has_gzip(file) else nullcontext(file) as stream:
        # Blocks, because `read` reserves the memory of all that it may return.
        while block := stream.read(min(_BLOCK, most - len(data))):
            data += block
            if len(data) == len(block) and not may_be_binary and _is_binary(data):
                break
    return data


def _is_binary(beginning: bytearray) -> bool:
    """Return whether data is no text: no text format that we read has a NUL byte, every archive and log segment has."""
    is_marked = any(beginning.startswith(mark) for mark, _ in _BYTE_ORDER_MARKS)
    return not is_marked and b"\0" in beginning and _find_encoding(beginning) == "utf-8"


def find_line_end(text: str, position: int) -> int:
    """Return where the line at this position ends: the position of its newline, or of the text's end."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def split_lines(text: str) -> list[str]:
    """Return the lines of the text without their ends; item i is physical line i + 1.

    Not `str.splitlines`: it also cuts at form feeds and Unicode separators, and line numbers would drift.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


_NOISE = (
    *((_ELLIPSIS.fullmatch, ELLIPSIS), (_MARKUP.fullmatch, MARKUP), (_LOG_LINE.match, LOG_LINE)),
    *((_PROMPT.match, PROMPT), (_TOOL_MESSAGE.match, TOOL_MESSAGE), (_DIFF_HEADER.match, DIFF_HEADER)),
)


def classify_noise(line: str) -> str:
    """Return why a line that is no data of its format is ignored: `prose` when nothing more is known."""
    if not line or line.isspace():
        return BLANK
    for matches, reason in _NOISE:
        if matches(line):
            return reason
    return PROSE


def find_marked(marks: str, test: Callable[[str], object]) -> Callable[[str], bool]:
    """Return a test that looks only at lines with one of these marks (a regular expression), which is found faster."""
    has_mark = re.compile(marks).search
    return lambda line: has_mark(line) is not None and bool(test(line))


def begins_with(*patterns: re.Pattern[str], lines: int) -> Callable[[Sequence[str]], bool]:
    """Return a test of a file's filled lines: each pattern is one of the first lines."""
    return lambda filled: all(any(map(pattern.fullmatch, filled[:lines])) for pattern in patterns)


PROBLEM = "a line that is not read mentions a problem"
OMISSION = "lines were left out here: paste the whole output"
CHANGE = "a line below the listing shows a later change of the cluster: list the partitions again"
MENTIONS = (PROBLEM, CHANGE, OMISSION)

_UNREAD = (PROSE, LOG_LINE, TOOL_MESSAGE, STATE_MESSAGE)
_PROBLEM = re.compile(
    r"\b(?:errors?|failed|failure|fatal|unavailable|not available|unreachable|timed ?out|time ?out(?!=)"
    r"|connection re(?:fused|set)|could not be established"
    r"|fenced|fencing|crash\w*+|under-?replicated\w*+(?=[^\n]*[0-9])"
    r"|exit(?:ed)?+ (?:with )?+(?:code|status) [1-9])\b"
    r"|(?<![a-z])offline(?![a-z]*+\W{1,3}\[\])(?=[^\n]*[0-9])|exception\b"
    r"|\bleader(?:id)?+[\"']?\W{1,3}(?:none\b|-1\b)",
    re.I,
)
_ZERO = re.compile(r"[\s=:]0(?:\.0+)?[\s;,]*\Z")  # a counter that is zero mentions no problem
_CHANGE = re.compile(
    r"\bshrinking ISR\b|\bISR (?:updated|shrunk|expanded)\b|\bexpanding ISR\b|\bshut(?:ting)?[ _]?down\b"
    r"|\bdeleted brokers?: ?[0-9]"
    r"|\bpartition reassignments? for\b|\breassignment of partition \S++ (?:is completed|completed successfully)"
    r"|\b(?:broker|node|kafka)[ -]?[0-9]++ (?:is|was|went|has|just) (?:now )?"
    r"(?:down|stopped|gone|restarted|removed)\b"
    r"|\bcompleted updating config\b|\bcreated topic\b"
    r"|\bsuccessfully (?:completed leader election|started preferred replica election)\b"
    r"|\bstate from \w+ to Offline(?:Partition|Replica)\b|\bis OfflinePartition\b"
    r"|\bstarts at leader epoch\b|\bpartition change for\b"
    r"|\btransition from STARTED to\b|\bterminating process due to signal\b|\bexited \([0-9]",
    re.I,
)
# Commands that stop brokers or change topics.
_CHANGE_COMMAND = re.compile(
    r"\b(?:docker|podman|nerdctl)(?:[- ]compose)?+ (?:container )?(?:stop|ki[l]{2}|rm|restart|pause|down)\b"
    r"|\bsystemctl (?:[-\w]++ )*?(?:stop|restart|ki[l]{2})\b|\bservice \S++ (?:stop|restart)\b|\bkafka-server-stop\b"
    r"|\bki[l]{2} -?[0-9]"
    r"|\b(?:kubectl|oc) (?:[-\w=]++ )*?(?:scale|delete|drain|rollout|cordon)\b"
    r"|\bpki[l]{2} .*kafka|\bbrew services (?:stop|restart)\b|\bkafka-cluster\S*+ unregister\b"
    r"|\brpk .*(?:decommission|maintenance enable)\b|\b(?:rmr|delete|deleteall) /(?:\S*?/)?brokers/"
    r"|(?:remove|add|demote)_broker\b.*\bdryrun=false\b|\brebalance\b.*\bdryrun=false\b"
    r"|\bkafka-(?:leader-election|preferred-replica-election)\b"
    r"|--execute\b|--alter\b|--delete\b|--create\b|--create-partitions\b"
)
# What people write where they cut a paste, as in <snip>, (output truncated), [... 40 more lines ...]; and the prompts
# of more and less, below which more would follow.
_OMISSION = re.compile(
    r"--More--(?:\([0-9]{1,3}%\))?|:|[\W_]{0,20}(?:snip(?:ped)?"
    r"|(?:the )?(?:output|list|rest)?[ ]?(?:is |was )?(?:truncated|omitted|shortened|cut(?: off)?)"
    r"|(?:and |there are |[0-9]++ )*+(?:more|other) (?:topics|partitions|lines|rows|brokers)"
    r"(?: (?:omitted|here|follow))?+)"
    r"[\W_]{0,20}",
    re.I,
)
_MIN_ISR = re.compile(r"(?<![a-z])min[._]insync[._]replicas\b[\"'`]?[^\w\n]{1,5}([0-9]{1,3})\b", re.I)


def find_mention(reason: str, raw: str) -> dict[str, Any]:
    """Return `warning`, and perhaps `until_listing`, for a record that is ignored for this reason; {} without any."""
    is_unread = reason in _UNREAD or reason.endswith(": not used")
    line = raw[:MAX_LOOK]
    if reason == ELLIPSIS or ((is_unread or reason == MARKUP) and _OMISSION.fullmatch(line.strip())):
        return {"warning": OMISSION}
    if not (is_unread or reason == PROMPT):
        return {}
    if _CHANGE.search(line) if is_unread else _CHANGE_COMMAND.search(line):
        return {"warning": CHANGE, "until_listing": True}
    if not is_unread or reason == STATE_MESSAGE:  # their reader knows the problems that they report
        return {}
    if (match := _MIN_ISR.search(line)) is not None:
        setting = f"if brokers set it for all topics, use --set topics.min_insync_replicas={match[1]}"
        return {"warning": f"a line that is not read sets min.insync.replicas to {match[1]}: {setting}"}
    if _PROBLEM.search(line) and not _ZERO.search(line):
        return {"warning": PROBLEM}
    return {}
