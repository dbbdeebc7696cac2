"""A source of a replay as one snapshot: how its cluster stands, what tells which cluster it is, what it lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.describe import FORMAT as DESCRIBE
from pipelines.ingest.formats.kraft_log import FORMAT as KRAFT_LOG
from pipelines.ingest.records import PARTITION, TOPIC
from pipelines.ingest.snapshot import Framed, Snapshot, facts_of, snapshot_of
from pipelines.ingest.sources import Source
from pipelines.simulation.initial_state import ZOOKEEPER, begin_of, cluster_epoch
from pipelines.simulation.metadata_log import LogEnd, read_until
from udfs.simulation.cluster_events import Begin

FILTERED = "shows some partitions alone (--under-replicated-partitions and the like)"
_CLUSTER = re.compile(r'/cluster/id\b.*?\\?"id\\?"\s*:\s*\\?"([^"\\]+)')


@dataclass(frozen=True)
class Shown:
    """path: of the source, as it was named.   cluster: the id that ZooKeeper has of it, None = no source says.

    controller_epoch: what it is then, 0 = no source says; begin has what it is at least.   gaps: whether parts of its
    logs are missing, so that it may show what was long before.   filtered: describes that do not show all partitions.
    warnings: what of the source is not in it.
    """

    path: str
    begin: Begin
    snapshot: Snapshot
    cluster: str | None
    controller_epoch: int
    gaps: bool
    filtered: tuple[str, ...]
    warnings: tuple[str, ...]


def log_ends(files: Framed, offset: int | None = None, at_ms: int | None = None) -> dict[str, LogEnd]:
    """Of each log among the files, up to an offset or a time."""
    return {name: read_until(rows, offset, at_ms) for name, chosen, rows in files if chosen.name == KRAFT_LOG.name}


def shown(path: str, source: Source, files: Framed, ends: Mapping[str, LogEnd], min_isr: int, unclean: bool) -> Shown:
    """The source's snapshot. Errors: SourceError.   ends: of its logs.   min_isr, unclean: as of begin_of."""
    facts = facts_of(files)
    snapshot = snapshot_of(source, files, facts)
    begin, epoch = begin_of(snapshot, facts, min_isr, unclean), cluster_epoch(facts)
    for told in ends.values():
        epoch = max(epoch, told.controller_epoch)
        if told.controller is not None or told.controller_epoch > begin.controller_epoch:
            begin = replace(begin, controller=told.controller, controller_epoch=told.controller_epoch)
    filtered = _filtered(facts)
    warnings = (
        *missing(source, ends),
        *quarantined(source, snapshot),
        *(f"{source.cluster_id}: {name} {FILTERED}: other partitions are not in the replay" for name in filtered),
    )
    gaps = any(told.gaps for told in ends.values())
    return Shown(path, begin, snapshot, _cluster(files), epoch, gaps, filtered, warnings)


def _filtered(facts: pa.Table) -> tuple[str, ...]:
    """Describes with partitions, and no topic's own line: kafka-topics leaves these out where it shows some alone."""
    described = facts.filter(pc.equal(facts["format"], DESCRIBE.name))
    with_lines, with_partitions = (
        set(described.filter(pc.equal(described["kind"], kind))["source"].to_pylist()) for kind in (TOPIC, PARTITION)
    )
    return tuple(sorted(with_partitions - with_lines))


def _cluster(files: Framed) -> str | None:
    """The id in the znode /cluster/id, if a file has it."""
    for _, chosen, records in files:
        if chosen.name in ZOOKEEPER:
            for _, _, context, raw in records:
                if found := _CLUSTER.search(f"{context or ''} {raw}"):
                    return found[1]
    return None


def missing(source: Source, ends: Mapping[str, LogEnd]) -> tuple[str, ...]:
    """What is missing of logs."""
    out = []
    first = min((told.first for told in ends.values()), default=0)
    if first > 0:
        problem = f"its log begins at offset {first}: what was before is not replayed"
        remedy = "Put the log's snapshot before it (a .checkpoint, dumped) into the same folder"
        out.append(f"{source.cluster_id}: {problem}. {remedy}")
    for name, told in ends.items():
        if told.gaps:
            lost = sum(last - first + 1 for first, last in told.gaps)
            at = ", ".join(f"{first}-{last}" for first, last in told.gaps[:3])
            out.append(f"{source.cluster_id}: {name} lacks {lost} offsets ({at}): what they told is not replayed")
    return tuple(out)


def quarantined(source: Source, snapshot: Snapshot) -> tuple[str, ...]:
    """What could not be read of a snapshot."""
    rows = snapshot.quarantined
    if not rows:
        return ()
    one = rows[0]
    where = f"{one['source']}, line {one['line_number']}: {'; '.join(map(str, one['reasons']))}"
    return (f"{source.cluster_id}: {len(rows)} records are quarantined and not replayed, see inspect. {where}",)
