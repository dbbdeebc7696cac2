"""What is due today, this week, and what to watch: the findings of all clusters, grouped by their kind."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipelines.verdict.levels import Level
from pipelines.verdict.naming import name_with_noun
from pipelines.verdict.verdict_points import VerdictPoint
from udfs.plurals import count_of

_Kinds = dict[str, tuple[str, ...]]
_MAX_NAMED = 8  # clusters in a sentence
# The sentences, in the order of the page, and the kinds of findings that they are about.
_TODAY: _Kinds = {
    "Partitions are offline": ("offline",),
    "Producers with acks=all are blocked": ("under_min_isr",),
    "Log dirs of live brokers failed": ("failed_log_dir", "failed_log_dir_without_effect"),
    "Brokers are down": ("down", "down_without_effect"),
    "Reassignments wait for a broker that is down": ("stuck",),
}
_THIS_WEEK: _Kinds = {
    "The failure of one broker takes partitions offline": ("broker_offline",),
    "The failure of one rack takes partitions offline": ("rack_offline",),
    "The failure of one broker blocks producers with acks=all": ("broker_under_min_isr",),
    "The failure of one rack blocks producers with acks=all": ("rack_under_min_isr",),
    "Log dirs are nearly full": ("full_log_dir",),
    "Partitions have more replicas than their topic's replication factor": ("extra_replicas",),
    "The failure of one broker could lose messages by unclean elections": ("broker_unclean",),
}
_WATCH: _Kinds = {
    "Replicas are out of sync on live brokers": ("under_replicated",),
    "A broker leads over 1.25 times the mean after the failure of another one": ("hot_survivor",),
    "A broker leads over 1.25 times the mean now": ("hot_broker",),
    "Partitions are not led by their preferred leader": ("not_preferred",),
    "All live brokers are in one rack": ("one_rack",),
}
_KINDS_BY_HORIZON = {"Today": _TODAY, "This week": _THIS_WEEK, "Watch": _WATCH}
DUE_TIMES = tuple(_KINDS_BY_HORIZON)
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
    grouped = [Horizon(title, list(_find_sentences(clusters, kinds))) for title, kinds in _KINDS_BY_HORIZON.items()]
    gaps = [
        (index, cluster["cluster_id"], "")
        for index, cluster in enumerate(clusters)
        if any(point.level is Level.UNKNOWN for point in cluster["verdict"].points)
    ]
    if gaps:
        grouped[-1].sentences.append(_make_sentence(_EVIDENCE_GAPS, gaps))
    return grouped


def _find_sentences(
    clusters: Sequence[Mapping[str, Any]], kinds_by_text: Mapping[str, tuple[str, ...]]
) -> Iterator[HorizonSentence]:
    for text, kinds in kinds_by_text.items():
        affected = [
            (index, cluster["cluster_id"], _describe_extent(cluster, point))
            for index, cluster in enumerate(clusters)
            for point in cluster["verdict"].points
            if point.kind in kinds
        ]
        if affected:
            yield _make_sentence(text, affected)


def _make_sentence(text: str, clusters: list[tuple[int, str, str]]) -> HorizonSentence:
    return HorizonSentence(text, clusters[:_MAX_NAMED], max(len(clusters) - _MAX_NAMED, 0))


def _describe_extent(cluster: Mapping[str, Any], point: VerdictPoint) -> str:
    """Say how many partitions a finding is about, or which brokers; empty = the page does not say it here."""
    findings, worst = cluster["findings"], cluster["worst_failures"]
    if point.kind in ("offline", "under_min_isr"):
        return count_of(findings.find(point.kind).partitions, "partition")
    if point.kind == "under_replicated":
        return count_of(findings.lagging_partitions, "partition")
    if point.kind == "failed_log_dir":
        return name_with_noun(findings.failed_dir_brokers)
    if point.kind in ("down", "down_without_effect"):
        return name_with_noun(findings.down_brokers)
    names = {
        "broker_offline": "broker",
        "rack_offline": "rack",
        "broker_under_min_isr": "blocked",
        "rack_under_min_isr": "blocked_by_rack",
    }
    return f"up to {count_of(worst[names[point.kind]], 'partition')}" if point.kind in names else ""
