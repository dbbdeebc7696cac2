"""`what-if`: which brokers can fail now, and what happens if some fail."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli import common_options as common
from pipelines.cli.app import app, examples
from pipelines.cli.cluster_options import ClusterOptions
from pipelines.cli.hypothetical_options import HypotheticalOptions, omit_steps
from pipelines.cli.named_brokers import find_brokers
from pipelines.cli.option_groups import take_groups
from pipelines.cli.option_values import parse_place
from pipelines.cli.prediction_check import check_prediction, format_check
from pipelines.cli.restart_order import format_restart_order, format_start_order
from pipelines.cli.source_arguments import SourceArgument
from pipelines.cli.text_format import print_message
from pipelines.cli.verdict_rendering import format_findings
from udfs.plurals import count_live_brokers, count_of, is_or_are

if TYPE_CHECKING:
    from pipelines.cli.source_gaps import SourceGaps
    from pipelines.cli.what_if_answers import BrokerFailure, ClusterAnswer, FailureAnswer, PartitionChange, RackFailure
    from pipelines.ingest.snapshot_reader import Snapshot
    from udfs.failures.topic_defaults import TopicDefaults


@app.command("what-if", rich_help_panel="Questions, without Spark", epilog=examples("what-if"))
@take_groups
def what_if(
    source: SourceArgument,
    *,
    fail: Annotated[
        str | None,
        typer.Option(
            help="Ids or racks of the brokers that fail together, as in 2,5 or eu-1a.",
            metavar="IDS",
            show_default="each broker by itself",
        ),
    ] = None,
    actual: Annotated[
        str | None,
        typer.Option(
            help="With --fail: a source from after this failure; compare its leaders with the predicted ones.",
            metavar="SOURCE",
            parser=parse_place,
        ),
    ] = None,
    other: HypotheticalOptions,
    cluster: ClusterOptions,
    json_file: common.JsonOption = None,
) -> None:
    """Show which brokers can fail now; with --fail, what goes offline and who takes over. Does not start Spark."""
    from pipelines.cli import what_if_answers
    from pipelines.cli.disk_use import list_disk_uses
    from pipelines.cli.survivor_capacity import read_survivor_capacities
    from pipelines.setup.compile_on_demand import announce_compilation

    settings = cluster.read_settings()
    measured = cluster.read(source, settings, actual)
    snapshot = cluster.apply(measured, settings.topics.defaults)
    if actual is not None and fail is None:
        raise typer.BadParameter("--actual needs --fail: which brokers failed between the two sources?")
    if actual is not None and other.is_given:
        raise typer.BadParameter("--actual compares with the cluster as it is: leave out --add, --remove and --grow")
    defaults, capacities = settings.topics.defaults, read_survivor_capacities(snapshot, settings.capacity)
    named = cluster.quote_with(source)
    with announce_compilation(print_message):
        snapshot, hypothesis = other.apply(snapshot, settings)
        if fail is None:
            answer = what_if_answers.evaluate_brokers(snapshot, defaults, capacities)
            verdict = omit_steps(answer.verdict) if hypothesis else answer.verdict
            verdict = verdict.name_start_order([start.broker for start in answer.outage.start_order])
            answer = replace(answer, verdict=verdict.name_source(named, answer.cluster), hypothesis=hypothesis)
            answer = replace(answer, disks=list_disk_uses(snapshot, measured, settings))
            lines = [*format_cluster(answer), *_format_return(snapshot, defaults, source, cluster, other.text)]
            common.write_answer(json_file, answer, lines)
        else:
            failed = find_brokers("--fail", fail, snapshot)
            failure = what_if_answers.evaluate_failure(snapshot, failed, defaults, capacities)
            failure = replace(failure.name_source(named), hypothesis=hypothesis)
            failure = failure.omit_steps() if hypothesis else failure
            command = f"kafka-placement what-if {named} --fail {shlex.quote(fail)}"
            lines = format_failure(failure, "" if hypothesis else command)
            if actual is not None:
                later = cluster.read_later(actual, settings, source)
                predicted = {(one.topic, one.partition): one.leader_after for one in failure.partitions}
                check = check_prediction(predicted, failed, snapshot, later)
                failure, lines = replace(failure, check=check), [*lines, *format_check(check)]
            common.write_answer(json_file, failure, lines)


def _format_return(
    snapshot: Snapshot, defaults: TopicDefaults, source: str, cluster: ClusterOptions, more: str
) -> Iterator[str]:
    """Yield what remains once all brokers are live, and all replicas in sync, if some are not now.

    more: the other options of the command that asks again.
    """
    from pipelines.cli import what_if_answers
    from pipelines.ingest.merge.live_brokers import get_down_brokers
    from pipelines.ingest.returned_brokers import find_missing_brokers, return_brokers
    from pipelines.verdict.naming import name_with_noun

    missing = find_missing_brokers(snapshot, defaults)
    returned = return_brokers(snapshot, missing, defaults)
    if returned.partitions.equals(snapshot.partitions):  # also where partitions stay offline though all are back
        return
    answer = what_if_answers.evaluate_brokers(returned, defaults)
    down = get_down_brokers(snapshot.brokers).tolist()
    back = f"{name_with_noun(down)} {is_or_are(len(down))} back, and " if down else ""
    ids = ",".join(dict.fromkeys([*(cluster.returned or "").split(","), *map(str, missing)])).strip(",")
    again = f"kafka-placement what-if {replace(cluster, returned=ids).quote_with(source)}{more}"
    yield f"Once {back}all replicas are in sync ({again}):"
    yield f"  {answer.verdict.headline}"
    order = format_restart_order(answer.brokers, is_limited=_is_limited(answer.left_out))
    yield from (f"  {line}" for line in order)


def format_cluster(answer: ClusterAnswer) -> list[str]:
    """Format the answer without --fail, the riskiest brokers first."""
    from pipelines.cli.disk_use import format_disk_uses
    from pipelines.cli.survivor_capacity import format_survivor_loads

    verdict, brokers = answer.verdict, answer.brokers
    live = count_live_brokers(len(brokers), len(answer.left_out.unknown_brokers))
    partitions = count_of(answer.partitions, "partition")
    lines = [f"cluster {answer.cluster}, {live}, {partitions}", f"  {verdict.headline}"]
    lines += format_findings(verdict)
    lines += _format_warnings(answer.left_out.conflicting_listings)
    lines += _format_gaps(answer.left_out, _IN_VERDICT)  # the verdict has them
    lines += format_survivor_loads(answer.survivor_loads)
    if answer.hypothesis or any(use.disk_bytes is not None for use in answer.disks):
        lines += format_disk_uses(answer.disks)
    lines += format_start_order(answer.outage)
    lines += format_restart_order(brokers, is_limited=_is_limited(answer.left_out))
    lines += _format_answers("broker", brokers, answer.left_out)
    if len(answer.racks) > 1:
        lines += _format_answers("rack", answer.racks, answer.left_out)
    return lines


def _format_answers(
    unit: str, rows: Sequence[BrokerFailure] | Sequence[RackFailure], gaps: SourceGaps
) -> Iterator[str]:
    """Yield "Can this broker fail now?" and the answer for each, the riskiest first."""
    if rows:
        limited = " (as far as the sources show)" if _is_limited(gaps) else ""
        yield f"Can this {unit} fail now?{limited}"
    width = max((len(str(row.failed)) for row in rows), default=0)
    for row in sorted(rows, key=_by_risk):
        details = ", ".join(_list_details(row))
        yield f"  {row.failed:>{width}}  {row.answer}{f' ({details})' if details else ''}"


def _is_limited(gaps: SourceGaps) -> bool:
    """Return whether the sources lack something, so that an answer for a broker may be too good."""
    return bool(gaps.warnings or gaps.unknown_brokers) or any(getattr(gaps, name) for name in _IN_VERDICT)


def _list_details(row: BrokerFailure | RackFailure) -> Iterator[str]:
    from pipelines.cli.what_if_answers import RackFailure

    if isinstance(row, RackFailure):
        yield count_of(row.brokers, "broker")
    blocked = row.newly_under_min_isr_partitions
    if blocked and row.newly_offline_partitions + row.unclean_elections:  # else the answer says it
        yield f"{count_of(blocked, 'partition')} would block acks=all producers"
    if row.leaders_lost:
        takeover = f", {count_of(row.takeover_brokers, 'broker')} would take over" if row.takeover_brokers else ""
        yield f"leads {count_of(row.leaders_lost, 'partition')}{takeover}"
    if row.leaders_lost and row.worst_survivor_ratio is not None and row.worst_survivor_ratio >= _UNEVEN_RATIO:
        yield f"worst survivor: broker {row.worst_survivor} with {row.worst_survivor_ratio:.2f} x the mean"


def _by_risk(row: BrokerFailure | RackFailure) -> tuple[Any, ...]:
    losses = (-row.newly_offline_partitions, -row.unclean_elections, -row.under_min_isr_partitions)
    return (*losses, -(row.worst_survivor_ratio or 0), row.failed)


def format_failure(answer: FailureAnswer, command: str = "") -> list[str]:
    """Format the answer of --fail. command: that asks the same again."""
    from pipelines.cli.survivor_capacity import format_survivor_loads
    from pipelines.verdict.judgement import describe_unknown_brokers

    summary = answer.summary
    lines = [_answer_failure(answer), *_format_causes(answer, command)]
    brokers = ", ".join(map(str, answer.failed))
    subject = f"broker {brokers} fails" if len(answer.failed) == 1 else f"brokers {brokers} fail"
    lines.append(f"cluster {answer.cluster}, {count_of(summary.partitions, 'partition')}: {subject}")
    lines += [f"  broker {broker} is down already" for broker in summary.gaps.failed_already_down]
    if unknown := summary.gaps.unknown_brokers:
        lines.append(f"  warning: {describe_unknown_brokers(unknown).text}")
    lines += _format_warnings([*summary.gaps.conflicting_listings, *summary.gaps.warnings])
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
    from pipelines.verdict.naming import name_affected_topics, name_some

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
    limit = " as far as the sources show" if _is_limited(summary.gaps) else ""
    head, _, but = summary.answer.partition(", but ")
    more = "no more partition" if before else "no partition"
    return f"{head.upper()}{limit}: {more} would go offline{already}{f', but {but}' if but else ''}"


def _format_causes(answer: FailureAnswer, command: str) -> Iterator[str]:
    """Yield who is blocked, if the answer is about worse, and why all this would happen, with next steps."""
    from pipelines.verdict.naming import name_affected_topics

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


# Ratios below this are 1.00.
_UNEVEN_RATIO = 1.005
# Field of SourceGaps -> note, with [singular|plural].
_GAPS = {
    "unplaced_partitions": "{} partition[|s] without known replicas [is|are] left out",
    "unplaced_partitions_losing_leader": "{} of these [loses its leader; its next leader is"
    "|lose their leaders; their next leaders are] unknown",
    "incomplete_topics": "{} topic[ is|s are] not fully shown by the sources: no answer covers what is missing (run "
    "inspect for details)",
    "topics_without_min_isr": "min.insync.replicas of {} topic[|s] is not in the sources: the setting "
    "topics.min_insync_replicas = {gaps.assumed_min_isr} is assumed",
    "quarantined_records": "{} record[ is|s are] quarantined (run inspect for details)",
    "conflicts": "the sources conflict [once|{} times] (run inspect for details)",
    "state_inferred_partitions": "{} partition[|s] without leader or ISR in the sources [is|are] assumed healthy",
    "partitions_with_observers": "{} partition[ has|s have] observers, which the topic's placement constraints may "
    "promote to the ISR: offline and below min.insync.replicas may be too pessimistic",
    "partitions_with_unknown_elr": "the ELR of {} partition[|s] has brokers of unknown state, which lead only if "
    "they are live: offline may be too pessimistic",
    "unused_files": "nothing is used of {} file[|s] (run inspect for details)",
    "topics_without_rates": "bytes in and out are without {} topic[|s] whose rates are not known: "
    "{gaps.names_without_rates}",
    "skipped_entries": "{} sub-folder[ or link is|s or links are] ignored (run inspect for details)",
}


# Fields of SourceGaps that the verdict names.
_IN_VERDICT = (
    "quarantined_records",
    "unused_files",
    "incomplete_topics",
    "unplaced_partitions",
    "state_inferred_partitions",
)


def _format_warnings(sentences: Sequence[str]) -> list[str]:
    return [f"  warning: {sentence}" for sentence in sentences]


def _format_gaps(gaps: SourceGaps, omit: tuple[str, ...] = ()) -> Iterator[str]:
    for name, note in _GAPS.items():
        value = getattr(gaps, name)
        count = value if isinstance(value, int) else len(value)
        if count and name not in omit:
            text = re.sub(r"\[(.*?)\|(.*?)\]", r"\1" if count == 1 else r"\2", note)
            yield f"  note: {text.format(count, gaps=gaps)}"
