"""The text of a `zkCli.sh` session: commands, the data they print, stat lines, log lines."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pipelines.ingest.formats import zookeeper_json as znodes
from pipelines.ingest.formats.checked_values import BadValueError, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, decide_rejected, ignore
from pipelines.ingest.text import LOG_LINE, MAX_LOOK, PROMPT, classify_noise, find_marked, split_lines

# Operations that zkCli has no word for: the requested znode does not exist; a line of `ls -R`, which names the znodes
# below a path.
MISSING, LIST_TREE = "missing", "ls -R"
LISTS = ("ls", "ls2")
_OPERATIONS = ("get", *LISTS, "stat", "getEphemerals")

_ZK_PROMPT = re.compile(r"\s*\[zk: [^\]]*\]\s?")
_PROMPTS = ("$", "#", "%", ">", "heredoc>")
_NO_QUOTES = str.maketrans({"'": " ", '"': " "})
# A bare path, perhaps decorated by the script that printed it (`=== /brokers/ids/0 ===`).
_BARE_PATH = re.compile(r"[\s=#>*:-]*+(?P<path>/[\w./-]++)[\s=#*:-]*+")
_END_OF_PATH = re.compile(r"[;|&)]")
_COMMAND_END = re.compile(r";|\||&&")
_NEWLINE = re.compile(r"\\n(?=[\s\\]|(?:get|ls|ls2|stat|quit)\b|$)")  # as echo -e and printf have it
_PRINTS = re.compile(r"\b(?:echo|printf)\b")
_LOOP = re.compile(r"\bfor\s++(?P<name>\w++)\s++in\s(?P<values>[^;]*+);\s*+do\s(?P<body>.*)", re.S)
_DONE = re.compile(r";\s*+done\b")
_RANGE = re.compile(r"\{([0-9]{1,6})\.\.([0-9]{1,6})\}")
_VALUE = re.compile(r"[\w.-]++")
_MAX_VALUES = 1_000  # of a loop
_VARIABLE = re.compile(r"\$|`|\{\}")
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?\s*+['\"\\]?\w")
_HERE_LINE = re.compile(r"\s*+(?:(?:heredoc)?>\s*+)?(?:[a-z]\w*+(?:\s.*)?)?")


class Request(NamedTuple):
    """What a command asks for, or a line answers."""

    operation: str
    path: str  # of a znode
    children: list[str] | None = None  # of a znode that `ls -R` names

    @property
    def has_variable(self) -> bool:
        """Whether the command does not show the path itself, as in /brokers/ids/$i."""
        return _VARIABLE.search(self.path) is not None


def strip_prompt(line: str) -> str:
    """Return a line without the prompt of zkCli."""
    prompt = _ZK_PROMPT.match(line)
    return (line[prompt.end() :] if prompt else line).strip()


def has_prompt(line: str) -> bool:
    """Return whether a line begins with the prompt of zkCli."""
    return _ZK_PROMPT.match(line) is not None


def names_shell(line: str) -> bool:
    """Return whether a line names one of ZooKeeper's shells."""
    return "zkCli" in line or "zookeeper-shell" in line


def begins_here_document(line: str) -> bool:
    """Return whether the next lines are the commands of a shell, as below `zookeeper-shell zk:2181 <<EOF`."""
    return len(line) <= MAX_LOOK and names_shell(line) and _HERE_DOCUMENT.search(line) is not None


def is_of_here_document(line: str) -> bool:
    """Return whether a line of a here-document is a command: its end and what the shell prints begin otherwise."""
    return len(line) <= MAX_LOOK and _HERE_LINE.fullmatch(line) is not None


def parse_requests(line: str) -> list[Request]:
    """Return the requests of a line without a prompt of zkCli that has commands or is a bare path, in their order."""
    if len(line) > MAX_LOOK or line[:1] in ("{", "["):
        return []
    bare = _BARE_PATH.fullmatch(line)
    if bare:
        path = bare["path"].rstrip("-") if line.rstrip().endswith(" ---") else bare["path"]
        return [Request("get", path)]
    if names_shell(line):
        # As in zookeeper-shell zk1:2181 <<< "ls /brokers/ids".
        return [request for words in _split_commands(line.translate(_NO_QUOTES)) for request in _find_request(words)]
    words = line.split()
    is_command = len(words) > 1 and (words[0] in _OPERATIONS or (words[0] in _PROMPTS and words[1] in _OPERATIONS))
    return list(_find_request(words)) if is_command else []


def _find_request(words: Sequence[str]) -> Iterator[Request]:
    at = next((i for i, word in enumerate(words) if word in _OPERATIONS), len(words))
    path = next((word for word in words[at + 1 :] if word.strip("\"'").startswith("/")), None)
    if path is not None:
        operation = LIST_TREE if words[at] == "ls" and "-R" in words[at + 1 :] else words[at]
        yield Request(operation, _END_OF_PATH.split(path.strip("\"'"), maxsplit=1)[0])


