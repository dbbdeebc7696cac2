"""Gold table of the hotspot distribution."""

from pipelines.tables.table_contract import Between, Table, columns
from udfs.hotspots.hotspot_distribution import DISTRIBUTION_COLUMNS

HOTSPOT_DISTRIBUTION = Table(
    "gold.hotspot_distribution",
    "One row per cluster and computed scheme: the hottest broker over many seeds, beside the hottest broker now.",
    columns(*DISTRIBUTION_COLUMNS, scheme=True),
    keys=("cluster_id", "snapshot_id", "scheme"),
    partition_by=("cluster_id",),
    expectations=(Between("observed_percent", 0, 100),),
)
