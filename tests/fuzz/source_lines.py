"""The lines of a case's files, decoded without the program's own code."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from typing import NamedTuple

_MARKS = (
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_LINE_END = re.compile(r"\r*\n|\r+")


class SourceLines(NamedTuple):
    """A file's text and its physical lines; line 1 is the first."""

    text: str
    lines: list[str]

    def get_line(self, number: int) -> str:
        """Return a line, or an empty one behind the last."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""


def decode_file(data: bytes) -> SourceLines | None:
    """Return the lines of a file, or None if it is no text: broken gzip, or binary."""
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return None
    mark, encoding = next((entry for entry in _MARKS if data.startswith(entry[0])), (b"", _guess_encoding(data)))
    if not mark and encoding == "utf-8" and b"\0" in data:
        return None
    text = data[len(mark) :].decode(encoding, errors="replace")
    lines = _LINE_END.split(text)
    if any(_unwrap(line) != line for line in lines[:20]):
        lines = list(map(_unwrap, lines))
        text = "\n".join(lines)
    return SourceLines(text, lines)


def _guess_encoding(data: bytes) -> str:
    """Return UTF-16 for text of which every other byte is zero, as PowerShell appends it without a mark."""
    if len(data) < 16 or len(data) % 2:
        return "utf-8"
    first, second = data[:4_096:2], data[1:4_096:2]
    if not any(second) and all(first):
        return "utf-16-le"
    return "utf-16-be" if not any(first) and all(second) else "utf-8"


def _unwrap(line: str) -> str:
    """Return what a container wrote of a line of Docker's log, of which the end may be cut off."""
    before, key, rest = line.partition('"log"')
    if not key or before.strip() != "{" or not rest.lstrip().startswith(":"):
        return line
    value = rest.lstrip()[1:].lstrip()
    try:
        text, end = json.JSONDecoder().raw_decode(value)
    except (ValueError, RecursionError):
        return line
    if not isinstance(text, str) or not re.match(r'\s*,\s*"stream"\s*:\s*"[a-z]', value[end:]):
        return line
    return text.rstrip("\n").replace("\n", " ")
