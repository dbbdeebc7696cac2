"""Answers as JSON: dataclasses whose published keys stay the same when a field gets a better name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, dataclass_transform

import numpy as np


def json_key(key: str, omit_none: bool = False, **options: Any) -> Any:
    """Declare a dataclass field whose JSON key differs from its name, because scripts depend on the key.

    `omit_none` leaves the key out where the value is None; `options` are those of `dataclasses.field`.
    """
    return field(metadata={"json_key": key, "omit_none": omit_none}, **options)


def json_inline(**options: Any) -> Any:
    """Declare a dataclass field whose members stand beside the other fields in JSON; nothing where it is None."""
    return field(metadata={"inline": True}, **options)


_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field, json_key, json_inline))
def json_object(cls: type[_Class]) -> type[_Class]:
    """Make a frozen dataclass; type checkers know its `json_key` and `json_inline` fields as they know `field`."""
    return dataclass(frozen=True)(cls)


_PLAIN = frozenset((str, int, float, bool, type(None)))  # what most values of a long answer are


def to_json(value: Any) -> Any:
    """Convert an answer to values that `json` writes: dataclasses become objects under the keys that they declare."""
    if type(value) in _PLAIN:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        members: dict[str, Any] = {}
        for f in fields(value):
            member = to_json(getattr(value, f.name))
            if f.metadata.get("inline"):
                members |= member or {}
            elif member is not None or not f.metadata.get("omit_none"):
                members[f.metadata.get("json_key", f.name)] = member
        return members
    match value:
        case Mapping():
            return {str(key): part if type(part) in _PLAIN else to_json(part) for key, part in value.items()}
        case list() | tuple():
            return [part if type(part) in _PLAIN else to_json(part) for part in value]
        case np.ndarray():
            return [to_json(part) for part in value.tolist()]
        case np.generic():
            return value.item()
        case Enum():
            return value.value
    return value
