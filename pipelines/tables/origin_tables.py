"""Gold tables of the placement origin."""

from pipelines.tables.table_contract import Between, OneOf, Table, columns
from udfs.arrow.table_columns import DOUBLE, INTS, LONG, column
from udfs.origin.topic_origins import ORIGIN_COLUMNS, ORIGIN_NAMES

_NAMES = tuple(ORIGIN_NAMES.values())

TOPIC_ORIGIN = Table(
    "gold.topic_origin",
    "One row per topic: which scheme could have placed its replicas, judged together with the cluster's other topics.",
    columns(*ORIGIN_COLUMNS),
    keys=("cluster_id", "snapshot_id", "topic"),
    partition_by=("cluster_id",),
    expectations=(OneOf("origin", _NAMES), Between("evidence", 0), Between("partitions_checked", 0)),
)

CLUSTER_ORIGIN = Table(
    "gold.cluster_origin",
    "One row per cluster: how many topics each scheme explains, and the broker order that most topics share.",
    columns(
        column("topics", LONG, "topics", required=True),
        column("inconclusive_topics", LONG, "topics with an origin but without evidence for it", required=True),
        *(column(f"{name}_topics", LONG, f"topics of origin {name}", required=True) for name in _NAMES),
        column("kafka_placed_percent", DOUBLE, "topics of origin kafka, kafka_rack_aware or kraft, % of known origins"),
        column("kafka_placed_conclusive_percent", DOUBLE, "the same share without inconclusive topics, %"),
        column("broker_order", INTS, "order that most topics of kafka and kafka_rack_aware share, see topic_origin"),
        column("broker_order_topics", LONG, "topics that share it", required=True),
        column("broker_orders", LONG, "different orders of topics of kafka and kafka_rack_aware", required=True),
    ),
    keys=("cluster_id", "snapshot_id"),
    expectations=(Between("kafka_placed_percent", 0, 100), Between("kafka_placed_conclusive_percent", 0, 100)),
)
