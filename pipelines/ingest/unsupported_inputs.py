"""Inputs that are recognised but show no replicas: what each is, and what to run or do instead.

Lines of them beside other data are ignored under their name. A file that has nothing else is an error that names it.
"""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from pipelines.ingest.formats.describe_line import parse_line
from pipelines.ingest.source_format import Fact, FactKind, Format, Records, Row, Signature, ignore
from pipelines.ingest.text import BLANK, split_lines

_DESCRIBE = "Run kafka-topics --describe and save its output to a file."
_AGAIN = "Correct the command and run it again."
_DECLARED = "which declares topics or brokers, but does not show where the replicas are"
_IN_POD = (
    "Run kafka-topics --describe in a pod: kubectl exec POD -- bin/kafka-topics.sh --bootstrap-server ... --describe."
)
_MAX_LOOK = 2_000  # characters of a line that are compared
_MAX_HEAD, _MAX_LINES = 200_000, 200  # characters and filled lines that show what a whole file is


class UnsupportedInput(NamedTuple):
    """An input that is not used."""

    title: str  # for the reason why its lines are ignored: "output of kafka-acls: not used"
    problem: str  # of a file that has nothing else
    remedy: str
    pattern: re.Pattern[str]  # of the beginning of a line, or of any part of a JSON document


def _make(
    title: str, pattern: str, lacks: str = "which shows no replicas", remedy: str = _DESCRIBE
) -> UnsupportedInput:
    return UnsupportedInput(title, f"is {title}, {lacks}", remedy, re.compile(pattern))


def _make_failure(reason: str, pattern: str, remedy: str = _AGAIN) -> UnsupportedInput:
    return UnsupportedInput(
        "error of a command", f"the command that wrote it failed: {reason}", remedy, re.compile(pattern)
    )


