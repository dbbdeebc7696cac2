"""One row of sums -> the rows of each gold table, keys in front. For `applyInArrow` by cluster, snapshot and scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from udfs.durability.durability_rows import DURABILITY, DurabilityPlan, durability
from udfs.failures.aggregates import unpacked
from udfs.failures.failure_rows import LOAD, SUMMARY, Outcome, loads, summary
from udfs.failures.headroom import HEADROOM, OVER, capacity
from udfs.failures.load_rows import BROKER_LOAD, MEASURES, broker_load, cluster_hotspots
from udfs.failures.random_failures import RANDOM_FAILURES, random_failures
from udfs.failures.seed_rows import SEEDS, seeds
from udfs.failures.shards import hotspots_in, scenarios_in

Racks = tuple[str | None, ...]
Made = Callable[[Outcome, Racks, pa.Table], pa.Table]
Body = Callable[[pa.Table], pa.Table]
Limits = Mapping[tuple[str, str], np.ndarray]

_KEY = (("cluster_id", pa.string()), ("snapshot_id", pa.string()), ("scheme", pa.string()))


def keyed(schema: pa.Schema) -> pa.Schema:
    """The schema with the keys of all gold tables in front."""
    return pa.schema([*_KEY, *schema])


def _body(made: Made, schema: pa.Schema) -> Body:
    def rows(row: pa.Table) -> pa.Table:
        arrays = unpacked(row["sums"][0].as_py())
        ids = np.array(row["brokers"][0].as_py(), dtype=np.int32)
        outcome = Outcome(ids, scenarios_in(arrays), arrays)
        found = made(outcome, tuple(row["racks"][0].as_py()), row)
        keys = [pa.repeat(row[name][0], found.num_rows) for name, _ in _KEY]
        columns = [column.combine_chunks() for column in found.columns]
        return pa.Table.from_arrays([*keys, *columns], schema=keyed(schema))

    return rows


def broker_load_rows() -> Body:
    """Rows of gold.broker_load."""
    return _body(lambda outcome, racks, _: broker_load(outcome, racks), BROKER_LOAD)


def hotspot_rows(hot_ratio: float) -> Body:
    """Rows of gold.leader_hotspots: the cluster, and each topic."""

    def made(outcome: Outcome, _: Racks, row: pa.Table) -> pa.Table:
        whole = pa.Table.from_batches([cluster_hotspots(outcome, hot_ratio)])
        return pa.concat_tables([whole, hotspots_in(row["topic_hotspots"][0].as_py())])

    return _body(made, MEASURES)


def summary_rows() -> Body:
    """Rows of gold.failure_summary."""
    return _body(lambda outcome, _, __: summary(outcome), SUMMARY)


def load_rows() -> Body:
    """Rows of gold.failure_load."""
    return _body(lambda outcome, _, __: pa.concat_tables([LOAD.empty_table(), *loads(outcome)]), LOAD)


def random_rows() -> Body:
    """Rows of gold.random_failures."""
    return _body(lambda outcome, _, __: random_failures(outcome), RANDOM_FAILURES)


def seed_rows() -> Body:
    """Rows of gold.scheme_distribution."""
    return _body(lambda outcome, _, __: seeds(outcome), SEEDS)


def durability_rows(plan: DurabilityPlan) -> Body:
    """Rows of gold.durability."""
    return _body(lambda outcome, racks, _: durability(outcome, racks, plan), DURABILITY)


def headroom_rows(limits: Limits, headroom: float) -> Body:
    """Rows of gold.headroom. limits: {(cluster, snapshot): capacities (n, loads)}, uniform where not named."""
    return _capacity(limits, headroom, 0, HEADROOM)


def over_rows(limits: Limits, headroom: float) -> Body:
    """Rows of gold.over_capacity; arguments as of headroom_rows."""
    return _capacity(limits, headroom, 1, OVER)


def _capacity(limits: Limits, headroom: float, which: int, schema: pa.Schema) -> Body:
    def made(outcome: Outcome, _: Racks, row: pa.Table) -> pa.Table:
        key = (row["cluster_id"][0].as_py(), row["snapshot_id"][0].as_py())
        return capacity(outcome, limits.get(key), headroom)[which]

    return _body(made, schema)
