"""Give notebooks their parameters, and the tables and views by name."""

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from pipelines.config.settings import load_settings
from pipelines.spark.session import open_session
from pipelines.spark.store import Store
from pipelines.spark.table_migrations import check_migrated


def get_parameter(notebook: Mapping[str, Any], name: str, default: str) -> str:
    """Get a parameter from a widget of `globals()` on Databricks, elsewhere from the variable NOTEBOOK_NAME."""
    widgets = getattr(notebook.get("dbutils"), "widgets", None)
    if widgets is None:
        return os.environ.get(f"NOTEBOOK_{name.upper()}", default)
    widgets.text(name, default)
    return str(widgets.get(name))


def open_tables(app_name: str) -> SparkSession:
    """Open a session where existing tables and views have names, as in `SELECT ... FROM gold.placements`."""
    store_settings = load_settings().store
    spark = open_session(app_name, warehouse=None)
    store = Store(spark, store_settings.warehouse, store_settings.catalog)
    check_migrated(store)
    store.register_all()
    return spark
