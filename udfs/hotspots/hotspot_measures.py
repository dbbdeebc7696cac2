"""Measures of leader hotspots of many groups at once: a group is a cluster or a topic under a scheme."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import offsets_of, row_of
from udfs.arrow.table_columns import DOUBLE, INT, INTS, LONG, TEXT, column, schema_of
from udfs.hotspots.kernels import balance_measures

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def _ratio_columns(prefix: str, load: str) -> tuple[pa.Field, ...]:
    return (
        column(f"{prefix}max_over_mean_ratio", DOUBLE, f"largest over mean {load} of a broker; null = none"),
        column(f"{prefix}cv_ratio", DOUBLE, f"standard deviation over mean of {load}"),
        column(f"{prefix}gini_ratio", DOUBLE, f"Gini coefficient of {load}: 0 = all equal"),
        column(f"{prefix}jain_ratio", DOUBLE, f"Jain's index of {load}: 1 = all equal"),
    )


HOTSPOT_COLUMNS = (
    column("topic", TEXT, "topic name; null = the whole cluster"),
    column("brokers", LONG, "live brokers", required=True),
    column("partitions", LONG, "partitions with replicas", required=True),
    column("leaders", LONG, "partitions that have a leader", required=True),
    column("leaders_max", LONG, "leaders of the hottest broker", required=True),
    column("leaders_min", LONG, "leaders of the coolest live broker", required=True),
    column("leaders_mean", DOUBLE, "leaders per live broker"),
    column("hottest_broker", INT, "live broker with most leaders; the lowest id among equals"),
    column("hot_brokers", INTS, "brokers that lead more than hotspots.hot_ratio times the mean; null for topics"),
    *_ratio_columns("", "leaders"),
    *_ratio_columns("bytes_out_", "leaders' bytes out"),
    column("preferred_leader_percent", DOUBLE, "partitions led by their first replica, % (CMAK)"),
    column("under_replicated_percent", DOUBLE, "partitions whose ISR is smaller than their replicas, % (CMAK)"),
    column("spread_percent", DOUBLE, "brokers with a replica of the topic, % of live brokers (CMAK)"),
    column("skew_percent", DOUBLE, "of those, brokers with more replicas than an even share, % (CMAK)"),
    column("leader_skew_percent", DOUBLE, "of those, brokers with more leaders than an even share, % (CMAK)"),
)
HOTSPOTS = schema_of(HOTSPOT_COLUMNS)
_RATIOS = (
    balance_measures.max_over_mean,
    balance_measures.coefficient_of_variation,
    balance_measures.gini,
    balance_measures.jain,
)


@dataclass(frozen=True)
class BrokerParts:
    """The brokers of groups, flat; a broker without in-sync replicas is left out."""

    broker: npt.NDArray[np.int32]  # id
    leaders: Ints  # partitions that it leads
    in_sync: Ints  # its in-sync replicas
    out_rate: Floats  # bytes per second that consumers fetch from what it leads; NaN = unknown


@dataclass(frozen=True)
class LeaderCounts:
    """g groups."""

    topics: pa.Array  # text (g), null = a whole cluster
    brokers: Ints  # (g), live brokers
    offsets: Ints  # (g + 1), the parts of each group
    parts: BrokerParts
    partitions: Ints  # (g)
    replicas: Ints  # (g)
    preferred: Ints  # (g), partitions led by their first replica
    under_replicated: Ints  # (g), partitions with a lagging replica


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, DOUBLE, mask=np.isnan(values))


def _percent(part: Ints, whole: Ints, is_shown: npt.NDArray[np.bool_] | bool = True) -> pa.Array:
    out = np.full(len(part), np.nan)
    np.divide(100.0 * part, whole, out=out, where=(whole > 0) & is_shown)
    return _nullable(out)


def measure_leaders(groups: LeaderCounts, hot_ratio: float) -> pa.RecordBatch:
    """Measure groups: rows of HOTSPOT_COLUMNS. CMAK's measures of brokers are per topic, null for a whole cluster."""
    offsets, brokers, parts = groups.offsets, groups.brokers, groups.parts
    leaders = parts.leaders.astype(np.float64)
    is_topic = np.asarray(pc.is_valid(groups.topics))
    rows = row_of(offsets)

    most = balance_measures.largest(leaders, offsets, brokers)
    least = balance_measures.smallest(leaders, offsets, brokers)
    mean = balance_measures.mean(leaders, offsets, brokers)
    hottest = np.full(len(brokers), -1, dtype=np.int64)
    order = np.lexsort((-parts.broker.astype(np.int64), leaders, rows))
    hottest[rows[order]] = parts.broker[order]  # the last assignment wins: most leaders, then lowest id
    hottest[np.nan_to_num(most) == 0] = -1
    is_hot = (leaders > hot_ratio * mean[rows]) & ~is_topic[rows]
    hot_offsets = offsets_of(np.bincount(rows[is_hot], minlength=len(brokers)))
    hot_ids = parts.broker[is_hot][np.lexsort((parts.broker[is_hot], rows[is_hot]))]
    hot_brokers = pa.ListArray.from_arrays(pa.array(hot_offsets, INT), pa.array(hot_ids, INT), mask=pa.array(is_topic))

    # CMAK counts over the brokers with an in-sync replica of the topic.
    in_sync = parts.in_sync.astype(np.float64)
    holders = balance_measures.count_above(in_sync, offsets, np.zeros(len(brokers)))
    per_holder = np.maximum(holders, 1)
    skewed = balance_measures.count_above(in_sync, offsets, np.ceil(groups.replicas / per_holder))
    leader_skewed = balance_measures.count_above(leaders, offsets, np.ceil(groups.partitions / per_holder))

    is_unknown = np.bincount(rows[np.isnan(parts.out_rate)], minlength=len(brokers)) > 0
    is_unknown |= np.diff(offsets) == 0
    rates = np.nan_to_num(parts.out_rate)
    bytes_out = [np.where(is_unknown, np.nan, ratio(rates, offsets, brokers)) for ratio in _RATIOS]
    return pa.RecordBatch.from_arrays(
        [
            groups.topics,
            pa.array(brokers),
            pa.array(groups.partitions),
            *(pa.array(np.nan_to_num(values).astype(np.int64)) for values in ((mean * brokers).round(), most, least)),
            _nullable(mean),
            pa.array(hottest, INT, mask=hottest < 0),
            hot_brokers,
            *(_nullable(ratio(leaders, offsets, brokers)) for ratio in _RATIOS),
            *map(_nullable, bytes_out),
            _percent(groups.preferred, groups.partitions),
            _percent(groups.under_replicated, groups.partitions),
            _percent(holders, brokers, is_topic),
            _percent(skewed, holders, is_topic),
            _percent(leader_skewed, holders, is_topic),
        ],
        schema=HOTSPOTS,
    )
