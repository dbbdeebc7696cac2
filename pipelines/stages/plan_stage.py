"""internal.packed_plans, and gold.plans and gold.plan_moves out of it: clusters are solved side by side, each as a
whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.tables.plan_tables import PLAN_MOVES, PLANNED, PLANS
from udfs.planning import plan_batches
from udfs.planning.plan_metrics import Effort
from udfs.planning.plan_request import PlanRequest
from udfs.planning.waves import Limits

_KEY = ("cluster_id", "snapshot_id")


@dataclass(frozen=True)
class PlanParameters:
    """request: the same of every cluster; None = no plans.   limits: of waves.   effort: of metrics.

    min_insync_replicas: of topics whose sources show no such config.   settings: what all this follows from, as JSON.
    """

    request: PlanRequest | None
    limits: Limits
    effort: Effort
    min_insync_replicas: int
    settings: str


def _packed(rows: DataFrame, kind: str) -> DataFrame:
    return rows.mapInArrow(plan_batches.packer(kind), from_arrow_schema(plan_batches.IPC_BATCHES))


def _partitions(partitions: DataFrame) -> DataFrame:
    # Empty lists for null ones: Spark hands null lists to Python slowly (see conf/spark.toml).
    none = F.array().cast("array<int>")
    lists = [F.coalesce(name, none).alias(name) for name in ("adding_replicas", "removing_replicas")]
    others = [name for name in plan_batches.PARTITIONS.names if name not in ("adding_replicas", "removing_replicas")]
    return partitions.where(F.col("replicas").isNotNull()).select(*_KEY, *others, *lists)


def planned(topics: DataFrame, partitions: DataFrame, brokers: DataFrame, parameters: PlanParameters) -> DataFrame:
    """Rows of internal.packed_plans: one for every snapshot that has a broker or a topic, also where no plan is
    possible."""
    parts = {
        "brokers": brokers.select(*_KEY, *plan_batches.BROKERS.names),
        "topics": topics.select(*_KEY, *plan_batches.TOPICS.names),
        "partitions": _partitions(partitions),
    }
    ipc_batches = reduce(DataFrame.unionByName, [_packed(rows, kind) for kind, rows in parts.items()])
    request = parameters.request
    if request is None:
        request, ipc_batches = PlanRequest(""), ipc_batches.limit(0)
    body = plan_batches.planner(request, parameters.limits, parameters.effort, parameters.min_insync_replicas)
    made = ipc_batches.groupBy(*_KEY).applyInArrow(body, from_arrow_schema(plan_batches.PLANNED))
    return made.withColumn("settings", F.lit(parameters.settings)).select(*PLANNED.column_names)


def _rows(planned: DataFrame, part: str) -> DataFrame:
    key = [*_KEY, "goal"]
    # Grouped, not mapped: a batch of rows that are megabytes each would hold them all at once.
    grouped = planned.select(*key, part).groupBy(*key)
    return grouped.applyInArrow(plan_batches.unpacker(part), from_arrow_schema(plan_batches.keyed(part)))


def plans(planned: DataFrame) -> DataFrame:
    """Rows of gold.plans."""
    return _rows(planned, "plan").select(*PLANS.column_names)


def plan_moves(planned: DataFrame) -> DataFrame:
    """Rows of gold.plan_moves."""
    return _rows(planned, "moves").select(*PLAN_MOVES.column_names)
