"""Says which listings of a source cannot be read together, with their lines, and what to do about it.

They show the same partitions differently, or they are of two clusters: the same topic has two ids, or the same broker
two hosts.
"""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.entities import BOTH_QUARANTINED
from pipelines.ingest.merge.shard_facts import KRAFT_LOG
from pipelines.ingest.source_format import FactKind
from udfs.arrow.columns import is_valid, to_array, to_codes, to_flags, to_numpy
from udfs.plurals import count_of

_KEEP_ONE, _FIRST_USED = "keep one of them", "the first is used, as it shows the cluster itself"


class _Listing(NamedTuple):
    """Facts of a file, or with a format those of one format that repeat the same partitions as often."""

    source: str
    format: str | None = None
    repetition: int = 0  # how often the format shows the same partitions before


class _Pair(NamedTuple):
    """Two listings that differ, and what to do."""

    first: _Listing
    other: _Listing
    remedy: str


class _Identity(NamedTuple):
    """A field that has one value per entity in one cluster, and another one in another cluster."""

    kind: FactKind
    entity: str  # prefix of its name in conflicts
    key: str  # column of the entity's key in facts
    field: str
    remedy: str


_FOLDERS = "give each cluster its own folder"
_IDENTITIES = (
    _Identity(FactKind.TOPIC, "topic", "topic", "topic_id", f"{_FOLDERS}, or keep one if it was created anew"),
    _Identity(FactKind.BROKER, "broker", "broker_id", "host", f"{_FOLDERS}, unless both hosts are one broker"),
)


def describe_conflicting_listings(facts: pa.Table, conflicts: pa.Table) -> list[str]:
    """Return a sentence for each pair of listings that disagree on partitions, or that are of two clusters.

    facts: of all files (schema SOURCED_FACTS); conflicts: what merging them has found (schema CONFLICTS).
    """
    mixtures: dict[tuple[str, str], str] = {}
    for identity in _IDENTITIES:
        mixtures = _find_mixtures(identity, facts, conflicts) | mixtures
    is_partition = pc.starts_with(conflicts["entity"], "partition ")
    matters = pc.or_(pc.equal(conflicts["outcome"], BOTH_QUARANTINED), pc.equal(conflicts["field"], "replicas"))
    conflicts = conflicts.filter(pc.and_(is_partition, matters))
    if not conflicts.num_rows:
        return list(mixtures.values())
    listed = _list_partitions(facts)
    pairs = _find_pairs(listed, conflicts).items()
    others = (
        _describe_pair(listed, *pair) for pair in pairs if (pair[0].first.source, pair[0].other.source) not in mixtures
    )
    return [*mixtures.values(), *others]


def _find_mixtures(identity: _Identity, facts: pa.Table, conflicts: pa.Table) -> dict[tuple[str, str], str]:
    """Return a sentence for each pair of files that seem to be of two clusters; a file with itself is two parts."""
    is_own = pc.starts_with(conflicts["entity"], f"{identity.entity} ")
    differing = conflicts.filter(pc.and_(is_own, pc.equal(conflicts["field"], identity.field)))
    if not differing.num_rows:
        return {}
    chosen = facts.filter(pc.and_(pc.equal(facts["kind"], identity.kind), pc.is_valid(facts[identity.field])))
    formats: dict[tuple[str, int], str] = {}
    sources = defaultdict[tuple[Any, str], list[str]](list)  # that give an entity the same value
    for fact in chosen.select([identity.key, identity.field, "source", "line_number", "format"]).to_pylist():
        formats[fact["source"], fact["line_number"]] = fact["format"]
        sources[fact[identity.key], fact[identity.field]].append(fact["source"])
    pairs = defaultdict[tuple[str, str], list[dict[str, Any]]](list)
    for row in differing.to_pylist():
        first, other = ((row[f"{one}source"], row[f"{one}line_number"]) for one in ("", "other_"))
        if formats.get(first) == formats.get(other):  # tools reach a broker at different addresses
            pairs[first[0], other[0]].append(row)
    sentences = {}
    for (source, other_source), rows in pairs.items():
        counts = ((names.count(source), names.count(other_source)) for names in sources.values())
        if any(min(count) > (source == other_source) for count in counts):
            continue  # both have the same value: they are of one cluster
        row = rows[0]
        places = f"{source} line {row['line_number']} and {other_source} line {row['other_line_number']}"
        values = f"{row['entity']} has {identity.field} {row['value']} and {row['other_value']}"
        count = f"{count_of(len(rows), identity.entity)} with two"
        sentences[source, other_source] = f"{places} seem to be of two clusters: {values} ({count}): {identity.remedy}"
    return sentences


