"""Compares the leaders that `what-if --fail` predicts with those of a source from after the failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.ingest.snapshot_reader import Snapshot

_NO_LEADER = -1


@dataclass(frozen=True)
class LeaderDifference:
    """A partition whose leader is not the predicted one; None = offline. reason: why Kafka decided otherwise."""

    topic: str
    partition: int
    predicted: int | None
    actual: int | None
    reason: str


@dataclass(frozen=True)
class PredictionCheck:
    """How many leaders are as predicted, of the partitions in both sources."""

    partitions: int
    as_predicted: int
    differences: tuple[LeaderDifference, ...]
    only_before: int  # partitions that the later source does not show
    only_after: int


def check_prediction(
    predicted: Mapping[tuple[str, int], int | None], failed: Sequence[int], before: Snapshot, after: Snapshot
) -> PredictionCheck:
    """Compare predicted leaders with those of a later snapshot.

    predicted: of all partitions of `before`, by topic and partition; None = offline.
    """
    first, then = _list_partitions(before), _list_partitions(after)
    live = {row["broker_id"] for row in after.brokers.to_pylist() if row["live"] is not False}
    both = predicted.keys() & then.keys()
    differences = [
        LeaderDifference(
            *key, predicted[key], then[key]["leader"], _explain(predicted[key], failed, first[key], then[key], live)
        )
        for key in sorted(both)
        if predicted[key] != then[key]["leader"]
    ]
    return PredictionCheck(
        len(both),
        len(both) - len(differences),
        tuple(differences),
        len(predicted.keys() - then.keys()),
        len(then.keys() - predicted.keys()),
    )


def _list_partitions(snapshot: Snapshot) -> dict[tuple[str, int], dict[str, Any]]:
    """List leader (None = offline), replicas and ISR of each partition."""
    partitions = {}
    for row in snapshot.partitions.select(["topic", "partition", "leader", "replicas", "isr"]).to_pylist():
        leader = None if row["leader"] == _NO_LEADER else row["leader"]
        lists = {name: row[name] or [] for name in ("replicas", "isr")}
        partitions[row["topic"], row["partition"]] = {"leader": leader, **lists}
    return partitions


def _explain(
    predicted: int | None, failed: Sequence[int], before: Mapping[str, Any], after: Mapping[str, Any], live: set[int]
) -> str:
    """Explain why a partition has another leader than predicted; the first cause that fits."""
    if back := sorted(set(failed) & live & set(after["isr"])):
        return f"broker {back[0]} is in sync again, so the later source is not of this failure"
    if after["replicas"] != before["replicas"]:
        return f"its replicas changed from {before['replicas']} to {after['replicas']}"
    if predicted is not None and predicted not in live:
        return f"broker {predicted} is down too"
    if predicted is not None and predicted not in after["isr"]:
        return f"broker {predicted} has left the ISR since, which is now {after['isr']}"
    if predicted is None:
        return "it was led by a replica out of sync, or by one that came back: an unclean election, or a later one"
    if after["leader"] is None:
        return "no leader has been elected yet: Kafka notices a failure after broker.session.timeout.ms"
    if after["leader"] in failed:
        return f"broker {after['leader']} still led it: the later source is from before Kafka noticed the failure"
    if after["leader"] == after["replicas"][0]:
        return f"broker {after['leader']} is the preferred leader, and in sync again: an election of preferred leaders"
    return (
        f"broker {after['leader']} was elected although {predicted} is in sync and comes first in {after['replicas']}"
    )
