"""Faults of single partitions that no Kafka cluster can have: what puts a row into quarantine, and why."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipelines.ingest.topic_names import bad_topic_name
from udfs.arrow.columns import Lists, codes, numbers, valid
from udfs.arrow.ragged import contained, has_repeat, row_of


def partition_faults(partitions: pa.Table, listed_brokers: np.ndarray | None) -> dict[int, list[str]]:
    """{row: every reason} for the rows of `partitions` (schema PARTITIONS, or its first fields) that are faulty.

    listed_brokers: int32 ids of a list that names every broker of the cluster, or None where there is no such list.
    """
    reasons: dict[int, list[str]] = {}

    def add(rows: np.ndarray, text: str, values: np.ndarray | None = None) -> None:
        for at, row in enumerate(rows.tolist()):
            reasons.setdefault(row, []).append(text if values is None else text.format(values[at]))

    topic_of, names = codes(partitions["topic"])
    for code, name in enumerate(names.to_pylist()):
        bad = bad_topic_name(name)
        if bad:
            add(np.flatnonzero(topic_of == code), bad)
    negative = numbers(partitions["partition"]) < 0
    add(np.flatnonzero(negative), "partition number {} is negative", numbers(partitions["partition"])[negative])

    replicas, isr = Lists.of(partitions["replicas"]), Lists.of(partitions["isr"])
    add(np.flatnonzero(has_repeat(replicas.flat, replicas.offsets)), "a replica is repeated")
    add(np.flatnonzero(replicas.valid & (np.diff(replicas.offsets) == 0)), "no replicas")

    leader = numbers(partitions["leader"], -1).astype(np.int32)
    leads = replicas.flat == leader[row_of(replicas.offsets)]
    has_its_leader = np.zeros(len(leader), dtype=np.bool_)
    has_its_leader[row_of(replicas.offsets)[leads]] = True
    outside = replicas.valid & valid(partitions["leader"]) & (leader != -1) & ~has_its_leader
    add(np.flatnonzero(outside), "leader {} is not among its replicas", leader[outside])

    known = replicas.valid[row_of(isr.offsets)]
    stray = known & ~contained(isr.flat, isr.offsets, replicas.flat, replicas.offsets)
    add(row_of(isr.offsets)[stray], "ISR member {} is not among its replicas", isr.flat[stray])
    add(np.flatnonzero(has_repeat(isr.flat, isr.offsets)), "an ISR member is repeated")

    if listed_brokers is not None:
        unknown = ~np.isin(replicas.flat, listed_brokers)
        add(row_of(replicas.offsets)[unknown], "replica {} is not in the cluster's broker list", replicas.flat[unknown])
        # Without replicas, leader and ISR are all that names brokers; with them, both are among them.
        unknown = ~replicas.valid & (leader != -1) & ~np.isin(leader, listed_brokers)
        add(np.flatnonzero(unknown), "leader {} is not in the cluster's broker list", leader[unknown])
        unknown = ~known & ~np.isin(isr.flat, listed_brokers)
        add(row_of(isr.offsets)[unknown], "ISR member {} is not in the cluster's broker list", isr.flat[unknown])
    return reasons
