"""Finds brokers that one list of all live brokers has and another lacks: the lists are of two moments."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats import cluster_endpoints, kcat, metadata_json, rpk
from pipelines.ingest.merge.fact_merge import Conflict, show_place

# Each of their lists names a broker once. Znodes are named by a listing, and again by what each contains.
_LISTS = tuple(module.FORMAT.name for module in (kcat, metadata_json, rpk, cluster_endpoints))


def find_missing(facts: pa.Table) -> dict[int, str]:
    """Return {broker: lines of the first list that lacks it} for brokers that another list has.

    facts: about brokers (schema SOURCED_FACTS, and `from_full_listing`).
    """
    is_listed = pc.and_kleene(facts["from_full_listing"], pc.is_in(facts["format"], pa.array(_LISTS)))
    facts = facts.filter(is_listed).sort_by([(name, "ascending") for name in ("source", "record_number")])
    lists: list[tuple[str, dict[int, int]]] = []  # of each list: its file, and lines by broker
    last: dict[tuple[str, str], dict[int, int]] = {}  # list of each file and format
    for row in facts.select(["source", "format", "broker_id", "line_number"]).to_pylist():
        part = row["source"], row["format"]
        if part not in last or row["broker_id"] in last[part]:  # a broker that is repeated begins another list
            last[part] = {}
            lists.append((row["source"], last[part]))
        last[part][row["broker_id"]] = row["line_number"]
    brokers = {broker for _, lines in lists for broker in lines}
    missing: dict[int, str] = {}
    for source, lines in lists:
        first, end = min(lines.values()), max(lines.values())
        place = f"{source} line {first}" if first == end else f"{source} lines {first}-{end}"
        for absent in sorted(brokers - lines.keys()):
            missing.setdefault(absent, place)
    return missing


def find_disputed(facts: pa.Table, conflicts: Sequence[Conflict]) -> dict[int, str]:
    """Return {broker: the place that shows it as not registered} for brokers that another place shows as registered."""
    registered, broker = facts["registered"], facts["broker_id"]
    pairs = [(c.row, c.used_row) for c in conflicts if c.field == "registered"]
    absent = [row for pair in pairs for row in pair if registered[row].as_py() is False]
    return {broker[row].as_py(): show_place(facts, row) for row in reversed(absent)}
