"""gold.scheme_distribution: metrics of a scheme over placements of the same topics with other seeds."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.table_columns import DOUBLE, LONG, TEXT, column, schema_of
from udfs.failures.aggregates import Array, Arrays
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.kernels.partition_arrays import LEADERS

Floats = npt.NDArray[np.float64]

METRICS = (
    "leaders_max_over_mean_ratio",
    "worst_survivor_ratio",
    "mean_worst_survivor_ratio",
    "fewest_takeover_brokers",
    "mean_takeover_brokers",
)
SCHEME_DISTRIBUTION_COLUMNS = (
    column("metric", TEXT, "as in gold.scheme_comparison", required=True),
    column("seeds", LONG, "seeds tried; fewer than failures.seeds for large clusters", required=True),
    column("value_mean", DOUBLE, "mean over the seeds", required=True),
    column("value_p05", DOUBLE, "5th percentile over the seeds", required=True),
    column("value_p50", DOUBLE, "median over the seeds", required=True),
    column("value_p95", DOUBLE, "95th percentile over the seeds", required=True),
)


def measure_placement(leaders: Floats, takeovers: Floats) -> Floats:
    """Compute METRICS of one placement.

    Args:
        leaders: float64 (n), by broker.
        takeovers: float64 (n, n), from the failed broker (first) to its successor.

    Returns:
        float64 (len(METRICS)); NaN = undefined.
    """
    n = len(leaders)
    out = np.full(len(METRICS), np.nan)
    if not n or not leaders.sum():
        return out
    out[0] = leaders.max() * n / leaders.sum()
    if n < 2:
        return out
    after = leaders[None] + takeovers
    np.fill_diagonal(after, 0.0)
    total = after.sum(axis=1)
    ratio = np.divide(after.max(axis=1) * (n - 1), total, out=np.full(n, np.nan), where=total > 0)
    if not np.isnan(ratio).all():
        out[1], out[2] = np.nanmax(ratio), np.nanmean(ratio)
    takeover_brokers = (takeovers > 0).sum(axis=1)[leaders > 0]  # brokers without leaders have no successors
    out[3], out[4] = takeover_brokers.min(), takeover_brokers.mean()
    return out


def measure_seeds(sums: Arrays) -> dict[str, Array]:
    """Replace each seed's leaders and takeovers by `seed_metrics`: float64 (seeds, METRICS)."""
    names = ("seed_leaders", "seed_takeovers")
    out = {name: values for name, values in sums.items() if name not in names}
    pairs = zip(*(sums.get(name, ()) for name in names), strict=True)
    rows = [measure_placement(leaders, takeovers) for leaders, takeovers in pairs]
    return out | {"seed_metrics": np.array(rows).reshape(-1, len(METRICS))}


def distribution_rows(aggregates: SchemeAggregates) -> pa.Table:
    """Return a row for each metric over the seeds, the run's own included; none if no other seed was tried."""
    schema, values = schema_of(SCHEME_DISTRIBUTION_COLUMNS), aggregates.floats("seed_metrics")
    if not len(values):
        return schema.empty_table()
    leaders, takeovers = (aggregates.floats(name)[..., LEADERS] for name in ("leader_loads", "takeovers"))
    values = np.vstack([measure_placement(leaders, takeovers), values])
    rows = []
    for i, metric in enumerate(METRICS):
        known = values[:, i][~np.isnan(values[:, i])]
        if len(known):
            low, median, high = np.percentile(known, [5, 50, 95]).tolist()
            row = {"value_mean": float(known.mean()), "value_p05": low, "value_p50": median, "value_p95": high}
            rows.append({"metric": metric, "seeds": len(known), **row})
    return pa.Table.from_pylist(rows, schema=schema)
