"""Answers as JSON."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

_PLAIN = frozenset((str, int, float, bool, type(None)))  # what most values of a long answer are


def to_json(value: Any) -> Any:
    """Convert an answer to values that `json` writes: dataclasses become objects, whose keys are their fields."""
    if type(value) in _PLAIN:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_json(getattr(value, one.name)) for one in fields(value)}
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
