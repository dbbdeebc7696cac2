"""Compares what an earlier run has forecast with the newest snapshot of its cluster: gold.forecast_outcomes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.growth_measurement import order_samples
from pipelines.ingest.sources import SnapshotKey
from pipelines.retention import SeenSnapshot
from pipelines.spark.arrow_frames import make_rows, to_utc
from pipelines.spark.sql_session import SqlSession
from pipelines.spark.store import Store
from pipelines.sql_text import match_snapshots
from pipelines.stages.growth_stage import ClusterSample
from pipelines.tables.growth_tables import FORECAST_OUTCOMES, ForecastKind
from udfs.growth.load_history import QUANTITIES, SubjectKind

_PAIRS = "snapshot_pairs"
_PAIR_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster_id", "earlier_id", "later_id")),
        ("earlier_at", pa.timestamp("us", "UTC")),
        ("days", pa.float64()),  # between them
    ]
)
_S_PER_DAY = 86_400
_INPUTS = ("gold.growth", "gold.load_history", "silver.brokers", "silver.partitions")
_PLACES = f"('{SubjectKind.BROKER}', '{SubjectKind.LOG_DIR}')"
# Values whose sources show other partitions than before are not compared, nor those of topics that were created again,
# nor of brokers and log dirs that gained or lost more replicas than the cluster: a plan has moved those.
_GROWTH_SQL = f"""
WITH loads AS (SELECT * FROM gold.load_history WHERE {{condition}}),
clusters AS (
  SELECT p.*, abs(b.replicas - a.replicas) AS new_replicas FROM {_PAIRS} p
  JOIN loads a ON a.cluster_id = p.cluster_id AND a.snapshot_id = p.earlier_id
  JOIN loads b ON b.cluster_id = p.cluster_id AND b.snapshot_id = p.later_id
  WHERE a.subject_kind = '{SubjectKind.CLUSTER}' AND b.subject_kind = '{SubjectKind.CLUSTER}'
    AND b.partitions >= coalesce(b.all_partitions, b.partitions)
),
subjects AS (
  SELECT c.later_id, c.days, a.cluster_id, a.snapshot_id, a.subject_kind, a.broker_id, a.log_dir, a.topic,
         c.earlier_at, {{columns}}
  FROM clusters c
  JOIN loads a ON a.cluster_id = c.cluster_id AND a.snapshot_id = c.earlier_id
  JOIN loads b ON b.cluster_id = c.cluster_id AND b.snapshot_id = c.later_id AND b.subject_kind = a.subject_kind
    AND b.broker_id <=> a.broker_id AND b.log_dir <=> a.log_dir AND b.topic <=> a.topic
  WHERE CASE
    WHEN a.subject_kind IN {_PLACES} THEN abs(b.replicas - a.replicas) <= c.new_replicas
    WHEN a.subject_kind = '{SubjectKind.TOPIC}' THEN b.partitions >= a.partitions
      AND coalesce(b.topic_id = a.topic_id, true)
    ELSE true END
),
compared AS (
  SELECT g.cluster_id, s.later_id, g.subject_kind, g.quantity, g.level + g.slope_per_day * s.days AS forecast,
         (g.slope_per_day_high - g.slope_per_day_low) / 2 * s.days AS drift, g.level_margin,
         CASE g.quantity {{values}} END AS value
  FROM gold.growth g JOIN subjects s ON s.cluster_id = g.cluster_id AND s.snapshot_id = g.snapshot_id
    AND s.subject_kind = g.subject_kind AND s.broker_id <=> g.broker_id AND s.log_dir <=> g.log_dir
    AND s.topic <=> g.topic
  WHERE g.level_margin IS NOT NULL AND g.last_at = s.earlier_at
)
SELECT cluster_id, later_id AS snapshot_id, subject_kind, quantity, count(*) AS forecasts,
       count_if(abs(value - forecast) <= sqrt(level_margin * level_margin + drift * drift) + 1e-9 * abs(forecast))
         AS as_forecast
FROM compared WHERE value IS NOT NULL
GROUP BY cluster_id, later_id, subject_kind, quantity
"""
_FAILED_SQL = f"""
SELECT p.cluster_id, p.earlier_id, p.later_id AS snapshot_id, max(a.broker_id) AS broker_id
FROM {_PAIRS} p
JOIN silver.brokers a ON a.cluster_id = p.cluster_id AND a.snapshot_id = p.earlier_id AND a.live
JOIN silver.brokers b ON b.cluster_id = p.cluster_id AND b.snapshot_id = p.later_id AND b.broker_id = a.broker_id
  AND NOT b.live
GROUP BY p.cluster_id, p.earlier_id, p.later_id HAVING count(*) = 1
"""
# Of partitions with the same replicas in both: others were reassigned in between.
_LEADERS_SQL = f"""
SELECT f.cluster_id, f.snapshot_id, f.broker_id, count(*) AS forecasts,
       count_if(nullif(a.successor, -1) <=> nullif(b.leader, -1)) AS as_forecast,
       count_if(nullif(a.successor, -1) IS NULL) AS offline, count_if(nullif(b.leader, -1) IS NULL) AS offline_now,
       count_if(nullif(a.successor, -1) IS NULL AND nullif(b.leader, -1) IS NULL) AS offline_as_forecast
FROM ({_FAILED_SQL}) f
JOIN silver.partitions a ON a.cluster_id = f.cluster_id AND a.snapshot_id = f.earlier_id AND a.leader = f.broker_id
JOIN silver.partitions b ON b.cluster_id = f.cluster_id AND b.snapshot_id = f.snapshot_id AND b.topic = a.topic
  AND b.partition = a.partition AND b.replicas = a.replicas
