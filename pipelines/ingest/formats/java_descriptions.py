"""What Java programs print of topics: `TopicDescription` (AdminClient), `PartitionInfo` (consumers), and logs.

At level DEBUG, clients log the `PartitionMetadata` of each answer.
"""

import re
from collections.abc import Iterator

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.source_format import Fact, FactKind, Format, Row, Signature, ignore
from pipelines.ingest.text import classify_noise, find_marked, split_lines

# Each piece of a line that counts, in its order: `name=orders, internal=`, then partitions.
_TOPIC = r"\bname=(?P<topic>[^\s,()={}]++), internal="
_BEGIN = r"\(partition=[0-9]++, leader="
_INFO = r"Partition\(topic = "
_LOGGED = r"PartitionMetadata\(error="
_PIECE = re.compile(rf"{_TOPIC}|(?P<described>{_BEGIN})|(?P<info>{_INFO})|(?P<logged>{_LOGGED})")
_LOOKS = re.compile(rf"{_TOPIC}|{_BEGIN}|{_INFO}[^\s,]++, partition = [0-9]|{_LOGGED}")
# One of them is in each line that _LOOKS finds.
_MARKS = r", internal=|\(partition=|Partition\(topic = |PartitionMetadata\(error="
_HOST = r"[^\s,()=\[\]]*+"
_NODE = re.compile(rf"(?<![^\s,()=\[])({_HOST}) \(id: (-?[0-9]++) rack: ([^()\n]*?)(?: isFenced: (true|false))?\)")
_NODES = rf"\[?(?:{_HOST} \(id: -?[0-9]++ rack: [^()\n]*+\)(?:, )?+)*+\]?"
_DESCRIBED = re.compile(
    rf"\(partition=([0-9]++), leader=(none|null|{_NODES}),? ?replicas=({_NODES}),? ?isr=({_NODES})"
    rf"(?:,? ?elr=(N/A|{_NODES}),? ?lastKnownElr=(N/A|{_NODES}))?\)"
)
# Groups are named as columns of FACTS.
_IDS = r"[0-9, ]*+"
_PARTITION_INFO = re.compile(
    r"Partition\(topic = (?P<topic>[^\s,]++), partition = (?P<partition>[0-9]++), leader = (?P<leader>none|-?[0-9]++), "
    rf"replicas = \[(?P<replicas>{_IDS})\], isr = \[(?P<isr>{_IDS})\]"
    rf"(?:, offlineReplicas = \[(?P<offline_replicas>{_IDS})\])?\)"
)
_PLAIN_IDS = r"[0-9]*+(?:,[0-9]++)*+"
_PARTITION_METADATA = re.compile(
    rf"{_LOGGED}[A-Z_]++, partition=(?P<topic>[^\s,]{{1,249}})-(?P<partition>[0-9]++), "
    r"leader=Optional(?:\.empty|\[(?P<leader>-?[0-9]++)\]), "
    r"leaderEpoch=Optional(?:\.empty|\[(?P<leader_epoch>-?[0-9]++)\]), "
    rf"replicas=(?P<replicas>{_PLAIN_IDS}), isr=(?P<isr>{_PLAIN_IDS}), "
    rf"offlineReplicas=(?P<offline_replicas>{_PLAIN_IDS})\)"
)
_END = re.compile(r"\s*+(?:\)|, authorizedOperations)")
# Contexts.
_NODE_RECORD, _DESCRIBED_RECORD, _INFO_RECORD, _LOGGED_RECORD, _TEXT = "node", "partition ", "info", "logged", "text"
_MAX_PIECE = 20_000  # characters of a partition, which has few dozen nodes


