"""Answers as JSON: dataclasses whose published keys stay the same when a field gets a better name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np


def json_key(key: str, **options: Any) -> Any:
    """Declare a dataclass field whose JSON key differs from its name, because scripts depend on the key.

    Args:
        key: The key in JSON.
        options: Options of `dataclasses.field`, such as `default`.

    Returns:
        The field.
    """
    return field(metadata={"json_key": key}, **options)


def to_json(value: Any) -> Any:
    """Convert an answer to values that `json` writes.

    Dataclasses become objects, under the keys that `json_key` declares; keys of mappings are kept as text.

    Args:
        value: A dataclass, mapping, sequence, array, enum or plain value.

    Returns:
        Dicts, lists, strings, numbers, booleans and None.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {f.metadata.get("json_key", f.name): to_json(getattr(value, f.name)) for f in fields(value)}
    match value:
        case Mapping():
            return {str(key): to_json(part) for key, part in value.items()}
        case list() | tuple():
            return [to_json(part) for part in value]
        case np.ndarray():
            return [to_json(part) for part in value.tolist()]
        case np.generic():
            return value.item()
        case Enum():
            return value.value
    return value
