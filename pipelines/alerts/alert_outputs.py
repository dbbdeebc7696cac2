"""Alerts at the end of a run: as Prometheus text, as JSON, as a message for people, and as a webhook."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipelines.alerts.findings import (
    BROKER_DOWN,
    FAILED_LOG_DIR,
    FULL_LOG_DIR,
    AlertState,
    JudgedFinding,
    Threshold,
    ThresholdResult,
    check_thresholds,
    find_hidden,
    is_below,
    judge_findings,
    parse_thresholds,
    read_findings,
    read_last_states,
    record_changes,
)
from pipelines.config.setting_sections import AlertSettings
from pipelines.errors import SettingsError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.store import Store
from pipelines.stages.scheme_comparison_stage import METRICS
from pipelines.tables.gold_tables import SCHEME_COMPARISON
from pipelines.verdict.cluster_evidence import PartitionIssue, name_brokers, name_some, name_topics
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.verdict_points import Level, fill_forms
from pipelines.whole_files import replace_text
from udfs.wording import count_of

_EFFECTS: dict[str, str] = {
    PartitionIssue.OFFLINE: "{n} [partition is|partitions are] offline now",
    PartitionIssue.UNDER_MIN_ISR: "{n} [partition is|partitions are] below min.insync.replicas now",
    PartitionIssue.OFFLINE_IF_RACK_FAILS: "{n} [partition|partitions] would go offline if one rack fails",
    PartitionIssue.OFFLINE_IF_BROKER_FAILS: "{n} [partition|partitions] would go offline if one broker fails",
    PartitionIssue.UNDER_REPLICATED: "{n} [partition is|partitions are] under-replicated",
    PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS: "{n} [partition|partitions] would fall below min.insync.replicas if "
    "one broker fails",
}
_OF_BROKERS = {
    BROKER_DOWN: "[broker|brokers] {names} [is|are] down",
    FAILED_LOG_DIR: "[log dir|log dirs] {names} failed",
    FULL_LOG_DIR: "[log dir|log dirs] {names} [is|are] nearly full",
}
_MAX_LINES = 30  # of a message
_SECONDS = 10  # to connect, and to answer
_ATTEMPTS = 3


@dataclass(frozen=True)
class AlertReport:
    """What a run has to say."""

    created_at: datetime  # UTC
    verdicts: Mapping[str, Verdict]  # by cluster
    findings: Sequence[JudgedFinding]
    thresholds: Sequence[ThresholdResult]
    below_level: int = 0  # findings that do not fire as they are less serious than alerts.level

    @property
    def is_firing(self) -> bool:
        """Whether a finding is new, or a threshold is crossed."""
        return any(one.is_new for one in self.findings) or any(one.is_crossed for one in self.thresholds)


def describe_alerts(report: AlertReport) -> list[str]:
    """Return a line per cluster and issue with new findings, then one per crossed threshold."""
    groups: dict[tuple[str, str], list[JudgedFinding]] = defaultdict(list)
    for one in report.findings:
        if one.is_new:
            groups[one.finding.cluster_id, one.finding.issue].append(one)
    lines = [_describe_group(cluster, issue, some) for (cluster, issue), some in groups.items()]
    return [*lines, *(one.describe() for one in report.thresholds if one.is_crossed)]


def _describe_group(cluster: str, issue: str, group: Sequence[JudgedFinding]) -> str:
    findings = [one.finding for one in group]
    if text := _OF_BROKERS.get(issue):
        names = name_brokers([one.subject for one in findings])
        return f"{cluster}: new: {fill_forms(text, len(findings), names=names)}"
    count = sum(one.partitions or 0 for one in findings)
    names = name_topics(((one.subject, one.partitions or 0) for one in findings), len(findings))
    return f"{cluster}: new: {fill_forms(_EFFECTS[issue], count)}: {names}"


def build_alerts_json(report: AlertReport) -> dict[str, Any]:
    """Return the report as JSON takes it: per cluster the verdict and the findings by state; and the thresholds."""
    clusters = []
    for cluster, verdict in sorted(report.verdicts.items()):
        some = [one for one in report.findings if one.finding.cluster_id == cluster]
        by_progress = {
            progress: [_finding_json(one) for one in some if one.progress == progress]
            for progress in ("new", "ongoing", "acknowledged", "resolved")
        }
        answer = {"cluster_id": cluster, "level": verdict.level, "sentence": verdict.sentence}
        clusters.append(answer | by_progress)
    thresholds = [
        {"cluster_id": one.cluster_id, "metric": one.threshold.metric, "threshold": one.threshold.text}
        | {"value": one.value, "is_crossed": one.is_crossed}
        for one in report.thresholds
    ]
    created_at = report.created_at.isoformat(timespec="seconds")
    return {"created_at": created_at, "clusters": clusters, "thresholds": thresholds}


def _finding_json(one: JudgedFinding) -> dict[str, Any]:
    answer: dict[str, Any] = {"issue": one.finding.issue, "subject": one.finding.subject}
    if one.finding.partitions is not None:
        answer["partitions"] = one.finding.partitions
    if not one.is_shown:
        answer["is_shown"] = False
    if one.acknowledgement is not None:
        answer |= {"reason": one.acknowledgement.reason, "until": one.acknowledgement.until.isoformat()}
    return answer


def render_prometheus(report: AlertReport) -> str:
    """Render the report in the text format of Prometheus, for the textfile collector of the node exporter."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"kafka_placement_{name}", text, ("cluster", *labels), registry=registry)

    verdict = gauge("verdict", "1 for the level of the cluster's verdict, else 0.", "level")
    run_time = gauge("run_timestamp_seconds", "Time of the run.")
    fresh = gauge("new_findings", "Findings that the previous run with alerts did not have.")
    findings = gauge("findings", "Topics, brokers or log dirs with an issue.", "issue", "state")
    partitions = gauge("issue_partitions", "Partitions with an issue.", "issue", "state")
    crossed = gauge("threshold_crossed", "1 if the threshold of --alert is crossed, else 0.", "threshold")
    value = gauge("metric_value", "Value of the metric of a threshold.", "metric")
    for cluster, one in report.verdicts.items():
        for level in Level:
            verdict.labels(cluster, level.value).set(one.level is level)
        run_time.labels(cluster).set(report.created_at.timestamp())
        fresh.labels(cluster).set(sum(f.is_new for f in report.findings if f.finding.cluster_id == cluster))
    for finding, state, *_ in report.findings:
        if state is not AlertState.RESOLVED:
            labels = finding.cluster_id, finding.issue, state.value
            findings.labels(*labels).inc()
            if finding.partitions is not None:
                partitions.labels(*labels).inc(finding.partitions)
    for result in report.thresholds:
        crossed.labels(result.cluster_id, result.threshold.text).set(result.is_crossed)
        value.labels(result.cluster_id, result.threshold.metric).set(result.value)
    return generate_latest(registry).decode()


