"""What is wrong with each topic and broker of a cluster, since when, and which thresholds of --alert are crossed."""

import math
import operator
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from pipelines.config.setting_sections import Acknowledgement
from pipelines.errors import SettingsError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.arrow_frames import make_rows
from pipelines.spark.store import Store
from pipelines.sql_text import match_snapshots, quote_text
from pipelines.tables.alert_tables import ALERTS
from pipelines.tables.gold_tables import CLUSTER_FINDINGS
from pipelines.verdict import statements
from pipelines.verdict.cluster_evidence import IS_CUT_SQL, ISSUES_SQL, PartitionIssue
from pipelines.verdict.verdict_points import Level
from udfs.wording import quote_value, shorten_text

BROKER_DOWN = "broker_down"
FAILED_LOG_DIR = "failed_log_dir"
FULL_LOG_DIR = "full_log_dir"
ISSUE_LEVELS: dict[str, Level] = {
    PartitionIssue.OFFLINE: statements.OFFLINE.level,
    PartitionIssue.UNDER_MIN_ISR: statements.UNDER_MIN_ISR.level,
    PartitionIssue.OFFLINE_IF_RACK_FAILS: statements.RACK_OFFLINE.level,
    PartitionIssue.OFFLINE_IF_BROKER_FAILS: statements.BROKER_OFFLINE.level,
    BROKER_DOWN: statements.DOWN.level,
    FAILED_LOG_DIR: statements.FAILED_LOG_DIR.level,
    PartitionIssue.UNDER_REPLICATED: statements.UNDER_REPLICATED.level,
    PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS: statements.BROKER_UNDER_MIN_ISR.level,
    FULL_LOG_DIR: statements.FULL_LOG_DIR.level,
}
_OF_BROKERS = (BROKER_DOWN, FAILED_LOG_DIR, FULL_LOG_DIR)
_TABLES = ("silver.partitions", "silver.topics", "silver.brokers")
_QUERY = """
SELECT cluster_id, issue, topic AS subject, count(*) AS partitions
FROM ({issues}) GROUP BY cluster_id, issue, topic
UNION ALL
SELECT cluster_id, '{broker_down}', CAST(broker_id AS STRING), NULL FROM silver.brokers
WHERE {condition} AND live IS FALSE
"""


# Which of these topics and brokers the sources do not show as a whole, and what they show of all.
_VISIBLE_SQL = f"""
SELECT cluster_id, 'topic' AS kind, topic AS subject, {IS_CUT_SQL} AS is_cut FROM silver.topics
WHERE {{condition}} AND ({IS_CUT_SQL} OR topic IN ({{names}}))
UNION ALL
SELECT b.cluster_id, 'broker', CAST(b.broker_id AS STRING), b.live IS NULL OR NOT b.live OR l.broker_id IS NULL
FROM (SELECT * FROM silver.brokers WHERE {{condition}}) b
LEFT JOIN (SELECT DISTINCT cluster_id, broker_id FROM silver.log_dirs WHERE {{condition}}) l
  ON l.cluster_id = b.cluster_id AND l.broker_id = b.broker_id
UNION ALL
SELECT cluster_id, 'unknown broker', CAST(broker_id AS STRING), true FROM silver.brokers
WHERE {{condition}} AND live IS NULL
"""


class AlertFinding(NamedTuple):
    """An issue of one topic, broker or log dir."""

    cluster_id: str
    issue: str  # of ISSUE_LEVELS
    subject: str  # the topic, the id of the broker, or the log dir as in `/data1 of broker 2`
    partitions: int | None = None  # of the topic that have the issue

    @property
    def key(self) -> tuple[str, str, str]:
        """What remains the same from run to run."""
        return self[:3]


class AlertState(StrEnum):
    """The state of a finding in ops.alerts."""

    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class JudgedFinding(NamedTuple):
    """A finding with its state."""

    finding: AlertFinding
    state: AlertState
    is_changed: bool  # whether the state differs from that in the previous run with alerts
    acknowledgement: Acknowledgement | None = None
    is_shown: bool = True  # False = it is as in the previous run, as the sources do not show its subject now

    @property
    def is_new(self) -> bool:
        """Whether an alert is due."""
        return self.is_changed and self.state is AlertState.FIRING

    @property
    def progress(self) -> str:
        """The state, where findings that fire are new or ongoing."""
        return self.state.value if self.state is not AlertState.FIRING else "new" if self.is_changed else "ongoing"


