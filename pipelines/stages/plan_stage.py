"""internal.packed_plans, and the tables of plans that are unpacked from it: one task makes one plan of a cluster."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.tables.gold_tables import PLAN_METRICS, PLAN_MOVES, PLANS
from pipelines.tables.internal_tables import PACKED_PLANS
from pipelines.tables.table_contract import SNAPSHOT_KEY
from udfs.failures.topic_defaults import TopicDefaults
from udfs.planning import plan_batches
from udfs.planning.plan_metrics import MetricOptions
from udfs.planning.plan_request import PlanRequest
from udfs.planning.waves import WaveLimits


class PlanParameters(NamedTuple):
    """What the plans of a run depend on."""

    requests: Mapping[str, Sequence[PlanRequest]]  # By cluster, each of another goal; none = no plans
    limits: WaveLimits  # Limits of waves
    metric_options: MetricOptions  # How much work metrics may take
    topic_defaults: TopicDefaults
    settings: str  # The settings that all this follows from, as JSON


def _select_partitions(partitions: DataFrame) -> DataFrame:
    # Empty lists for null ones: Spark hands null lists to Python slowly (see conf/spark.toml).
    lists = ("adding_replicas", "removing_replicas", "offline_replicas")
    empty = F.array().cast("array<int>")
    names = plan_batches.PARTITIONS.names
    columns = [F.coalesce(name, empty).alias(name) if name in lists else F.col(name) for name in names]
    return partitions.where(F.col("replicas").isNotNull()).select(*SNAPSHOT_KEY, *columns)


def pack_plans(topics: DataFrame, partitions: DataFrame, brokers: DataFrame, parameters: PlanParameters) -> DataFrame:
    """Meet the requests of every snapshot that has a broker or a topic: rows of internal.packed_plans.

    A request that no plan meets has a row, too.
    """
    inputs = {
        "brokers": brokers.select(*SNAPSHOT_KEY, *plan_batches.BROKERS.names),
        "topics": topics.select(*SNAPSHOT_KEY, *plan_batches.TOPICS.names),
        "partitions": _select_partitions(partitions),
    }
    schema = from_arrow_schema(plan_batches.IPC_BATCHES)
    packed_rows = [
        rows.mapInArrow(plan_batches.make_packer(kind, parameters.requests), schema) for kind, rows in inputs.items()
    ]
    ipc_batches = reduce(DataFrame.unionByName, packed_rows)
    options = (parameters.limits, parameters.metric_options, parameters.topic_defaults)
    planner = plan_batches.make_planner(parameters.requests, *options)
    packed = ipc_batches.groupBy(*SNAPSHOT_KEY, "goal").applyInArrow(
        planner, from_arrow_schema(plan_batches.PACKED_PLANS)
    )
    return packed.withColumn("settings", F.lit(parameters.settings)).select(*PACKED_PLANS.column_names)


def _unpack(packed_plans: DataFrame, part: str) -> DataFrame:
    key = [*SNAPSHOT_KEY, "goal"]
    # Grouped, not mapped: a batch would hold many rows of megabytes each in memory at once.
    grouped = packed_plans.select(*key, part).groupBy(*key)
    schema = from_arrow_schema(plan_batches.schema_with_keys(part))
    return grouped.applyInArrow(plan_batches.make_unpacker(part), schema)


def unpack_plans(packed_plans: DataFrame) -> DataFrame:
    """Unpack the rows of gold.plans."""
    return _unpack(packed_plans, "plan").select(*PLANS.column_names)


def unpack_plan_metrics(packed_plans: DataFrame) -> DataFrame:
    """Unpack the rows of gold.plan_metrics."""
    return _unpack(packed_plans, "metrics").select(*PLAN_METRICS.column_names)


def unpack_plan_moves(packed_plans: DataFrame) -> DataFrame:
    """Unpack the rows of gold.plan_moves."""
    return _unpack(packed_plans, "moves").select(*PLAN_MOVES.column_names)
