"""What a shell session shows beside data: commands of Kafka's tools, and the errors of commands that failed.

They say what the data below them lacks: a filter shows only some of the partitions, a failed command perhaps broke off.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from pipelines.ingest.formats import partition_filters as filters
from pipelines.ingest.formats.checked_values import quote, shorten
from pipelines.ingest.formats.partition_filters import read_kcat, read_options
from pipelines.ingest.formats.shell_words import (
    VIEWERS,
    Command,
    begins_command,
    is_continued,
    is_cut_rest,
    is_rest,
    parse_commands,
)
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, decide_ignored, ignore
from pipelines.ingest.text import MAX_LOOK, PROMPT, PROSE, classify_noise, find_marked, split_lines
from udfs.wording import join_names

BROKER, _ZOOKEEPER = "broker", "zookeeper"
_SERVER_OPTIONS = {"bootstrap-server": BROKER, "bootstrap-servers": BROKER, "zookeeper": _ZOOKEEPER}
_MAX_SERVERS = 100  # characters of servers that a message repeats
_PORT_OR_PATH = re.compile(r"(?::[0-9]++)?(?:/.*)?$", re.S)
_ADDRESS = re.compile(r"[0-9.]*+|.*:.*")
_NO_NAME = re.compile(r"[$<>{}%()]")  # a variable or a placeholder
_LETTERS = re.compile(r"[a-z]{2,}")  # single letters number servers, as digits do
# What names of one cluster's servers have, or lack.
_GENERAL = frozenset(
    {
        *("kafka", "broker", "brokers", "bootstrap", "server", "node", "host", "localhost", "local", "localdomain"),
        *("headless", "svc", "cluster", "internal", "external", "com", "net", "org", "zk", "zookeeper", "controller"),
    }
)


class Servers(NamedTuple):
    """The servers that a command asks."""

    kind: str  # BROKER or _ZOOKEEPER: servers of one kind can be compared
    text: str  # as the command has them


def find_servers(command: Command) -> Servers | None:
    """Return the servers that a command asks, or None if it does not name them."""
    if command.tool in ("kcat", "kafkacat"):
        servers = ((BROKER, value) for name, value in read_kcat(command.words) if name == "b")
    else:
        options = read_options(command.words)
        servers = ((_SERVER_OPTIONS[name], value) for name, value in options if name in _SERVER_OPTIONS)
    return next((Servers(kind, text[:_MAX_SERVERS]) for kind, text in servers if text), None)


def names_a_cluster(servers: Servers) -> bool:
    """Return whether the names of servers can tell their cluster from others."""
    names = _list_words(servers.text)
    return bool(names) and all(names)


def are_of_two_clusters(first: Servers, other: Servers) -> bool:
    """Return whether the names of servers show that these belong to two clusters.

    Names that differ only in digits, in single letters or in general words are no evidence, and no more are addresses,
    or a name that has all words of the other: `b1` and `b1.prod` are perhaps the same server.
    """
    if first.kind != other.kind or not names_a_cluster(first) or not names_a_cluster(other):
        return False
    names = [_list_words(servers.text) for servers in (first, other)]
    return not any(one <= two or two <= one for one in names[0] for two in names[1])


def _list_words(text: str) -> list[frozenset[str]]:
    """Return the words of each server's name that may tell clusters apart."""
    hosts = (_PORT_OR_PATH.sub("", server.strip().rpartition("://")[2]) for server in text.lower().split(","))
    names = ("" if _ADDRESS.fullmatch(host) else host for host in hosts)
    return [frozenset(_LETTERS.findall(name)) - _GENERAL for name in names if not _NO_NAME.search(name)]


