"""Gold: the answers, per placement scheme."""

from __future__ import annotations

from pyspark.sql.types import BooleanType, DoubleType, IntegerType, LongType, StringType

from pipelines.tables.silver_tables import LOADS
from pipelines.tables.table_contract import INTS, Column, Table, columns

TEXT, INT, LONG, DOUBLE, FLAG = StringType(), IntegerType(), LongType(), DoubleType(), BooleanType()
_SCHEME_KEYS = ("cluster_id", "snapshot_id", "scheme")

PLACEMENTS = Table(
    "gold.placements",
    "One row per partition and scheme: where its replicas sit, or would sit.",
    columns(
        Column("topic", TEXT, "topic name", required=True),
        Column("partition", INT, "partition id", required=True),
        Column("replicas", INTS, "replicas in preference order; null = cannot be placed, see `error`"),
        Column("leader", INT, "broker that leads; -1 = none"),
        Column("isr", INTS, "in-sync replicas; null = every replica is"),
        Column("elr", INTS, "eligible leader replicas (Kafka 4); null = none"),
        Column("start_index", INT, "drawn index of partition 0's leader in the broker list"),
        Column("shift", INT, "drawn shift of the followers"),
        Column("seed", LONG, "of the topic's java.util.Random"),
        *LOADS,
        Column("error", TEXT, "why the topic cannot be placed"),
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
        Column("broker_id", INT, "broker id", required=True),
        Column("rack", TEXT, "its rack"),
        Column("leaders", LONG, "partitions it leads", required=True),
        Column("preferred_leaders", LONG, "partitions whose first replica it is", required=True),
        Column("replicas", LONG, "replicas it holds", required=True),
        Column("size_bytes", LONG, "bytes of the replicas it holds; null = no size known"),
        Column("bytes_in_per_s", DOUBLE, "bytes per second written to the replicas it holds; null = unknown"),
        Column("bytes_out_per_s", DOUBLE, "bytes per second consumers fetch from what it leads; null = unknown"),
        Column("leader_bytes_in_per_s", DOUBLE, "bytes per second produced to what it leads; null = unknown"),
        scheme=True,
    ),
    keys=(*_SCHEME_KEYS, "broker_id"),
    partition_by=("cluster_id",),
)


def _spread(what: str, of: str) -> tuple[Column, ...]:
    return (
        Column(f"{what}max_over_mean_ratio", DOUBLE, f"largest over mean {of} of a broker; null = none"),
        Column(f"{what}cv_ratio", DOUBLE, f"standard deviation over mean of {of}"),
        Column(f"{what}gini_ratio", DOUBLE, f"Gini coefficient of {of}: 0 = all equal"),
        Column(f"{what}jain_ratio", DOUBLE, f"Jain's index of {of}: 1 = all equal"),
    )


LEADER_HOTSPOTS = Table(
    "gold.leader_hotspots",
    "One row per cluster and scheme (topic null), and per topic and scheme: how unevenly leaders lie on brokers.",
    columns(
        Column("topic", TEXT, "topic name; null = the whole cluster"),
        Column("brokers", LONG, "live brokers", required=True),
        Column("partitions", LONG, "partitions with replicas", required=True),
        Column("leaders", LONG, "partitions that have a leader", required=True),
        Column("leaders_max", LONG, "leaders of the hottest broker", required=True),
        Column("leaders_min", LONG, "leaders of the coolest live broker", required=True),
        Column("leaders_mean", DOUBLE, "leaders per live broker"),
        Column("hottest_broker", INT, "live broker that leads most; the lowest id among equals"),
        Column("hot_brokers", INTS, "brokers that lead more than hotspots.hot_ratio times the mean; null for topics"),
        *_spread("", "leaders"),
        *_spread("bytes_out_", "leaders' bytes out"),
        Column("preferred_leader_percent", DOUBLE, "partitions led by their first replica, % (CMAK)"),
        Column("under_replicated_percent", DOUBLE, "partitions whose ISR is smaller than their replicas, % (CMAK)"),
        Column("spread_percent", DOUBLE, "brokers with a replica of the topic, % of live brokers (CMAK)"),
        Column("skew_percent", DOUBLE, "of those, brokers with more replicas than their share, % (CMAK)"),
        Column("leader_skew_percent", DOUBLE, "of those, brokers with more leaders than their share, % (CMAK)"),
        scheme=True,
    ),
    keys=(),
    partition_by=("cluster_id",),
)

SCHEME_COMPARISON = Table(
    "gold.scheme_comparison",
    "One row per scheme and metric: its value beside the naive scheme's.",
    columns(
        Column("metric", TEXT, "name of the metric", required=True),
        Column("value", DOUBLE, "of this scheme; null = unknown"),
        Column("naive_value", DOUBLE, "of the naive scheme; null = unknown or not computed"),
        Column("ratio_to_naive", DOUBLE, "value over naive_value; null where that is 0 or unknown"),
        Column("seeds", LONG, "seeds tried for what follows; null = not a matter of seeds, or not tried"),
        Column("value_p05", DOUBLE, "passed by 95 % of the seeds"),
        Column("value_p50", DOUBLE, "median over the seeds"),
        Column("value_p95", DOUBLE, "not passed by 95 % of the seeds"),
        scheme=True,
    ),
    keys=(*_SCHEME_KEYS, "metric"),
)
