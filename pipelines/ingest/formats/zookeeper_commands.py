"""What the command lines of ZooKeeper's shells ask for: `zkCli.sh` and `zookeeper-shell`, also several on one line."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipelines.ingest.text import MAX_LOOK

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
