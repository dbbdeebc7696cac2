"""What sentences are made of: patterns, times, numbers, names of partitions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from udfs.simulation.cluster_events import Key, List

# Numbers are short enough that sums of them stay within 64 bits; ids, and numbers of partitions, are 32 bits.
LARGEST, LARGEST_ID = 10**12 - 1, 10**9 - 1
NUMBER = r"(\d{1,12})"
IDS = r"(\d{1,9}(?:\s*,\s*\d{1,9})*)"
BROKER = r"(\d{1,9})"
NAME = r"([A-Za-z0-9._-]+)"
PARTITION = r"([A-Za-z0-9._-]+-\d{1,9})"
PARTITIONS = r"([A-Za-z0-9._-]+-\d{1,9}(?:\s*,\s*[A-Za-z0-9._-]+-\d{1,9})*)"
LISTS = r"(\d+(?::\d+)*(?:\s*,\s*\d+(?::\d+)*)*)"  # as kafka-topics --replica-assignment writes them: 1:2,2:3
TIME = r"(\d{1,12}(?:\.\d+)?(?:ms|s|m|h)?)"
OPTIONS = r"((?: [a-z]+=\S+)*)"

_TIME = re.compile(r"(\d{1,12}(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {None: 1000.0, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
_NUMBER = re.compile(NUMBER)


@dataclass(frozen=True)
class Option:
    """What may stand behind `name=`. read: None = that is no value.   remedy: what to write."""

    read: Callable[[str], int | None]
    remedy: str


def milliseconds(text: str) -> int | None:
    """A time, in seconds unless it has a unit; None if it is none."""
    found = _TIME.fullmatch(text)
    return round(float(found[1]) * _UNITS[found[2]]) if found else None


def number(text: str) -> int | None:
    """A whole number, 0 or more; None if it is none."""
    return int(text) if _NUMBER.fullmatch(text) else None


def too_large(text: str, is_understood: Callable[[str], object]) -> tuple[str, int] | None:
    """(the first number that is too large, the largest that may stand there), if but for such numbers it is understood.

    is_understood: whether a text is.
    """
    runs = list(re.finditer(r"\d{10,}", text))

    def as_if(other: int, value: str) -> object:
        """Whether it is understood with this value at one place, and ids at the others."""
        parts, end = [], 0
        for i, run in enumerate(runs):
            parts += [text[end : run.start()], value if i == other else str(LARGEST_ID)]
            end = run.end()
        return is_understood("".join([*parts, text[end:]]))

    for i, run in enumerate(runs):
        if not as_if(i, run[0]):
            fitting = next((largest for largest in (LARGEST, LARGEST_ID) if as_if(i, str(largest))), None)
            return None if fitting is None else (run[0], fitting)
    return None


A_TIME = Option(milliseconds, "Write a time, as in 500ms or 5s.")
A_NUMBER = Option(number, f"Write a whole number up to {LARGEST:,}.")
ACKS = Option({"0": 0, "1": 1, "all": -1, "-1": -1}.get, "Write 0, 1 or all.")


def ids_of(text: str) -> List:
    """1,2,3 as numbers."""
    return tuple(int(part) for part in text.split(","))


def keys_of(text: str) -> list[Key]:
    """orders-0,orders-1 as (topic, partition)."""
    parts = [part.strip().rpartition("-") for part in text.split(",")]
    return [(topic, int(partition)) for topic, _, partition in parts]
