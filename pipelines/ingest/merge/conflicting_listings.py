"""Says which listings of a source cannot be read together, with their lines, and what to do about it.

They show the same partitions differently, or they are of two clusters.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.cluster_mixtures import find_mixtures
from pipelines.ingest.merge.entities import BOTH_QUARANTINED
from pipelines.ingest.merge.fact_merge import DECLARED_FORMATS
from pipelines.ingest.merge.shard_facts import KRAFT_LOG
from pipelines.ingest.source_format import FactKind
from udfs.arrow.columns import is_valid, to_array, to_codes, to_flags, to_numpy
from udfs.plurals import count_of

_Mask = npt.NDArray[np.bool_]


class _Listing(NamedTuple):
    """Facts of a file, or with a format those of one format that repeat the same partitions as often."""

    source: str
    format: str | None = None
    repetition: int = 0  # how often the format shows the same partitions before


class _Pair(NamedTuple):
    """Two listings that disagree. is_mixed: neither is used; else the first is, as it observes the cluster."""

    first: _Listing
    other: _Listing
    is_mixed: bool


class _Lines(NamedTuple):
    """Lines of a file, from first to last."""

    first: int
    last: int

    @property
    def numbers(self) -> str:
        """As in 3-9."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def __str__(self) -> str:
        """Write them as in lines 3-9."""
        return f"{'line' if self.first == self.last else 'lines'} {self.numbers}"

    def choose(self, singular: str, plural: str) -> str:
        """Choose the verb that they are the subject of."""
        return singular if self.first == self.last else plural


class _ListedFacts(NamedTuple):
    """What the files' facts about topics and partitions are about (n)."""

    source: pa.Array
    format: pa.Array
    line: npt.NDArray[np.int64]
    topic: pa.Array
    partition: pa.Array  # as conflicts name it; null = a fact about a topic
    repetition: npt.NDArray[np.int64]


def describe_conflicting_listings(facts: pa.Table, conflicts: pa.Table) -> list[str]:
    """Return a sentence for each pair of listings that disagree on partitions, or that are of two clusters.

    facts: of all files (schema SOURCED_FACTS); conflicts: what merging them has found (schema CONFLICTS).
    """
    mixtures = find_mixtures(facts, conflicts)
    is_partition = pc.starts_with(conflicts["entity"], "partition ")
    matters = pc.or_(pc.equal(conflicts["outcome"], BOTH_QUARANTINED), pc.equal(conflicts["field"], "replicas"))
    conflicts = conflicts.filter(pc.and_(is_partition, matters))
    if not conflicts.num_rows:
        return mixtures.sentences
    listed = _select_listed_facts(facts)
    pairs = _find_pairs(listed, conflicts).items()
    others = [
        _describe_pair(listed, pair, names)
        for pair, names in pairs
        if (pair.first.source, pair.other.source) not in mixtures.pairs
    ]
    return mixtures.sentences + others


def _select_listed_facts(facts: pa.Table) -> _ListedFacts:
    kinds = pa.array([FactKind.TOPIC, FactKind.PARTITION, FactKind.PARTITION_CHANGE], pa.string())
    facts = facts.filter(pc.is_in(facts["kind"], kinds))
    source, form, topic = (to_array(facts[name]) for name in ("source", "format", "topic"))
    number = pc.cast(to_array(facts["partition"]), pa.string())
    partition = pc.binary_join_element_wise("partition ", topic, "-", number, "")
    # A dump of ZooKeeper shows the assignment of a partition and its state in two records: neither repeats the other.
    has_isr = is_valid(facts["isr"]).astype(np.int64)
    keys = (has_isr, *(to_codes(column)[0] for column in (topic, partition, form, source)))
    repetition = _count_before(keys, to_numpy(facts["record_number"]))
    repetition[to_flags(pc.equal(form, KRAFT_LOG))] = 0  # a log shows one moment: its end
    return _ListedFacts(source, form, to_numpy(facts["line_number"]).astype(np.int64), topic, partition, repetition)