def read_findings(store: Store, snapshots: Sequence[SnapshotKey]) -> list[AlertFinding]:
    """Read the findings of snapshots, in the order of ISSUE_LEVELS."""
    condition = match_snapshots(list(snapshots))
    issue_sql = ISSUES_SQL.format(partitions=f"(SELECT * FROM silver.partitions WHERE {condition})")
    sql = _QUERY.format(issues=issue_sql, broker_down=BROKER_DOWN, condition=condition)
    with store.explain_faults():
        rows = store.open_sql(_TABLES, snapshots).run(sql).to_pylist()
    issues, findings = list(ISSUE_LEVELS), [AlertFinding(**row) for row in rows]
    columns = ("cluster_id", "failed_log_dirs", "failed_dir_brokers", "full_log_dirs")
    for row in store.read_rows(CLUSTER_FINDINGS.name, snapshots, columns):
        findings += _list_log_dirs(*(row[name] for name in columns))
    return sorted(findings, key=lambda one: (one.cluster_id, issues.index(one.issue), -(one.partitions or 0), one.key))


def _list_log_dirs(
    cluster: str, failed: Sequence[str], failed_brokers: Sequence[int], full: Sequence[str]
) -> Iterator[AlertFinding]:
    """Yield the findings on log dirs of a row of gold.cluster_findings."""
    unnamed = {f"{broker}" for broker in failed_brokers} - {_name_broker(name) for name in failed}
    names = [*failed, *(f"a log dir of broker {broker}" for broker in sorted(unnamed))]
    yield from (AlertFinding(cluster, FAILED_LOG_DIR, name) for name in names)
    yield from (AlertFinding(cluster, FULL_LOG_DIR, name.rpartition(" (")[0]) for name in full)  # without its percent


def _name_broker(subject: str) -> str:
    """Return the id of the broker that is, or has, the subject of a finding."""
    return subject.rpartition(" ")[2]


def find_hidden(
    store: Store, snapshots: Sequence[SnapshotKey], previous: Iterable[tuple[AlertFinding, AlertState]]
) -> set[tuple[str, str, str]]:
    """Find the keys of findings of earlier runs whose subject the sources of this one do not show as a whole.

    Where a listing was cut or filtered, topics that it lacks are not known to be gone.
    """
    open_ones = [finding for finding, state in previous if state is not AlertState.RESOLVED]
    names = {one.subject for one in open_ones if one.issue not in _OF_BROKERS}
    quoted = ", ".join(map(quote_text, sorted(names))) or "NULL"
    sql = _VISIBLE_SQL.format(condition=match_snapshots(list(snapshots)), names=quoted)
    with store.explain_faults():
        rows = store.open_sql([*_TABLES, "silver.log_dirs"], snapshots).run(sql).to_pylist() if open_ones else []
    is_part: dict[tuple[str, str, str], bool] = {
        (row["cluster_id"], row["kind"], row["subject"]): row["is_cut"] for row in rows
    }
    cut = {cluster for (cluster, kind, _), is_cut in is_part.items() if kind == "topic" and is_cut}

    def is_hidden(one: AlertFinding) -> bool:
        if one.issue == BROKER_DOWN:
            return (one.cluster_id, "unknown broker", one.subject) in is_part
        if one.issue in _OF_BROKERS:
            return is_part.get((one.cluster_id, "broker", _name_broker(one.subject)), False)
        return is_part.get((one.cluster_id, "topic", one.subject), one.cluster_id in cut)

    return {one.key for one in open_ones if is_hidden(one)}


