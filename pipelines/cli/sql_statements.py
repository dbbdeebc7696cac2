"""Answer SHOW statements, of which Spark knows too little, and explain Spark's errors about a query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pipelines.spark.read_only_sql import QUERY_WRAPPER, remove_end
from pipelines.spark.views import SCHEMA
from udfs.wording import escape_text

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

    from pipelines.spark.store import Store


_SHOW = re.compile(
    r"\s*SHOW\s+(?P<kind>TABLES|VIEWS|SCHEMAS|DATABASES)"
    r"(?:\s+(?:IN|FROM)\s+`?(?P<schema>\w+)`?)?(?:\s+(?:LIKE\s+)?(?P<quote>['\"])(?P<pattern>[^'\"\\]*)(?P=quote))?\s*",
    re.IGNORECASE,
)


def answer_show(store: Store, sql: str) -> tuple[list[str], list[tuple[str | bool, ...]]] | None:
    """List the tables, views or schemas of a warehouse, with the names of the columns as in Spark.

    Returns None if Spark must answer: another statement or schema.
    """
    match = _SHOW.fullmatch(remove_end(sql))
    if match is None:
        return None
    names = [name.split(".") for name in store.list_names()]
    kind, schema = match["kind"].upper(), (match["schema"] or "").lower()
    schemas = sorted({schema for schema, _ in names})
    if not names or (schema and schema not in schemas):
        return None
    if kind in ("SCHEMAS", "DATABASES"):
        return ["namespace"], [(name,) for name in schemas if _matches(name, match["pattern"])]
    rows: list[tuple[str | bool, ...]] = [
        (place, name, False)
        for place, name in names
        if (not schema or place == schema)
        and (kind == "TABLES" or place == SCHEMA)
        and _matches(name, match["pattern"])
    ]
    return ["namespace", "tableName" if kind == "TABLES" else "viewName", "isTemporary"], rows


def _matches(name: str, pattern: str | None) -> bool:
    """Tell whether a name matches a pattern of Spark: * is any text, | separates alternatives."""
    if pattern is None:
        return True
    regex = re.escape(pattern).replace(r"\*", ".*").replace(r"\|", "|")
    return re.fullmatch(regex, name, re.IGNORECASE) is not None


_READS = (
    "query takes one statement that only reads: SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN, with all its brackets "
    "and quotes. To run several: kafka-placement sql. To change rows, change a copy: query SQL --json FILE writes one"
)
_POSITION = re.compile(r"\(line (\d+), pos (\d+)\)")
_MAX_SHOWN = 60  # characters of a line before and after the place of an error
_MAX_NAMES = 3
_MIN_SIMILARITY = 0.75  # topcis is topics, but sales is not alerts
_SETTING_ADVICE = re.compile(r"\s*(?<=[.\n])\s*[^.\n]*spark\.sql\.ansi\.enabled[^\n]*?\.(?=\s|$)")


def remove_setting_advice(message: str) -> str:
    """Remove the advice to change a setting, which queries cannot; the functions that Spark names remain."""
    return _SETTING_ADVICE.sub("", message)


def explain_syntax_error(sql: str, error: PySparkException) -> list[str]:
    """Say what Spark does not understand, with the line and a caret; empty if its message is about something else."""
    unexpected, position = _read_parameter(error, "error"), _POSITION.search(str(error))
    if not unexpected or position is None:
        return []
    is_wrapped = f"== SQL ==\n{QUERY_WRAPPER[0]}" in str(error)
    number = int(position[1]) - (QUERY_WRAPPER[0].count("\n") if is_wrapped else 0)
    lines = sql.split("\n")
    before, after = "", ""
    if 0 < number <= len(lines):
        before, after = lines[number - 1][: int(position[2])], lines[number - 1][int(position[2]) :]
    if not after.strip(" ;"):
        return ["invalid SQL: syntax error at the end of the statement", f"{_READS}."]
    before, after = escape_text(before[-_MAX_SHOWN:]), escape_text(after[:_MAX_SHOWN])
    where = f"line {number}, character {int(position[2]) + 1}"
    return [
        f"invalid SQL: syntax error at {unexpected} ({where})",
        f"  {before}{after}",
        f"  {' ' * len(before)}^",
        f"{_READS}.",
    ]


def explain_missing_table(error: PySparkException, known: Sequence[str]) -> str | None:
    """Name the tables and views nearest to the one that Spark does not know; None if the error is about another thing.

    known: every table and view.
    """
    name = _read_parameter(error, "relationName").replace("`", "")
    if not name:
        return None
    near = find_tables(name, known)
    suggestion = f"Did you mean {' or '.join(near)}?" if near else "List all: kafka-placement tables; query only reads."
    return f"there is no table or view {name}. {suggestion}"


def find_tables(name: str, known: Sequence[str]) -> list[str]:
    """Find the tables and views with names nearest to this one, whatever their schemas."""
    by_last_part = {table.rpartition(".")[2]: table for table in known}
    near = get_close_matches(name.rpartition(".")[2].lower(), by_last_part, _MAX_NAMES, _MIN_SIMILARITY)
    return [by_last_part[part] for part in near]


def _read_parameter(error: PySparkException, name: str) -> str:
    """Read a parameter of Spark's message; empty if it has none: errors of Delta have no parameters."""
    try:
        return str((error.getMessageParameters() or {}).get(name, ""))
    except Exception:
        return ""
