"""What lost, missing, surplus and stuck replicas mean, and what to do about them first."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pipelines.verdict import statements
from pipelines.verdict.cluster_evidence import (
    MAX_NAMED,
    MAX_TOPICS,
    AffectedPartitions,
    ClusterFindings,
    PartitionIssue,
)
from pipelines.verdict.naming import name_affected_topics, name_brokers, name_some, name_with_noun
from pipelines.verdict.verdict_points import NO_STEP, NextPlan, NextStep, VerdictPoint, fill_forms
from udfs.plurals import count_of, is_or_are, it_or_them

_LACKING = PartitionIssue.UNDER_REPLICATED


class LostBrokers(NamedTuple):
    """Brokers that have lost replicas, and under which condition a repair does without them."""

    ids: Sequence[int]
    condition: str = statements.STAY_DOWN


def judge_log_dirs(findings: ClusterFindings) -> Iterator[VerdictPoint]:
    """Yield what failed log dirs of live brokers have taken offline, and which log dirs are full."""
    named = tuple(f"log dir {name}" for name in findings.failed_log_dirs)
    if brokers := findings.failed_dir_brokers:
        unnamed = [broker for broker in brokers if not any(name.endswith(f" of broker {broker}") for name in named)]
        log_dirs = (*named, *(f"a log dir of broker {broker}" for broker in unnamed))
        issues = {issue: findings.find(issue).on_failed_dirs for issue in (PartitionIssue.OFFLINE, _LACKING)}
        words = {PartitionIssue.OFFLINE: "offline", _LACKING: "under-replicated"}
        parts = [f"{count_of(n, 'partition')} {is_or_are(n)} {words[issue]}" for issue, n in issues.items() if n][::-1]
        lost = issues[PartitionIssue.OFFLINE]
        only_copy = f"; keep the failed disk, which may have the only copy of {it_or_them(lost)}" if lost else ""
        values: dict[str, Any] = {
            "log_dirs": capitalize(name_brokers(log_dirs)),
            "brokers": name_with_noun(brokers),
            "effect": f", so that {' and '.join(parts)}{only_copy}" if parts else "",
            "repair": statements.FAILED_LOG_DIR.repairs[0].fill() if _can_move_lost(findings) else NO_STEP,
        }
        yield statements.FAILED_LOG_DIR.fill(sum(findings.failed_dir_replicas), **values)
    elif named:
        yield statements.FAILED_LOG_DIR_WITHOUT_EFFECT.fill(len(named), log_dirs=capitalize(name_brokers(named)))
    if full := findings.full_log_dirs:
        names = name_brokers([f"log dir {name}" for name in full])
        yield statements.FULL_LOG_DIR.fill(len(full), log_dirs=capitalize(names))


def capitalize(text: str) -> str:
    """Begin a sentence with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def _can_move_lost(findings: ClusterFindings) -> bool:
    """Return whether brokers without a failed log dir can take the replicas of failed ones."""
    return can_repair(findings.live_brokers - len(findings.failed_dir_brokers), findings.replication_factor)


def select_repairable(findings: ClusterFindings, affected: AffectedPartitions) -> LostBrokers:
    """Return the brokers without which a repair can do: those that are down, else those with failed log dirs."""
    if affected.on_down_brokers:
        brokers = findings.down_brokers if can_repair(findings.live_brokers, findings.replication_factor) else ()
        return LostBrokers(brokers)
    has_lost = affected.on_failed_dirs and _can_move_lost(findings)
    return LostBrokers(findings.failed_dir_brokers if has_lost else (), statements.KEEP_FAILED_DISKS)


def can_repair(live_count: int, factor: float | None) -> bool:
    """Return whether live brokers can take the replicas of those that are down. factor: median; None = of one each."""
    return factor is not None and live_count >= factor


