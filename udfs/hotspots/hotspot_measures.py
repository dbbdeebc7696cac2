"""Measures of leader hotspots over batches of groups: a cluster or a topic under a scheme. Thin: spread.py computes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of, row_of
from udfs.hotspots.kernels import balance_measures

# One broker's part in a group; a broker without any part is left out.
PART = pa.struct(
    [
        ("broker_id", pa.int32()),
        ("leaders", pa.int64()),
        ("in_sync", pa.int64()),  # in-sync replicas it holds
        ("bytes_out_per_s", pa.float64()),
    ]
)
GROUPS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("snapshot_id", pa.string()),
        ("scheme", pa.string()),
        ("topic", pa.string()),
        ("brokers", pa.int64()),
        ("partitions", pa.int64()),
        ("replica_count", pa.int64()),
        ("preferred", pa.int64()),
        ("under_replicated", pa.int64()),
        ("parts", pa.list_(PART)),
    ]
)
_RATIOS = ("max_over_mean_ratio", "cv_ratio", "gini_ratio", "jain_ratio")
HOTSPOTS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("snapshot_id", pa.string()),
        ("scheme", pa.string()),
        ("topic", pa.string()),
        ("brokers", pa.int64()),
        ("partitions", pa.int64()),
        ("leaders", pa.int64()),
        ("leaders_max", pa.int64()),
        ("leaders_min", pa.int64()),
        ("leaders_mean", pa.float64()),
        ("hottest_broker", pa.int32()),
        ("hot_brokers", pa.list_(pa.int32())),
        *((name, pa.float64()) for name in _RATIOS),
        *((f"bytes_out_{name}", pa.float64()) for name in _RATIOS),
        ("preferred_leader_percent", pa.float64()),
        ("under_replicated_percent", pa.float64()),
        ("spread_percent", pa.float64()),
        ("skew_percent", pa.float64()),
        ("leader_skew_percent", pa.float64()),
    ]
)

Floats = npt.NDArray[np.float64]


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, pa.float64(), mask=np.isnan(values))


def _percent(part: Floats, whole: Floats) -> pa.Array:
    out = np.full(len(part), np.nan)
    np.divide(100.0 * part, whole, out=out, where=whole > 0)
    return _nullable(out)


def _ratios(values: Floats, offsets: npt.NDArray[np.int64], brokers: npt.NDArray[np.int64]) -> list[pa.Array]:
    measures = (
        balance_measures.max_over_mean,
        balance_measures.coefficient_of_variation,
        balance_measures.gini,
        balance_measures.jain,
    )
    return [_nullable(measure(values, offsets, brokers)) for measure in measures]


def measure_batch(groups: pa.RecordBatch, hot_ratio: float) -> pa.RecordBatch:
    """Measures (schema HOTSPOTS) of these groups (schema GROUPS). CMAK's are per topic, null for a whole cluster."""
    column = {name: groups.column(i) for i, name in enumerate(groups.schema.names)}
    parts = column["parts"]
    offsets = offsets_of(pc.fill_null(pc.list_value_length(parts), 0).to_numpy(zero_copy_only=False))
    flat = parts.flatten()
    broker = pc.struct_field(flat, "broker_id").to_numpy(zero_copy_only=False)
    leaders = pc.struct_field(flat, "leaders").to_numpy(zero_copy_only=False).astype(np.float64)
    in_sync = pc.struct_field(flat, "in_sync").to_numpy(zero_copy_only=False).astype(np.float64)
    out_rate = pc.struct_field(flat, "bytes_out_per_s").to_numpy(zero_copy_only=False).astype(np.float64)
    brokers = column["brokers"].to_numpy(zero_copy_only=False).astype(np.int64)
    partitions = column["partitions"].to_numpy(zero_copy_only=False).astype(np.float64)
    whole_cluster = pc.is_null(column["topic"]).to_numpy(zero_copy_only=False)
    rows = row_of(offsets)

    high = balance_measures.largest(leaders, offsets, brokers)
    total = balance_measures.mean(leaders, offsets, brokers) * brokers
    hottest = np.full(len(brokers), -1, dtype=np.int64)
    order = np.lexsort((-broker.astype(np.int64), leaders, rows))
    hottest[rows[order]] = broker[order]  # the last written wins: most leaders, then lowest id
    hottest[np.nan_to_num(high) == 0] = -1
    hot = leaders > hot_ratio * balance_measures.mean(leaders, offsets, brokers)[rows]
    hot &= whole_cluster[rows]
    hot_offsets = offsets_of(np.bincount(rows[hot], minlength=len(brokers)))
    hot_ids = broker[hot][np.lexsort((broker[hot], rows[hot]))]
    hot_lists = pa.ListArray.from_arrays(pa.array(hot_offsets, pa.int32()), pa.array(hot_ids, pa.int32()))

    # CMAK counts over the brokers that hold a replica of the topic (T).
    holders = balance_measures.shares_above(in_sync, offsets, np.zeros(len(brokers)))
    replica_count = column["replica_count"].to_numpy(zero_copy_only=False).astype(np.float64)
    per_holder = np.maximum(holders, 1)
    skewed = balance_measures.shares_above(in_sync, offsets, np.ceil(replica_count / per_holder))
    leader_skewed = balance_measures.shares_above(leaders, offsets, np.ceil(partitions / per_holder))

    def of_topics(array: pa.Array) -> pa.Array:
        return pc.if_else(pa.array(whole_cluster), pa.scalar(None, pa.float64()), array)

    known = ~np.isnan(out_rate)
    without = np.bincount(rows[~known], minlength=len(brokers)) > 0
    unknown = without | (np.diff(offsets) == 0)
    bytes_out = [
        pc.if_else(pa.array(unknown), pa.scalar(None, pa.float64()), ratio)
        for ratio in _ratios(np.nan_to_num(out_rate), offsets, brokers)
    ]
    counts = [
        pa.array(np.nan_to_num(v).astype(np.int64))
        for v in (total.round(), high, balance_measures.smallest(leaders, offsets, brokers))
    ]
    return pa.RecordBatch.from_arrays(
        [
            *(column[name] for name in ("cluster_id", "snapshot_id", "scheme", "topic", "brokers", "partitions")),
            *counts,
            _nullable(balance_measures.mean(leaders, offsets, brokers)),
            pa.array(hottest, pa.int32(), mask=hottest < 0),
            pc.if_else(pa.array(whole_cluster), hot_lists, pa.nulls(len(hot_lists), hot_lists.type)),
            *_ratios(leaders, offsets, brokers),
            *bytes_out,
            _percent(column["preferred"].to_numpy(zero_copy_only=False).astype(np.float64), partitions),
            _percent(column["under_replicated"].to_numpy(zero_copy_only=False).astype(np.float64), partitions),
            of_topics(_percent(holders.astype(np.float64), brokers.astype(np.float64))),
            of_topics(_percent(skewed.astype(np.float64), holders.astype(np.float64))),
            of_topics(_percent(leader_skewed.astype(np.float64), holders.astype(np.float64))),
        ],
        schema=HOTSPOTS,
    )
