"""What every notebook begins with: its parameters, and the tables and views by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from pipelines.config.settings import load_settings
from pipelines.spark.session import open_session
from pipelines.spark.store import Store
from pipelines.spark.views import VIEWS, needed
from pipelines.tables import TABLES

_PREFIX = "NOTEBOOK_"


def parameter(notebook: Mapping[str, Any], name: str, default: str) -> str:
    """The value of a widget on Databricks; elsewhere of the environment's NOTEBOOK_NAME, or the default.

    notebook: its `globals()`: that is where Databricks puts `dbutils`.
    """
    widgets = getattr(notebook.get("dbutils"), "widgets", None)
    if widgets is None:
        return os.environ.get(f"{_PREFIX}{name.upper()}", default)
    widgets.text(name, default)
    value: str = widgets.get(name)
    return value


def open_tables(app_name: str) -> SparkSession:
    """A session in which `SELECT ... FROM gold.placements` and `FROM insights.hottest_brokers` work.

    Where the tables are comes from the settings, as for the command. What has not been made is not there.
    """
    place = load_settings().store
    spark = open_session(app_name, warehouse=None)
    store = Store(spark, place.warehouse, place.catalog)
    there = set(store.register(list(TABLES)))
    whole = [view.name for view in VIEWS if set(needed([view.name])[0]) <= there]
    store.register_views(needed(whole)[1])
    return spark
