"""A snapshot of a source as the begin of a replay."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SourceError
from pipelines.ingest.formats.kraft_log import FORMAT as KRAFT_LOG
from pipelines.ingest.formats.zookeeper_cli import FORMAT as ZOOKEEPER_CLI
from pipelines.ingest.formats.zookeeper_json import FORMAT as ZOOKEEPER_JSON
from pipelines.ingest.records import IGNORED, PARTITION
from pipelines.ingest.snapshot import Snapshot
from pipelines.simulation.log_ends import log_ends
from udfs.arrow.columns import codes, numbers, whole
from udfs.simulation.cluster_events import Begin, Held, Rules

ZOOKEEPER = (ZOOKEEPER_JSON.name, ZOOKEEPER_CLI.name)  # formats


def begin_of(snapshot: Snapshot, facts: pa.Table, min_isr: int, unclean: bool) -> Begin:
    """The begin. SourceError where no source shows replicas.

    facts: those that the snapshot was made of (schema SOURCED_FACTS).   min_isr, unclean: of topics whose source shows
    none.
    """
    partitions = snapshot.partitions.filter(pc.is_valid(snapshot.partitions["replicas"])).combine_chunks()
    if not partitions.num_rows:
        remedy = "Add a kafka-topics --describe of the cluster, or a dump of its ZooKeeper."
        raise SourceError(snapshot.cluster_id, "its sources show no replicas", remedy)
    brokers = snapshot.brokers
    epochs = _epochs(facts, partitions)
    formats = set(snapshot.formats.values())
    quorum = not formats & set(ZOOKEEPER)  # a describe may show ELRs that ZooKeeper's controller does not keep
    elr = quorum and partitions["elr"].null_count < partitions.num_rows
    controllers = brokers.filter(brokers["controller"])["broker_id"].to_pylist()
    return Begin(
        tuple(sorted(brokers["broker_id"].to_pylist())),
        frozenset(brokers.filter(brokers["live"])["broker_id"].to_pylist()),
        tuple(_held(partitions, epochs, _of_topics(snapshot.topics, min_isr, unclean))),
        controllers[0] if controllers else None,
        max(cluster_epoch(facts), int(epochs.max())),
        Rules(elr or (quorum and KRAFT_LOG.name in formats), elr),
    )


def _held(partitions: pa.Table, epochs: np.ndarray, topics: dict[str, tuple[bool, int]]) -> Iterator[Held]:
    """The partitions (schema SETTLED, all with replicas). epochs: int64, of the controllers that wrote them."""
    leader = partitions["leader"]
    leos, hws = log_ends(partitions)
    columns = (
        zip(partitions["topic"].to_pylist(), partitions["partition"].to_pylist(), strict=True),
        _tuples(partitions["replicas"]),
        _tuples(partitions["isr"]),
        pc.if_else(pc.greater_equal(leader, 0), leader, pa.scalar(None, leader.type)).to_pylist(),
        numbers(partitions["leader_epoch"]).tolist(),
        epochs.tolist(),
        _tuples(partitions["elr"]),
        *zip(*map(topics.__getitem__, partitions["topic"].to_pylist()), strict=True),
        leos,
        hws,
    )
    return starmap(Held, zip(*columns, strict=True))


def _tuples(column: pa.ChunkedArray) -> list[tuple[int, ...]]:
    return [tuple(ids or ()) for ids in column.to_pylist()]


def _of_topics(topics: pa.Table, min_isr: int, unclean: bool) -> dict[str, Any]:
    """{topic: (whether its elections may be unclean, its min.insync.replicas)}."""
    allowed = pc.fill_null(topics["unclean_leader_election"], unclean).to_pylist()
    least = pc.fill_null(topics["min_insync_replicas"], min_isr).to_pylist()
    return dict(zip(topics["topic"].to_pylist(), zip(allowed, least, strict=True), strict=True))


def _epochs(facts: pa.Table, partitions: pa.Table) -> np.ndarray:
    """Of each partition, the epoch of the controller that wrote it (int64); 0 where no source shows it."""
    told = facts.filter(pc.and_(pc.equal(facts["kind"], PARTITION), pc.is_valid(facts["controller_epoch"])))
    out = np.zeros(partitions.num_rows, dtype=np.int64)
    topic, _ = codes(pa.chunked_array([whole(partitions["topic"]), whole(told["topic"])]))
    number = np.r_[numbers(partitions["partition"]), numbers(told["partition"])].astype(np.int64)
    key = (topic << np.int64(32)) | number
    mine, theirs = key[: len(out)], key[len(out) :]
    order = np.argsort(mine, kind="stable")
    at = np.minimum(np.searchsorted(mine[order], theirs), len(out) - 1)
    found = mine[order][at] == theirs
    np.maximum.at(out, order[at[found]], numbers(told["controller_epoch"])[found])
    return out


def cluster_epoch(facts: pa.Table) -> int:
    """The epoch that the cluster's controller has; 0 where no source shows it."""
    told = facts.filter(pc.and_(pc.equal(facts["kind"], IGNORED), pc.is_valid(facts["controller_epoch"])))
    return pc.max(told["controller_epoch"]).as_py() or 0