_START = r"[\s>|#*`]*+"
# Of a log, only what a tool itself logs about its failure counts: an exception behind the level.
_LOGGED = re.compile(
    _START + r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]++Z?\]?\s++"
    r"(?:\[?(?:ERROR|FATAL)\]?\s++([\w.$]*?(?:Exception|Error)\b.*))?"
)
_EXIT_CODE = re.compile(
    _START + r"(?:command terminated|process exited|(?:the )?command (?:exited|failed)|exited) with (?:non-zero )?"
    r"(?:exit |status )?(?:code|status):? ([1-9][0-9]{0,3})\b",
    re.I,
)
_ENDED = re.compile(
    _START + r"(?:(?:\^C|(?:signal: )?(?:killed|terminated|interrupt)\b[\s0-9]*+$|segmentation fault)"
    r"|(?:client_loop: send disconnect|packet_write_wait|connection to \S++ closed by remote host|lost connection)"
    r"|(?:\S++: )?write error: broken pipe)",
    re.I,
)
_PRINTED = re.compile(
    _START + r"(?:list topic failed because of "
    r"|Error while executing (?:\w++ )*+command(?: with args '[^'\n]*+')? ?: ?|Error while executing |% ERROR: "
    r"|(?:\w++: {1,3})?(?:Error|error): (?=[A-Za-z])|Error (?:from server|response from daemon)\b[^:\n]{0,60}+: ?"
    r'|Exception in thread "[^"\n]*+" ?)(.*)'
)
_EXCEPTION = re.compile(
    _START + r"((?:[a-zA-Z][\w$]*+\.)++\w*?(?:Timeout|Execution|Authorization|Authentication|UnknownTopicOrPartition"
    r"|Disconnect|Connect|UnknownHost|Config|Kafka|OutOfMemory|IllegalArgument|UnsupportedVersion|InvalidTopic)"
    r"(?:Exception|Error)\b.*)"
)
_DENIED = re.compile(
    r"(?:Not authorized to access (?:topic|cluster|group)|(?:Topic|Cluster)AuthorizationException"
    r"|(?:TOPIC|CLUSTER)_AUTHORIZATION_FAILED|(?:Topic|Cluster) authorization failed)"
)
# Further lines of an error, and errors of commands that printed nothing else.
_TRACE = re.compile(
    r"\s++at [\w.$/@<>]++\(|\s*+Caused by: |\s*+\.\.\. [0-9]++ (?:more|common frames)"
    r"|\s*+\((?:kafka|org\.apache\.kafka)\.[\w.$]++\)$"
)
_NOT_STARTED = re.compile(
    _START + r"(?:\S++: ){1,3}(?:line [0-9]++: )?(?:\S++: )?(?:command not found|No such file or directory)\s*+$"
    r"|.{1,200}? is not recognized as an internal or external command|" + _START + r"Missing required argument"
)
_NO_ZNODE = re.compile(r"NoNode|Node does not exist")  # an answer of ZooKeeper
# Answers of brokers that clients print. They do not end the command.
# Not of the preferred leader: without it, another replica leads.
_NO_LEADER = re.compile(r"(?i:(?<!preferred)(?<!preferred[_ ])leader[_ ]?not[_ ]?available)")
_OF_LISTING = re.compile(r"(?i:replicas?|isrs?|[0-9] partitions)\b")  # a partition or topic, perhaps damaged
_ENDS_COMMAND = ("while executing", "Exception in thread")
_TOPIC_WITHOUT_LEADER = re.compile(r"([\w.-]{1,249}+)=LEADER_NOT_AVAILABLE|\b[Tt]opic '?([\w.-]{1,249}+)")
# Every line of an error has one of them, which is found fast.
_MARK = re.compile(
    r"failed because|rror|RROR|xception|uthoriz|AUTHORIZ|exit|Exit|at |more|not found|No such|\((?:org|kafka)|illed"
    r"|erminated|\^C|fault|pipe|onnect|nterrupt|recognized|Missing|Caused|frames"
)

# What the text of an error shows -> why the command failed.
_REASONS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"[Tt]opic '?([\w.-]{1,249}?)'? does not exist"), lambda match: f"topic {match[1]} does not exist"),
    (re.compile(r"uthoriz|AUTHORIZ|uthentic|[Hh]andshake|denied"), "it was not authorized"),
    (re.compile(r"OutOfMemory"), "it ran out of memory"),
    (re.compile(r"Timeout|[Tt]imed out"), "it timed out"),
    (
        re.compile(
            r"Disconnect|Connect|connect|transport failure|UnknownHost|Failed to acquire metadata|brokers? down"
        ),
        "no broker answered",
    ),
    (re.compile(r"UnknownTopicOrPartition"), "a topic or partition does not exist"),
)


def find_failure(line: str) -> str | None:
    """Return why a command failed if a line is its error; empty if the line only goes on with it, None for others."""
    line = line[:MAX_LOOK]
    if _MARK.search(line) is None or _NO_ZNODE.search(line):
        return None
    if logged := _LOGGED.match(line):
        return None if logged[1] is None else _explain(logged[1])
    if _TRACE.match(line) or _NOT_STARTED.match(line):
        return ""
    if code := _EXIT_CODE.match(line):
        return f"exit code {code[1]}"
    if _ENDED.match(line):
        return "it was interrupted"
    if error := _PRINTED.match(line) or _EXCEPTION.match(line):
        return _explain(error[1])
    return "it was not authorized" if _DENIED.search(line) else None


