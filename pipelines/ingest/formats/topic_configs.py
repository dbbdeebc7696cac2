"""Splits the topic configs that `kafka-topics --describe` prints."""

import re
from itertools import pairwise

from pipelines.ingest.formats.checked_values import quote

# Kafka joins configs with commas and escapes nothing, so a comma separates two configs only where a config key
# and `=` follow. Every topic config key has a dot, except one.
_KEY = r"(?:[a-z][a-z0-9_-]*+(?:\.[a-z0-9_-]++)++|preallocate)"
_NEXT_KEY = re.compile(rf",\s*+(?={_KEY}\s*+=)")
_ANY_KEY = re.compile(r"[\w.-]+")
# No list in a config contains dotted names: after a comma, such a name is the next key.
_KEY_BEGINS = re.compile(r"\s*+[a-z][a-z0-9_-]*+\.[a-z0-9._-]*+")
# Somebody shortened the value: no config of Kafka has such dots.
_SHORTENED = re.compile(r"\.{3,}+|…|\.\.\s*+$")
_ASSIGNMENT = re.compile(r"\w\s?=")
_MARKS = re.compile(r'[\[\]{}()"]|\\++')
_CLOSING = {"[": "]", "{": "}", "(": ")", '"': '"'}
_MAX_PROBLEMS = 20
_CURLY = str.maketrans("“”„", '"""')


def split_configs(text: str, cut: bool = False) -> tuple[list[tuple[str, str]], list[str]]:
    """Return ((key, value) pairs in order, problems of the other pieces). cut: the text breaks off at its end."""
    if "{“" in text:
        text = text.translate(_CURLY)
    # A line end after a comma or `=` is none of a value; at others, a value may have been divided.
    pieces = _split_pieces(re.sub(r"(?<=[,=])\n", "", text))
    whole = len(pieces)
    if cut and pieces:
        before, comma, rest = pieces[-1].rpartition(",")
        if comma and _KEY_BEGINS.fullmatch(rest):
            pieces[-1:] = [before, rest]  # a key that breaks off
        # After a bracket or quote that is still open, the rest may belong to that value.
        is_open = (i for i, piece in enumerate(pieces) if not is_balanced(piece))
        whole = next(is_open, len(pieces) - 1)
    pairs, problems = [], []
    for i, piece in enumerate(pieces):
        key, equals, value = piece.partition("=")
        if i >= whole or _SHORTENED.search(value):
            problems.append(f"Configs has {quote(piece)}, which is cut off")
        elif "\n" in piece.strip():
            head, _, tail = piece.strip().partition("\n")
            problems.append(f"Configs breaks off at {quote(head)}, and the next line has {quote(tail)}: join the lines")
        elif not equals or not _ANY_KEY.fullmatch(key.strip()):
            problems.append(f"Configs has {quote(piece)}, expected key=value")
        else:
            pairs.append((key.strip(), value.strip()))
    if len(problems) > _MAX_PROBLEMS:
        problems[_MAX_PROBLEMS:] = [f"Configs has {len(problems) - _MAX_PROBLEMS} more problems"]
    return pairs, problems


def is_continued_by(configs: str, line: str) -> bool:
    """Return whether a line is the rest of configs that were wrapped: it continues a value, or has the next key."""
    if not line or any(a[-1] not in ",:" and not b.startswith("=") for a, b in pairwise(line.split())):
        return False  # words: no config but one that people write contains a blank
    return (
        line[0] == ","
        or configs.endswith((",", "="))
        or _ASSIGNMENT.search(line) is not None
        or not is_balanced(configs)
    )


def is_balanced(text: str) -> bool:
    """Return whether all brackets and quotes of a text pair up."""
    return _find_nesting(text)[1]


def _split_pieces(text: str) -> list[str]:
    text = text.strip().rstrip(",")
    if not text:
        return []
    spans, balanced = _find_nesting(text)
    spans.append((len(text), len(text)))
    pieces, begin, at = [], 0, 0
    for match in _NEXT_KEY.finditer(text):
        comma = match.start()
        while spans[at][1] < comma:
            at += 1
        # A lone bracket or quote in a value (a regular expression, say) must not swallow the configs after it.
        if not (balanced and spans[at][0] < comma):
            pieces.append(text[begin:comma])
            begin = match.end()
    return [*pieces, text[begin:]]


def _find_nesting(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return (begin and end of each outermost bracket or quote, whether all brackets and quotes pair up)."""
    spans: list[tuple[int, int]] = []
    closing: list[str] = []  # what closes each open bracket or quote
    begin, escaped = 0, -1
    for match in _MARKS.finditer(text):
        mark, at = match[0], match.start()
        is_quoted = closing and closing[-1] == '"'
        if is_quoted and mark[0] == "\\":
            escaped = match.end() if len(mark) % 2 else -1
        elif closing and mark == closing[-1]:
            if is_quoted and at == escaped:
                continue
            closing.pop()
            if not closing:
                spans.append((begin, at))
        elif not is_quoted and mark in _CLOSING:
            begin = begin if closing else at
            closing.append(_CLOSING[mark])
    return spans, not closing
