"""Hotspots over seeds from Spark: clusters in, each with its topics as arrays; what chunks of the seeds found out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of
from udfs.hotspots.hotspot_distribution import HotspotDistribution, Mix, Trial, int64, observed_max
from udfs.placement.topic_batches import LiveBrokers

TOPIC = pa.struct(
    [
        ("name", pa.int64()),  # of names_of
        ("partitions", pa.int32()),
        ("factor", pa.int32()),
        ("listed", pa.list_(pa.int32())),  # just these partitions; null = all
    ]
)
BROKER = pa.struct([("broker_id", pa.int32()), ("rack", pa.string())])
LED = pa.struct([("broker_id", pa.int32()), ("leaders", pa.int64())])
# A cluster's live brokers, its topics, who leads how many now, and which chunk of the seeds to try.
CLUSTERS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("snapshot_id", pa.string()),
        ("chunk", pa.int32()),
        ("topics", pa.list_(TOPIC)),
        ("brokers", pa.list_(BROKER)),
        ("led", pa.list_(LED)),
    ]
)
_FACTS = pa.schema(
    [
        ("brokers", pa.int64()),
        ("unplaceable_topics", pa.int64()),
        ("partitions", pa.int64()),
        ("single_partition_topics", pa.int64()),
        ("single_partition_leaders_max_expected", pa.float64()),
        ("random_leaders_max_expected", pa.float64()),
        ("observed_leaders_max", pa.int64()),
        ("observed_max_over_mean_ratio", pa.float64()),
    ]
)
# By one scheme: the hottest broker of each seed of the chunk. The facts stand in chunk 0 alone.
TRIED = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster_id", "snapshot_id", "scheme")),
        ("leaders_max", pa.list_(pa.int64())),
        ("replicas_max", pa.list_(pa.int64())),
        ("replica_count", pa.int64()),
        *_FACTS,
    ]
)
ABOVE = pa.struct([("above_ratio", pa.float64()), ("probability", pa.float64())])
DISTRIBUTION = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster_id", "snapshot_id", "scheme")),
        ("seeds", pa.int64()),
        *((name, _FACTS.field(name).type) for name in _FACTS.names[:4]),
        ("leaders_mean", pa.float64()),
        *((f"leaders_max_over_mean_{name}_ratio", pa.float64()) for name in ("p5", "p50", "p95", "p99", "highest")),
        *((f"replicas_max_over_mean_{name}_ratio", pa.float64()) for name in ("p50", "p95", "highest")),
        ("distribution", pa.list_(ABOVE)),
        *((name, _FACTS.field(name).type) for name in _FACTS.names[6:]),
        ("observed_percent", pa.float64()),
        ("single_partition_leaders_max_expected", pa.float64()),
        ("single_partition_max_over_mean_expected_ratio", pa.float64()),
        ("random_leaders_max_expected", pa.float64()),
        ("random_max_over_mean_expected_ratio", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Plan:
    """What to try. schemes: computed ones.   seeds, work: see Trial.of.   chunks: into how many the seeds are cut."""

    schemes: Sequence[str]
    run_seed: int
    seeds: int
    work: int
    chunks: int


def mix_of(topics: pa.StructArray) -> Mix:
    """The topics (type TOPIC, t)."""
    name, partitions, factor, listed = (pc.struct_field(topics, i) for i in range(4))
    offsets = offsets_of(int64(pc.list_value_length(listed)))
    return Mix(int64(name).view(np.uint64), int64(partitions), int64(factor), int64(listed.flatten()), offsets)


def _tried(plan: Plan, scheme: str, row: dict[str, Any], mix: Mix, brokers: LiveBrokers) -> dict[str, Any]:
    trial = Trial.of(scheme, mix, brokers, plan.seeds, plan.work)
    first, until = (trial.seeds * (row["chunk"] + k) // plan.chunks for k in (0, 1))
    hottest = trial.hottest(plan.run_seed, first, until)
    n = len(brokers.ids)
    found = {key: row[key] for key in ("cluster_id", "snapshot_id")} | {
        "scheme": scheme,
        "leaders_max": hottest.leaders,
        "replicas_max": hottest.replicas,
    }
    if row["chunk"]:
        return found
    led = {entry["broker_id"]: entry["leaders"] for entry in row["led"] or ()}
    most, ratio = observed_max([led.get(broker, 0) for broker in brokers.ids])
    facts = {
        "replica_count": trial.replicas,
        "brokers": n,
        "unplaceable_topics": trial.rejected,
        "partitions": trial.partitions,
        "single_partition_topics": trial.singles,
        "observed_leaders_max": most,
        "observed_max_over_mean_ratio": ratio,
    }
    if trial.seeds:
        rounds, blind = trial.expected_blind()
        facts["random_leaders_max_expected"] = rounds + blind.mean
        facts["single_partition_leaders_max_expected"] = trial.expected_singles().mean if trial.singles else None
    return found | facts


def trier(plan: Plan) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `DataFrame.mapInArrow`: batches of CLUSTERS -> batches of TRIED."""

    def attempt(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            column = {name: batch.column(i) for i, name in enumerate(batch.schema.names)}
            few = batch.select(["cluster_id", "snapshot_id", "chunk", "led"]).to_pylist()
            for i, row in enumerate(few):
                topics = column["topics"].slice(i, 1).flatten()
                mix = mix_of(topics)
                live = sorted(column["brokers"][i].as_py() or [], key=lambda broker: broker["broker_id"])
                brokers = LiveBrokers([b["broker_id"] for b in live], [b["rack"] for b in live])
                rows = [_tried(plan, scheme, row, mix, brokers) for scheme in plan.schemes]
                yield from pa.Table.from_pylist(rows, TRIED).to_batches()

    return attempt


def summariser(thresholds: Sequence[float]) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """A function for `GroupedData.applyInArrow`: one scheme's chunks (TRIED) -> a row of DISTRIBUTION."""

    def summarise(key: tuple[pa.Scalar, ...], chunks: pa.Table) -> pa.Table:
        facts = chunks.filter(pc.is_valid(chunks["brokers"])).to_pylist()[0]
        hottest = {name: pc.list_flatten(chunks[name]) for name in ("leaders_max", "replicas_max")}
        row = {name: facts[name] for name in DISTRIBUTION.names if name in facts} | {
            "seeds": len(hottest["leaders_max"])
        }
        n = facts["brokers"]
        leaders = HotspotDistribution.of(hottest["leaders_max"], facts["partitions"], n)
        replicas = HotspotDistribution.of(hottest["replicas_max"], facts["replica_count"], n)
        for name, distribution in (("leaders", leaders), ("replicas", replicas)):
            for percent, label in ((5, "p5"), (50, "p50"), (95, "p95"), (99, "p99"), (100, "highest")):
                if distribution is not None:
                    row[f"{name}_max_over_mean_{label}_ratio"] = distribution.percentile(percent) / distribution.mean
        if leaders is not None:
            row["leaders_mean"] = leaders.mean
            row["distribution"] = [{"above_ratio": x, "probability": leaders.above(x)} for x in thresholds]
            row["random_max_over_mean_expected_ratio"] = row["random_leaders_max_expected"] / leaders.mean
            if row["single_partition_topics"]:
                mean = row["single_partition_topics"] / n
                row["single_partition_max_over_mean_expected_ratio"] = (
                    row["single_partition_leaders_max_expected"] / mean
                )
            if row["observed_max_over_mean_ratio"] is not None:
                row["observed_percent"] = leaders.percent_up_to(row["observed_max_over_mean_ratio"])
        return pa.Table.from_pylist([{name: row.get(name) for name in DISTRIBUTION.names}], DISTRIBUTION)

    return summarise
