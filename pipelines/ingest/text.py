"""Reads a source file as text, however it was saved."""

import codecs
import gzip
import re
import zlib
from pathlib import Path

from pipelines.errors import SourceError

_GZIP = b"\x1f\x8b"
# PowerShell's `>` writes UTF-16 with a byte order mark. UTF-32 first: its mark begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CARRIAGE_RETURNS = re.compile("\r+\n")


def read_text(path: str | Path) -> str:
    """Read a file as text: UTF-8, or what its byte order mark says; gzip is unzipped; lines end with a newline.

    Bytes that cannot be decoded become U+FFFD, so one bad byte costs one line, not the file.

    Raises:
        SourceError: The file cannot be read, is empty or is binary.
    """
    name = str(path)
    data = _read_bytes(Path(path), name)
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise SourceError(name, f"is broken gzip ({error})", "Copy or compress the file again.") from None
    text = _decode(data, name)
    if not text or text.isspace():
        raise SourceError(name, "the file is empty", "Save the tool's output again, or leave the file out.")
    return text


def split_lines(text: str) -> list[str]:
    """Return the lines of the text without their ends; item i is physical line i + 1.

    Not `str.splitlines`: it also cuts at form feeds and Unicode separators, and line numbers would drift.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _read_bytes(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise SourceError(name, "no such file", "Check the path.") from None
    except IsADirectoryError:
        raise SourceError(name, "is a folder, not a file", "Name one file, or the folder as a source.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(name, f"cannot be read ({reason})", "Check the path and its permissions.") from None


def _decode(data: bytes, name: str) -> str:
    mark, encoding = next(((m, e) for m, e in _BYTE_ORDER_MARKS if data.startswith(m)), (b"", "utf-8"))
    # No text format that we read has a NUL byte; every executable, archive and raw log segment has.
    if not mark and b"\0" in data:
        remedy = "Pass the text that Kafka's tools print, not Kafka's own files."
        raise SourceError(name, "is binary, not text", remedy)
    text = data[len(mark) :].decode(encoding, errors="replace")
    return _CARRIAGE_RETURNS.sub("\n", text) if "\r" in text else text
