"""`query` and `sql`: read-only SQL over the tables and views, one statement or several in one session."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.option_values import flag, option
from pipelines.cli.text_format import print_error, print_grid, print_line, print_message
from pipelines.errors import EXIT_INPUT, DamagedTableError, KafkaPlacementError, StoreError
from pipelines.spark.storage_faults import read_message
from pipelines.warehouse_urls import redact_urls
from udfs.wording import escape_text, shorten_text

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import Row

    from pipelines.spark.store import Store


_OLD_VERSION = re.compile(r"\b(?:VERSION|TIMESTAMP)\s+AS\s+OF\b", re.IGNORECASE)
# What only Delta's own reading of a table can answer.
_NEEDS_DELTA = re.compile(
    r"\s*(?:DESC|DESCRIBE|SHOW|EXPLAIN)\b|.*(?:\bAS\s+OF\b|\btable_changes|@)", re.IGNORECASE | re.DOTALL
)
_REMOVED_VERSION = (
    "files of this version are gone: maintenance removes those that a table has not had for "
    "retention.unused_file_days. DESCRIBE HISTORY lists the versions; choose a later one"
)
_PATH = re.compile(r"`\w+`\.`[^`]*/[^`]*`(?= cannot be found)")
# What an error of Spark, Java or Python says, and what to do.
_REMEDIES = (
    # Within a thread of Spark's own, it is only a "Boxed Exception".
    (
        r"StackOverflowError|Boxed Exception",
        "The statement is nested too deeply. Use fewer brackets and operators within each other.",
    ),
    (
        r"DELTA_MISSING_CHANGE_DATA",
        "The tables record no changes. Compare versions: SELECT ... FROM t VERSION AS OF 1.",
    ),
    (r"SHOW CREATE TABLE", "Use DESCRIBE EXTENDED."),
    (r"Interval\w*\.fromInternal|out of range|ordinal must be", "Make it a text: CAST(... AS STRING)."),
    (r"OutOfMemoryError|exceeded limit|maxResultSize|too big", "Select fewer rows or columns, as with LIMIT."),
)


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("query"))
def query(
    sql: Annotated[str, typer.Argument(help="A query, as in SELECT * FROM gold.leader_hotspots.", metavar="SQL")],
    json_file: Annotated[
        Path | None,
        option(
            "Write one JSON object per row to this file; - prints them, and nothing else. Binary values are "
            'base64, map keys are text, numbers that JSON lacks are "NaN", "Infinity" and "-Infinity".',
            "FILE",
            "--json",
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

    Raises: StoreError if the SQL is invalid, does more than read tables, or names one that is missing or damaged.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import Row

    from pipelines.cli.sql_statements import answer_show, remove_setting_advice
    from pipelines.spark.read_only_sql import open_query, reject_files
    from pipelines.spark.session import silence_spark
    from pipelines.spark.view_tables import find_current
    from pipelines.spark.views import BY_NAME as VIEWS
    from pipelines.spark.views import find_dependencies
    from pipelines.tables import TABLES

    if listing := answer_show(store, sql):
        columns, rows = listing
        return columns, [Row(*columns)(*row) for row in rows]
    plain = sql.replace("`", "")
    names = [n for n in (*TABLES, *VIEWS) if re.search(rf"\b{re.escape(n)}\b", plain, re.IGNORECASE)]
    only_rows = store.has_local_files and not _NEEDS_DELTA.match(sql)
    views = find_dependencies(names)[1]
    current = find_current(store, views) if only_rows and views else []
    tables, views = find_dependencies(names, current)
    of_views = [view.name for view in views if view.name in current]
    registered = store.register([*tables, *of_views], only_rows)
    for name in tables:
        if name not in registered:
            place = store.describe_location(name)
            raise StoreError(f"there is no table {name} at {place}. Create it: kafka-placement run SOURCE...")
    store.register_views([view.of_table() if view.name in of_views else view for view in views], registered)
    silence_spark(store.spark)
    try:
        with reject_files(store.spark), store.explain_faults():
            frame = open_query(store.spark, sql)
            if as_json:
                _reject_repeated(frame.columns)
            with _in_utc():
                return frame.columns, _hide_secrets(store, frame.columns, frame.collect())
    except (AnalysisException, ParseException) as error:
        raise _explain_invalid(sql, error) from error
    except DamagedTableError as error:
        if _OLD_VERSION.search(sql):
            raise StoreError(f"{_REMOVED_VERSION} ({error.args[0]})") from error
        raise
    except StoreError:
        raise
    except Exception as error:  # whatever the query does wrong at run time: a division by zero, a bad cast
        message = remove_setting_advice(read_message(error))
        sentences = (_get_first_line(message).rstrip("."), *_find_remedy(message))
        raise StoreError(f"the query failed: {'. '.join(sentences)}") from error


@contextmanager
def _in_utc() -> Iterator[None]:
    """Let Spark make local times of its times in UTC, as the tables have them, whatever the zone of this machine is."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def _explain_invalid(sql: str, error: PySparkException) -> StoreError:
    """Make the error for a statement that Spark does not accept."""
    from pipelines.cli.sql_statements import explain_missing_table, explain_syntax_error, remove_setting_advice
    from pipelines.spark.views import BY_NAME as VIEWS
    from pipelines.tables import TABLES

    if path := _PATH.search(read_message(error)):
        return StoreError(f"query only reads tables and views, by name. It rejects {path[0]}, a path.")
    if lines := explain_syntax_error(sql, error):
        return StoreError(*lines)
    if missing := explain_missing_table(error, (*TABLES, *VIEWS)):
        return StoreError(f"invalid SQL: {missing}")
    first, *others = remove_setting_advice(read_message(error).partition(";\n")[0]).splitlines()  # without Spark's plan
    return StoreError(f"invalid SQL: {first}", *others, *_find_remedy(read_message(error)))


