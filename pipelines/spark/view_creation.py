"""How views come to be: for the session over a folder, for good in a catalog, beside a catalog that holds no views."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pipelines.spark.views import SCHEMA, View

# What Spark says of a catalog that holds tables alone, as Unity Catalog's open-source one does.
_NO_VIEWS = "MISSING_CATALOG_ABILITY.VIEWS"
_SESSION_CATALOG = "spark_catalog"


def quoted(text: str) -> str:
    """The text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def make_views(spark: SparkSession, views: Sequence[View]) -> None:
    """Nothing; the views are in the current catalog as they are defined now."""
    if views:
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    for view in views:
        spark.sql(f"CREATE OR REPLACE VIEW {view.name} COMMENT {quoted(view.comment)} AS {view.sql}")


def keep_views(spark: SparkSession, views: Sequence[View]) -> bool:
    """Whether the current catalog holds views: then these are there, for every session."""
    try:
        make_views(spark, views)
    except AnalysisException as error:
        if error.getCondition() != _NO_VIEWS:
            raise
        return False
    return True


def find_views(spark: SparkSession, catalog: str, views: Sequence[View], tables: Sequence[str]) -> None:
    """Nothing; `SELECT ... FROM insights.view` works, in a session whose current catalog is `catalog`.

    What is there already is left alone: who may only read needs no right to make it. tables: what the session is
    asked beside the views. Where the catalog holds no views, the session's own one becomes the current one, with the
    views, and with each table by its name.
    """
    missing = [view for view in views if not spark.catalog.tableExists(f"`{catalog}`.{view.name}")]
    if keep_views(spark, missing):
        return
    known = {view.name for view in views}
    names = sorted({*tables, *(name for view in views for name in view.reads if name not in known)})
    spark.catalog.setCurrentCatalog(_SESSION_CATALOG)
    for schema in sorted({name.split(".")[0] for name in names}):
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name in names:
        spark.sql(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM `{catalog}`.{name}")
    make_views(spark, views)
