"""A cluster's state in a sentence: what a person on call, and a manager, read first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Beyond this many times the mean, a survivor is worth a warning: a quarter more than its share.
HOT = 1.25
_NAMED = 6

BAD, WARNING, GOOD = "bad", "warning", "good"


def verdict_of(
    now: Mapping[str, Any] | None, failures: Sequence[Mapping[str, Any]], quarantined: int = 0
) -> dict[str, Any]:
    """{level, sentence, points}. now: of gold.leader_hotspots; failures: of gold.failure_summary, one a broker.

    quarantined: records of its sources that were rejected.
    """
    points: list[tuple[str, str]] = []
    leaderless = now["partitions"] - now["leaders"] if now is not None else 0
    if leaderless:
        points.append((BAD, f"{_count(leaderless, 'partition')} {_have(leaderless)} no leader now."))
    were = f"{_count(quarantined, 'record')} of the sources {_were(quarantined)}"
    incomplete = [(WARNING, f"{were} rejected: see silver.quarantine, or inspect.")] if quarantined else []
    if now is None or not failures:
        nobody = "No broker that lives is known: nothing else can be said."
        level, sentence = points[0] if points else (WARNING, nobody.replace(" else", ""))
        more = [*([(WARNING, nobody)] if points else []), *incomplete]
        return {"level": level, "sentence": sentence, "points": _told(more)}
    offline = [row for row in failures if row["newly_offline_partitions"]]
    if offline:
        worst = max(offline, key=lambda row: row["newly_offline_partitions"])
        most = worst["newly_offline_partitions"]
        which = _brokers(offline, len(failures))
        taken = f"takes {_count(most, 'partition')} offline" if len(offline) == 1 else "takes partitions offline"
        up_to = "" if len(offline) == 1 else f", up to {most} (broker {worst['failed']})"
        points.append((BAD, f"The failure of {which} {taken}{up_to}."))
    unclean = [row for row in failures if row["unclean_elections"]]
    if unclean:
        worst = max(unclean, key=lambda row: row["unclean_elections"])
        most, up_to, by = _count(worst["unclean_elections"], "partition"), "", ""
        if len(unclean) > 1:
            up_to, by = "up to ", f" (broker {worst['failed']})"
        lost = f"unclean elections: messages of {up_to}{most} may be lost{by}."
        points.append((WARNING, f"The failure of {_brokers(unclean, len(failures))} brings {lost}"))
    now_rejecting = failures[0]["under_min_isr_before_partitions"]
    if now_rejecting:
        one = "rejects" if now_rejecting == 1 else "reject"
        points.append((WARNING, f"{_count(now_rejecting, 'partition')} {one} producers with acks=all now."))
    rejecting = [row for row in failures if row["under_min_isr_partitions"] > now_rejecting]
    if rejecting:
        worst = max(rejecting, key=lambda row: row["under_min_isr_partitions"])
        most = _count(worst["under_min_isr_partitions"], "partition")
        up_to = f"by up to {most} then (broker {worst['failed']})."
        points.append(
            (
                WARNING,
                f"After the failure of {_brokers(rejecting, len(failures))}, "
                f"producers with acks=all are rejected: {up_to}",
            )
        )
    hot = max(failures, key=lambda row: row["worst_survivor_ratio"] or 0)
    ratio = hot["worst_survivor_ratio"]
    if ratio is not None:
        level = WARNING if ratio > HOT else GOOD
        said = f"broker {hot['worst_survivor']} would lead {ratio:.2f} times the mean"
        points.append((level, f"After the worst failure (broker {hot['failed']}), {said}."))
    uneven = now["max_over_mean_ratio"]
    if uneven is not None:
        level = WARNING if uneven > HOT else GOOD
        points.append((level, f"Now broker {now['hottest_broker']} leads most: {uneven:.2f} times the mean."))
    points += incomplete
    levels = [level for level, _ in points]
    level = BAD if BAD in levels else WARNING if WARNING in levels else GOOD
    return {"level": level, "sentence": _sentence(level, points, ratio), "points": _told(points)}


def _told(points: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"level": level, "text": text} for level, text in points]


def loss_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """(level, answer) to "can I lose this broker now?". row: of gold.failure_summary, one broker."""
    if row["newly_offline_partitions"]:
        return BAD, f"no: {_count(row['newly_offline_partitions'], 'partition')} would be offline"
    if row["unclean_elections"]:
        lost = f"messages of {_count(row['unclean_elections'], 'partition')} may be lost"
        return WARNING, f"hardly: {lost}, by unclean elections"
    # Where nothing goes offline, who rejects now rejects then too: the rest is this failure's.
    rejecting = row["under_min_isr_partitions"] - row["under_min_isr_before_partitions"]
    if rejecting > 0:
        what = "more partition" if row["under_min_isr_before_partitions"] else "partition"
        return WARNING, f"hardly: {_count(rejecting, what)} would reject acks=all"
    if (row["worst_survivor_ratio"] or 0) > HOT:
        return WARNING, f"yes, but broker {row['worst_survivor']} would be hot"
    return GOOD, "yes"


def _sentence(level: str, points: Sequence[tuple[str, str]], ratio: float | None) -> str:
    if level == GOOD:
        hottest = "" if ratio is None else f", and no survivor would lead more than {ratio:.2f} times the mean"
        return f"Any one broker can fail: nothing goes offline{hottest}."
    return next(text for one, text in points if one == level)


def _brokers(rows: Sequence[Mapping[str, Any]], every: int) -> str:
    ids = [str(row["failed"]) for row in rows]
    if len(ids) == every and every > 1:
        return "any one broker"
    if len(ids) == 1:
        return f"broker {ids[0]}"
    shown = ids[:_NAMED]
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    last = "" if more else f" or {shown.pop()}"
    return f"broker {', '.join(shown)}{last}{more}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"
