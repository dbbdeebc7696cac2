"""Reads a source file as text, however it was saved, and names lines that say nothing about a cluster."""

import codecs
import gzip
import re
import zlib
from pathlib import Path

from pipelines.errors import SourceError

_GZIP = b"\x1f\x8b"
# PowerShell's `>` writes UTF-16 with a byte order mark. UTF-32 first: its mark begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CARRIAGE_RETURNS = re.compile("\r+\n")

BLANK = "blank line"
ELLIPSIS = "ellipsis"
PROMPT = "prompt"
LOG_LINE = "log line"
PROSE = "prose"
TOOL_MESSAGE = "tool message"

_ELLIPSIS = re.compile(r"[\s>|\[(]*(?:\.{2,}|…|⋮|\.\s\.\s\.)[\s\])]*")
_TOOL = (
    r"(?:[\w./\\~-]*(?:kafka-[a-z-]+|zookeeper-shell|zkCli|connect-[a-z-]+)(?:\.sh|\.bat|\.cmd)?"
    r"|(?:docker|kubectl|oc|podman|ssh|sudo|cat|grep|egrep|awk|sed|head|tail|less|more|watch|exit|export|cd|ls|echo)\b)"
)
_PROMPT = re.compile(
    r"[\s>]*(?:"
    r"\$(?:\s|$)"  # $ kafka-topics ...
    r"|\[[^\]\s]+@[^\]]*\]\s*[$#%]"  # [user@host ~]$
    r"|[\w.-]+@[\w.-]+[:\s][^$#%]*[$#%](?:\s|$)"  # user@host:~$
    r"|(?:ba|z|c|k)?sh-?[\d.]*[$#%](?:\s|$)"  # sh-4.2$
    r"|PS\s[^>]*>|[A-Za-z]:\\[^>]*>"  # PowerShell, cmd
    r"|[#%>❯➜]\s*" + _TOOL + r"|" + _TOOL + r"(?:\s|$)"
    r"|\\?\s*--(?:bootstrap-server|zookeeper|describe|topic|broker-list|command-config)\b"  # continued command
    r")"
)
_LOG_LINE = re.compile(
    r"\s*(?:"
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


def read_text(path: str | Path) -> str:
    """Read a file as text: UTF-8, or what its byte order mark says; gzip is unzipped; lines end with a newline.

    Bytes that cannot be decoded become U+FFFD, so one bad byte costs one line, not the file. Raises: SourceError.
    """
    name = str(path)
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise SourceError(name, "no such file", "Check the path.") from None
    except IsADirectoryError:
        raise SourceError(name, "is a folder, not a file", "Name one file, or the folder as a source.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(name, f"cannot be read ({reason})", "Check the path and its permissions.") from None
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(name, f"is broken gzip ({error})", "Copy or compress the file again.") from None
    mark, encoding = next(((m, e) for m, e in _BYTE_ORDER_MARKS if data.startswith(m)), (b"", "utf-8"))
    # No text format that we read has a NUL byte; every executable, archive and raw log segment has.
    if not mark and b"\0" in data:
        remedy = "Pass the text that Kafka's tools print, not Kafka's own files."
        raise SourceError(name, "is binary, not text", remedy)
    text = _CARRIAGE_RETURNS.sub("\n", data[len(mark) :].decode(encoding, errors="replace"))
    if not text or text.isspace():
        raise SourceError(name, "the file is empty", "Save the tool's output again, or leave the file out.")
    return text


def split_lines(text: str) -> list[str]:
    """Return the lines of the text without their ends; item i is physical line i + 1.

    Not `str.splitlines`: it also cuts at form feeds and Unicode separators, and line numbers would drift.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def classify_noise(line: str) -> str:
    """Return why a line that is no data of its format is ignored: `prose` when nothing more is known."""
    if not line or line.isspace():
        return BLANK
    if _ELLIPSIS.fullmatch(line):
        return ELLIPSIS
    if _LOG_LINE.match(line):
        return LOG_LINE
    if _PROMPT.match(line):
        return PROMPT
    return PROSE
