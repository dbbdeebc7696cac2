"""Answer SHOW TABLES, SHOW VIEWS and SHOW SCHEMAS: Spark knows only the tables that a session has used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipelines.spark.read_only_sql import remove_end
from pipelines.spark.views import SCHEMA

if TYPE_CHECKING:
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
