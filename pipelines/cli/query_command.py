"""`query`: read-only SQL over the tables and views."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.text_format import print_grid
from pipelines.errors import StoreError

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from pipelines.spark.store import Store

_SHOW = re.compile(r"\s*(SHOW|DESCRIBE|DESC)\b", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*(EXPLAIN\s+((EXTENDED|CODEGEN|COST|FORMATTED)\s+)?)", re.IGNORECASE)
_TAIL = re.compile(r"\s*;(\s|;|--[^\n]*(\n|$)|/\*[^*]*\*/)*$")  # semicolons at the end, and comments after them


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("query"))
def query(
    sql: Annotated[str, typer.Argument(help="A query, as in SELECT * FROM gold.leader_hotspots.", metavar="SQL")],
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write one JSON object per row to this file; - prints them, and nothing else. Binary values are "
            'base64, map keys are text, numbers that JSON lacks are "NaN", "Infinity" and "-Infinity".',
            metavar="FILE",
        ),
    ] = None,
    warehouse: common.WarehouseOption = None,
    conf: common.ConfOption = None,
    options: common.SetOption = None,
) -> None:
    """Query the tables and views in SQL."""
    store = common.open_store_to_read(common.read_settings(conf, options, warehouse))
    columns, rows = run_query(store, sql, as_json=json_file is not None)
    if json_file is not None:
        common.write_text(json_file, "".join(f"{format_json_line(row)}\n" for row in rows))
    if str(json_file) != "-":
        print_rows(columns, rows)


def run_query(store: Store, sql: str, as_json: bool) -> tuple[Sequence[str], list[Row]]:
    """Run a query that only reads, and return column names and rows; as_json: each row must make a JSON object.

    Raises: StoreError if the SQL is invalid, changes something, or names a table that does not exist.
    """
    from pyspark.errors import AnalysisException, ParseException

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
        if as_json:
            _reject_repeated(frame.columns)
        return frame.columns, frame.collect()
    except (AnalysisException, ParseException) as error:
        hint = f"query only reads: SELECT, SHOW, DESCRIBE, EXPLAIN. Tables and views: {', '.join((*TABLES, *VIEWS))}"
        raise StoreError(f"invalid SQL: {error.getMessage() or error}\n{hint}") from error
    except StoreError:
        raise
    except Exception as error:  # whatever the query does wrong at run time: a division by zero, a bad cast
        raise StoreError(f"the query failed: {_get_first_line(error)}") from error


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
    for candidate in candidates[:-1]:
        try:
            spark.sql(f"SELECT * FROM ({candidate}\n)")
        except ParseException:
            continue
        return candidate
    spark.sql(f"SELECT * FROM ({candidates[-1]}\n)")
    return candidates[-1]


def _get_first_line(error: Exception) -> str:
    """Return the message of an error without the stack trace of Spark's own code."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    causes = [line for line in lines if re.match(r": ([\w.$]+): ", line)]  # of Java, after Python's own message
    return re.sub(r"^: [\w.$]+: ", "", causes[0]) if causes else lines[0]


def print_rows(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print the rows of a query."""
    print_grid(columns, ([format_cell(value) for value in row] for row in rows))


def format_cell(value: Any) -> str:
    """Format a value as text: null is nothing, binary values are base64."""
    return "" if value is None else _encode(value) if isinstance(value, bytes | bytearray) else str(value)


def format_json_line(row: Row) -> str:
    """Format a row as one JSON object. Raises: StoreError if two fields of one struct share a name."""
    return json.dumps(_to_plain(row))


def _reject_repeated(names: Sequence[str]) -> None:
    """Raise StoreError if two columns share a name: a JSON object could hold only one of them."""
    for name in dict.fromkeys(names):
        times = list(names).count(name)
        if times > 1:
            problem = f"--json: {times} columns are named {name!r}, but a JSON object can have a name only once"
            raise StoreError(f"{problem}. Give them different names: SELECT ... AS other_name")


def _encode(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


def _to_plain(value: Any) -> Any:
    """Convert a value of Spark's to one that JSON has."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if math.isnan(value):
                return "NaN"
            return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
        case tuple() if hasattr(value, "__fields__"):  # a Row
            _reject_repeated(value.__fields__)
            return {name: _to_plain(part) for name, part in zip(value.__fields__, value, strict=True)}
        case dict():
            return {_to_key(key): _to_plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_to_plain(part) for part in value]
        case bytes() | bytearray():
            return _encode(value)
    return _to_plain(value.toPython()) if hasattr(value, "toPython") else str(value)  # a VariantVal


def _to_key(key: Any) -> str:
    plain = _to_plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
