"""A cluster as it will be once a plan is executed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.merge.entities import LOG
from pipelines.ingest.merge.live_brokers import get_live_brokers
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.kafka_json import Key
from pipelines.plan_files.plan_check import Reassignment
from pipelines.plan_files.plan_reader import PlannedChange, StoredPlan
from pipelines.plan_files.planned_cluster import add_new_brokers, find_target
from udfs.arrow.columns import replace_columns
from udfs.failures.disk_limits import number_row_volumes
from udfs.failures.kernels.election import NO_BROKER
from udfs.failures.partition_health import find_elected_leaders
from udfs.failures.replica_logs import sum_column, sum_logs

_CHANGED = ("replicas", "isr", "leader", "logs")
# What a reassignment leaves empty when it is complete.
_ENDED = ("elr", "last_known_elr", "adding_replicas", "removing_replicas", "offline_replicas")


def assume_applied(snapshot: Snapshot, plan: StoredPlan, folder: Path) -> Snapshot:
    """Return the snapshot after a plan, with its brokers added, its copies in sync and its elections held.

    Replicas that stay and are out of sync remain so, as do those on brokers that are down.
    folder: of the plan, for errors.

    Raises: SourceError if a partition has neither the replicas before the plan nor those of one of its waves.
    """
    snapshot = add_new_brokers(snapshot, plan.added_brokers)
    now = find_lists(snapshot.partitions)
    for (topic, partition), change in plan.changes.items():
        if change.find(now.get((topic, partition), ())) is None:
            problem = f"the plan does not fit: {topic}-{partition} is not as it was when the plan was made"
            raise SourceError(
                str(folder),
                problem,
                f"See all differences with check; if it was carried out, leave --after {folder} out",
            )
    return make_changes(snapshot, plan.changes, plan.election)


def find_lists(partitions: pa.Table) -> dict[Key, tuple[int, ...]]:
    """Return the replicas of each partition, or those that its reassignment leads to."""
    names = ["topic", "partition", "replicas", "adding_replicas", "removing_replicas"]
    rows = partitions.select(names).to_pylist()
    return {(row["topic"], row["partition"]): tuple(find_target(row) or row["replicas"] or ()) for row in rows}


def undo_planned_moves(snapshot: Snapshot, plan: StoredPlan, moves: Iterable[Reassignment]) -> Snapshot:
    """Return the snapshot before those of the moves that the plan leads to, with nothing of them copied."""
    changes = {}
    for move in moves:
        if move.planned:
            key = (move.topic, move.partition)
            origin = {*move.target, *move.removing}.difference(move.adding)
            index = plan.changes[key].find_origin(origin, move.target)
            before = sorted(origin) if index is None else [*plan.changes[key].lists[index]]
            changes[key] = PlannedChange(before, ((1, before),))
    return make_changes(snapshot, changes, ())


def make_changes(snapshot: Snapshot, changes: Mapping[Key, PlannedChange], election: Sequence[Key]) -> Snapshot:
    """Return the snapshot after changes of its partitions, and elections of their preferred leaders."""
    partitions, live = snapshot.partitions, get_live_brokers(snapshot.brokers)
    keys = zip(partitions["topic"].to_pylist(), partitions["partition"].to_pylist(), strict=True)
    rows, live_ids = {key: row for row, key in enumerate(keys)}, set(live.tolist())
    sizes, only_dirs = partitions["size_bytes"].to_pylist(), _find_only_log_dirs(snapshot)
    columns: dict[str, list[Any]] = {name: partitions[name].to_pylist() for name in (*_CHANGED, *_ENDED)}
    for key, change in changes.items():
        row = rows[key]
        added = columns["adding_replicas"][row] or ()  # which will be in sync
        before = set(columns["replicas"][row]).difference(added)
        isr = set(columns["isr"][row] or ())
        in_sync = [broker for broker in change.after if broker in live_ids and (broker in isr or broker not in before)]
        leader = columns["leader"][row]
        leader = leader if leader in in_sync else next(iter(in_sync), None)
        for name in _ENDED:
            columns[name][row] = None if columns[name][row] is None else []
        logs = _place_logs(columns["replicas"][row], columns["logs"][row], sizes[row], change, only_dirs)
        state = {"replicas": change.after, "isr": in_sync, "leader": leader, "logs": logs}
        for name, value in state.items():
            columns[name][row] = value
    arrays = {name: pa.array(values, partitions.schema.field(name).type) for name, values in columns.items()}
    partitions = replace_columns(partitions, arrays)
    elected, is_held = find_elected_leaders(partitions, live), np.zeros(partitions.num_rows, dtype=np.bool_)
    is_held[[rows[key] for key in election]] = True
    is_held &= elected != NO_BROKER
    leader = pc.if_else(pa.array(is_held), pa.array(elected), partitions["leader"])
    partitions = replace_columns(partitions, {"leader": leader})
    after = replace(snapshot, partitions=partitions, topics=_change_factors(snapshot, changes))
    return update_volumes(snapshot, after)


def _change_factors(snapshot: Snapshot, changes: Mapping[Key, PlannedChange]) -> pa.Table:
    """Return the topics after a plan: Kafka takes their replication factor from partition 0."""
    factors = {
        topic: len(change.after)
        for (topic, partition), change in changes.items()
        if partition == 0 and len(change.after) != len(change.lists[0])
    }
    names, old = (snapshot.topics[name].to_pylist() for name in ("topic", "replication_factor"))
    new = [factors.get(name, factor) for name, factor in zip(names, old, strict=True)]
    return replace_columns(snapshot.topics, {"replication_factor": pa.array(new, pa.int32())})


def _find_only_log_dirs(snapshot: Snapshot) -> dict[int, str]:
    """Return the log dirs of the brokers that have one that is online and not cordoned."""
    rows = [row for row in snapshot.log_dirs.to_pylist() if row["log_dir_error"] is None and not row["cordoned"]]
    paths = [(row["broker_id"], row["log_dir"]) for row in rows]
    counts = Counter(broker for broker, _ in paths)
    return {broker: path for broker, path in paths if counts[broker] == 1}


def _place_logs(
    replicas: Sequence[int],
    logs: Sequence[dict[str, Any] | None] | None,
    size_bytes: int | None,
    change: PlannedChange,
    only_dirs: Mapping[int, str],
) -> list[dict[str, Any] | None] | None:
    """Return the logs of a partition's replicas after a change: those that stay, and copies in planned log dirs."""
    if logs is None:
        return None
    before = dict(zip(replicas, logs, strict=False))
    copy = dict.fromkeys(field.name for field in LOG) | {"size_bytes": size_bytes}
    new = {broker: copy | {"log_dir": only_dirs.get(broker)} for broker in change.after if broker not in before}
    known = before | new
    after = ((known[broker], change.log_dirs.get(broker)) for broker in change.after)
    return [log if log is None or path is None else log | {"log_dir": path} for log, path in after]


def update_volumes(before: Snapshot, after: Snapshot) -> Snapshot:
    """Return `after` with what volumes have left: less than before by what the logs on them have grown.

    Below 0 if they cannot hold them. Log dirs on one volume use the same bytes.
    """
    then, now = (sum_column(sum_logs(each.partitions, each.stray_logs, each.brokers)) for each in (before, after))
    rows = after.log_dirs.to_pylist()
    volumes, grown = number_row_volumes(rows), Counter[int]()
    for row, volume in zip(rows, volumes, strict=True):
        place = (row["broker_id"], row["log_dir"])
        grown[volume] += now[place] - then[place]
    changed = [
        row if row["usable_bytes"] is None else row | {"usable_bytes": row["usable_bytes"] - grown[volume]}
        for row, volume in zip(rows, volumes, strict=True)
    ]
    return replace(after, log_dirs=pa.Table.from_pylist(changed, after.log_dirs.schema))
