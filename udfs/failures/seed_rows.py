"""What other seeds would have given: metrics of a scheme over many placements of the same topics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.failures.aggregates import Array, Arrays
from udfs.failures.failure_rows import Outcome
from udfs.failures.kernels.failure_sums import LEADERS

Floats = npt.NDArray[np.float64]

METRICS = (
    "leaders_max_over_mean_ratio",
    "worst_survivor_ratio",
    "mean_worst_survivor_ratio",
    "fewest_takeover_brokers",
    "mean_takeover_brokers",
)
SEEDS = pa.schema(
    [
        ("metric", pa.string()),
        ("seeds", pa.int64()),
        ("value_mean", pa.float64()),
        ("value_p05", pa.float64()),
        ("value_p50", pa.float64()),
        ("value_p95", pa.float64()),
    ]
)


def metrics_of(led: Floats, taken: Floats) -> Floats:
    """METRICS (float64, NaN = none) of one placement. led: (n); taken: (n, n), from the one that fails to its
    successor."""
    n = len(led)
    out = np.full(len(METRICS), np.nan)
    if not n or not led.sum():
        return out
    out[0] = led.max() * n / led.sum()
    if n < 2:
        return out
    after = led[None] + taken
    np.fill_diagonal(after, 0.0)
    total = after.sum(axis=1)
    ratio = np.divide(after.max(axis=1) * (n - 1), total, out=np.full(n, np.nan), where=total > 0)
    if not np.isnan(ratio).all():
        out[1], out[2] = np.nanmax(ratio), np.nanmean(ratio)
    takeover_brokers = (taken > 0).sum(axis=1)[led > 0]  # who led nothing says nothing of takeover_brokers
    out[3], out[4] = takeover_brokers.min(), takeover_brokers.mean()
    return out


def with_metrics(sums: Arrays) -> dict[str, Array]:
    """The sums with `seed_metrics` (seeds, metrics) in place of each seed's leaders and takeovers."""
    out = {name: values for name, values in sums.items() if name not in ("seed_led", "seed_taken")}
    led, taken = sums.get("seed_led"), sums.get("seed_taken")
    rows = [] if led is None or taken is None else [metrics_of(a, b) for a, b in zip(led, taken, strict=True)]
    return out | {"seed_metrics": np.array(rows).reshape(-1, len(METRICS))}


def seeds(outcome: Outcome) -> pa.Table:
    """A row for each metric over the seeds tried (schema SEEDS), the run's own first; none where nothing is drawn."""
    values = outcome.array("seed_metrics")
    if not len(values):
        return SEEDS.empty_table()
    own = metrics_of(outcome.array("led")[:, LEADERS], outcome.array("taken")[:, :, LEADERS])
    values = np.vstack([own, values])
    rows = []
    for i, metric in enumerate(METRICS):
        known = values[:, i][~np.isnan(values[:, i])]
        if len(known):
            low, middle, high = np.percentile(known, [5, 50, 95]).tolist()
            figures = {"value_mean": float(known.mean()), "value_p05": low, "value_p50": middle, "value_p95": high}
            rows.append({"metric": metric, "seeds": len(known), **figures})
    return pa.Table.from_pylist(rows, schema=SEEDS)
