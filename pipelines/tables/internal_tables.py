"""Tables that only the program reads: merged entities, sums over partitions, packed plans."""

from pipelines.ingest.merge import entities
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table, columns
from udfs.arrow.column_declarations import BINARY, INTS, TEXT, TEXTS, column
from udfs.planning.plan_rows import PLAN_COLUMNS

ENTITIES = Table(
    "internal.entities",
    "Everything that a cluster's sources state, merged in one pass: each row fills only the struct that `entity` "
    "names. The silver tables are selected from it.",
    columns(
        column("entity", TEXT, "name of the struct that this row fills", required=True),
        *(
            column(name, entities.to_struct(schema), f"merged {name.replace('_', ' ')}")
            for name, schema in entities.ENTITY_SCHEMAS.items()
        ),
    ),
    keys=(),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "entity"),
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
            "topic_hotspots", BINARY, "measures of its topics, see udfs/failures/loads_before_failure.py", required=True
        ),
        scheme=True,
    ),
    keys=(*SNAPSHOT_KEY, "scheme"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme"),
)


PACKED_PLANS = Table(
    "internal.packed_plans",
    "One row per plan, packed: the program unpacks gold.plans and gold.plan_moves from it.",
    columns(
        PLAN_COLUMNS[0],
        column("settings", TEXT, "settings that the plan depends on, as JSON", required=True),
        column("plan", BINARY, "the row of gold.plans, see udfs/planning/plan_rows.py", required=True),
        column("moves", BINARY, "the rows of gold.plan_moves, see udfs/planning/plan_rows.py", required=True),
    ),
    keys=(*SNAPSHOT_KEY, "goal"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "goal"),
)
