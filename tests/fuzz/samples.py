"""The samples that the fuzzer mutates: every file of data_samples, so that new samples are fuzzed without an edit."""

from __future__ import annotations

import gzip
import random
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

SAMPLES = Path(__file__).parents[2] / "data_samples"
_NO_SAMPLES = ("README.md", ".expected")
_GZIP = b"\x1f\x8b"
_MOST = 2_500  # characters of a sample that a case takes
_HEAD_LINES = 3  # first lines of a long sample, which often are its header
_MAX_WINDOW = 30  # further lines of a long sample


class Sample(NamedTuple):
    """A file of data_samples as text."""

    name: str
    text: str
    raw: bytes


@cache
def load_samples() -> tuple[Sample, ...]:
    """Return every sample, by path."""
    files = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and not path.name.endswith(_NO_SAMPLES))
    return tuple(Sample(path.name, _decode(raw), raw) for path, raw in ((path, path.read_bytes()) for path in files))


def _decode(raw: bytes) -> str:
    if raw.startswith(_GZIP):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError):
            return raw.decode("latin-1")
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return raw.decode(encoding, errors="replace")


def choose_sample(rng: random.Random) -> Sample:
    """Choose a sample; one more sample changes only the few choices that fall on it, so that most cases stay."""
    draw = rng.randbytes(8)
    return max(load_samples(), key=lambda sample: zlib.crc32(draw + sample.name.encode()))


def cut_sample(rng: random.Random, text: str) -> str:
    """Return a text that is short enough for a case: a long one without most of its lines."""
    if len(text) <= _MOST:
        return text
    lines = text.split("\n")
    begin = rng.randrange(len(lines))
    window = lines[begin : begin + rng.randint(1, _MAX_WINDOW)]
    chosen = (lines[:_HEAD_LINES] if rng.random() < 0.7 else []) + window
    return "\n".join(line if len(line) <= _MOST else line[: rng.randint(1, _MOST)] for line in chosen)