def find_leaderless_topics(line: str) -> list[str] | None:
    """Return the topics of which a client says that a partition has no leader; None for other lines."""
    line = line[:MAX_LOOK]
    if ("vailable" not in line and "AVAILABLE" not in line) or _NO_LEADER.search(line) is None:
        return None
    if any(mark in line for mark in _ENDS_COMMAND) or _OF_LISTING.search(line):
        return None
    return list(dict.fromkeys(match[1] or match[2] for match in _TOPIC_WITHOUT_LEADER.finditer(line)))


def _explain(error: str) -> str:
    for pattern, reason in _REASONS:
        if match := pattern.search(error):
            return reason if isinstance(reason, str) else reason(match)
    return quote(shorten(error.strip()))


# Every command and every error has one of them.
_MARKS = rf"escribe_?[tT]opics\(|kafka-|kcat|kafkacat|rpk |--|–|—|\||vailable|AVAILABLE|{_MARK.pattern}|" + "|".join(
    rf"{re.escape(viewer)}\s" for viewer in sorted(VIEWERS)
)
ERROR = "error of a command"
# A line of kafka-topics --list.
_TOPIC_NAME = re.compile(r"([a-zA-Z0-9._-]{1,249})( - marked for deletion)?\s*+")


class ShownCommand(NamedTuple):
    """A command that a file shows, perhaps on several lines."""

    line_number: int
    last_line: int
    parts: Sequence[Command]  # of its pipeline, and of what it runs before and after


def _is_line(line: str) -> bool:
    if begins_command(line) or is_rest(line) or is_cut_rest(line):
        return True
    return find_failure(line) is not None or find_leaderless_topics(line) is not None


def find_commands(lines: Sequence[str]) -> Iterator[ShownCommand]:
    """Yield the commands of tools in the lines of a file."""
    at = 0
    while at < len(lines):
        begin, at = at, at + 1
        if not lines[begin] or not (begins_command(lines[begin]) or is_rest(lines[begin])):
            continue
        has_cut = False
        while at < len(lines) and lines[at].strip():
            cut_here = is_cut_rest(lines[at]) and not begins_command(lines[at])
            if not (is_continued(lines[at - 1]) or is_rest(lines[at]) or cut_here):
                break
            has_cut |= cut_here
            at += 1
        texts = [line.rstrip().removesuffix("\\") for line in lines[begin:at]]
        parts = list(parse_commands("".join(texts))) if has_cut else []
        if not any(map(filters.lists_partitions, parts)):
            parts = list(parse_commands(" ".join(texts)))
        yield ShownCommand(begin + 1, at, parts)


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    lines = split_lines(text)
    commands = list(find_commands(lines))
    decided = _describe_commands(lines, commands) | _describe_errors(lines)
    contexts = _find_topic_names(lines, commands) | {n: decide_ignored(**values) for n, values in decided.items()}
    for number, line in enumerate(lines, 1):
        if line:  # else it is of another format
            yield number, contexts.get(number), line


def _find_topic_names(lines: Sequence[str], commands: Sequence[ShownCommand]) -> dict[int, str]:
    """Return by line number which topics the commands name that list their names."""
    contexts: dict[int, str] = {}
    for command in commands:
        number = command.last_line
        if any(map(filters.lists_topics, command.parts)):
            while number < len(lines) and not _is_line(lines[number]):
                if not (match := _TOPIC_NAME.fullmatch(lines[number])):
                    break
                number += 1
                contexts[number] = json.dumps({"topic": match[1], "marked_for_deletion": True if match[2] else None})
    return contexts


def _describe_commands(lines: Sequence[str], commands: Sequence[ShownCommand]) -> dict[int, dict[str, Any]]:
    """Return by line number what each command shows of the completeness of its output."""
    contexts: dict[int, dict[str, Any]] = {}
    topics: dict[str, str] = {}  # topics that commands show alone -> the option of the first
    first_with_topic = 0
    clusters: list[tuple[Servers, int]] = []  # servers of each, and the line that asks them first
    viewed = {filters.find_viewed_file(part) for command in commands for part in command.parts} - {None}
    saved: dict[str, filters.Selection | None] = {}  # files with the output of a command that lists partitions
    for command in commands:
        number = command.line_number
        for line in range(number, command.last_line + 1):
            contexts[line] = {"reason": PROMPT}
        warnings = list(filter(None, (_compare_servers(part, number, clusters) for part in command.parts)))
        # The next command or error directly below it: it printed nothing.
        is_empty = command.last_line < len(lines) and _is_line(lines[command.last_line])
        selections = list(_find_selections(command.parts, viewed, saved))
        if is_empty:
            selections = []
        if selections:
            contexts[number]["is_selection"] = None not in selections
        if selections and (selection := selections[0]) is not None and None not in selections:
            if selection.topic is None:
                warnings.append(_describe_filter(selection))
                contexts[number]["selection"] = selection.isr_option if len(selections) == 1 else None
            else:
                first_with_topic = first_with_topic or number
                topics.setdefault(selection.topic, selection.option)
        if warnings:
            contexts[number]["warning"] = "; ".join(warnings)
        if servers := next(filter(None, map(find_servers, command.parts)), None):
            contexts[number]["host"] = servers.text if servers.kind == BROKER else None
    if topics:
        below = contexts[first_with_topic]
        below["warning"] = "; ".join(filter(None, (below.get("warning"), filters.describe_topics(topics))))
    return contexts


