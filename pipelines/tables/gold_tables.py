"""The gold tables that `run` writes. udfs/ declares the columns that it computes."""

from pipelines.ingest.merge.entities import LOADS, QUORUM_NODES
from pipelines.tables.table_contract import SNAPSHOT_KEY, Between, NoRowWhere, OneOf, Table, columns
from pipelines.verdict.cluster_evidence import ClusterFindings, list_columns
from pipelines.verdict.finding_rows import FINDING_COLUMNS
from udfs.arrow.columns import DOUBLE, INT, INTS, LONG, TEXT, column
from udfs.durability.durability_rows import DURABILITY_COLUMNS
from udfs.durability.kernels.loss_probability import EXACT, MONTE_CARLO
from udfs.failures.disk_after_failure import DISK_COLUMNS, DISK_KINDS
from udfs.failures.failure_outcomes import CURRENT_LOAD_COLUMNS
from udfs.failures.failure_rows import (
    HEADROOM_COLUMNS,
    LOAD_AFTER_FAILURE_COLUMNS,
    OVER_CAPACITY_COLUMNS,
    RANDOM_FAILURE_COLUMNS,
    SUMMARY_COLUMNS,
)
from udfs.failures.scenarios import ScenarioKind
from udfs.failures.scheme_distribution import SCHEME_DISTRIBUTION_COLUMNS
from udfs.growth.growth_rows import SUBJECT_COLUMNS
from udfs.growth.load_history import SubjectKind
from udfs.hotspots.hotspot_distribution import DISTRIBUTION_COLUMNS
from udfs.hotspots.hotspot_measures import HOTSPOT_COLUMNS
from udfs.network.traffic_rows import (
    MAX_ZONES,
    NETWORK_LOAD_COLUMNS,
    SCENARIO_KINDS,
    TRAFFIC_KINDS,
    ZONE_TRAFFIC_COLUMNS,
)
from udfs.origin.topic_origins import ORIGIN_COLUMNS, ORIGIN_NAMES
from udfs.planning.goal_registry import GOALS
from udfs.planning.plan_rows import METRIC_COLUMNS, MOVE_COLUMNS, PLAN_COLUMNS

_KEYS = (*SNAPSHOT_KEY, "scheme")
_PLAN_KEYS = (*SNAPSHOT_KEY, "goal")
_ORIGINS = tuple(ORIGIN_NAMES.values())
_METHODS = OneOf("method", (EXACT, MONTE_CARLO))
_KINDS = OneOf("scenario_kind", tuple(ScenarioKind))

QUORUM = Table(
    "gold.quorum",
    "One row per node of the controller quorum that sources show (KRaft): voters and observers, and which of them lag.",
    columns(*QUORUM_NODES),
    keys=(*SNAPSHOT_KEY, "node_id"),
    expectations=(Between("lag", 0), Between("lag_ms", 0)),
)

CLUSTER_FINDINGS = Table(
    "gold.cluster_findings",
    "One row per snapshot: what is wrong with the cluster already, and what its sources lack. `run` and "
    "`report` judge the cluster by it. Partitions of topics that are ignored or marked for deletion do not count.",
    columns(*list_columns(ClusterFindings)),
    keys=SNAPSHOT_KEY,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id",),
)

