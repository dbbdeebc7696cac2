"""Gold: where the observed placement comes from."""

from __future__ import annotations

from pipelines.tables.table_contract import Between, OneOf, Table, columns
from udfs.arrow.table_columns import DOUBLE, INT, INTS, LONG, TEXT, TEXTS, column

ORIGIN_NAMES = ("kafka", "kafka_rack_aware", "kraft", "naive", "none", "unknown")

TOPIC_ORIGIN = Table(
    "gold.topic_origin",
    "One row per topic: which scheme could have placed it as it is observed, judged beside the cluster's other topics.",
    columns(
        column("topic", TEXT, "topic name", required=True),
        column(
            "origin",
            TEXT,
            "kafka (unaware of racks), kafka_rack_aware, kraft, naive: of those that fit, the one that explains most "
            "of the cluster; none = placed by hand or changed since; unknown = no replicas are known",
            required=True,
        ),
        column(
            "matching_schemes",
            TEXTS,
            "every scheme that fits, also over an order that no other topic tells",
            required=True,
        ),
        column(
            "evidence", LONG, "replicas that the pattern could have failed on; 0 = too small to tell", required=True
        ),
        column(
            "broker_order",
            INTS,
            "brokers in the order placed over: for kafka known up to rotation, from the smallest id on; alternated by "
            "rack for kafka_rack_aware; null for kraft and none",
        ),
        column("start_index", INT, "place in broker_order of partition 0's leader"),
        column("shift", INT, "the followers' shift, modulo brokers - 1; null = not known, as with one replica"),
        column("expanded_from_partition", INT, "partition id that was added later, with all after it; null = none"),
        column("partitions_checked", LONG, "partitions with known replicas", required=True),
        column(
            "first_mismatch_partition", INT, "of none: first partition that breaks the pattern of most of the cluster"
        ),
        column("note", TEXT, "what else is to be known"),
    ),
    keys=("cluster_id", "snapshot_id", "topic"),
    partition_by=("cluster_id",),
    expectations=(OneOf("origin", ORIGIN_NAMES), Between("evidence", 0), Between("partitions_checked", 0)),
)

CLUSTER_ORIGIN = Table(
    "gold.cluster_origin",
    "One row per cluster: how many topics each scheme explains, and the broker order found.",
    columns(
        column("topics", LONG, "topics", required=True),
        column(
            "inconclusive_topics", LONG, "topics too small to tell, whatever their origin is taken for", required=True
        ),
        *(column(f"{name}_topics", LONG, f"topics of origin {name}", required=True) for name in ORIGIN_NAMES),
        column("kafka_placed_percent", DOUBLE, "of origin kafka, kafka_rack_aware or kraft, % of topics not unknown"),
        column("kafka_placed_conclusive_percent", DOUBLE, "the same, of the topics that are not too small to tell, %"),
        column("broker_order", INTS, "order that most topics of Kafka's round robin share, as in gold.topic_origin"),
        column("broker_order_topics", LONG, "topics that share it", required=True),
        column(
            "broker_orders", LONG, "different orders that topics of Kafka's round robin were placed over", required=True
        ),
    ),
    keys=("cluster_id", "snapshot_id"),
    expectations=(Between("kafka_placed_percent", 0, 100), Between("kafka_placed_conclusive_percent", 0, 100)),
)
