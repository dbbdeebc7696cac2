"""A cluster as it will be once a plan is executed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.merge.entities import LOG
from pipelines.ingest.merge.live_brokers import get_live_brokers
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.kafka_json import Key
from pipelines.plan_files.log_dir_bytes import update_volumes
from pipelines.plan_files.new_brokers import add_new_brokers
from pipelines.plan_files.plan_reader import PlannedChange, StoredPlan
from udfs.arrow.columns import replace_columns

_CHANGED = ("replicas", "isr", "leader", "logs")
# What a reassignment leaves empty when it is complete.
_ENDED = ("elr", "last_known_elr", "adding_replicas", "removing_replicas", "offline_replicas")


def apply_plan(snapshot: Snapshot, plan: StoredPlan, folder: Path) -> Snapshot:
    """Return the snapshot after a plan, with its brokers added, its copies in sync and its elections held.

    Replicas that stay and are out of sync remain so, as do those on brokers that are down.
    folder: of the plan, for errors.

    Raises: SourceError if a partition has neither the replicas before the plan nor those of one of its waves.
    """
    snapshot = add_new_brokers(snapshot, plan.added_brokers)
    lists = snapshot.partitions.select(["topic", "partition", "replicas"]).to_pylist()
    now = {(row["topic"], row["partition"]): row["replicas"] for row in lists}
    for (topic, partition), change in plan.changes.items():
        if now.get((topic, partition)) not in change.lists:
            problem = f"the plan does not fit: {topic}-{partition} is not as it was when the plan was made"
            raise SourceError(str(folder), problem, "See all differences with plan --check, or make a new plan")
    return make_changes(snapshot, plan.changes, plan.election)


def make_changes(snapshot: Snapshot, changes: Mapping[Key, PlannedChange], election: Sequence[Key]) -> Snapshot:
    """Return the snapshot after changes of its partitions, and elections of their preferred leaders."""
    partitions, live = snapshot.partitions, set(get_live_brokers(snapshot.brokers).tolist())
    keys = zip(partitions["topic"].to_pylist(), partitions["partition"].to_pylist(), strict=True)
    rows = {key: row for row, key in enumerate(keys)}
    sizes, only_dirs = partitions["size_bytes"].to_pylist(), _find_only_log_dirs(snapshot)
    columns: dict[str, list[Any]] = {name: partitions[name].to_pylist() for name in (*_CHANGED, *_ENDED)}
    for key, change in changes.items():
        row = rows[key]
        before, isr = set(columns["replicas"][row]), set(columns["isr"][row] or ())
        in_sync = [broker for broker in change.after if broker in live and (broker in isr or broker not in before)]
        leader = columns["leader"][row]
        leader = leader if leader in in_sync else next(iter(in_sync), None)
        for name in _ENDED:
            columns[name][row] = None if columns[name][row] is None else []
        logs = _place_logs(columns["replicas"][row], columns["logs"][row], sizes[row], change, only_dirs)
        state = {"replicas": change.after, "isr": in_sync, "leader": leader, "logs": logs}
        for name, value in state.items():
            columns[name][row] = value
    for key in election:
        row = rows[key]
        preferred = columns["replicas"][row][0]
        if columns["leader"][row] is not None and preferred in columns["isr"][row] and preferred in live:
            columns["leader"][row] = preferred
    arrays = {name: pa.array(values, partitions.schema.field(name).type) for name, values in columns.items()}
    after = replace(snapshot, partitions=replace_columns(partitions, arrays), topics=_change_factors(snapshot, changes))
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
    """Return the log dirs of the brokers that have one online."""
    online = snapshot.log_dirs.filter(pc.is_null(snapshot.log_dirs["log_dir_error"]))
    brokers = online["broker_id"].to_pylist()
    counts = Counter(brokers)
    paths = zip(brokers, online["log_dir"].to_pylist(), strict=True)
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
