"""A source of a replay as a snapshot: its state, its cluster's id, and what it lacks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.fact_tables import FactKind
from pipelines.ingest.formats.describe import FORMAT as DESCRIBE
from pipelines.ingest.formats.kraft_log import FORMAT as KRAFT_LOG
from pipelines.ingest.snapshot import FileRecords, Snapshot, build_snapshot, parse_facts
from pipelines.ingest.sources import Source
from pipelines.simulation.initial_state import ZOOKEEPER_FORMATS, get_controller_epoch, read_initial_state
from pipelines.simulation.metadata_log import LogEnd, cut_log
from udfs.simulation.cluster_events import InitialState

FILTERED = "shows only some partitions (--under-replicated-partitions or a similar filter)"
_CLUSTER_ID = re.compile(r'/cluster/id\b.*?\\?"id\\?"\s*:\s*\\?"([^"\\]+)')


@dataclass(frozen=True)
class SourceSnapshot:
    """A source as a snapshot."""

    path: str  # The source, as it was named
    state: InitialState  # State of the cluster
    snapshot: Snapshot  # The snapshot
    cluster: str | None  # The cluster's id in ZooKeeper; None = no source shows it
    controller_epoch: int  # Epoch of the controller; 0 = no source shows it (`state` has the lowest possible one)
    has_gaps: bool  # Whether parts of its logs are missing, so that it may show an older state
    filtered: tuple[str, ...]  # Describes that do not show all partitions
    warnings: tuple[str, ...]  # What of the source is not in it


def read_log_ends(files: list[FileRecords], offset: int | None = None, at_ms: int | None = None) -> dict[str, LogEnd]:
    """Return the end of each metadata log among the files, cut after an offset or a time."""
    return {name: cut_log(rows, offset, at_ms) for name, chosen, rows in files if chosen.name == KRAFT_LOG.name}


def read_source_snapshot(
    path: str, source: Source, files: list[FileRecords], ends: Mapping[str, LogEnd], min_isr: int, unclean: bool
) -> SourceSnapshot:
    """Read a source as a snapshot. ends: of its logs; min_isr, unclean: as for `read_initial_state`."""
    facts = parse_facts(files)
    snapshot = build_snapshot(source, files, facts)
    state, epoch = read_initial_state(snapshot, facts, min_isr, unclean), get_controller_epoch(facts)
    for end in ends.values():
        epoch = max(epoch, end.controller_epoch)
        if end.controller is not None or end.controller_epoch > state.controller_epoch:
            state = replace(state, controller=end.controller, controller_epoch=end.controller_epoch)
    filtered = _find_filtered(facts)
    warnings = (
        *warn_of_gaps(source, ends),
        *warn_of_quarantined(source, snapshot),
        *(f"{source.cluster_id}: {name} {FILTERED}: the replay lacks the other partitions" for name in filtered),
    )
    has_gaps = any(end.gaps for end in ends.values())
    return SourceSnapshot(path, state, snapshot, _find_cluster_id(files), epoch, has_gaps, filtered, warnings)


def _find_filtered(facts: pa.Table) -> tuple[str, ...]:
    """Find describes with partitions, but without lines of topics: kafka-topics omits these when it filters."""
    described = facts.filter(pc.equal(facts["format"], DESCRIBE.name))
    with_topics, with_partitions = (
        set(described.filter(pc.equal(described["kind"], kind))["source"].to_pylist())
        for kind in (FactKind.TOPIC, FactKind.PARTITION)
    )
    return tuple(sorted(with_partitions - with_topics))


def _find_cluster_id(files: list[FileRecords]) -> str | None:
    """Find the id in the znode /cluster/id."""
    for _, chosen, records in files:
        if chosen.name in ZOOKEEPER_FORMATS:
            for _, _, context, raw in records:
                if match := _CLUSTER_ID.search(f"{context or ''} {raw}"):
                    return match[1]
    return None


def warn_of_gaps(source: Source, ends: Mapping[str, LogEnd]) -> tuple[str, ...]:
    """Return a warning for each part that is missing of the source's logs."""
    warnings = []
    first = min((end.first for end in ends.values()), default=0)
    if first > 0:
        problem = f"its log begins at offset {first}: what happened before is not replayed"
        remedy = "Add the log's snapshot (a .checkpoint file, dumped) to the same folder"
        warnings.append(f"{source.cluster_id}: {problem}. {remedy}")
    for name, end in ends.items():
        if end.gaps:
            count = sum(last - first + 1 for first, last in end.gaps)
            where = ", ".join(f"{first}-{last}" for first, last in end.gaps[:3])
            missing = "1 offset" if count == 1 else f"{count:,} offsets"
            warnings.append(f"{source.cluster_id}: {name} lacks {missing} ({where}): their records are not replayed")
    return tuple(warnings)


def warn_of_quarantined(source: Source, snapshot: Snapshot) -> tuple[str, ...]:
    """Return a warning if records of a snapshot could not be read."""
    rows = snapshot.quarantined
    if not rows:
        return ()
    row, count = rows[0], "1 record is" if len(rows) == 1 else f"{len(rows):,} records are"
    where = f"{row['source']}, line {row['line_number']}: {'; '.join(map(str, row['reasons']))}"
    return (f"{source.cluster_id}: {count} quarantined and not replayed, see inspect. First: {where}",)
