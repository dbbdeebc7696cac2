"""gold.durability out of the sums: what is lost for good when some brokers, or racks, fail together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.ragged import offsets_of, row_of
from udfs.durability.kernels.loss_probability import EXACT, copysets, expected_lost, loss_probability, scatter_width
from udfs.failures.failure_rows import Outcome

BROKERS, RACKS = "broker", "rack"
DURABILITY = pa.schema(
    [
        ("failure_unit", pa.string()),
        ("failures", pa.int32()),
        ("units", pa.int64()),
        ("copysets", pa.int64()),
        ("scatter_width_mean", pa.float64()),
        ("scatter_width_min", pa.int64()),
        ("scatter_width_max", pa.int64()),
        ("loss_probability", pa.float64()),
        ("loss_probability_low", pa.float64()),
        ("loss_probability_high", pa.float64()),
        ("method", pa.string()),
        ("lost_partitions_mean", pa.float64()),
        ("lost_bytes_mean", pa.float64()),
        ("already_lost_partitions", pa.int64()),
    ]
)


@dataclass(frozen=True)
class DurabilityPlan:
    """failures: how many brokers (or racks) fail together, each of these; steps, trials: see loss_probability."""

    failures: tuple[int, ...]
    steps: int
    trials: int
    seed: int


def _rack_sets(
    offsets: npt.NDArray[np.int64], members: npt.NDArray[np.int32], racks: tuple[str | None, ...], names: list[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """The distinct sets of racks that copysets lie on; one with a broker without rack is on no set of racks."""
    place = {name: i for i, name in enumerate(names)}
    of_broker = np.array([-1 if rack is None else place[rack] for rack in racks], dtype=np.int64)
    key = row_of(offsets) * (len(names) + 1) + of_broker[members] + 1
    distinct = np.unique(key)
    row, rack = distinct // (len(names) + 1), distinct % (len(names) + 1) - 1
    outside = np.zeros(len(offsets) - 1, dtype=np.bool_)
    outside[row[rack < 0]] = True
    keep = ~outside[row]
    lengths = np.bincount(row[keep], minlength=len(offsets) - 1)[~outside]
    return copysets(offsets_of(lengths), rack[keep].astype(np.int32), len(names))


def durability(outcome: Outcome, racks: tuple[str | None, ...], plan: DurabilityPlan) -> pa.Table:
    """A row for each number of brokers, and of racks, that fail together (schema DURABILITY)."""
    offsets, members = outcome.counts("copyset_offsets"), outcome.sums["copyset_members"].astype(np.int32)
    rows = _unit_rows(BROKERS, offsets, members, len(outcome.ids), plan)
    width = np.arange(len(outcome.counts("width_count")))
    count, size = outcome.counts("width_count"), outcome.counts("width_bytes")
    sized = outcome.counts("known")[0] > 0 and outcome.counts("width_unsized")[1:].sum() == 0
    n = len(outcome.ids)
    for k, row in zip((k for k in plan.failures if k <= n), rows, strict=True):
        row["lost_partitions_mean"] = expected_lost(width, count.astype(np.float64), n, k)
        row["lost_bytes_mean"] = expected_lost(width, size.astype(np.float64), n, k) if sized else None
    names = sorted({rack for rack in racks if rack is not None})
    if names:
        rows += _unit_rows(RACKS, *_rack_sets(offsets, members, racks, names), len(names), plan)
    for row in rows:
        row["already_lost_partitions"] = int(count[0])
    return pa.Table.from_pylist(rows, schema=DURABILITY)


def _unit_rows(
    unit: str, offsets: npt.NDArray[np.int64], members: npt.NDArray[np.int32], units: int, plan: DurabilityPlan
) -> list[dict[str, object]]:
    scatter = scatter_width(offsets, members, units) if units else np.zeros(1, dtype=np.int64)
    rows: list[dict[str, object]] = []
    for k in plan.failures:
        if k > units:
            continue
        chance, low, high, method = loss_probability(offsets, members, units, k, plan.steps, plan.trials, plan.seed)
        rows.append(
            {
                "failure_unit": unit,
                "failures": k,
                "units": units,
                "copysets": len(offsets) - 1,
                "scatter_width_mean": float(scatter.mean()),
                "scatter_width_min": int(scatter.min()),
                "scatter_width_max": int(scatter.max()),
                "loss_probability": chance,
                "loss_probability_low": None if method == EXACT else low,
                "loss_probability_high": None if method == EXACT else high,
                "method": method,
            }
        )
    return rows