def judge_findings(
    current: Iterable[AlertFinding],
    previous: Iterable[tuple[AlertFinding, AlertState]],
    acknowledgements: Sequence[Acknowledgement],
    today: date,
    level: Level = Level.WARNING,
    hidden: Container[tuple[str, str, str]] = (),
) -> list[JudgedFinding]:
    """Compare findings with those of the previous run: which fire, which are acknowledged, and which are resolved.

    previous: the last known state of each finding. today: UTC; acknowledgements that ended before do not count.
    level: less serious findings do not fire; those that fired with another level are not resolved either.
    hidden: keys of findings that the sources cannot show to be resolved: they stay as they are, see find_hidden.
    """
    states = {finding.key: (finding, state) for finding, state in previous}
    valid = [one for one in acknowledgements if one.until >= today]
    judged, present = [], set()
    observed = {finding.key: finding for finding in current}
    unobserved = {
        key: finding
        for key, (finding, state) in states.items()
        if state is not AlertState.RESOLVED and key in hidden and key not in observed
    }
    for key, finding in (observed | unobserved).items():
        present.add(key)
        if is_below(finding, level):
            continue
        match = next((one for one in valid if _matches(one, finding)), None)
        state = AlertState.ACKNOWLEDGED if match else AlertState.FIRING
        before = states.get(key)
        is_changed = before is None or before[1] is not state
        judged.append(JudgedFinding(finding, state, is_changed, match, key in observed))
    for key, (finding, state) in states.items():
        if key not in present and state is not AlertState.RESOLVED:
            judged.append(JudgedFinding(finding, AlertState.RESOLVED, True))
    return judged


def is_below(finding: AlertFinding, level: Level) -> bool:
    """Return whether a finding is less serious than this level."""
    order = list(Level).index
    return order(ISSUE_LEVELS[finding.issue]) > order(level)


def _matches(one: Acknowledgement, finding: AlertFinding) -> bool:
    patterns = (one.cluster, one.issue, one.subject)
    return all(fnmatchcase(value, pattern) for value, pattern in zip(finding.key, patterns, strict=True))


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
        for one, state, is_changed, *_ in judged
        if is_changed
    ]
    if rows:
        store.append(ALERTS, make_rows(rows, ALERTS.schema))


_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


_FORM = re.compile(r"\s*(?:(.*\S)\s*:)?\s*([a-z0-9_]+)\s*(>=|<=|>|<)\s*([-+.0-9eE]+)\s*")


class Threshold(NamedTuple):
    """A limit for a metric."""

    text: str  # As it was written
    cluster: str | None  # Cluster that it applies to; None = every cluster
    metric: str  # Metric of gold.scheme_comparison
    comparison: str  # >, >=, < or <=
    limit: float  # Value to compare with


class ThresholdResult(NamedTuple):
    """A threshold, compared with the value of one cluster."""

    cluster_id: str
    threshold: Threshold
    value: float
    is_crossed: bool

    def describe(self) -> str:
        """Return a line such as `prod: worst_survivor_ratio is 1.4: worst_survivor_ratio > 1.3`."""
        return f"{self.cluster_id}: {self.threshold.metric} is {self.value:.6g}: {self.threshold.text}"


def parse_thresholds(texts: Iterable[str], metrics: Iterable[str], clusters: Iterable[str]) -> list[Threshold]:
    """Parse thresholds, as in "CLUSTER: METRIC > NUMBER"; raise SettingsError for another form or an unknown name."""
    names, clusters = sorted(metrics), set(clusters)
    thresholds = []
    for text in texts:
        match, problem = _FORM.fullmatch(text), ""
        if match is None or not _is_number(match[4]):
            problem = 'write new, or a metric, > or <, and a number, as in "worst_survivor_ratio > 1.3"'
        elif match[2] not in names:
            problem = f"there is no metric {shorten_text(match[2])}. Metrics: {', '.join(names)}"
        elif match[1] is not None and match[1] not in clusters:
            known = ", ".join(sorted(clusters))
            problem = f"the run has no cluster {shorten_text(match[1])}. Clusters: {known}"
        if match is None or problem:
            raise SettingsError(f"--alert {quote_value(text)}: {problem}")
        thresholds.append(Threshold(text.strip(), match[1], match[2], match[3], float(match[4])))
    return thresholds


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def check_thresholds(
    thresholds: Sequence[Threshold], clusters: Iterable[str], values: Mapping[tuple[str, str], float | None]
) -> tuple[list[ThresholdResult], list[str]]:
    """Return the result of each threshold and cluster, and a line for each threshold whose metric has no value."""
    results, unknown = [], []
    for one in thresholds:
        candidates = [cluster for cluster in sorted(clusters) if one.cluster in (None, cluster)]
        known = {c: value for c in candidates if (value := values.get((c, one.metric))) is not None}
        for cluster, value in known.items():
            results.append(ThresholdResult(cluster, one, value, _OPERATORS[one.comparison](value, one.limit)))
        if not known:
            where = one.cluster or "any cluster of the run"
            unknown.append(f"{one.text}: {one.metric} has no value for {where}, so it cannot be crossed")
    return results, unknown
