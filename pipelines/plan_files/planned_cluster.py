"""The cluster that a plan is made for: with brokers that are to be added, and with reassignments that run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SettingsError
from pipelines.ingest.formats.live_requests import NO_REASSIGNMENTS
from pipelines.ingest.merge.live_brokers import get_down_brokers, get_releases
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.kafka_json import dump_reassignment
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.failures.topic_defaults import KAFKA_DEFAULTS, TopicDefaults
from udfs.planning.plan_request import PlanRequest
from udfs.wording import join_names

ADDED = "named in --add-brokers"  # reason why a broker counts as live
UNKNOWN_RACK = "RACK"  # where a proposal cannot name the rack


@dataclass(frozen=True)
class NewBroker:
    """A broker to add to a snapshot."""

    broker_id: int
    rack: str | None = None

    def __str__(self) -> str:
        """Return the broker as --add-brokers has it."""
        return f"{self.broker_id}" if self.rack is None else f"{self.broker_id}:{self.rack}"


def add_new_brokers(snapshot: Snapshot, brokers: Sequence[NewBroker]) -> Snapshot:
    """Add live brokers without replicas to a snapshot. Those that it has already stay as they are.

    Raises:
        SettingsError: A source shows another rack of a broker, or racks of all others and the new one has none.

    """
    racks = read_racks(snapshot)
    rows = []
    for broker in brokers:
        known_rack = racks.get(broker.broker_id)
        if broker.broker_id in racks:
            if broker.rack is not None and known_rack not in (None, broker.rack):
                problem = f"the sources show broker {broker.broker_id} in rack {known_rack}"
                raise SettingsError(f"--add-brokers {broker}: {problem}. Leave it out, or write this rack")
            continue
        if broker.rack is None and racks and None not in racks.values():
            problem = "all other brokers have a rack, and Kafka ignores all racks if one broker has none"
            raise SettingsError(
                f"--add-brokers {broker}: {problem}. Add its rack, as in {broker}:{min(racks.values(), key=str)}"
            )
        row = dict.fromkeys(snapshot.brokers.column_names)
        row |= {"broker_id": broker.broker_id, "rack": broker.rack, "live": True}
        row |= {"live_reason": ADDED, "controller": False, "draining": False}
        rows.append(row | {"replicas": 0, "leaders": 0})
    added = pa.Table.from_pylist(rows, snapshot.brokers.schema)
    return replace(snapshot, brokers=pa.concat_tables([snapshot.brokers, added]))


def list_added_brokers(snapshot: Snapshot) -> list[NewBroker]:
    """List the brokers that no source shows, and that were added to the snapshot."""
    columns = (snapshot.brokers[name].to_pylist() for name in ("broker_id", "rack", "live_reason"))
    return [NewBroker(id_, rack) for id_, rack, reason in zip(*columns, strict=True) if reason == ADDED]


def list_unknown_brokers(snapshot: Snapshot, brokers: Sequence[NewBroker]) -> list[NewBroker]:
    """List those of some brokers that the snapshot does not have."""
    known = set(snapshot.brokers["broker_id"].to_pylist())
    return [broker for broker in brokers if broker.broker_id not in known]


def explain_assumption(brokers: Sequence[NewBroker]) -> str:
    """Explain why brokers that no source shows count as live when a plan is checked."""
    names = name_with_noun([broker.broker_id for broker in brokers])
    return f"no source shows {names}, added with --add-brokers when the plan was made: counted as live"


def propose_new_brokers(snapshot: Snapshot, request: PlanRequest) -> list[NewBroker]:
    """Propose to add the brokers that a request fills and that no source shows; a replacement gets the old rack."""
    racks = read_racks(snapshot)
    has_racks = bool(racks) and None not in racks.values()
    old_of = {new: old for old, new in request.replacements}
    named = old_of.keys() if request.goal == "replace" else request.brokers if request.goal == "expand" else ()
    if not set(old_of.values()) <= racks.keys():
        return []
    return [
        NewBroker(id_, (racks[old_of[id_]] if id_ in old_of else UNKNOWN_RACK) if has_racks else None)
        for id_ in sorted(set(named) - racks.keys())
    ]


def explain_proposal(snapshot: Snapshot, proposed: Sequence[NewBroker]) -> tuple[str, str]:
    """Return the problem of an error about unknown brokers, and the remedy without the command that follows it."""
    names = name_with_noun([broker.broker_id for broker in proposed])
    problem = f"no source shows {names}: a broker without replicas is in no source but a list of brokers"
    if all(broker.rack is None for broker in proposed):
        return problem, "If live, add"
    known = join_names(sorted({str(rack) for rack in read_racks(snapshot).values()}))
    return problem, f"If live, add with the right rack (racks now: {known})"


def read_racks(snapshot: Snapshot) -> Mapping[int, str | None]:
    """Read the racks of all brokers by id; None where no source shows one."""
    columns = (snapshot.brokers[name].to_pylist() for name in ("broker_id", "rack"))
    return dict(zip(*columns, strict=True))


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
