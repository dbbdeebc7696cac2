"""Several facts on one thing -> one statement, field by field, and every disagreement on the way.

Facts of one thing may complete each other (replicas from one, sizes from another). Where two of them give a field
different values, the one of the stronger format is used - observed state before a declaration - and the conflict is
handed to the caller, who quarantines or reports it. Nothing is settled in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.columns import fingerprints
from udfs.arrow.ragged import first_true, row_of

Ints = npt.NDArray[np.int64]

# Formats by strength. What a running cluster shows outranks what a person or a plan declares.
_OBSERVED = (
    "kraft-log",
    "zookeeper-json",
    "zookeeper-cli",
    "describe",
    "log-dirs",
    "model",
    "offsets",
    "offset-checkpoint",
)
OBSERVED, DECLARED = 0, 1

UNORDERED = frozenset({"isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas"})


def strength_of(formats: pa.Array) -> npt.NDArray[np.int64]:
    """OBSERVED or DECLARED for each row of a format column."""
    return np.array([OBSERVED if f in _OBSERVED else DECLARED for f in formats.to_pylist()], dtype=np.int64)


@dataclass(frozen=True)
class Conflict:
    """Fact `row` gives `field` another value than fact `used_row`; rows index the facts given to `merge`."""

    field: str
    row: int
    used_row: int
    same_strength: bool


@dataclass(frozen=True)
class Merged:
    """One row per thing.

    keys: int64 (g), ascending.   table: the merged fields (g rows).
    order, offsets: facts of thing i are order[offsets[i]:offsets[i + 1]].
    duplicate: bool (facts), a fact equal in every field to an earlier one of the same source.
    """

    keys: Ints
    table: pa.Table
    order: Ints
    offsets: Ints
    conflicts: list[Conflict]
    duplicate: npt.NDArray[np.bool_]

    @property
    def thing_of_fact(self) -> Ints:
        """For each fact (in the order given), the number of its thing."""
        out = np.empty(len(self.order), dtype=np.int64)
        out[self.order] = row_of(self.offsets)
        return out


def merge(facts: pa.Table, key: Ints, names: Sequence[str]) -> Merged:
    """Merge facts (n rows, with columns source_index, strength, record_number) that shard a key (n)."""
    source = facts["source_index"].to_numpy()
    strength = facts["strength"].to_numpy()
    record = facts["record_number"].to_numpy()
    order = np.lexsort((record, source, strength, key))
    sorted_key = key[order]
    begins = np.flatnonzero(np.r_[True, sorted_key[1:] != sorted_key[:-1]]) if len(key) else np.empty(0, np.int64)
    offsets = np.r_[begins, len(key)].astype(np.int64)
    group = row_of(offsets)

    columns: dict[str, pa.Array] = {}
    conflicts: list[Conflict] = []
    together = np.zeros(len(key), dtype=np.uint64)
    for name in names:
        prints = fingerprints(facts[name], ordered=name not in UNORDERED)[order]
        present = prints != 0
        first = first_true(present, offsets)
        columns[name] = facts[name].combine_chunks().take(pa.array(order[first], mask=first < 0))
        differs = present & (prints != prints[first[group]]) if len(key) else present
        for at in np.flatnonzero(differs).tolist():
            used = int(first[group[at]])
            same = bool(strength[order[at]] == strength[order[used]])
            conflicts.append(Conflict(name, int(order[at]), int(order[used]), same))
        with np.errstate(over="ignore"):
            together = together * np.uint64(0x100000001B3) + prints

    back = np.empty(len(key), dtype=np.int64)
    back[order] = np.arange(len(key))
    return Merged(
        sorted_key[begins], pa.table(columns), order, offsets, conflicts, _repeats(key, source, together[back], record)
    )


def _repeats(key: Ints, source: Ints, prints: npt.NDArray[np.uint64], record: Ints) -> npt.NDArray[np.bool_]:
    order = np.lexsort((record, prints, source, key))
    same = np.zeros(len(key), dtype=np.bool_)
    a, b = order[1:], order[:-1]
    same[a] = (key[a] == key[b]) & (source[a] == source[b]) & (prints[a] == prints[b])
    return same


def show(facts: pa.Table, row: int, field: str) -> str:
    """The value of a field of a fact as a person would write it."""
    value = facts[field][row].as_py()
    if isinstance(value, list):
        return "[" + ",".join(str(v) for v in value) + "]"
    return str(value)


def place(facts: pa.Table, row: int) -> str:
    """Where a fact comes from: "before.txt line 12"."""
    return f"{facts['source'][row].as_py()} line {facts['line_number'][row].as_py()}"
