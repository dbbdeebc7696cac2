"""Declare the gold tables of placements, per scheme."""

from pipelines.ingest.merge.entities import LOADS
from pipelines.tables.table_contract import Table, columns
from udfs.arrow.table_columns import DOUBLE, INT, INTS, LONG, TEXT, column
from udfs.failures.broker_loads import BROKER_LOAD_COLUMNS
from udfs.hotspots.hotspot_measures import HOTSPOT_COLUMNS

_SCHEME_KEYS = ("cluster_id", "snapshot_id", "scheme")

PLACEMENTS = Table(
    "gold.placements",
    "One row per partition and scheme: its replicas as they are, or as the scheme places them.",
    columns(
        column("topic", TEXT, "topic name", required=True),
        column("partition", INT, "partition id", required=True),
        column("replicas", INTS, "replicas in order of preference; null = cannot be placed, see error"),
        column("leader", INT, "leader; -1 = none"),
        column("isr", INTS, "in-sync replicas; null = all replicas"),
        column("elr", INTS, "eligible leader replicas (Kafka 4); null = none"),
        column("start_index", INT, "random index of partition 0's leader in the broker list"),
        column("shift", INT, "random shift of the followers"),
        column("seed", LONG, "seed of the topic's java.util.Random"),
        *LOADS,
        column("error", TEXT, "why the topic cannot be placed"),
        scheme=True,
    ),
    keys=(*_SCHEME_KEYS, "topic", "partition"),
    partition_by=("cluster_id",),
    # The largest table: no reader skips files by other columns, and their statistics take a tenth of the write.
    skip_by=("snapshot_id", "scheme"),
)

BROKER_LOAD = Table(
    "gold.broker_load",
    "One row per live broker and scheme: leaders, replicas and load.",
    columns(*BROKER_LOAD_COLUMNS, scheme=True),
    keys=(*_SCHEME_KEYS, "broker_id"),
    partition_by=("cluster_id",),
)


LEADER_HOTSPOTS = Table(
    "gold.leader_hotspots",
    "One row per scheme and topic, and per scheme over all topics (topic null): how uneven leadership is.",
    columns(*HOTSPOT_COLUMNS, scheme=True),
    keys=(),
    partition_by=("cluster_id",),
)

SCHEME_COMPARISON = Table(
    "gold.scheme_comparison",
    "One row per scheme and metric: its value, beside that of the naive scheme.",
    columns(
        column("metric", TEXT, "name of the metric", required=True),
        column("value", DOUBLE, "value for this scheme; null = unknown"),
        column("naive_value", DOUBLE, "value for the naive scheme; null = unknown or not computed"),
        column("ratio_to_naive", DOUBLE, "value over naive_value; null = naive_value is 0 or unknown"),
        column(
            "seeds", LONG, "seeds that the percentiles are over; null = does not depend on the seed, or was not tried"
        ),
        column("value_p05", DOUBLE, "5th percentile over the seeds"),
        column("value_p50", DOUBLE, "median over the seeds"),
        column("value_p95", DOUBLE, "95th percentile over the seeds"),
        scheme=True,
    ),
    keys=(*_SCHEME_KEYS, "metric"),
)
