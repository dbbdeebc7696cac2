"""Make tables and views known to Spark SQL by name."""

import re
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pipelines.spark.sql_conditions import quote_text
from pipelines.spark.views import BY_NAME, SCHEMA, View
from pipelines.tables import TABLES

# Spark's condition for a catalog that holds tables only, as the open-source Unity Catalog.
_NO_VIEWS = "MISSING_CATALOG_ABILITY.VIEWS"
_SESSION_CATALOG = "spark_catalog"
_SCHEMAS = "|".join(sorted({name.split(".")[0] for name in (*TABLES, *BY_NAME)}))
_NAME = re.compile(rf"('(?:[^'\\\\]|\\\\.)*')|\b({_SCHEMAS})\.(\w+)")  # a string, or the name of a table or view


def use_temporary_names(sql: str) -> str:
    """Replace names of tables and views, such as gold.plans, by those of temporary views, such as gold__plans."""
    return _NAME.sub(lambda match: match[1] or f"{match[2]}__{match[3]}", sql)


def create_views(spark: SparkSession, views: Sequence[View]) -> bool:
    """Create views in the current catalog, or replace them.

    Returns:
        Whether the catalog can hold views.
    """
    try:
        if views:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        for view in views:
            spark.sql(f"CREATE OR REPLACE VIEW {view.name} COMMENT {quote_text(view.comment)} AS {view.sql}")
    except AnalysisException as error:
        if error.getCondition() != _NO_VIEWS:
            raise
        return False
    return True


def register_catalog_views(spark: SparkSession, catalog: str, views: Sequence[View], tables: Sequence[str]) -> None:
    """Make views of a catalog known to the session by name.

    Views that exist stay as they are: read-only users do not need CREATE VIEW. If the catalog cannot hold views, the
    session's own catalog becomes the current one, and gets the views, and a view of each table that they or the session
    read.
    """
    missing = [view for view in views if not spark.catalog.tableExists(f"`{catalog}`.{view.name}")]
    if create_views(spark, missing):
        return
    view_names = {view.name for view in views}
    names = sorted({*tables, *(name for view in views for name in view.dependencies if name not in view_names)})
    spark.catalog.setCurrentCatalog(_SESSION_CATALOG)
    for schema in sorted({name.split(".")[0] for name in names}):
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for name in names:
        spark.sql(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM `{catalog}`.{name}")
    create_views(spark, views)
