"""A million events over 100,000 partitions, replayed and written, beside Spark's own sort and write of the same
events: `make bench-replay`.

Both read the event log from Delta and write Delta, in turn, in the same session. The figure is the ratio of the
medians: 5.0 = all tables of the replay cost what sorting and writing the events costs five times over.
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
from pipelines.simulation.simulation_run import write_events, write_replay
from pipelines.spark.session import open_session
from pipelines.spark.store import Store
from tests.bench.memory import Watch
from udfs.simulation.cluster_events import Begin, Held, Rules, event_log
from udfs.simulation.event_names import KINDS
from udfs.simulation.kernels import codes as k
from udfs.simulation.simulation_schemas import EVENTS

BENCH = SnapshotKey("bench", "bench")
TOPIC_PARTITIONS = 100
BROKERS = 100
STEP_MS = 2


def events(count: int, partitions: int, brokers: int, seed: int) -> pa.Table:
    """`count` events (EVENTS), and the cluster at first: half are fetches of replicas, 45 % appends, some brokers
    fail and return, the others are ISRs, preferred elections, reassignments and fetches of consumers."""
    draw = np.random.default_rng(seed)
    replicas = (np.arange(partitions)[:, None] + np.array([0, 7, 31])) % brokers
    live = frozenset(range(brokers))
    held = tuple(
        Held((f"topic-{p // TOPIC_PARTITIONS:05d}", p % TOPIC_PARTITIONS), tuple(r), tuple(r), r[0], min_isr=2)
        for p, r in enumerate(replicas.tolist())
    )
    rules = Rules(auto_leader_rebalance=True)
    begin = Begin(tuple(range(brokers)), live, held, 0, 1, rules)
    p = draw.integers(0, partitions, count)
    kinds = draw.choice(
        [k.FETCH, k.APPEND, k.ELECT_PREFERRED, k.SET_ISR, k.REASSIGN, k.BROKER_DOWN],
        count,
        p=[0.52, 0.45, 0.014, 0.01, 0.00598, 0.00002],
    )
    own = kinds != k.BROKER_DOWN
    fetch, append = kinds == k.FETCH, kinds == k.APPEND
    broker = np.where(fetch, replicas[p, draw.integers(1, 3, count)], -1)
    consumer = fetch & (draw.random(count) < 0.04)
    broker[consumer] = -1
    downs = np.flatnonzero(~own)
    broker[downs] = np.repeat(draw.integers(0, brokers, (len(downs) + 1) // 2), 2)[: len(downs)]
    kind = np.array(KINDS, object)[kinds]
    kind[downs[1::2]] = KINDS[k.BROKER_UP]
    lists = np.isin(kinds, [k.SET_ISR, k.REASSIGN])
    chosen = np.flatnonzero(lists)
    values = np.where((kinds[chosen] == k.REASSIGN)[:, None], (replicas[p[chosen]] + 1) % brokers, replicas[p[chosen]])
    offsets = np.concatenate([[0], np.cumsum(np.where(lists, 3, 0))]).astype(np.int32)
    at = np.arange(count, dtype=np.int64) * STEP_MS
    names = np.array([f"topic-{i:05d}" for i in range((partitions - 1) // TOPIC_PARTITIONS + 1)], object)
    columns = {
        "event": pa.array(np.arange(count)),
        "at_ms": pa.array(at),
        "offset": pa.array(np.arange(count)),
        "kind": pa.array(kind, pa.string()),
        "broker_id": pa.array(broker.astype(np.int32), mask=broker < 0),
        "topic": pa.array(names[p // TOPIC_PARTITIONS], pa.string(), mask=~own),
        "partition": pa.array((p % TOPIC_PARTITIONS).astype(np.int32), mask=~own),
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
    first = event_log(begin, [], 0, "bench", "bench")
    first = _with_times(first, 0, int(at[-1]), count)
    return pa.concat_tables([first, rows])


def _with_times(first: pa.Table, start: int, end: int, count: int) -> pa.Table:
    rows = first.to_pylist()
    rows[0]["numbers"][-5:-2] = [start, end, count]
    return pa.Table.from_pylist(rows, schema=EVENTS)


def sorted_write(store: Store, spark: SparkSession, folder: str) -> None:
    """Spark's own sort of the events by partition and time, and its write."""
    rows = store.read("silver.cluster_events", [BENCH]).orderBy("topic", "partition", "at_ms")
    rows.write.format("delta").mode("overwrite").save(f"{folder}/sorted")


def main() -> None:
    """Print both medians, their ratio, and the peak of memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session("bench-replay", warehouse=f"{folder}/spark")
        store = Store(spark, folder)
        write_events(spark, store, events(asked.events, asked.partitions, BROKERS, asked.seed), [BENCH])
        seconds: dict[str, list[float]] = {"sort and write": [], "replay": []}
        peaks: dict[str, int] = {}
        watch = Watch(os.getpid())
        for turn in range(asked.rounds + 1):
            for name in seconds:
                began = monotonic()
                if name == "replay":
                    parts = write_replay(store, [BENCH])
                else:
                    sorted_write(store, spark, folder)
                took = monotonic() - began
                peaks[name] = max(peaks.get(name, 0), watch.peak_between(began, began + took))
                if turn:  # the first warms both up
                    seconds[name].append(took)
                print(f"{name}: {took:.2f} s{'' if turn else ' (cold)'}")
            print("  " + ", ".join(f"{part} {one:.2f}" for part, one in parts.items()))
        watch.stop()
        for name in ("gold.leadership_events", "gold.state_transitions", "gold.replication_health", "gold.requests"):
            print(f"{name}: {store.read(name).count():,} rows")
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        ratio = medians["replay"] / medians["sort and write"]
        print(f"{asked.events:,} events over {asked.partitions:,} partitions: {medians}")
        print(f"replay / sort and write: {ratio:.2f}")
        told = ", ".join(f"{name} {peak / 1e9:.2f} GB" for name, peak in peaks.items())
        print(f"peaks of memory, JVM and workers together: {told}")


if __name__ == "__main__":
    main()
