"""A cluster's state in a sentence: what a person on call, and a manager, read first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Beyond this many times the mean, a survivor is worth a warning: a quarter more than its share.
HOT = 1.25
_NAMED = 6

BAD, WARNING, GOOD = "bad", "warning", "good"


def verdict_of(
    now: Mapping[str, Any] | None, deaths: Sequence[Mapping[str, Any]], quarantined: int = 0
) -> dict[str, Any]:
    """{level, sentence, points}. now: of gold.leader_hotspots; deaths: of gold.failure_summary, one a broker.

    quarantined: records of its sources that were rejected.
    """
    points: list[tuple[str, str]] = []
    leaderless = now["partitions"] - now["leaders"] if now is not None else 0
    if leaderless:
        points.append((BAD, f"{_count(leaderless, 'partition')} {_have(leaderless)} no leader now."))
    were = f"{_count(quarantined, 'record')} of the sources {_were(quarantined)}"
    incomplete = [(WARNING, f"{were} rejected: see silver.quarantine, or inspect.")] if quarantined else []
    if now is None or not deaths:
        nobody = "No broker that lives is known: nothing else can be said."
        level, sentence = points[0] if points else (WARNING, nobody.replace(" else", ""))
        more = [*([(WARNING, nobody)] if points else []), *incomplete]
        return {"level": level, "sentence": sentence, "points": _told(more)}
    offline = [row for row in deaths if row["newly_offline_partitions"]]
    if offline:
        worst = max(offline, key=lambda row: row["newly_offline_partitions"])
        most = worst["newly_offline_partitions"]
        which = _brokers(offline, len(deaths))
        taken = f"takes {_count(most, 'partition')} offline" if len(offline) == 1 else "takes partitions offline"
        up_to = "" if len(offline) == 1 else f", up to {most} (broker {worst['failed']})"
        points.append((BAD, f"The death of {which} {taken}{up_to}."))
    unclean = [row for row in deaths if row["unclean_elections"]]
    if unclean:
        worst = max(unclean, key=lambda row: row["unclean_elections"])
        most, up_to, by = _count(worst["unclean_elections"], "partition"), "", ""
        if len(unclean) > 1:
            up_to, by = "up to ", f" (broker {worst['failed']})"
        lost = f"unclean elections: messages of {up_to}{most} may be lost{by}."
        points.append((WARNING, f"The death of {_brokers(unclean, len(deaths))} brings {lost}"))
    now_refusing = deaths[0]["under_min_isr_before_partitions"]
    if now_refusing:
        one = "refuses" if now_refusing == 1 else "refuse"
        points.append((WARNING, f"{_count(now_refusing, 'partition')} {one} producers with acks=all now."))
    refusing = [row for row in deaths if row["under_min_isr_partitions"] > now_refusing]
    if refusing:
        worst = max(refusing, key=lambda row: row["under_min_isr_partitions"])
        most = _count(worst["under_min_isr_partitions"], "partition")
        up_to = f"by up to {most} then (broker {worst['failed']})."
        points.append(
            (
                WARNING,
                f"After the death of {_brokers(refusing, len(deaths))}, producers with acks=all are refused: {up_to}",
            )
        )
    hot = max(deaths, key=lambda row: row["leaders_worst_over_mean"] or 0)
    ratio = hot["leaders_worst_over_mean"]
    if ratio is not None:
        level = WARNING if ratio > HOT else GOOD
        said = f"broker {hot['worst_survivor']} would lead {ratio:.2f} times the mean"
        points.append((level, f"After the worst death (broker {hot['failed']}), {said}."))
    uneven = now["max_over_mean_ratio"]
    if uneven is not None:
        level = WARNING if uneven > HOT else GOOD
        points.append((level, f"Now broker {now['hottest_broker']} leads most: {uneven:.2f} times the mean."))
    points += incomplete
    levels = [level for level, _ in points]
    level = BAD if BAD in levels else WARNING if WARNING in levels else GOOD
    return {
        "level": level,
        "sentence": _sentence(level, points, ratio),
        "points": _told(points),
    }


def _told(points: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"level": level, "text": text} for level, text in points]


def loss_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """(level, answer) to "can I lose this broker now?". row: of gold.failure_summary, one broker."""
    if row["newly_offline_partitions"]:
        return BAD, f"no: {_count(row['newly_offline_partitions'], 'partition')} would be offline"
    if row["unclean_elections"]:
        lost = f"messages of {_count(row['unclean_elections'], 'partition')} may be lost"
        return WARNING, f"hardly: {lost}, by unclean elections"
    # Where nothing goes offline, who refuses now refuses then too: the rest is this death's.
    refusing = row["under_min_isr_partitions"] - row["under_min_isr_before_partitions"]
    if refusing > 0:
        what = "more partition" if row["under_min_isr_before_partitions"] else "partition"
        return WARNING, f"hardly: {_count(refusing, what)} would refuse acks=all"
    if (row["leaders_worst_over_mean"] or 0) > HOT:
        return WARNING, f"yes, but broker {row['worst_survivor']} would be hot"
    return GOOD, "yes"


def _sentence(level: str, points: Sequence[tuple[str, str]], ratio: float | None) -> str:
    if level == GOOD:
        hottest = "" if ratio is None else f", and no survivor would lead more than {ratio:.2f} times the mean"
        return f"Any one broker can die: nothing goes offline{hottest}."
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
