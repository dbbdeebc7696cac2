"""What the shell, kubectl and Kafka's tools print when a command fails, as lines beside what it printed before."""

import re
from collections.abc import Callable

from pipelines.ingest.formats.checked_values import quote, shorten
from pipelines.ingest.text import MAX_LOOK

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