def _split_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command that a shell of ZooKeeper runs."""
    for command in _COMMAND_END.split(_unroll_loop(line)):
        if names_shell(command) or _PRINTS.search(command):  # echo ls /brokers/ids | zkCli.sh
            yield from (part.split() for part in _NEWLINE.split(command))


def _unroll_loop(line: str) -> str:
    """Return the commands of a loop over values that the line shows, as in `for i in 0 1; do ...; done`."""
    loop = _LOOP.search(line)
    if loop is None:
        return line
    spread = _RANGE.fullmatch(loop["values"].strip())
    if spread and int(spread[2]) - int(spread[1]) < _MAX_VALUES:
        values = [str(i) for i in range(int(spread[1]), int(spread[2]) + 1)]
    else:
        values = loop["values"].split()
    if not values or len(values) > _MAX_VALUES or not all(map(_VALUE.fullmatch, values)):
        return line
    body, *rest = _DONE.split(loop["body"], maxsplit=1)
    variable = re.compile(rf"\$(?:{loop['name']}\b|\{{{loop['name']}\}})")
    return ";".join([line[: loop.start()], *(variable.sub(value, body) for value in values), *rest])


_NO_SUCH_NODE = "node does not exist"
_STAT = re.compile(
    r"\s*(?:[cmp]Zxid|[cm]time|cversion|dataVersion|aclVersion|ephemeralOwner|dataLength|numChildren)\s*=", re.I
)
_NO_NODE = re.compile(r"Node does not exist|NoNodeException|KeeperErrorCode = NoNode")
_MISSING_PATH = re.compile(r"(?:Node does not exist:?|NoNode for)\s+(/\S*)")
_WATCH = re.compile(r"\s*(?:WATCHER::|WatchedEvent\b)")
_PATH_AND_DATA = re.compile(r"\s*+(?P<path>/[\w./-]++)[\s=:]++(?P<data>\{.*)")
_PATH = re.compile(r"/\S*+")
_LISTING = re.compile(r"\[[^\[\]{}\":]*\]?")
_SCALAR = re.compile(r"null|-?[0-9]+")
_SESSION = re.compile(r"\s*+\[zk: |[cmp]Zxid = 0x|Connecting to \S++:\d++$|Welcome to ZooKeeper")


def _is_line(line: str) -> bool:
    if _SESSION.match(line) or begins_here_document(line):
        return True
    requests = parse_requests(strip_prompt(line))
    if not requests:
        data = _PATH_AND_DATA.fullmatch(line)
        return data is not None and znodes.is_kafka_path(data["path"])
    return names_shell(line) or any(znodes.is_kafka_path(request.path) for request in requests)


def _read_rows(text: str, _path: str) -> list[Row]:
    rows = _Session().read_rows(text)
    mentions = _Mentions()
    for _, answered, line in rows:
        znode = _PATH_AND_DATA.fullmatch(line) if answered is None else None
        with suppress(BadValueError):  # the record will be rejected
            if znode:
                mentions.add(znode["path"], znodes.parse_znode(znode["path"], znode["data"]))
            elif isinstance(answered, Request) and answered.operation != MISSING:
                mentions.add(answered.path, _parse_answer(answered, line))
    return [(number, _build_context(answered, mentions, line), line) for number, answered, line in rows]


class _Session:
    """Follows a session, and says which request each line answers."""

    def __init__(self) -> None:
        # Line number; request that the line answers, or why that is unknown, or None; line.
        self._rows: list[tuple[int, Request | str | None, str]] = []
        self._pending: list[Request] = []  # requests that may still be answered
        self._answers: list[int] = []  # rows that answer several requests
        self._tree: dict[str, list[str]] = {}  # the children of the znodes that the last `ls -R` has named
        self._is_here_document = False

    def read_rows(self, text: str) -> list[tuple[int, Request | str | None, str]]:
        """Return a row for each line: its data, its listing or its absence answers a request."""
        for number, line in enumerate(split_lines(text), 1):
            self._rows.append((number, self._find_request(line), line))
        self._pair_answers()
        return self._rows

    def _find_request(self, line: str) -> Request | str | None:
        rest = strip_prompt(line)
        if any(r.operation == LIST_TREE and _is_below(line.strip(), r.path) for r in self._pending):
            return _add_to_tree(self._tree, line.strip())
        requests = parse_requests(rest)
        self._is_here_document = self._is_here_document and is_of_here_document(line)
        if self._is_here_document:
            self._pending += requests
        elif begins_here_document(line) or requests:
            self._begin(requests)
            self._is_here_document = begins_here_document(line)
        elif sum(request.operation != LIST_TREE for request in self._pending) > 1:  # answers without paths
            if _NO_NODE.search(line) or _is_answer(rest, "get") or _is_answer(rest, "ls"):
                self._answers.append(len(self._rows))
        elif _NO_NODE.search(line):
            return self._find_missing(line)
        else:
            return self._answer_one(rest)
        return None

    def _begin(self, requests: list[Request]) -> None:
        self._pair_answers()
        self._pending, self._tree = requests, {}

    def _find_missing(self, line: str) -> Request | None:
        named = _MISSING_PATH.search(line)
        path = named[1] if named else next((request.path for request in self._pending), None)
        self._pending = []
        return None if path is None else Request(MISSING, path)

    def _answer_one(self, rest: str) -> Request | str | None:
        request = next((request for request in self._pending if request.operation != LIST_TREE), None)
        if request is None or not _is_answer(rest, request.operation):
            return None
        if request.has_variable:
            return _describe_variable(request)
        self._pending.remove(request)
        return request

    def _pair_answers(self) -> None:
        """Give the answers to several commands to these in order, if there are as many and each fits."""
        requests = [r for r in self._pending if r.operation == "get" or r.operation in LISTS]
        lines = [self._rows[at][2] for at in self._answers]
        unclear = next((_describe_variable(request) for request in requests if request.has_variable), None)
        if unclear is None and not (len(requests) == len(lines) and all(map(_fits, requests, lines))):
            counted = f"{len(lines)} {'answer' if len(lines) == 1 else 'answers'} to {len(self._pending)} commands"
            unclear = f"{counted}: which answers which is unknown, run each command alone"
        for i, at in enumerate(self._answers):
            number, _, line = self._rows[at]
            answered: Request | str | None = unclear or requests[i]
            if _NO_NODE.search(line):
                named = _MISSING_PATH.search(line)
                path = named[1] if named else requests[i].path if unclear is None else None
                answered = None if path is None else Request(MISSING, path)
            self._rows[at] = (number, answered, line)
        self._answers = []


def _describe_variable(request: Request) -> str:
    return f"{request.path} has a variable: run a command for each znode"


def _fits(request: Request, line: str) -> bool:
    """Return whether a line may answer a request."""
    if _NO_NODE.search(line):
        named = _MISSING_PATH.search(line)
        return named is None or named[1] == request.path
    return _is_answer(strip_prompt(line), request.operation)


def _is_below(line: str, path: str) -> bool:
    """Return whether a line is this path or one below it."""
    is_inside = line == path or line.startswith(path.rstrip("/") + "/")
    return is_inside and _PATH.fullmatch(line) is not None


def _add_to_tree(tree: dict[str, list[str]], path: str) -> Request:
    """Return the request that a line of `ls -R` answers; its children are added as the lines below name them."""
    parent, _, name = path.rpartition("/")
    if path not in tree and parent in tree:
        tree[parent].append(name)
    return Request(LIST_TREE, path, tree.setdefault(path, []))


def _build_context(request: Request | str | None, mentions: _Mentions, line: str) -> str | None:
    """Return the context of a line: its request, and the brokers that it shows to be unregistered.

    request: or why it is unknown.
    """
    if request is None:
        return None
    if isinstance(request, str):
        return decide_rejected(request)
    context: dict[str, Any] = {"op": request.operation, "path": request.path}
    absent: list[int] = []
    with suppress(BadValueError):  # the record will be rejected
        if request.operation == MISSING:
            absent = mentions.find_missing(request.path)
        elif request.operation in LISTS:
            absent = mentions.find_unlisted(request.path, _parse_answer(request, line))
    if absent:
        context["absent"] = absent
    if request.children and znodes.is_topic_listing(request.path):
        context["children"] = request.children
    return json.dumps(context)


def _is_answer(line: str, operation: str) -> bool:
    if operation in LISTS:
        return _LISTING.fullmatch(line) is not None
    if znodes.is_dump_line(line):
        return False
    return operation == "get" and (line[:1] == "{" or _SCALAR.fullmatch(line) is not None)


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    line = strip_prompt(raw)
    if context is not None:
        surroundings = json.loads(context)
        ids = surroundings.get("absent", ())
        absent: list[Fact] = [(FactKind.BROKER, {"broker_id": i, "registered": False}) for i in ids]
        if surroundings["op"] == MISSING:
            return absent or ignore(_NO_SUCH_NODE)
        request = Request(surroundings["op"], surroundings["path"], surroundings.get("children"))
        facts = _parse_answer(request, raw)
        return [fact for fact in facts if not absent or fact[0] != FactKind.IGNORED] + absent
    if _STAT.match(raw):
        return ignore("stat line")
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
    if parse_requests(line) or has_prompt(raw):
        return ignore(PROMPT)
    if line == "null":
        return ignore(znodes.WITHOUT_PLACEMENT)
    if _LISTING.fullmatch(line):
        return ignore(znodes.LISTING)
    return ignore(classify_noise(raw))


def _parse_answer(request: Request, raw: str) -> list[Fact]:
    """Return the facts of what a command printed."""
    line = strip_prompt(raw)
    if request.operation == "get":
        return znodes.parse_znode(request.path, None if line == "null" else line)
    if request.operation == LIST_TREE:
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
    Signature(
        line=find_marked("/|zk|Zxid|Connecting to |Welcome to |zookeeper-shell", _is_line),
        request=lambda line: bool(parse_requests(strip_prompt(line))),
    ),
    *(_parse_record, _read_rows),
)
