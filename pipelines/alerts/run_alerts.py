"""Alerts at the end of a run: what is new since the previous run with alerts, and which thresholds are crossed."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pipelines.alerts.alert_outputs import AlertReport, describe_alerts, post_alerts, write_alert_files
from pipelines.alerts.findings import judge_findings, read_findings, read_last_states, record_changes
from pipelines.alerts.thresholds import Threshold, check_thresholds, parse_thresholds
from pipelines.config.setting_sections import AlertSettings
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import Store
from pipelines.stages.scheme_comparison_stage import METRICS
from pipelines.tables.gold_tables import SCHEME_COMPARISON
from pipelines.verdict.judgement import Verdict
from udfs.plurals import count_of

NEW = "new"  # --alert new: findings that the previous run with alerts did not have


@dataclass(frozen=True)
class AlertRules:
    """What a run checks."""

    thresholds: Sequence[Threshold]
    fires_on_new: bool

    def __bool__(self) -> bool:
        """Tell whether there is anything to check."""
        return bool(self.thresholds) or self.fires_on_new


def parse_alerts(texts: Sequence[str], settings: AlertSettings, clusters: Sequence[str]) -> AlertRules:
    """Parse --alert; raise SettingsError. New findings fire if --alert new or an output asks for it."""
    thresholds = parse_thresholds([text for text in texts if text.strip() != NEW], METRICS, clusters)
    return AlertRules(thresholds, len(thresholds) < len(texts) or settings.have_output)


def check_run(
    store: Store,
    snapshots: Sequence[SnapshotKey],
    rules: AlertRules,
    settings: AlertSettings,
    verdicts: Mapping[str, Verdict],
) -> tuple[AlertReport, list[str]]:
    """Judge the snapshots of a run; return the report, and warnings about rules that have no effect."""
    now, clusters = datetime.now(UTC), [key.cluster_id for key in snapshots]
    rows = store.read_rows(SCHEME_COMPARISON.name, snapshots, ("cluster_id", "scheme", "metric", "value"))
    values = {(row["cluster_id"], row["metric"]): row["value"] for row in rows if row["scheme"] == "observed"}
    results, unknown = check_thresholds(rules.thresholds, clusters, values)
    warnings = [f"--alert {line}" for line in unknown]
    findings = []
    if rules.fires_on_new:
        current, previous = read_findings(store, snapshots), read_last_states(store, clusters)
        findings = judge_findings(current, previous, settings.acknowledged, now.date(), settings.level)
        ended = [one for one in settings.acknowledged if one.until < now.date()]
        warnings += [
            f"alerts.acknowledged: {one.subject!r} ended on {one.until}: remove it, or extend it ({one.reason})"
            for one in ended
        ]
    return AlertReport(now, verdicts, findings, results), warnings


def deliver(
    store: Store,
    snapshots: Sequence[SnapshotKey],
    report: AlertReport,
    settings: AlertSettings,
    warn: Callable[[str], None],
) -> list[str]:
    """Write and send the alerts of a run, then record them; return the lines to print.

    If the webhook cannot be reached, nothing is recorded, so that the next run sends the alerts again.
    """
    write_alert_files(report, settings.prometheus_file, settings.json_file)
    lines = describe_alerts(report)
    if lines and settings.webhook and (problem := post_alerts(settings.webhook, lines)):
        warn(f"alerts.webhook: {problem}. The alerts were not delivered; the next run sends them again")
    else:
        record_changes(store, report.findings, snapshots, report.created_at)
    counts = Counter(one.progress for one in report.findings)
    parts = [
        (counts["ongoing"], f"{count_of(counts['ongoing'], 'finding')} reported before"),
        *((counts[state], count_of(counts[state], f"{state} finding")) for state in ("acknowledged", "resolved")),
    ]
    quiet = [text for number, text in parts if number]
    return [*(f"alert: {line}" for line in lines), *([f"no alert for {', '.join(quiet)}"] if quiet else [])]
