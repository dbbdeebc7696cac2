"""Gold tables of failures: the outcome of each failure, capacity, and data loss. udfs/ declares their columns."""

from pipelines.tables.table_contract import Between, OneOf, Table, columns
from udfs.arrow.table_columns import BINARY, INTS, TEXT, TEXTS, column
from udfs.durability.durability_rows import DURABILITY_COLUMNS
from udfs.durability.kernels.loss_probability import EXACT, MONTE_CARLO
from udfs.failures.failure_rows import LOAD_COLUMNS, SUMMARY_COLUMNS
from udfs.failures.headroom import HEADROOM_COLUMNS, OVER_CAPACITY_COLUMNS
from udfs.failures.random_failures import RANDOM_FAILURE_COLUMNS
from udfs.failures.scenarios import ScenarioKind
from udfs.failures.scheme_distribution import SCHEME_DISTRIBUTION_COLUMNS

_KEYS = ("cluster_id", "snapshot_id", "scheme")
_METHODS = OneOf("method", (EXACT, MONTE_CARLO))
_KINDS = OneOf("scenario_kind", tuple(ScenarioKind))

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
