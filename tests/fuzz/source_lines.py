"""The lines of a case's files, decoded without the program's own code."""

from __future__ import annotations

import gzip
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
    mark, encoding = next((entry for entry in _MARKS if data.startswith(entry[0])), (b"", "utf-8"))
    if not mark and b"\0" in data:
        return None
    text = data[len(mark) :].decode(encoding, errors="replace")
    lines = _LINE_END.split(text)
    return SourceLines(text, lines)
