"""How uneven leadership is in many groups at once: a group is a cluster or a topic under a scheme."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import DOUBLE, INT, INTS, LONG, TEXT, column, schema_of
from udfs.arrow.ragged import offsets_of, row_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


_OF_MOST = "of the broker with the most, over the mean; null = none"
HOTSPOT_COLUMNS = (
    column("topic", TEXT, "topic name; null = the whole cluster"),
    column("brokers", LONG, "live brokers; of the whole cluster, without cordoned ones that are empty", required=True),
    column("partitions", LONG, "partitions with replicas", required=True),
    column("leaders", LONG, "partitions that have a leader", required=True),
    column("leaders_max", LONG, "leaders of the hottest broker", required=True),
    column("leaders_mean", DOUBLE, "leaders per live broker"),
    column("hottest_broker", INT, "live broker with the most leaders; the lowest id among equals"),
    column("hot_brokers", INTS, "brokers that lead more than hotspots.hot_ratio times the mean; null for topics"),
    column("max_over_mean_ratio", DOUBLE, f"leaders {_OF_MOST}"),
    column("cv_ratio", DOUBLE, "standard deviation over mean of leaders"),
    column("gini_ratio", DOUBLE, "Gini coefficient of leaders: 0 = all equal"),
    column("jain_ratio", DOUBLE, "Jain's index of leaders: 1 = all equal"),
    column("bytes_out_max_over_mean_ratio", DOUBLE, f"leaders' bytes out {_OF_MOST}"),
    column("preferred_leader_percent", DOUBLE, "partitions led by their first replica, % (CMAK)"),
    column("under_replicated_percent", DOUBLE, "partitions whose ISR is smaller than their replicas, % (CMAK)"),
    column("brokers_spread_percent", DOUBLE, "brokers with a replica of the topic, % of live brokers (CMAK)"),
    column("brokers_skew_percent", DOUBLE, "of those, brokers with more replicas than an even share, % (CMAK)"),
    column("brokers_leader_skew_percent", DOUBLE, "of those, brokers with more leaders than an even share, % (CMAK)"),
)
HOTSPOTS = schema_of(HOTSPOT_COLUMNS)


class BalanceMeasures(NamedTuple):
    """How evenly a load lies on brokers: float64 (g) each, NaN without brokers; ratios are NaN without load too."""

    mean: Floats
    largest: Floats
    max_over_mean: Floats  # 1 = all equal
    cv: Floats  # population standard deviation over the mean
    gini: Floats  # Gini coefficient: 0 = all equal, (n - 1) / n = one broker has everything
    jain: Floats  # Jain's fairness index: 1 = all equal, 1 / n = one broker has everything


class BrokerParts(NamedTuple):
    """The brokers of groups, flat; a broker without in-sync replicas is left out."""

    broker: npt.NDArray[np.int32]  # id
    leaders: Ints  # partitions that it leads
    in_sync: Ints  # its in-sync replicas
    out_rate: Floats  # bytes per second that consumers fetch from what it leads; NaN = unknown


def _segment_sum(values: Floats, offsets: Ints) -> Floats:
    # Not a difference of running sums: next to a huge group, a small one would be lost to rounding.
    out = np.zeros(len(offsets) - 1)
    filled = np.diff(offsets) > 0
    out[filled] = np.add.reduceat(values, offsets[:-1][filled])
    return out


def _divide(a: Floats, b: Floats | Ints) -> Floats:
    out = np.full(len(a), np.nan)
    with np.errstate(invalid="ignore"):  # sums of huge rates may be infinite
        np.divide(a, b, out=out, where=b != 0)
    return out


def measure_balance(values: Floats, offsets: Ints, brokers: Ints) -> BalanceMeasures:
    """Measure segments of values (flat, >= 0) of so many brokers (int64, g); missing ones count as zeros."""
    rows, count = row_of(offsets), np.diff(offsets)
    filled, missing, total = count > 0, brokers - count, _segment_sum(values, offsets)
    mean, largest = _divide(total, brokers), np.where(brokers > 0, 0.0, np.nan)
    largest[filled] = np.maximum.reduceat(values, offsets[:-1][filled])
    # Sum deviations instead of squares minus the squared mean: equal values must give exactly zero.
    with np.errstate(over="ignore"):
        squares = _segment_sum((values - mean[rows]) ** 2, offsets) + missing * np.nan_to_num(mean) ** 2
        square_sum, sum_square = total**2, _segment_sum(values**2, offsets)
    rank = np.arange(len(values)) - offsets[:-1][rows] + 1.0 + missing[rows]
    weighted = _segment_sum(rank * values[np.lexsort((values, rows))], offsets)
    return BalanceMeasures(
        mean,
        largest,
        max_over_mean=_divide(largest, mean),
        cv=_divide(np.sqrt(_divide(squares, brokers)), mean),
        gini=_divide(2.0 * weighted - (brokers + 1.0) * total, brokers * total),
        jain=_divide(square_sum, brokers * sum_square),
    )


def _count_above(values: Floats, offsets: Ints, limit: Floats) -> Ints:
    """Count the values of each group (int64, g) that exceed the group's limit (g)."""
    return _segment_sum((values > limit[row_of(offsets)]).astype(np.float64), offsets).astype(np.int64)


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, DOUBLE, mask=np.isnan(values))