def repair_first(lost: LostBrokers, partitions: str, needed: Sequence[int] = ()) -> NextStep:
    """Return how a next step goes on if these brokers stay as they are; empty without any.

    needed: brokers whose partitions at min.insync.replicas, or below it, to repair first; empty = all below it.
    """
    if not lost.ids:
        return NO_STEP
    part = f"for-{'-'.join(map(str, needed))}" if needed else "first"
    plan = NextPlan(
        "repair",
        f"repair-{part}",  # a folder of its own: the whole repair comes later
        brokers=tuple(needed),
        at_min_isr_partitions=bool(needed),
        under_min_isr_partitions=True,
    )
    condition = fill_forms(lost.condition, len(lost.ids), brokers=name_brokers(lost.ids))
    return statements.REPAIR_FIRST.fill(len(lost.ids), plan, condition=condition, partitions=partitions)


def describe_restart(
    findings: ClusterFindings, affected: AffectedPartitions, *, order: str = "", only_disks: bool = False
) -> str:
    """Return the step to take first where brokers are down or disks failed, if affected partitions have replicas there.

    order: how to find the order of several brokers. only_disks: leave out the brokers that are down.
    """
    step = ""
    if affected.on_down_brokers and not only_disks:
        step = f"restart {name_with_noun(findings.down_brokers)}{order}; "
    if affected.on_failed_dirs:
        brokers = findings.failed_dir_brokers
        disks = "disk" if len(brokers) == 1 else "disks"
        step += f"replace the failed {disks} of {name_with_noun(brokers)} and restart {it_or_them(len(brokers))}; "
    return step


def add_missing_replicas(blocked: AffectedPartitions, live_count: int) -> NextStep:
    """Return the step that gives these partitions replicas, or lowers min.insync.replicas where brokers are too few."""
    few, names = blocked.few_replicas, blocked.few_replica_topic_names
    factor, step = min(blocked.few_min_isr + 1, live_count), statements.ADD_FOR_MIN_ISR
    if factor < blocked.few_min_isr:
        factor, step = blocked.few_factor, statements.LOWER_FOR_MIN_ISR
    more = blocked.few_replica_topics - len(names)
    others = f"; then do the same for {count_of(more, 'more topic')}" if more else ""
    plan = NextPlan("rf", factor=factor, topics=tuple(names))
    filled = step.fill(plan=plan, factor=factor, first=names[0], others=others)
    where = f"where replicas are fewer than min.insync.replicas ({count_of(few, 'partition')}), "
    return filled if few == blocked.partitions else filled._replace(text=f"{where}{filled.text}")


def describe_stuck(findings: ClusterFindings) -> VerdictPoint:
    """Name the reassignments that wait for a broker that is down, and how to end them."""
    stuck, count = findings.stuck_reassignments, findings.stuck_partitions
    names = name_some([f"{one['topic']}-{one['partition']}" for one in stuck[:MAX_NAMED]], count)
    partitions = [{name: one[name] for name in ("topic", "partition", "replicas")} for one in stuck]
    more = count - len(stuck)
    return statements.STUCK.fill(
        count,
        brokers=name_with_noun(findings.stuck_brokers),
        are="is" if len(findings.stuck_brokers) == 1 else "are",
        partitions=names,
        cancelled=json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":")),
        others=f"; then do the same for {count_of(more, 'more partition')}" if more else "",
    )


def describe_extra_replicas(findings: ClusterFindings) -> VerdictPoint:
    """Name the topics of partitions with too many replicas; those with the factor of the first are for one command."""
    topics = findings.extra_replica_first_topics
    factor = topics[0]["factor"]
    names = [one["topic"] for one in topics if one["factor"] == factor]
    named, more = topics[:MAX_TOPICS], findings.extra_replica_topics - len(names)
    affected = AffectedPartitions(
        findings.extra_replica_partitions,
        findings.extra_replica_topics,
        [one["topic"] for one in named],
        [one["partitions"] for one in named],
    )
    return statements.EXTRA_REPLICAS.fill(
        findings.extra_replica_partitions,
        topic_names=affected.topic_names,
        topics=name_affected_topics(affected),
        factor=factor,
        plan=NextPlan("rf", factor=factor, topics=tuple(names)),
        others=f"; then see to {count_of(more, 'more topic')}" if more else "",
    )
