"""gold.disk_after_failure: whether the data of what fails for good fits on the disks of the survivors."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.config.capacity_file import match_disks
from pipelines.spark.arrow_frames import apply_to_pairs
from pipelines.tables.gold_tables import DISK_AFTER_FAILURE
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.failures.disk_after_failure import DISK_COLUMNS, USAGE, VOLUMES, disk_rows

_KEY_FIELDS = tuple(pa.field(name, pa.string()) for name in SNAPSHOT_KEY)


def _sum_usage(partitions: DataFrame) -> DataFrame:
    """Sum the replicas of each broker and log dir (USAGE)."""
    placed = partitions.where(F.col("replicas").isNotNull())
    replicas = placed.select(
        *SNAPSHOT_KEY, "leader", "isr", "logs", "replica_sizes", F.posexplode("replicas").alias("at", "broker_id")
    )
    is_only = (F.size("isr") == 1) & F.array_contains("isr", F.col("broker_id"))
    known = replicas.select(
        *SNAPSHOT_KEY,
        "broker_id",
        F.get("logs", F.col("at"))["log_dir"].alias("log_dir"),
        F.get("replica_sizes", F.col("at")).alias("bytes"),
        (F.col("leader") == F.col("broker_id")).alias("leads"),
        is_only.alias("is_only"),
    )
    return known.groupBy(*SNAPSHOT_KEY, "broker_id", "log_dir").agg(
        F.count("*").alias("replicas"),
        F.count(F.when(F.col("leads"), 1)).alias("leaders"),
        F.count(F.when(F.col("is_only"), 1)).alias("only_in_sync_partitions"),
        F.when(F.count("bytes") == F.count("*"), F.sum("bytes")).alias("size_bytes"),
    )


def disk_after_failure(
    partitions: DataFrame,
    brokers: DataFrame,
    log_dirs: DataFrame,
    max_disk_ratio: float,
    capacities: Mapping[tuple[str, int, str], float],
) -> DataFrame:
    """Build gold.disk_after_failure. capacities: of a file, by cluster ("" = every one), broker and log dir."""
    key = [*SNAPSHOT_KEY, "broker_id"]
    volumes = brokers.select(*key, "rack", "live").join(log_dirs.select(*key, *VOLUMES.names[3:]), on=key, how="left")
    usage = _sum_usage(partitions)

    def compute(key: tuple[pa.Scalar, ...], left: pa.Table, right: pa.Table) -> pa.Table:
        own = match_disks(capacities, key[0].as_py())
        tables = (left.select(USAGE.names).cast(USAGE), right.select(VOLUMES.names).cast(VOLUMES))
        rows = disk_rows(*tables, max_disk_ratio, own)
        keys = [pa.repeat(scalar, rows.num_rows) for scalar in key]
        return pa.Table.from_arrays([*keys, *rows.columns], names=[*SNAPSHOT_KEY, *rows.schema.names])

    rows = apply_to_pairs(usage, volumes, compute, pa.schema([*_KEY_FIELDS, *DISK_COLUMNS]))
    return rows.select(*DISK_AFTER_FAILURE.column_names)
