"""The initial state of a replay from a snapshot of a source."""

from collections.abc import Iterator
from itertools import starmap
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.fact_tables import FactKind
from pipelines.ingest.formats.kraft_log import FORMAT as KRAFT_LOG
from pipelines.ingest.formats.zookeeper_cli import FORMAT as ZOOKEEPER_CLI
from pipelines.ingest.formats.zookeeper_json import FORMAT as ZOOKEEPER_JSON
from pipelines.ingest.snapshot import Snapshot
from udfs.arrow.columns import is_valid, to_array, to_codes, to_lists, to_numpy
from udfs.arrow.ragged import any_true, row_of
from udfs.simulation.cluster_events import ClusterSettings, InitialPartition, InitialState

Ints = npt.NDArray[np.int64]
Offsets = tuple[int | None, ...]
ZOOKEEPER_FORMATS = (ZOOKEEPER_JSON.name, ZOOKEEPER_CLI.name)
_UNKNOWN = -1


def read_initial_state(snapshot: Snapshot, facts: pa.Table, min_isr: int, unclean: bool) -> InitialState:
    """Return a snapshot as an initial state.

    Args:
        snapshot: The snapshot.
        facts: The facts that it was made of (schema SOURCED_FACTS).
        min_isr: min.insync.replicas of topics for which no source shows it.
        unclean: Whether these allow unclean elections.

    Raises:
        SourceError: No source shows replicas.
    """
    partitions = snapshot.partitions.filter(pc.is_valid(snapshot.partitions["replicas"])).combine_chunks()
    if not partitions.num_rows:
        remedy = "Add the output of kafka-topics --describe, or a dump of the cluster's ZooKeeper."
        raise SourceError(snapshot.cluster_id, "its sources show no replicas", remedy)
    brokers = snapshot.brokers
    epochs = _read_controller_epochs(facts, partitions)
    formats = set(snapshot.formats.values())
    # A describe may show ELRs, which a controller with ZooKeeper does not keep.
    has_quorum = not formats & set(ZOOKEEPER_FORMATS)
    elr = has_quorum and partitions["elr"].null_count < partitions.num_rows
    controllers = brokers.filter(brokers["controller"])["broker_id"].to_pylist()
    return InitialState(
        tuple(sorted(brokers["broker_id"].to_pylist())),
        frozenset(brokers.filter(brokers["live"])["broker_id"].to_pylist()),
        tuple(_read_partitions(partitions, epochs, _read_topic_settings(snapshot.topics, min_isr, unclean))),
        controllers[0] if controllers else None,
        max(get_controller_epoch(facts), int(epochs.max())),
        ClusterSettings(elr or (has_quorum and KRAFT_LOG.name in formats), elr),
    )


def get_controller_epoch(facts: pa.Table) -> int:
    """Return the epoch of the cluster's controller; 0 = no source shows it."""
    with_epoch = facts.filter(
        pc.and_(pc.equal(facts["kind"], FactKind.IGNORED), pc.is_valid(facts["controller_epoch"]))
    )
    return pc.max(with_epoch["controller_epoch"]).as_py() or 0


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
    )
    return starmap(InitialPartition, zip(*columns, strict=True))


def _read_tuples(column: pa.ChunkedArray) -> list[tuple[int, ...]]:
    return [tuple(ids or ()) for ids in column.to_pylist()]


def _read_topic_settings(topics: pa.Table, min_isr: int, unclean: bool) -> dict[str, Any]:
    """Return {topic: (whether it allows unclean elections, its min.insync.replicas)}."""
    allowed = pc.fill_null(topics["unclean_leader_election"], unclean).to_pylist()
    least = pc.fill_null(topics["min_insync_replicas"], min_isr).to_pylist()
    return dict(zip(topics["topic"].to_pylist(), zip(allowed, least, strict=True), strict=True))


def _read_controller_epochs(facts: pa.Table, partitions: pa.Table) -> Ints:
    """Return the epoch of the controller that wrote each partition (int64); 0 = no source shows it."""
    with_epoch = facts.filter(
        pc.and_(pc.equal(facts["kind"], FactKind.PARTITION), pc.is_valid(facts["controller_epoch"]))
    )
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


# ---- where the logs of replicas end


def _derive_offsets(partitions: pa.Table) -> tuple[list[Offsets], list[Offsets]]:
    """Return (log end offsets, high watermarks) of each partition's replicas; () = nothing is known of any."""
    replicas, isr = to_lists(partitions["replicas"]), to_lists(partitions["isr"])
    row = row_of(replicas.offsets)
    end, hw, lag = (
        _read_log_field(partitions["logs"], row, name) for name in ("log_end_offset", "high_watermark", "offset_lag")
    )
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