def write_alert_files(report: AlertReport, prometheus_file: str, json_file: str) -> None:
    """Replace the files as a whole, so that no scrape reads half of one; raise SettingsError if that fails."""
    if prometheus_file:
        _replace(Path(prometheus_file), "alerts.prometheus_file", render_prometheus(report))
    if json_file:
        text = json.dumps(build_alerts_json(report), indent=1, ensure_ascii=False)
        _replace(Path(json_file), "alerts.json_file", text + "\n")


def _replace(file: Path, setting: str, text: str) -> None:
    try:
        replace_text(file, text)
    except OSError as error:
        problem = f"cannot be written: {error.strerror}. Name a file in a folder that exists"
        raise SettingsError(f"{setting} {file}: {problem}") from error


def post_alerts(url: str, lines: Iterable[str]) -> str:
    """Post lines to a webhook as {"text": ...}, as Slack takes it; return why it failed, empty = delivered.

    The address may be a secret: no error has more of it than the host.
    """
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    every = list(lines)
    more = len(every) - _MAX_LINES
    text = "\n".join([*every[:_MAX_LINES], *([f"and {count_of(more, 'more alert')}"] if more > 0 else [])])
    host = urlsplit(url).hostname or "the address"
    retry = Retry(_ATTEMPTS - 1, backoff_factor=1, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None)
    retry.raise_on_status = False
    try:
        with requests.Session() as session:
            for scheme in ("https://", "http://"):
                session.mount(scheme, HTTPAdapter(max_retries=retry))
            answer = session.post(url, json={"text": text}, timeout=_SECONDS)
    except requests.RequestException as error:
        return f"{host}: {type(error).__name__}"
    return "" if answer.ok else f"{host} answers {answer.status_code} {answer.reason}"


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
    findings, below_level = [], 0
    if rules.fires_on_new:
        current, previous = read_findings(store, snapshots), read_last_states(store, clusters)
        hidden = find_hidden(store, snapshots, previous)
        findings = judge_findings(current, previous, settings.acknowledged, now.date(), settings.level, hidden)
        below_level = sum(is_below(finding, settings.level) for finding in current)
        ended = [one for one in settings.acknowledged if one.until < now.date()]
        warnings += [
            f"alerts.acknowledged: {one.subject!r} ended on {one.until}: remove it, or extend it ({one.reason})"
            for one in ended
        ]
    return AlertReport(now, verdicts, findings, results, below_level), warnings


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
        (report.below_level, f'{count_of(report.below_level, "finding")} below alerts.level = "{settings.level}"'),
        *((counts[state], count_of(counts[state], f"{state} finding")) for state in ("acknowledged", "resolved")),
    ]
    quiet = [text for number, text in parts if number]
    return [
        *(f"alert: {line}" for line in lines),
        *_describe_unseen(report.findings),
        *([f"no alert for {', '.join(quiet)}"] if quiet else []),
    ]


def _describe_unseen(findings: Sequence[JudgedFinding]) -> Iterator[str]:
    """Yield for each cluster which findings stay as they were, as its sources do not show their subjects."""
    unseen = [one.finding for one in findings if not one.is_shown]
    for cluster in dict.fromkeys(one.cluster_id for one in unseen):
        names = [one.subject for one in unseen if one.cluster_id == cluster]
        text = fill_forms("{n} [finding stays|findings stay] as [it was|they were]", len(names))
        yield f"{cluster}: {text}, as the sources do not show all of {name_some(names)}: is a listing cut or filtered?"
