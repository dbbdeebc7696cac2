"""The text of a `zkCli.sh` session: commands, the data they print, stat lines, log lines."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from pipelines.ingest.formats import zookeeper_json as znodes
from pipelines.ingest.formats.checked_values import BadValueError, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Records, Signature, ignore
from pipelines.ingest.text import LOG_LINE, PROMPT, classify_noise, split_lines

_STAT_LINE = "stat line"
_NO_SUCH_NODE = "node does not exist"
# Operations: the requested znode does not exist; a line of `ls -R`, which names the znodes below a path.
_MISSING, _LIST_TREE = "missing", "ls -R"


class _Request(NamedTuple):
    """What a line answers."""

    operation: str
    path: str  # of a znode
    children: list[str] | None = None  # of a znode that `ls -R` names


_ZK_PROMPT = re.compile(r"\s*\[zk: [^\]]*\]\s?")
_STAT = re.compile(
    r"\s*(?:[cmp]Zxid|[cm]time|cversion|dataVersion|aclVersion|ephemeralOwner|dataLength|numChildren)\s*=", re.I
)
_NO_NODE = re.compile(r"Node does not exist|NoNodeException|KeeperErrorCode = NoNode")
_MISSING_PATH = re.compile(r"(?:Node does not exist:?|NoNode for)\s+(/\S*)")
_WATCH = re.compile(r"\s*(?:WATCHER::|WatchedEvent\b)")
_LISTS = ("ls", "ls2")
_OPERATIONS = ("get", *_LISTS, "stat", "getEphemerals")
_SHELLS = ("zkCli", "zookeeper-shell")
_NO_QUOTES = str.maketrans({"'": " ", '"': " "})
# A bare path, perhaps decorated by the script that printed it (`=== /brokers/ids/0 ===`).
_BARE_PATH = re.compile(r"[\s=#>*:-]*+(?P<path>/[\w./-]++)[\s=#*:-]*+")
_PATH_AND_DATA = re.compile(r"\s*+(?P<path>/[\w./-]++)[\s=:]++(?P<data>\{.*)")
_PATH = re.compile(r"/\S*+")
_LISTING = re.compile(r"\[[^\[\]{}\":]*\]?")
_SCALAR = re.compile(r"null|-?[0-9]+")
_SESSION = re.compile(r"\s*+\[zk: |[cmp]Zxid = 0x|Connecting to \S++:\d++$|Welcome to ZooKeeper")


def _is_line(line: str) -> bool:
    if _SESSION.match(line):
        return True
    request = _parse_command(_strip_prompt(line))
    if request is None:
        data = _PATH_AND_DATA.fullmatch(line)
        return data is not None and znodes.is_kafka_path(data["path"])
    return znodes.is_kafka_path(request.path) or any(shell in line for shell in _SHELLS)


def _is_request(line: str) -> bool:
    return _parse_command(_strip_prompt(line)) is not None


def _read_records(text: str, _path: str) -> Records:
    rows = list(_read_requests(text))
    mentions = _Mentions()
    for _, request, line in rows:
        znode = _PATH_AND_DATA.fullmatch(line) if request is None else None
        with suppress(BadValueError):  # the record will be rejected
            if znode:
                mentions.add(znode["path"], znodes.parse_znode(znode["path"], znode["data"]))
            elif request is not None and request.operation != _MISSING:
                mentions.add(request.path, _parse_answer(request, line))
    return Records.from_rows((number, _build_context(request, mentions, line), line) for number, request, line in rows)


def _read_requests(text: str) -> Iterator[tuple[int, _Request | None, str]]:
    """Yield (line number, request that the line answers: its data, its listing or its absence; line)."""
    pending: _Request | None = None
    tree: dict[str, list[str]] = {}  # the children of the znodes that the last `ls -R` has named
    for number, line in enumerate(split_lines(text), 1):
        request: _Request | None = None
        rest = _strip_prompt(line)
        if pending is not None and pending.operation == _LIST_TREE and _is_below(line.strip(), pending.path):
            request = _add_to_tree(tree, line.strip())
        elif (command := _parse_command(rest)) is not None:
            pending, tree = command, {}
        elif _NO_NODE.search(line):
            if named := _MISSING_PATH.search(line):
                request = _Request(_MISSING, named[1])
            elif pending is not None:
                request = _Request(_MISSING, pending.path)
            pending = None
        elif pending is not None and _is_answer(rest, pending.operation):
            request = pending
            if pending.operation == "get" or pending.operation in _LISTS:
                pending = None
        yield number, request, line


def _is_below(line: str, path: str) -> bool:
    """Return whether a line is this path or one below it."""
    is_inside = line == path or line.startswith(path.rstrip("/") + "/")
    return is_inside and _PATH.fullmatch(line) is not None


def _add_to_tree(tree: dict[str, list[str]], path: str) -> _Request:
    """Return the request that a line of `ls -R` answers; its children are added as the lines below name them."""
    parent, _, name = path.rpartition("/")
    if path not in tree and parent in tree:
        tree[parent].append(name)
    return _Request(_LIST_TREE, path, tree.setdefault(path, []))


def _build_context(request: _Request | None, mentions: _Mentions, line: str) -> str | None:
    """Return the context of a line: its request, and the brokers that it shows to be unregistered."""
    if request is None:
        return None
    context: dict[str, Any] = {"op": request.operation, "path": request.path}
    absent: list[int] = []
    with suppress(BadValueError):  # the record will be rejected
        if request.operation == _MISSING:
            absent = mentions.find_missing(request.path)
        elif request.operation in _LISTS:
            absent = mentions.find_unlisted(request.path, _parse_answer(request, line))
    if absent:
        context["absent"] = absent
    if request.children and znodes.is_topic_listing(request.path):
        context["children"] = request.children
    return json.dumps(context)


def _strip_prompt(line: str) -> str:
    prompt = _ZK_PROMPT.match(line)
    return (line[prompt.end() :] if prompt else line).strip()


def _parse_command(line: str) -> _Request | None:
    """Return the request of a line that is a command or a bare path."""
    if len(line) > 2000:
        return None
    bare = _BARE_PATH.fullmatch(line)
    if bare:
        path = bare["path"].rstrip("-") if line.rstrip().endswith(" ---") else bare["path"]
        return _Request("get", path)
    starts_shell = any(shell in line for shell in _SHELLS)
    # As in zookeeper-shell zk1:2181 <<< "ls /brokers/ids".
    words = (line.translate(_NO_QUOTES) if starts_shell else line).split()
    at = next((i for i, word in enumerate(words) if word in _OPERATIONS), None)
    is_command = at == 0 or (at == 1 and words[0] in ("$", "#", "%", ">")) or starts_shell
    if at is None or not is_command or line[:1] in ("{", "["):
        return None
    paths = (word.strip("\"'") for word in words[at + 1 :])
    path = next((path for path in paths if path.startswith("/")), None)
    operation = _LIST_TREE if words[at] == "ls" and "-R" in words[at + 1 :] else words[at]
    return None if path is None else _Request(operation, path)


def _is_answer(line: str, operation: str) -> bool:
    if operation in _LISTS:
        return _LISTING.fullmatch(line) is not None
    if znodes.is_dump_line(line):
        return False
    return operation == "get" and (line[:1] == "{" or _SCALAR.fullmatch(line) is not None)


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    line = _strip_prompt(raw)
    if context is not None:
        surroundings = json.loads(context)
        ids = surroundings.get("absent", ())
        absent: list[Fact] = [(FactKind.BROKER, {"broker_id": i, "registered": False}) for i in ids]
        if surroundings["op"] == _MISSING:
            return absent or ignore(_NO_SUCH_NODE)
        request = _Request(surroundings["op"], surroundings["path"], surroundings.get("children"))
        facts = _parse_answer(request, raw)
        return [fact for fact in facts if not absent or fact[0] != FactKind.IGNORED] + absent
    if _STAT.match(raw):
        return ignore(_STAT_LINE)
    if _NO_NODE.search(raw):
        return ignore(_NO_SUCH_NODE)
    if _WATCH.match(raw):
        return ignore(LOG_LINE)
    if not line and raw.strip():
        return ignore(PROMPT)
    znode = _PATH_AND_DATA.fullmatch(line)
    if znode:
        return znodes.parse_znode(znode["path"], znode["data"])
    if znodes.is_dump_line(line):
        return znodes.parse_dump_line(line)
    if line[:1] in ("{", "}", '"'):
        raise unparsable("a data line without the path of its znode")
    if _parse_command(line) is not None or _ZK_PROMPT.match(raw):
        return ignore(PROMPT)
    if line == "null":
        return ignore(znodes.WITHOUT_PLACEMENT)
    if _LISTING.fullmatch(line):
        return ignore(znodes.LISTING)
    return ignore(classify_noise(raw))


def _parse_answer(request: _Request, raw: str) -> list[Fact]:
    """Return the facts of what a command printed."""
    line = _strip_prompt(raw)
    if request.operation == "get":
        return znodes.parse_znode(request.path, None if line == "null" else line)
    if request.operation == _LIST_TREE:
        if znodes.is_broker_listing(request.path):  # cut off, it would show brokers to be down
            return ignore(znodes.LISTING)
        return znodes.parse_listing(request.path, request.children or [])
    if not line.endswith("]"):
        raise unparsable(f"the listing of {request.path} is cut off")
    return znodes.parse_listing(request.path, [name.strip() for name in line[1:-1].split(",") if name.strip()])


class _Mentions:
    """The broker ids that a session mentions, by the path that their cluster is under.

    A listing of broker ids shows that all others are unregistered; the rest of the session names these.
    """

    def __init__(self) -> None:
        self._ids: defaultdict[str, set[int]] = defaultdict(set)
        self._listed: set[str] = set()  # paths under which a znode was found

    def add(self, path: str, facts: list[Fact]) -> None:
        """Add the facts of a znode."""
        chroot = znodes.find_chroot(path)
        if chroot is None:
            return
        self._listed.add(chroot)
        ids = self._ids[chroot]
        for _, fact in facts:
            ids.update(fact.get("replicas") or (), fact.get("isr") or ())
            ids.update(i for i in (fact.get("broker_id"), fact.get("leader")) if i is not None and i >= 0)

    def find_unlisted(self, path: str, listing: list[Fact]) -> list[int]:
        """Return mentioned ids that a listing of `path` lacks, ascending; none if it does not list brokers."""
        chroot = znodes.find_chroot(path)
        if chroot is None or not znodes.is_broker_listing(path):
            return []
        return sorted(self._ids[chroot].difference(fact.get("broker_id", -1) for _, fact in listing))

    def find_missing(self, path: str) -> list[int]:
        """Return the ids that are unregistered because there is no znode `path`."""
        if self._listed and znodes.find_chroot(path) not in self._listed:
            return []  # the cluster is under another path: the session looked in the wrong place first
        broker_id = znodes.find_broker(path)
        return self.find_unlisted(path, []) if broker_id is None else [broker_id]


FORMAT = Format(
    "zookeeper-cli",
    "text of a zkCli.sh session",
    Signature(line=_is_line, request=_is_request),
    *(_parse_record, _read_records),
)
