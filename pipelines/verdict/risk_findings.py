"""What replicas, disks, small racks and the controller quorum put at risk, and what to do about it first."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

from pipelines.verdict import statements
from pipelines.verdict.cluster_evidence import (
    MAX_BROKERS,
    MAX_NAMED,
    MAX_TOPICS,
    AffectedPartitions,
    ClusterEvidence,
    ClusterFindings,
    PartitionIssue,
    name_affected_topics,
    name_any,
    name_brokers,
    name_some,
    name_with_noun,
)
from pipelines.verdict.verdict_points import NO_STEP, NextPlan, NextStep, Statement, Step, VerdictPoint, fill_forms
from udfs.failures.disk_after_failure import LOG_DIR, NOTHING
from udfs.failures.scenarios import UNKNOWN_VOTER, QuorumVoters, ScenarioKind
from udfs.wording import count_of, format_bytes, is_or_are, it_or_them, join_names

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
        only = findings.find(PartitionIssue.OFFLINE).only_in_failed_dirs
        only_copy = f"; keep the failed disk, which may have the only copy of {it_or_them(lost)}" if lost else ""
        values: dict[str, Any] = {
            "log_dirs": capitalize(name_brokers(log_dirs)),
            "brokers": name_with_noun(brokers),
            "effect": f", so that {' and '.join(parts)}{only_copy}" if parts else "",
            "repair": _mend_log_dirs(findings, only),
        }
        if (down := findings.down_brokers) and not only:  # until then, a restart takes more offline
            back = f"once {name_with_noun(down)} {is_or_are(len(down))} back and in sync"
            values["repair"] = values["repair"]._replace(text=f"{back}, {values['repair'].text}")
        yield statements.FAILED_LOG_DIR.fill(sum(findings.failed_dir_replicas), **values)
    elif named:
        yield statements.FAILED_LOG_DIR_WITHOUT_EFFECT.fill(len(named), log_dirs=capitalize(name_brokers(named)))
    if full := findings.full_log_dirs:
        names = name_brokers([f"log dir {name}" for name in full])
        owners = {name.rpartition(" of broker ")[2].partition(" ")[0] for name in full}
        elsewhere, to_new = statements.FULL_LOG_DIR.repairs
        are_uneven = any(name.rpartition(" of broker ")[2] in owners for name in findings.uneven_log_dirs)
        step = elsewhere if findings.live_brokers > 1 or are_uneven else to_new
        yield statements.FULL_LOG_DIR.fill(len(full), log_dirs=capitalize(names), repair=step.fill())


def _mend_log_dirs(findings: ClusterFindings, only: int) -> NextStep:
    """Return what to do about failed log dirs. only: partitions that nothing else can bring online."""
    move, can_move = statements.MOVE_LOST_REPLICAS.fill(), _can_move_lost(findings)
    recover, replace_or_move, replace = statements.FAILED_LOG_DIR.repairs
    if only:
        return recover.fill(only=count_of(only, "partition"), move=move if can_move else NO_STEP)
    return replace_or_move.fill() if can_move else replace.fill()


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
    if affected.on_down_brokers > affected.beyond_restart and not only_disks:
        step = f"restart {name_with_noun(findings.down_brokers)}{order}; "
    if affected.on_failed_dirs:
        brokers = findings.failed_dir_brokers
        disks = "disk" if len(brokers) == 1 else "disks"
        replace = "recover" if findings.find(PartitionIssue.OFFLINE).only_in_failed_dirs else "replace"
        step += f"{replace} the failed {disks} of {name_with_noun(brokers)} and restart {it_or_them(len(brokers))}; "
    return step


_REPLICATION_FACTOR = 3  # that next steps propose, if there are as many brokers


def repair_offline(affected: AffectedPartitions, live_count: int) -> NextStep:
    """Return how these partitions survive a failure: more replicas for those with one, else larger ISRs."""
    if not affected.single_replica_partitions:
        return statements.FIND_LAGGING.fill()
    if live_count < 2:
        return statements.ADD_BROKER.fill()
    factor = max(2, min(_REPLICATION_FACTOR, live_count))
    names = affected.single_replica_topic_names
    more = affected.single_replica_topics - len(names)
    others = f"; then do the same for {count_of(more, 'more topic')} with replication factor 1" if more else ""
    step = statements.ADD_REPLICAS if factor >= _REPLICATION_FACTOR else statements.ADD_SECOND_REPLICA
    plan = NextPlan("rf", factor=factor, topics=tuple(names))
    return step.fill(plan=plan, first=names[0], others=others)


def exceed_min_isr(affected: AffectedPartitions, live_count: int) -> NextStep:
    """Return how partitions whose replication factor is min.insync.replicas survive the failure of one broker."""
    factor = max(affected.min_factor, affected.few_min_isr) + 1
    if not affected.min_factor or factor > live_count:
        return statements.LOWER_MIN_ISR.fill()
    names = affected.min_factor_topic_names
    more = affected.topics - len(names)
    others = f"; then do the same for {count_of(more, 'more topic')}" if more else ""
    plan = NextPlan("rf", "rf-spare", factor=factor, topics=tuple(names))
    return statements.ADD_ABOVE_MIN_ISR.fill(plan=plan, others=others)


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


_Rows = Sequence[Mapping[str, Any]]
QUANTITIES = {"bytes_in_per_s": "bytes in", "bytes_out_per_s": "bytes out"}  # rates in sentences


def judge_limits(evidence: ClusterEvidence) -> Iterator[VerdictPoint]:
    """Yield what does not fit on disks, survivors over their capacity, and uneven log dirs."""
    findings = evidence.findings
    rows = [row for row in evidence.disk_failures if row["fits"] is False]
    rows.sort(key=itemgetter("scenario_kind", "failed_brokers", "scenario"))
    for row in rows:
        if row["scenario_kind"] == NOTHING and not findings.full_log_dirs:
            percent = f"{100 * row['fullest_disk_ratio']:.0f} %"
            yield statements.DISK_OVER_LIMIT.fill(1, broker=row["fullest_broker"], percent=percent)
    lost = [row for row in rows if row["scenario_kind"] != NOTHING and _is_copied(row, findings)]
    racks = [row for row in lost if row["scenario_kind"] == ScenarioKind.RACK]
    yield from _judge_disks(
        statements.DISK_TOO_SMALL, [row for row in lost if row["scenario_kind"] != ScenarioKind.RACK], findings
    )
    yield from _judge_disks(statements.RACK_DISK_TOO_SMALL, racks, findings)
    if over := [row for row in evidence.over_capacity if row["quantity"] in QUANTITIES]:
        yield _judge_survivors(over, findings)
    if uneven := findings.uneven_log_dirs:
        brokers = f"broker{'s' if len(uneven) > 1 else ''} {name_brokers([name.split()[-1] for name in uneven])}"
        yield statements.UNEVEN_LOG_DIRS.fill(len(uneven), brokers=brokers, log_dirs=name_brokers(uneven))


def _is_copied(row: Mapping[str, Any], findings: ClusterFindings) -> bool:
    """Return whether as many brokers stay as partitions have replicas (median): else nothing is copied."""
    lost = 0 if row["scenario_kind"] == LOG_DIR else len(row["failed_brokers"])
    return can_repair(findings.live_brokers - lost, findings.replication_factor)


def _judge_disks(statement: Statement, rows: _Rows, findings: ClusterFindings) -> Iterator[VerdictPoint]:
    if not rows:
        return
    worst = max(rows, key=lambda row: row["bytes_to_copy"] - row["free_bytes"])
    sizes: dict[str, Any] = {"bytes": format_bytes(worst["bytes_to_copy"]), "free": format_bytes(worst["free_bytes"])}
    more: dict[str, Any] = {"worst": _name_lost(worst)} if len(rows) > 1 else {}
    yield statement.fill(len(rows), failed=_name_all([_name_lost(row) for row in rows], findings), **sizes, **more)


def _judge_survivors(over: list[Mapping[str, Any]], findings: ClusterFindings) -> VerdictPoint:
    over.sort(key=itemgetter("quantity", "failed_brokers", "broker_id"))
    worst = max(over, key=lambda row: round(row["load_after"] / row["capacity"], 6) if row["capacity"] else inf)
    load, capacity = (f"{format_bytes(worst[name])}/s" for name in ("load_after", "capacity"))
    failed = [f"broker {broker}" for broker in sorted({row["failed_brokers"][0] for row in over})]
    values: dict[str, Any] = {"failed": _name_all(failed, findings), "survivor": worst["broker_id"]}
    values |= {"worst": f"broker {worst['failed_brokers'][0]}"} if len(failed) > 1 else {}
    values |= {"load": load, "capacity": capacity, "quantity": QUANTITIES[worst["quantity"]]}
    return statements.SURVIVOR_OVER_CAPACITY.fill(len(failed), **values)


def _name_all(names: Sequence[str], findings: ClusterFindings) -> str:
    """Name what fails, as in `any single broker or log dir /data1 of broker 2`."""
    brokers = [name for name in names if name.startswith(ScenarioKind.BROKER)]
    if len(brokers) == findings.live_brokers > 1:
        names = ["any single broker", *names[len(brokers) :]]
    return name_any(names)


def _name_lost(row: Mapping[str, Any]) -> str:
    """Name what is lost, as in `broker 2`, `rack east` or `log dir /data1 of broker 2`."""
    kind, name = row["scenario"].split(":", 1)
    if kind != LOG_DIR:
        return f"{kind} {name}"
    broker, path = name.split(":", 1)
    return f"log dir {path} of broker {broker}"


_CROWDED_RATIO = 1.25  # replicas of a broker over the mean
_SHARES = {1 / 2: "half", 1 / 3: "a third", 1 / 4: "a quarter"}


@dataclass(frozen=True)
class RackSizes:
    """The racks of a cluster, and what decides how many replicas each would hold."""

    live: Mapping[str, int]  # live brokers of each rack
    brokers: Collection[int]  # ids of all known brokers
    down_count: int = 0  # brokers that are down; they may be of any rack
    unknown_count: int = 0  # of the live ones, those of unknown state
    replication_factor: float | None = None  # median of partitions with several replicas; None = there are none

    def choose_step(self, spread: Step, add_brokers: Step) -> NextStep:
        """Return what to do so that a rack can fail: spread replicas over racks, or first add brokers to small racks.

        add_brokers: with {racks}.
        """
        small = list(self._find_small())
        if not small:
            return spread.fill()
        count = sum(self.live.values())
        sizes = [f"rack {rack} has {self.live[rack]:,}" for rack in small[:MAX_BROKERS]]
        more = [count_of(len(small) - MAX_BROKERS, "more rack")] if len(small) > MAX_BROKERS else []
        share = self._share()
        each = " each" if len(small) > 1 else ""
        name = _SHARES.get(share, f"{share:.0%}")
        unknown = f" ({self.unknown_count:,} of unknown state)" if self.unknown_count else ""
        brokers = f"{count:,} live brokers{unknown}"
        racks = f"{', '.join([*sizes, *more])} of {brokers} and would{each} hold {name} of all replicas"
        return add_brokers.fill(plan=NextPlan("expand", new_brokers=tuple(self._list_new(small))), racks=racks)

    def _share(self) -> float:
        """Return which part of the replicas each rack holds at least after they are spread."""
        factor = int(self.replication_factor or 1)
        return (factor // len(self.live)) / factor if self.live else 0.0

    def _find_small(self) -> Iterator[str]:
        """Yield racks whose brokers would hold too many replicas, also if all that are down were live in this rack."""
        count = sum(self.live.values()) + self.down_count
        for rack, size in self.live.items():
            if self._share() * count / (size + self.down_count) > _CROWDED_RATIO:
                yield rack

    def _list_new(self, small: Collection[str]) -> Iterator[str]:
        """Yield brokers that make these racks as large as the largest, as in 13:eu-1c, with free ids."""
        highest = max(self.brokers)
        free = (broker for broker in chain(range(highest + 1, 2**31), range(highest)) if broker not in self.brokers)
        for rack in small:
            for _ in range(max(self.live.values()) - self.live[rack]):
                yield f"{next(free)}:{rack}"


def explain_lost_majority(quorum: QuorumVoters, failed: Collection[int]) -> tuple[VerdictPoint, ...]:
    """Say that no majority of voters is left once nodes failed, or was left before."""
    if quorum.spare < 0:
        return (_describe_lost_quorum(quorum),)
    voters = count_of(len(quorum.voters), "voter")
    lost, others = (sorted({*ids}) for ids in ({*quorum.voters} & {*failed}, {*quorum.lagging} - {*failed}))
    lagging = f" (down or lagging already: {join_names(others)})" if others else ""
    return (statements.MAJORITY_FAILS.fill(len(lost), voters=voters, lagging=lagging),)


def _describe_lost_quorum(quorum: QuorumVoters) -> VerdictPoint:
    nodes = "no source shows which" if UNKNOWN_VOTER in quorum.voters else join_names(quorum.lagging)
    return statements.QUORUM_LOST.fill(len(quorum.lagging), nodes=nodes)


def describe_lagging_voters(quorum: QuorumVoters, more: str) -> VerdictPoint:
    """Say which voters are down or lag, and what that leaves."""
    voters = count_of(len(quorum.voters), "voter")
    names = join_names(quorum.lagging)
    return statements.VOTERS_LAG.fill(len(quorum.lagging), nodes=names, voters=voters, more=more)


def judge_quorum(findings: ClusterFindings) -> Iterator[VerdictPoint]:
    """Say whether the quorum has a majority, and what would take it away."""
    quorum = findings.quorum
    if not quorum.voters:
        return
    voters = count_of(len(quorum.voters), "voter")
    if quorum.spare < 0:
        yield _describe_lost_quorum(quorum)
    elif quorum.lagging:
        more = f"only {count_of(quorum.spare, 'other voter')} may fail" if quorum.spare else "no other voter may fail"
        yield describe_lagging_voters(quorum, more)
    elif quorum.spare == 0:
        yield statements.NO_SPARE_VOTER.fill(len(quorum.voters))
    if findings.voter_rack is not None and quorum.spare > 0:
        yield statements.VOTERS_IN_ONE_RACK.fill(rack=findings.voter_rack, voters=voters)
    if len(quorum.voters) % 2 == 0:
        yield statements.EVEN_VOTERS.fill(len(quorum.voters))
