"""Rows of a query as JSON, which has fewer kinds of values than Spark."""

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import VariantVal

from pipelines.errors import StoreError


def json_line(row: Row) -> str:
    """The row as one JSON object."""
    return json.dumps(_plain(row))


def reject_repeated(names: Sequence[str]) -> None:
    """Raise StoreError if two columns share a name: a JSON object could hold only one of them."""
    for name in dict.fromkeys(names):
        times = list(names).count(name)
        if times > 1:
            problem = f"--json: {times} columns are named {name!r}, and an object holds a name once"
            raise StoreError(f"{problem}. Give them names of their own: SELECT ... AS other_name")


def text_of(value: Any) -> str:
    """A value as a person reads it: null is nothing."""
    if isinstance(value, bytes | bytearray):
        return _base64(value)
    return "" if value is None else str(value)


def _base64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if math.isnan(value):
                return "NaN"
            return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
        case Row():
            reject_repeated(value.__fields__)
            return {name: _plain(part) for name, part in zip(value.__fields__, value, strict=True)}
        case dict():
            return {_key(key): _plain(part) for key, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case bytes() | bytearray():
            return _base64(value)
        case VariantVal():
            return _plain(value.toPython())
    return str(value)


def _key(key: Any) -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
