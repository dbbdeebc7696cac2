"""Gold tables, internal tables that they are computed from, and tables about runs; udfs/ declares many columns."""

from pipelines.ingest.merge.entities import LOADS
from pipelines.tables.table_contract import Between, NoRowWhere, OneOf, Table, columns
from udfs.arrow.columns import BINARY, DOUBLE, FLAG, INT, INTS, LONG, TEXT, TEXTS, TIME, column
from udfs.durability.durability_rows import DURABILITY_COLUMNS
from udfs.durability.kernels.loss_probability import EXACT, MONTE_CARLO
from udfs.failures.broker_loads import BROKER_LOAD_COLUMNS, HEADROOM_COLUMNS, OVER_CAPACITY_COLUMNS
from udfs.failures.failure_rows import LOAD_COLUMNS, RANDOM_FAILURE_COLUMNS, SUMMARY_COLUMNS
from udfs.failures.scenarios import ScenarioKind
from udfs.failures.scheme_distribution import SCHEME_DISTRIBUTION_COLUMNS
from udfs.hotspots.hotspot_distribution import DISTRIBUTION_COLUMNS
from udfs.hotspots.hotspot_measures import HOTSPOT_COLUMNS
from udfs.origin.topic_origins import ORIGIN_COLUMNS, ORIGIN_NAMES
from udfs.planning.goals import GOALS
from udfs.planning.plan_rows import MOVE_COLUMNS, PLAN_COLUMNS

_KEYS = ("cluster_id", "snapshot_id", "scheme")
_PLAN_KEYS = ("cluster_id", "snapshot_id", "goal")
_ORIGINS = tuple(ORIGIN_NAMES.values())
_METHODS = OneOf("method", (EXACT, MONTE_CARLO))
_KINDS = OneOf("scenario_kind", tuple(ScenarioKind))

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
    keys=(*_KEYS, "topic", "partition"),
    partition_by=("cluster_id",),
    # The largest table: no reader skips files by other columns, and their statistics take a tenth of the write.
    skip_by=("snapshot_id", "scheme"),
)

BROKER_LOAD = Table(
    "gold.broker_load",
    "One row per live broker and scheme: leaders, replicas and load.",
    columns(*BROKER_LOAD_COLUMNS, scheme=True),
    keys=(*_KEYS, "broker_id"),
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
    keys=(*_KEYS, "metric"),
)

SCHEME_AGGREGATES = Table(
    "internal.scheme_aggregates",
    "One row per scheme: sums over its partitions, packed. The tables of load, hotspots, failures and durability are "
    "computed from them; nothing else should read them.",
    columns(
        column("settings", TEXT, "the settings that the sums depend on, as JSON", required=True),
        column("brokers", INTS, "live brokers, rising", required=True),
        column("racks", TEXTS, "the rack of each; null = not known", required=True),
        column("sums", BINARY, "named arrays, see udfs/failures/aggregates.py", required=True),
        column("topic_hotspots", BINARY, "measures of its topics, see udfs/failures/broker_loads.py", required=True),
        scheme=True,
    ),
    keys=_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme"),
)

