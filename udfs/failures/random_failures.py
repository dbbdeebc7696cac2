"""gold.random_failures: what random sets of brokers that fail together cost, on average and at worst."""

from __future__ import annotations

from math import comb, sqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.durability.kernels.loss_probability import EXACT, MONTE_CARLO, wilson
from udfs.failures.failure_rows import Outcome, random_summary

RANDOM_FAILURES = pa.schema(
    [
        ("failures", pa.int32()),
        ("metric", pa.string()),
        ("method", pa.string()),
        ("draws", pa.int64()),
        ("value_mean", pa.float64()),
        ("value_mean_low", pa.float64()),
        ("value_mean_high", pa.float64()),
        ("value_p50", pa.float64()),
        ("value_p95", pa.float64()),
        ("value_max", pa.float64()),
    ]
)
_METRICS = ("worst_survivor_ratio", "newly_offline_partitions", "under_min_isr_partitions", "single_isr_partitions")
ANY_OFFLINE = "any_newly_offline"
_Z = 1.959963984540054  # 95 %


def random_failures(outcome: Outcome) -> pa.Table:
    """A row for each number of brokers and each metric (schema RANDOM_FAILURES), with intervals of the mean at 95 %."""
    drawn = random_summary(outcome)
    sizes = np.asarray(pc.list_value_length(drawn["failed_brokers"]).to_numpy(), dtype=np.int64)
    rows = []
    for k in np.unique(sizes).tolist():
        of = drawn.filter(pa.array(sizes == k))
        sets = comb(len(outcome.ids), k)
        values = {name: of[name].to_numpy().astype(np.float64) for name in _METRICS}
        values[ANY_OFFLINE] = (values["newly_offline_partitions"] > 0).astype(np.float64)
        for name, found in values.items():
            rows += _row(k, name, found[~np.isnan(found)], exact=len(found) == sets, sets=sets)
    return pa.Table.from_pylist(rows, schema=RANDOM_FAILURES)


def _row(k: int, name: str, found: np.ndarray, exact: bool, sets: int) -> list[dict[str, object]]:
    n = len(found)
    if not n:
        return []
    mean = float(found.mean())
    low = high = None
    if name == ANY_OFFLINE and not exact:
        low, high = wilson(mean, n)
    elif not exact and n > 1:
        # Drawn without repetition from finitely many sets.
        error = float(found.std(ddof=1)) / sqrt(n) * sqrt((sets - n) / (sets - 1))
        low, high = mean - _Z * error, mean + _Z * error
    middle, late = np.percentile(found, [50, 95]).tolist()
    return [
        {
            "failures": k,
            "metric": name,
            "method": EXACT if exact else MONTE_CARLO,
            "draws": n,
            "value_mean": mean,
            "value_mean_low": low,
            "value_mean_high": high,
            "value_p50": middle,
            "value_p95": late,
            "value_max": float(found.max()),
        }
    ]
