"""A replay in words and plain values: its timeline, and how the cluster stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from udfs.kernels.replay_state import (
    ABSENT,
    AR,
    CONTROLLER_EPOCH,
    ISR,
    L_AT,
    L_CAUSE,
    L_CONTROLLER_EPOCH,
    L_EPOCH,
    L_EVENT,
    L_FROM,
    L_ISR,
    L_PARTITION,
    L_TO,
    NOBODY,
    S_AT,
    S_BROKER,
    S_CAUSE,
    S_CONTROLLER_EPOCH,
    S_EPOCH,
    S_EVENT,
    S_FROM,
    S_LEGAL,
    S_PARTITION,
    S_TO,
)
from udfs.replay.fold import Replayed
from udfs.replay.words import CAUSES, PARTITION_STATES, REPLICA_STATES


def state_of(replayed: Replayed) -> dict[str, Any]:
    """The cluster at the end: controller_epoch, brokers, partitions by name; None for no leader."""
    cluster, brokers = replayed.cluster, replayed.brokers
    partitions = []
    for row, (topic, number) in enumerate(replayed.packed.keys):
        if cluster.state[row] == ABSENT:
            continue
        leader = int(cluster.leader[row])
        partitions.append(
            {
                "topic": topic,
                "partition": number,
                "leader": None if leader == NOBODY else brokers[leader],
                "leader_epoch": int(cluster.leader_epoch[row]),
                "controller_epoch": int(cluster.written[row]),
                "replicas": list(replayed.held(row, AR)),
                "isr": list(replayed.held(row, ISR)),
                "state": PARTITION_STATES[cluster.state[row]],
            }
        )
    alive = cluster.alive.tolist()
    return {
        "controller_epoch": int(cluster.who[CONTROLLER_EPOCH]),
        "brokers": [{"broker_id": b, "alive": a} for b, a in zip(brokers, alive, strict=True)],
        "partitions": sorted(partitions, key=lambda row: (row["topic"], row["partition"])),
    }


def leaderships(replayed: Replayed) -> Iterator[dict[str, Any]]:
    """Every leadership, ISR or epoch that was written, in order."""
    keys, name = replayed.packed.keys, _names(replayed)
    for at, (rows, _, _) in enumerate(replayed.journals):
        for row in rows.tolist():
            topic, number = keys[row[L_PARTITION]]
            yield {
                "event": row[L_EVENT],
                "at_ms": row[L_AT],
                "topic": topic,
                "partition": number,
                "cause": CAUSES[row[L_CAUSE]],
                "leader_before": name(row[L_FROM]),
                "leader": name(row[L_TO]),
                "leader_epoch": row[L_EPOCH],
                "controller_epoch": row[L_CONTROLLER_EPOCH],
                "isr": list(replayed.alive_isr(at, row[L_ISR])),
            }


def transitions(replayed: Replayed) -> Iterator[dict[str, Any]]:
    """Every transition of a partition (broker_id None) or a replica that was tried, legal or not."""
    keys, name = replayed.packed.keys, _names(replayed)
    for _, rows, _ in replayed.journals:
        for row in rows.tolist():
            topic, number = keys[row[S_PARTITION]]
            states = PARTITION_STATES if row[S_BROKER] == NOBODY else REPLICA_STATES
            yield {
                "event": row[S_EVENT],
                "at_ms": row[S_AT],
                "topic": topic,
                "partition": number,
                "broker_id": name(row[S_BROKER]),
                "from_state": states[row[S_FROM]],
                "to_state": states[row[S_TO]],
                "cause": CAUSES[row[S_CAUSE]],
                "leader_epoch": row[S_EPOCH],
                "controller_epoch": row[S_CONTROLLER_EPOCH],
                "legal": bool(row[S_LEGAL]),
            }


def _names(replayed: Replayed) -> Any:
    return lambda place: None if place == NOBODY else replayed.brokers[place]
