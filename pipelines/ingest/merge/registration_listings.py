"""Finds brokers that one list of all live brokers has and another lacks: the lists are of two moments."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats import cluster_endpoints, kcat, metadata_json, rpk
from pipelines.ingest.merge.fact_merge import Conflict, show_place
from udfs.arrow.columns import to_codes, to_flags, to_numpy

# Each of their lists names a broker once. Znodes are named by a listing, and again by what each contains.
_LISTS = tuple(module.FORMAT.name for module in (kcat, metadata_json, rpk, cluster_endpoints))


def find_missing(facts: pa.Table) -> dict[int, str]:
    """Return {broker: lines of the first list that lacks it} for brokers that another list has.

    facts: about brokers (schema SOURCED_FACTS, and `from_full_listing`).
    """
    is_listed = to_flags(facts["from_full_listing"]) & to_flags(pc.is_in(facts["format"], pa.array(_LISTS)))
    facts = facts.filter(pa.array(is_listed)).sort_by([(name, "ascending") for name in ("source", "record_number")])
    if not facts.num_rows:
        return {}
    broker = to_numpy(facts["broker_id"]).astype(np.int64)
    line = to_numpy(facts["line_number"]).astype(np.int64)
    lists = _number_lists(facts, broker)
    sources = facts["source"].to_pylist()
    missing: dict[int, str] = {}
    for number in range(int(lists.max()) + 1):
        rows = np.flatnonzero(lists == number)
        first, last = int(line[rows].min()), int(line[rows].max())
        lines = f"line {first}" if first == last else f"lines {first}-{last}"
        for absent in np.setdiff1d(broker, broker[rows]).tolist():
            missing.setdefault(absent, f"{sources[rows[0]]} {lines}")
    return missing


def find_disputed(facts: pa.Table, conflicts: Sequence[Conflict]) -> dict[int, str]:
    """Return {broker: the place that shows it as not registered} for brokers that another place shows as registered."""
    registered, broker = facts["registered"], facts["broker_id"]
    pairs = [(c.row, c.used_row) for c in conflicts if c.field == "registered"]
    absent = [row for pair in pairs for row in pair if registered[row].as_py() is False]
    return {broker[row].as_py(): show_place(facts, row) for row in reversed(absent)}


def _number_lists(facts: pa.Table, broker: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the list of each fact, from 0; in one file and format, a broker that is repeated begins another list."""
    parts = list(zip(*(to_codes(facts[name])[0].tolist() for name in ("source", "format")), strict=True))
    numbers = np.empty(len(parts), dtype=np.int64)
    current: dict[tuple[int, int], tuple[int, set[int]]] = {}  # number of the list of each part, and its brokers
    count = 0
    for row, (part, broker_id) in enumerate(zip(parts, broker.tolist(), strict=True)):
        number, seen = current.get(part, (-1, {broker_id}))
        if broker_id in seen:
            number, seen, count = count, set(), count + 1
        seen.add(broker_id)
        current[part] = number, seen
        numbers[row] = number
    return numbers