FAILURE_LOAD = Table(
    "gold.failure_load",
    "One row per survivor of each single failure, rack and custom failure (of pairs with failures.pair_loads): what "
    "it leads before and afterwards. Of a single failure, `takeovers` shows who takes over from whom.",
    columns(*LOAD_COLUMNS, scheme=True),
    keys=(*_KEYS, "scenario", "broker_id"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme", "scenario_kind", "broker_id"),
    expectations=(Between("leaders_after", 0), _KINDS),
)

FAILURE_SUMMARY = Table(
    "gold.failure_summary",
    "One row per scenario and scheme: the outcome of the failure.",
    columns(*SUMMARY_COLUMNS, scheme=True),
    keys=(*_KEYS, "scenario"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme", "scenario_kind", "worst_survivor_ratio", "offline_partitions"),
    expectations=(Between("offline_partitions", 0), Between("under_min_isr_partitions", 0), _KINDS),
)

RANDOM_FAILURES = Table(
    "gold.random_failures",
    "One row per scheme, number of brokers that fail together, and metric: its mean over random sets of brokers.",
    columns(*RANDOM_FAILURE_COLUMNS, scheme=True),
    keys=(*_KEYS, "failures", "metric"),
    expectations=(_METHODS,),
)

DURABILITY = Table(
    "gold.durability",
    "One row per scheme and number of brokers (or racks) that fail together for good: what is lost.",
    columns(*DURABILITY_COLUMNS, scheme=True),
    keys=(*_KEYS, "failure_unit", "failures"),
    expectations=(Between("loss_probability", 0, 1), _METHODS),
)

HEADROOM = Table(
    "gold.headroom",
    "One row per scheme, kind of failure and resource: the headroom that every failure of the kind requires.",
    columns(*HEADROOM_COLUMNS, scheme=True),
    keys=(*_KEYS, "scenario_kind", "resource"),
)

OVER_CAPACITY = Table(
    "gold.over_capacity",
    "One row per failure and survivor that would be over its capacity.",
    columns(*OVER_CAPACITY_COLUMNS, scheme=True),
    keys=(*_KEYS, "scenario", "broker_id", "resource"),
    partition_by=("cluster_id",),
)

SCHEME_DISTRIBUTION = Table(
    "gold.scheme_distribution",
    "One row per scheme that draws random numbers and metric: its values over many seeds; none with one seed.",
    columns(*SCHEME_DISTRIBUTION_COLUMNS, scheme=True),
    keys=(*_KEYS, "metric"),
)

HOTSPOT_DISTRIBUTION = Table(
    "gold.hotspot_distribution",
    "One row per cluster and computed scheme: the hottest broker over many seeds, beside the hottest broker now.",
    columns(*DISTRIBUTION_COLUMNS, scheme=True),
    keys=("cluster_id", "snapshot_id", "scheme"),
    partition_by=("cluster_id",),
    expectations=(Between("observed_percent", 0, 100),),
)


TOPIC_ORIGIN = Table(
    "gold.topic_origin",
    "One row per topic: which scheme could have placed its replicas, judged together with the cluster's other topics.",
    columns(*ORIGIN_COLUMNS),
    keys=("cluster_id", "snapshot_id", "topic"),
    partition_by=("cluster_id",),
    expectations=(OneOf("origin", _ORIGINS), Between("evidence", 0), Between("partitions_checked", 0)),
)

CLUSTER_ORIGIN = Table(
    "gold.cluster_origin",
    "One row per cluster: how many topics each scheme explains, and the broker order that most topics share.",
    columns(
        column("topics", LONG, "topics", required=True),
        column("inconclusive_topics", LONG, "topics with an origin but without evidence for it", required=True),
        *(column(f"{name}_topics", LONG, f"topics of origin {name}", required=True) for name in _ORIGINS),
        column("kafka_placed_percent", DOUBLE, "topics of origin kafka, kafka_rack_aware or kraft, % of known origins"),
        column("kafka_placed_conclusive_percent", DOUBLE, "the same share without inconclusive topics, %"),
        column("broker_order", INTS, "order that most topics of kafka and kafka_rack_aware share, see topic_origin"),
        column("broker_order_topics", LONG, "topics that share it", required=True),
        column("broker_orders", LONG, "different orders of topics of kafka and kafka_rack_aware", required=True),
    ),
    keys=("cluster_id", "snapshot_id"),
    expectations=(Between("kafka_placed_percent", 0, 100), Between("kafka_placed_conclusive_percent", 0, 100)),
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
    keys=_PLAN_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "goal"),
)

PLANS = Table(
    "gold.plans",
    "One row per cluster and goal: what the plan does, lower bounds that no plan can beat, and the cluster before and "
    "after it, with all live replicas in sync and led by the preferred leader. Means are over live brokers that are "
    "not to be emptied; null = not known, or no plan.",
    columns(*PLAN_COLUMNS),
    keys=_PLAN_KEYS,
    expectations=(
        OneOf("goal", tuple(GOALS)),
        Between("moves", 0),
        NoRowWhere(
            "plan_or_reasons", "feasible = (size(reasons) > 0)", "has a plan and reasons against it, or neither"
        ),
    ),
)

PLAN_MOVES = Table(
    "gold.plan_moves",
    "One row per partition whose replica list a plan changes.",
    columns(*MOVE_COLUMNS),
    keys=(*_PLAN_KEYS, "topic", "partition"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "goal", "topic"),
    expectations=(Between("first_wave", 1), Between("copied_bytes", 0)),
)

RUNS = Table(
    "ops.runs",
    "One row per finished stage of a run and cluster.",
    columns(
        column("run_id", TEXT, "id of the run", required=True),
        column("stage", TEXT, "stage that finished", required=True),
        column("table_name", TEXT, "table that it wrote", required=True),
        column("rows", LONG, "rows that it wrote for the cluster", required=True),
        column(
            "seconds",
            DOUBLE,
            "duration of the stage over all clusters of the run, seconds; 0 = finished in an earlier run",
            required=True,
        ),
        column("finished_at", TIME, "time when it finished (UTC)", required=True),
        column("as_of", TIME, "time that the sources describe: --as-of, or the start of the run (UTC)", required=True),
        column("version", TEXT, "version of kafka-placement, with a digest of its code", required=True),
        column("settings", TEXT, "settings of the run, as JSON", required=True),
    ),
    keys=(),
    append_only=True,
)

QUALITY_RESULTS = Table(
    "ops.quality_results",
    "One row per snapshot, table and expectation.",
    columns(
        column("table_name", TEXT, "checked table", required=True),
        column("expectation", TEXT, "name of the expectation", required=True),
        column("success", FLAG, "whether the snapshot meets it", required=True),
        column("checked_rows", LONG, "checked rows of the snapshot", required=True),
        column("unexpected_rows", LONG, "rows of the snapshot that violate it", required=True),
        column("example", TEXT, "example of such a row, as JSON"),
    ),
    keys=("cluster_id", "snapshot_id", "table_name", "expectation"),
)
