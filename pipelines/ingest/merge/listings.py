"""What listings lack because their commands fail or select partitions, and listings that differ."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.metadata_quorum import VOTER_LAGS
from pipelines.ingest.formats.partition_filters import AT_MIN_ISR, NO_OTHERS, UNDER_MIN_ISR
from pipelines.ingest.formats.shell_commands import (
    BROKER,
    Servers,
    are_of_two_clusters,
    describe_two_clusters,
    names_a_cluster,
)
from pipelines.ingest.merge.entities import BOTH_QUARANTINED, WARNINGS
from pipelines.ingest.merge.kraft_merge import compare_voters
from pipelines.ingest.merge.shard_facts import KRAFT_LOG, ShardFacts
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.text import MENTIONS
from udfs.arrow.columns import is_valid, select_rows, to_array, to_codes, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import is_in_segment, row_of
from udfs.wording import count_of, join_names

_NAMED = 6  # brokers in a sentence


def find_selected(shard: ShardFacts, source: pa.ChunkedArray, line: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which lines (n) of files are below a command that shows only some of the cluster's partitions.

    The nearest command above a line counts, so a complete listing beside a filtered one stays complete.
    """
    selected = np.zeros(len(source), dtype=np.bool_)
    for own, rows, at in _find_nearest_commands(shard, source, line):
        is_selection = to_flags(own["is_selection"])
        selected[rows] = is_selection[np.maximum(at, 0)] & ((at >= 0) | is_selection.all())
    return selected


