"""Results of a simulation and of the interpreter for the same cluster, as values that can be compared."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from tests.unit.simulation.interpreter import Controller
from udfs.simulation.kernels.codes import AnsweredBy, RequestError


def index_partitions(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    """Return AR, ISR, leader and epochs of rows of STATES_AT_END, by partition."""
    return {
        (row["topic"], row["partition"]): (
            row["replicas"],
            row["isr"],
            row["leader"],
            row["leader_epoch"],
            row["controller_epoch"],
        )
        for row in rows
    }


def index_logs(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    """Return final log ends and high watermarks, committed and visible offsets of rows of HEALTH, by partition.

    Partitions without data are not in it.
    """
    return {
        (row["topic"], row["partition"]): (
            dict(zip(row["replicas"], row["log_end_offsets"], strict=True)),
            dict(zip(row["replicas"], row["high_watermarks"], strict=True)),
            row["high_watermark"],
            row["visible_offset"],
        )
        for row in rows
        if row["at_the_end"] and row["log_end_offsets"] is not None
    }


def index_requests(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    """Return how each part of JOINED_REQUESTS ended. A request of several parts may have two causes at once."""
    return {
        (row["request"], (row["topic"], row["partition"])): (
            row["part_error"],
            row["answered_by"] if row["parts"] == 1 else None,
            row["part_answered_at_ms"],
            row["base_offset"] if row["kind"] == "produce" else None,
            row["messages"],
            row["lost_messages"],
            row["lost_at_ms"],
        )
        for row in rows
    }


def collect_interpreted_partitions(controller: Controller) -> dict[Any, Any]:
    """Return the same as index_partitions for the interpreter. A leader that is down does not count."""
    every = {**controller.partitions, **controller.removed_partitions}
    return {
        key: (p.ar, p.isr, p.leader if p.leader in controller.live else None, p.epoch, p.written)
        for key, p in every.items()
    }


def collect_interpreted(controller: Controller) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
    """Return the same three results of the interpreter, with logs of all partitions."""
    partitions = collect_interpreted_partitions(controller)
    logs = {}
    for key, p in controller.partitions.items():
        replicas = {b: p.replicas[b] for b in p.ar}
        leos = {b: r.leo for b, r in replicas.items()}
        # Down brokers are shown with the high watermark that they will have when they return.
        hws = {b: r.hw if b in controller.live else min(r.checkpoint, r.leo) for b, r in replicas.items()}
        logs[key] = (leos, hws, p.committed, p.visible)
    parts = Counter(number for number, _ in controller.requests)
    requests = {
        key: (
            RequestError.labels()[a["error"]],
            AnsweredBy.labels()[a["answered_by"]] if parts[key[0]] == 1 else None,
            a["answered_at"],
            a["base_offset"],
            a["messages"],
            a["lost_messages"],
            a["lost_at"],
        )
        for key, a in controller.requests.items()
    }
    return partitions, logs, requests


def list_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table as plain values."""
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