def _count_before(keys: tuple[npt.NDArray[np.int64], ...], record: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Count, for each row, the rows with the same keys and a lower record number."""
    order = np.lexsort((record, *keys))
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    index = np.arange(len(order))
    count = np.empty(len(order), dtype=np.int64)
    count[order] = index - np.maximum.accumulate(np.where(begins, index, 0))
    return count


def _find_pairs(listed: _ListedFacts, conflicts: pa.Table) -> dict[_Pair, set[str]]:
    """Return the partitions in which each pair of listings differs."""
    at = np.flatnonzero(to_flags(pc.is_in(listed.partition, to_array(conflicts["entity"]))))
    columns = (listed.partition, listed.source, listed.format)
    names, sources, formats = (column.take(pa.array(at)).to_pylist() for column in columns)
    keys = zip(names, sources, listed.line[at].tolist(), strict=True)
    listings = dict(zip(keys, map(_Listing, sources, formats, listed.repetition[at].tolist()), strict=True))
    pairs: dict[_Pair, set[str]] = {}
    rows = conflicts.to_pylist()
    quarantined = {row["entity"] for row in rows if row["outcome"] == BOTH_QUARANTINED}
    for row in rows:
        if row["outcome"] != BOTH_QUARANTINED and row["entity"] in quarantined:
            continue  # the listing that would be used is not
        places = [(row[f"{prefix}source"], row[f"{prefix}line_number"]) for prefix in ("", "other_")]
        is_mixed = row["outcome"] == BOTH_QUARANTINED
        if row["source"] == row["other_source"]:
            first, other = (listings.get((row["entity"], *place), _Listing(place[0])) for place in places)
        else:
            first, other = (_Listing(source) for source, _ in places)
        pairs.setdefault(_Pair(first, other, is_mixed), set()).add(row["entity"])
    return pairs


def _describe_pair(listed: _ListedFacts, pair: _Pair, names: set[str]) -> str:
    differing = len(names)
    masks = [_find_facts(listed, listing) for listing in (pair.first, pair.other)]
    both = _repeats(listed.partition, masks[0]) & _repeats(listed.partition, masks[1])
    # With the lines of the topics themselves.
    relevant = both | (~is_valid(listed.partition) & _repeats(listed.topic, both))
    source, other_source = pair.first.source, pair.other.source
    total = len(listed.partition.filter(pa.array(both)).unique())
    if pair.is_mixed and source == other_source and total == 1 and not (masks[1] & relevant & ~both).any():
        first, other = (_find_lines(listed, mask & both) for mask in masks)
        if first != other:  # one row of a listing is repeated
            return f"{source} lines {first.numbers} and {other.numbers} show {min(names)} differently: keep one of them"
    first, other = (_find_lines(listed, mask & relevant) for mask in masks)
    if not pair.is_mixed:
        return _describe_declared(pair, first, other, differing)
    place = f"{source} {first} and {other_source} {other}"
    if source == other_source:
        place = f"{source} lines {first.numbers} and {other.numbers}"
    if pair.first == pair.other:
        place = f"two parts of {source} {first}"
    count = f"{differing} of {count_of(total, 'partition')} {'differs' if differing == 1 else 'differ'}"
    formats = listed.format.filter(pa.array((masks[0] | masks[1]) & both)).unique().to_pylist()
    if set(formats) <= set(DECLARED_FORMATS):
        return f"{place} declare different replicas for the same partitions ({count}): keep one of them"
    return f"{place} show the same partitions at different moments ({count}): keep one of them"


def _describe_declared(pair: _Pair, used: _Lines, declared: _Lines, differing: int) -> str:
    """Describe an assignment that differs from a listing of the cluster."""
    source = pair.first.source
    better, shows, is_used = source, "shows", "is used"
    if source == pair.other.source:
        better, shows, is_used = str(used), used.choose("shows", "show"), used.choose("is used", "are used")
    declares = f"{pair.other.source} {declared} {declared.choose('declares', 'declare')}"
    return f"{declares} other replicas for {count_of(differing, 'partition')} than {better} {shows}: {better} {is_used}"


def _find_facts(listed: _ListedFacts, listing: _Listing) -> _Mask:
    mask: _Mask = to_flags(pc.equal(listed.source, listing.source))
    if listing.format is not None:
        mask &= to_flags(pc.equal(listed.format, listing.format)) & (listed.repetition == listing.repetition)
    return mask


def _repeats(values: pa.Array, chosen: _Mask) -> _Mask:
    """Return whether each value, if not null, is among the chosen ones."""
    repeats: _Mask = is_valid(values) & to_flags(pc.is_in(values, values.filter(pa.array(chosen)).unique()))
    return repeats


def _find_lines(listed: _ListedFacts, mask: _Mask) -> _Lines:
    lines = listed.line[mask]
    return _Lines(int(lines.min()), int(lines.max()))
