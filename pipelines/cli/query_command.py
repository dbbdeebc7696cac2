"""`query`: SQL over the tables and views, read-only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.app import app
from pipelines.cli.common_options import (
    ConfOption,
    SetOption,
    WarehouseOption,
    open_store_to_read,
    read_settings,
    write_text,
)
from pipelines.cli.help_examples import examples
from pipelines.errors import StoreError

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from pipelines.spark.store import Store

_SHOW = re.compile(r"\s*(SHOW|DESCRIBE|DESC)\b", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*(EXPLAIN\s+((EXTENDED|CODEGEN|COST|FORMATTED)\s+)?)", re.IGNORECASE)
_TAIL = re.compile(r"\s*;(\s|;|--[^\n]*(\n|$)|/\*[^*]*\*/)*$")  # semicolons at the end, and comments after them


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("query"))
def query(
    sql: Annotated[str, typer.Argument(help="A query, as in SELECT * FROM gold.leader_hotspots.")],
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write one JSON object per row to this file; - prints them, and nothing else. Binary values are "
            'base64, map keys are text, numbers that JSON lacks are "NaN", "Infinity" and "-Infinity".',
            metavar="FILE",
        ),
    ] = None,
    warehouse: WarehouseOption = None,
    conf: ConfOption = None,
    options: SetOption = None,
) -> None:
    """Query the tables and views in SQL."""
    from pipelines.cli.json_rows import json_line

    store = open_store_to_read(read_settings(conf, options, warehouse))
    columns, rows = run_query(store, sql, as_json=json_file is not None)
    if json_file is not None:
        write_text(json_file, "".join(f"{json_line(row)}\n" for row in rows))
    if str(json_file) != "-":
        print_rows(columns, rows)


def print_rows(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print the rows of a query."""
    from pipelines.cli.json_rows import text_of
    from pipelines.cli.text_grid import print_grid

    print_grid(columns, ([text_of(value) for value in row] for row in rows))


def run_query(store: Store, sql: str, as_json: bool) -> tuple[Sequence[str], list[Row]]:
    """Run a query that only reads.

    Args:
        store: The tables.
        sql: SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN.
        as_json: Whether each row must make a JSON object.

    Returns:
        Column names and rows.

    Raises:
        StoreError: If the SQL is invalid, changes something, or names a table that does not exist.
    """
    from pyspark.errors import AnalysisException, ParseException

    from pipelines.cli.json_rows import reject_repeated
    from pipelines.spark.session import silence_spark
    from pipelines.spark.views import BY_NAME as VIEWS
    from pipelines.spark.views import find_dependencies
    from pipelines.tables import TABLES

    plain = sql.replace("`", "")
    names = [n for n in (*TABLES, *VIEWS) if re.search(rf"\b{re.escape(n)}\b", plain, re.IGNORECASE)]
    tables, views = find_dependencies(names)
    registered = store.register(tables)
    for name in tables:
        if name not in registered:
            place = store.location(name)
            raise StoreError(f"there is no table {name} at {place}. Create it: kafka-placement run SOURCE...")
    store.register_views(views, registered)
    silence_spark(store.spark)
    try:
        frame = store.spark.sql(_check_read_only(store.spark, sql))
        columns = frame.columns
        if as_json:
            reject_repeated(columns)
        return columns, frame.collect()
    except (AnalysisException, ParseException) as error:
        message = f"invalid SQL: {error.getMessage() or error}"
        names_text = ", ".join((*TABLES, *VIEWS))
        hint = f"query only reads: SELECT, SHOW, DESCRIBE, EXPLAIN. Tables and views: {names_text}"
        raise StoreError(f"{message}\n{hint}") from error
    except StoreError:
        raise
    except Exception as error:  # whatever the query does wrong at run time: a division by zero, a bad cast
        raise StoreError(f"the query failed: {_first_line(error)}") from error


def _check_read_only(spark: SparkSession, sql: str) -> str:
    """Return the statement if it can only read; else raise Spark's ParseException.

    What Spark accepts as a subquery reads only, whatever comments and strings it has.
    """
    from pyspark.errors import ParseException

    explain = _EXPLAIN.match(sql)
    if explain:
        return explain[1] + _check_read_only(spark, sql[explain.end() :])
    if _SHOW.match(sql):
        return sql
    candidates = list(dict.fromkeys((sql, _TAIL.sub("", sql))))
    for last, candidate in enumerate(candidates, 1):
        try:
            spark.sql(f"SELECT * FROM ({candidate}\n)")
        except ParseException:
            if last == len(candidates):
                raise
        else:
            return candidate
    raise AssertionError("not reached")


def _first_line(error: Exception) -> str:
    """Return the message of an error without the stack trace of Spark's own code."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    causes = [line for line in lines if re.match(r": ([\w.$]+): ", line)]  # of Java, after Python's own message
    return re.sub(r"^: [\w.$]+: ", "", causes[0]) if causes else lines[0]
