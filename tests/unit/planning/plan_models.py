"""Small clusters and drafts of plans for the tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from pipelines.plan_files.kafka_json import lists_before
from udfs.arrow.ragged import offsets_of
from udfs.planning.cluster_model import (
    Draft,
    Places,
    Problem,
    changed,
)

Lists = Sequence[Sequence[int]]
Key = tuple[str, int]


def flat(lists: Lists) -> Places:
    """The lists behind one another: int32."""
    return np.array([value for one in lists for value in one], dtype=np.int32)


def problem_with(
    lists: Mapping[Key, Sequence[int]],
    brokers: Sequence[int],
    racks: Sequence[str] | None = None,
    sizes: Sequence[float] | None = None,
    dead: Sequence[int] = (),
    leaders: Sequence[int] | None = None,
) -> Problem:
    """The problem of partitions {(topic, id): broker ids in the source's order}."""
    keys = sorted(lists)
    names = tuple(sorted({topic for topic, _ in keys}))
    ids = np.array(sorted(brokers), dtype=np.int32)
    living = ~np.isin(ids, np.array(dead, dtype=np.int32))
    first = [sorted(lists[key], key=lambda broker: broker in dead) for key in keys]
    rack_names = tuple(sorted(set(racks or ())))
    p = len(keys)
    return Problem(
        "c",
        ids,
        np.array([rack_names.index(rack) for rack in racks or ()] or [0] * len(ids), dtype=np.int32),
        rack_names,
        living,
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
    )


def draft_with(problem: Problem, lists: Mapping[Key, Sequence[int]]) -> Draft:
    """The draft that sets these partitions, and leaves the others."""
    wanted = []
    for row, (begin, end) in enumerate(zip(problem.offsets[:-1].tolist(), problem.offsets[1:].tolist(), strict=True)):
        key = (problem.topic_names[problem.topic[row]], int(problem.partition[row]))
        now = problem.ids(problem.replicas[begin:end])
        wanted.append(list(lists.get(key, now)))
    offsets = offsets_of(np.array([len(one) for one in wanted], dtype=np.int64))
    replicas = np.searchsorted(problem.broker_ids, flat(wanted)).astype(np.int32)
    reason = np.where(changed(problem, offsets, replicas), 0, -1).astype(np.int16)
    return Draft(offsets, replicas, reason, ("moved away from a full broker",))


def partitions_of(problem: Problem, moves: Mapping[Key, tuple[Sequence[int], Sequence[int]]] | None = None) -> pa.Table:
    """The partitions table of a problem. moves: {partition: (adding, removing)}."""
    rows = []
    for (topic, partition), replicas in lists_before(problem, range(problem.partitions)).items():
        adding, removing = (moves or {}).get((topic, partition), ((), ()))
        row = {"topic": topic, "partition": partition, "replicas": replicas, "state_assumed": False}
        rows.append(row | {"adding_replicas": list(adding) or None, "removing_replicas": list(removing)})
    ints = pa.list_(pa.int32())
    fields = [("topic", pa.string()), ("partition", pa.int32()), ("replicas", ints), ("state_assumed", pa.bool_())]
    return pa.Table.from_pylist(rows, pa.schema([*fields, ("adding_replicas", ints), ("removing_replicas", ints)]))


@st.composite
def problems_and_drafts(draw: st.DrawFn) -> tuple[Problem, Draft]:
    """Any lists before and after, on up to 9 brokers with or without racks, some of them dead."""
    brokers = draw(st.lists(st.integers(0, 2000), min_size=2, max_size=9, unique=True).map(sorted))
    dead = draw(st.sets(st.sampled_from(brokers), max_size=len(brokers) - 1))
    alive = [broker for broker in brokers if broker not in dead]
    racks = draw(st.none() | st.lists(st.sampled_from("abcd"), min_size=len(brokers), max_size=len(brokers)))
    names = st.sampled_from(["orders", "a.b", "a_b", "-x-", "__consumer_offsets", "orders.dlq-7"])
    keys = draw(st.lists(st.tuples(names, st.integers(0, 2**31 - 1)), min_size=1, max_size=12, unique=True).map(sorted))
    lists, wanted, leaders = {}, {}, []
    for key in keys:
        lists[key] = draw(st.lists(st.sampled_from(brokers), min_size=1, max_size=6, unique=True))
        wanted[key] = lists[key]
        if any(broker in alive for broker in lists[key]) and draw(st.integers(0, 3)):
            wanted[key] = draw(st.lists(st.sampled_from(alive), min_size=1, max_size=6, unique=True))
        leaders.append(draw(st.sampled_from(lists[key])))
    sizes = [float(draw(st.integers(0, 100))) for _ in keys]
    problem = problem_with(lists, brokers, racks, sizes, sorted(dead), draw(st.sampled_from([None, leaders])))
    return problem, draft_with(problem, wanted)
