"""Gold: the answers, per placement scheme."""

from __future__ import annotations

import pyarrow as pa

from pipelines.tables.silver_tables import LOADS
from pipelines.tables.table_contract import Table, columns
from udfs.arrow.table_columns import DOUBLE, INT, INTS, LONG, TEXT, column

_SCHEME_KEYS = ("cluster_id", "snapshot_id", "scheme")

PLACEMENTS = Table(
    "gold.placements",
    "One row per partition and scheme: where its replicas sit, or would sit.",
    columns(
        column("topic", TEXT, "topic name", required=True),
        column("partition", INT, "partition id", required=True),
        column("replicas", INTS, "replicas in preference order; null = cannot be placed, see `error`"),
        column("leader", INT, "broker that leads; -1 = none"),
        column("isr", INTS, "in-sync replicas; null = every replica is"),
        column("elr", INTS, "eligible leader replicas (Kafka 4); null = none"),
        column("start_index", INT, "drawn index of partition 0's leader in the broker list"),
        column("shift", INT, "drawn shift of the followers"),
        column("seed", LONG, "of the topic's java.util.Random"),
        *LOADS,
        column("error", TEXT, "why the topic cannot be placed"),
        scheme=True,
    ),
    keys=(*_SCHEME_KEYS, "topic", "partition"),
    partition_by=("cluster_id",),
    # By far the most rows: ranges of the other columns, which no reader skips files by, are a tenth of a write's time.
    skip_by=("snapshot_id", "scheme"),
)

BROKER_LOAD = Table(
    "gold.broker_load",
    "One row per live broker and scheme: what it leads and holds.",
    columns(
        column("broker_id", INT, "broker id", required=True),
        column("rack", TEXT, "its rack"),
        column("leaders", LONG, "partitions it leads", required=True),
        column("preferred_leaders", LONG, "partitions whose first replica it is", required=True),
        column("replicas", LONG, "replicas it holds", required=True),
        column("size_bytes", LONG, "bytes of the replicas it holds; null = no size known"),
        column("bytes_in_per_s", DOUBLE, "bytes per second written to the replicas it holds; null = unknown"),
        column("bytes_out_per_s", DOUBLE, "bytes per second consumers fetch from what it leads; null = unknown"),
        column("leader_bytes_in_per_s", DOUBLE, "bytes per second produced to what it leads; null = unknown"),
        scheme=True,
    ),
    keys=(*_SCHEME_KEYS, "broker_id"),
    partition_by=("cluster_id",),
)


def _spread(what: str, of: str) -> tuple[pa.Field, ...]:
    return (
        column(f"{what}max_over_mean_ratio", DOUBLE, f"largest over mean {of} of a broker; null = none"),
        column(f"{what}cv_ratio", DOUBLE, f"standard deviation over mean of {of}"),
        column(f"{what}gini_ratio", DOUBLE, f"Gini coefficient of {of}: 0 = all equal"),
        column(f"{what}jain_ratio", DOUBLE, f"Jain's index of {of}: 1 = all equal"),
    )


LEADER_HOTSPOTS = Table(
    "gold.leader_hotspots",
    "One row per cluster and scheme (topic null), and per topic and scheme: how unevenly leaders lie on brokers.",
    columns(
        column("topic", TEXT, "topic name; null = the whole cluster"),
        column("brokers", LONG, "live brokers", required=True),
        column("partitions", LONG, "partitions with replicas", required=True),
        column("leaders", LONG, "partitions that have a leader", required=True),
        column("leaders_max", LONG, "leaders of the hottest broker", required=True),
        column("leaders_min", LONG, "leaders of the coolest live broker", required=True),
        column("leaders_mean", DOUBLE, "leaders per live broker"),
        column("hottest_broker", INT, "live broker that leads most; the lowest id among equals"),
        column("hot_brokers", INTS, "brokers that lead more than hotspots.hot_ratio times the mean; null for topics"),
        *_spread("", "leaders"),
        *_spread("bytes_out_", "leaders' bytes out"),
        column("preferred_leader_percent", DOUBLE, "partitions led by their first replica, % (CMAK)"),
        column("under_replicated_percent", DOUBLE, "partitions whose ISR is smaller than their replicas, % (CMAK)"),
        column("spread_percent", DOUBLE, "brokers with a replica of the topic, % of live brokers (CMAK)"),
        column("skew_percent", DOUBLE, "of those, brokers with more replicas than their share, % (CMAK)"),
        column("leader_skew_percent", DOUBLE, "of those, brokers with more leaders than their share, % (CMAK)"),
        scheme=True,
    ),
    keys=(),
    partition_by=("cluster_id",),
)

SCHEME_COMPARISON = Table(
    "gold.scheme_comparison",
    "One row per scheme and metric: its value beside the naive scheme's.",
    columns(
        column("metric", TEXT, "name of the metric", required=True),
        column("value", DOUBLE, "of this scheme; null = unknown"),
        column("naive_value", DOUBLE, "of the naive scheme; null = unknown or not computed"),
        column("ratio_to_naive", DOUBLE, "value over naive_value; null where that is 0 or unknown"),
        column("seeds", LONG, "seeds tried for what follows; null = not a matter of seeds, or not tried"),
        column("value_p05", DOUBLE, "passed by 95 % of the seeds"),
        column("value_p50", DOUBLE, "median over the seeds"),
        column("value_p95", DOUBLE, "not passed by 95 % of the seeds"),
        scheme=True,
    ),
    keys=(*_SCHEME_KEYS, "metric"),
)
