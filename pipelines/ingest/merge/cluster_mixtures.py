"""Finds sources of two clusters that were given as one: the same topic has two ids, or the same broker two hosts."""

from collections import defaultdict
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.source_format import FactKind
from udfs.plurals import count_of

Pair = tuple[str, str]  # names of two files; the same twice: two parts of one file


class ClusterMixtures(NamedTuple):
    """What seems to be of two clusters."""

    sentences: list[str]
    pairs: set[Pair]  # their differences need no other explanation


class _Identity(NamedTuple):
    """A field that has one value per entity in one cluster, and another one in another cluster."""

    kind: FactKind
    entity: str  # prefix of its name in conflicts
    column: str  # of the entity's key in facts
    field: str
    name: str
    remedy: str


_FOLDERS = "give each cluster its own folder"
_IDENTITIES = (
    _Identity(FactKind.TOPIC, "topic", "topic", "topic_id", "id", f"{_FOLDERS}, or keep one if it was created anew"),
    # One format, because tools reach a broker at different addresses.
    _Identity(FactKind.BROKER, "broker", "broker_id", "host", "host", f"{_FOLDERS}, unless both hosts are one broker"),
)


def find_mixtures(facts: pa.Table, conflicts: pa.Table) -> ClusterMixtures:
    """Return what seems to be of two clusters.

    facts: of all files (schema SOURCED_FACTS); conflicts: what merging them has mixtures (schema CONFLICTS).
    """
    mixtures = ClusterMixtures([], set())
    for identity in _IDENTITIES:
        is_own = pc.starts_with(conflicts["entity"], f"{identity.entity} ")
        own = conflicts.filter(pc.and_(is_own, pc.equal(conflicts["field"], identity.field)))
        if own.num_rows:
            _add_mixtures(mixtures, identity, own, _select_facts(facts, identity))
    return mixtures


def _select_facts(facts: pa.Table, identity: _Identity) -> list[dict[str, object]]:
    chosen = pc.and_(pc.equal(facts["kind"], identity.kind), pc.is_valid(facts[identity.field]))
    columns = [identity.column, identity.field, "source", "line_number", "format"]
    rows: list[dict[str, object]] = facts.filter(chosen).select(columns).to_pylist()
    return rows


def _add_mixtures(
    mixtures: ClusterMixtures, identity: _Identity, conflicts: pa.Table, facts: list[dict[str, object]]
) -> None:
    formats = {(fact["source"], fact["line_number"]): fact["format"] for fact in facts}
    rows: defaultdict[Pair, list[dict[str, object]]] = defaultdict(list)
    for row in conflicts.to_pylist():
        first = formats.get((row["source"], row["line_number"]))
        if first == formats.get((row["other_source"], row["other_line_number"])):
            rows[row["source"], row["other_source"]].append(row)
    sources: defaultdict[tuple[object, object], list[object]] = defaultdict(list)
    for fact in facts:
        sources[fact[identity.column], fact[identity.field]].append(fact["source"])
    for pair, differing in rows.items():
        if pair not in mixtures.pairs and not any(_shows_both(names, pair) for names in sources.values()):
            mixtures.sentences.append(_describe_mixture(identity, pair, differing))
            mixtures.pairs.add(pair)


def _shows_both(sources: list[object], pair: Pair) -> bool:
    """Return whether both sides of a pair give an entity the same value: then they are of one cluster."""
    first, other = pair
    return sources.count(first) > 1 if first == other else first in sources and other in sources


def _describe_mixture(identity: _Identity, pair: Pair, rows: list[dict[str, object]]) -> str:
    row, (first, other) = rows[0], pair
    where, other_where = f"line {row['line_number']}", f"line {row['other_line_number']}"
    if first == other:
        subject = f"{first} seems to show two clusters"
    else:
        subject = f"{first} and {other} seem to show two clusters"
        where, other_where = f"{first} {where}", f"{other} {other_where}"
    values = f"{identity.name} {row['value']} in {where} and {row['other_value']} in {other_where}"
    more = f" ({count_of(len(rows), identity.entity)} differ)" if len(rows) > 1 else ""
    return f"{subject}: {row['entity']} has {values}{more}: {identity.remedy}"
