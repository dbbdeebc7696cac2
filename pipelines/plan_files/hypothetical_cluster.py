"""A larger, smaller or busier cluster than the sources show: brokers added or removed, and loads multiplied."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import Infeasible, SourceError
from pipelines.ingest.merge.entities import LOG
from pipelines.ingest.merge.live_brokers import get_down_brokers
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.kafka_json import get_key, get_planned_lists, get_wave_lists
from pipelines.plan_files.plan_creation import solve_plan
from pipelines.plan_files.plan_reader import PlannedChange
from pipelines.plan_files.planned_cluster import NewBroker, read_racks
from pipelines.plan_files.state_after_plan import make_changes, update_volumes
from udfs.arrow.columns import replace_columns, to_array, to_lists
from udfs.arrow.ragged import any_true, offsets_of
from udfs.failures.topic_defaults import TopicDefaults
from udfs.planning.plan_metrics import MetricOptions
from udfs.planning.plan_request import PlanRequest
from udfs.planning.planned_waves import PlannedWaves
from udfs.planning.waves import WaveLimits
from udfs.wording import count_of, join_names

_MAX_SIZE = float(2**62)  # bytes
_LOADS = ("size_bytes", "bytes_in_per_s", "bytes_out_per_s")


@dataclass(frozen=True)
class Hypothesis:
    """How the cluster of an answer differs from that of its sources."""

    load_factor: float = 1.0
    added_brokers: tuple[NewBroker, ...] = ()
    removed_brokers: tuple[int, ...] = ()
    copied_replicas: int = 0  # by the plans that fill and empty brokers


@dataclass(frozen=True)
class PlanningOptions:
    """What a plan needs beside its request."""

    limits: WaveLimits
    metrics: MetricOptions
    defaults: TopicDefaults


def grow_loads(snapshot: Snapshot, factor: float) -> Snapshot:
    """Return the snapshot with all sizes and rates of partitions and replicas multiplied.

    Raises: SourceError if none is known.
    """
    partitions = snapshot.partitions
    known = [name for name in _LOADS if partitions[name].null_count < partitions.num_rows]
    if not known:
        problem = "its sources show neither sizes nor rates, which --grow multiplies"
        raise SourceError(snapshot.cluster_id, problem, "Add the output of kafka-log-dirs --describe, or metrics")
    columns = {name: pc.multiply(partitions[name].cast(pa.float64()), factor) for name in known}
    if "size_bytes" in columns:
        columns["size_bytes"] = _to_sizes(columns["size_bytes"])
        columns["logs"] = _grow_logs(to_array(partitions["logs"]), factor)
    return update_volumes(snapshot, replace(snapshot, partitions=replace_columns(partitions, columns)))


def _to_sizes(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.min_element_wise(pc.round(column), _MAX_SIZE, skip_nulls=False).cast(pa.int64())


def _grow_logs(logs: pa.ListArray, factor: float) -> pa.ListArray:
    """Multiply the sizes of the logs of all replicas (list<LOG>)."""
    values = logs.flatten()
    fields = {field.name: pc.struct_field(values, field.name) for field in LOG}
    fields["size_bytes"] = _to_sizes(pc.multiply(fields["size_bytes"].cast(pa.float64()), factor))
    grown = pa.StructArray.from_arrays(list(fields.values()), fields=list(LOG), mask=pc.is_null(values))
    lengths = pc.fill_null(pc.list_value_length(logs), 0).to_numpy(zero_copy_only=False)
    lists = pa.ListArray.from_arrays(pa.array(offsets_of(lengths), pa.int32()), grown)
    return pc.if_else(pc.is_valid(logs), lists, pa.nulls(len(lists), lists.type))


def name_new_brokers(snapshot: Snapshot, count: int) -> list[NewBroker]:
    """Name new brokers: the ids after the largest, each in the rack that has the fewest brokers by then.

    They have no rack unless all brokers of the cluster have one, as Kafka then ignores all racks.
    """
    racks = read_racks(snapshot)
    has_racks = bool(racks) and None not in racks.values()
    brokers_of = Counter(rack for rack in racks.values() if rack is not None)
    first = max(racks, default=-1) + 1
    added = []
    for broker in range(first, first + count):
        rack = min(sorted(brokers_of), key=brokers_of.__getitem__) if has_racks else None
        if rack is not None:
            brokers_of[rack] += 1
        added.append(NewBroker(broker, rack))
    return added


def assume_planned(snapshot: Snapshot, request: PlanRequest, options: PlanningOptions) -> tuple[Snapshot, int]:
    """Return (the snapshot after the plan for a request, replicas that the plan copies).

    Raises: Infeasible, or SourceError for a wrong request.
    """
    plan, _ = solve_plan(snapshot, request, options.limits, options.metrics, options.defaults)
    return assume_executed(snapshot, plan), plan.metrics.moves


def assume_executed(snapshot: Snapshot, plan: PlannedWaves) -> Snapshot:
    """Return the snapshot after all waves of a plan, and its elections."""
    lists = get_planned_lists(plan.model, plan.proposal)
    changes = {
        key: PlannedChange(lists.before[key], ((1, replicas),), log_dirs=lists.log_dirs.get(key, {}))
        for key, replicas in lists.after.items()
    }
    election = [get_key(plan.model, row) for row in np.flatnonzero(plan.elections.elected).tolist()]
    return make_changes(snapshot, changes, election)


def assume_first_wave(snapshot: Snapshot, plan: PlannedWaves) -> Snapshot:
    """Return the snapshot after the first wave of a plan."""
    before = get_planned_lists(plan.model, plan.proposal).before
    lists = get_wave_lists(plan.model, plan.waves, 0)
    return make_changes(snapshot, {key: PlannedChange(before[key], ((1, after),)) for key, after in lists.items()}, ())


def remove_brokers(snapshot: Snapshot, ids: Sequence[int]) -> tuple[Snapshot, int]:
    """Return (the snapshot without these brokers, partitions whose replicas are all on those that are down).

    Brokers that are down and have replicas without a copy elsewhere stay, as down: these partitions are lost with them.
    Raise Infeasible if other partitions still have replicas there.
    """
    partitions = snapshot.partitions
    replicas, down = to_lists(partitions["replicas"]), np.intersect1d(get_down_brokers(snapshot.brokers), ids)
    remains, is_lost = np.isin(replicas.values, ids), np.isin(replicas.values, down)
    is_stuck = any_true(remains & ~is_lost, replicas.offsets)
    lost = any_true(is_lost, replicas.offsets) & ~any_true(~is_lost, replicas.offsets)
    remaining = np.flatnonzero(is_stuck | (any_true(remains, replicas.offsets) & ~lost))
    if len(remaining):
        first = partitions.slice(int(remaining[0]), 1).to_pylist()[0]
        count = count_of(len(remaining), "partition")
        problem = f"{count} cannot be moved, such as {first['topic']}-{first['partition']}"
        remedy = f"kafka-placement plan --goal drain --brokers {','.join(map(str, ids))} says why"
        raise Infeasible(f"{snapshot.cluster_id}: --remove {join_names(ids)}: {problem}. {remedy}")
    holding = np.unique(replicas.values[is_lost]).tolist()
    gone = [id_ for id_ in ids if id_ not in holding]
    stays = pc.invert(pc.is_in(snapshot.brokers["broker_id"], pa.array(gone, pa.int32())))
    return replace(snapshot, brokers=snapshot.brokers.filter(stays)), int(lost.sum())
