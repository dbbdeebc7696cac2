"""The table ops.alerts: when findings began to fire, were acknowledged, or were resolved."""

from collections.abc import Sequence
from datetime import datetime

from pipelines.alerts.findings import AlertFinding, AlertState, JudgedFinding
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.arrow_frames import make_rows
from pipelines.spark.store import Store
from pipelines.sql_text import quote_text
from pipelines.tables.alert_tables import ALERTS

_LAST_STATES = """
SELECT cluster_id, issue, subject, max_by(partitions, changed_at) AS partitions, max_by(state, changed_at) AS state
FROM ops.alerts WHERE cluster_id IN ({clusters}) GROUP BY cluster_id, issue, subject
"""


def read_last_states(store: Store, clusters: Sequence[str]) -> list[tuple[AlertFinding, AlertState]]:
    """Read the last state of each finding of these clusters; none before the first run with alerts."""
    if not store.exists(ALERTS.name):
        return []
    sql = _LAST_STATES.format(clusters=", ".join(map(quote_text, clusters)))
    with store.explain_faults():
        rows = store.open_sql([ALERTS.name]).run(sql).to_pylist()
    names = AlertFinding._fields
    return [(AlertFinding(*(row[name] for name in names)), AlertState(row["state"])) for row in rows]


def record_changes(
    store: Store, judged: Sequence[JudgedFinding], snapshots: Sequence[SnapshotKey], now: datetime
) -> None:
    """Append the findings whose state has changed."""
    snapshot = {key.cluster_id: key.snapshot_id for key in snapshots}
    rows = [
        (one.cluster_id, snapshot[one.cluster_id], one.issue, one.subject, one.partitions, str(state), now)
        for one, state, is_changed, _ in judged
        if is_changed
    ]
    if rows:
        store.append(ALERTS, make_rows(rows, ALERTS.schema))
