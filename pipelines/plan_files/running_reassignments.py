"""The reassignments that are under way: what they wait for, how long that takes, and how to cancel them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.live_requests import NO_REASSIGNMENTS
from pipelines.ingest.merge.live_brokers import get_down_brokers, get_releases
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.kafka_json import dump_reassignment
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults

_COLUMNS = ("topic", "partition", "leader", "replicas", "isr", "adding_replicas", "removing_replicas", "logs")


@dataclass(frozen=True)
class RunningReassignment:
    """A partition that is being reassigned."""

    topic: str
    partition: int
    replicas: list[int]  # with those that are being added
    adding: list[int]
    removing: list[int]
    target: list[int]  # the list that it leads to
    waits_for: list[int]  # brokers whose replicas have to join the ISR, by the rule of the cluster's version
    down: list[int]  # of these, those that are down, so that it does not end until they are back
    bytes_left: int | None  # that they have still to copy; None = no log dirs are shown
    # By which they became fewer each second between two looks at a running cluster; None = there was one look
    rate_bytes_per_s: float | None
    seconds_left: float | None  # at that rate, else at the throttle; None = not known, or nothing is copied

    @property
    def waits_for_removed(self) -> list[int]:
        """Brokers that it waits for in vain: an earlier request added their replicas, this one removes them."""
        return [broker for broker in self.waits_for if broker in self.removing]

    @property
    def is_stuck(self) -> bool:
        """Whether it does not end by itself: it waits for a broker that is down, or for a replica that it removes."""
        return bool(self.down or self.waits_for_removed)


@dataclass(frozen=True)
class RunningReassignments:
    """All reassignments of a cluster that are under way."""

    partitions: tuple[RunningReassignment, ...]  # by topic and partition
    throttle_bytes_per_s: float  # of the estimates
    cancel: str  # the JSON that kafka-reassign-partitions --cancel takes, for all of them
    cancel_stuck: str  # for those that do not end by themselves
    bytes_left: int | None  # of all that are not stuck and show them; None = none does
    # At the rate of all; at the throttle, of the broker that has most to copy; None = not known, or nothing is copied
    seconds_left: float | None
    is_known: bool = True  # False = a running cluster did not answer what is under way

    @property
    def stuck(self) -> list[RunningReassignment]:
        """Those that do not end by themselves."""
        return [one for one in self.partitions if one.is_stuck]


def find_target(partition: Mapping[str, Any]) -> list[int] | None:
    """Return the replicas that a reassignment under way gives a partition (a row of PARTITIONS); None = none is."""
    adding, removing = partition["adding_replicas"] or (), partition["removing_replicas"] or ()
    target = [broker for broker in partition["replicas"] or () if broker not in removing]
    return target if adding or removing else None


def select_reassigned(partitions: pa.Table) -> pa.Table:
    """Return the rows of PARTITIONS that are being reassigned."""
    counts = [pc.fill_null(pc.list_value_length(partitions[f"{name}_replicas"]), 0) for name in ("adding", "removing")]
    return partitions.filter(pc.greater(pc.add(*counts), 0))


def find_running_reassignments(
    snapshot: Snapshot,
    throttle_bytes_per_s: float,
    defaults: TopicDefaults = KAFKA_DEFAULTS,
    earlier: RunningReassignments | None = None,
    seconds: float = 0.0,
) -> RunningReassignments:
    """Find the reassignments under way, and what each waits for. earlier: those of `seconds` before, if known."""
    with_added = defaults.adapt_to(get_releases(snapshot.brokers)).completes_with_added
    rows = select_reassigned(snapshot.partitions).select(_COLUMNS)
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")])
    down = set(get_down_brokers(snapshot.brokers).tolist())
    throttle_bytes_per_s = pc.min(snapshot.brokers["follower_throttle_bytes_per_s"]).as_py() or throttle_bytes_per_s
    running = tuple(_describe(row, down, throttle_bytes_per_s, with_added) for row in rows.to_pylist())
    if earlier is not None:
        before = {(one.topic, one.partition): one for one in earlier.partitions}
        running = tuple(_measure_rate(one, before.get((one.topic, one.partition)), seconds) for one in running)
    stuck = [one for one in running if one.is_stuck]
    totals = _sum_left([one for one in running if one.waits_for and not one.is_stuck], throttle_bytes_per_s)
    cancel = _dump_cancel(running), _dump_cancel(stuck)
    return RunningReassignments(
        running, throttle_bytes_per_s, *cancel, *totals, not snapshot.has_state(NO_REASSIGNMENTS)
    )


def _describe(
    row: Mapping[str, Any], down: set[int], throttle_bytes_per_s: float, with_added: bool
) -> RunningReassignment:
    target, isr, adding = find_target(row) or [], row["isr"] or [], row["adding_replicas"] or []
    removing = row["removing_replicas"] or []
    awaited = dict.fromkeys(target if not with_added or len(removing) > len(adding) else ())
    awaited |= dict.fromkeys(adding if with_added else ())
    waits_for = [broker for broker in awaited if broker not in isr or broker in removing]
    left = _find_bytes_left(row, waits_for)
    return RunningReassignment(
        row["topic"],
        row["partition"],
        row["replicas"],
        adding,
        removing,
        target,
        waits_for,
        [broker for broker in waits_for if broker in down],
        left,
        None,
        None if left is None else round(left / throttle_bytes_per_s, 1),
    )


def _measure_rate(now: RunningReassignment, before: RunningReassignment | None, seconds: float) -> RunningReassignment:
    """Return a reassignment with the rate at which it copies, if it was already under way, to the same target."""
    if before is None or before.target != now.target or before.bytes_left is None or now.bytes_left is None:
        return now
    rate = max(before.bytes_left - now.bytes_left, 0) / seconds
    left = round(now.bytes_left / rate, 1) if rate else (None if now.bytes_left else 0.0)
    return replace(now, rate_bytes_per_s=round(rate, 1), seconds_left=left)


def _sum_left(running: Sequence[RunningReassignment], throttle_bytes_per_s: float) -> tuple[int | None, float | None]:
    """Sum the bytes that reassignments have still to copy, and estimate the seconds that this takes."""
    left = [one.bytes_left for one in running if one.bytes_left is not None]
    if not left:
        return None, None
    rates = [one.rate_bytes_per_s for one in running if one.rate_bytes_per_s is not None]
    if rates:
        seconds = sum(left) / sum(rates) if sum(rates) else None if sum(left) else 0.0
    else:
        by_broker = Counter[int]()
        for one in running:
            by_broker.update(dict.fromkeys(one.waits_for, one.bytes_left or 0))
        seconds = max(by_broker.values(), default=0) / throttle_bytes_per_s
    return sum(left), None if seconds is None else round(seconds, 1)


def _find_bytes_left(row: Mapping[str, Any], waits_for: list[int]) -> int | None:
    """Find the bytes that the replica with the shortest log has still to copy from the leader."""
    sizes = {
        broker: log["size_bytes"]
        for broker, log in zip(row["replicas"], row["logs"] or (), strict=False)
        if log is not None and log["size_bytes"] is not None
    }
    whole = sizes.get(row["leader"])
    if whole is None or not waits_for:
        return None if whole is None else 0
    return int(max(whole - min(sizes.get(broker, 0) for broker in waits_for), 0))


def _dump_cancel(partitions: tuple[RunningReassignment, ...] | list[RunningReassignment]) -> str:
    lists = {
        (one.topic, one.partition): [broker for broker in one.replicas if broker not in one.adding]
        for one in partitions
    }
    return dump_reassignment(lists)
