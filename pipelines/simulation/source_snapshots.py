"""The initial state of a replay from a snapshot of a source."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.describe import FORMAT as DESCRIBE
from pipelines.ingest.formats.kraft_log import FORMAT as KRAFT_LOG
from pipelines.ingest.merge.kraft_merge import find_voters
from pipelines.ingest.merge.live_brokers import get_live_brokers, get_releases
from pipelines.ingest.snapshot_reader import ZOOKEEPER_FORMATS, FileRecords, Snapshot, build_snapshot, parse_facts
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.sources import Source
from pipelines.simulation.metadata_log_reader import LogEnd, cut_log
from udfs.arrow.columns import is_valid, to_array, to_codes, to_lists, to_numpy
from udfs.arrow.ragged import any_true, row_of
from udfs.failures.topic_defaults import TopicDefaults
from udfs.simulation.cluster_events import ClusterSettings, InitialPartition, InitialState

Ints = npt.NDArray[np.int64]
Offsets = tuple[int | None, ...]
_UNKNOWN = -1


def read_initial_state(snapshot: Snapshot, facts: pa.Table, defaults: TopicDefaults) -> InitialState:
    """Return a snapshot, made of these facts, as an initial state; raise SourceError if no source shows replicas."""
    partitions = snapshot.partitions.filter(pc.is_valid(snapshot.partitions["replicas"])).combine_chunks()
    if not partitions.num_rows:
        remedy = "Add the output of kafka-topics --describe, or a dump of the cluster's ZooKeeper."
        raise snapshot.explain_no_replicas(remedy)
    brokers = snapshot.brokers
    epochs = _read_controller_epochs(facts, partitions)
    formats = snapshot.format_names
    # A describe may show ELRs, which a controller with ZooKeeper does not keep.
    has_quorum = not formats & set(ZOOKEEPER_FORMATS)
    elr = has_quorum and partitions["elr"].null_count < partitions.num_rows
    controllers = brokers.filter(brokers["controller"])["broker_id"].to_pylist()
    return InitialState(
        tuple(sorted(brokers["broker_id"].to_pylist())),
        frozenset(get_live_brokers(brokers).tolist()),
        tuple(_read_partitions(partitions, epochs, _read_topic_settings(snapshot.topics, defaults))),
        controllers[0] if controllers else None,
        max(get_controller_epoch(facts), int(epochs.max())),
        ClusterSettings(
            elr or (has_quorum and KRAFT_LOG.name in formats),
            elr,
            completes_with_added=defaults.adapt_to(get_releases(brokers)).completes_with_added,
        ),
        frozenset(snapshot.stops.shut_down),
        find_voters(snapshot.quorum, brokers),
    )


def get_controller_epoch(facts: pa.Table) -> int:
    """Return the epoch of the cluster's controller; 0 = no source shows it."""
    with_epoch = _filter_with_epoch(facts, FactKind.IGNORED)
    return pc.max(with_epoch["controller_epoch"]).as_py() or 0


def _filter_with_epoch(facts: pa.Table, kind: str) -> pa.Table:
    return facts.filter(pc.and_(pc.equal(facts["kind"], kind), pc.is_valid(facts["controller_epoch"])))


def _read_partitions(
    partitions: pa.Table, epochs: Ints, topics: dict[str, tuple[bool, int]]
) -> Iterator[InitialPartition]:
    """Yield the partitions (schema SETTLED, all with replicas). epochs: of the controllers that wrote them."""
    leader = partitions["leader"]
    leos, hws = _derive_offsets(partitions)
    columns = (
        zip(partitions["topic"].to_pylist(), partitions["partition"].to_pylist(), strict=True),
        _read_tuples(partitions["replicas"]),
        _read_tuples(partitions["isr"]),
        pc.if_else(pc.greater_equal(leader, 0), leader, pa.scalar(None, leader.type)).to_pylist(),
        to_numpy(partitions["leader_epoch"]).tolist(),
        epochs.tolist(),
        _read_tuples(partitions["elr"]),
        *zip(*map(topics.__getitem__, partitions["topic"].to_pylist()), strict=True),
        leos,
        hws,
        *(_read_tuples(partitions[name]) for name in ("last_known_elr", "adding_replicas", "removing_replicas")),
    )
    return starmap(InitialPartition, zip(*columns, strict=True))


def _read_tuples(column: pa.ChunkedArray) -> list[tuple[int, ...]]:
    return [tuple(ids or ()) for ids in column.to_pylist()]


def _read_topic_settings(topics: pa.Table, defaults: TopicDefaults) -> dict[str, Any]:
    """Return {topic: (whether it allows unclean elections, its min.insync.replicas)}."""
    allowed = pc.fill_null(topics["unclean_leader_election"], defaults.unclean_leader_election).to_pylist()
    least = pc.fill_null(topics["min_insync_replicas"], defaults.min_insync_replicas).to_pylist()
    return dict(zip(topics["topic"].to_pylist(), zip(allowed, least, strict=True), strict=True))


