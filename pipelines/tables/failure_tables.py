"""Gold: what each failure does, and whether anything would be lost."""

from __future__ import annotations

import pyarrow as pa

from pipelines.tables.table_contract import Between, OneOf, Table, columns
from udfs.arrow.table_columns import BINARY, DOUBLE, INT, INTS, LONG, TEXT, TEXTS, column

_KEYS = ("cluster_id", "snapshot_id", "scheme")

_KIND = column(
    "scenario_kind",
    TEXT,
    "broker, pair (of brokers), rack, custom (see failures.custom), random (a drawn set) or rolling_restart (one step)",
    required=True,
)
SCENARIO = (
    _KIND,
    column("scenario", TEXT, "what fails: broker:2, pair:1,2, rack:east, random:3:17, shutdown:2", required=True),
    column("failed_brokers", INTS, "the brokers that are down then, rising", required=True),
)

SCHEME_AGGREGATES = Table(
    "internal.scheme_aggregates",
    "One row per scheme: sums over its partitions, packed. The tables of load, hotspots, failures and durability are "
    "arithmetic on it; nothing else should read it.",
    columns(
        column("settings", TEXT, "the settings that the sums rest on, as JSON", required=True),
        column("brokers", INTS, "live brokers, rising", required=True),
        column("racks", TEXTS, "the rack of each; null = none known", required=True),
        column("sums", BINARY, "named arrays, see udfs/failures/aggregates.py", required=True),
        column("topic_hotspots", BINARY, "measures of its topics, see udfs/failures/load_rows.py", required=True),
        scheme=True,
    ),
    keys=_KEYS,
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme"),
)


_UNKNOWN = "partitions of unknown rate count as 0; null = none is known"


def _rate(of: str, says: str) -> tuple[pa.Field, pa.Field]:
    return (
        column(f"{of}_before_per_s", DOUBLE, f"bytes per second {says}, before; {_UNKNOWN}"),
        column(f"{of}_after_per_s", DOUBLE, f"bytes per second {says}, afterwards; {_UNKNOWN}"),
    )


