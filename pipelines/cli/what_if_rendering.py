"""The answers of `what-if` as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipelines.cli.broker_order_rendering import format_restart_order, format_start_order
from pipelines.cli.text_format import EVERYTHING, Limits, align_rows, format_findings
from pipelines.verdict.cluster_evidence import (
    MAX_BROKERS,
    name_affected_topics,
    name_brokers,
    name_some,
    name_with_noun,
)
from pipelines.verdict.verdict_points import VerdictPoint, fill_forms
from pipelines.what_if.failure_effects import RATES, DiskUse, SurvivorLoad
from pipelines.what_if.prediction_check import PredictionCheck
from pipelines.what_if.source_gaps import SourceGaps
from pipelines.what_if.wait_or_move import ReturnedAnswer
from pipelines.what_if.what_if_answers import ClusterAnswer, FailureAnswer, PartitionChange, SingleFailure
from udfs.wording import count_live_brokers, count_of, estimate_duration, format_bytes, format_duration, is_or_are

if TYPE_CHECKING:
    from pipelines.what_if.outage import CopyCost, ReplicaMove, WaitOrMove


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
    "brokers_without_rack": "the rack of broker[|s] {names} is not in the sources: answers about racks are without "
    "[it|them]; add a file with broker_id,rack and a line for [it|each]",
    "topics_without_rates": "bytes in and out are without {n} topic[|s] whose rates are not known: {names}",
    "topics_with_copy_lag": "{n} topic[ is|s are] uploaded to remote storage with a delay (remote.copy.lag): what is "
    "not uploaded yet ({late}) is lost with the replicas: {names}",
    "skipped_entries": "{n} sub-folder[ or link is|s or links are] ignored (run inspect for details)",
}
_QUORUM_COMMAND = "to see its voters: kafka-metadata-quorum --bootstrap-server {server} describe --status"
# What may elect the controller -> (its name, how to check it).
_QUORUMS = {
    "kraft": ("the controller quorum (KRaft)", _QUORUM_COMMAND),
    "zookeeper": ("the ZooKeeper ensemble", "check the ensemble by itself"),
}
_TRANSACTIONS = "__transaction_state"
_MAX_LINES = 20


def format_cluster(answer: ClusterAnswer, limits: Limits = EVERYTHING) -> list[str]:
    """Format the answer without --fail, the riskiest brokers first."""
    verdict, brokers = answer.verdict, answer.brokers
    live = count_live_brokers(len(brokers), len(answer.left_out.unknown_brokers))
    partitions = count_of(answer.partitions, "partition")
    lines = [f"cluster {answer.cluster}, {live}, {partitions}", f"  {verdict.headline}"]
    lines += _format_points(verdict.points, limits, verdict.sentence)
    lines += _format_warnings(answer.left_out.conflicting_listings, limits)
    if answer.wait_or_move is not None:
        lines += format_choices(answer.wait_or_move)
    lines += _format_gaps(answer.left_out, limits)
    lines += format_survivor_loads(answer.survivor_loads)
    hides_disks = limits.are_tight and not any(use.is_over for use in answer.disks)
    if answer.hypothesis or (any(use.disk_bytes is not None for use in answer.disks) and not hides_disks):
        lines += format_disk_uses(answer.disks)
    lines += format_start_order(answer.outage)
    lines += format_restart_order(answer, None if limits == EVERYTHING else MAX_BROKERS)
    lines += _format_answers("broker", brokers, answer.left_out, limits)
    if len(answer.racks) > 1:
        rows = 1 if limits.are_tight else limits.rows and min(limits.rows, 3)
        lines += _format_answers("rack", answer.racks, answer.left_out, limits._replace(rows=rows))
    return lines


def format_return(answer: ClusterAnswer, returned: ReturnedAnswer, then: str, limits: Limits) -> Iterator[str]:
    """Yield what remains once all brokers are live. then: source and options of the command that answers for that."""
    down = answer.outage.down_brokers
    back = f"{name_with_noun(down)} {is_or_are(len(down))} back, and " if down else ""
    verdict = returned.answer.verdict
    if limits.are_tight:
        yield f"Once {back}all replicas are in sync: {verdict.level.label}"
    else:
        yield from (f"Once {back}all replicas are in sync:", f"  {verdict.headline}")
    if limits == EVERYTHING:
        yield from (f"  {line}" for line in format_restart_order(returned.answer, None))
    yield f"  the whole answer of then: kafka-placement what-if {then}"


def _format_answers(unit: str, failures: Sequence[SingleFailure], gaps: SourceGaps, limits: Limits) -> Iterator[str]:
    """Yield "Can this broker fail now?" and a table with the answer for each, the riskiest first."""
    if not failures:
        return
    limited = " (as far as the sources show)" if gaps.is_limited else ""
    yield f"Can this {unit} fail now?{limited} What its failure would do, in partitions:"
    ordered = sorted(failures, key=_by_risk)
    cells = {
        unit: [f"{row.failed}" for row in ordered],
        "answer": [_shorten_answer(row) for row in ordered],
        "brokers": [f"{row.brokers}" if unit == "rack" else "" for row in ordered],
        "offline": [_show(row.newly_offline_partitions) for row in ordered],
        "blocked": [_show(row.newly_under_min_isr_partitions) for row in ordered],
        "unclean": [_show(row.unclean_elections) for row in ordered],
        "leads": [_show(row.leaders_lost) for row in ordered],
        "to brokers": [_show(row.takeover_brokers) for row in ordered],
        "worst survivor": [_name_worst(row) for row in ordered],
    }
    columns = {heading: texts for heading, texts in cells.items() if any(texts)}
    lines = list(align_rows([list(columns), *zip(*columns.values(), strict=True)], left=(1,)))
    hidden = limits.hide(len(ordered))
    yield from (f"  {line}" for line in lines[: len(lines) - hidden])
    if hidden:
        counts = Counter(_shorten_answer(row).lower() for row in ordered[-hidden:])
        yield f"  ... {hidden} more ({', '.join(f'{count} {answer}' for answer, count in counts.items())}): --all"


def _show(count: int) -> str:
    return f"{count:,}" if count else ""


def _shorten_answer(row: SingleFailure) -> str:
    """Return the answer without the counts that the table has."""
    if not row.leaves_majority:
        return "No: no majority"
    head, _, but = row.answer.partition(":")[0].partition(", but ")
    return f"{head}, hot" if but else head


def _name_worst(row: SingleFailure) -> str:
    if not row.leaders_lost or row.worst_survivor_ratio is None or row.worst_survivor_ratio < _UNEVEN_RATIO:
        return ""
    return f"{row.worst_survivor}: {row.worst_survivor_ratio:.2f} x"


def _by_risk(row: SingleFailure) -> tuple[Any, ...]:
    losses = (-row.newly_offline_partitions, -row.unclean_elections, -row.under_min_isr_partitions)
    return (*losses, -(row.worst_survivor_ratio or 0), row.failed)


def format_failure(answer: FailureAnswer, command: str = "", limits: Limits = EVERYTHING) -> list[str]:
    """Format the answer of --fail. command: that asks the same again."""
    summary = answer.summary
    lines = [_answer_failure(answer), *_format_causes(answer, command, limits)]
    brokers = ", ".join(map(str, answer.failed))
    subject = f"broker {brokers} fails" if len(answer.failed) == 1 else f"brokers {brokers} fail"
    lines.append(f"cluster {answer.cluster}, {count_of(summary.partitions, 'partition')}: {subject}")
    lines += [f"  broker {broker} is down already" for broker in summary.gaps.failed_already_down]
    lines += _format_warnings([*summary.gaps.conflicting_listings, *summary.gaps.sentences], limits)
    lines += _format_totals(answer)
    lines += _format_gaps(summary.gaps, limits)
    hidden = limits.hide(len(summary.takeovers))
    for broker, count in sorted(summary.takeovers.items(), key=lambda item: -item[1])[
        : len(summary.takeovers) - hidden
    ]:
        leaders = summary.leaders_after[broker]
        lines.append(f"  broker {broker} takes over {count_of(count, 'partition')} and then leads {leaders}")
    lines += [f"  ... {hidden} more brokers take over partitions: --all"] * bool(hidden)
    if (ratio := summary.worst_survivor_ratio or 0) >= _UNEVEN_RATIO:
        lines.append(f"  worst survivor: broker {summary.worst_survivor} with {ratio:.2f} x the mean")
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
    limit = " as far as the sources show" if summary.gaps.is_limited else ""
    head, _, but = summary.answer.partition(", but ")
    more = "no more partition" if before else "no partition"
    return f"{head.upper()}{limit}: {more} would go offline{already}{f', but {but}' if but else ''}"


def _format_causes(answer: FailureAnswer, command: str, limits: Limits) -> Iterator[str]:
    """Yield who is blocked, if the answer is about worse, and why all this would happen, with next steps."""
    effects, summary = answer.summary.effects, answer.summary
    if (blocked := effects.blocked).partitions and (effects.offline.partitions or summary.unclean_elections):
        count = count_of(blocked.partitions, "more partition")
        yield f"  {count} would block acks=all producers{name_affected_topics(blocked)}"
    yield from _format_points(summary.causes, limits)
    if command and summary.causes:
        yield f"  then list the topics again, and ask again: {command}"


def _format_totals(answer: FailureAnswer) -> Iterator[str]:
    summary = answer.summary
    new = summary.offline_after - summary.offline_before
    unclean = f", {summary.unclean_elections} of them unclean" if summary.unclean_elections else ""
    yield f"  leaders that move: {summary.leaders_moved}{unclean}"
    if unclean and any(one.topic == _TRANSACTIONS for one in answer.partitions):
        command = f"kafka-transactions --bootstrap-server {summary.gaps.bootstrap_server} find-hanging --broker-id ID"
        yield f"    they may cut transactions, or leave them open, which blocks read_committed consumers: {command}"
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


def _format_points(points: Sequence[VerdictPoint], limits: Limits, headline: str = "") -> Iterator[str]:
    """Yield findings or causes with their next steps, and how many are hidden."""
    yield from format_findings(points, headline, limits.findings, limits.steps)
    first = points[: limits.findings]
    steps = sum(bool(point.step) for point in first[len(points) if limits.steps is None else limits.steps :])
    hidden = [count_of(len(points) - len(first), "more finding")] * (len(points) > len(first))
    hidden += [count_of(steps, "next step")] * bool(steps)
    if hidden:
        yield f"  ... {' and '.join(hidden)}: --all"


def _format_warnings(sentences: Sequence[str], limits: Limits) -> Iterator[str]:
    first = sentences[: limits.findings]
    yield from (f"  warning: {sentence}" for sentence in first)
    if more := len(sentences) - len(first):
        yield f"  ... {count_of(more, 'more warning')}: --all"


def _format_gaps(gaps: SourceGaps, limits: Limits) -> Iterator[str]:
    """Yield the notes, and how many are hidden."""
    notes = list(_list_notes(gaps))
    first = notes[: limits.notes]
    yield from (f"  note: {note}" for note in first)
    if more := len(notes) - len(first):
        yield f"  ... {count_of(more, 'more note')}: --all"


def _list_notes(gaps: SourceGaps) -> Iterator[str]:
    late = "no source shows how much" if gaps.copy_lag_bytes is None else f"at most {format_bytes(gaps.copy_lag_bytes)}"
    for name, note in _GAPS.items():
        value = getattr(gaps, name)
        count, names = (value, "") if isinstance(value, int) else (len(value), name_some([str(one) for one in value]))
        if count:
            yield f"{fill_forms(note, count, gaps=gaps, names=names, late=late)}"
    if gaps.unknown_quorum:
        quorums, checks = zip(*(_QUORUMS[name] for name in gaps.unknown_quorum), strict=True)
        how = "; ".join(checks).format(server=gaps.bootstrap_server)
        yield f"no source shows {' or '.join(quorums)}: a controller is assumed after any failure; {how}"


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
    limit = f"its capacity of {format_bytes(load.capacity)}/s, as in capacity.file"
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


# Title of a row -> field of Exposure.
_ROWS = {
    "offline": "offline_partitions",
    "acks=all blocked": "under_min_isr_partitions",
    "under-replicated": "under_replicated_partitions",
    "next failure: offline": "newly_offline_partitions",
    "next failure: blocked": "newly_under_min_isr_partitions",
}


def format_choices(choice: WaitOrMove) -> Iterator[str]:
    """Yield both choices side by side, and what moving takes."""
    down, move = choice.down_brokers, choice.move
    yield f"Wait for {name_with_noun(down)}, or move {'its' if len(down) == 1 else 'their'} replicas to others?"
    yield from _describe_stops(choice)
    states = {"now": choice.now, "once back": choice.once_returned}
    if move is not None and move.waves > 1:
        states[f"wave 1{_name_time(move.first_wave)}"] = move.after_first_wave
    if move is not None:
        states[f"{'all waves' if move.waves > 1 else 'moved'}{_name_time(move.cost)}"] = move.after_all_waves
    rows = [[title, *(f"{getattr(state, field):,}" for state in states.values())] for title, field in _ROWS.items()]
    rows = [row for row in rows if any(cell != "0" for cell in row[1:])]
    yield from (f"  {line}" for line in align_rows([["partitions", *states], *rows]))
    if move is None:
        yield f"  moving is not possible: {choice.obstacle}"
        return
    yield f"  moving copies {_describe_cost(move.cost, move)}"
    then = "it returns" if len(down) == 1 else "they return"
    yield f"  moving back once {then} copies {_describe_cost(move.cost_back)}"


def _describe_stops(choice: WaitOrMove) -> Iterator[str]:
    """Say since when brokers are down, if a source shows it."""
    times = {
        broker: f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M} UTC"
        for broker, at in sorted(choice.down_since_ms.items(), key=lambda item: item[1])
    }
    known = name_brokers([f"{broker} since {time}" for broker, time in times.items()])
    rest = [broker for broker in choice.down_brokers if broker not in times]
    if times:
        yield f"  down: {known}{f'; no source shows it for {name_with_noun(rest)}' if rest else ''}"


def _name_time(cost: CopyCost) -> str:
    return "" if cost.seconds is None else f" ({format_duration(cost.seconds)})"


def _describe_cost(cost: CopyCost, move: ReplicaMove | None = None) -> str:
    """Describe copies; move: with its throttle."""
    replicas = count_of(cost.replicas, "replica")
    if cost.bytes_to_copy is None or cost.seconds is None:
        hint = "; add the output of kafka-log-dirs --describe to see how long it takes" if move else ""
        return f"{replicas} of unknown size{hint}"
    rate = f" at {format_bytes(move.throttle_bytes_per_s)}/s per broker" if move else ""
    return f"{replicas}, {format_bytes(cost.bytes_to_copy)}: {estimate_duration(cost.seconds)}{rate}"
