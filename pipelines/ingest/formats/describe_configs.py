"""Splits the Configs column of a describe into keys and values."""

from __future__ import annotations

import re

from pipelines.ingest.formats.checked_values import shown

# Kafka joins configs with commas and escapes nothing, so a comma parts two configs only where a config key
# and `=` follow. Every topic config key has a dot, except one.
_NEXT_KEY = re.compile(r",\s*(?=(?:[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|preallocate)\s*=)")
# No list in a config has dotted names in it: behind a comma, such a name is the next key.
_KEY_BEGINS = re.compile(r"\s*[a-z][a-z0-9_-]*\.[a-z0-9._-]*")
# Somebody left something out here. Kafka has no config whose value needs such dots.
_SHORTENED = re.compile(r"\.{3,}|…|\.\.\s*$")
_OPEN, _CLOSE = "[{(", "]})"


def split_configs(text: str, cut: bool = False) -> tuple[list[tuple[str, str]], list[str]]:
    """((key, value) pairs in order, what is wrong with the other pieces). cut: the text breaks off at its end."""
    pieces = _pieces(text)
    whole = len(pieces)
    if cut and pieces:
        pieces[-1:] = _cut_piece(pieces[-1])
        # A bracket or quote that is still open: what follows may be inside of that value, beyond the cut too.
        is_open = (i for i, piece in enumerate(pieces) if not _balanced(piece))
        whole = next(is_open, len(pieces) - 1)
    pairs, problems = [], []
    for i, piece in enumerate(pieces):
        key, equals, value = piece.partition("=")
        if i >= whole or _SHORTENED.search(value):
            problems.append(f"Configs has {shown(piece)}, which is cut off")
        elif not equals or not key.strip():
            problems.append(f"Configs has {shown(piece)}, expected key=value")
        else:
            pairs.append((key.strip(), value.strip()))
    return pairs, problems


def _cut_piece(piece: str) -> list[str]:
    """The last piece of a text that breaks off, parted before a key that broke off."""
    before, comma, rest = piece.rpartition(",")
    return [before, rest] if comma and _KEY_BEGINS.fullmatch(rest) else [piece]


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


def _balanced(text: str) -> bool:
    depth, quoted = _scan(text, 0, len(text), [], False)
    return not depth and not quoted


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