FAILURE_LOAD = Table(
    "gold.failure_load",
    "One row per survivor of each single failure, rack and list (of pairs with failures.pair_loads): what it led "
    "before, and leads after. Of a single failure, `takeovers` is who takes over from whom.",
    columns(
        *SCENARIO,
        column("broker_id", INT, "the survivor", required=True),
        column("leaders_before", LONG, "partitions it led", required=True),
        column("takeovers", LONG, "partitions it takes over", required=True),
        column("leaders_after", LONG, "partitions it leads then", required=True),
        *_rate("bytes_in", "produced to what it leads"),
        *_rate("bytes_out", "that consumers fetch from what it leads"),
        *_rate("fetch", "it sends: to consumers, and bytes in to each follower in sync"),
        scheme=True,
    ),
    keys=(*_KEYS, "scenario", "broker_id"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme", "scenario_kind", "broker_id"),
    expectations=(Between("leaders_after", 0),),
)


def _worst(of: str, what: str) -> pa.Field:
    return column(
        f"worst_survivor_{of}_ratio", DOUBLE, f"{what} of the survivor with most, over the survivors' mean; {_UNKNOWN}"
    )


FAILURE_SUMMARY = Table(
    "gold.failure_summary",
    "One row per scenario and scheme: the outcome of the failure.",
    columns(
        *SCENARIO,
        column("survivors", LONG, "live brokers that are left", required=True),
        column("leaders_lost", LONG, "partitions that the failed brokers led", required=True),
        column("takeover_brokers", LONG, "survivors that take over at least one", required=True),
        column("leaders_after_mean", DOUBLE, "leaders per survivor afterwards; null = no survivor"),
        column("leaders_after_max", LONG, "leaders of the worst survivor afterwards; null = no survivor"),
        column("worst_survivor", INT, "survivor that leads most afterwards; the lowest id among equals"),
        column(
            "worst_survivor_ratio",
            DOUBLE,
            "leaders_after_max over leaders_after_mean; null where the survivors lead nothing",
        ),
        _worst("bytes_in", "bytes in"),
        _worst("bytes_out", "bytes out"),
        _worst("fetch", "what leaders send (null for pairs and restarts)"),
        column("offline_partitions", LONG, "partitions without leader afterwards", required=True),
        column("newly_offline_partitions", LONG, "of those, taken offline by this failure", required=True),
        column("offline_size_bytes", LONG, "bytes of the partitions newly offline; null = of some unknown"),
        column("under_min_isr_before_partitions", LONG, "led partitions that reject acks=all now", required=True),
        column("under_min_isr_partitions", LONG, "led partitions that reject acks=all afterwards", required=True),
        column("single_isr_partitions", LONG, "led partitions left with one in-sync replica", required=True),
        column("unclean_elections", LONG, "leaders elected outside of the ISR: messages may be lost", required=True),
        column("potential_lost_messages", LONG, "messages that these lack, by their lag; null = of some unknown"),
        scheme=True,
    ),
    keys=(*_KEYS, "scenario"),
    partition_by=("cluster_id",),
    skip_by=("snapshot_id", "scheme", "scenario_kind", "worst_survivor_ratio", "offline_partitions"),
    expectations=(Between("offline_partitions", 0), Between("under_min_isr_partitions", 0)),
)

RANDOM_FAILURES = Table(
    "gold.random_failures",
    "One row per scheme, number of brokers that fail together, and metric: its mean over random sets of brokers.",
    columns(
        column("failures", INT, "brokers that fail together", required=True),
        column("metric", TEXT, "a column of gold.failure_summary; any_newly_offline: 1 where any is", required=True),
        column("method", TEXT, "exact: every set there is; monte_carlo: drawn sets", required=True),
        column("draws", LONG, "sets that have a value", required=True),
        column("value_mean", DOUBLE, "mean over the sets", required=True),
        column("value_mean_low", DOUBLE, "lower end of the mean's interval at 95 %; null = exact"),
        column("value_mean_high", DOUBLE, "upper end of the mean's interval at 95 %; null = exact"),
        column("value_p50", DOUBLE, "median over the sets", required=True),
        column("value_p95", DOUBLE, "not passed by 95 % of the sets", required=True),
        column("value_max", DOUBLE, "the largest seen", required=True),
        scheme=True,
    ),
    keys=(*_KEYS, "failures", "metric"),
    expectations=(OneOf("method", ("exact", "monte_carlo")),),
)

DURABILITY = Table(
    "gold.durability",
    "One row per scheme and number of brokers (or racks) that fail together for good: what is lost.",
    columns(
        column("failure_unit", TEXT, "what fails: broker, rack", required=True),
        column("failures", INT, "how many fail together, any of them with the same chance", required=True),
        column("units", LONG, "live brokers; racks with a live broker", required=True),
        column("copysets", LONG, "distinct sets of live brokers (or racks) that partitions lie on", required=True),
        column("scatter_width_mean", DOUBLE, "other brokers that share a partition with a broker, mean", required=True),
        column("scatter_width_min", LONG, "the same of the broker with fewest", required=True),
        column("scatter_width_max", LONG, "the same of the broker with most", required=True),
        column("loss_probability", DOUBLE, "chance that some partition loses every live replica", required=True),
        column("loss_probability_low", DOUBLE, "lower end of its interval at 95 %; null = exact"),
        column("loss_probability_high", DOUBLE, "upper end of its interval at 95 %; null = exact"),
        column("method", TEXT, "exact: by counting; monte_carlo: by draws", required=True),
        column("lost_partitions_mean", DOUBLE, "expected number of partitions lost; null for racks"),
        column("lost_bytes_mean", DOUBLE, "expected bytes lost (of a replica each); null = unknown, or racks"),
        column("already_lost_partitions", LONG, "partitions without any live replica now, left out", required=True),
        scheme=True,
    ),
    keys=(*_KEYS, "failure_unit", "failures"),
    expectations=(Between("loss_probability", 0, 1), OneOf("method", ("exact", "monte_carlo"))),
)

_RESOURCE = column("resource", TEXT, "leaders, bytes_in_per_s, bytes_out_per_s, fetch_per_s", required=True)

HEADROOM = Table(
    "gold.headroom",
    "One row per scheme, kind of failure and resource: the headroom that every failure of the kind takes.",
    columns(
        _KIND,
        _RESOURCE,
        column("capacity_source", TEXT, "uniform: the mean of live brokers now; file: capacity.file", required=True),
        column(
            "required_headroom_ratio",
            DOUBLE,
            "smallest uniform headroom that survives each: capacity must be 1 + this times the mean (or the file's); "
            "below 0 = to spare; null = a broker of capacity 0 gets load. No row where nothing is led",
        ),
        column("worst_scenario", TEXT, "the failure that needs it", required=True),
        column("worst_broker", INT, "the survivor that needs it", required=True),
        column("worst_load", DOUBLE, "its load then: leaders, or bytes per second", required=True),
        column("scenarios", LONG, "failures of the kind", required=True),
        column("scenarios_over_capacity", LONG, "of those, after which a survivor is over its capacity", required=True),
        scheme=True,
    ),
    keys=(*_KEYS, "scenario_kind", "resource"),
)

OVER_CAPACITY = Table(
    "gold.over_capacity",
    "One row per failure and survivor that would be over its capacity.",
    columns(
        *SCENARIO,
        column("broker_id", INT, "the survivor", required=True),
        _RESOURCE,
        column("load_after", DOUBLE, "its load then: leaders, or bytes per second", required=True),
        column("capacity", DOUBLE, "what it can bear: of capacity.file, else 1 + capacity.headroom times the mean now"),
        column("excess_load", DOUBLE, "load_after less capacity", required=True),
        column("load_over_capacity_ratio", DOUBLE, "load_after over capacity; null = capacity 0"),
        scheme=True,
    ),
    keys=(*_KEYS, "scenario", "broker_id", "resource"),
    partition_by=("cluster_id",),
)

SCHEME_DISTRIBUTION = Table(
    "gold.scheme_distribution",
    "One row per scheme that draws and metric: its values over many seeds, from run.seed on; none with one seed.",
    columns(
        column("metric", TEXT, "as in gold.scheme_comparison", required=True),
        column("seeds", LONG, "seeds tried; fewer than failures.seeds where these would pass failures.work", True),
        column("value_mean", DOUBLE, "mean over the seeds", required=True),
        column("value_p05", DOUBLE, "passed by 95 % of the seeds", required=True),
        column("value_p50", DOUBLE, "median over the seeds", required=True),
        column("value_p95", DOUBLE, "not passed by 95 % of the seeds", required=True),
        scheme=True,
    ),
    keys=(*_KEYS, "metric"),
)
