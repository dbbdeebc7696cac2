"""The health of a cluster of Redpanda: which brokers are up, and which partitions are in trouble.

`rpk cluster health` prints it as lines; `/v1/cluster/health_overview` of the admin API is the same as JSON.
"""

import re
from collections.abc import Iterator, Sequence

from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.source_format import Fact, FactKind, ignore
from udfs.wording import count_of, is_or_are

HEALTH_LINE = re.compile(
    r"[\s>|#]*+(?:(CLUSTER HEALTH OVERVIEW)\s*+$|(Healthy):\s++(?:true|false)\s*+$|(Unhealthy reasons):\s++\["
    r"|(Controller ID):\s++(?=-?[0-9])|(All nodes|Nodes down|Nodes in recovery mode|High disk usage nodes):\s++\["
    r"|(Leaderless partitions|Under-replicated partitions) \(([0-9]{1,9})\):\s++\[)"
)
_DOCUMENT = re.compile(r'"is_healthy"\s*+:|"leaderless_count"\s*+:')
_LIST = re.compile(r"([^\[\]\n]*+)\](?: ?\(truncated\))?\s*+")
_TOPICS = "kafka/"  # namespace of topics; the others are Redpanda's own
_REASON = "health of the cluster"
_NAMED = 10  # partitions that a warning names


def is_health_document(text: str) -> bool:
    """Return whether a JSON document is the answer of /v1/cluster/health_overview."""
    return _DOCUMENT.search(text) is not None


def parse_health_document(raw: str) -> list[Fact]:
    """Return the facts of an answer of /v1/cluster/health_overview."""
    values = check.parse_object(raw, "the health of the cluster", "the document")
    facts: list[Fact] = []
    if (controller := values.find("controller_id", check.as_int, -1)) is not None and controller >= 0:
        facts.append((FactKind.BROKER, {"broker_id": controller, "controller": True}))
    listed = values.find("nodes_down", check.as_list)
    down = None if listed is None else list(map(str, listed))
    for name, ids in (("All nodes", values.find("all_nodes", check.as_list) or ()), ("Nodes down", down or ())):
        facts.extend(_read_brokers(name, list(map(str, ids)), down))
    for name, key in (("Leaderless partitions", "leaderless"), ("Under-replicated partitions", "under_replicated")):
        partitions = [check.as_text(item, key) for item in values.find(f"{key}_partitions", check.as_list) or ()]
        count = values.find(f"{key}_count", check.as_int)
        own = _parse_partitions(name, len(partitions) if count is None else count, partitions)
        facts.extend(fact for fact in own if fact[0] != FactKind.IGNORED or "warning" in fact[1])
    return facts or ignore(_REASON)


def find_down_nodes(lines: Sequence[str]) -> list[str] | None:
    """Return the brokers of the line `Nodes down`; None without one that can be read."""
    for line in lines:
        if "Nodes down:" in line and (item := HEALTH_LINE.match(line)) and (ids := _LIST.fullmatch(line, item.end())):
            return ids[1].split()
    return None


def parse_health_line(raw: str, down: Sequence[str] | None) -> list[Fact]:
    """Return the facts of a line of `rpk cluster health`. down: the brokers that it lists as down; None = unknown."""
    item = HEALTH_LINE.match(raw)
    name = "" if item is None else next(filter(None, item.groups()))
    if item is None or name in ("CLUSTER HEALTH OVERVIEW", "Healthy", "Unhealthy reasons"):
        return ignore(_REASON)
    if name == "Controller ID":
        controller = check.as_int(raw[item.end() :].strip(), name, -1)
        return (
            [(FactKind.BROKER, {"broker_id": controller, "controller": True})] if controller >= 0 else ignore(_REASON)
        )
    listed = _LIST.fullmatch(raw, item.end())
    if listed is None:
        raise check.unparsable(f"{check.quote(raw.strip())} is no whole line of rpk cluster health (cut off?)")
    if item[6] is not None:
        return _parse_partitions(name, int(item[7]), listed[1].split())
    return list(_read_brokers(name, listed[1].split(), down)) or ignore(_REASON)


def _read_brokers(name: str, ids: Sequence[str], down: Sequence[str] | None) -> Iterator[Fact]:
    for text in ids:
        values: dict[str, object] = {"broker_id": check.as_int(text, name)}
        if name == "Nodes down":
            values["reported_live"] = False
        elif name == "All nodes" and down is not None:
            values["reported_live"] = text not in down
        yield FactKind.BROKER, values


def _parse_partitions(name: str, count: int, partitions: Sequence[str]) -> list[Fact]:
    """Return the facts of leaderless partitions, and a warning, because rpk shows neither their replicas nor ISRs."""
    if not count:
        return ignore(_REASON)
    places = [_read_place(item) for item in partitions if item.startswith(_TOPICS)]
    named = ", ".join([*(f"{topic}-{number}" for topic, number in places[:_NAMED]), *["..."] * (count > _NAMED)])
    counted = f"{count_of(count, 'partition')}{f' ({named})' if places else ''}"
    if name == "Under-replicated partitions":
        remedy = "rpk does not show which replicas are in sync"
        return ignore(_REASON, f"{counted} {is_or_are(count)} under-replicated: {remedy}")
    verb, owner = ("has", "its") if count == 1 else ("have", "their")
    remedy = f"rpk topic describe --print-all TOPIC shows {owner} replicas"
    facts: list[Fact] = [(FactKind.PARTITION, {"topic": t, "partition": n, "leader": -1}) for t, n in places]
    return facts + ignore(_REASON, f"{counted} {verb} no leader: {remedy}")


def _read_place(item: str) -> tuple[str, int]:
    topic, _, number = item.removeprefix(_TOPICS).rpartition("/")
    return check.as_topic(topic, "partition"), check.as_partition(number, "partition")