GROUP BY f.cluster_id, f.snapshot_id, f.broker_id
"""


class _SamplePair(NamedTuple):
    """The newest snapshot of a cluster, and the one before it: the same if the cluster did not change in between."""

    cluster_id: str
    earlier_id: str
    later_id: str
    earlier_at: datetime
    later_at: datetime

    @property
    def later(self) -> SnapshotKey:
        return SnapshotKey(self.cluster_id, self.later_id)


def record_outcomes(store: Store, seen: Iterable[SeenSnapshot]) -> None:
    """Write what has become of the forecasts of the run before, with the newest snapshot of each cluster.

    To be called before gold.growth is measured again. seen: as measure_growth has it.
    """
    seen = list(seen)
    samples = order_samples(seen)
    if not samples or not store.exists("gold.load_history"):  # of runs that did not get so far
        return
    store.create(FORECAST_OUTCOMES)
    pairs = {pair.later: pair for pair in _pair_samples(samples)}
    if not pairs or not all(store.exists(name) for name in _INPUTS):
        return
    later = sorted(pairs)
    keys = sorted({*later, *(SnapshotKey(pair.cluster_id, pair.earlier_id) for pair in pairs.values())})
    with store.explain_faults():
        session = store.open_sql(_INPUTS, keys, {_PAIRS: _make_table(pairs.values())})
        rows = [*_compare_growth(session, keys), *_compare_leaders(session)]
    times = {key: {"forecast_at": pair.earlier_at, "outcome_at": pair.later_at} for key, pair in pairs.items()}
    rows = [{**row, **times[_get_key(row)]} for row in rows]
    replaced = _find_replaced(seen, pairs.values())
    before = store.read_columns(FORECAST_OUTCOMES.name, FORECAST_OUTCOMES.column_names, [*later, *replaced]).to_pylist()
    staying = list(_select_staying(before, rows, replaced))
    values = [tuple(row.get(name) for name in FORECAST_OUTCOMES.column_names) for row in (*rows, *staying)]
    if rows or len(staying) < len(before):  # a run that compares nothing leaves no commit
        store.replace(FORECAST_OUTCOMES, make_rows(values, FORECAST_OUTCOMES.schema), [*later, *replaced])


def _find_replaced(seen: Iterable[SeenSnapshot], pairs: Iterable[_SamplePair]) -> dict[SnapshotKey, datetime]:
    """Return the snapshots that others of the same time have replaced as the newest, with this time."""
    newest = {pair.cluster_id: pair for pair in pairs}
    return {
        row.key: row.as_of
        for row in seen
        if (pair := newest.get(row.cluster_id)) and row.as_of == pair.later_at and row.key != pair.later
    }


def _select_staying(
    before: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]], replaced: Mapping[SnapshotKey, datetime]
) -> Iterator[Mapping[str, Any]]:
    """Select the outcomes of before that stay: a cluster that did not change has some of several times.

    Where a run is repeated, the forecasts of before are gone, so that nothing takes the place of their outcomes.
    """
    again = {(_get_key(row), row["forecast_kind"], row["outcome_at"]) for row in rows}
    for row in before:
        key, at = _get_key(row), to_utc(row["outcome_at"])
        if replaced.get(key) != at and (key, row["forecast_kind"], at) not in again:
            yield row


def _pair_samples(samples: Mapping[str, Sequence[ClusterSample]]) -> Iterator[_SamplePair]:
    """Pair the last two times at which each cluster was seen."""
    for cluster, of_cluster in samples.items():
        if len(of_cluster) > 1:
            earlier, later = of_cluster[-2:]
            yield _SamplePair(cluster, earlier.snapshot_id, later.snapshot_id, earlier.at, later.at)


def _make_table(pairs: Iterable[_SamplePair]) -> pa.Table:
    """Return pairs as rows (_PAIR_COLUMNS)."""
    rows = [
        {**pair._asdict(), "days": (pair.later_at - pair.earlier_at).total_seconds() / _S_PER_DAY} for pair in pairs
    ]
    return pa.Table.from_pylist(rows, _PAIR_COLUMNS)


def _get_key(row: Mapping[str, Any]) -> SnapshotKey:
    return SnapshotKey(row["cluster_id"], row["snapshot_id"])


def _compare_growth(session: SqlSession, keys: Sequence[SnapshotKey]) -> Iterable[Mapping[str, Any]]:
    """Count the series of each kind whose next value is in the interval of their growth."""
    columns = ", ".join(
        f"CASE WHEN b.{count} * a.partitions = a.{count} * b.partitions THEN b.{name} END AS {name}"
        for name, count in QUANTITIES.items()
    )
    values = " ".join(f"WHEN '{name}' THEN CAST(s.{name} AS DOUBLE)" for name in QUANTITIES)
    sql = _GROWTH_SQL.format(condition=match_snapshots(keys), columns=columns, values=values)
    for row in session.run(sql).to_pylist():
        yield {"forecast_kind": ForecastKind.GROWTH.value, **row}


def _compare_leaders(session: SqlSession) -> Iterable[Mapping[str, Any]]:
    """Count the leaders, and the partitions without one, after each failure of a single broker."""
    if not session.run(_FAILED_SQL).num_rows:
        return
    for row in session.run(_LEADERS_SQL).to_pylist():
        yield {"forecast_kind": ForecastKind.LEADERS.value, **row}
        if forecast := row["offline"]:
            yield {
                **row,
                "forecast_kind": ForecastKind.OFFLINE_PARTITIONS.value,
                "forecasts": forecast,
                "as_forecast": row["offline_as_forecast"],
                "forecast_value": float(forecast),
                "actual_value": float(row["offline_now"]),
            }
