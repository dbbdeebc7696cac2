"""The overview of several clusters: their order, which to look at first, why, and what is due when."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from pipelines.report.changes_since import ChangesSince
from pipelines.report.load_sections import THIS_WEEK, TO_FUND, GrowthDate
from pipelines.verdict.cluster_evidence import ClusterFindings, PartitionIssue
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.verdict_points import Level, VerdictPoint
from udfs.wording import count_of

_LEVELS = list(Level)
_MAX_SENTENCES = 3  # of the first cluster
# What users notice, by the kind of the most serious finding.
_NOTICED = {
    "offline": "Producers and consumers fail there",
    "under_min_isr": "Producers with acks=all fail there; consumers still work",
}
_NOT_AFFECTED = "Producers and consumers still work"


class Priority(NamedTuple):
    """What to look at first: an introduction, and why it is the first cluster; no reason = there is no problem."""

    introduction: str
    reason: str


def rank_urgency(cluster: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the sort key of a cluster, the most urgent first.

    By level; then what users notice now; then brokers and replicas that are missing now; then what goes offline if one
    broker or one rack fails, in partitions and as a share; then what one failure blocks; then the load of survivors.
    """
    findings: ClusterFindings = cluster["findings"]
    now = [findings.find(issue).partitions for issue in (PartitionIssue.OFFLINE, PartitionIssue.UNDER_MIN_ISR)]
    now += [len(findings.down_brokers), findings.find(PartitionIssue.UNDER_REPLICATED).partitions]
    worst = {name: count or 0 for name, count in cluster["worst_failures"].items()}
    # A single rack does not count: every partition goes offline with it.
    worst["rack"] *= len(cluster["rack_failures"]) > 1
    share = worst["broker"] / max(findings.counted_partitions, 1)
    load = cluster["metrics"].get("worst_survivor_ratio", {}).get("observed") or 0
    effects = (*now, worst["broker"], share, worst["rack"], worst["blocked"], load)
    return _LEVELS.index(cluster["verdict"].level), *(-effect for effect in effects), cluster["cluster_id"]


def find_priority(clusters: Sequence[Mapping[str, Any]]) -> Priority:
    """Say in plain words which cluster to look at first, for clusters in the order of rank_urgency."""
    if not clusters:
        return Priority("No cluster has been evaluated.", "")
    first: Verdict = clusters[0]["verdict"]
    if first.level is Level.AT_RISK:
        return Priority("Start with", _explain(first))
    if first.level is Level.WARNING:
        return Priority("No cluster is at risk. Start with", _explain(first))
    unknown = sum(cluster["verdict"].level is Level.UNKNOWN for cluster in clusters)
    if unknown:
        return Priority(f"No problem is known, but the sources of {count_of(unknown, 'cluster')} lack something.", "")
    return Priority("No cluster has a problem: in each, any single broker can fail.", "")


def _explain(verdict: Verdict) -> str:
    """Repeat the most serious findings, with what producers and consumers notice of the first one."""
    first, *others = [point for point in verdict.points if point.level is verdict.level][:_MAX_SENTENCES]
    effect = _NOTICED.get(first.kind, _NOT_AFFECTED)
    return " ".join([f"{first.text[0].lower()}{first.text[1:]} {effect}.", *(point.text for point in others)])


_Kinds = dict[str, tuple[str, ...]]
_MAX_NAMED = 8  # clusters in a sentence
# The sentences, in the order of the page, and the kinds of findings that they are about.
_TODAY: _Kinds = {
    "Partitions are offline": ("offline",),
    "Producers with acks=all are blocked": ("under_min_isr",),
    "Log dirs of live brokers failed": ("failed_log_dir", "failed_log_dir_without_effect"),
    "Brokers are down": ("down", "down_without_effect"),
    "Reassignments wait for a broker that is down": ("stuck",),
    "The controller quorum has no majority": ("quorum_lost",),
}
_THIS_WEEK: _Kinds = {
    "The failure of one broker takes partitions offline": ("broker_offline",),
    "The failure of one rack takes partitions offline": ("rack_offline",),
    "The failure of one broker blocks producers with acks=all": ("broker_under_min_isr",),
    "The failure of one rack blocks producers with acks=all": ("rack_under_min_isr",),
    "Log dirs are nearly full": ("full_log_dir",),
    "Disks are used above capacity.max_disk_ratio": ("disk_over_limit",),
    "The data of a lost broker or log dir does not fit on the others": ("disk_too_small",),
    "The failure of one broker leaves a survivor over its capacity": ("survivor_over_capacity",),
    "Partitions have more replicas than their topic's replication factor": ("extra_replicas",),
    "The failure of one broker could lose messages by unclean elections": ("broker_unclean",),
    "Voters of the controller quorum are down or lag": ("voters_lag",),
}
_WATCH: _Kinds = {
    "Replicas are out of sync on live brokers": ("under_replicated",),
    "A broker leads over 1.25 times the mean after the failure of another one": ("hot_survivor",),
    "A broker leads over 1.25 times the mean now": ("hot_broker",),
    "Partitions are not led by their preferred leader": ("not_preferred",),
    "All live brokers are in one rack": ("one_rack",),
    "Log dirs of a broker are unevenly full": ("uneven_log_dirs",),
    "The data of a lost rack does not fit on the others": ("rack_disk_too_small",),
    "The failure of one voter leaves the controller quorum without a majority": ("no_spare_voter",),
    "The failure of one rack leaves the controller quorum without a majority": ("voters_in_one_rack",),
}
_KINDS_BY_HORIZON = {"Today": _TODAY, "This week": _THIS_WEEK, "Watch": _WATCH}
DUE_TIMES = tuple(_KINDS_BY_HORIZON)
_LIMIT_DAYS = {THIS_WEEK: 30, TO_FUND: 730}  # at most, until growth reaches a limit: as in the figure `growth`
_CHANGES: dict[str, Callable[[ChangesSince], list[VerdictPoint]]] = {
    "Risks that are new": attrgetter("new"),
    "Risks that are gone": attrgetter("gone"),
}
_EVIDENCE_GAPS = "The sources do not show everything"  # all findings of the level Unknown


