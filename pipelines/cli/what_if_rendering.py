"""The answers of `what-if` as text, with the order in which to start brokers that are down and to restart live ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipelines.cli.run_summary import format_findings
from pipelines.ingest.returned_brokers import OfflinePartitions
from pipelines.verdict.cluster_evidence import MAX_BROKERS
from pipelines.verdict.naming import name_affected_topics, name_brokers, name_some, name_with_noun
from pipelines.verdict.verdict_points import fill_forms
from pipelines.what_if.capacity_use import RATES, DiskUse, SurvivorLoad
from pipelines.what_if.outage import OfflinePartition, Outage
from pipelines.what_if.prediction_check import PredictionCheck
from pipelines.what_if.source_gaps import SourceGaps
from pipelines.what_if.what_if_answers import ClusterAnswer, FailureAnswer, PartitionChange, SingleFailure
from udfs.failures.controller_quorum import QuorumVoters
from udfs.failures.leader_recovery import BrokerStart
from udfs.plurals import count_live_brokers, count_of, is_or_are, join_names
from udfs.quantities import format_bytes

# Ratios below this are 1.00.
_UNEVEN_RATIO = 1.005
# Field of SourceGaps -> note, for fill_forms; what the verdict says is not here.
_GAPS = {
    "unplaced_partitions_losing_leader": "{n} of the partitions without known replicas [loses its leader; its next "
    "leader is|lose their leaders; their next leaders are] unknown",
    "topics_without_min_isr": "min.insync.replicas of {n} topic[|s] is not in the sources: the setting "
    "topics.min_insync_replicas = {gaps.assumed_min_isr} is assumed",
    "conflicts": "the sources conflict [once|{n} times] (run inspect for details)",
    "partitions_with_observers": "{n} partition[ has|s have] observers, which the topic's placement constraints may "
    "promote to the ISR: offline and below min.insync.replicas may be too pessimistic",
    "partitions_with_unknown_elr": "the ELR of {n} partition[|s] has brokers of unknown state, which lead only if "
    "they are live: offline may be too pessimistic",
    "topics_without_rates": "bytes in and out are without {n} topic[|s] whose rates are not known: "
    "{gaps.names_without_rates}",
    "skipped_entries": "{n} sub-folder[ or link is|s or links are] ignored (run inspect for details)",
}
_MAX_LINES = 20


def format_cluster(answer: ClusterAnswer) -> list[str]:
    """Format the answer without --fail, the riskiest brokers first."""
    verdict, brokers = answer.verdict, answer.brokers
    live = count_live_brokers(len(brokers), len(answer.left_out.unknown_brokers))
    partitions = count_of(answer.partitions, "partition")
    lines = [f"cluster {answer.cluster}, {live}, {partitions}", f"  {verdict.headline}"]
    lines += format_findings(verdict)
    lines += _format_warnings(answer.left_out.conflicting_listings)
    lines += _format_gaps(answer.left_out)
    lines += format_survivor_loads(answer.survivor_loads)
    if answer.hypothesis or any(use.disk_bytes is not None for use in answer.disks):
        lines += format_disk_uses(answer.disks)
    lines += format_start_order(answer.outage)
    lines += format_restart_order(answer)
    lines += _format_answers("broker", brokers, answer.left_out)
    if len(answer.racks) > 1:
        lines += _format_answers("rack", answer.racks, answer.left_out)
    return lines


def _format_answers(unit: str, rows: Sequence[SingleFailure], gaps: SourceGaps) -> Iterator[str]:
    """Yield "Can this broker fail now?" and the answer for each, the riskiest first."""
    if rows:
        limited = " (as far as the sources show)" if is_limited(gaps) else ""
        yield f"Can this {unit} fail now?{limited}"
    width = max((len(str(row.failed)) for row in rows), default=0)
    for row in sorted(rows, key=_by_risk):
        details = ", ".join(_list_details(row))
        yield f"  {row.failed:>{width}}  {row.answer}{f' ({details})' if details else ''}"


def is_limited(gaps: SourceGaps) -> bool:
    """Return whether the sources lack something, so that an answer for a broker may be too good."""
    return bool(gaps.sentences)


def _list_details(row: SingleFailure) -> Iterator[str]:
    if isinstance(row.failed, str):  # a rack
        yield count_of(row.brokers, "broker")
    blocked = row.newly_under_min_isr_partitions
    if blocked and row.newly_offline_partitions + row.unclean_elections:  # else the answer says it
        yield f"{count_of(blocked, 'partition')} would block acks=all producers"
    if row.leaders_lost:
        takeover = f", {count_of(row.takeover_brokers, 'broker')} would take over" if row.takeover_brokers else ""
        yield f"leads {count_of(row.leaders_lost, 'partition')}{takeover}"
    if row.leaders_lost and row.worst_survivor_ratio is not None and row.worst_survivor_ratio >= _UNEVEN_RATIO:
        yield f"worst survivor: broker {row.worst_survivor} with {row.worst_survivor_ratio:.2f} x the mean"


def _by_risk(row: SingleFailure) -> tuple[Any, ...]:
    losses = (-row.newly_offline_partitions, -row.unclean_elections, -row.under_min_isr_partitions)
    return (*losses, -(row.worst_survivor_ratio or 0), row.failed)


def format_failure(answer: FailureAnswer, command: str = "") -> list[str]:
    """Format the answer of --fail. command: that asks the same again."""
    summary = answer.summary
    lines = [_answer_failure(answer), *_format_causes(answer, command)]
    brokers = ", ".join(map(str, answer.failed))
    subject = f"broker {brokers} fails" if len(answer.failed) == 1 else f"brokers {brokers} fail"
    lines.append(f"cluster {answer.cluster}, {count_of(summary.partitions, 'partition')}: {subject}")
    lines += [f"  broker {broker} is down already" for broker in summary.gaps.failed_already_down]
    lines += _format_warnings([*summary.gaps.conflicting_listings, *summary.gaps.sentences])
    lines += _format_totals(answer)
    lines += _format_gaps(summary.gaps)
    for broker, count in sorted(summary.takeovers.items(), key=lambda item: -item[1]):
        leaders = summary.leaders_after[broker]
        lines.append(f"  broker {broker} takes over {count_of(count, 'partition')} and then leads {leaders}")
    if summary.worst_survivor_ratio is not None and summary.worst_survivor_ratio >= _UNEVEN_RATIO:
        worst = f"broker {summary.worst_survivor} with {summary.worst_survivor_ratio:.2f} x the mean"
        lines.append(f"  worst survivor: {worst}")
    return [*lines, *format_survivor_loads(answer.survivor_loads)]


def _answer_failure(answer: FailureAnswer) -> str:
    """Return the sentence to read first, as in NO: 2 partitions would go offline: a-1, b-4 (7 are offline already)."""
    summary = answer.summary
    word, _, rest = summary.answer.partition(": ")
    offline = _list_newly_offline(answer, counted=True)
    uncounted = set(summary.uncounted_topics)
    unclean = [p for p in answer.partitions if p.elected_from == "unclean" and p.topic not in uncounted]
    named = offline or unclean
    names = f": {name_some([f'{p.topic}-{p.partition}' for p in named])}" if named else ""
    before = summary.offline_before
    already = f" ({before} {is_or_are(before)} offline already)" if before else ""
    if len(answer.failed) == len(summary.gaps.failed_already_down):
        brokers = f"broker{'' if len(answer.failed) == 1 else 's'} {', '.join(map(str, answer.failed))}"
        return f"DOWN ALREADY: {brokers}. Nothing more would go offline{already}"
    if rest:
        return f"{word.upper()}: {rest}{names or name_affected_topics(summary.effects.blocked)}{already}"
    limit = " as far as the sources show" if is_limited(summary.gaps) else ""
    head, _, but = summary.answer.partition(", but ")
    more = "no more partition" if before else "no partition"
    return f"{head.upper()}{limit}: {more} would go offline{already}{f', but {but}' if but else ''}"


def _format_causes(answer: FailureAnswer, command: str) -> Iterator[str]:
    """Yield who is blocked, if the answer is about worse, and why all this would happen, with next steps."""
    effects, summary = answer.summary.effects, answer.summary
    if (blocked := effects.blocked).partitions and (effects.offline.partitions or summary.unclean_elections):
        count = count_of(blocked.partitions, "more partition")
        yield f"  {count} would block acks=all producers{name_affected_topics(blocked)}"
    for cause in summary.causes:
        yield f"  - {cause.text}"
        if cause.step:
            yield f"    next: {cause.step}"
    if command and summary.causes:
        yield f"  then list the topics again, and ask again: {command}"


def _format_totals(answer: FailureAnswer) -> Iterator[str]:
    summary = answer.summary
    new = summary.offline_after - summary.offline_before
    unclean = f", {summary.unclean_elections} of them unclean" if summary.unclean_elections else ""
    yield f"  leaders that move: {summary.leaders_moved}{unclean}"
    counts = f" ({summary.offline_before} already, {new} newly)" if summary.offline_before and new else ""
    yield f"  offline partitions: {summary.offline_after}{counts}"
    if uncounted := len(_list_newly_offline(answer, counted=False)):
        yield f"  offline partitions of ignored or deleted topics, which do not count: {uncounted} newly"
    yield f"  partitions below min.insync.replicas (acks=all blocked): {summary.under_min_isr_after}"
    single = summary.single_replica_partitions
    of_one = f" ({single} of them with replication factor 1)" if single else ""
    yield f"  partitions with one in-sync replica left: {summary.single_isr_partitions}{of_one}"


def _list_newly_offline(answer: FailureAnswer, counted: bool) -> list[PartitionChange]:
    """List the partitions that go offline, of topics that count or of the others."""
    uncounted = set(answer.summary.uncounted_topics)
    offline = (p for p in answer.partitions if p.leader_before is not None and p.leader_after is None)
    return [p for p in offline if (p.topic not in uncounted) is counted]


def _format_warnings(sentences: Sequence[str]) -> list[str]:
    return [f"  warning: {sentence}" for sentence in sentences]


def _format_gaps(gaps: SourceGaps) -> Iterator[str]:
    for name, note in _GAPS.items():
        value = getattr(gaps, name)
        count = value if isinstance(value, int) else len(value)
        if count:
            yield f"  note: {fill_forms(note, count, gaps=gaps)}"


def format_disk_uses(uses: Sequence[DiskUse]) -> Iterator[str]:
    """Yield a line on the fullest disk, and how many are over; without a known disk, on the largest broker."""
    if not uses:
        return
    fullest = max(uses, key=lambda use: (use.used, use.log_dir is None, use.size_bytes))
    inferred = f" ({format_bytes(fullest.inferred_bytes)} inferred from leaders)" if fullest.inferred_bytes else ""
    size = f"  disk: {fullest.name} holds {format_bytes(fullest.size_bytes)}{inferred}"
    if fullest.disk_bytes is None:
        yield f"{size}, the most of all; the size of its disks is not known"
        return
    disks = f"the {format_bytes(fullest.disk_bytes)} that its {'disks' if fullest.log_dir is None else 'disk'} can hold"
    yield f"{size}, more than {disks}" if fullest.is_over else f"{size}, {100 * fullest.used:.0f} % of {disks}"
    over = [use for use in uses if use.is_over]
    counts = (sum(use.log_dir is None for use in over), sum(use.log_dir is not None for use in over))
    if sum(counts) > 1:
        nouns = [count_of(count, noun) for count, noun in zip(counts, ("broker", "log dir"), strict=True) if count]
        yield f"    {' and '.join(nouns)} would hold more than their disks can"


def format_survivor_loads(survivor_loads: Sequence[SurvivorLoad]) -> Iterator[str]:
    """Yield a line on the worst survivor of all failures for each rate."""
    for quantity in RATES:
        of_rate = [load for load in survivor_loads if load.quantity == quantity]
        if not of_rate:
            continue
        worst = max(of_rate, key=_by_use)
        over = sum(load.is_over for load in of_rate)
        fail = "fails" if len(worst.failed) == 1 else "fail"
        when = f"if broker{'' if fail == 'fails' else 's'} {', '.join(map(str, worst.failed))} {fail}"
        line = f"  {worst.label}: {when}, broker {worst.broker_id} transfers {format_bytes(worst.load)}/s"
        yield f"{line}, {_compare_with_capacity(worst)}"
        if len(of_rate) > 1 and over:
            yield f"    {over} of {count_of(len(of_rate), 'failure')} would take a survivor over its capacity"


def _by_use(load: SurvivorLoad) -> tuple[bool, bool, float, float]:
    """Sort by the part of the capacity that is used; a capacity of 0 is the worst, none the least."""
    ratio = load.load_over_capacity_ratio
    return load.is_over and ratio is None, ratio is not None, ratio or 0.0, load.load


def _compare_with_capacity(load: SurvivorLoad) -> str:
    if load.capacity is None:
        return "and its capacity is not known"
    limit = f"its capacity of {format_bytes(load.capacity)}/s, {load.capacity_source}"
    if load.is_over:
        return f"over {limit}"
    return f"{100 * (load.load_over_capacity_ratio or 0):.0f} % of {limit}"


def format_check(check: PredictionCheck) -> Iterator[str]:
    """Yield the lines that a person reads."""
    leaders = count_of(check.partitions, "leader")
    yield f"Compared with the later source: {check.as_predicted} of {leaders} as predicted"
    for one in check.differences[:_MAX_LINES]:
        predicted, actual = ("offline" if id_ is None else f"broker {id_}" for id_ in (one.predicted, one.actual))
        yield f"  {one.topic}-{one.partition}: predicted {predicted}, now {actual}: {one.reason}"
    if len(check.differences) > _MAX_LINES:
        yield f"  and {len(check.differences) - _MAX_LINES} more (--json FILE lists all)"
    if check.only_before:
        yield f"  {count_of(check.only_before, 'partition')} of the first source are not in the later one"
    if check.only_after:
        yield f"  {count_of(check.only_after, 'partition')} of the later source are not in the first one"


# Which offline partitions need more than a start, and what to say of them.
_EXCEPTIONS: tuple[tuple[Callable[[OfflinePartition], bool], str], ...] = (
    (
        lambda one: one.needs_all and not one.allows_unclean,
        "[needs|need] all eligible brokers back, as one that crashed may not lead; one is enough if it was shut down "
        "cleanly",
    ),
    (
        lambda one: one.needs_clean_stop and not one.allows_unclean,
        "[comes|come] online only if an eligible broker was shut down cleanly",
    ),
    (
        lambda one: one.allows_unclean and bool(one.eligible_brokers),
        "[allows|allow] unclean elections: messages may be lost if another broker starts before an eligible one",
    ),
    (
        lambda one: one.elected_from == "unknown",
        "[has|have] no in-sync replica and no ELR that a source shows: start all brokers that have a replica",
    ),
    (
        lambda one: one.elected_from == "unclean",
        "[has|have] no eligible replica: the first broker that starts leads, and messages may be lost",
    ),
    (
        lambda one: one.elected_from == "none",
        "[has|have] no eligible replica: only kafka-leader-election --election-type unclean helps, which may lose "
        "messages; the broker that stopped last has most of them",
    ),
)


def format_start_order(outage: Outage) -> Iterator[str]:
    """Yield in which order to start the brokers that are down, and which offline partitions need more than that."""
    starts = outage.start_order
    if not outage.offline or not outage.down_brokers:
        return
    if starts:
        order = name_brokers([_describe_start(start, is_first=not i) for i, start in enumerate(starts)])
        yield f"Start the brokers that are down in this order: {order}"
        if others := sorted(set(outage.down_brokers) - {start.broker for start in starts}):
            verb = "brings" if len(others) == 1 else "bring"
            yield f"  {name_with_noun(others)} {verb} no other offline partition online"
    else:
        yield "No broker that is down is sure to bring an offline partition online:"
    for applies, text in _EXCEPTIONS:
        names = [one.name for one in outage.offline if applies(one)]
        if names:
            yield f"  {count_of(len(names), 'partition')} {fill_forms(text, len(names))}: {name_some(names)}"


def _describe_start(start: BrokerStart, *, is_first: bool) -> str:
    if not start.partitions:
        return f"{start.broker}"
    count = count_of(start.partitions, "more partition" if not is_first else "partition")
    return f"{start.broker} ({count} online)"  # without a count: the next one is needed too


def describe_stays(offline: OfflinePartitions, ids: Sequence[int]) -> str:
    """Return what stays offline of the partitions of brokers that are back, as a clause; empty without any."""
    count, rows = offline.find_on(ids)
    if not count:
        return ""
    names = name_some([f"{row['topic']}-{row['partition']}" for row in rows], count)
    needed = [start.broker for start in offline.starts]
    gain = count_of(sum(start.partitions for start in offline.starts), "partition")
    verb = "brings" if len(needed) == 1 else "bring"
    step = f"start {name_with_noun(needed)} too, which {verb} {gain} online" if needed else "no broker brings them back"
    return f", but {count_of(count, 'partition')} with a replica there would stay offline ({names}): {step}"


def format_restart_order(answer: ClusterAnswer) -> Iterator[str]:
    """Yield the order, the safest broker first; which not yet, and why; and what holds for all; then controllers.

    Partitions with replication factor 1 are offline whenever their broker restarts, so no broker waits for them.
    """
    rows, quorum = answer.brokers, answer.quorum
    if len(rows) > 1:
        yield from _order_brokers(rows, quorum, is_limited(answer.left_out))
    if apart := set(quorum.voters).difference(row.failed for row in rows):
        ready, waiting = quorum.order_restarts(apart)
        if ready:
            not_yet = f"; not yet: {join_names(waiting)} (no majority of voters would be left)" if waiting else ""
            yield f"Restart controllers in this order: {join_names(ready)}{not_yet}"
            yield "  before each, wait until all voters follow the active controller"
        else:
            yield f"While any controller restarts ({join_names(waiting)}), no leader is elected: no majority is left"


def _order_brokers(rows: Sequence[SingleFailure], quorum: QuorumVoters, is_limited: bool) -> Iterator[str]:
    """Yield the order of brokers. is_limited: the sources lack something, so that the order may be wrong."""
    groups, texts, room = _group_by_effect(rows, quorum.leader), [], MAX_BROKERS
    for effect, ids in groups.items():
        names = join_names(ids, room) if room else count_of(len(ids), "broker")
        room = max(room - len(ids), 0)
        texts.append(f"{names}{f' ({effect})' if effect else ''}")
    limited = " (as far as the sources show)" if is_limited else ""
    if "" in groups:
        waiting = f"; not yet: {', '.join(texts[1:])}" if texts[1:] else ""
        yield f"Restart in this order{limited}: {texts[0]}{waiting}"
    else:
        yield f"Restart no broker yet{limited}; the least harmful first: {', '.join(texts)}"
    alone = any(row.single_replica_partitions for row in rows)
    offline = "; partitions with replication factor 1 are offline while their broker restarts" if alone else ""
    voters = " and all voters follow" if any(row.failed in quorum.voters for row in rows) else ""
    yield f"  before each, wait until all replicas are in sync{voters}{offline}"


def _group_by_effect(rows: Sequence[SingleFailure], active: int | None) -> dict[str, list[int | str]]:
    """Group brokers by the worst effect of their failure on replicated partitions, the least harmful first.

    Of equal ones, those with fewer unreplicated partitions come first, then those whose takeovers are more even.
    active: the active controller, the last of its group, so that it moves once.
    """

    def count_losses(row: SingleFailure) -> dict[str, int]:
        return {
            "no leader is elected meanwhile": int(not row.leaves_majority),
            "partitions offline": row.newly_offline_partitions - row.single_replica_partitions,
            "messages at risk": row.unclean_elections,
            "acks=all blocked": row.newly_under_min_isr_partitions,
        }

    def rank(row: SingleFailure) -> tuple[float, ...]:
        load = (row.worst_survivor_ratio or 0, row.leaders_lost)
        losses = count_losses(row).values()
        return (*losses, row.failed == active and not any(losses), row.single_replica_partitions, *load)

    groups: dict[str, list[int | str]] = {}
    for row in sorted(rows, key=rank):
        effect = next((effect for effect, count in count_losses(row).items() if count), "")
        groups.setdefault(effect, []).append(row.failed)
    return groups