_START = r"[\s>|#]*+"
# Outputs and files, each with a pattern that certainly is a line of it.
TOOLS = (
    _make(
        "output of kafka-consumer-groups",
        _START + r"(?:GROUP\s++(?:TOPIC|CONSUMER-ID|COORDINATOR)\b|TOPIC\s++PARTITION\s++(?:CURRENT|NEW)-OFFSET\b"
        r"|Consumer group '[^']*+' |TOTAL-LAG\s"
        r"|\S++\s++\S++\s++[0-9]++(?:\s++(?:-|[0-9]++)){2}\s++(?:-|-?[0-9]++)(?:\s++\S++){3}\s*+$)",
    ),
    _make(
        "output of kafka-configs",
        _START + r"(?:(?:Dynamic|All|Default|Static) (?:default )?configs? for \w++|Configs for \w++(?:-\w++)? '"
        r"|[a-z][a-z0-9._-]*+=.*? sensitive=(?:true|false) synonyms=\{|Completed updating config for )",
        "which does not show where the replicas are",
    ),
    _make(
        "output of kafka-acls",
        _START + r"(?:(?:Current|Adding) ACLs for resource|\(principal=\S++, host=|User:\S++ has (?:Allow|Deny) )",
    ),
    _make(
        "messages of kafka-topics",
        _START + r"(?:Topic '?[a-zA-Z0-9._-]++'? (?:is (?:already )?marked for deletion|already exists)"
        r"|WARNING: Due to limitations in metric names|Note: This will have no impact if delete\.topic\.enable"
        r"|Adding partitions succeeded|Updated config for topic )",
    ),
    _make(
        "output of kafka-metadata-quorum",
        _START + r"(?:(?:ClusterId|LeaderId|LeaderEpoch|HighWatermark|CurrentVoters|CurrentObservers):\s|MaxFollowerLag"
        r"|NodeId\s++(?:DirectoryId\s++)?LogEndOffset\s++Lag\b)",
        "which shows the controllers and not the partitions",
        "Run kafka-topics --describe, or kafka-dump-log --cluster-metadata-decoder on a __cluster_metadata log.",
    ),
    _make(
        "output of kafka-storage or kafka-features",
        _START + r"(?:Formatting (?:\S++ )?(?:metadata |data )?director(?:y|ies)|Found log director(?:y|ies):"
        r"|Found metadata:|Bootstrap metadata: |Feature: \S++\s++SupportedMinVersion:|metadata\.version=)",
    ),
    _make("output of kafka-cluster", _START + r"Cluster ID: \S++\s*+$"),
    _make(
        "metrics of Prometheus or JMX",
        r"(?:# (?:HELP|TYPE) [a-z_]\w*+ |kafka\.[a-z]++:type=[A-Za-z-]++"
        r"|(?:kafka|jvm|java|process|jmx)_\w++(?:\{[^}\n]*+\})? -?[0-9.eE+NIaifn-]++)",
        "which count partitions without their replicas",
    ),
    _make(
        "a Kubernetes resource",
        r"\s*+(?:apiVersion: ?\S|kind: ?(?:Kafka\w*+|List)\s*+$|NAME\s++CLUSTER\s++PARTITIONS\s++REPLICATION FACTOR\b"
        r"|NAME\s++READY\s++STATUS\s++RESTARTS\b)",
        _DECLARED,
        _IN_POD,
    ),
    _make(
        "a file of Terraform or docker compose",
        r'\s*+(?:(?:resource|provider|module|data) "[\w-]++"|services:\s*+$|image: ?\S*+kafka|KAFKA_[A-Z_]++\s*+[:=])',
        _DECLARED,
    ),
    _make(
        "the configuration of a broker",
        r"\s*+#?(?:broker\.id|node\.id|log\.dirs?|zookeeper\.connect|process\.roles|controller\.quorum\.voters"
        r"|advertised\.listeners|num\.partitions|default\.replication\.factor|offsets\.topic\.replication\.factor"
        r"|broker\.rack)\s*+=",
        "which does not show partitions",
    ),
    _make(
        "the configuration of a client",
        r"\s*+(?:bootstrap\.servers|group\.id|(?:key|value)\.(?:de)?serializer|security\.protocol|sasl\.jaas\.config"
        r"|acks)\s*+=",
        "which does not show partitions",
    ),
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
        "no broker answered",
        r".*(?:Timed out waiting for a node assignment|Connection re\w++|could not be established|TimeoutException"
        r"|Broker may not be available|UnknownHostException|Bootstrap broker \S++ disconnected)",
        "Check --bootstrap-server, the listeners and the network, and run the command again.",
    ),
    _make_failure(
        "it was not authorized",
        r".*(?:AuthorizationException|AuthenticationException|[Nn]ot authorized|Permission denied|handshake failed)",
        "Pass the settings of a client that may describe topics with --command-config, and run the command again.",
    ),
    _make_failure(
        "this is its error",
        r"\s*+(?:Error (?:response from daemon|from server|while executing)|error: |Exception in thread|Caused by: "
        r"|[\w.$]++(?:Exception|Error): |at [\w.$]++\(|Missing required arg)",
    ),
)
# What only a whole file can be.
WHOLE_FILES = (
    _make(
        "a dump of a log of messages",
        r"\|? ?offset: [0-9]++ (?:CreateTime|LogAppendTime): ",
        remedy="Run kafka-dump-log --cluster-metadata-decoder on a __cluster_metadata log, or kafka-topics --describe.",
    ),
    _make(
        "a log of a broker or a client",
        r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:,.]++\]? ",
        "which does not show where the replicas are now",
    ),
    _make(
        "a page of HTML",
        r"(?i)\s*+<(?:!doctype html|html|head|body)\b",
        "without output of a tool that this program reads",
        "Copy the text of the page.",
    ),
)
_NAMES_ONLY = _make(
    "a list of names, as of kafka-topics --list", r"[a-zA-Z0-9._-]{1,249}(?: - marked for deletion)?\s*+$"
)
DOCUMENTS = (
    _make(
        "a capacity file of Cruise Control",
        r'"brokerCapacities"\s*+:',
        "which lists capacities and not the brokers that exist",
        "Run kafka-topics --describe, or get kafka_cluster_state?verbose=true&json=true from Cruise Control.",
    ),
    _make(
        "a plan of this program",
        r'"kind"\s*+:\s*+"kafka-placement plan"',
        "which is no source",
        "Use plan --check DIR, or give the source that the plan was made from.",
    ),
    _make(
        "an answer of this program",
        r'"contradictions"\s*+:\s*+\[',
        "which is no source",
        "Give the source that it was made from.",
    ),
    _make("a Kubernetes resource", r'"apiVersion"\s*+:\s*+"', _DECLARED, _IN_POD),
    _make("the configuration of a connector", r'"connector\.class"\s*+:'),
    _make("metrics of Jolokia", r'"mbean"\s*+:\s*+"', "which count partitions without their replicas"),
)
# They have the form of a replication-offset-checkpoint, but their offsets are no high watermarks.
_FILES = re.compile(r"(?:recovery-point|log-start|cleaner)-offset-checkpoint", re.I)


