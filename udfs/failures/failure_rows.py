"""gold.failure_summary, loads_after_failure, random_failures, headroom and over_capacity: columns, and their rows."""

from itertools import chain
from math import comb, sqrt

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import DOUBLE, FLAG, INT, INTS, LONG, TEXT, column, schema_of, table_of
from udfs.durability.kernels.loss_probability import EXACT, MONTE_CARLO, Z_95, wilson_interval
from udfs.failures import failure_outcomes
from udfs.failures.failure_outcomes import Outcomes, SchemeAggregates, SurvivorLoads, survivor_loads
from udfs.failures.kernels import failure_totals
from udfs.failures.kernels.failure_totals import BYTES_IN, BYTES_OUT, FETCH, LEADERS
from udfs.failures.scenarios import ScenarioKind

KIND = column(
    "scenario_kind",
    TEXT,
    "broker, pair (of brokers), rack, custom (see failures.custom), random (a random set) or rolling_restart (a step)",
    required=True,
)
SCENARIO_COLUMNS = (
    KIND,
    column(
        "scenario",
        TEXT,
        "what fails: broker:2, pair:1,2, rack:east, custom:1,2,5, random:3:17 or rolling_restart:2",
        required=True,
    ),
    column("failed_brokers", INTS, "brokers that are down in this scenario, in ascending order", required=True),
)
HOT_SURVIVOR_RATIO = 1.25
_RATES_NOTE = "partitions of unknown rate count as 0; null = no rate is known"


_OF_WORST = f" of the survivor with the most, over the survivors' mean; {_RATES_NOTE}"
_SENT = "bytes that leaders send (null for pairs and rolling restarts)"
_RATIOS = {"bytes_in": "bytes in", "bytes_out": "bytes out", "fetch": _SENT}
SUMMARY_COLUMNS = (
    *SCENARIO_COLUMNS,
    column(
        "survivors", LONG, "live brokers that are left; means leave out cordoned ones that are empty", required=True
    ),
    column("leaders_lost", LONG, "partitions that the failed brokers led", required=True),
    column("takeover_brokers", LONG, "survivors that take over at least one partition", required=True),
    column("leaders_after_mean", DOUBLE, "leaders per survivor afterwards; null = no survivor"),
    column("leaders_after_max", LONG, "leaders of the worst survivor afterwards; null = no survivor"),
    column("worst_survivor", INT, "survivor with the most leaders afterwards; the lowest id among equals"),
    column(
        "hot_survivor",
        INT,
        f"worst survivor that takes over leaders, if it then leads over {HOT_SURVIVOR_RATIO} times the mean of those "
        "with replicas and more than even leaders would require (that mean, rounded up)",
    ),
    column(
        "worst_survivor_ratio",
        DOUBLE,
        "leaders of the worst survivor afterwards over the mean of all survivors; null if these have no leaders",
    ),
    *(column(f"worst_survivor_{load}_ratio", DOUBLE, text + _OF_WORST) for load, text in _RATIOS.items()),
    column("offline_partitions", LONG, "partitions without a leader afterwards", required=True),
    column("newly_offline_partitions", LONG, "partitions that this failure takes offline", required=True),
    column("offline_size_bytes", LONG, "bytes of the newly offline partitions; null = some size is unknown"),
    column(
        "newly_under_min_isr_partitions",
        LONG,
        "online partitions that this failure takes below min.insync.replicas",
        required=True,
    ),
    column(
        "under_min_isr_partitions",
        LONG,
        "online partitions below min.insync.replicas afterwards: they block acks=all producers",
        required=True,
    ),
    column("single_isr_partitions", LONG, "online partitions left with one in-sync replica", required=True),
    column("unclean_elections", LONG, "leaders elected outside the ISR and ELR: messages could be lost", required=True),
    column("potential_lost_messages", LONG, "messages that these leaders lack, by their lag; null = some is unknown"),
    column(
        "leaves_majority",
        FLAG,
        "whether a majority of the voters of the controller quorum is left, or the sources do not show it; false = no "
        "leader is elected",
    ),
)


