"""A change ticket: one page about a plan for those who approve it, in Markdown, with tables below."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files.fault_sentences import describe_targets
from pipelines.plan_files.plan_creation import CreatedPlan
from pipelines.plan_files.plan_judgement import JudgedWave
from pipelines.plan_files.plan_reader import read_plan
from pipelines.plan_files.state_after_plan import assume_applied
from pipelines.what_if.what_if_answers import evaluate_brokers
from udfs.arrow.ragged import count_true
from udfs.failures.topic_defaults import TopicDefaults
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.constraints import select_target_brokers
from udfs.planning.elections import NO_LEADER, find_current_leaders
from udfs.planning.plan_metrics import PlanMetrics
from udfs.planning.plan_request import PlanRequest
from udfs.planning.planned_waves import measure_disk
from udfs.planning.waves import find_reassigned_partitions, measure_copy_loads
from udfs.wording import count_of, format_bytes, format_duration, join_names

_TOPICS = 30  # listed, those with most bytes to copy first
_UNKNOWN = "unknown"


def make_ticket(
    created: CreatedPlan,
    snapshot: Snapshot,
    folder: Path,
    defaults: TopicDefaults,
    commands: Iterable[str],
    earlier: Iterable[Path | str] = (),
) -> str:
    """Make the ticket of a plan for a snapshot. folder: of the plan; earlier: of those that are executed before it."""
    after = assume_applied(snapshot, read_plan(folder), folder)
    before, then = (evaluate_brokers(state, defaults).verdict for state in (snapshot, after))
    title = describe_goal(created.summary.model, created.facts.request)
    title += "".join(f", after the plan in {folder}" for folder in earlier)
    return build_ticket(created, title, before.headline, then.name_moment(1).headline, commands)


def describe_goal(model: ClusterModel, request: PlanRequest) -> str:
    """Name the goal, and the brokers or partitions that it is for."""
    brokers = join_names(select_target_brokers(model, request), 20)
    if request.goal != "repair":
        return f"{request.goal} {brokers}".rstrip()
    chosen = {"at": request.at_min_isr_partitions, "below": request.under_min_isr_partitions}
    where = " or ".join(name for name, is_chosen in chosen.items() if is_chosen)
    parts = [f"{where} min.insync.replicas"] * bool(where) + [f"with a replica on {brokers}"] * bool(brokers)
    return f"repair, only partitions {' and '.join(parts)}" if parts else "repair"


def build_ticket(plan: CreatedPlan, title: str, before: str, after: str, commands: Iterable[str]) -> str:
    """Build the ticket of a plan. title: what it is for. before, after: the verdicts on the cluster.

    commands: lines with those that execute the plan, and that roll it back.
    """
    return "\n".join(_list_lines(plan, title, before, after, commands)) + "\n"


def _list_lines(plan: CreatedPlan, title: str, before: str, after: str, commands: Iterable[str]) -> Iterator[str]:
    facts, summary = plan.facts, plan.summary
    metrics, judgement, waves = facts.metrics, facts.judgement, facts.judgement.waves
    has_sizes = summary.model.known[0]
    yield f"# Change of Kafka cluster {facts.cluster}: {title}"
    yield ""
    if facts.kafka_cluster_id is not None:
        yield from (f"Cluster id: `{facts.kafka_cluster_id}`", "")
    copied = _UNKNOWN if metrics.bytes_to_copy is None else format_bytes(metrics.bytes_to_copy)
    duration = format_duration(summary.seconds) if has_sizes else _UNKNOWN
    rate = f"{format_bytes(summary.waves.limits.throttle_bytes_per_s)}/s per broker"
    counts = f"{count_of(metrics.lists_changed, 'replica list')} in {count_of(len(waves), 'wave')}"
    copies = f"{count_of(metrics.moves, 'replica')} copied: {copied}, {duration} at {rate}"
    yield f"**{judgement.level}**, compared with the cluster as it is {judgement.baseline}. {counts}; {copies}."
    elected = int(summary.elections.elected.sum())
    yield f"{count_of(elected, 'leader')} {'moves' if elected == 1 else 'move'} by the election at the end."
    yield ""
    yield from (f"- {finding.level}: {finding.text}" for finding in judgement.findings)
    yield from (f"- note: {note}" for note in judgement.notes)
    yield from (f"- budget: {text}" for text in _describe_budgets(facts.request))
    yield from (f"- {text}" for text in describe_targets(facts.certificate))
    yield from (f"- then: {text}" for text in facts.next_steps)
    yield ""
    yield from _table(["", "before", "after"], [["verdict", before, after], *_compare(metrics)])
    for text in metrics.explain_brokers():
        yield from (f"The verdicts count all live brokers; {text}.", "")
    yield from ("## Waves", "")
    yield from _table(_WAVE_HEADINGS, map(_describe_wave, waves))
    yield from ("## Commands", "", "```text", *commands, "```", "")
    yield from ("## When to stop", "")
    worst = max((wave.under_replicated_partitions for wave in waves), default=0)
    worst = max(worst, judgement.now["under_replicated_partitions"])
    yield from ("Start no further wave, and look for the reason, if after a wave:", "")
    yield f"- more than {count_of(worst, 'partition')} are under-replicated once its copies are complete;"
    yield "- any partition is offline that is not now, or producers with acks=all fail;"
    yield from ("- a wave takes more than twice its time, or a disk holds more than the table of brokers says.", "")
    yield from (
        "`kafka-reassign-partitions --cancel` with the file of the wave stops it; so does `apply --cancel`.",
        "",
    )
    yield from ("## Rollback", "")
    yield from _describe_rollback(plan)
    yield from ("## Brokers", "")
    yield from _table(_BROKER_HEADINGS, _list_brokers(plan))
    yield from ("## Topics", "")
    yield from _list_topics(plan)
    yield from ("## Files", "")
    rows = ([path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in plan.files)
    yield from _table(["file", "sha256"], rows)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _describe_budgets(request: PlanRequest) -> Iterator[str]:
    if request.max_bytes is not None:
        yield f"at most {format_bytes(request.max_bytes)} copied"
    if request.max_moves is not None:
        yield f"at most {count_of(request.max_moves, 'replica')} copied"
    if request.max_broker_bytes is not None:
        yield f"at most {format_bytes(request.max_broker_bytes)} copied to, and from, each broker"


def _compare(metrics: PlanMetrics) -> Iterator[list[str]]:
    titles = {
        "leaders": "leaders, fullest broker over the mean",
        "size_bytes": "disk, fullest broker over the mean",
        "bytes_out_per_s": "bytes out, fullest broker over the mean",
    }
    states = metrics.before.balance, metrics.after.balance
    for name, title in titles.items():
        old, new = (getattr(state, name).max_over_mean for state in states)
        if old is not None or new is not None:
            yield [title, *(_UNKNOWN if value is None else f"{value:.3f}" for value in (old, new))]
    ratios = [state.worst_survivor_ratio for state in states]
    if any(ratio is not None for ratio in ratios):
        texts = (_UNKNOWN if ratio is None else f"{ratio:.3f}" for ratio in ratios)
        yield ["leaders of the worst survivor of a broker over the mean", *texts]
    for kind, effect, before, after in metrics.list_worst_failures():
        yield [f"partitions {effect} after the worst failure of a {kind}", f"{before:,}", f"{after:,}"]


_WAVE_HEADINGS = (
    *("wave", "partitions", "replicas copied", "bytes", "time", "slowest broker"),
    *(
        "under-replicated after it",
        "one in sync after it",
        "offline or blocked if a broker fails, RF > 1",
        "to copy back from there",
    ),
)


def _describe_wave(wave: JudgedWave) -> list[str]:
    sizes = [_UNKNOWN] * 2
    if wave.bytes_to_copy is not None and wave.seconds is not None:
        sizes = [format_bytes(wave.bytes_to_copy), format_duration(wave.seconds)]
    slowest = "-" if wave.slowest_broker is None else f"{wave.slowest_broker}"
    states = (wave.under_replicated_partitions, wave.one_in_sync_partitions, wave.blocked_if_a_broker_fails)
    counts = [wave.file, f"{wave.partitions:,}", f"{wave.replicas_added:,}"]
    return [*counts, *sizes, slowest, *(f"{count:,}" for count in states), wave.rollback]


def _describe_rollback(plan: CreatedPlan) -> Iterator[str]:
    rollback = plan.facts.rollback
    if not rollback.waves:
        yield "There is nothing to roll back."
    for wave in rollback.waves:
        size = _UNKNOWN if wave.bytes_to_copy is None else format_bytes(wave.bytes_to_copy)
        time = _UNKNOWN if wave.seconds is None else format_duration(wave.seconds)
        copies = count_of(wave.replicas_added, "replica")
        yield f"{rollback.level}: `{wave.file}` restores the complete plan at once and copies {copies}: {size}, {time}."
    if rollback.waves:
        yield "`kafka-placement apply` with `--rollback --execute` goes back wave by wave, also with `--waves`."
    yield from (f"- {finding.level}: {finding.text}" for finding in rollback.findings)
    yield ""


_BROKER_HEADINGS = (
    *("broker", "bytes in", "bytes out", "bytes now", "bytes at most", "bytes after"),
    *("replicas now", "replicas after", "leaders now", "leaders after"),
)


def _list_brokers(plan: CreatedPlan) -> Iterator[list[str]]:
    summary = plan.summary
    model, loads = summary.model, measure_copy_loads(summary.model, summary.waves)
    received, sent = (load.sum(axis=0) for load in (loads.received, loads.sent))
    now, then = find_current_leaders(model), summary.elections.leader
    leaders = [np.bincount(one[one != NO_LEADER], minlength=model.brokers) for one in (now, then)]
    replicas = [np.bincount(one.replicas, minlength=model.brokers) for one in (model, summary.proposal)]
    disk = measure_disk(summary)
    touched = (received > 0) | (sent > 0) | (leaders[0] != leaders[1]) | (replicas[0] != replicas[1])
    for broker in np.flatnonzero(touched).tolist():
        sizes = [format_bytes(load[broker]) for load in (received, sent, *disk)]
        sizes = sizes if model.known[0] else [_UNKNOWN] * len(sizes)
        yield [f"{model.broker_ids[broker]}", *sizes, *(f"{count[broker]:,}" for count in (*replicas, *leaders))]


def _list_topics(plan: CreatedPlan) -> Iterator[str]:
    model, proposal = plan.summary.model, plan.summary.proposal
    changed = find_reassigned_partitions(model, proposal)
    copies = count_true(model.find_copied(proposal), proposal.offsets)
    topics = len(model.topic_names)
    partitions, replicas = (np.bincount(model.topic, weight, topics) for weight in (changed, copies))
    size = np.bincount(model.topic, copies * model.size, topics)
    order = np.lexsort((-partitions, -size))
    order = order[partitions[order] > 0]
    rows = (
        [
            model.topic_names[topic],
            f"{partitions[topic]:,.0f}",
            f"{replicas[topic]:,.0f}",
            format_bytes(size[topic]) if model.known[0] else _UNKNOWN,
        ]
        for topic in order[:_TOPICS].tolist()
    )
    yield from _table(["topic", "partitions", "replicas copied", "bytes"], rows)
    if len(order) > _TOPICS:
        yield f"{count_of(len(order) - _TOPICS, 'more topic')}: plan.json has all."
        yield ""
