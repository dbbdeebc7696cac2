"""A new plan as text: metrics before and after, proofs, waves, and the Kafka commands that carry it out."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pipelines.cli.text_format import format_bytes, format_count, format_duration
from pipelines.plan_files.kafka_json import find_elections, find_irreversible
from pipelines.plan_files.plan_creation import CreatedPlan
from pipelines.plan_files.plan_folder import ELECTION, ROLLBACK
from pipelines.plan_files.plan_json import list_not_in_rollback, name_wave_file, name_waves
from udfs.planning.certificates import (
    BYTES_COPIED,
    LEADERS_CHANGED,
    REPLICAS_COPIED,
    Certificate,
    CopyCertificate,
    LeaderCertificate,
    Proof,
)
from udfs.planning.cluster_model import ClusterModel, FreezeReason, ProposedAssignment
from udfs.planning.constraints import select_target_brokers
from udfs.planning.plan_metrics import ClusterState, PlanMetrics
from udfs.planning.plan_request import MIN_MOVES
from udfs.planning.plan_summary import PlanSummary, count_frozen_partitions, count_unpreferred_leaders
from udfs.planning.plan_text import join_names
from udfs.planning.waves import IN, WaveReport, find_reassigned_partitions, report_waves

_LISTED = 6  # explanations, waves and partitions
_LOADS = (
    ("replicas", "replicas"),
    ("leaders (preferred)", "leaders"),
    ("disk", "size_bytes"),
    ("bytes in", "bytes_in_per_s"),
    ("bytes out", "bytes_out_per_s"),
)
_WIDTHS = (36, 11, 10, 13, 10)


def render_plan(plan: CreatedPlan, out: Path, server: str) -> Iterator[str]:
    """Render a plan, line by line.

    Args:
        plan: The plan.
        out: The folder that it is written to.
        server: Bootstrap server for Kafka's commands.
    """
    summary, certificate = plan.summary, plan.summary.proposal.certificate
    model, metrics = summary.model, summary.metrics
    brokers = join_names(select_target_brokers(model, plan.request), 20)
    counts = f"{format_count(int(model.live.sum()), 'live broker')}, {format_count(model.partitions, 'partition')}"
    yield f"cluster {model.cluster_id}: {' '.join(filter(None, (plan.request.goal, brokers)))}; {counts}"
    yield from _render_metrics(metrics)
    if metrics.moves:
        size = "unknown size" if metrics.bytes_to_copy is None else format_bytes(metrics.bytes_to_copy)
        yield f"  copied: {format_count(metrics.moves, 'replica')}, {size}"
    else:
        yield "  nothing is copied"
    lists, leaders = format_count(metrics.lists_changed, "replica list"), metrics.leader_changes
    yield f"  changed: {lists}, {format_count(leaders, 'preferred leader')}"
    few_moves = isinstance(certificate, CopyCertificate) and certificate.objective == MIN_MOVES
    for proof in certificate.proofs:
        if proof.value and (proof.quantity != BYTES_COPIED or model.known[0]):
            yield f"  {_describe_proof(proof, few_moves)}"
    yield from _render_prices(certificate)
    for title, texts in (("relaxed", certificate.relaxed_targets), ("missed", certificate.missed_targets)):
        yield from (f"  {title}: {text}" for text in texts[:_LISTED])
        if len(texts) > _LISTED:
            yield f"  {title}: {len(texts) - _LISTED} more, see plan.json"
    yield from _render_waves(summary)
    yield f"  took: {', '.join(f'{part} {seconds:.1f} s' for part, seconds in plan.seconds.items())}"
    yield f"  written to {out}:"
    yield f"    {', '.join(_shorten_wave_files([path.name for path in plan.files]))}"
    yield from _render_commands(summary, out, server)


def list_warnings(plan: CreatedPlan) -> Iterator[str]:
    """List what a person should know before trusting the plan."""
    model = plan.summary.model
    for reason, count in count_frozen_partitions(model).items():
        stay = "stays as it is" if count == 1 else "stay as they are"
        wait = (
            ". Best wait until that is done, and make a new plan"
            if reason == FreezeReason.IN_FLIGHT.explanation
            else ""
        )
        yield f"{format_count(count, 'partition')} {stay}: {reason}{wait}"
    if plan.quarantined:
        yield f"{format_count(plan.quarantined, 'record')} of the source rejected and left out, see inspect"
    if plan.unplaced:
        yield f"{format_count(plan.unplaced, 'partition')} without known replicas left out"
    if not model.known[0] and plan.request.broker_bytes is not None:
        yield "the sources show no sizes: plans.broker_bytes is ignored"
    if model.known[0] and plan.unsized:
        yield f"the sources show no size of {format_count(plan.unsized, 'partition')}: counted as 0 bytes"


# ---- metrics


def _render_metrics(metrics: PlanMetrics) -> Iterator[str]:
    before, after = metrics.before, metrics.after
    yield _row("", "before", "", "after", "")
    yield _row("", "max/mean", "min/mean", "max/mean", "min/mean")
    for title, name in _LOADS:
        spreads = [getattr(state.balance, name) for state in (before, after)]
        yield _row(title, *(_format(ratio) for s in spreads for ratio in (s.max_over_mean, s.min_over_mean)))

    def compare(title: str, read: Callable[[ClusterState], float | None], digits: int | None = 3) -> str:
        return _row(title, _format(read(before), digits), "", _format(read(after), digits), "")

    yield compare("worst survivor of a failure: leaders", lambda state: state.balance.worst_survivor_ratio)
    yield compare("  bytes out", lambda state: state.balance.worst_survivor_bytes_out_ratio)
    if before.failures.pair:
        yield compare("  of two failures: leaders", lambda state: _get_worst_ratio(state, "pair"))
    if before.failures.rack:
        yield compare("  of a rack's failure: leaders", lambda state: _get_worst_ratio(state, "rack"))
    if before.durability.already_lost_partitions or after.durability.already_lost_partitions:
        yield compare("partitions without a live replica", lambda s: s.durability.already_lost_partitions, None)
    yield compare("rack violations", lambda state: state.balance.rack_violations, None)
    yield compare("copysets", lambda state: state.durability.copysets, None)
    losses = [state.durability.loss_probability for state in (before, after)]
    failures = sorted({*losses[0], *losses[1]})
    for k in [k for k in failures if any(loss.get(k) for loss in losses)] or failures[-1:]:
        title = f"P(loss if {k} {'fails' if k == 1 else 'fail'})"
        yield compare(title, lambda state, k=k: state.durability.loss_probability.get(k), 6)  # type: ignore[misc]
    if any(getattr(before.balance, name).max_over_mean is None for _, name in _LOADS):
        yield "  (-: unknown, or nothing to compare)"
    if before.balance.brokers < before.failures.live_brokers:
        counted = f"{before.balance.brokers} of {before.failures.live_brokers} live brokers"
        yield f"  (down to the worst survivor of a failure: over {counted}, those that stay)"


def _get_worst_ratio(state: ClusterState, kind: str) -> float | None:
    failure = getattr(state.failures, kind)
    return failure.worst_survivor_ratio if failure else None


def _row(*cells: str) -> str:
    first = "  " + cells[0].ljust(_WIDTHS[0])
    return (first + "".join(c.rjust(w) for c, w in zip(cells[1:], _WIDTHS[1:], strict=True))).rstrip()


def _format(value: float | None, digits: int | None = 3) -> str:
    return "-" if value is None else f"{value}" if digits is None else f"{value:.{digits}f}"


# ---- proofs


def _describe_proof(proof: Proof, few_moves: bool) -> str:
    """Describe a value and its bound. few_moves: Whether the plan minimizes copied replicas, and not bytes."""
    show = format_bytes if proof.quantity.startswith("bytes") else "{:,.10g}".format
    text = f"{proof.quantity}: {show(proof.value)}, proven lower bound {show(proof.lower_bound)}"
    if "survivor" in proof.quantity:
        text += " with these leaders"
    elif proof.quantity == LEADERS_CHANGED:
        text += " for leaders as even as these"
    elif proof.quantity in (BYTES_COPIED, REPLICAS_COPIED):
        text += " for any plan that reaches as much"
    if proof.gap <= 1e-9 * abs(proof.lower_bound):
        return f"{text}: optimal"
    if proof.quantity == REPLICAS_COPIED and not few_moves:
        return f"{text}; the plan minimizes bytes, not replicas"
    return f"{text}: gap {proof.gap / proof.lower_bound:.2%}" if proof.lower_bound else f"{text}: gap {show(proof.gap)}"


def _render_prices(certificate: Certificate) -> Iterator[str]:
    """Render how many more preferred leaders change than even leaders need."""
    leaders = getattr(certificate, "leaders", certificate)
    if not isinstance(leaders, LeaderCertificate):
        return
    if leaders.topics is not None:
        price = leaders.topics.price
        cost = f"{price.changes:+,} changed preferred leaders"
        if price.max_leaders or price.min_leaders:
            cost += f", {price.max_leaders:+,} on the fullest broker, {price.min_leaders:+,} on the emptiest"
        topics = format_count(price.topics_above_limit_without, "topic")
        yield f"  price of --per-topic: {cost}; without it, {topics} would not be spread as far as possible"
    if leaders.failover_price is not None and leaders.failover_price.changes:
        yield f"  price of failover: {leaders.failover_price.changes:+,} changed preferred leaders"


# ---- waves and commands


def _render_waves(summary: PlanSummary) -> Iterator[str]:
    model, waves = summary.model, summary.waves
    reports, has_sizes = report_waves(model, waves), model.known[0]
    if not any(report.replicas_added for report in reports):
        return
    throttle = f"{format_bytes(waves.limits.throttle_bytes_per_s)}/s a broker"
    duration = format_duration(sum(report.seconds for report in reports))
    about = "" if duration.startswith("under") else "about "
    time = f", {about}{duration} of copying at {throttle}" if has_sizes else f" at {throttle}; sizes are unknown"
    yield f"  {format_count(len(reports), 'wave')}{time}"
    for report in reports[:_LISTED]:
        yield f"    wave {report.wave}: {_describe_wave(report, has_sizes)}"
    if len(reports) > _LISTED:
        yield f"    {len(reports) - _LISTED} more, see plan.json"
    if len(waves.oversized):
        names = join_names((model.name(row) for row in waves.oversized.tolist()), _LISTED)
        yield f"    larger than a wave's limit, so their brokers copy nothing else meanwhile: {names}"


def _describe_wave(report: WaveReport, has_sizes: bool) -> str:
    text = f"{format_count(report.partitions, 'partition')}, {format_count(report.replicas_added, 'replica')}"
    if has_sizes:
        text += f", {format_bytes(report.bytes_to_copy)}"
    if has_sizes and report.busiest_broker is not None:
        verb = "receives" if report.busiest_direction == IN else "sends"
        text += f"; broker {report.busiest_broker} {verb} {format_bytes(report.busiest_bytes)}"
        text += f": {format_duration(report.seconds)}"
    return text


def _shorten_wave_files(names: Sequence[str]) -> list[str]:
    """Replace the names of three and more wave files by the first and the last."""
    waves = [name for name in names if name.startswith("wave-")]
    if len(waves) < 3:
        return list(names)
    at = names.index(waves[0])
    return [*names[:at], f"{waves[0]} to {waves[-1]}", *names[at + len(waves) :]]


def _render_commands(summary: PlanSummary, out: Path, server: str) -> Iterator[str]:
    """Render the commands that carry a plan out, and those that roll it back."""
    model, proposal, waves = summary.model, summary.proposal, summary.waves
    reassigned = int(find_reassigned_partitions(model, proposal).sum())
    has_elections = bool(find_elections(model, proposal))
    if not reassigned:
        if proposal.certificate.missed_targets:
            yield "  no reassignment: see the missed targets"
        elif not model.live.any():
            yield "  no reassignment is possible: no broker is live"
        else:
            yield "  no reassignment is needed: the cluster meets the goal as far as it can"
        if not has_elections:
            return
    to = f"--bootstrap-server {shlex.quote(server)}"

    def reassign(file: str, options: str) -> str:
        return f"    kafka-reassign-partitions {to} --reassignment-json-file {shlex.quote(str(out / file))} {options}"

    election = (
        f"    kafka-leader-election {to} --election-type preferred "
        f"--path-to-json-file {shlex.quote(str(out / ELECTION))}"
    )
    throttle = f" --throttle {int(waves.limits.throttle_bytes_per_s)}"
    copies = any(report.replicas_added for report in report_waves(model, waves))
    yield "  to carry it out:"
    if reassigned:
        files = [name_wave_file(name) for name in name_waves(waves.waves)]
        yield reassign(files[0], f"--execute{throttle if copies else ''}")
        yield reassign(files[0], f"--verify{'    # once complete, it removes the throttle' if copies else ''}")
        if waves.waves > 1:
            yield f"    and so on to {files[-1]}, each after --verify finds the previous one complete"
    if not reassigned:
        count = count_unpreferred_leaders(model)
        verb = "is not led by its preferred leader" if count == 1 else "are not led by their preferred leaders"
        yield f"{election}    # {format_count(count, 'partition')} {verb} now"
        return
    if has_elections:
        yield election
    missing = list_not_in_rollback(model, proposal)
    restored = reassigned - missing.partitions
    if restored:
        copies_back = _copies_replicas_back(model, proposal)
        rate = f"{format_bytes(waves.limits.throttle_bytes_per_s)}/s a broker"
        at_once = f" ({restored:,} partitions at once, not in waves, at {rate})" if restored > 1 and copies_back else ""
        yield f"  to roll it back{at_once}:"
        yield reassign(ROLLBACK, f"--execute{throttle if copies_back else ''}")
        yield reassign(ROLLBACK, "--verify")
        if has_elections:
            yield election
    if missing.partitions:
        names = ", ".join(missing.first_partitions[:_LISTED])
        more = f" and {missing.partitions - _LISTED} more" if missing.partitions > _LISTED else ""
        count_text = format_count(missing.partitions, "partition")
        yield f"  {ROLLBACK} cannot roll back {count_text}: {names}{more}: {missing.reason}"


def _copies_replicas_back(model: ClusterModel, proposal: ProposedAssignment) -> bool:
    """Tell whether rollback.json copies replicas: it restores some to brokers that gave them up."""
    gone = model.with_lists(proposal.offsets, proposal.replicas).find_copied(model)
    rows = find_reassigned_partitions(model, proposal)
    rows[find_irreversible(model, proposal)] = False
    return bool((gone & rows[model.row]).any())
