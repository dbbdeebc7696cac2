"""Reads a source file as text, whatever way it was saved."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from pathlib import Path

from pipelines.errors import SourceError

_GZIP = b"\x1f\x8b"
# PowerShell's `>` writes UTF-16 with a byte order mark. UTF-32 first: its mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CARRIAGE_RETURNS = re.compile("\r+\n")


def read_text(path: str | Path) -> str:
    """Text of the file: UTF-8, or UTF-16 by its mark; unzipped when gzip; line ends as `\\n`.

    Bytes that cannot be decoded become U+FFFD, so one bad byte costs one line, not the file.
    """
    name = str(path)
    data = _bytes(Path(path), name)
    if data.startswith(_GZIP):
        data = _unzipped(data, name)
    text = _decoded(data, name)
    if not text or text.isspace():
        raise SourceError(name, "the file is empty", "Save the tool's output again, or leave the file out.")
    return text


def lines_of(text: str) -> list[str]:
    """Lines of the text without their ends; item i is physical line i + 1.

    Not `str.splitlines`: it also cuts at form feeds and Unicode separators, and line numbers would drift.
    """
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return lines


def _bytes(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise SourceError(name, "no such file", "Check the path.") from None
    except IsADirectoryError:
        raise SourceError(name, "is a folder, not a file", "Name one file, or the folder as a source.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(name, f"cannot be read ({reason})", "Check the path and its permissions.") from None


def _unzipped(data: bytes, name: str) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(name, f"is broken gzip ({error})", "Copy or compress the file again.") from None


def _decoded(data: bytes, name: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, errors="replace")
            break
    else:
        # No text format that we read holds a NUL byte; every executable, archive or raw log segment does.
        if b"\0" in data:
            raise SourceError(
                name, "is binary, not text", "Give the text that Kafka's tools print, not Kafka's own files."
            )
        text = data.decode("utf-8", errors="replace")
    if "\r" in text:
        text = _CARRIAGE_RETURNS.sub("\n", text)
    return text