FINDINGS = Table(
    "gold.findings",
    "One row per snapshot and finding of its verdict, the most serious first: `what-if`, `run`, `report` and plans "
    "read what is wrong here.",
    columns(*FINDING_COLUMNS),
    keys=(*SNAPSHOT_KEY, "place"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id",),
)

PLACEMENTS = Table(
    "gold.placements",
    "One row per partition and scheme: its current replicas, or those that the scheme chooses.",
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

CURRENT_LOADS = Table(
    "gold.current_loads",
    "One row per live broker and scheme: leaders, replicas and load.",
    columns(*CURRENT_LOAD_COLUMNS, scheme=True),
    keys=(*_KEYS, "broker_id"),
    partition_by=("cluster_id",),
)

NETWORK_LOAD = Table(
    "gold.network_load",
    "One row per scheme and live broker (scenario none), and per survivor of each failure of a broker, of a rack or of "
    "custom brokers: what it receives and sends. See docs/network.md.",
    columns(*NETWORK_LOAD_COLUMNS, scheme=True),
    keys=(*_KEYS, "scenario", "broker_id"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme", "scenario_kind", "broker_id"),
    expectations=(
        OneOf("scenario_kind", SCENARIO_KINDS),
        *(Between(field.name, 0) for field in NETWORK_LOAD_COLUMNS if field.name.endswith("_per_s")),
    ),
)

ZONE_TRAFFIC = Table(
    "gold.zone_traffic",
    "One row per scheme, scenario (none, or a failure), kind of traffic and two zones (racks) between which there is "
    f"any. Clusters with more than {MAX_ZONES} zones have no rows of failures. Zones are null without racks. See "
    "docs/network.md.",
    columns(*ZONE_TRAFFIC_COLUMNS, scheme=True),
    keys=(),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme", "scenario_kind", "traffic_kind"),
    expectations=(
        OneOf("scenario_kind", SCENARIO_KINDS),
        OneOf("traffic_kind", TRAFFIC_KINDS),
        Between("bytes_per_s", 0),
        Between("cost_per_month", 0),
        NoRowWhere(
            "crosses_if_zones_differ",
            "crosses_zones <> (from_zone <> to_zone)",
            "has another value than its zones give",
        ),
    ),
)

LOAD_HISTORY = Table(
    "gold.load_history",
    "One row per cluster, broker, log dir and topic: partitions, bytes and rates. gold.growth compares them over time.",
    columns(
        *SUBJECT_COLUMNS,
        column("topic_id", TEXT, "its id (Kafka 2.8 and later)"),
        column(
            "partitions",
            LONG,
            "partitions with known replicas, for brokers and log dirs those that they hold",
            required=True,
        ),
        column(
            "all_partitions",
            LONG,
            "partitions of the topic, or of all topics, also those that the sources do not show; null for others",
        ),
        column("replicas", LONG, "replicas of these partitions, of brokers and log dirs those in them", required=True),
        column(
            "size_bytes", LONG, "their bytes on disks, for brokers and log dirs those of all logs; null = none is known"
        ),
        column(
            "bytes_in_per_s",
            DOUBLE,
            "bytes per second produced, for brokers also those that followers write; null = unknown",
        ),
        column(
            "bytes_out_per_s",
            DOUBLE,
            "bytes per second that consumers fetch, for brokers of what they lead; null = unknown",
        ),
        column("partitions_with_size", LONG, "of the partitions, those whose size is known", required=True),
        column("partitions_with_bytes_in", LONG, "of the partitions, those whose bytes in are known", required=True),
        column("partitions_with_bytes_out", LONG, "of the partitions, those whose bytes out are known", required=True),
    ),
    keys=(),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "subject_kind"),
    expectations=(
        OneOf("subject_kind", tuple(SubjectKind)),
        Between("size_bytes", 0),
        NoRowWhere(
            "subject",
            "(subject_kind IN ('broker', 'log_dir')) = (broker_id IS NULL) OR (subject_kind = 'log_dir') = (log_dir IS "
            "NULL) OR (subject_kind = 'topic') = (topic IS NULL)",
            "has another subject than its kind says",
        ),
    ),
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
        column("seeds", LONG, "number of seeds behind the percentiles; null = no percentiles for this metric"),
        column("value_p05", DOUBLE, "5th percentile over the seeds"),
        column("value_p50", DOUBLE, "median over the seeds"),
        column("value_p95", DOUBLE, "95th percentile over the seeds"),
        scheme=True,
    ),
    keys=(*_KEYS, "metric"),
)


LOADS_AFTER_FAILURE = Table(
    "gold.loads_after_failure",
    "One row per survivor of each failure of a broker, of a rack or of custom brokers (also of pairs, if "
    "failures.pair_loads is set): what it leads before and afterwards. For the failure of a broker, `takeovers` shows "
    "which broker takes over from which.",
    columns(*LOAD_AFTER_FAILURE_COLUMNS, scheme=True),
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
    "One row per scheme, kind of failure and quantity: the headroom that every failure of the kind requires.",
    columns(*HEADROOM_COLUMNS, scheme=True),
    keys=(*_KEYS, "scenario_kind", "quantity"),
)

OVER_CAPACITY = Table(
    "gold.over_capacity",
    "One row per failure and survivor that would be over its capacity.",
    columns(*OVER_CAPACITY_COLUMNS, scheme=True),
    keys=(*_KEYS, "scenario", "broker_id", "quantity"),
    partition_by=("cluster_id",),
)

DISK_AFTER_FAILURE = Table(
    "gold.disk_after_failure",
    "One row per live broker, per rack, and per log dir of brokers with several online (the last one fails with its "
    "broker): whether its data fits on the survivors' disks if it fails for good.",
    columns(*DISK_COLUMNS),
    keys=(*SNAPSHOT_KEY, "scenario"),
    partition_by=("cluster_id",),
    expectations=(
        OneOf("scenario_kind", DISK_KINDS),
        Between("bytes_to_copy", 0),
        Between("free_bytes", 0),
        Between("fullest_disk_ratio", 0),
    ),
)

SCHEME_DISTRIBUTION = Table(
    "gold.scheme_distribution",
    "One row per scheme that draws random numbers and metric: its values over many seeds; no rows for one seed.",
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
        column("kafka_placed_conclusive_percent", DOUBLE, "the same percentage without inconclusive topics"),
        column("broker_order", INTS, "order that most topics of kafka and kafka_rack_aware share, see topic_origin"),
        column("broker_order_topics", LONG, "topics that share it", required=True),
        column("broker_orders", LONG, "different orders of topics of kafka and kafka_rack_aware", required=True),
    ),
    keys=("cluster_id", "snapshot_id"),
    expectations=(Between("kafka_placed_percent", 0, 100), Between("kafka_placed_conclusive_percent", 0, 100)),
)


PLANS = Table(
    "gold.plans",
    "One row per cluster and goal: what the plan does, with a lower bound that no plan can beat; null = unknown, or no "
    "plan.",
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

PLAN_METRICS = Table(
    "gold.plan_metrics",
    "One row per plan and metric: its value in the cluster now and after the plan, with all live replicas in sync, and "
    "its lower bound. Means are over live brokers that are not to be emptied.",
    columns(*METRIC_COLUMNS),
    keys=(*_PLAN_KEYS, "metric"),
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
