"""Alerts of a run as Prometheus text, as JSON, as a message for people, and as a webhook."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipelines.alerts.findings import BROKER_DOWN, AlertState, JudgedFinding
from pipelines.alerts.thresholds import ThresholdResult
from pipelines.errors import SettingsError
from pipelines.verdict.cluster_evidence import PartitionIssue
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.levels import Level
from pipelines.verdict.naming import name_brokers, name_topics
from pipelines.verdict.verdict_points import fill_forms
from pipelines.whole_files import replace_text
from udfs.plurals import count_of

_EFFECTS: dict[str, str] = {
    PartitionIssue.OFFLINE: "{n} [partition is|partitions are] offline now",
    PartitionIssue.UNDER_MIN_ISR: "{n} [partition is|partitions are] below min.insync.replicas now",
    PartitionIssue.OFFLINE_IF_RACK_FAILS: "{n} [partition|partitions] would go offline if one rack fails",
    PartitionIssue.OFFLINE_IF_BROKER_FAILS: "{n} [partition|partitions] would go offline if one broker fails",
    PartitionIssue.UNDER_REPLICATED: "{n} [partition is|partitions are] under-replicated",
    PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS: "{n} [partition|partitions] would fall below min.insync.replicas if "
    "one broker fails",
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
    if issue == BROKER_DOWN:
        names = name_brokers([one.subject for one in findings])
        return f"{cluster}: new: {fill_forms('[broker|brokers] {names} [is|are] down', len(findings), names=names)}"
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
    findings = gauge("findings", "Topics (or brokers) with an issue.", "issue", "state")
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
