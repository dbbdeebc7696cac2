"""Mutations of the JSON documents in a text: keys and elements lost, renamed, retyped, repeated and nested."""

from __future__ import annotations

import json
import random
import re
from typing import Any

_BEGIN = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder()
_MOST_TRIED = 6  # positions at which a document may begin
_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1.5, 1e300, 2**31, 2**63, 10**30, "", "x", "1", [], {}, [1], [[1]], {"a": 1}),
    *(
        [None],
        ["1", 2],
        "a\x00b",
        "\u2028",
        "\x1b[2J",
        "\ud800",
        "a" * 300,
        [1, 1],
        [-1],
        "none",
        ".",
        "..",
        "-1",
        "1,2",
    ),
)


def change_document(rng: random.Random, text: str) -> str:
    """Change one value of one document; a text without documents stays."""
    places = [match.start() for match in _BEGIN.finditer(text)]
    for begin in rng.sample(places, min(len(places), _MOST_TRIED)):
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            continue
        return text[:begin] + _write(rng, _change(rng, value)) + text[end:]
    return text


def _write(rng: random.Random, value: Any) -> str:
    indent = rng.choice((None, None, None, 0, 1, 2, "\t"))
    separators = rng.choice(((",", ":"), (", ", ": "), (" , ", " : "), (",", ":\n")))
    try:
        return json.dumps(value, indent=indent, separators=separators, ensure_ascii=rng.random() < 0.5)
    except (ValueError, RecursionError):
        return "[" * 3_000


def _change(rng: random.Random, value: Any) -> Any:
    """Return the value with a change somewhere inside."""
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        if rng.random() < 0.6:
            return {name: _change(rng, item) if name == key else item for name, item in value.items()}
        return _change_object(rng, value, key)
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        if rng.random() < 0.6:
            return [*value[:at], _change(rng, value[at]), *value[at + 1 :]]
        return _change_array(rng, value, at)
    return _nest(value, rng.choice((5, 200, 1_200))) if rng.random() < 0.1 else rng.choice(_VALUES)


def _change_object(rng: random.Random, value: dict[str, Any], key: str) -> Any:
    kept = {name: item for name, item in value.items() if name != key}
    choice = rng.randrange(6)
    if choice == 0:
        return kept
    if choice == 1:
        return kept | {rng.choice((key.upper(), key + "s", key[:-1], "x", "", "topic", "partitions", "id")): value[key]}
    if choice == 2:
        return kept | {key: rng.choice(_VALUES)}
    if choice == 3:
        return value | {
            rng.choice(("topic", "partition", "replicas", "brokers", "version", "x\n")): rng.choice(_VALUES)
        }
    if choice == 4:
        return {key: value[key]} | kept
    return rng.choice(([value], list(value.items()), list(value), {key: value}))


def _change_array(rng: random.Random, value: list[Any], at: int) -> Any:
    choice = rng.randrange(6)
    if choice == 0:
        return value[:at]
    if choice == 1:
        return [*value[:at], *value[at + 1 :]]
    if choice == 2:
        return [*value, value[at]] * rng.choice((1, 1, 2, 20))
    if choice == 3:
        return rng.sample(value, len(value))
    if choice == 4:
        return {str(number): item for number, item in enumerate(value)}
    return [*value[:at], rng.choice(_VALUES), *value[at:]]


def _nest(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value] if depth % 2 else {"a": value}
    return value