def _rate_columns(load: str, text: str) -> tuple[pa.Field, pa.Field]:
    return (
        column(f"{load}_before_per_s", DOUBLE, f"bytes per second {text}, before; {_RATES_NOTE}"),
        column(f"{load}_after_per_s", DOUBLE, f"bytes per second {text}, afterwards; {_RATES_NOTE}"),
    )


LOAD_AFTER_FAILURE_COLUMNS = (
    *SCENARIO_COLUMNS,
    column("broker_id", INT, "the survivor", required=True),
    column("leaders_before", LONG, "partitions that it led", required=True),
    column("takeovers", LONG, "partitions that it takes over", required=True),
    column("leaders_after", LONG, "partitions that it leads afterwards", required=True),
    *_rate_columns("bytes_in", "produced to what it leads"),
    *_rate_columns("bytes_out", "that consumers fetch from what it leads"),
    *_rate_columns("fetch", "that it sends to consumers and to in-sync followers"),
)
RANDOM_FAILURE_COLUMNS = (
    column("failures", INT, "brokers that fail together", required=True),
    column("metric", TEXT, "a column of gold.failure_summary; any_newly_offline: 1 if any partition is", True),
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
_SUMMARY, _LOAD = schema_of(SUMMARY_COLUMNS), schema_of(LOAD_AFTER_FAILURE_COLUMNS)


def outcome_rows(outcomes: Outcomes, aggregates: SchemeAggregates) -> pa.Table:
    """Return rows of gold.failure_summary (SUMMARY_COLUMNS) of scenarios of one kind."""
    has_survivors = outcomes.counted > 0
    mean = np.zeros_like(outcomes.total)
    np.divide(outcomes.total, outcomes.counted[:, None], out=mean, where=has_survivors[:, None])
    ratio = np.divide(outcomes.worst, mean, out=np.full_like(mean, np.nan), where=mean > 0)
    for load, is_known in aggregates.is_known.items():
        if not is_known:
            ratio[:, load] = np.nan
    most = outcomes.worst[:, LEADERS]
    even = outcomes.total[:, LEADERS] / np.maximum(outcomes.holders, 1)  # a broker without replicas cannot lead
    is_hot = (most > HOT_SURVIVOR_RATIO * even) & (most > np.ceil(even))
    events, now = outcomes.events, aggregates.sums["events"]
    n = len(events)
    columns = [
        pa.repeat(str(outcomes.kind), n),
        outcomes.name,
        outcomes.failed_brokers,
        outcomes.survivors,
        outcomes.leaders_lost,
        outcomes.takeover_brokers,
        pa.array(mean[:, LEADERS], DOUBLE, mask=~has_survivors),
        pa.array(outcomes.worst[:, LEADERS].astype(np.int64), LONG, mask=~has_survivors),
        pa.array(outcomes.worst_broker, INT, mask=outcomes.worst_broker < 0),
        pa.array(outcomes.hottest_successor, INT, mask=~is_hot | (outcomes.hottest_successor < 0)),
        *(pa.array(ratio[:, load], DOUBLE, mask=np.isnan(ratio[:, load])) for load in aggregates.is_known),
        events[:, failure_totals.OFFLINE],
        events[:, failure_totals.OFFLINE] - now[failure_totals.OFFLINE],
        pa.array(events[:, failure_totals.OFFLINE_BYTES], LONG, mask=events[:, failure_totals.UNKNOWN_SIZE] > 0),
        events[:, failure_totals.NEWLY_UNDER_MIN_ISR],
        events[:, failure_totals.UNDER_MIN_ISR],
        events[:, failure_totals.SINGLE_ISR],
        events[:, failure_totals.UNCLEAN_ELECTIONS],
        pa.array(events[:, failure_totals.LOST_MESSAGES], LONG, mask=events[:, failure_totals.UNKNOWN_LAG] > 0),
        outcomes.leaves_majority,
    ]
    return pa.Table.from_arrays(columns, schema=_SUMMARY)


def summary_rows(aggregates: SchemeAggregates) -> pa.Table:
    """Return all rows of gold.failure_summary of a cluster under a scheme."""
    scenarios = (loads.outcomes for loads in failure_outcomes.scenario_failures(aggregates))
    kinds = [
        failure_outcomes.single_failures(aggregates).outcomes,
        failure_outcomes.pair_failures(aggregates),
        *scenarios,
        failure_outcomes.rolling_restart(aggregates),
    ]
    return pa.concat_tables(outcome_rows(outcomes, aggregates) for outcomes in kinds)


def survivor_rows(loads: SurvivorLoads, aggregates: SchemeAggregates) -> pa.Table:
    """Return rows of gold.loads_after_failure (LOAD_AFTER_FAILURE_COLUMNS): the survivors of scenarios of one kind."""
    before = aggregates.sums["leader_loads"]
    scenario, broker = np.nonzero(loads.survives)
    at = pa.array(scenario)
    columns = [
        pa.repeat(str(loads.outcomes.kind), len(scenario)),
        loads.outcomes.name.take(at),
        loads.outcomes.failed_brokers.take(at),
        aggregates.ids[broker],
        before[broker, LEADERS],
        loads.takeovers[scenario, broker, LEADERS],
        loads.after[scenario, broker, LEADERS],
    ]
    for load in (BYTES_IN, BYTES_OUT, FETCH):
        if aggregates.is_known[load] and load < loads.after.shape[2]:
            columns += [before[broker, load], loads.after[scenario, broker, load]]
        else:
            columns += [pa.nulls(len(scenario), DOUBLE)] * 2
    return pa.Table.from_arrays(columns, schema=_LOAD)


def load_after_failure_rows(aggregates: SchemeAggregates) -> pa.Table:
    """Return all rows of gold.loads_after_failure; of pairs only if their joint takeovers are kept."""
    pairs = failure_outcomes.pair_loads(aggregates) if "joint_key" in aggregates.sums else ()
    rows = (survivor_rows(loads, aggregates) for loads in chain(failure_outcomes.survivor_loads(aggregates), pairs))
    return pa.concat_tables([_LOAD.empty_table(), *rows])


def random_failure_rows(aggregates: SchemeAggregates) -> pa.Table:
    """Return a row of gold.random_failures for each number of brokers and each metric."""
    outcomes = (loads.outcomes for loads in failure_outcomes.scenario_failures(aggregates))
    sets = [outcome_rows(kind, aggregates) for kind in outcomes if kind.kind == ScenarioKind.RANDOM]
    failures = pa.concat_tables([_SUMMARY.empty_table(), *sets])
    sizes = pc.list_value_length(failures["failed_brokers"]).to_numpy()
    rows = []
    for size in np.unique(sizes).tolist():
        drawn = failures.filter(pa.array(sizes == size))
        values = {name: drawn[name].to_numpy().astype(np.float64) for name in _METRICS}
        values[_ANY_OFFLINE] = (values["newly_offline_partitions"] > 0).astype(np.float64)
        for name, metric in values.items():
            known = metric[~np.isnan(metric)]
            if len(known):
                possible = comb(len(aggregates.ids), size)
                method = EXACT if len(metric) == possible else MONTE_CARLO
                rows.append((size, name, method, *_describe(name, known, method, possible)))
    return table_of(rows, schema_of(RANDOM_FAILURE_COLUMNS))


def _describe(name: str, values: npt.NDArray[np.float64], method: str, possible: int) -> tuple[float | None, ...]:
    """Return draws, mean, its interval, median, 95th percentile and maximum of a sample of `possible` sets."""
    n, mean = len(values), float(values.mean())
    low = high = None
    if method == MONTE_CARLO and name == _ANY_OFFLINE:
        low, high = wilson_interval(mean, n)
    elif method == MONTE_CARLO and n > 1:
        # Sampled without replacement from finitely many sets.
        error = float(values.std(ddof=1)) / sqrt(n) * sqrt((possible - n) / (possible - 1))
        low, high = mean - Z_95 * error, mean + Z_95 * error
    return n, mean, low, high, *np.percentile(values, [50, 95]).tolist(), float(values.max())


Floats = npt.NDArray[np.float64]


LOAD_QUANTITIES = {"leaders": LEADERS, "bytes_in_per_s": BYTES_IN, "bytes_out_per_s": BYTES_OUT, "fetch_per_s": FETCH}


_QUANTITY = column("quantity", TEXT, ", ".join(LOAD_QUANTITIES), required=True)


HEADROOM_COLUMNS = (
    KIND,
    _QUANTITY,
    column(
        "capacity_source", TEXT, "uniform: the mean load of the live brokers now; file: capacity.file", required=True
    ),
    column(
        "required_headroom_ratio",
        DOUBLE,
        "smallest h with which no survivor is over capacity, if capacities are (1 + h) times the mean (or times those "
        "of the file); below 0 = capacity to spare; null = a broker of capacity 0 gets load. No row without load",
    ),
    column("worst_scenario", TEXT, "the failure that requires it", required=True),
    column("worst_broker", INT, "the survivor that requires it", required=True),
    column("worst_load", DOUBLE, "load of that survivor: leaders, or bytes per second", required=True),
)


OVER_CAPACITY_COLUMNS = (
    *SCENARIO_COLUMNS,
    column("broker_id", INT, "the survivor", required=True),
    _QUANTITY,
    column("load_after", DOUBLE, "its load afterwards: leaders, or bytes per second", required=True),
    column("capacity", DOUBLE, "its capacity: from capacity.file, else (1 + capacity.headroom) times the mean now"),
    column("excess_load", DOUBLE, "load_after minus capacity", required=True),
    column("load_over_capacity_ratio", DOUBLE, "load_after over capacity; null = capacity 0"),
)


_OVER_CAPACITY = schema_of(OVER_CAPACITY_COLUMNS)


def headroom_rows(
    aggregates: SchemeAggregates, limits: Floats | None = None, headroom: float = 0
) -> tuple[pa.Table, pa.Table]:
    """Compute the headroom that each kind of failure requires, and the survivors over capacity: rows of both tables.

    limits: float64 (n, loads), capacities, NaN = no limit; None = 1 + headroom (a ratio >= 0) times the mean load of
    brokers now, for every broker.
    """
    led = aggregates.sums["leader_loads"]
    mean = led.sum(axis=0) / max(aggregates.counted.sum(), 1)
    units = np.broadcast_to(mean, led.shape) if limits is None else limits
    capacities = units * (1 + headroom) if limits is None else units
    source = "uniform" if limits is None else "file"
    required: list[tuple[object, ...]] = []
    over = [_OVER_CAPACITY.empty_table()]
    for loads in survivor_loads(aggregates):
        kind, names = str(loads.outcomes.kind), loads.outcomes.name
        for quantity, load in LOAD_QUANTITIES.items():
            if not aggregates.is_known[load] or not loads.survives.any() or not led[:, load].any():
                continue
            after, unit, capacity = loads.after[:, :, load], units[:, load], capacities[:, load]
            after = np.where(loads.survives, after, np.nan)
            with np.errstate(invalid="ignore", divide="ignore"):
                used = np.where(unit > 0, after / unit, np.where(after > 0, np.inf, 0.0))
                used[np.isnan(after) | np.isnan(unit)] = np.nan
                is_over = after > capacity
            if np.isnan(used).all():
                continue
            s, b = np.unravel_index(np.nanargmax(used), used.shape)
            ratio = float(used[s, b]) - 1 if np.isfinite(used[s, b]) else None
            worst = (names[int(s)].as_py(), int(aggregates.ids[b]), float(after[s, b]))
            required.append((kind, quantity, source, ratio, *worst))
            scenario, broker = np.nonzero(is_over)
            load_after, limit = after[scenario, broker], capacity[broker]
            columns = [
                pa.repeat(kind, len(scenario)),
                names.take(pa.array(scenario)),
                loads.outcomes.failed_brokers.take(pa.array(scenario)),
                aggregates.ids[broker],
                pa.repeat(quantity, len(scenario)),
                load_after,
                limit,
                load_after - limit,
                pa.array(load_after / np.where(limit > 0, limit, 1), mask=limit <= 0),
            ]
            over.append(pa.Table.from_arrays(columns, schema=_OVER_CAPACITY))
    return table_of(required, schema_of(HEADROOM_COLUMNS)), pa.concat_tables(over)