def _percent(part: Ints, whole: Ints, is_shown: npt.NDArray[np.bool_] | bool = True) -> pa.Array:
    out = np.full(len(part), np.nan)
    return _nullable(np.divide(100.0 * part, whole, out=out, where=(whole > 0) & is_shown))


def measure_leaders(
    topics: pa.Array, live_brokers: int, offsets: Ints, parts: BrokerParts, totals: Ints, hot_ratio: float
) -> pa.RecordBatch:
    """Measure g groups: rows of HOTSPOT_COLUMNS. CMAK's measures of brokers are per topic, null for a whole cluster.

    topics: null = a whole cluster; totals: (g, 4), partitions, replicas, led by the first replica, with a lagging one.
    """
    partitions, replicas, preferred, under_replicated = totals.T
    brokers, rows = np.full(len(topics), live_brokers, dtype=np.int64), row_of(offsets)
    leaders, is_topic = parts.leaders.astype(np.float64), np.asarray(pc.is_valid(topics))
    balance = measure_balance(leaders, offsets, brokers)
    hottest = np.full(len(brokers), -1, dtype=np.int64)
    order = np.lexsort((-parts.broker.astype(np.int64), leaders, rows))
    hottest[rows[order]] = parts.broker[order]  # the last assignment wins: most leaders, then lowest id
    hottest[np.nan_to_num(balance.largest) == 0] = -1
    is_hot = (leaders > hot_ratio * balance.mean[rows]) & ~is_topic[rows]
    hot_offsets = offsets_of(np.bincount(rows[is_hot], minlength=len(brokers)))
    hot_ids = parts.broker[is_hot][np.lexsort((parts.broker[is_hot], rows[is_hot]))]
    hot_brokers = pa.ListArray.from_arrays(pa.array(hot_offsets, INT), pa.array(hot_ids, INT), mask=pa.array(is_topic))

    # CMAK counts over the brokers with an in-sync replica of the topic.
    in_sync = parts.in_sync.astype(np.float64)
    holders = _count_above(in_sync, offsets, np.zeros(len(brokers)))
    per_holder = np.maximum(holders, 1)
    skewed = _count_above(in_sync, offsets, np.ceil(replicas / per_holder))
    leader_skewed = _count_above(leaders, offsets, np.ceil(partitions / per_holder))

    is_unknown = np.bincount(rows[np.isnan(parts.out_rate)], minlength=len(brokers)) > 0
    is_unknown |= np.diff(offsets) == 0
    bytes_out = measure_balance(np.nan_to_num(parts.out_rate), offsets, brokers).max_over_mean
    counts = ((balance.mean * brokers).round(), balance.largest)
    columns = [
        topics,
        brokers,
        partitions,
        *(np.nan_to_num(values).astype(np.int64) for values in counts),
        _nullable(balance.mean),
        pa.array(hottest, INT, mask=hottest < 0),
        hot_brokers,
        *map(_nullable, (balance.max_over_mean, balance.cv, balance.gini, balance.jain)),
        _nullable(np.where(is_unknown, np.nan, bytes_out)),
        _percent(preferred, partitions),
        _percent(under_replicated, partitions),
        *(
            _percent(*parts_of, is_topic)
            for parts_of in ((holders, brokers), (skewed, holders), (leader_skewed, holders))
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=HOTSPOTS)
