"""Checks values: returns a field's value as the type a fact needs, or raises an error that names field and value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from udfs.wording import escape_invisible, shorten_text

INT32 = 2**31 - 1
INT64 = 2**63 - 1
MAX_PARTITIONS = 1_000_000  # of one topic: what is above is a damaged number, and would fill the memory
MAX_PARTITION = MAX_PARTITIONS - 1  # the largest partition id
_QUOTED = 80  # characters of a bad value that a reason repeats
_MAX_NAME = 249  # characters of a topic
_WHOLE = re.compile(r"[+-]?[0-9]+")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Value = TypeVar("Value")


class BadValueError(Exception):
    """A value that cannot be used. Its record is rejected; the text is the reason."""


def unparsable(problem: str) -> BadValueError:
    """Return the error of a record that cannot be understood."""
    return BadValueError(f"unparsable: {problem}")


def quote(value: object) -> str:
    """Return the value as JSON, short enough for a reason; invisible characters are escaped."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = ascii(value)
    return shorten_text(escape_invisible(text))


def shorten(text: str) -> str:
    """Return the beginning of a text that a message repeats."""
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED - 1]}…"


def shorten_name(topic: str) -> str:
    """Return a topic's name as a reason repeats it: whole if it is no longer than Kafka allows."""
    return topic if len(topic) <= _MAX_NAME else f"{topic[: _QUOTED - 3]}..."


def explain_bad_topic_name(topic: str | None) -> str | None:
    """Return why Kafka rejects this topic name, or None if it accepts it."""
    if topic is None or (_TOPIC_NAME.fullmatch(topic) and topic not in (".", "..")):
        return None
    return f"bad topic name {shorten_name(topic)!r}: 1 to 249 of a-z A-Z 0-9 . _ - are allowed, and not '.' or '..'"


class JsonObject(dict[str, Any]):
    """A JSON object whose values are checked as they are read; a missing key is an error."""

    def require(self, key: str) -> Any:
        """Return the value of a key that must be present."""
        if key not in self:
            raise unparsable(f"{key} is missing")
        return self[key]

    def read(self, key: str, check: Callable[..., Value], *bounds: int) -> Value:
        """Return the value of a key that must be present, by one of the functions below, such as `as_int`."""
        return check(self.require(key), key, *bounds)

    def find(self, key: str, check: Callable[..., Value], *bounds: int) -> Value | None:
        """Return a value as `read` does, or None for null or a missing key."""
        return None if self.get(key) is None else check(self[key], key, *bounds)


def parse_json(raw: str, what: str = "the line") -> Any:
    """Return the JSON value of `raw`."""
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        problem = error.msg.removesuffix(" starting at")
        raise unparsable(f"{what} is not JSON ({problem} at character {error.pos + 1})") from None
    except RecursionError:
        raise unparsable(f"{what} has brackets nested too deeply") from None
    except ValueError:
        raise unparsable(f"{what} has a number of thousands of digits") from None


def parse_object(raw: str, what: str, text: str = "the line") -> JsonObject:
    """Return the JSON object of `raw`; what, text: names of the object and of its text, for a reason."""
    return as_object(parse_json(raw, text), what)


def _as_type(kind: type[Value], expected: str) -> Callable[[object, str], Value]:
    def check(value: object, what: str) -> Value:
        if not isinstance(value, kind):
            raise unparsable(f"{what} is {quote(value)}, expected {expected}")
        return value

    return check


as_bool = _as_type(bool, "true or false")
as_list: Callable[[object, str], list[Any]] = _as_type(list, "a list")
_as_dict: Callable[[object, str], dict[str, Any]] = _as_type(dict, "an object")
_as_string = _as_type(str, "text")


def as_object(value: object, what: str) -> JsonObject:
    """Return the value as a JSON object."""
    return JsonObject(_as_dict(value, what))


def as_int(value: object, what: str, low: int = 0, high: int = INT32) -> int:
    """Return the value as a whole number in [low, high]; text of digits is accepted, true and 1.0 are not."""
    if type(value) is not int:
        if isinstance(value, str) and len(value) < 24 and _WHOLE.fullmatch(value.strip()):
            value = int(value)
        else:
            raise unparsable(f"{what} is {quote(value)}, expected a whole number")
    if not low <= value <= high:
        raise unparsable(f"{what} is {quote(value)}, expected {low} to {high}")
    return value


def as_partition(value: object, what: str) -> int:
    """Return the value as a partition id."""
    return as_int(value, what, 0, MAX_PARTITION)


def as_number(value: object, what: str) -> float:
    """Return the value as a finite number >= 0."""
    if isinstance(value, str):
        try:
            value = float(value) if "_" not in value else None  # Python accepts 1_000
        except ValueError:
            raise unparsable(f"{what} is {quote(value)}, expected a number") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise unparsable(f"{what} is {quote(value)}, expected a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0:
        raise unparsable(f"{what} is {quote(value)}, expected a number >= 0")
    return number


def as_broker_ids(value: object, what: str) -> list[int]:
    """Return the value as a list of broker ids."""
    return [as_int(item, f"{what}[{i}]") for i, item in enumerate(as_list(value, what))]


def split_ids(text: str | None, what: str = "replica", separator: str | None = ",") -> list[int] | None:
    """Return the broker ids of a list such as `1, 2, 3`; None for None. separator: None = blanks."""
    if text is None:
        return None
    return [as_int(item.strip(), what) for item in text.split(separator) if item.strip()]


def as_text(value: object, what: str) -> str:
    """Return the value as text that UTF-8 can encode (JSON can spell half a surrogate pair)."""
    text = _as_string(value, what)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise unparsable(
            f"{what} is {quote(value)}, which is not valid text: it has half of a surrogate pair"
        ) from None
    return text


def as_topic(value: object, what: str) -> str:
    """Return the value as a topic name that Kafka accepts."""
    name = as_text(value, what)
    if problem := explain_bad_topic_name(name):
        raise BadValueError(problem)
    return name


# How the text of a column of FACTS is checked, with bounds; other columns are lists of broker ids.
_COLUMNS: dict[str, tuple[Any, ...]] = {
    **{"topic": (as_topic,), "partition": (as_partition,), "broker_id": (as_int,), "leader_epoch": (as_int,)},
    **{"port": (as_int, 0, 65535), "host": (as_text,), "rack": (as_text,), "log_dir": (as_text,)},
    **dict.fromkeys(("size_bytes", "total_bytes", "usable_bytes", "records", "high_watermark"), (as_int, 0, INT64)),
}


def read_columns(texts: Mapping[str, Any], **labels: str) -> dict[str, Any]:
    """Return the values of columns of FACTS from their texts, such as the groups of a match, or from values of JSON.

    A leader that is None shows that there is none; any other column is not known. labels: how a reason calls the value
    of a column, if not by its name.
    """
    return {name: _read_column(name, text, labels.get(name, name)) for name, text in texts.items()}


def _read_column(name: str, text: Any, label: str) -> object:
    if name == "leader":
        return -1 if text in (None, "none") else as_int(text, label, -1)
    if text is None:
        return None
    if name.endswith("_per_s"):
        return as_number(text, label)
    check, *bounds = _COLUMNS.get(name, (None,))
    return split_ids(text) if check is None else check(text, label, *bounds)
