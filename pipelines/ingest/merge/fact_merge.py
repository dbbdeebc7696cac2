"""Merges several facts about one entity into one statement, field by field, and reports every conflict.

Where two facts give a field different values, the one of the stronger format is used - observed state before a
declaration - and the caller quarantines or reports the conflict.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.columns import fingerprint
from udfs.arrow.ragged import first_true, row_of

Ints = npt.NDArray[np.int64]

# What a person or a plan declares; what a running cluster shows, in all other formats, outranks it.
DECLARED_FORMATS = ("reassignment", "tool-input", "broker-list", "topic-list", "strimzi-topics")
# What a cluster shows of replicas alone, without leader and ISR: between the two.
REPLICA_FORMATS = ("reassignment-list",)
_UNORDERED_FIELDS = frozenset(
    {"isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas", "observers", "offline_replicas"}
    | {"failed_dir_replicas"}
)


@dataclass(frozen=True)
class Conflict:
    """Fact `row` gives `field` another value than fact `used_row`; rows index the facts given to `merge_by_key`."""

    field: str
    row: int
    used_row: int
    same_rank: bool = False


@dataclass(frozen=True)
class MergedFacts:
    """One row per entity; the facts of entity i are order[offsets[i]:offsets[i + 1]]."""

    keys: Ints  # int64 (entities), ascending
    table: pa.Table  # the merged fields
    order: Ints  # int64 (facts), grouped by entity
    offsets: Ints  # int64 (entities + 1)
    conflicts: list[Conflict]
    duplicate: npt.NDArray[np.bool_]  # bool (facts): equal in every field to an earlier fact of the same source

    @property
    def first_rows(self) -> Ints:
        """The first fact of each entity."""
        return self.order[self.offsets[:-1]]


def merge_by_key(facts: pa.Table, key: Ints, fields: Sequence[str]) -> MergedFacts:
    """Merge fields of facts that share a key (n). Facts also have source_index, format_rank and record_number."""
    source = facts["source_index"].to_numpy()
    rank = facts["format_rank"].to_numpy()
    record = facts["record_number"].to_numpy()
    is_ascending = bool((key[1:] > key[:-1]).all())
    order = np.arange(len(key)) if is_ascending else np.argsort(key, kind="stable")
    sorted_key = key[order]
    if is_ascending or (sorted_key[1:] > sorted_key[:-1]).all():  # one fact for each entity, as one listing shows them
        columns = {field: facts[field] if is_ascending else facts[field].take(pa.array(order)) for field in fields}
        no_duplicates = np.zeros(len(key), dtype=np.bool_)
        return MergedFacts(sorted_key, pa.table(columns), order, np.arange(len(key) + 1), [], no_duplicates)
    order = np.lexsort((record, source, rank, key))
    begins = np.flatnonzero(np.r_[True, sorted_key[1:] != sorted_key[:-1]])
    offsets = np.r_[begins, len(key)].astype(np.int64)
    entity = row_of(offsets)

    columns = {}
    conflicts: list[Conflict] = []
    all_fields = np.zeros(len(key), dtype=np.uint64)
    for field in fields:
        prints = fingerprint(facts[field], ordered=field not in _UNORDERED_FIELDS)[order]
        present = prints != 0
        first = first_true(present, offsets)
        columns[field] = facts[field].combine_chunks().take(pa.array(order[first], mask=first < 0))
        differs = present & (prints != prints[first[entity]]) if len(key) else present
        for at in np.flatnonzero(differs).tolist():
            used = int(first[entity[at]])
            same_rank = bool(rank[order[at]] == rank[order[used]])
            conflicts.append(Conflict(field, int(order[at]), int(order[used]), same_rank))
        with np.errstate(over="ignore"):
            all_fields = all_fields * np.uint64(0x100000001B3) + prints

    values = np.empty(len(key), dtype=np.uint64)
    values[order] = all_fields
    by_value = np.lexsort((record, values, source, key))
    duplicate = np.zeros(len(key), dtype=np.bool_)
    here, before = by_value[1:], by_value[:-1]
    duplicate[here] = (key[here] == key[before]) & (source[here] == source[before]) & (values[here] == values[before])
    return MergedFacts(sorted_key[begins], pa.table(columns), order, offsets, conflicts, duplicate)


def show_value(facts: pa.Table, row: int, field: str) -> str:
    """Return the value of a fact's field as a person would write it."""
    value = facts[field][row].as_py()
    return "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else str(value)


def show_place(facts: pa.Table, row: int) -> str:
    """Return where a fact comes from, as in `before.txt line 12`."""
    return f"{facts['source'][row].as_py()} line {facts['line_number'][row].as_py()}"
