"""A replay of one cluster in plain values: how it stands at the end, and all that was written on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from udfs.simulation.cluster_actions import folded_whole
from udfs.simulation.cluster_events import Begin, Event, event_log
from udfs.simulation.event_packing import N_EPOCH
from udfs.simulation.kernels import simulation_state as st
from udfs.simulation.request_results import joined
from udfs.simulation.result_tables import Rows
from udfs.simulation.simulator import Folded


def replay(begin: Begin, events: Sequence[Event], end_at: int | None = None) -> Folded:
    """The events, in their order, folded from the begin. end_at: until when time goes on, ms."""
    return folded_whole(event_log(begin, events, end_at))


def state_of(of: Folded) -> dict[str, Any]:
    """The cluster at the end: controller_epoch, brokers, partitions by name; None for no leader."""
    epochs = of.timeline.world.steps[:, st.T_EPOCH]
    rows = _plain(Rows(of).at_the_end())
    return {
        "controller_epoch": int(epochs[-1] if len(epochs) else of.packed.numbers[0, N_EPOCH]),
        "brokers": [
            {"broker_id": int(b), "live": bool(flag & st.LIVE)}
            for b, flag in zip(of.packed.brokers, of.timeline.flags, strict=True)
        ],
        "partitions": sorted(rows, key=lambda row: (row["topic"], row["partition"])),
    }


def leaderships(of: Folded) -> list[dict[str, Any]]:
    """Every leadership, ISR or epoch that was written, by event."""
    return _by_event(Rows(of).leaderships())


def transitions(of: Folded) -> list[dict[str, Any]]:
    """Every transition of a partition (broker_id None) or a replica that was tried, legal or not, by event."""
    return _by_event(Rows(of).transitions())


def requests(of: Folded) -> list[dict[str, Any]]:
    """Every append and fetch, partition by partition, by event; what is answered is the whole request."""
    return _by_event(joined(Rows(of).requests()).drop_columns(["progress_ms", "progress_bytes", "message_bytes"]))


def health(of: Folded) -> list[dict[str, Any]]:
    """Times in which each partition's health was the same."""
    return _plain(Rows(of).health())


def _by_event(table: pa.Table) -> list[dict[str, Any]]:
    at, event = np.asarray(table["at_ms"]), np.asarray(table["event"])
    return _plain(table.take(pa.array(np.lexsort((event, at)))))


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.drop_columns(["cluster_id", "snapshot_id"]).to_pylist()
    return rows
