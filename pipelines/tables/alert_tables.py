"""The table of alerts, which `run --alert new` writes."""

from pipelines.tables.table_contract import Table, columns
from udfs.arrow.columns import LONG, TEXT, TIME, column

ALERTS = Table(
    "ops.alerts",
    "One row per change of a finding between runs with alerts: it fires, is acknowledged or is resolved.",
    columns(
        column("issue", TEXT, "offline, under_min_isr, offline_if_rack_fails, ..., or broker_down", required=True),
        column("subject", TEXT, "the topic, or the id of the broker", required=True),
        column("partitions", LONG, "partitions of the topic with the issue; null for brokers"),
        column("state", TEXT, "state since then: firing, acknowledged or resolved", required=True),
        column("changed_at", TIME, "time of the run that noticed the change (UTC)", required=True),
    ),
    keys=(),
    append_only=True,
)
