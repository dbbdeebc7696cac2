"""Names lines that say nothing about a cluster: what people save along with a tool's output."""

import re

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
