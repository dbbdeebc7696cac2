"""The text of Cruise Control's `kafka_cluster_state`: a table of partitions; its JSON is read by metadata_json."""

import re

from pipelines.ingest.formats.checked_values import as_int, as_partition, as_topic, quote, split_replicas, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Signature, ignore
from pipelines.ingest.text import PROSE, classify_noise

_HEADER = re.compile(
    r"\s*+(?:TOPIC\s++PARTITION\s++LEADER\s++REPLICAS\s++IN-SYNC\b.*"
    r"|BROKER\s++LEADER\(S\)\s++REPLICAS\s++OUT-OF-SYNC\b.*|BROKER\s++ONLINE-LOGDIRS\b.*)"
)
_TITLE = re.compile(
    r"\s*+(?:Brokers|LogDirs of brokers with replicas|Partitions with Offline Replicas"
    r"|(?:All|Offline|Other|Under \w++|Under Replicated, Offline, and Under MinIsr) Partitions"
    r"(?: in the Cluster \(verbose\))?):\s*+"
)
_BROKER_ROW = re.compile(r"\s*+[0-9]++(?:(?:\s++[0-9]++){3,5}\s++(?:true|false)|(?:\s++\[[^\]\n]*+\]){2})\s*+")
_IDS = r"\[((?:[0-9]++(?:, ?[0-9]++)*+)?+)\]"
_ROW = re.compile(
    r"\s*+([a-zA-Z0-9._-]++)\s++([0-9]++)\s++(-?[0-9]++)"
    rf"\s++{_IDS}\s++{_IDS}(?:\s++{_IDS})?(?:\s++{_IDS})?(?:\s++([0-9]++))?\s*+"
)
_NEARLY = re.compile(r"\s*+[a-zA-Z0-9._-]++\s++[0-9]++\s++-?[0-9]++\s++\[.*")


def _is_line(line: str) -> bool:
    pattern = _ROW if "[" in line else _HEADER
    return pattern.fullmatch(line[:2000]) is not None


def _parse_record(_context: str | None, raw: str) -> list[Fact]:
    match = _ROW.fullmatch(raw)
    if match is None:
        if _HEADER.fullmatch(raw) or _TITLE.fullmatch(raw):
            return ignore("header")
        reason = "counts of a broker" if _BROKER_ROW.fullmatch(raw) else classify_noise(raw)
        if reason == PROSE and _NEARLY.fullmatch(raw):
            raise unparsable(f"{quote(raw.strip())} is no whole row of a partition (cut off?)")
        return ignore(reason)
    topic = as_topic(match[1], "TOPIC")
    replicas, isr, offline = (split_replicas(match[group]) for group in (4, 5, 7))
    values = {
        "topic": topic,
        "partition": as_partition(match[2], "PARTITION"),
        "leader": as_int(match[3], "LEADER", -1),
        "replicas": replicas,
        "isr": isr,
        "offline_replicas": offline,
    }
    facts: list[Fact] = [(FactKind.PARTITION, values)]
    if match[8] is not None:
        facts.append((FactKind.CONFIG, {"topic": topic, "configs": {"min.insync.replicas": match[8]}}))
    return facts


FORMAT = Format(
    "cruise-control", "kafka_cluster_state of Cruise Control, as text", *(Signature(line=_is_line), _parse_record)
)
