"""Inputs that are recognised but show no replicas: what each is, and what to run or do instead.

Lines of them beside other data are ignored under their name. A file that has nothing else is an error that names it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from pipelines.ingest.formats.checked_values import quote
from pipelines.ingest.formats.describe_line import parse_line
from pipelines.ingest.formats.json_documents import DOCUMENT_BEGIN
from pipelines.ingest.sections import find_document_end
from pipelines.ingest.source_format import (
    Fact,
    FactKind,
    Format,
    Row,
    Signature,
    decide_ignored,
    decide_rejected,
    ignore,
)
from pipelines.ingest.table_rows import find_table, is_row
from pipelines.ingest.text import BLANK, LOG_LINE, MARKUP, MAX_LOOK, PROMPT, TOOL_MESSAGE, classify_noise, split_lines

_DESCRIBE = "Run kafka-topics --describe and save its output to a file."
_AGAIN = "Correct the command and run it again."
_DECLARED = "which declares topics or brokers, but does not show where the replicas are"
_IN_POD = (
    "Run kafka-topics --describe in a pod: kubectl exec POD -- bin/kafka-topics.sh --bootstrap-server ... --describe."
)


class UnsupportedInput(NamedTuple):
    """An input that is not used."""

    title: str  # for the reason why its lines are ignored: "output of kafka-acls: not used"
    problem: str  # of a file that has nothing else
    remedy: str
    pattern: re.Pattern[str]  # of the beginning of a line, or of any part of a JSON document
    shows_partitions: bool = False  # an answer lacks what it shows


def make_input(
    title: str,
    pattern: str,
    lacks: str = "which shows no replicas",
    remedy: str = _DESCRIBE,
    shows_partitions: bool = False,
) -> UnsupportedInput:
    """Return an input that shows other things than the partitions of a cluster."""
    return UnsupportedInput(title, f"is {title}, {lacks}", remedy, re.compile(pattern), shows_partitions)


def make_unread(title: str, pattern: str, remedy: str = _DESCRIBE) -> UnsupportedInput:
    """Return an input that shows partitions or brokers in a form that no reader knows."""
    return make_input(title, pattern, "which this program does not read", remedy, shows_partitions=True)


def _make_failure(reason: str, pattern: str, remedy: str = _AGAIN) -> UnsupportedInput:
    return UnsupportedInput(
        "error of a command", f"the command that wrote it failed: {reason}", remedy, re.compile(pattern)
    )


_START = r"[\s>|#]*+"
# Outputs and files, each with a pattern that certainly is a line of it.
TOOLS = (
    make_input(
        "output of kafka-consumer-groups",
        _START + r"(?:GROUP\s++(?:TOPIC|CONSUMER-ID|COORDINATOR)\b|TOPIC\s++PARTITION\s++(?:CURRENT|NEW)-OFFSET\b"
        r"|Consumer group '[^']*+' |TOTAL-LAG\s"
        # A row: the host of a member begins with a slash, a group without members has dashes.
        r"|\S++\s++\S++\s++[0-9]++(?:\s++(?:-|[0-9]++)){2}\s++(?:-|-?[0-9]++)\s++(?:-\s++-\s++-|\S++\s++/\S*+\s++\S++)\s*+$)",
    ),
    make_input(
        "output of kafka-configs",
        _START + r"(?:(?:Dynamic|All|Default|Static) (?:default )?configs? for \w++|Configs for \w++(?:-\w++)? '"
        r"|[a-z][a-z0-9._-]*+=.*? sensitive=(?:true|false) synonyms=\{|Completed updating config for )",
        "which does not show where the replicas are",
    ),
    make_input(
        "output of kafka-acls",
        _START + r"(?:(?:Current|Adding) ACLs for resource|\(principal=\S++, host=|User:\S++ has (?:Allow|Deny) )",
    ),
    make_input(
        "messages of kafka-topics",
        _START + r"(?:Topic '?[a-zA-Z0-9._-]++'? (?:is (?:already )?marked for deletion|already exists)"
        r"|WARNING: Due to limitations in metric names|Note: This will have no impact if delete\.topic\.enable"
        r"|Adding partitions succeeded|Updated config for topic )",
    ),
    make_input(
        "output of kafka-storage or kafka-features",
        _START + r"(?:Formatting (?:\S++ )?(?:metadata |data )?director(?:y|ies)|Found log director(?:y|ies):"
        r"|Found metadata:|Bootstrap metadata: |Feature: \S++\s++SupportedMinVersion:|metadata\.version=)",
    ),
    make_input("output of kafka-cluster", _START + r"Cluster ID: \S++\s*+$"),
    make_unread(
        "load of Cruise Control",
        r"\s*+(?:HOST\s++BROKER\s++RACK\s++DISK|[\w.-]++,\s++[0-9]++,\s++[^\s,]++,(?:\s++[0-9./]++,?){5,}+\s*+$)",
        "Get kafka_cluster_state?verbose=true from Cruise Control, or run kafka-topics --describe.",
    ),
    make_unread("output of kafkactl", r"\s*+(?:- )?(?:[oO]ldestOffset|[nN]ewestOffset|inSyncReplicas|ISRs): ?"),
    make_input(
        "metrics of Prometheus or JMX",
        r"kafka_topic_partition_(?:leader|replicas?|in_sync_replica|under_replicated|leader_is_preferred)\w*+\{",
        "which count partitions without their replicas",
        shows_partitions=True,
    ),
    make_input(
        "metrics of Prometheus or JMX",
        r"(?:# (?:HELP|TYPE) [a-z_]\w*+ |kafka\.[a-z]++:type=[A-Za-z-]++"
        r"|(?:kafka|jvm|java|process|jmx)_\w++(?:\{[^}\n]*+\})? -?[0-9.eE+NIaifn-]++)",
        "which count partitions without their replicas",
    ),
    make_input(
        "a Kubernetes resource",
        r"\s*+(?:apiVersion: ?(?!kafka\.strimzi\.io/)\S|kind: ?(?!KafkaTopic\b)(?:Kafka\w*+|List)\s*+$"
        r"|NAME\s++CLUSTER\s++PARTITIONS\s++REPLICATION FACTOR\b"
        r"|NAME\s++READY\s++STATUS\s++RESTARTS\b)",
        _DECLARED,
        _IN_POD,
    ),
    make_input(
        "a file of Terraform or docker compose",
        r'\s*+(?:(?:resource|provider|module|data) "[\w-]++"|services:\s*+$|image: ?\S*+kafka|KAFKA_[A-Z_]++\s*+[:=])',
        _DECLARED,
    ),
    make_input(
        "the configuration of a broker",
        r"\s*+#?(?:broker\.id|node\.id|log\.dirs?|zookeeper\.connect|process\.roles|controller\.quorum\.voters"
        r"|advertised\.listeners|num\.partitions|default\.replication\.factor|offsets\.topic\.replication\.factor"
        r"|broker\.rack)\s*+=",
        "which does not show partitions",
    ),
    make_input(
        "the configuration of a client",
        r"\s*+(?:bootstrap\.servers|group\.id|(?:key|value)\.(?:de)?serializer|security\.protocol|sasl\.jaas\.config"
        r"|acks)\s*+=",
        "which does not show partitions",
    ),
)
# Headers of their tables, whose rows show no partitions with their replicas.
TABLE_HEADER = re.compile(
    _START + r"(?:GROUP\s++TOPIC\b|TOPIC\s++PARTITION\s++(?:CURRENT|NEW)-OFFSET\b"
    r"|NodeId\s++(?:DirectoryId\s++)?LogEndOffset\b|NAME\s++(?:READY|CLUSTER)\b)"
)
# What the shell and Kafka's tools print when a command fails. They claim no line: such lines may be beside data.
FAILURES = (
    _make_failure(
        "this is its usage text",
        r"\s*+(?:usage: |Option\s++Description|This tool helps to )|[^<\n]*+<(?:String|Integer|Long): [a-zA-Z]",
    ),
    _make_failure(
        "the shell did not find it", r".*(?:command not found|No such file or directory|not recognized as an internal)"
    ),
    _make_failure(
        "it found no topic",
        r"\s*+(?:no topics exist!|topic \S++ doesn't exist!)",  # of kafka-list-topic, Kafka 0.8.0
        "Check --zookeeper and --topic, and run the command again.",
    ),
    _make_failure(
        "no broker answered",
        r".*(?:Timed out waiting for a node assignment|Connection re\w++|could not be established|TimeoutException"
        r"|Broker may not be available|UnknownHostException|Bootstrap broker \S++ disconnected"
        r"|Failed to acquire metadata|Broker transport failure)",
        "Check --bootstrap-server (or --zookeeper), the listeners and the network, and run the command again.",
    ),
    _make_failure(
        "it was not authorized",
        r".*(?:AuthorizationException|AuthenticationException|[Nn]ot authorized|Permission denied|handshake failed)",
        "Pass the settings of a client that may describe topics with --command-config, and run the command again.",
    ),
    _make_failure(
        "this is its error",
        r"\s*+(?:list topic failed because of "  # of kafka-list-topic, Kafka 0.8.0
        r"|Error (?:response from daemon|from server|while executing)|[Ee]rror: |% ERROR: |Exception in thread"
        r"|Caused by: |[\w.$]*?(?:Exception|Error): |at [\w.$]++\(|Missing required arg"
        r"|command terminated with exit code [1-9])",
    ),
)
# What only a whole file can be.
WHOLE_FILES = (
    make_input(
        "a dump of a log of messages",
        r"\|? ?offset: [0-9]++ (?:CreateTime|LogAppendTime): ",
        remedy="Run kafka-dump-log --cluster-metadata-decoder on a __cluster_metadata log, or kafka-topics --describe.",
    ),
    make_input(
        "a log of a broker or a client",
        r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:,.]++\]? ",
        "which does not show where the replicas are now",
    ),
    make_unread(
        "output of cat -A",
        r".*\^I.*\$\s*+$",
        "Save it again without cat -A, which writes ^I for tabs and $ for line ends.",
    ),
    make_unread(
        "a list of PowerShell",
        r"(?:Topic|Partition|Leader)\s{2,}+: ?\S",
        "Save the output of kafka-topics itself: > FILE.",
    ),
    make_unread("RTF", r"\{\\rtf[0-9]", "Save it as plain text."),
    make_input(
        "a page of HTML",
        r"(?i)\s*+<(?:!doctype html|html|head|body)\b",
        "without output of a tool that this program reads",
        "If it shows output of a tool, copy that as text. The tables of consoles such as CMAK are not read: "
        "run kafka-topics --describe.",
    ),
)
NAMES_ONLY = make_input(
    "a list of names, as of kafka-topics --list", r"[a-zA-Z0-9._-]{1,249}(?: - marked for deletion)?\s*+$"
)
DOCUMENTS = (
    make_input(
        "a capacity file of Cruise Control",
        r'"brokerCapacities"\s*+:',
        "which lists capacities and not the brokers that exist",
        "Run kafka-topics --describe, or get kafka_cluster_state?verbose=true&json=true from Cruise Control.",
    ),
    make_input(
        "a plan of this program",
        r'"kind"\s*+:\s*+"kafka-placement plan"',
        "which is no source",
        "Use kafka-placement check DIR, or give the source that the plan was made from.",
    ),
    make_input(
        "an answer of this program",
        r'"conflicting_listings"\s*+:\s*+\[',
        "which is no source",
        "Give the source that it was made from.",
    ),
    make_unread("output of confluent-kafka", r"\b(?:Broker|Topic|Partition)Metadata\("),
    make_unread(
        "a KafkaTopic resource as JSON",
        r'"kind"\s*+:\s*+"KafkaTopic"',
        "Save it as YAML (kubectl get kafkatopics -o yaml) beside the output of kafka-topics --describe.",
    ),
    make_input("a Kubernetes resource", r'"apiVersion"\s*+:\s*+"', _DECLARED, _IN_POD),
    make_input("the configuration of a connector", r'"connector\.class"\s*+:'),
    make_input("metrics of Jolokia", r'"mbean"\s*+:\s*+"', "which count partitions without their replicas"),
)


_MAX_HEAD, _MAX_LINES = 200_000, 200  # characters and filled lines that show what a whole file is
_ANY_TOOL = re.compile("|".join(f"({entry.pattern.pattern})" for entry in TOOLS))
# The log of a broker has errors, too; that of a client or a tool shows why a command failed.
_LOG = re.compile(r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:,.]++Z?\]? ")
_CLIENT_LOG = re.compile(
    r"\bclientId=|AdminClient|NetworkClient|\((?:kafka\.admin|org\.apache\.kafka\.(?:tools|clients))\."
    r"|\] (?:ERROR|FATAL) [\w.$]*?(?:Exception|Error)\b"
)
_LOGGED_ERROR = re.compile(r"\s++at |\s*+(?:Caused by: |\.\.\. |[\w.$]*?(?:Exception|Error)\b)")
# They have the form of a replication-offset-checkpoint, but their offsets are no high watermarks.
_FILES = re.compile(r"(?:recovery-point|log-start|cleaner)-offset-checkpoint", re.I)


def find_by_name(name: str) -> UnsupportedInput | None:
    """Return what a file is by its name alone, or None."""
    match = _FILES.search(PurePath(name).name)
    if match is None:
        return None
    remedy = "Use replication-offset-checkpoint, which has the high watermarks, beside a kafka-topics --describe."
    return make_input(match[0].lower(), "", "whose offsets are not those of the replicas", remedy)


def find_by_text(text: str) -> tuple[UnsupportedInput, int | None, str] | None:
    """Return (what a text is of which no line is used; number and text of the line that shows it), or None."""
    numbered = enumerate(split_lines(text[:_MAX_HEAD]), 1)
    lines = [(number, line[:MAX_LOOK]) for number, line in numbered if line.strip()][:_MAX_LINES]
    for number, line in lines:
        if table := _find_table(line):
            return table, number, line.strip()
    without_logs = list(_leave_out_logs(lines))
    for entries, candidates in ((TOOLS, lines), (FAILURES, without_logs), (WHOLE_FILES, lines)):
        for entry in entries:
            for number, line in candidates:
                if entry.pattern.match(line):
                    return entry, number, line.strip()
    if document := _find_document(text):
        return document, None, ""
    named = [line for _, line in lines if classify_noise(line) != MARKUP]
    is_list = bool(named) and all(map(NAMES_ONLY.pattern.match, named))
    return (NAMES_ONLY, None, "") if is_list else None


def _leave_out_logs(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not of a log of a broker: what it logs is no error of a command."""
    is_logged = False
    for number, line in lines:
        if _LOG.match(line):
            is_logged = not _CLIENT_LOG.search(line)
        elif not _LOGGED_ERROR.match(line):
            is_logged = False
        if not is_logged:
            yield number, line