def _read_controller_epochs(facts: pa.Table, partitions: pa.Table) -> Ints:
    """Return the epoch of the controller that wrote each partition (int64); 0 = no source shows it."""
    with_epoch = _filter_with_epoch(facts, FactKind.PARTITION)
    out = np.zeros(partitions.num_rows, dtype=np.int64)
    topic, _ = to_codes(pa.chunked_array([to_array(partitions["topic"]), to_array(with_epoch["topic"])]))
    number = np.r_[to_numpy(partitions["partition"]), to_numpy(with_epoch["partition"])].astype(np.int64)
    key = (topic << np.int64(32)) | number
    own_key, fact_key = key[: len(out)], key[len(out) :]
    order = np.argsort(own_key, kind="stable")
    at = np.minimum(np.searchsorted(own_key[order], fact_key), len(out) - 1)
    is_known = own_key[order][at] == fact_key
    np.maximum.at(out, order[at[is_known]], to_numpy(with_epoch["controller_epoch"])[is_known])
    return out


def _derive_offsets(partitions: pa.Table) -> tuple[list[Offsets], list[Offsets]]:
    """Return (log end offsets, high watermarks) of each partition's replicas; () = nothing is known of any."""
    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])
    row = row_of(replicas.offsets)
    names = ("log_end_offset", "high_watermark", "offset_lag")
    end, hw, lag = (_read_log_field(partitions["logs"], row, name) for name in names)
    is_leader = replicas.values == to_numpy(partitions["leader"], -1)[row]
    isr_key = (row_of(isr.offsets) << np.int64(32)) | isr.values.astype(np.int64)
    in_sync = is_leader | np.isin((row << np.int64(32)) | replicas.values.astype(np.int64), isr_key)
    # Sources that show log ends ask as a consumer does: the leader answers with its high watermark.
    hw = np.where(is_leader, np.maximum(end, hw), hw)
    # The leader's log holds at least what any member of the ISR has seen committed.
    leader_end = np.full(partitions.num_rows, _UNKNOWN, dtype=np.int64)
    np.maximum.at(leader_end, row[in_sync], hw[in_sync])
    np.maximum.at(leader_end, row[is_leader], end[is_leader])
    is_led = np.zeros(partitions.num_rows, dtype=np.bool_)
    is_led[row[is_leader]] = True
    leader_end = np.where(is_led, leader_end, _UNKNOWN)[row]
    behind = np.where(hw >= 0, np.maximum(hw - np.maximum(lag, 0), 0), _UNKNOWN)
    leo = np.where(in_sync & (leader_end >= 0), leader_end, np.maximum(end, behind))
    return _split_offsets(leo, replicas.offsets), _split_offsets(hw, replicas.offsets)


def _read_log_field(logs: pa.ChunkedArray, row: Ints, name: str) -> Ints:
    """Return a field of each replica's log; _UNKNOWN = no source shows it."""
    out = np.full(len(row), _UNKNOWN, dtype=np.int64)
    out[is_valid(logs)[row]] = to_numpy(pc.struct_field(to_array(logs).flatten(), name), _UNKNOWN)
    return out


def _split_offsets(flat: Ints, offsets: Ints) -> list[Offsets]:
    is_known = any_true(flat >= 0, offsets)
    if not is_known.any():
        return [()] * len(is_known)
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat, mask=flat < 0)).to_pylist()
    return [tuple(ends) if known else () for ends, known in zip(lists, is_known.tolist(), strict=True)]


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
    logs = ((file.name, file.find_part(KRAFT_LOG.name)) for file in files)
    return {name: cut_log(records, offset, at_ms) for name, records in logs if records is not None}


def read_source_snapshot(
    path: str, source: Source, files: list[FileRecords], ends: Mapping[str, LogEnd], defaults: TopicDefaults
) -> SourceSnapshot:
    """Read a source as a snapshot. ends: of its logs; defaults: of what no source shows."""
    facts = parse_facts(files)
    snapshot = build_snapshot(source, files, facts)
    state, epoch = read_initial_state(snapshot, facts, defaults), get_controller_epoch(facts)
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
    has_kind = (pc.equal(described["kind"], kind) for kind in (FactKind.TOPIC, FactKind.PARTITION))
    with_topics, with_partitions = (set(described.filter(rows)["source"].to_pylist()) for rows in has_kind)
    return tuple(sorted(with_partitions - with_topics))


def _find_cluster_id(files: list[FileRecords]) -> str | None:
    for form, records in (part for file in files for part in file.parts):
        if form.name in ZOOKEEPER_FORMATS:
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
    return (f"{source.cluster_id}: {count} quarantined and not replayed (run inspect for details). First: {where}",)