def find_by_name(name: str) -> UnsupportedInput | None:
    """Return what a file is by its name alone, or None."""
    match = _FILES.search(PurePath(name).name)
    if match is None:
        return None
    remedy = "Use replication-offset-checkpoint, which has the high watermarks, beside a kafka-topics --describe."
    return _make(match[0].lower(), "", "whose offsets are not those of the replicas", remedy)


class RecognisedText(NamedTuple):
    """What a text is, and the line that shows it."""

    entry: UnsupportedInput
    line_number: int | None = None
    line: str = ""


def find_by_text(text: str) -> RecognisedText | None:
    """Return what a text is of which no line is used, or None."""
    numbered = enumerate(split_lines(text[:_MAX_HEAD]), 1)
    lines = [(number, line[:_MAX_LOOK]) for number, line in numbered if line.strip()][:_MAX_LINES]
    for entry in (*TOOLS, *FAILURES, *WHOLE_FILES):
        for number, line in lines:
            if entry.pattern.match(line):
                return RecognisedText(entry, number, line.strip())
    if document := _find_document(text):
        return RecognisedText(document)
    is_list = bool(lines) and all(_NAMES_ONLY.pattern.match(line) for _, line in lines)
    return RecognisedText(_NAMES_ONLY) if is_list else None


def _find_line(line: str) -> UnsupportedInput | None:
    line = line[:_MAX_LOOK]
    return next((entry for entry in TOOLS if entry.pattern.match(line)), None)


def _find_document(text: str) -> UnsupportedInput | None:
    return next((entry for entry in DOCUMENTS if entry.pattern.search(text)), None)


def _read_records(text: str, path: str) -> Records:
    return Records.from_rows(_read_rows(text, path))


def _read_rows(text: str, path: str) -> Iterator[Row]:
    """Give each line the name of its input; rows of a table have it from the line above."""
    named = find_by_name(path)
    title: str | None = None if named is None else named.title
    for number, line in enumerate(split_lines(text), 1):
        if named is None:
            entry = _find_line(line) or (_find_document(line) if line.lstrip()[:1] in ("{", "[") else None)
            if entry is not None:
                title = entry.title
            elif not line.strip():
                title = None
        yield number, title, line


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    if not raw.strip():
        return ignore(BLANK)
    facts = [] if context is not None and _FILES.search(context) else parse_line(None, raw)
    if context is None or any(kind != FactKind.IGNORED for kind, _ in facts):  # data never vanishes under a name
        return facts
    return ignore(f"{context}: not used")


FORMAT = Format(
    "unsupported",
    "recognised, but not used",
    Signature(line=lambda line: _find_line(line) is not None, document=lambda text: _find_document(text) is not None),
    _parse_record,
    _read_records,
)
