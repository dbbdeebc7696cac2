"""The text of a `zkCli.sh` session: commands, the data they print, stat lines, log lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from pipelines.ingest.formats.broker_registrations import Mentions, unregistered
from pipelines.ingest.formats.checked_values import (
    BadValueError,
    Fact,
    as_object,
    ignored,
    loads,
    parse_each,
    unparsable,
)
from pipelines.ingest.formats.noise_lines import PROMPT, noise_reason
from pipelines.ingest.formats.znodes import WITHOUT_PLACEMENT, listing_facts, znode_facts
from pipelines.ingest.records import IGNORED, Format, Records
from pipelines.ingest.text import lines_of

STAT = "stat line"
NO_NODE = "node does not exist"

_MISSING = "missing"  # an operation: the znode that was asked for is not there

_ZK_PROMPT = re.compile(r"\s*\[zk: [^\]]*\]\s?")
_STAT = re.compile(
    r"\s*(?:[cmp]Zxid|[cm]time|cversion|dataVersion|aclVersion|ephemeralOwner|dataLength|numChildren)\s*=", re.I
)
_NO_NODE = re.compile(r"Node does not exist|NoNodeException|KeeperErrorCode = NoNode")
_MISSING_PATH = re.compile(r"(?:Node does not exist:?|NoNode for)\s+(/\S*)")
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
    rows = list(_rows(text))
    mentions = Mentions()
    for _, context, line in rows:
        _note(mentions, context, line)
    return Records.of((number, _context(context, mentions, line), line) for number, context, line in rows)


def _rows(text: str) -> Iterator[tuple[int, tuple[str, str] | None, str]]:
    """(line number, (operation, path) of the znode whose data or children or absence it shows, line)."""
    pending: tuple[str, str] | None = None
    for number, line in enumerate(lines_of(text), 1):
        context: tuple[str, str] | None = None
        rest = _without_prompt(line)
        command = _command(rest)
        if command is not None:
            pending = command
        elif _NO_NODE.search(line):
            if named := _MISSING_PATH.search(line):
                context = _MISSING, named[1]
            elif pending is not None:
                context = _MISSING, pending[1]
            pending = None
        elif pending is not None and _is_answer(rest, pending[0]):
            context = pending
            if pending[0] == "get" or pending[0].startswith("ls"):
                pending = None
        yield number, context, line


def _note(mentions: Mentions, context: tuple[str, str] | None, line: str) -> None:
    both = _PATH_AND_DATA.fullmatch(line) if context is None else None
    with suppress(BadValueError):  # the record will be a fault
        if both:
            mentions.note(both["path"], znode_facts(both["path"], both["data"]))
        elif context is not None and context[0] != _MISSING:
            mentions.note(context[1], _answer(*context, line))


def _context(context: tuple[str, str] | None, mentions: Mentions, line: str) -> str | None:
    """The context as text, with the brokers that are not registered as the line shows it."""
    if context is None:
        return None
    operation, path = context
    absent: list[int] = []
    with suppress(BadValueError):  # the record will be a fault
        if operation == _MISSING:
            absent = mentions.missing(path)
        elif operation.startswith("ls"):
            absent = mentions.left_out(path, _answer(operation, path, line))
    return json.dumps({"op": operation, "path": path} | ({"absent": absent} if absent else {}))


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
        absent = unregistered(around.get("absent", []))
        if around["op"] == _MISSING:
            return absent or ignored(NO_NODE)
        found = _answer(around["op"], around["path"], raw)
        return [fact for fact in found if not absent or fact[0] != IGNORED] + absent
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


def _answer(operation: str, path: str, raw: str) -> list[Fact]:
    """Facts of what a command printed."""
    line = _without_prompt(raw)
    if operation == "get":
        return znode_facts(path, None if line == "null" else line)
    return _listing(path, line)


def _listing(path: str, line: str) -> list[Fact]:
    if not line.endswith("]"):
        raise unparsable(f"the listing of {path} is cut off")
    return listing_facts(path, [name.strip() for name in line[1:-1].split(",") if name.strip()])


def _parse(records: Records) -> pa.Table:
    return parse_each(records, _facts)


FORMAT = Format(name="zookeeper-cli", title="text of a zkCli.sh session", score=_score, frame=_frame, parse=_parse)