class HorizonSentence(NamedTuple):
    """A problem and the clusters that have it."""

    text: str
    clusters: list[tuple[int, str, str]]  # index in the page, name, and how many partitions or which brokers; the first
    more: int  # further clusters


class Horizon(NamedTuple):
    """What is due at one time."""

    title: str
    sentences: list[HorizonSentence]


def find_due_time(kinds: Sequence[str]) -> str:
    """Return when findings of these kinds are due: the first of DUE_TIMES that lists one of them, else the last."""
    due = (
        title
        for title, kinds_by_text in _KINDS_BY_HORIZON.items()
        if any(not set(kinds).isdisjoint(of_text) for of_text in kinds_by_text.values())
    )
    return next(due, DUE_TIMES[-1])


def group_by_horizon(clusters: Sequence[Mapping[str, Any]]) -> list[Horizon]:
    """Group the findings of clusters, in the order of rank_urgency, by when they are due."""
    soon = list(_find_limits(clusters, THIS_WEEK))
    grouped = [
        Horizon(title, [*_find_sentences(clusters, kinds), *(soon if kinds is _THIS_WEEK else ())])
        for title, kinds in _KINDS_BY_HORIZON.items()
    ]
    gaps = [
        (index, cluster["cluster_id"], "")
        for index, cluster in enumerate(clusters)
        if any(point.level is Level.UNKNOWN for point in cluster["verdict"].points)
    ]
    if gaps:
        grouped[-1].sentences.append(_make_sentence(_EVIDENCE_GAPS, gaps))
    if limits := list(_find_limits(clusters, TO_FUND)):
        grouped.append(Horizon("Fund", limits))
    compared = [(i, one["cluster_id"], one["since"]) for i, one in enumerate(clusters) if one["since"]]
    changes = [
        _make_sentence(text, [(i, name, f"{len(points(since))} since {since.as_of[:10]}") for i, name, since in some])
        for text, points in _CHANGES.items()
        if (some := [one for one in compared if points(one[2])])
    ]
    return [*grouped, *([Horizon("Changes", changes)] if changes else [])]


def _find_sentences(
    clusters: Sequence[Mapping[str, Any]], kinds_by_text: Mapping[str, tuple[str, ...]]
) -> Iterator[HorizonSentence]:
    for text, kinds in kinds_by_text.items():
        affected = [
            (index, cluster["cluster_id"], _describe_extent(point))
            for index, cluster in enumerate(clusters)
            for point in cluster["verdict"].points
            if point.kind in kinds
        ]
        if affected:
            yield _make_sentence(text, affected)


def _find_limits(clusters: Sequence[Mapping[str, Any]], due: str) -> Iterator[HorizonSentence]:
    """Name the clusters whose growth reaches a limit that is due then, by limit."""
    near_dates: dict[str, dict[int, list[GrowthDate]]] = {}  # by title and cluster, the soonest first
    for index, cluster in enumerate(clusters):
        for date in cluster["growth"].dates:
            if date.due == due:
                near_dates.setdefault(date.title, {}).setdefault(index, []).append(date)
    for title, by_cluster in sorted(near_dates.items(), key=lambda one: min(own[0].days for own in one[1].values())):
        near = [(index, clusters[index]["cluster_id"], _describe_dates(dates)) for index, dates in by_cluster.items()]
        yield _make_sentence(f"{title[0].upper()}{title[1:]} within {_LIMIT_DAYS[due]} days", near)


def _describe_dates(dates: Sequence[GrowthDate]) -> str:
    """Name the first of these dates, and say how many others there are."""
    first, more = dates[0], dates[0].number - 1
    return f"{first.subject}{f', {first.when}' * (first.days > 0)}{f', and {more} more' * (more > 0)}"


def _make_sentence(text: str, clusters: list[tuple[int, str, str]]) -> HorizonSentence:
    return HorizonSentence(text, clusters[:_MAX_NAMED], max(len(clusters) - _MAX_NAMED, 0))


def _describe_extent(point: VerdictPoint) -> str:
    """Say how many partitions a finding is about, or which brokers; empty = the page does not say it here."""
    partitions = count_of(point.affected, "partition")
    if point.kind in ("offline", "under_min_isr", "under_replicated"):
        return partitions
    if point.kind in ("broker_offline", "rack_offline", "broker_under_min_isr", "rack_under_min_isr"):
        return f"up to {partitions}"
    if point.kind in ("down", "down_without_effect"):
        return f"{'broker' if point.affected == 1 else 'brokers'} {point.subject}"
    return point.subject or "" if point.kind in ("failed_log_dir", "full_log_dir", "uneven_log_dirs") else ""
