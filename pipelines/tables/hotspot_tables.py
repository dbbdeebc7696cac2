"""Gold: how hot the hottest broker gets by chance."""

from __future__ import annotations

import pyarrow as pa

from pipelines.tables.table_contract import Between, Table, columns
from udfs.arrow.table_columns import DOUBLE, LONG, column

_ABOVE = pa.list_(pa.struct([("above_ratio", DOUBLE), ("probability", DOUBLE)]))


def _percentiles(of: str, *names: str) -> tuple[pa.Field, ...]:
    said = {"highest": "in the worst seed"} | {f"p{n}": f"not passed in {n} % of the seeds" for n in (5, 50, 95, 99)}
    return tuple(
        column(f"{of}_max_over_mean_{name}_ratio", DOUBLE, f"hottest broker's {of} over the mean, {said[name]}")
        for name in names
    )


HOTSPOT_DISTRIBUTION = Table(
    "gold.hotspot_distribution",
    "One row per cluster and computed scheme: the hottest broker over many seeds, and where the cluster stands now.",
    columns(
        column(
            "seeds",
            LONG,
            "seeds tried, from run.seed on; fewer than hotspots.seeds where these would pass hotspots.work; "
            "1 = the scheme draws nothing; 0 = nothing can be placed, and what rests on seeds is null",
            required=True,
        ),
        column("brokers", LONG, "live brokers", required=True),
        column("unplaceable_topics", LONG, "topics that the scheme cannot place; left out", required=True),
        column("partitions", LONG, "partitions placed", required=True),
        column("single_partition_topics", LONG, "topics of one partition", required=True),
        column("leaders_mean", DOUBLE, "leaders per live broker"),
        *_percentiles("leaders", "p5", "p50", "p95", "p99", "highest"),
        *_percentiles("replicas", "p50", "p95", "highest"),
        column(
            "distribution",
            _ABOVE,
            "share of the seeds (0 to 1) with leaders max/mean above each of hotspots.thresholds",
        ),
        column("observed_leaders_max", LONG, "leaders of the hottest live broker now; null = nothing is led"),
        column("observed_max_over_mean_ratio", DOUBLE, "that over the mean of the live brokers now"),
        column("observed_percent", DOUBLE, "seeds whose max/mean is at most the observed, %"),
        column(
            "single_partition_leaders_max_expected", DOUBLE, "balls into bins: leaders of single-partition topics alone"
        ),
        column("single_partition_max_over_mean_expected_ratio", DOUBLE, "that over their mean"),
        column(
            "random_leaders_max_expected",
            DOUBLE,
            "balls into bins: whole rounds as they are, every other partition on any broker, blind to its topic's rest",
        ),
        column("random_max_over_mean_expected_ratio", DOUBLE, "that over leaders_mean"),
        scheme=True,
    ),
    keys=("cluster_id", "snapshot_id", "scheme"),
    partition_by=("cluster_id",),
    expectations=(Between("observed_percent", 0, 100),),
)
