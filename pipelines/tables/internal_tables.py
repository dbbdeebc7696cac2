"""Tables that only the program reads: merged entities, sums over partitions, packed plans."""

from pipelines.ingest.merge import entities
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table, columns
from udfs.arrow.columns import BINARY, INT, INTS, TEXT, TEXTS, column
from udfs.planning.plan_rows import PLAN_COLUMNS

ENTITIES = Table(
    "internal.entities",
    "Everything that a cluster's sources state, merged in one pass. One row per shard, which has whole topics. The "
    "silver tables and internal.scheme_aggregates are unpacked from it; nothing else should read it.",
    columns(
        column("shard", INT, "number of the shard, from 0", required=True),
        *(
            column(name, BINARY, f"merged {name.replace('_', ' ')}, packed; null = none")
            for name in entities.ENTITY_SCHEMAS
        ),
    ),
    keys=(*SNAPSHOT_KEY, "shard"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "shard"),
)

SCHEME_AGGREGATES = Table(
    "internal.scheme_aggregates",
    "One row per scheme: sums over its partitions, packed. The tables of load, hotspots, failures and durability are "
    "computed from them; nothing else should read them.",
    columns(
        column("settings", TEXT, "the settings that the sums depend on, as JSON", required=True),
        column("brokers", INTS, "live brokers, in ascending order", required=True),
        column("racks", TEXTS, "the rack of each; null = unknown", required=True),
        column("sums", BINARY, "named arrays, see udfs/failures/partition_sums.py", required=True),
        column(
            "topic_hotspots", BINARY, "measures of its topics, see udfs/failures/failure_outcomes.py", required=True
        ),
        scheme=True,
    ),
    keys=(*SNAPSHOT_KEY, "scheme"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme"),
)


PACKED_PLANS = Table(
    "internal.packed_plans",
    "One row per plan, packed: the program unpacks gold.plans, gold.plan_metrics and gold.plan_moves from it.",
    columns(
        PLAN_COLUMNS[0],
        column("settings", TEXT, "settings that the plan depends on, as JSON", required=True),
        column("plan", BINARY, "the row of gold.plans, see udfs/planning/plan_rows.py", required=True),
        column("metrics", BINARY, "the rows of gold.plan_metrics, see udfs/planning/plan_rows.py", required=True),
        column("moves", BINARY, "the rows of gold.plan_moves, see udfs/planning/plan_rows.py", required=True),
    ),
    keys=(*SNAPSHOT_KEY, "goal"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "goal"),
)