def _find_nearest_commands(
    shard: ShardFacts, source: pa.ChunkedArray, line: pa.ChunkedArray
) -> Iterator[tuple[pa.Table, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yield for each file with commands (these, by line; the rows of its lines; the nearest command above each or -1).

    source, line: of n facts.
    """
    is_command = pc.is_valid(shard.facts["is_selection"])
    commands = select_rows(shard.facts, is_command).sort_by("line_number")
    codes, names = to_codes(source)
    number = to_numpy(line).astype(np.int64)
    for code, name in enumerate(names.to_pylist()):
        own = commands.filter(pc.equal(commands["source"], name))
        if own.num_rows:
            rows = np.flatnonzero(codes == code)
            yield own, rows, np.searchsorted(own["line_number"].to_numpy(), number[rows], side="right") - 1


def find_min_isr(shard: ShardFacts) -> dict[str, tuple[int, bool]]:
    """Return {topic: (min.insync.replicas, whether it is exact or only the least possible)}, as ISRs show it.

    They do below the commands that select the partitions whose ISR is as small as that, or smaller. A topic without
    one value is left out.
    """
    if shard.facts["selection"].null_count == shard.facts.num_rows:
        return {}
    sizes: dict[str, dict[str, set[int]]] = {AT_MIN_ISR: {}, UNDER_MIN_ISR: {}}  # option -> topic -> sizes of ISRs
    facts, headers = shard.select(FactKind.PARTITION), shard.select(FactKind.TOPIC)
    header_lines: dict[tuple[str, str], list[int]] = {}  # of the topics of each file
    for row in headers.select(["source", "topic", "line_number"]).to_pylist():
        header_lines.setdefault((row["source"], row["topic"]), []).append(row["line_number"])
    for own, rows, at in _find_nearest_commands(shard, facts["source"], facts["line_number"]):
        is_chosen = (at >= 0) & is_valid(own["selection"])[np.maximum(at, 0)] & is_valid(facts["isr"])[rows]
        listed = facts.select(["source", "topic", "line_number", "isr"]).take(pa.array(rows[is_chosen]))
        nearest = own.select(["line_number", "selection"]).take(pa.array(at[is_chosen]))
        for row, command in zip(listed.to_pylist(), nearest.to_pylist(), strict=True):
            lines = header_lines.get((row["source"], row["topic"]), ())
            # Kafka prints no line of a topic when it selects partitions: below one, they are of another listing.
            if not any(command["line_number"] < line < row["line_number"] for line in lines):
                sizes[command["selection"]].setdefault(row["topic"], set()).add(len(row["isr"]))
    least = {topic: (max(lengths) + 1, False) for topic, lengths in sizes[UNDER_MIN_ISR].items()}
    least |= {topic: (min(lengths), True) for topic, lengths in sizes[AT_MIN_ISR].items()}
    return {topic: value for topic, value in least.items() if len(sizes[AT_MIN_ISR].get(topic, ())) <= 1}


def build_warnings(shard: ShardFacts) -> pa.Table:
    """Return the warnings (schema WARNINGS) of the records of which this shard is the home.

    A command that shows only some partitions needs no warning if another one shows all of them, or if it has printed
    none below a listing.
    """
    has_text = pc.or_(pc.is_valid(shard.facts["warning"]), pc.is_valid(shard.facts["host"]))
    facts = select_rows(shard.facts, pc.and_(shard.facts["home"], has_text))
    is_selection = shard.facts["is_selection"]
    shows_all = bool((is_valid(is_selection) & ~to_flags(is_selection)).any())
    is_below = _is_below_listings(shard, facts)
    # A selection of partitions below all listings has printed nothing, unless it failed.
    has_failed = to_flags(pc.match_substring(pc.fill_null(facts["warning"], ""), "failed"))
    is_needless = to_flags(facts["is_selection"]) & (shows_all | (is_below & ~has_failed))
    is_needless |= to_flags(facts["until_listing"]) & ~is_below
    if is_valid(shard.select(FactKind.QUORUM)["log_end_offset"]).any():  # which voters lag is shown
        is_needless |= to_flags(pc.equal(facts["warning"], VOTER_LAGS))
    is_shown = is_valid(facts["warning"]) & ~is_needless
    warned = facts.filter(pa.array(is_shown)).select(WARNINGS.names).to_pylist()
    rows = [*_keep_first(warned), *_compare_servers(facts), *_find_offline_in_sync(shard), *compare_voters(shard)]
    warnings: dict[tuple[str, int], dict[str, Any]] = {}  # one per record
    for row in rows:
        known = warnings.setdefault((row["source"], row["record_number"]), row)
        if row["warning"] not in known["warning"]:
            known["warning"] += f"; {row['warning']}"
    return pa.Table.from_pylist(list(warnings.values()), WARNINGS)


def _keep_first(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield of the warnings of a file that say the same the first one: logs have thousands of lines.

    That topics are missing is said by a command and by the header of its output, so it is not counted.
    """
    groups: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    for row in rows:
        is_counted, says_others = row["warning"] in MENTIONS, row["warning"].endswith(NO_OTHERS)
        what = row["warning"] if is_counted else NO_OTHERS if says_others else len(groups)
        groups.setdefault((row["source"], what), []).append(row)
    for (_, what), same in groups.items():
        first = min(same, key=lambda row: int(row["line_number"]))
        more = f" (and {len(same) - 1} more)" if len(same) > 1 and what in MENTIONS else ""
        yield first | {"warning": f"{first['warning']}{more}"}


def _is_below_listings(shard: ShardFacts, facts: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which facts (n) stand below all lines of their file that list partitions with their state."""
    listed = shard.select(FactKind.PARTITION)
    listed = listed.filter(pc.is_valid(listed["leader"])).select(["source", "line_number"])
    last = listed.group_by("source").aggregate([("line_number", "max")])
    lines = dict(zip(last["source"].to_pylist(), last["line_number_max"].to_pylist(), strict=True))
    if not lines or not facts.num_rows:
        return np.zeros(facts.num_rows, dtype=np.bool_)
    codes, sources = to_codes(facts["source"])
    none = np.iinfo(np.int64).max
    last_line = np.array([lines.get(source, none) for source in sources.to_pylist()], dtype=np.int64)
    return to_numpy(facts["line_number"]).astype(np.int64) > last_line[codes]


def _find_offline_in_sync(shard: ShardFacts) -> list[dict[str, Any]]:
    """Return a warning (row of WARNINGS) for each file that lists replicas as in sync and as offline."""
    facts = shard.select(FactKind.PARTITION)
    # Without a leader, the ISR keeps the broker that was the last in sync.
    has_leader = pc.greater_equal(facts["leader"], 0)
    facts = facts.filter(pc.and_(has_leader, pc.greater(pc.list_value_length(facts["offline_replicas"]), 0)))
    isr, offline = to_lists(facts["isr"]), to_lists(facts["offline_replicas"])
    is_both = is_in_segment(isr.values, isr.offsets, offline.values, offline.offsets)
    files: dict[str, list[dict[str, Any]]] = {}
    for fact in facts.take(pa.array(np.unique(row_of(isr.offsets)[is_both]))).to_pylist():
        files.setdefault(fact["source"], []).append(fact)
    warnings = []
    for rows in files.values():
        brokers = sorted({broker for row in rows for broker in row["isr"] if broker in row["offline_replicas"]})
        counted = f"{count_of(len(rows), 'partition')} {'lists' if len(rows) == 1 else 'list'}"
        sentence = (
            f"{counted} {'broker' if len(brokers) == 1 else 'brokers'} {join_names(brokers, _NAMED)} as in sync and as "
            "offline: one of the two is out of date, run the command again"
        )
        warnings.append({name: rows[0][name] for name in WARNINGS.names[:-1]} | {"warning": sentence})
    return warnings


def _compare_servers(facts: pa.Table) -> list[dict[str, Any]]:
    """Return the warnings (rows of WARNINGS) that the commands of two files ask two clusters."""
    commands = facts.filter(pc.and_(pc.equal(facts["format"], "shell"), pc.is_valid(facts["host"])))
    first: dict[str, dict[str, Any]] = {}  # the first command of each file
    for row in commands.select([*WARNINGS.names, "host"]).to_pylist():
        if names_a_cluster(Servers(BROKER, row["host"])):
            first.setdefault(row["source"], row)
    warnings = []
    for number, row in enumerate(first.values()):
        for other in list(first.values())[:number]:
            if are_of_two_clusters(Servers(BROKER, other["host"]), Servers(BROKER, row["host"])):
                place = f"{other['source']} line {other['line_number']}"
                sentence = describe_two_clusters(row["host"], place, other["host"])
                warnings.append({name: row[name] for name in WARNINGS.names} | {"warning": sentence})
                break
    return warnings


# Says which listings of a source cannot be read together, with their lines, and what to do about it.
# They show the same partitions differently, or they are of two clusters: the same topic has two ids, or the same broker
# two hosts.
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
