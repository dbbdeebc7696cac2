"""Topics: what is declared of them, what is shown of them, and what is missing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.ingest.merge.merged_schemas import TOPICS
from udfs.arrow.columns import Lists, codes, numbers, valid

_SHOWN_MISSING = 20


def _config_values(configs: dict[str, str], warnings: list[str]) -> dict[str, Any]:
    out: dict[str, Any] = {"min_insync_replicas": None, "unclean_leader_election": None}
    minimum = configs.get("min.insync.replicas")
    if minimum is not None:
        if re.fullmatch("[0-9]{1,9}", minimum) and int(minimum) >= 1:
            out["min_insync_replicas"] = int(minimum)
        else:
            warnings.append(f"min.insync.replicas={minimum} is no positive number")
    unclean = configs.get("unclean.leader.election.enable")
    if unclean is not None:
        if unclean.lower() in ("true", "false"):
            out["unclean_leader_election"] = unclean.lower() == "true"
        else:
            warnings.append(f"unclean.leader.election.enable={unclean} is neither true nor false")
    return out


def _missing(shown: np.ndarray, count: int) -> tuple[int, list[int]]:
    """(how many of 0..count-1 are not shown, the first of them); the cost is that of what is shown, not of count."""
    present = np.unique(shown)
    window = np.arange(min(count, len(present) + _SHOWN_MISSING + 1))
    return count - len(present), np.setdiff1d(window, present, assume_unique=True)[:_SHOWN_MISSING].tolist()


def describe_topics(declared: dict[str, dict[str, Any]], partitions: pa.Table) -> pa.Table:
    """One row per topic (schema TOPICS), by name.

    declared: {topic: merged fields of its TOPIC and CONFIG facts}.   partitions: schema PARTITIONS, sorted by topic
    and partition, without the quarantined.
    """
    topic_of, names = codes(partitions["topic"])
    number = numbers(partitions["partition"]).astype(np.int64)
    factor = np.diff(Lists.of(partitions["replicas"]).offsets)
    loaded = (
        valid(partitions["size_bytes"]) | valid(partitions["bytes_in_per_s"]) | valid(partitions["bytes_out_per_s"])
    )
    changes = np.flatnonzero(topic_of[1:] != topic_of[:-1]) + 1
    begins = np.r_[0, changes] if len(topic_of) else np.empty(0, np.int64)
    ends = np.r_[changes, len(topic_of)] if len(topic_of) else begins
    text = names.to_pylist()
    span = {text[topic_of[b]]: (int(b), int(e)) for b, e in zip(begins, ends, strict=True)}
    loads = partitions.select(["partition", "size_bytes", "bytes_in_per_s", "bytes_out_per_s"])

    rows = []
    for topic in sorted(span.keys() | declared.keys()):
        begin, end = span.get(topic, (0, 0))
        said = declared.get(topic, {})
        warnings: list[str] = []
        configs = said.get("configs") or {}
        count = said.get("partition_count")
        shown = number[begin:end]
        effective = max(int(count or 0), int(shown.max(initial=-1)) + 1)
        missing, some = _missing(shown, effective)
        if missing and begin < end:
            more = "" if missing == len(some) else f" and {missing - len(some)} more"
            warnings.append(f"{missing} of {effective} partitions are not shown: {', '.join(map(str, some))}{more}")
        if count is not None and int(shown.max(initial=-1)) >= count:
            warnings.append(f"declares {count} partitions but shows partition {int(shown.max())}")
        assigned = factor[begin:end]
        row = {
            "topic": topic,
            "topic_id": said.get("topic_id"),
            "partitions": effective,
            "listed_partitions": end - begin,
            "replication_factor": said.get("replication_factor") or (int(assigned.max(initial=0)) or None),
            "configs": list(configs.items()),
            "marked_for_deletion": bool(said.get("marked_for_deletion")),
            "incomplete": count is not None and end - begin < count,
            "warnings": warnings,
            **_config_values(configs, warnings),
        }
        regular = not missing
        keep = begin < end and (not regular or bool(loaded[begin:end].any()))
        row["partition_loads"] = loads.slice(begin, end - begin).to_pylist() if keep else None
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=TOPICS)