def _find_line(line: str) -> UnsupportedInput | None:
    line = line[:MAX_LOOK]
    match = _ANY_TOOL.match(line)  # one pattern is faster than many
    return _find_table(line) if match is None else TOOLS[(match.lastindex or 1) - 1]


def _find_table(line: str) -> UnsupportedInput | None:
    title = find_table(line)
    return None if title is None else make_unread(title, "")


def _find_document(text: str) -> UnsupportedInput | None:
    return next((entry for entry in DOCUMENTS if entry.pattern.search(text)), None)


def _read_rows(text: str, path: str) -> Iterator[Row]:
    """Give each line the input that it is of; rows of a table have it from the line above."""
    if (named := find_by_name(path)) is not None:
        for number, line in enumerate(split_lines(text), 1):
            yield number, decide_ignored(f"{named.title}: not used" if line.strip() else BLANK), line
        return
    entry: UnsupportedInput | None = None
    document: UnsupportedInput | None = None
    is_table = False
    warned: set[str] = set()
    begin = document_end = 0  # positions in the text; end of the document
    for number, line in enumerate(split_lines(text), 1):
        if begin >= document_end and DOCUMENT_BEGIN.match(line):
            document_end = find_document_end(text, begin)
            document = _find_document(text[begin : min(document_end, begin + _MAX_HEAD)])
        own = (document if begin < document_end else None) or _find_line(line)
        if own is not None:
            entry, is_table = own, find_table(line) is not None
        elif not line.strip():
            entry = None
        begin += len(line) + 1
        has_row = is_table and find_table(line) is None and is_row(line)
        is_beside = False
        if own is None and not has_row:  # a prompt, a log, a sentence in a table
            is_beside = is_table and any(map(str.isalnum, line))
            is_beside = is_beside or classify_noise(line) in (TOOL_MESSAGE, LOG_LINE, PROMPT)
        if entry is None or is_beside or not line.strip():
            yield number, None, line
        elif has_row:
            what = f"a row of {entry.title}, which this program does not read"
            yield number, decide_rejected(f"{quote(line.strip())} is {what}: use kafka-topics --describe"), line
        else:
            warning = None
            if entry.shows_partitions and not is_table and entry.title not in warned:
                warned.add(entry.title)
                remedy = f"{entry.remedy[0].lower()}{entry.remedy[1:-1]}"
                warning = f"this program does not read {entry.title}: {remedy}"
            yield number, json.dumps({"reason": f"{entry.title}: not used", "warning": warning}), line


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    facts = parse_line(None, raw)
    if context is None or any(kind != FactKind.IGNORED for kind, _ in facts):  # data never vanishes under a name
        return facts
    return ignore(**json.loads(context))


FORMAT = Format(
    "unsupported",
    "recognised, but not used",
    Signature(
        line=lambda line: _find_line(line) is not None,
        document=lambda text: _find_document(text) is not None,
        table=lambda line: find_table(line) is not None or TABLE_HEADER.match(line) is not None,
        has_rows=True,
    ),
    _parse_record,
    _read_rows,
)
