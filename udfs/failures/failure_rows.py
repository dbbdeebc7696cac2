"""gold.failure_summary and gold.failure_load: columns, and rows out of the aggregates of a cluster under a scheme."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.arrow.table_columns import DOUBLE, INT, INTS, LONG, TEXT, column, schema_of
from udfs.failures.failure_outcomes import (
    Outcomes,
    SchemeAggregates,
    SurvivorLoads,
    pair_failures,
    pair_loads,
    rolling_restart,
    scenario_failures,
    single_failures,
    survivor_loads,
)
from udfs.failures.kernels.partition_arrays import (
    BYTES_IN,
    BYTES_OUT,
    FETCH,
    LEADERS,
    LOST_MESSAGES,
    OFFLINE,
    OFFLINE_BYTES,
    SINGLE_ISR,
    UNCLEAN_ELECTIONS,
    UNDER_MIN_ISR,
    UNKNOWN_LAG,
    UNKNOWN_SIZE,
)
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
    column("failed_brokers", INTS, "brokers that are down in this scenario, rising", required=True),
)
_RATES_NOTE = "partitions of unknown rate count as 0; null = no rate is known"


def _worst_ratio(load: str, text: str) -> pa.Field:
    comment = f"{text} of the survivor with most, over the survivors' mean; {_RATES_NOTE}"
    return column(f"worst_survivor_{load}_ratio", DOUBLE, comment)


SUMMARY_COLUMNS = (
    *SCENARIO_COLUMNS,
    column("survivors", LONG, "live brokers that are left", required=True),
    column("leaders_lost", LONG, "partitions that the failed brokers led", required=True),
    column("takeover_brokers", LONG, "survivors that take over at least one partition", required=True),
    column("leaders_after_mean", DOUBLE, "leaders per survivor afterwards; null = no survivor"),
    column("leaders_after_max", LONG, "leaders of the worst survivor afterwards; null = no survivor"),
    column("worst_survivor", INT, "survivor with most leaders afterwards; the lowest id among equals"),
    column(
        "worst_survivor_ratio",
        DOUBLE,
        "leaders_after_max over leaders_after_mean; null if the survivors have no leaders",
    ),
    _worst_ratio("bytes_in", "bytes in"),
    _worst_ratio("bytes_out", "bytes out"),
    _worst_ratio("fetch", "bytes that leaders send (null for pairs and rolling restarts)"),
    column("offline_partitions", LONG, "partitions without a leader afterwards", required=True),
    column("newly_offline_partitions", LONG, "of those, taken offline by this failure", required=True),
    column("offline_size_bytes", LONG, "bytes of the newly offline partitions; null = some size is unknown"),
    column(
        "under_min_isr_before_partitions",
        LONG,
        "online partitions below min.insync.replicas now: they block acks=all producers",
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
)


def _rate_columns(load: str, text: str) -> tuple[pa.Field, pa.Field]:
    return (
        column(f"{load}_before_per_s", DOUBLE, f"bytes per second {text}, before; {_RATES_NOTE}"),
        column(f"{load}_after_per_s", DOUBLE, f"bytes per second {text}, afterwards; {_RATES_NOTE}"),
    )


LOAD_COLUMNS = (
    *SCENARIO_COLUMNS,
    column("broker_id", INT, "the survivor", required=True),
    column("leaders_before", LONG, "partitions that it led", required=True),
    column("takeovers", LONG, "partitions that it takes over", required=True),
    column("leaders_after", LONG, "partitions that it leads afterwards", required=True),
    *_rate_columns("bytes_in", "produced to what it leads"),
    *_rate_columns("bytes_out", "that consumers fetch from what it leads"),
    *_rate_columns("fetch", "that it sends: to consumers, and bytes in to each in-sync follower"),
)
_SUMMARY, _LOAD = schema_of(SUMMARY_COLUMNS), schema_of(LOAD_COLUMNS)


def _nullable(values: npt.NDArray[np.generic], known: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind, mask=~known)


def outcome_rows(outcomes: Outcomes, aggregates: SchemeAggregates) -> pa.Table:
    """Return rows of gold.failure_summary (SUMMARY_COLUMNS) of scenarios of one kind."""
    has_survivors = outcomes.survivors > 0
    mean = np.zeros_like(outcomes.total)
    np.divide(outcomes.total, outcomes.survivors[:, None], out=mean, where=has_survivors[:, None])
    ratio = np.divide(outcomes.worst, mean, out=np.full_like(mean, np.nan), where=mean > 0)
    for load, is_known in aggregates.is_known.items():
        if not is_known:
            ratio[:, load] = np.nan
    events, now = outcomes.events, aggregates.counts("events")
    n = len(events)
    columns = [
        pa.repeat(str(outcomes.kind), n),
        outcomes.name,
        outcomes.failed_brokers,
        outcomes.survivors,
        outcomes.leaders_lost,
        outcomes.takeover_brokers,
        _nullable(mean[:, LEADERS], has_survivors, DOUBLE),
        _nullable(outcomes.worst[:, LEADERS].astype(np.int64), has_survivors, LONG),
        _nullable(outcomes.worst_broker, outcomes.worst_broker >= 0, INT),
        *(_nullable(ratio[:, load], ~np.isnan(ratio[:, load]), DOUBLE) for load in aggregates.is_known),
        events[:, OFFLINE],
        events[:, OFFLINE] - now[OFFLINE],
        _nullable(events[:, OFFLINE_BYTES], events[:, UNKNOWN_SIZE] == 0, LONG),
        np.full(n, now[UNDER_MIN_ISR]),
        events[:, UNDER_MIN_ISR],
        events[:, SINGLE_ISR],
        events[:, UNCLEAN_ELECTIONS],
        _nullable(events[:, LOST_MESSAGES], events[:, UNKNOWN_LAG] == 0, LONG),
    ]
    arrays = [values if isinstance(values, pa.Array) else pa.array(values) for values in columns]
    return pa.Table.from_arrays(arrays, names=_SUMMARY.names).cast(_SUMMARY)


def summary_rows(aggregates: SchemeAggregates) -> pa.Table:
    """Return all rows of gold.failure_summary of a cluster under a scheme."""
    scenarios = (loads.outcomes for loads in scenario_failures(aggregates))
    kinds = [single_failures(aggregates), pair_failures(aggregates), *scenarios, rolling_restart(aggregates)]
    return pa.concat_tables(outcome_rows(outcomes, aggregates) for outcomes in kinds)


def random_set_rows(aggregates: SchemeAggregates) -> pa.Table:
    """Return the rows of gold.failure_summary of random sets alone."""
    kinds = (loads.outcomes for loads in scenario_failures(aggregates))
    rows = (outcome_rows(outcomes, aggregates) for outcomes in kinds if outcomes.kind == ScenarioKind.RANDOM)
    return pa.concat_tables([_SUMMARY.empty_table(), *rows])


def survivor_rows(loads: SurvivorLoads, aggregates: SchemeAggregates) -> pa.Table:
    """Return rows of gold.failure_load (LOAD_COLUMNS): the survivors of scenarios of one kind."""
    before = aggregates.floats("leader_loads")
    scenario, broker = np.nonzero(loads.survives)
    at = pa.array(scenario)
    columns = [
        pa.repeat(str(loads.outcomes.kind), len(scenario)),
        loads.outcomes.name.take(at),
        loads.outcomes.failed_brokers.take(at),
        pa.array(aggregates.ids[broker], INT),
        pa.array(before[broker, LEADERS].astype(np.int64)),
        pa.array(loads.takeovers[scenario, broker, LEADERS].astype(np.int64)),
        pa.array(loads.after[scenario, broker, LEADERS].astype(np.int64)),
    ]
    for load in (BYTES_IN, BYTES_OUT, FETCH):
        if aggregates.is_known[load] and load < loads.after.shape[2]:
            columns += [pa.array(before[broker, load]), pa.array(loads.after[scenario, broker, load])]
        else:
            columns += [pa.nulls(len(scenario), DOUBLE)] * 2
    return pa.Table.from_arrays(columns, names=_LOAD.names).cast(_LOAD)


def load_rows(aggregates: SchemeAggregates) -> pa.Table:
    """Return all rows of gold.failure_load; of pairs only if their joint takeovers are kept."""
    parts: list[Iterable[SurvivorLoads]] = [survivor_loads(aggregates)]
    if "joint_key" in aggregates.sums:
        parts.append(pair_loads(aggregates))
    rows = (survivor_rows(loads, aggregates) for part in parts for loads in part)
    return pa.concat_tables([_LOAD.empty_table(), *rows])
