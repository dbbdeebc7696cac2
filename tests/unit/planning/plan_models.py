"""Small clusters and proposed assignments for the tests of waves and plan files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from pipelines.plan_files.kafka_json import get_source_lists
from udfs.arrow.ragged import offsets_of
from udfs.planning.cluster_model import ClusterModel, Int32s, ProposedAssignment
from udfs.planning.elections import elect_preferred_leaders
from udfs.planning.plan_metrics import MetricOptions, PlanMetrics, measure_plan

Lists = Sequence[Sequence[int]]
OPTIONS = MetricOptions()
Key = tuple[str, int]


def flat(lists: Lists) -> Int32s:
    """Join lists: int32."""
    return np.array([value for one in lists for value in one], dtype=np.int32)


def model_with(
    lists: Mapping[Key, Sequence[int]],
    brokers: Sequence[int],
    racks: Sequence[str] | None = None,
    sizes: Sequence[float] | None = None,
    down: Sequence[int] = (),
    leaders: Sequence[int] | None = None,
    factors: Mapping[str, int] | None = None,
) -> ClusterModel:
    """Make the model of partitions {(topic, id): broker ids in the source's order}."""
    keys = sorted(lists)
    names = tuple(sorted({topic for topic, _ in keys}))
    ids = np.array(sorted(brokers), dtype=np.int32)
    live = ~np.isin(ids, np.array(down, dtype=np.int32))
    first = [sorted(lists[key], key=lambda broker: broker in down) for key in keys]
    rack_names = tuple(sorted(set(racks or ())))
    p = len(keys)
    return ClusterModel(
        "c",
        ids,
        np.array([rack_names.index(rack) for rack in racks or ()] or [0] * len(ids), dtype=np.int32),
        rack_names,
        live,
        np.zeros(len(ids), dtype=np.bool_),
        names,
        np.array([names.index(topic) for topic, _ in keys], dtype=np.int32),
        np.array([partition for _, partition in keys], dtype=np.int32),
        offsets_of(np.array([len(one) for one in first], dtype=np.int64)),
        np.searchsorted(ids, flat(first)).astype(np.int32),
        np.array(sizes if sizes is not None else [1.0] * p, dtype=np.float64),
        np.zeros(p),
        np.zeros(p),
        (sizes is not None, False, False),
        np.zeros(p, dtype=np.int8),
        np.ones(p, dtype=np.int32),
        np.searchsorted(ids, flat([lists[key] for key in keys])).astype(np.int32),
        None if leaders is None else np.searchsorted(ids, np.array(leaders)).astype(np.int32),
        topic_factor=None if factors is None else np.array([factors[topic] for topic, _ in keys], dtype=np.int64),
    )


def proposal_with(model: ClusterModel, lists: Mapping[Key, Sequence[int]]) -> ProposedAssignment:
    """Make the proposal that changes these partitions only."""
    wanted = []
    for row, (begin, end) in enumerate(zip(model.offsets[:-1].tolist(), model.offsets[1:].tolist(), strict=True)):
        key = (model.topic_names[model.topic[row]], int(model.partition[row]))
        now = model.ids(model.replicas[begin:end])
        wanted.append(list(lists.get(key, now)))
    offsets = offsets_of(np.array([len(one) for one in wanted], dtype=np.int64))
    replicas = np.searchsorted(model.broker_ids, flat(wanted)).astype(np.int32)
    reason = np.where(model.find_changed(model.with_lists(offsets, replicas)), 0, -1).astype(np.int16)
    return ProposedAssignment(offsets, replicas, reason, ("moved away from a full broker",))


def measure(model: ClusterModel, proposal: ProposedAssignment, options: MetricOptions = OPTIONS) -> PlanMetrics:
    """Measure a proposal after the elections that succeed."""
    return measure_plan(model, proposal, elect_preferred_leaders(model, proposal), options)


def partitions_of(
    model: ClusterModel, moves: Mapping[Key, tuple[Sequence[int], Sequence[int]]] | None = None
) -> pa.Table:
    """Make the partitions table of a model. moves: {partition: (adding, removing)}."""
    rows = []
    for (topic, partition), replicas in get_source_lists(model, range(model.partitions)).items():
        adding, removing = (moves or {}).get((topic, partition), ((), ()))
        row = {"topic": topic, "partition": partition, "replicas": replicas, "state_inferred": False}
        rows.append(row | {"adding_replicas": list(adding) or None, "removing_replicas": list(removing)})
    ints = pa.list_(pa.int32())
    fields = [("topic", pa.string()), ("partition", pa.int32()), ("replicas", ints), ("state_inferred", pa.bool_())]
    return pa.Table.from_pylist(rows, pa.schema([*fields, ("adding_replicas", ints), ("removing_replicas", ints)]))


@st.composite
def models_and_proposals(draw: st.DrawFn) -> tuple[ClusterModel, ProposedAssignment]:
    """Draw lists before and after a plan, on up to 9 brokers with or without racks, some of them down."""
    brokers = draw(st.lists(st.integers(0, 2000), min_size=2, max_size=9, unique=True).map(sorted))
    down = draw(st.sets(st.sampled_from(brokers), max_size=len(brokers) - 1))
    live = [broker for broker in brokers if broker not in down]
    racks = draw(st.none() | st.lists(st.sampled_from("abcd"), min_size=len(brokers), max_size=len(brokers)))
    names = st.sampled_from(["orders", "a.b", "a_b", "-x-", "__consumer_offsets", "orders.dlq-7"])
    keys = draw(st.lists(st.tuples(names, st.integers(0, 2**31 - 1)), min_size=1, max_size=12, unique=True).map(sorted))
    lists, wanted, leaders = {}, {}, []
    for key in keys:
        lists[key] = draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=6, unique=True))
        wanted[key] = lists[key]
        if any(broker in live for broker in lists[key]) and draw(st.integers(0, 3)):
            wanted[key] = draw(st.lists(st.sampled_from(live), min_size=1, max_size=6, unique=True))
        leaders.append(draw(st.sampled_from(lists[key])))
    sizes = [float(draw(st.integers(0, 100))) for _ in keys]
    model = model_with(lists, brokers, racks, sizes, sorted(down), draw(st.sampled_from([None, leaders])))
    return model, proposal_with(model, wanted)
