"""`inspect`: what was understood of a source."""

from __future__ import annotations

from typing import Any

from pipelines.ingest.formats.unrecognised import FORMAT as UNRECOGNISED
from pipelines.ingest.snapshot import Snapshot

_TOPIC_COLUMNS = (
    "topic",
    "topic_id",
    "partitions",
    "listed_partitions",
    "replication_factor",
    "configs",
    "marked_for_deletion",
    "incomplete",
    "warnings",
)
_PARTITION_COLUMNS = (
    "topic",
    "partition",
    "leader",
    "replicas",
    "isr",
    "elr",
    "leader_epoch",
    "adding_replicas",
    "removing_replicas",
    "size_bytes",
    "state_inferred",
)


def report(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as the object that `inspect --json` writes; no leader is null."""
    topics = snapshot.topics.select(_TOPIC_COLUMNS).to_pylist()
    for topic in topics:
        topic["configs"] = dict(topic["configs"] or [])
    partitions = snapshot.partitions.select(_PARTITION_COLUMNS).to_pylist()
    for partition in partitions:
        if partition["leader"] == -1:
            partition["leader"] = None
        for name in ("replicas", "isr"):
            partition[name] = partition[name] or []
    return {
        "cluster": snapshot.cluster_id,
        "format": "+".join(sorted(set(snapshot.formats.values()))),
        "sources": sources(snapshot),
        "skipped": list(snapshot.skipped),
        "brokers": snapshot.brokers.to_pylist(),
        "topics": topics,
        "partitions": partitions,
        "quarantined": snapshot.quarantined,
        "conflicts": snapshot.conflicts.to_pylist(),
    }


def sources(snapshot: Snapshot) -> list[dict[str, Any]]:
    """For each file: its format, and how many of its records were kept, quarantined and ignored, and why."""
    out = []
    accounts = snapshot.accounts.to_pylist()
    for name, format_name in snapshot.formats.items():
        row: dict[str, Any] = {"source": name, "format": format_name, "records": snapshot.records[name]}
        mine = [a for a in accounts if a["source"] == name]
        for verdict in ("kept", "quarantined", "ignored"):
            row[verdict] = sum(a["records"] for a in mine if a["verdict"] == verdict)
        row["ignored_reasons"] = {a["reason"]: a["records"] for a in mine if a["verdict"] == "ignored"}
        out.append(row)
    return out


def lines(answer: dict[str, Any]) -> list[str]:
    """The report as a person reads it (answer: of `report`)."""
    live = [b["broker_id"] for b in answer["brokers"] if b["live"]]
    down = {b["broker_id"]: b["live_reason"] for b in answer["brokers"] if not b["live"]}
    out = [f"cluster {answer['cluster']}"]
    for source in answer["sources"]:
        counts = ", ".join(f"{source[v]} {v}" for v in ("kept", "quarantined", "ignored"))
        out.append(f"  {source['source']} ({source['format']}): {source['records']} records: {counts}")
        out += [f"    ignored: {n} x {reason}" for reason, n in source["ignored_reasons"].items()]
        if source["format"] == UNRECOGNISED.name and not source["records"]:
            out.append("    nothing is read of it: it is empty, or no text")
    out += [f"  {name} is not read: only files right in the folder are" for name in answer["skipped"]]
    racks = {b["rack"] for b in answer["brokers"]} - {None}
    out.append(f"  brokers: {len(live)} live ({_ids(live)})" + (f", {len(racks)} racks" if racks else ""))
    out += [f"  broker {broker} is down: {because}" for broker, because in down.items()]
    unplaced = sum(not p["replicas"] for p in answer["partitions"])
    leaderless = sum(p["leader"] is None and bool(p["replicas"] or p["isr"]) for p in answer["partitions"])
    out.append(f"  topics: {len(answer['topics'])}, partitions: {len(answer['partitions'])}, leaderless: {leaderless}")
    if unplaced:
        led = sum(p["leader"] is not None and not p["replicas"] for p in answer["partitions"])
        out.append(
            f"  {unplaced} partitions without known replicas" + (f", {led} of them with a leader" if led else "")
        )
    inferred = sum(p["state_inferred"] for p in answer["partitions"])
    if inferred:
        out.append(f"  {inferred} partitions without leader and ISR in the sources: taken as healthy")
    for topic in answer["topics"]:
        marks = ["incomplete"] * topic["incomplete"] + ["marked for deletion"] * topic["marked_for_deletion"]
        if marks or topic["warnings"]:
            out.append(f"  topic {topic['topic']}: {'; '.join([*marks, *topic['warnings']])}")
    for row in answer["quarantined"]:
        out.append(f"  quarantined: {row['source']} line {row['line_number']}: {'; '.join(row['reasons'])}")
    for row in answer["conflicts"]:
        one = _said(row["value"], row["source"], row["line_number"])
        other = _said(row["other_value"], row["other_source"], row["other_line_number"])
        out.append(f"  conflict: {row['entity']}: {row['field']} is {one} or {other}: {row['outcome']}")
    return out


def _said(value: str, source: str | None, line_number: int | None) -> str:
    return value if source is None else f"{value} ({source} line {line_number})"


def _ids(ids: list[int]) -> str:
    return ",".join(map(str, ids[:20])) + (",..." if len(ids) > 20 else "")
