"""Suggest the nearest tables and columns for names in SQL that do not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_MAX_NAMES = 3
_MIN_SIMILARITY = 0.83  # topcis is topics, and brokr_id broker_id; but sales is not alerts, nor user_id cluster_id


def suggest_names(error: PySparkException, columns: Mapping[str, Sequence[str]], known: Sequence[str]) -> list[str]:
    """Say which names are nearest to the one that Spark does not know; empty if the error is about something else.

    Args:
        error: The error of Spark.
        columns: The columns of each table and view that the query names.
        known: Every table and view.
    """
    condition, parameters = "", {}
    with suppress(Exception):  # errors of Delta have no condition
        condition, parameters = error.getCondition() or "", error.getMessageParameters() or {}
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        name = _read_name(parameters.get("relationName", ""))
        return [
            _describe(
                "table or view",
                name,
                find_tables(name, known),
                "List all: kafka-placement tables; query only reads: SELECT, SHOW, DESCRIBE, EXPLAIN",
            )
        ]
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = _read_name(parameters.get("objectName", "")).rpartition(".")[2]
        names = list(dict.fromkeys(column for group in columns.values() for column in group))
        remedy = " ".join(f"Columns of {table}: {', '.join(group)}." for table, group in columns.items())
        return [_describe("column", name, find_nearest(name, names), remedy.rstrip(".") or "The query reads no table")]
    return []


def find_tables(name: str, known: Sequence[str]) -> list[str]:
    """Find the tables and views nearest to a name, with or without its schema."""
    last = name.rpartition(".")[2].lower()
    same = [table for table in known if table.rpartition(".")[2] == last]
    by_last_part = {table.rpartition(".")[2]: table for table in known}
    near = [by_last_part[part] for part in find_nearest(last, list(by_last_part))]
    return list(dict.fromkeys([*same, *near]))[:_MAX_NAMES]


def find_nearest(name: str, known: Sequence[str]) -> list[str]:
    """Find names that a typing error turns into this one, then names that have all its words, or only such words."""
    name = name.lower()
    words = _split_words(name)
    related = [other for other in known if (others := _split_words(other)) <= words or words <= others]
    similar = get_close_matches(name, known, _MAX_NAMES, _MIN_SIMILARITY)
    return list(dict.fromkeys([*similar, *get_close_matches(name, related, _MAX_NAMES, 0)]))[:_MAX_NAMES]


def _split_words(name: str) -> set[str]:
    return {word.removesuffix("s") for word in name.split("_")}


def _read_name(quoted: str) -> str:
    return quoted.replace("`", "")


def _describe(kind: str, name: str, nearest: Sequence[str], remedy: str) -> str:
    if nearest:
        return f"there is no {kind} {name}. Did you mean {' or '.join(nearest)}?"
    return f"there is no {kind} {name}. {remedy}."
