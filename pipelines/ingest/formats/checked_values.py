"""Checked values: what a field says as the type a fact needs, or a fault that names field and value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from pipelines.ingest.records import IGNORED, FactBuilder, Records
from pipelines.ingest.topic_names import bad_topic_name

INT32 = 2**31 - 1
INT64 = 2**63 - 1
SHOWN = 80  # characters of a faulty value that a reason repeats

Fact = tuple[str, dict[str, Any]]

_WHOLE = re.compile(r"[+-]?[0-9]+")
_MISSING = object()


class BadValueError(Exception):
    """A value that makes its record a fault; the text is the reason."""


def unparsable(problem: str) -> BadValueError:
    """The fault of a record that cannot be understood."""
    return BadValueError(f"unparsable: {problem}")


def ignored(reason: str) -> list[Fact]:
    """The facts of a record that carries nothing for us."""
    return [(IGNORED, {"reasons": [reason]})]


def shown(value: object) -> str:
    """The value as JSON, ASCII only and short enough for a reason."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = ascii(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def parse_each(records: Records, facts_of: Callable[[str | None, str], Iterable[Fact]]) -> pa.Table:
    """Facts of all records, each parsed alone by `facts_of(context, raw)`; its BadValueError is a fault."""
    builder = FactBuilder()
    for number, line, context, raw in records:
        try:
            facts = list(facts_of(context, raw))
        except BadValueError as fault:
            builder.fault(number, line, str(fault))
            continue
        for kind, fields in facts:
            builder.add(number, line, kind, **fields)
    return builder.table()


def loads(raw: str, what: str = "the line") -> Any:
    """The JSON value of `raw`."""
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        problem = error.msg.removesuffix(" starting at")
        raise unparsable(f"{what} is not JSON ({problem} at character {error.pos + 1})") from None
    except (ValueError, RecursionError):  # a number of thousands of digits; brackets thousands deep
        raise unparsable(f"{what} is not usable JSON") from None


def as_object(value: object, what: str) -> dict[str, Any]:
    """The value as a JSON object."""
    if not isinstance(value, dict):
        raise unparsable(f"{what} is {shown(value)}, expected an object")
    return value


def as_list(value: object, what: str) -> list[Any]:
    """The value as a JSON array."""
    if not isinstance(value, list):
        raise unparsable(f"{what} is {shown(value)}, expected a list")
    return value


def as_int(value: object, what: str, low: int = 0, high: int = INT32) -> int:
    """The value as a whole number in [low, high]; text of digits is accepted, true and 1.0 are not."""
    if type(value) is not int:
        if isinstance(value, str) and len(value) < 24 and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        else:
            raise unparsable(f"{what} is {shown(value)}, expected a whole number")
    if not low <= value <= high:
        raise unparsable(f"{what} is {shown(value)}, expected {low} to {high}")
    return value


def as_number(value: object, what: str) -> float:
    """The value as a finite number >= 0."""
    if isinstance(value, str):
        try:
            value = float(value) if "_" not in value else None  # Python would take 1_000
        except ValueError:
            raise unparsable(f"{what} is {shown(value)}, expected a number") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise unparsable(f"{what} is {shown(value)}, expected a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0:
        raise unparsable(f"{what} is {shown(value)}, expected a number >= 0")
    return number


def as_ints(value: object, what: str) -> list[int]:
    """The value as a list of broker ids."""
    return [as_int(item, f"{what}[{i}]") for i, item in enumerate(as_list(value, what))]


def as_text(value: object, what: str) -> str:
    """The value as text that can be stored (JSON can spell half a surrogate pair, UTF-8 cannot)."""
    if not isinstance(value, str):
        raise unparsable(f"{what} is {shown(value)}, expected text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise unparsable(f"{what} is {shown(value)}, which is not valid text") from None
    return value


def as_topic(value: object, what: str) -> str:
    """The value as a topic name that Kafka takes."""
    name = as_text(value, what)
    problem = bad_topic_name(name)
    if problem:
        raise BadValueError(problem)
    return name


def as_bool(value: object, what: str) -> bool:
    """The value as true or false."""
    if not isinstance(value, bool):
        raise unparsable(f"{what} is {shown(value)}, expected true or false")
    return value


def need(data: Mapping[str, Any], key: str) -> Any:
    """The value under the key, which must be there."""
    value = data.get(key, _MISSING)
    if value is _MISSING:
        raise unparsable(f"{key} is missing")
    return value
