"""Splits the Configs column of `kafka-topics --describe` into keys and values."""

import re

from pipelines.ingest.formats.checked_values import quote

# Kafka joins configs with commas and escapes nothing, so a comma separates two configs only where a config key
# and `=` follow. Every topic config key has a dot, except one.
_NEXT_KEY = re.compile(r",\s*(?=(?:[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+|preallocate)\s*=)")
# No list in a config contains dotted names: after a comma, such a name is the next key.
_KEY_BEGINS = re.compile(r"\s*[a-z][a-z0-9_-]*\.[a-z0-9._-]*")
# Somebody shortened the value: no config of Kafka has such dots.
_SHORTENED = re.compile(r"\.{3,}|…|\.\.\s*$")
_CLOSING = {"[": "]", "{": "}", "(": ")", '"': '"'}


def split_configs(text: str, cut: bool = False) -> tuple[list[tuple[str, str]], list[str]]:
    """Return ((key, value) pairs in order, problems of the other pieces). cut: the text breaks off at its end."""
    pieces = _split_pieces(text)
    whole = len(pieces)
    if cut and pieces:
        pieces[-1:] = _split_cut_piece(pieces[-1])
        # After a bracket or quote that is still open, the rest may belong to that value.
        is_open = (i for i, piece in enumerate(pieces) if not _find_nesting(piece)[1])
        whole = next(is_open, len(pieces) - 1)
    pairs, problems = [], []
    for i, piece in enumerate(pieces):
        key, equals, value = piece.partition("=")
        if i >= whole or _SHORTENED.search(value):
            problems.append(f"Configs has {quote(piece)}, which is cut off")
        elif not equals or not key.strip():
            problems.append(f"Configs has {quote(piece)}, expected key=value")
        else:
            pairs.append((key.strip(), value.strip()))
    return pairs, problems


def _split_cut_piece(piece: str) -> list[str]:
    """Split the last piece of a text that breaks off before a key that breaks off."""
    before, comma, rest = piece.rpartition(",")
    return [before, rest] if comma and _KEY_BEGINS.fullmatch(rest) else [piece]


def _split_pieces(text: str) -> list[str]:
    text = text.strip().rstrip(",")
    if not text:
        return []
    is_nested, is_balanced = _find_nesting(text)
    pieces, begin = [], 0
    for match in _NEXT_KEY.finditer(text):
        # A lone bracket or quote in a value (a regular expression, say) must not swallow the configs after it.
        if not (is_balanced and is_nested[match.start()]):
            pieces.append(text[begin : match.start()])
            begin = match.end()
    return [*pieces, text[begin:]]


def _find_nesting(text: str) -> tuple[list[bool], bool]:
    """Return (whether each character is inside brackets or quotes, whether all brackets and quotes pair up)."""
    is_nested = []
    closing: list[str] = []  # what closes each open bracket or quote
    is_escaped = False
    for c in text:
        is_nested.append(bool(closing))
        if is_escaped:
            is_escaped = False
        elif closing and c == closing[-1]:
            closing.pop()
        elif closing and closing[-1] == '"':
            is_escaped = c == "\\"
        elif c in _CLOSING:
            closing.append(_CLOSING[c])
    return is_nested, not closing
