"""Finds partitions that were listed by a command that shows only some of them, and warns of what an answer may lack."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.bootstrap_servers import BROKER, Servers, are_of_two_clusters, names_a_cluster
from pipelines.ingest.formats.metadata_quorum import VOTER_LAGS
from pipelines.ingest.formats.partition_filters import AT_MIN_ISR, NO_OTHERS, UNDER_MIN_ISR
from pipelines.ingest.formats.shell_commands import describe_two_clusters
from pipelines.ingest.merge.entities import WARNINGS
from pipelines.ingest.merge.quorum_merge import compare_voters
from pipelines.ingest.merge.shard_facts import ShardFacts
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.unread_lines import MENTIONS
from udfs.arrow.columns import is_valid, select_rows, to_codes, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import is_in_segment, row_of
from udfs.plurals import count_of, join_names

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
