"""Simulate a million events over 100,000 partitions with Spark, and compare it with sorting them: `make bench-replay`.

Both read the event log from Delta and write Delta, in turn, in the same session. The result is the ratio of the
medians: 5.0 = all tables of the simulation take five times as long as sorting and writing the events.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from time import monotonic

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from pipelines.ingest.sources import SnapshotKey
from pipelines.simulation.simulation_writer import write_events, write_simulation
from pipelines.spark.session import open_session
from pipelines.spark.store import Store
from tests.bench.memory import Watch
from udfs.simulation.cluster_events import ClusterSettings, InitialPartition, InitialState, build_event_log
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.simulation_schemas import EVENTS

BENCH = SnapshotKey("bench", "bench")
TOPIC_PARTITIONS = 100
BROKERS = 100
STEP_MS = 2


def events(count: int, partitions: int, brokers: int, seed: int) -> pa.Table:
    """Return an initial cluster and `count` events (schema EVENTS).

    Half are fetches of replicas, 45 % appends; some brokers fail and return; the others are ISRs, preferred elections,
    reassignments and fetches of consumers.
    """
    draw = np.random.default_rng(seed)
    replicas = (np.arange(partitions)[:, None] + np.array([0, 7, 31])) % brokers
    live = frozenset(range(brokers))
    initial = tuple(
        InitialPartition(
            (f"topic-{p // TOPIC_PARTITIONS:05d}", p % TOPIC_PARTITIONS), tuple(r), tuple(r), r[0], min_isr=2
        )
        for p, r in enumerate(replicas.tolist())
    )
    state = InitialState(tuple(range(brokers)), live, initial, 0, 1, ClusterSettings(auto_leader_rebalance=True))
    p = draw.integers(0, partitions, count)
    kinds = draw.choice(
        [
            EventKind.FETCH,
            EventKind.APPEND,
            EventKind.ELECT_PREFERRED_LEADER,
            EventKind.ALTER_ISR,
            EventKind.REASSIGN_PARTITION,
            EventKind.BROKER_DOWN,
        ],
        count,
        p=[0.52, 0.45, 0.014, 0.01, 0.00598, 0.00002],
    )
    has_partition = kinds != EventKind.BROKER_DOWN
    fetch, append = kinds == EventKind.FETCH, kinds == EventKind.APPEND
    broker = np.where(fetch, replicas[p, draw.integers(1, 3, count)], -1)
    consumer = fetch & (draw.random(count) < 0.04)
    broker[consumer] = -1
    downs = np.flatnonzero(~has_partition)
    broker[downs] = np.repeat(draw.integers(0, brokers, (len(downs) + 1) // 2), 2)[: len(downs)]
    kind = np.array(EventKind.labels(), object)[kinds]
    kind[downs[1::2]] = EventKind.BROKER_UP.label
    lists = np.isin(kinds, [EventKind.ALTER_ISR, EventKind.REASSIGN_PARTITION])
    with_lists = np.flatnonzero(lists)
    values = np.where(
        (kinds[with_lists] == EventKind.REASSIGN_PARTITION)[:, None],
        (replicas[p[with_lists]] + 1) % brokers,
        replicas[p[with_lists]],
    )
    offsets = np.concatenate([[0], np.cumsum(np.where(lists, 3, 0))]).astype(np.int32)
    at = np.arange(count, dtype=np.int64) * STEP_MS
    names = np.array([f"topic-{i:05d}" for i in range((partitions - 1) // TOPIC_PARTITIONS + 1)], object)
    columns = {
        "event": pa.array(np.arange(count)),
        "at_ms": pa.array(at),
        "offset": pa.array(np.arange(count)),
        "kind": pa.array(kind, pa.string()),
        "broker_id": pa.array(broker.astype(np.int32), mask=broker < 0),
        "topic": pa.array(names[p // TOPIC_PARTITIONS], pa.string(), mask=~has_partition),
        "partition": pa.array((p % TOPIC_PARTITIONS).astype(np.int32), mask=~has_partition),
        "value": pa.array(np.zeros(count, np.int64)),
        "replicas": pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(values.ravel().astype(np.int32)), mask=pa.array(~lists)
        ),
        "request": pa.array(np.arange(count), mask=~(fetch | append)),
        "parts": pa.array(np.ones(count, np.int32)),
        "acks": pa.array(draw.choice(np.array([-1, -1, 1, 0], np.int32), count), mask=~append),
        "messages": pa.array(draw.integers(1, 50, count), mask=~append),
        "wait_ms": pa.array(np.where(append, 30_000, 500)),
        "min_bytes": pa.array(np.ones(count, np.int64)),
    }
    rows = pa.Table.from_arrays([columns.get(f.name, pa.nulls(count, f.type)) for f in EVENTS], schema=EVENTS)
    for i in range(2):
        rows = rows.set_column(i, EVENTS.field(i), pa.repeat("bench", count))
    first = build_event_log(state, [], 0, "bench", "bench")
    first = _set_times(first, 0, int(at[-1]), count)
    return pa.concat_tables([first, rows])


def _set_times(first: pa.Table, start: int, end: int, count: int) -> pa.Table:
    rows = first.to_pylist()
    rows[0]["numbers"][-5:-2] = [start, end, count]
    return pa.Table.from_pylist(rows, schema=EVENTS)


def write_sorted(store: Store, spark: SparkSession, folder: str) -> None:
    """Sort the events by partition and time with Spark, and write them."""
    rows = store.read("silver.cluster_events", [BENCH]).orderBy("topic", "partition", "at_ms")
    rows.write.format("delta").mode("overwrite").save(f"{folder}/sorted")


def main() -> None:
    """Print both medians, their ratio, and the peaks of memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session("bench-replay", warehouse=f"{folder}/spark")
        store = Store(spark, folder)
        write_events(store, events(options.events, options.partitions, BROKERS, options.seed), [BENCH])
        seconds: dict[str, list[float]] = {"sort and write": [], "replay": []}
        peaks: dict[str, int] = {}
        watch = Watch(os.getpid())
        for turn in range(options.rounds + 1):
            for name in seconds:
                began = monotonic()
                if name == "replay":
                    parts = write_simulation(store, [BENCH])
                else:
                    write_sorted(store, spark, folder)
                took = monotonic() - began
                peaks[name] = max(peaks.get(name, 0), watch.peak_between(began, began + took))
                if turn:  # the first turn warms both up
                    seconds[name].append(took)
                print(f"{name}: {took:.2f} s{'' if turn else ' (cold)'}")
            print("  " + ", ".join(f"{part} {one:.2f}" for part, one in parts.items()))
        watch.stop()
        for name in ("gold.leadership_events", "gold.state_transitions", "gold.replication_health", "gold.requests"):
            print(f"{name}: {store.read(name).count():,} rows")
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        ratio = medians["replay"] / medians["sort and write"]
        print(f"{options.events:,} events over {options.partitions:,} partitions: {medians}")
        print(f"replay / sort and write: {ratio:.2f}")
        memory = ", ".join(f"{name} {peak / 1e9:.2f} GB" for name, peak in peaks.items())
        print(f"peaks of memory, JVM and workers together: {memory}")


if __name__ == "__main__":
    main()
