"""Fixtures of the tests of stages."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.spark.stages.frames import Frames, pack_entities, run_stage
from tests.spark.stages.small_cluster import make_small_cluster

# Sets of two brokers: the three of them are all that there are, so their means are exact.
AGGREGATE_SETTINGS = (
    'run.schemes=["observed", "naive"]',
    "hotspots.hot_ratio=1.1",
    'failures.custom=[{"brokers": [1, 2]}]',
    "failures.random_failure_sizes=2",
    "failures.random_sets=3",
)


@pytest.fixture(scope="session")
def small_cluster(spark_application: SparkSession) -> Frames:
    """The silver tables of the small cluster, and internal.scheme_aggregates of them."""
    frames = make_small_cluster(spark_application)
    frames["internal.entities"] = pack_entities(spark_application, frames)
    aggregates = run_stage("internal.scheme_aggregates", frames, *AGGREGATE_SETTINGS)
    return {**frames, "internal.scheme_aggregates": aggregates.localCheckpoint()}