def _list_partitions(facts: pa.Table) -> pa.Table:
    """Return the facts about partitions: source, format, line, partition (as conflicts name it) and repetition."""
    kinds = pa.array([FactKind.PARTITION, FactKind.PARTITION_CHANGE], pa.string())
    facts = facts.filter(pc.is_in(facts["kind"], kinds))
    source, form, topic = (to_array(facts[name]) for name in ("source", "format", "topic"))
    number = pc.cast(to_array(facts["partition"]), pa.string())
    partition = pc.binary_join_element_wise("partition ", topic, "-", number, "")
    # A dump of ZooKeeper shows the assignment of a partition and its state in two records: neither repeats the other.
    has_isr = is_valid(facts["isr"]).astype(np.int64)
    keys = (has_isr, *(to_codes(column)[0] for column in (partition, form, source)))
    repetition = _count_before(keys, to_numpy(facts["record_number"]))
    repetition[to_flags(pc.equal(form, KRAFT_LOG))] = 0  # a log shows one moment: its end
    columns = {"source": source, "format": form, "line": facts["line_number"], "partition": partition}
    return pa.table(columns | {"repetition": repetition})


def _count_before(keys: tuple[npt.NDArray[np.int64], ...], record: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Count, for each row, the rows with the same keys and a lower record number."""
    order = np.lexsort((record, *keys))
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    index = np.arange(len(order))
    count = np.empty(len(order), dtype=np.int64)
    count[order] = index - np.maximum.accumulate(np.where(begins, index, 0))
    return count


def _find_pairs(listed: pa.Table, conflicts: pa.Table) -> dict[_Pair, set[str]]:
    """Return the partitions in which each pair of listings differs."""
    named = listed.filter(pc.is_in(listed["partition"], to_array(conflicts["entity"]))).to_pylist()
    listings = {
        (row["partition"], row["source"], row["line"]): _Listing(row["source"], row["format"], row["repetition"])
        for row in named
    }
    pairs: dict[_Pair, set[str]] = {}
    rows = conflicts.to_pylist()
    quarantined = {row["entity"] for row in rows if row["outcome"] == BOTH_QUARANTINED}
    for row in rows:
        is_quarantined = row["outcome"] == BOTH_QUARANTINED
        if not is_quarantined and row["entity"] in quarantined:
            continue  # the listing that would be used is not
        places = [(row[f"{prefix}source"], row[f"{prefix}line_number"]) for prefix in ("", "other_")]
        first, other = (_Listing(source) for source, _ in places)
        if row["source"] == row["other_source"]:
            first, other = (listings.get((row["entity"], *place), _Listing(place[0])) for place in places)
        pair = _Pair(first, other, _KEEP_ONE if is_quarantined else _FIRST_USED)
        pairs.setdefault(pair, set()).add(row["entity"])
    return pairs


def _describe_pair(listed: pa.Table, pair: _Pair, names: set[str]) -> str:
    """Describe two listings by the lines of the partitions that both have."""
    first, other = (_select_listing(listed, listing) for listing in (pair.first, pair.other))
    both = to_array(first["partition"]).unique()
    both = both.filter(pc.is_in(both, to_array(other["partition"])))
    rows_of_both = [rows.filter(pc.is_in(rows["partition"], both)) for rows in (first, other)]
    places = " and ".join(f"{rows['source'][0].as_py()} {_format_lines(rows['line'])}" for rows in rows_of_both)
    count = f"{len(names)} of {count_of(len(both), 'partition')}"
    return f"{places} show partitions differently ({count}, as {min(names)}): {pair.remedy}"


def _select_listing(listed: pa.Table, listing: _Listing) -> pa.Table:
    rows = listed.filter(pc.equal(listed["source"], listing.source))
    if listing.format is None:
        return rows
    return rows.filter((pc.field("format") == listing.format) & (pc.field("repetition") == listing.repetition))


def _format_lines(lines: pa.ChunkedArray) -> str:
    first, last = pc.min(lines).as_py(), pc.max(lines).as_py()
    return f"line {first}" if first == last else f"lines {first}-{last}"
