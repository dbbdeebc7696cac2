"""Makes a failing case as small as possible: fewer files, then fewer lines, then fewer bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.fuzz.cases import FuzzCase, InputFile

_MOST_SECONDS = 60
_MOST_BYTES = 3_000  # of a file that is reduced byte by byte


class _TimeUpError(Exception):
    """The best case so far has to do."""


def minimise_case(case: FuzzCase, fails: Callable[[FuzzCase], bool], max_seconds: float = _MOST_SECONDS) -> FuzzCase:
    """Return a smaller case that still fails; `fails` runs one, and must be true for `case`."""
    end = time.monotonic() + max_seconds
    best = case

    def attempt(candidate: FuzzCase) -> bool:
        nonlocal best
        if time.monotonic() > end:
            raise _TimeUpError
        if not candidate.files or not fails(candidate):
            return False
        best = candidate
        return True

    try:
        _reduce(list(case.files), lambda files: attempt(best.with_files(tuple(files))))
        for cut in (_cut_lines, _cut_bytes):
            for at in range(len(best.files)):
                _reduce_file(best, at, cut, attempt)
    except _TimeUpError:
        pass
    return best


def _cut_lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def _cut_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))] if len(data) <= _MOST_BYTES else [data]


def _reduce_file(
    case: FuzzCase, at: int, cut: Callable[[bytes], list[bytes]], attempt: Callable[[FuzzCase], bool]
) -> None:
    file = case.files[at]

    def try_pieces(pieces: Sequence[bytes]) -> bool:
        smaller = InputFile(file.name, b"".join(pieces))
        return attempt(case.with_files((*case.files[:at], smaller, *case.files[at + 1 :])))

    _reduce(cut(file.data), try_pieces)


def _reduce(items: list[Any], attempt: Callable[[list[Any]], bool]) -> list[Any]:
    """Leave out as many items as possible, in ever smaller runs (delta debugging)."""
    size = max(len(items) // 2, 1)
    while items:
        at, changed = 0, False
        while at < len(items):
            rest = items[:at] + items[at + size :]
            if attempt(rest):
                items, changed = rest, True
            else:
                at += size
        if size == 1 and not changed:
            break
        size = size if changed and size == 1 else max(size // 2, 1)
    return items
