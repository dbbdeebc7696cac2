"""gold.random_failures: what random sets of brokers that fail together cost, on average and at worst."""

from math import comb, sqrt

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.table_columns import DOUBLE, INT, LONG, TEXT, column, schema_of
from udfs.durability.kernels.loss_probability import EXACT, MONTE_CARLO, Z_95, wilson_interval
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.failure_rows import random_set_rows

RANDOM_FAILURE_COLUMNS = (
    column("failures", INT, "brokers that fail together", required=True),
    column("metric", TEXT, "a column of gold.failure_summary; any_newly_offline: 1 where any partition is", True),
    column("method", TEXT, "exact: every set of brokers; monte_carlo: a random sample of sets", required=True),
    column("draws", LONG, "sets that have a value", required=True),
    column("value_mean", DOUBLE, "mean over the sets", required=True),
    column("value_mean_low", DOUBLE, "lower end of the mean's 95 % interval; null = exact"),
    column("value_mean_high", DOUBLE, "upper end of the mean's 95 % interval; null = exact"),
    column("value_p50", DOUBLE, "median over the sets", required=True),
    column("value_p95", DOUBLE, "95th percentile over the sets", required=True),
    column("value_max", DOUBLE, "largest value", required=True),
)
_METRICS = ("worst_survivor_ratio", "newly_offline_partitions", "under_min_isr_partitions", "single_isr_partitions")
_ANY_OFFLINE = "any_newly_offline"


def random_failure_rows(aggregates: SchemeAggregates) -> pa.Table:
    """Return a row of gold.random_failures for each number of brokers and each metric."""
    failures = random_set_rows(aggregates)
    sizes = np.asarray(pc.list_value_length(failures["failed_brokers"]).to_numpy(), dtype=np.int64)
    rows = []
    for size in np.unique(sizes).tolist():
        drawn = failures.filter(pa.array(sizes == size))
        values = {name: drawn[name].to_numpy().astype(np.float64) for name in _METRICS}
        values[_ANY_OFFLINE] = (values["newly_offline_partitions"] > 0).astype(np.float64)
        sets = comb(len(aggregates.ids), size)
        for name, metric in values.items():
            known = metric[~np.isnan(metric)]
            if len(known):
                method = EXACT if len(metric) == sets else MONTE_CARLO
                rows.append(
                    {"failures": size, "metric": name, "method": method, **_describe(name, known, method, sets)}
                )
    return pa.Table.from_pylist(rows, schema=schema_of(RANDOM_FAILURE_COLUMNS))


def _describe(name: str, values: npt.NDArray[np.float64], method: str, sets: int) -> dict[str, object]:
    """Describe a sample (float64, n > 0) of so many sets."""
    n, mean = len(values), float(values.mean())
    low = high = None
    if method == MONTE_CARLO and name == _ANY_OFFLINE:
        low, high = wilson_interval(mean, n)
    elif method == MONTE_CARLO and n > 1:
        # Sampled without replacement from finitely many sets.
        error = float(values.std(ddof=1)) / sqrt(n) * sqrt((sets - n) / (sets - 1))
        low, high = mean - Z_95 * error, mean + Z_95 * error
    median, p95 = np.percentile(values, [50, 95]).tolist()
    interval = {"value_mean": mean, "value_mean_low": low, "value_mean_high": high}
    return {"draws": n, **interval, "value_p50": median, "value_p95": p95, "value_max": float(values.max())}