def _find_remedy(message: str) -> list[str]:
    return [remedy for pattern, remedy in _REMEDIES if re.search(pattern, message)][:1]


def _get_first_line(message: str) -> str:
    """Return the message of an error without the stack trace of Spark's own code."""
    lines = message.strip().splitlines()
    causes = [line for line in lines if re.match(r": [\w.$]+: ", line)]  # of Java, after Python's own message
    return re.sub(r"^: [\w.$]+: ", "", causes[0]) if causes else lines[0]


def _hide_secrets(store: Store, columns: Sequence[str], rows: list[Row]) -> list[Row]:
    """Hide the secrets of the warehouse's URL, which DESCRIBE and SHOW print."""
    from pyspark.sql import Row

    hidden = redact_urls(store.warehouse)
    if hidden == store.warehouse:
        return rows
    values = ([v.replace(store.warehouse, hidden) if isinstance(v, str) else v for v in row] for row in rows)
    return [Row(*columns)(*row) for row in values]


def print_rows(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print the rows of a query."""
    print_grid(list(map(escape_text, columns)), ([format_cell(value) for value in row] for row in rows))


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
            pairs = [(_to_plain(key), _to_plain(part)) for key, part in value.items()]
            return {key if isinstance(key, str) else json.dumps(key, ensure_ascii=False): part for key, part in pairs}
        case list() | tuple():
            return [_to_plain(part) for part in value]
        case bytes() | bytearray():
            return _encode(value)
    return _to_plain(value.toPython()) if hasattr(value, "toPython") else str(value)  # a VariantVal


_PROMPT, _NEXT_PROMPT = "sql> ", "  -> "
_QUIT = ("quit", "exit")


@app.command(rich_help_panel="Tables, with Spark", epilog=examples("sql"))
def sql(
    json_rows: Annotated[bool, flag("json", "Print one JSON object per row, as `query --json -` does.")] = False,
    warehouse: common.WarehouseOption = None,
    conf: common.ConfOption = None,
    options: common.SetOption = None,
) -> None:
    """Run queries from stdin or a prompt in one Spark session; `;` ends a query, `quit` the session.

    Without a terminal, the number and the text of each query come before its rows. A query that fails does not end
    the session; its error names its number. Without a terminal, the exit code is then 1.
    """
    store = common.open_store_to_read(common.read_settings(conf, options, warehouse))
    is_interactive = sys.stdin.isatty()
    if is_interactive:
        with suppress(ImportError):  # its import gives the prompt a history and keys to edit
            import readline  # noqa: F401
        print_message("end a query with ;, and the session with quit")
    failures = 0
    for number, statement in enumerate(_read_statements(is_interactive), 1):
        if not is_interactive and not json_rows:
            print_line(f"query {number}: {shorten_text(' '.join(statement.split()))}")
        failures += not _run_statement(store, statement, number, json_rows)
    if failures and not is_interactive:
        raise typer.Exit(EXIT_INPUT)


def _run_statement(store: Store, statement: str, number: int, json_rows: bool) -> bool:
    """Run a query and print its rows, or its number and why it failed; return whether it succeeded."""
    try:
        columns, rows = run_query(store, statement, as_json=json_rows)
        if json_rows:
            common.write_text(Path("-"), "".join(f"{format_json_line(row)}\n" for row in rows))
        else:
            print_rows(columns, rows)
    except KafkaPlacementError as error:
        first, *others = map(str, error.args)
        print_error([f"query {number}: {first}", *others])
        return False
    except KeyboardInterrupt:
        print_message(f"query {number} cancelled")
        return False
    return True


def _read_statements(is_interactive: bool) -> Iterator[str]:
    """Yield each statement of stdin once its semicolon, or the end, is read; stop at quit."""
    from pipelines.spark.read_only_sql import is_empty, split_statements

    rest = ""
    while (line := _read_line(is_interactive, _PROMPT if is_empty(rest) else _NEXT_PROMPT)) is not None:
        if is_empty(rest) and line.strip().rstrip(";").lower() in _QUIT:
            return
        statements, rest = split_statements(f"{rest}{line}\n")
        yield from (statement.strip() for statement in statements if not is_empty(statement))
    if not is_empty(rest):
        yield rest.strip()


def _read_line(is_interactive: bool, prompt: str) -> str | None:
    """Read the next line of stdin without its end, after a prompt on a terminal; None = there is none."""
    if is_interactive:
        try:
            return input(prompt)
        except EOFError:
            print_line()
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None
