"""Explain Spark's errors about a query: what is rejected, where the statement is wrong, and what to write instead."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from pipelines.quoted_values import escape_text
from pipelines.spark.read_only_sql import QUERY_WRAPPER, is_empty, remove_texts, split_statements
from pipelines.spark.storage_faults import read_message

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_READS = "query only reads: SELECT, WITH, VALUES, SHOW, DESCRIBE and EXPLAIN"
_COPY = "To change rows, change a copy: query SQL --json FILE writes one, and other programs can read the Delta tables"
# The first words of statements that do more than read, and INSERT after the rows that it inserts.
_WRITE = re.compile(
    r"(?:EXPLAIN\s+(?:(?:EXTENDED|CODEGEN|COST|FORMATTED)\s+)?)*"
    r"(ALTER|ANALYZE|CACHE|CALL|CLEAR|COMMENT|COPY|CREATE|DECLARE|DELETE|DROP|EXECUTE|GRANT|INSERT|LOAD|MERGE|MSCK"
    r"|OPTIMIZE|REFRESH|REORG|REPAIR|REPLACE|RESET|RESTORE|REVOKE|SET|TRUNCATE|UNCACHE|UPDATE|USE|VACUUM)\b"
    r"|(?:WITH|FROM)\b.*\b(INSERT)\s+(?:INTO|OVERWRITE)\b",
    re.IGNORECASE | re.DOTALL,
)
_KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "JOIN", "USING", "WITH", "UNION", "DISTINCT"),
    *("BETWEEN", "VALUES", "DESCRIBE", "EXPLAIN", "SHOW"),
)
_MIN_SIMILARITY = 0.75  # two letters of FROM in the other order
_POSITION = re.compile(r"\(line (\d+), pos (\d+)\)")
_WORD = re.compile(r"[A-Za-z]+")
_MAX_SHOWN = 60  # characters of a line before and after the place of an error
_SETTING_ADVICE = re.compile(r"\s*(?<=[.\n])\s*[^.\n]*spark\.sql\.ansi\.enabled[^\n]*?\.(?=\s|$)")


class _Place(NamedTuple):
    """A line of a statement, and the character where Spark gives up."""

    line: str
    line_number: int  # from 1
    character: int  # from 0


def remove_setting_advice(message: str) -> str:
    """Remove the advice to change a setting, which queries cannot; the functions that Spark names remain."""
    return _SETTING_ADVICE.sub("", message)


def explain_rejection(sql: str, error: PySparkException) -> str | None:
    """Say that a statement does more than read; None if it does not."""
    texts = [*split_statements(sql)[0], split_statements(sql)[1]]
    plain = [remove_texts(text).strip(" \n\t(") for text in texts if not is_empty(text)]
    written = [match[1] or match[2] for text in plain if (match := _WRITE.match(text))]
    near = _WRITE.match(_read_parameter(error, "error").strip("'"))
    if not written and near:
        written = [near[1]]
    if written:
        return f"{_READS}. It rejects {written[0].upper()}. {_COPY}."
    if len(plain) > 1:
        return f"query takes one statement, not {len(plain)}. To run several: kafka-placement sql"
    return None


def explain_syntax_error(sql: str, error: PySparkException) -> list[str]:
    """Say what Spark does not understand, with the line and a caret; empty if its message is about something else."""
    unexpected = _read_parameter(error, "error")
    place = _find_place(sql, str(error))
    if not unexpected or place is None:
        return []
    if place.line_number == 0:
        plain = remove_texts(sql)
        if unexpected == "')'" and plain.count(")") > plain.count("("):
            return ["invalid SQL: there are more ) than (. Remove one."]
        return ["invalid SQL: the statement ends too early. Check that it is complete, with all brackets and quotes."]
    if unexpected in ("'''", "'\"'", "'`'"):
        return [f"invalid SQL: the quote {unexpected[1]} is not closed", *_point_at(place)]
    typo = _find_typo(place)
    suggestion = []
    if typo is not None:
        place, word, keyword = typo
        unexpected = f"'{word}'"
        suggestion = [f"Did you mean {keyword}?"]
    where = f"line {place.line_number}, character {place.character + 1}"
    return [f"invalid SQL: syntax error at {unexpected} ({where})", *_point_at(place), *suggestion]


def _find_place(sql: str, message: str) -> _Place | None:
    """Find the place that an error names; line_number 0 = behind the end of the statement."""
    position = _POSITION.search(message)
    if position is None:
        return None
    is_wrapped = f"== SQL ==\n{QUERY_WRAPPER[0]}" in message
    number = int(position[1]) - (QUERY_WRAPPER[0].count("\n") if is_wrapped else 0)
    lines = sql.split("\n")
    if 0 < number <= len(lines) and lines[number - 1][int(position[2]) :].strip(" ;"):
        return _Place(lines[number - 1], number, int(position[2]))
    return _Place("", 0, 0)


def _find_typo(place: _Place) -> tuple[_Place, str, str] | None:
    """Find a misspelled keyword where Spark gives up, in the word before, or at the begin of the line."""
    words = list(_WORD.finditer(place.line))
    near = [word for word in words if word.start() <= place.character][-2:]
    for word in [*reversed(near), *words[:1]]:
        text = word[0].upper()
        similar = get_close_matches(text, _KEYWORDS, 1, _MIN_SIMILARITY)
        if similar and text not in _KEYWORDS:
            return place._replace(character=word.start()), word[0], similar[0]
    return None


def _point_at(place: _Place) -> tuple[str, str]:
    """Show the part of a line around a place, and a caret below the place."""
    begin = max(place.character - _MAX_SHOWN, 0)
    before, after = place.line[begin : place.character], place.line[place.character :][:_MAX_SHOWN]
    return f"  {escape_text(before + after)}", f"  {' ' * len(escape_text(before))}^"


def _read_parameter(error: PySparkException, name: str) -> str:
    """Read a parameter of Spark's message; empty if it has none: errors of Delta have no parameters."""
    try:
        return str((error.getMessageParameters() or {}).get(name, ""))
    except Exception:
        return ""


def read_lines(error: BaseException) -> list[str]:
    """Return the lines of an error about a statement, without Spark's plan of the statement."""
    return remove_setting_advice(read_message(error).partition(";\n")[0]).splitlines()