def _read_rows(text: str, _path: str) -> Iterator[Row]:
    """Yield each partition, once each node with its rack, and the lines that have neither."""
    topic = ""
    nodes: set[str] = set()
    for number, line in enumerate(split_lines(text), 1):
        pieces = list(_PIECE.finditer(line))
        if not pieces:
            yield number, _TEXT, line
        for i, piece in enumerate(pieces):
            end = pieces[i + 1].start() if i + 1 < len(pieces) else len(line)
            if piece["topic"] is not None:
                topic = piece["topic"]
                if i + 1 == len(pieces):  # nothing of its partitions is on this line
                    yield number, _TEXT, line[piece.start() : end]
                continue
            raw = line[piece.start() : min(end, piece.start() + _MAX_PIECE)]
            contexts = {"info": _INFO_RECORD, "logged": _LOGGED_RECORD, "described": _DESCRIBED_RECORD + topic}
            yield number, contexts[piece.lastgroup or "described"], raw
            for node in _NODE.finditer(raw):
                if node[0] not in nodes:
                    nodes.add(node[0])
                    yield number, _NODE_RECORD, node[0]
            described = _DESCRIBED.match(raw)
            if described is not None and _END.match(raw, described.end()):
                topic = ""  # its description ends here


def _parse_record(context: str | None, raw: str) -> list[Fact]:
    context = context or _TEXT
    if context == _NODE_RECORD:
        return _parse_node(raw)
    if context == _INFO_RECORD:
        return [_parse_whole(_PARTITION_INFO, raw, "PartitionInfo")]
    if context == _LOGGED_RECORD:
        return [_parse_whole(_PARTITION_METADATA, raw, "PartitionMetadata")]
    if context.startswith(_DESCRIBED_RECORD):
        return [_parse_described(context.removeprefix(_DESCRIBED_RECORD), raw)]
    if _PIECE.search(raw) is None:
        return ignore(classify_noise(raw))
    if "replicas=" in raw:
        raise check.unparsable("the partitions of this topic are in a form that no client of Kafka prints")
    return ignore("text around a description")


def _parse_node(raw: str) -> list[Fact]:
    match = _NODE.fullmatch(raw)
    if match is None:
        raise check.unparsable(f"{check.quote(raw)} is no node")
    if match[2].startswith("-"):
        return ignore("no node")
    broker_id = check.as_int(match[2], "id")
    host, _, port = match[1].rpartition(":")
    if not host or port == "-1":  # the answer that the client got does not have it among the live brokers
        return [(FactKind.BROKER, {"broker_id": broker_id, "reported_live": False})]
    rack = match[3].strip()
    values = {
        "broker_id": broker_id,
        "host": check.as_text(host, "host"),
        "port": check.as_int(port, "port", 0, 65535),
        "rack": None if rack in ("null", "") else rack,
        "reported_live": False if match[4] == "true" else None,  # false of a node may mean that this is not known
    }
    return [(FactKind.BROKER, values)]


def _parse_described(topic: str, raw: str) -> Fact:
    match = _DESCRIBED.match(raw)
    if match is None:
        raise check.unparsable(f"{check.quote(raw)} is no whole partition of a TopicDescription (cut off?)")
    if not topic:
        raise check.unparsable("no name=TOPIC is before the partition: the topic is unknown")
    if unknown := next((node[0] for node in _NODE.finditer(match[3] + match[4]) if node[2].startswith("-")), None):
        raise check.unparsable(f"{check.quote(unknown)} is no broker, but stands among the replicas or the ISR")
    leader = _list_ids(match[2])
    values = {
        "topic": check.as_topic(topic, "name"),
        "partition": check.as_partition(match[1], "partition"),
        "leader": leader[0] if leader and leader[0] >= 0 else -1,
        "replicas": _list_ids(match[3]),
        "isr": _list_ids(match[4]),
        "elr": _list_ids(match[5]),
        "last_known_elr": _list_ids(match[6]),
    }
    return FactKind.PARTITION, values


def _list_ids(text: str | None) -> list[int] | None:
    return None if text in (None, "N/A") else [check.as_int(node[2], "id", -1) for node in _NODE.finditer(text or "")]


def _parse_whole(pattern: re.Pattern[str], raw: str, title: str) -> Fact:
    match = pattern.match(raw)
    if match is None:
        raise check.unparsable(f"{check.quote(raw)} is no whole {title} (cut off?)")
    return FactKind.PARTITION, check.read_columns(match.groupdict(), leader_epoch="leaderEpoch")


FORMAT = Format(
    "java-description",
    "TopicDescription or PartitionInfo of Kafka's Java clients, as Java prints them",
    Signature(find_marked(_MARKS, _LOOKS.search)),
    _parse_record,
    _read_rows,
)
