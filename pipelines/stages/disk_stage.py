"""gold.disk_after_failure: whether the data of what fails for good fits on the disks of the survivors."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame

from pipelines.config.capacity_file import match_disks
from pipelines.spark.arrow_frames import apply_to_pairs
from pipelines.spark.entity_shards import sum_shard_logs
from pipelines.tables.gold_tables import DISK_AFTER_FAILURE
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.failures.disk_after_failure import DISK_COLUMNS, VOLUMES, disk_rows
from udfs.failures.replica_logs import LOG_SUMS

_KEY_FIELDS = tuple(pa.field(name, pa.string()) for name in SNAPSHOT_KEY)


def disk_after_failure(
    entities: DataFrame,
    brokers: DataFrame,
    log_dirs: DataFrame,
    max_disk_ratio: float,
    capacities: Mapping[tuple[str, int, str], float],
    broker_bytes: float,
) -> DataFrame:
    """Build gold.disk_after_failure.

    capacities: of a file, by cluster ("" = every one), broker and log dir. broker_bytes: as in list_disks.
    """
    key = [*SNAPSHOT_KEY, "broker_id"]
    volumes = brokers.select(*key, "rack", "live").join(log_dirs.select(*key, *VOLUMES.names[3:]), on=key, how="left")

    def compute(key: tuple[pa.Scalar, ...], left: pa.Table, right: pa.Table) -> pa.Table:
        own = match_disks(capacities, key[0].as_py())
        tables = (left.select(LOG_SUMS.names).cast(LOG_SUMS), right.select(VOLUMES.names).cast(VOLUMES))
        rows = disk_rows(*tables, max_disk_ratio, own, broker_bytes)
        keys = [pa.repeat(scalar, rows.num_rows) for scalar in key]
        return pa.Table.from_arrays([*keys, *rows.columns], names=[*SNAPSHOT_KEY, *rows.schema.names])

    rows = apply_to_pairs(sum_shard_logs(entities, brokers), volumes, compute, pa.schema([*_KEY_FIELDS, *DISK_COLUMNS]))
    return rows.select(*DISK_AFTER_FAILURE.column_names)
