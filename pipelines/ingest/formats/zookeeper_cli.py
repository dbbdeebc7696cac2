"""The text of a `zkCli.sh` session: commands, the data they print, stat lines, log lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipelines.ingest.formats._lines import PROMPT, noise_reason
from pipelines.ingest.formats._values import Fact, as_object, ignored, loads, parse_each, unparsable
from pipelines.ingest.formats._znodes import WITHOUT_PLACEMENT, listing_facts, znode_facts
from pipelines.ingest.records import Format, Records
from pipelines.ingest.text import lines_of

STAT = "stat line"
NO_NODE = "node does not exist"

_ZK_PROMPT = re.compile(r"\s*\[zk: [^\]]*\]\s?")
_STAT = re.compile(
    r"\s*(?:[cmp]Zxid|[cm]time|cversion|dataVersion|aclVersion|ephemeralOwner|dataLength|numChildren)\s*=", re.I
)
_NO_NODE = re.compile(r"Node does not exist|NoNodeException|KeeperErrorCode = NoNode")
_WATCH = re.compile(r"\s*(?:WATCHER::|WatchedEvent\b)")
_COMMAND = re.compile(
    r"(?:.*?\bzkCli(?:\.sh|\.cmd)?\s.*?|.*?\bzookeeper-shell(?:\.sh|\.bat)?\s.*?|[$#%>]\s+)?"
    r"\b(?P<op>get|ls2|ls|stat|getEphemerals)\s+(?P<rest>.*/.*)"
)
# A bare path, perhaps dressed up by the script that printed it (`=== /brokers/ids/0 ===`).
_BARE_PATH = re.compile(r"[\s=#>*:-]*(?P<path>/[\w./-]+)[\s=#*:-]*")
_PATH_AND_DATA = re.compile(r"\s*(?P<path>/[\w./-]+)[\s=:]+(?P<data>\{.*)")
_LISTING = re.compile(r"\[[^\[\]{}\":]*\]?")
_SCALAR = re.compile(r"null|-?[0-9]+")
_SIGN = re.compile(r"\s*\[zk: |.*\bzkCli(?:\.sh|\.cmd)?\b|[cmp]Zxid = 0x|.*\bzookeeper-shell\b.*\b(?:get|ls) /")
_BROKERS_COMMAND = re.compile(
    r"[\s=#>*$:-]*(?:(?:get|ls2?|stat)\s+(?:-\w+\s+)*)?/\S*(?:brokers/(?:ids|topics)|config/topics|controller)(?:/\S*)?\b"
)


def _score(lines: Sequence[str]) -> float:
    if any(_SIGN.match(line) for line in lines):
        return 0.92
    commands = sum(1 for line in lines if len(line) < 1000 and _BROKERS_COMMAND.match(line))
    return 0.7 if commands and any(line.lstrip()[:1] in ("{", "[") or "{" in line for line in lines) else 0.0


def _frame(text: str, _path: str) -> Records:
    return Records.of(_rows(text))


def _rows(text: str) -> Iterator[tuple[int, str | None, str]]:
    """Records with the znode as context of the line that shows its data or its children."""
    pending: tuple[str, str] | None = None
    for number, line in enumerate(lines_of(text), 1):
        context = None
        rest = _without_prompt(line)
        command = _command(rest)
        if command is not None:
            pending = command
        elif _NO_NODE.search(line):
            pending = None
        elif pending is not None and _is_answer(rest, pending[0]):
            context = json.dumps({"op": pending[0], "path": pending[1]})
            if pending[0] == "get" or pending[0].startswith("ls"):
                pending = None
        yield number, context, line


def _without_prompt(line: str) -> str:
    prompt = _ZK_PROMPT.match(line)
    return (line[prompt.end() :] if prompt else line).strip()


def _command(line: str) -> tuple[str, str] | None:
    """(operation, path) of a line that is a command or a bare path."""
    if len(line) > 2000:
        return None
    bare = _BARE_PATH.fullmatch(line)
    if bare:
        return "get", bare["path"].rstrip("-") if line.rstrip().endswith(" ---") else bare["path"]
    match = _COMMAND.fullmatch(line)
    if match is None or line[:1] in ("{", "["):
        return None
    for word in match["rest"].split():
        path = word.strip("\"'")
        if path.startswith("/"):
            return match["op"], path
    return None


def _is_answer(line: str, operation: str) -> bool:
    if operation.startswith("ls"):
        return _LISTING.fullmatch(line) is not None
    if operation != "get":
        return False
    return line[:1] == "{" or _SCALAR.fullmatch(line) is not None


def _facts(context: str | None, raw: str) -> list[Fact]:
    line = _without_prompt(raw)
    if context is not None:
        around = as_object(loads(context, "the context"), "the context")
        if around["op"] == "get":
            return znode_facts(around["path"], None if line == "null" else line)
        return _listing(around["path"], line)
    if _STAT.match(raw):
        return ignored(STAT)
    if _NO_NODE.search(raw):
        return ignored(NO_NODE)
    if _WATCH.match(raw):
        return ignored("log line")
    if not line and raw.strip():
        return ignored(PROMPT)
    both = _PATH_AND_DATA.fullmatch(line)
    if both:
        return znode_facts(both["path"], both["data"])
    if line[:1] in ("{", "}", '"'):
        raise unparsable("a data line without the path of its znode")
    if _command(line) is not None or _ZK_PROMPT.match(raw):
        return ignored(PROMPT)
    if line == "null":
        return ignored(WITHOUT_PLACEMENT)
    if _LISTING.fullmatch(line):
        return ignored("listing")
    return ignored(noise_reason(raw))


def _listing(path: str, line: str) -> list[Fact]:
    if not line.endswith("]"):
        raise unparsable(f"the listing of {path} is cut off")
    return listing_facts(path, [name.strip() for name in line[1:-1].split(",") if name.strip()])


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(
    name="zookeeper-cli",
    title="text of a zkCli.sh session",
    score=_score,
    frame=_frame,
    parse=_parse,
)