def _find_selections(
    parts: Sequence[Command], viewed: Collection[str | None], saved: dict[str, filters.Selection | None]
) -> Iterator[filters.Selection | None]:
    """Yield why each listing that a command prints shows only some partitions, or None if it shows all.

    viewed: files that commands show; saved: files that have listings, added to.
    """
    for part in parts:
        selection, own = filters.find_selection(part), filters.find_viewed_file(part)
        is_of_file = own is not None and (own in saved or selection is not None)
        if not is_of_file and not filters.lists_partitions(part):
            continue
        selection = selection or saved.get(own or "")
        file = filters.find_saved_file(part)
        if file is not None and file in viewed:  # it is shown below
            saved[file] = selection
        else:
            yield selection


def _compare_servers(command: Command, line_number: int, clusters: list[tuple[Servers, int]]) -> str | None:
    """Return the warning that a command asks another cluster than one above. clusters: added to."""
    servers = find_servers(command)
    if servers is None or not names_a_cluster(servers):
        return None
    others = [(other, line) for other, line in clusters if are_of_two_clusters(other, servers)]
    if any(other.kind == servers.kind and (other, line) not in others for other, line in clusters):
        return None
    clusters.append((servers, line_number))
    return describe_two_clusters(servers.text, f"line {others[0][1]}", others[0][0].text) if others else None


def describe_two_clusters(servers: str, place: str, other: str) -> str:
    """Return the warning that a command asks other servers than the one at `place`, as in `line 1`."""
    return f"asks {servers}, but {place} asks {other}: these may be two clusters; give each its own folder"


def _describe_filter(selection: filters.Selection) -> str:
    if selection.option.startswith("|"):
        return f"{selection.option} may pass on only some lines: run the command without it"
    if not selection.option.startswith("-"):
        return f"{selection.option} shows only some lines of the file: show all of it"
    if selection.option == "--topics-with-overrides":
        return f"{selection.option} shows no partitions: run it without"
    return f"{selection.option} shows only {selection.selected}: run it without"


def _describe_errors(lines: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Return by line number what each error says; only the first line of each error warns, and each reason once."""
    contexts: dict[int, dict[str, Any]] = {}
    reasons: set[str] = set()
    leaderless: set[str] = set()  # topics that a warning names
    last = -1  # line of the last error
    for number, line in enumerate(lines, 1):
        if not line or begins_command(line) or is_rest(line):
            continue
        if (topics := find_leaderless_topics(line)) is not None:
            contexts[number] = {"reason": "error of a client"}
            new = [topic for topic in topics if topic not in leaderless]
            if new or not (topics or leaderless):
                leaderless.update(new or [""])
                contexts[number]["warning"] = _describe_leaderless(new)
            last = number
            continue
        failure = find_failure(line)
        if failure is None:
            continue
        contexts[number] = {"reason": ERROR if last == number - 1 or failure else _name_rest(line)}
        if failure and last != number - 1 and failure not in reasons:
            reasons.add(failure)
            contexts[number]["warning"] = f"the command failed ({failure}): the listing may be cut"
        if failure or last == number - 1:
            last = number
    return contexts


def _describe_leaderless(topics: Sequence[str]) -> str:
    """Return the warning of a client's error; topics: those that it names."""
    of_topics = f" of {'topic' if len(topics) == 1 else 'topics'} {join_names(topics, 5)}" if topics else ""
    return (
        f"a client found a partition{of_topics} without a leader, offline or just created: "
        "check that the listing is of the same time"
    )


def _name_rest(line: str) -> str:
    reason = classify_noise(line)
    return ERROR if reason == PROSE else reason


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    return ignore(classify_noise(raw)) if context is None else [(FactKind.TOPIC, json.loads(context))]


FORMAT = Format(
    "shell",
    "commands of Kafka's tools and their errors",
    Signature(
        line=find_marked(_MARKS, _is_line),
        is_aside=True,
        table=lambda line: begins_command(line) and any(map(filters.lists_topics, parse_commands(line))),
        table_line=_TOPIC_NAME.fullmatch,
    ),
    *(_parse_record, _read_rows),
)
