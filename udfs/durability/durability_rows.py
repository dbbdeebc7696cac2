"""gold.durability: what is lost for good when some brokers, or racks, fail together."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.columns import DOUBLE, INT, LONG, TEXT, column, schema_of, table_of
from udfs.arrow.ragged import offsets_of, row_of
from udfs.durability.kernels.loss_probability import (
    EXACT,
    SearchEffort,
    compute_expected_loss,
    compute_loss_probability,
    count_scatter_widths,
    find_copysets,
)
from udfs.failures.failure_outcomes import SchemeAggregates

BROKERS, RACKS = "broker", "rack"
DURABILITY_COLUMNS = (
    column("failure_unit", TEXT, "what fails: broker or rack", required=True),
    column("failures", INT, "how many fail together, any of them with equal probability", required=True),
    column("units", LONG, "live brokers; racks with a live broker", required=True),
    column("copysets", LONG, "distinct sets of live brokers (or racks) that hold partitions", required=True),
    column("scatter_width_mean", DOUBLE, "other brokers that share a partition with a broker, mean", required=True),
    column("loss_probability", DOUBLE, "probability that some partition loses every live replica", required=True),
    column("loss_probability_low", DOUBLE, "lower end of its 95 % interval; null = exact"),
    column("loss_probability_high", DOUBLE, "upper end of its 95 % interval; null = exact"),
    column("method", TEXT, "exact: by counting; monte_carlo: by random draws", required=True),
    column("lost_partitions_mean", DOUBLE, "expected number of partitions lost; null for racks"),
    column("lost_bytes_mean", DOUBLE, "expected bytes lost (one replica each); null = unknown, or racks"),
    column("already_lost_partitions", LONG, "partitions without a live replica now, left out", required=True),
)


class DurabilityPlan(NamedTuple):
    """What to compute. failure_counts: how many brokers (or racks) fail together, each of these numbers."""

    failure_counts: tuple[int, ...]
    effort: SearchEffort


def _rack_sets(
    offsets: npt.NDArray[np.int64], members: npt.NDArray[np.int32], racks: tuple[str | None, ...], names: list[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return the distinct sets of racks of copysets. A copyset with a broker of unknown rack has none."""
    index = {name: i for i, name in enumerate(names)}
    rack_of_broker = np.array([-1 if rack is None else index[rack] for rack in racks], dtype=np.int64)
    key = row_of(offsets) * (len(names) + 1) + rack_of_broker[members] + 1
    distinct = np.unique(key)
    row, rack = distinct // (len(names) + 1), distinct % (len(names) + 1) - 1
    is_unknown = np.zeros(len(offsets) - 1, dtype=np.bool_)
    is_unknown[row[rack < 0]] = True
    keep = ~is_unknown[row]
    lengths = np.bincount(row[keep], minlength=len(offsets) - 1)[~is_unknown]
    return find_copysets(offsets_of(lengths), rack[keep].astype(np.int32), len(names))


def durability_rows(aggregates: SchemeAggregates, racks: tuple[str | None, ...], plan: DurabilityPlan) -> pa.Table:
    """Return a row of gold.durability for each number of brokers, and of racks, that fail together."""
    n, offsets = len(aggregates.ids), aggregates.sums["copyset_offsets"]
    members = aggregates.sums["copyset_members"].astype(np.int32)
    count, size = aggregates.sums["width_count"], aggregates.sums["width_bytes"]
    width = np.arange(len(count))
    is_sized = aggregates.sums["known"][0] > 0 and aggregates.sums["width_unsized"][1:].sum() == 0
    rows: list[tuple[object, ...]] = []
    for unit in _unit_rows(BROKERS, offsets, members, n, plan):
        partitions, lost_bytes = (compute_expected_loss(width, w.astype(np.float64), n, unit[1]) for w in (count, size))
        rows.append((*unit, partitions, lost_bytes if is_sized else None, int(count[0])))
    if names := sorted({rack for rack in racks if rack is not None}):
        sets = _rack_sets(offsets, members, racks, names)
        rows += ((*unit, None, None, int(count[0])) for unit in _unit_rows(RACKS, *sets, len(names), plan))
    return table_of(rows, schema_of(DURABILITY_COLUMNS))


def _unit_rows(
    unit: str, offsets: npt.NDArray[np.int64], members: npt.NDArray[np.int32], units: int, plan: DurabilityPlan
) -> Iterator[tuple[Any, ...]]:
    """Yield the first columns for each possible number of brokers (or racks) that fail together."""
    width = float(count_scatter_widths(offsets, members, units).mean()) if units else 0.0
    for k in (k for k in plan.failure_counts if k <= units):
        loss = compute_loss_probability(offsets, members, units, k, plan.effort)
        interval = (None, None) if loss.method == EXACT else (loss.low, loss.high)
        yield (unit, k, units, len(offsets) - 1, width, loss.probability, *interval, loss.method)
