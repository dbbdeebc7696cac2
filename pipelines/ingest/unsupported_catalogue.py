"""Outputs, errors and files that are recognised but not used: how each is known, and what to run or do instead."""

import re
from typing import NamedTuple

_DESCRIBE = "Run kafka-topics --describe and save its output to a file."


class UnsupportedInput(NamedTuple):
    """An input that is not used."""

    title: str  # for the reason why its lines are ignored: "output of kafka-acls: not used"
    problem: str  # of a file that has nothing else
    remedy: str
    pattern: re.Pattern[str]  # of the beginning of a line, or of any part of a JSON document
    shows_partitions: bool = False  # an answer lacks what it shows


def make_input(
    title: str, pattern: str, remedy: str = _DESCRIBE, *, shows_partitions: bool = False
) -> UnsupportedInput:
    """Return an input that is not read; shows_partitions: it shows their state all the same, or that of brokers."""
    problem = f"is {title}, which " + (
        "this program does not read" if shows_partitions else "does not show where the replicas are"
    )
    return UnsupportedInput(title, problem, remedy, re.compile(pattern), shows_partitions)


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
        "output of kafka-metadata-quorum, kafka-storage, kafka-features or kafka-cluster",
        _START + r"(?:(?:ClusterId|LeaderId|LeaderEpoch|HighWatermark|CurrentVoters|CurrentObservers):\s|MaxFollowerLag"
        r"|NodeId\s++(?:DirectoryId\s++)?LogEndOffset\s++Lag\b"
        r"|Formatting (?:\S++ )?(?:metadata |data )?director(?:y|ies)|Found log director(?:y|ies):"
        r"|Found metadata:|Bootstrap metadata: |Feature: \S++\s++SupportedMinVersion:|metadata\.version="
        r"|Cluster ID: \S++\s*+$)",
        "Run kafka-topics --describe, or kafka-dump-log --cluster-metadata-decoder on a __cluster_metadata log.",
    ),
    make_input(
        "load of Cruise Control",
        r"\s*+(?:HOST\s++BROKER\s++RACK\s++DISK|[\w.-]++,\s++[0-9]++,\s++[^\s,]++,(?:\s++[0-9./]++,?){5,}+\s*+$)",
        "Get kafka_cluster_state?verbose=true from Cruise Control, or run kafka-topics --describe.",
        shows_partitions=True,
    ),
    make_input(
        "output of kafkactl",
        r"\s*+(?:- )?(?:[oO]ldestOffset|[nN]ewestOffset|inSyncReplicas|ISRs): ?",
        shows_partitions=True,
    ),
    make_input(
        "metrics of partitions",
        r"kafka_topic_partition_(?:leader|replicas?|in_sync_replica|under_replicated|leader_is_preferred)\w*+\{",
        shows_partitions=True,
    ),
    make_input(
        "metrics of Prometheus or JMX",
        r"(?:# (?:HELP|TYPE) [a-z_]\w*+ |kafka\.[a-z]++:type=[A-Za-z-]++"
        r"|(?:kafka|jvm|java|process|jmx)_\w++(?:\{[^}\n]*+\})? -?[0-9.eE+NIaifn-]++)",
    ),
    make_input(
        "a file of Kubernetes, Terraform or docker compose",
        r"\s*+(?:apiVersion: ?(?!kafka\.strimzi\.io/)\S|kind: ?(?!KafkaTopic\b)(?:Kafka\w*+|List)\s*+$"
        r"|NAME\s++CLUSTER\s++PARTITIONS\s++REPLICATION FACTOR\b"
        r"|NAME\s++READY\s++STATUS\s++RESTARTS\b"
        r'|(?:resource|provider|module|data) "[\w-]++"|services:\s*+$|image: ?\S*+kafka|KAFKA_[A-Z_]++\s*+[:=])',
    ),
    make_input(
        "the configuration of a broker or a client",
        r"\s*+(?:#?(?:broker\.id|node\.id|log\.dirs?|zookeeper\.connect|process\.roles|controller\.quorum\.voters"
        r"|advertised\.listeners|num\.partitions|default\.replication\.factor|offsets\.topic\.replication\.factor"
        r"|broker\.rack)|bootstrap\.servers|group\.id|(?:key|value)\.(?:de)?serializer|security\.protocol"
        r"|sasl\.jaas\.config|acks)\s*+=",
    ),
)
# Headers of their tables, whose rows show no partitions with their replicas.
TABLE_HEADER = re.compile(
    _START + r"(?:GROUP\s++TOPIC\b|TOPIC\s++PARTITION\s++(?:CURRENT|NEW)-OFFSET\b"
    r"|NodeId\s++(?:DirectoryId\s++)?LogEndOffset\b|NAME\s++(?:READY|CLUSTER)\b)"
)
# What the shell and Kafka's tools print when a command fails, or instead of doing what was meant. It claims no line:
# such lines may be beside data.
FAILURE = UnsupportedInput(
    "error of a command",
    "the command that wrote it failed",
    "Correct the command, the address of the brokers or the rights of the client (--command-config), and run it again.",
    re.compile(
        r"\s*+(?:usage: |Option\s++Description|This tool helps to |no topics exist!|topic \S++ doesn't exist!"
        r"|list topic failed because of |Error (?:response from daemon|from server|while executing)|[Ee]rror: "
        r"|% ERROR: |Exception in thread|Caused by: |[\w.$]*?(?:Exception|Error): |at [\w.$]++\(|Missing required arg"
        r"|command terminated with exit code [1-9])|[^<\n]*+<(?:String|Integer|Long): [a-zA-Z]"
        r"|.*(?:command not found|No such file or directory|not recognized as an internal"
        r"|Timed out waiting for a node assignment|Connection re\w++|could not be established|TimeoutException"
        r"|Broker may not be available|UnknownHostException|Bootstrap broker \S++ disconnected"
        r"|Failed to acquire metadata|Broker transport failure|AuthorizationException|AuthenticationException"
        r"|[Nn]ot authorized|Permission denied|handshake failed)"
    ),
)
# What only a whole file can be.
WHOLE_FILES = (
    make_input(
        "a dump of a log of messages",
        r"\|? ?offset: [0-9]++ (?:CreateTime|LogAppendTime): ",
        "Run kafka-dump-log --cluster-metadata-decoder on a __cluster_metadata log, or kafka-topics --describe.",
    ),
    make_input("a log of a broker or a client", r"\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:,.]++\]? "),
    make_input(
        "output of cat -A, a list of PowerShell or RTF",
        r".*\^I.*\$\s*+$|(?:Topic|Partition|Leader)\s{2,}+: ?\S|\{\\rtf[0-9]",
        "Save the output of the tool itself as plain text: > FILE.",
        shows_partitions=True,
    ),
    make_input(
        "a page of HTML",
        r"(?i)\s*+<(?:!doctype html|html|head|body)\b",
        "If it shows output of kafka-topics --describe or another supported tool, copy that as text.",
    ),
)
TABLE = make_input("a table of partitions of another tool", "", shows_partitions=True)
NAMES_ONLY = make_input(
    "a list of names, as of kafka-topics --list", r"[a-zA-Z0-9._-]{1,249}(?: - marked for deletion)?\s*+$"
)
DOCUMENTS = (
    make_input(
        "a capacity file of Cruise Control",
        r'"brokerCapacities"\s*+:',
        "Run kafka-topics --describe, or get kafka_cluster_state?verbose=true&json=true from Cruise Control.",
    ),
    make_input(
        "a plan or an answer of this program",
        r'"kind"\s*+:\s*+"kafka-placement plan"|"conflicting_listings"\s*+:\s*+\[',
        "Give the source that it was made from, or use plan --check DIR.",
    ),
    make_input("output of confluent-kafka", r"\b(?:Broker|Topic|Partition)Metadata\(", shows_partitions=True),
    make_input(
        "a KafkaTopic resource as JSON",
        r'"kind"\s*+:\s*+"KafkaTopic"',
        "Save it as YAML (kubectl get kafkatopics -o yaml) beside the output of kafka-topics --describe.",
        shows_partitions=True,
    ),
    make_input(
        "a Kubernetes resource, a connector or metrics of Jolokia",
        r'"apiVersion"\s*+:\s*+"|"connector\.class"\s*+:|"mbean"\s*+:\s*+"',
    ),
)
