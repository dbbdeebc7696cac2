"""Splits the Configs column of a describe into keys and values."""

from __future__ import annotations

import re

# Kafka joins configs with commas and escapes nothing, so a comma parts two configs only where a config key
# and `=` follow. Every topic config key has a dot, except one.
_NEXT_KEY = re.compile(r",\s*(?=(?:[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|preallocate)\s*=)")
_OPEN, _CLOSE = "[{(", "]})"


def split_configs(text: str) -> list[tuple[str, str]] | str:
    """(key, value) pairs in order, or the piece that is not `key=value`."""
    pairs = []
    for piece in _pieces(text):
        key, equals, value = piece.partition("=")
        if not equals or not key.strip():
            return piece
        pairs.append((key.strip(), value.strip()))
    return pairs


def _pieces(text: str) -> list[str]:
    text = text.strip().rstrip(",")
    if not text:
        return []
    cuts = [(m.start(), m.end()) for m in _NEXT_KEY.finditer(text)]
    if cuts and ('"' in text or any(c in text for c in _OPEN)):
        inside = _nested(text, [start for start, _ in cuts])
        cuts = [cut for cut, hidden in zip(cuts, inside, strict=True) if not hidden]
    pieces, begin = [], 0
    for start, end in cuts:
        pieces.append(text[begin:start])
        begin = end
    pieces.append(text[begin:])
    return pieces


def _nested(text: str, positions: list[int]) -> list[bool]:
    """Whether each position lies inside brackets or quotes; all False when they do not pair up."""
    hidden = []
    depth: list[str] = []
    quoted, last = False, 0
    for position in positions:
        depth, quoted = _scan(text, last, position, depth, quoted)
        hidden.append(quoted or bool(depth))
        last = position
    depth, quoted = _scan(text, last, len(text), depth, quoted)
    # A lone bracket or quote in a value (a regular expression, say) must not swallow the configs after it.
    return hidden if not depth and not quoted else [False] * len(positions)


def _scan(text: str, start: int, end: int, depth: list[str], quoted: bool) -> tuple[list[str], bool]:
    depth = list(depth)
    i = start
    while i < end:
        c = text[i]
        if quoted:
            if c == "\\":
                i += 1
            elif c == '"':
                quoted = False
        elif c == '"':
            quoted = True
        elif c in _OPEN:
            depth.append(_CLOSE[_OPEN.index(c)])
        elif depth and c == depth[-1]:
            depth.pop()
        i += 1
    return depth, quoted
