"""Open tables so that a test fails if Spark is started for them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from pipelines.spark.store import Store


def open_without_spark(warehouse: Path | str) -> Store:
    """Open the small tables of a folder."""

    def start() -> SparkSession:
        raise AssertionError("Spark was started")

    return Store(start, str(warehouse), small=True)
