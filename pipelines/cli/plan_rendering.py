"""Text of `plan`: metrics before and after, proofs, waves and commands."""

import shlex
from collections.abc import Iterable, Iterator
from math import floor
from pathlib import Path

import numpy as np

from pipelines.cli.check_rendering import render_findings
from pipelines.cli.plan_details import (
    name_dir_throttle,
    render_bottleneck,
    render_cheaper,
    render_disk_growth,
    render_drained_share,
    render_extra_replicas,
    render_log_dirs,
    render_rack_repairs,
    render_racks,
    render_urgent_repair,
    render_waves,
)
from pipelines.cli.plan_remedies import PlanCommandLine
from pipelines.plan_files import plan_writer
from pipelines.plan_files.change_ticket import describe_goal
from pipelines.plan_files.fault_sentences import describe_targets
from pipelines.plan_files.kafka_json import find_irreversible
from pipelines.plan_files.plan_creation import CreatedPlan, find_unemptied
from pipelines.plan_files.plan_judgement import PlanJudgement
from pipelines.verdict.judgement import UNEVEN_RATIO
from udfs.hotspots.single_leader_topics import describe_single_leaders, find_single_leader_topics
from udfs.network.traffic_rows import TRAFFIC_KINDS, CrossZoneTraffic
from udfs.planning import certificates
from udfs.planning.broker_sets import BrokerSetsCertificate
from udfs.planning.constraints import select_target_brokers
from udfs.planning.plan_metrics import PlanMetrics, PlanSummary
from udfs.planning.plan_request import MIN_MOVES, FreezeReason
from udfs.planning.plan_states import PlanLevel
from udfs.planning.waves import find_reassigned_partitions
from udfs.wording import count_live_brokers, count_of, format_bytes, join_names

_LISTED = 6  # explanations, waves and partitions
_LESS_EVEN = 0.02  # more leaders of the hottest broker over the mean
# Partitions that another plan may change.
_LATER = (FreezeReason.FREE, FreezeReason.OTHER_TOPIC, FreezeReason.EXCLUDED)
_LOADS = (
    ("replicas", "replicas"),
    ("leaders (now, then planned)", "leaders"),
    ("leaders (preferred)", "preferred_leaders"),
    ("disk", "size_bytes"),
    ("bytes in", "bytes_in_per_s"),
    ("bytes out", "bytes_out_per_s"),
)


def render_plan(
    plan: CreatedPlan, out: Path | None, server: str, command: PlanCommandLine, has_ticket: bool = False
) -> Iterator[str]:
    """Render a plan written to the folder `out` (None = to none). server: for Kafka's commands."""
    summary, certificate = plan.summary, plan.summary.proposal.certificate
    model, metrics = summary.model, summary.metrics
    unknown_brokers = 0 if model.unknown is None else int(model.unknown.sum())
    counts = f"{count_live_brokers(int(model.live.sum()), unknown_brokers)}, {count_of(model.partitions, 'partition')}"
    if (judgement := plan.facts.judgement).level is not PlanLevel.SAFE:
        yield from render_findings(judgement)
    yield f"cluster {model.cluster_id}: {describe_goal(model, plan.facts.request)}; {counts}"
    if model.cordoned is not None:
        yield f"  no new replicas: {model.describe_brokers(np.flatnonzero(model.cordoned))}, all log dirs are cordoned"
    yield from _render_metrics(metrics, bool(model.rack_names), is_repair=plan.facts.request.goal == "repair")
    if lagging := int((~model.is_in_sync & model.is_usable).sum()):
        replicas = f"{count_of(lagging, 'replica')} out of sync on live brokers"
        yield f"  (both columns: as if {replicas} had caught up; what-if shows the cluster as it is)"
    if metrics.moves:
        size = "unknown size" if metrics.bytes_to_copy is None else format_bytes(metrics.bytes_to_copy)
        yield f"  copied: {count_of(metrics.moves, 'replica')}, {size}"
    else:
        yield "  nothing is copied"
    yield from render_log_dirs(plan)
    yield from render_disk_growth(plan)
    lists, leaders = count_of(metrics.lists_changed, "replica list"), metrics.leader_changes
    elected = int(summary.elections.elected.sum())
    moves = f"; the election at the end moves {count_of(elected, 'leader')}" if elected else ""
    yield f"  changed: {lists}, {count_of(leaders, 'preferred leader')}{moves}"
    if metrics.leader_replacements:
        pairs = join_names(f"{old} -> {new}" for old, new in plan.facts.request.replacements)
        count = count_of(metrics.leader_replacements, "partition")
        takes = "a new broker takes the position of the old one in each replica list"
        yield f"  replaced: preferred leader {pairs} of {count}: {takes}"
    yield from render_urgent_repair(plan, command)
    yield from render_racks(plan, command)
    yield from render_extra_replicas(plan, command)
    yield from _render_uneven_leaders(plan, command, out)
    yield from _render_broker_sets(certificate)
    yield from _render_rack_levels(certificate)
    few_moves = isinstance(certificate, certificates.CopyCertificate) and certificate.objective == MIN_MOVES
    reliefs = getattr(certificate, "relief", [])
    for proof in certificate.proofs:
        if (
            proof.value
            and (proof.lower_bound or not reliefs)
            and (proof.quantity != certificates.BYTES_COPIED or model.known[0])
        ):
            yield f"  {_describe_proof(proof, few_moves, bool(reliefs))}"
    yield from map(_describe_relief, reliefs)
    yield from render_drained_share(plan, command)
    yield from render_rack_repairs(plan, command)
    yield from _render_prices(certificate)
    targets = list(describe_targets(certificate))
    yield from (f"  {text}" for text in targets)
    if out is not None and any(text.endswith(certificates.CONTINUES) for text in targets):
        yield f"  next night: {_continue_after(plan, command, out)}"
    yield from render_waves(summary, judgement.moment)
    if metrics.lists_changed and judgement.level is PlanLevel.SAFE:
        yield from (f"  {line}" for line in render_findings(judgement))
    yield from render_bottleneck(plan, command, shlex.quote(server))
    yield from render_cheaper(plan, command)
    yield f"  took: {', '.join(f'{part} {seconds:.1f} s' for part, seconds in plan.seconds.items())}"
    if out is None:
        yield "  a preview: nothing is written. Add --out DIR to write the files for Kafka's tools"
        return
    yield f"  written to {out}:"
    names = [path.name for path in plan.files]
    waves = [name for name in names if name.startswith("wave-")]
    if len(waves) > 2:
        at = names.index(waves[0])
        names[at : at + len(waves)] = [f"{waves[0]} to {waves[-1]}"]
    yield f"    {', '.join([*names, *[plan_writer.TICKET] * has_ticket])}"
    yield from render_commands(summary, plan.facts.rollback, out, server)


def _continue_after(plan: CreatedPlan, command: PlanCommandLine, out: Path) -> str:
    """Return the command that plans the next night: brokers that this plan adds exist then."""
    changes: dict[str, tuple[str, ...]] = {"--after": (str(out),), "--out": (f"{out}-next",)}
    if "--add-brokers" in command.options:
        changes["--add-brokers"] = ()
        if plan.facts.request.goal == "expand":
            changes["--brokers"] = (",".join(map(str, select_target_brokers(plan.summary.model, plan.facts.request))),)
    return command.change(changes)


def _render_broker_sets(certificate: certificates.Certificate) -> Iterator[str]:
    """Render what each broker set has, and the replicas of its topics on other brokers."""
    for one in certificate.sets if isinstance(certificate, BrokerSetsCertificate) else ():
        counts = f"{count_of(one.partitions, 'partition')} for {count_of(len(one.brokers), 'broker')}"
        outside = f"; replicas on others: {one.outside_before:,} before, {one.outside:,} after"
        yield f"  broker set {one.name}: {counts}{outside if one.outside_before else ''}"


def _render_rack_levels(certificate: certificates.Certificate) -> Iterator[str]:
    """Render how many partitions share a rack within a zone, in each broker set."""
    sets = certificate.sets if isinstance(certificate, BrokerSetsCertificate) else ()
    for name, one in (("", certificate), *((f" (broker set {part.name})", part.certificate) for part in sets)):
        if (change := one.rack_levels) is not None:
            counts = (
                f"{change.sharing_before:,} before, {change.sharing_after:,} after, at least {change.lower_bound:,}"
            )
            yield f"  partitions with replicas in one rack within a zone{name}: {counts}"


def _render_uneven_leaders(plan: CreatedPlan, command: PlanCommandLine, out: Path | None) -> Iterator[str]:
    """Name what the plan leaves uneven: all leaders, brokers without leaders after it, topics that one broker leads."""
    model, proposal = plan.summary.model, plan.summary.proposal
    later = {"--after": (str(out),), "--out": (f"{out}-next",)} if out else {}
    yield from (f"  then: {text}: {command.change(later)}" for text in plan.facts.next_steps)
    if find_unemptied(plan.facts.request, plan.summary):
        return  # a plan for leaders would elect what is yet to be emptied
    before, after = (
        state.balance.leaders.max_over_mean for state in (plan.summary.metrics.before, plan.summary.metrics.after)
    )
    if before is not None and after is not None and after > max(UNEVEN_RATIO, before + _LESS_EVEN):
        later = {"--goal": ("failover",)} | ({"--after": (str(out),), "--out": (f"{out}-failover",)} if out else {})
        even_out = PlanCommandLine(command.source, later).change({})
        yield f"  leaders become less even: {before:.3f} -> {after:.3f} times the mean; then even them out: {even_out}"
    leader = plan.summary.elections.leader
    ids = np.where(leader >= 0, model.broker_ids[leader], -1).astype(np.int64)
    leaders = np.bincount(leader[leader >= 0], minlength=model.brokers)
    is_idle = model.live & (np.bincount(proposal.replicas, minlength=model.brokers) > 0) & (leaders == 0)
    if idle := model.broker_ids[is_idle].tolist():
        brokers = f"{'broker' if len(idle) == 1 else 'brokers'} {join_names(idle)}"
        row = np.repeat(np.arange(model.partitions), np.diff(proposal.offsets))
        can_lead = is_idle[proposal.replicas] & np.isin(model.frozen, _LATER)[row] & (leaders[leader] > 1)[row]
        again = PlanCommandLine(command.source, {"--goal": ("leaders",)}).change({})
        next_step = f"; once the plan is carried out, with new sources: {again}" if can_lead.any() else ""
        yield f"  not addressed: {brokers} will lead no partition{next_step}"
    named = model.frozen != FreezeReason.OTHER_TOPIC
    topics = find_single_leader_topics(model.topic[named].astype(np.int64), ids[named], list(model.topic_names))
    if plan.facts.request.per_topic or not topics or int(model.live.sum()) < 2:
        return
    changes: dict[str, tuple[str, ...]] = {"--goal": ("leaders",), "--per-topic": ()}
    again = PlanCommandLine(command.source, changes).change({})
    yield f"  not addressed: {describe_single_leaders(topics)}; to spread them: {again}"


def _render_metrics(metrics: PlanMetrics, has_racks: bool, is_repair: bool) -> Iterator[str]:
    """Render what a plan changes; a repair is urgent, so it leaves out copysets and P(loss)."""
    before, after = states = (metrics.before, metrics.after)
    yield _row("", "before", "", "after", "")
    yield _row("", "max/mean", "min/mean", "max/mean", "min/mean")
    for title, name in _LOADS:
        spreads = [getattr(state.balance, name) for state in states]
        ratios = [ratio for s in spreads for ratio in (s.max_over_mean, s.min_over_mean)]
        if any(ratio is not None for ratio in ratios):
            yield _row(title, *map(_format, ratios))

    def compare(title: str, values: Iterable[float | None], digits: int | None = 3) -> Iterator[str]:
        old, new = values
        if old is not None or new is not None:
            yield _row(title, _format(old, digits), "", _format(new, digits), "")

    yield from compare("worst survivor of a failure: leaders", (s.balance.worst_survivor_ratio for s in states))
    yield from compare("  bytes out", (s.balance.worst_survivor_bytes_out_ratio for s in states))
    for kind, title in (("pair", "two failures"), ("rack", "a rack's failure")):
        if getattr(before.failures, kind):
            failures = (getattr(state.failures, kind) for state in states)
            yield from compare(f"  of {title}: leaders", (getattr(f, "worst_survivor_ratio", None) for f in failures))
    for kind, effect, *counts in metrics.list_worst_failures():
        yield from compare(f"{effect}, worst {kind} failure", counts, None)
    if before.durability.already_lost_partitions or after.durability.already_lost_partitions:
        lost = (s.durability.already_lost_partitions for s in states)
        yield from compare("partitions without a live replica", lost, None)
    if has_racks:
        yield from compare("rack violations", (s.balance.rack_violations for s in states), None)
    if not is_repair:
        yield from compare("copysets", (s.durability.copysets for s in states), None)
    yield from _render_cross_zone(before.cross_zone, after.cross_zone)
    losses = [state.durability.loss_probability for state in states if not is_repair]
    counts = sorted(set().union(*losses))
    # If a loss is certain, as with partitions of replication factor 1, it is so with more failures too.
    certain = [k for k in counts if all(loss.get(k) == 1 for loss in losses)]
    for k in [k for k in counts if any(loss.get(k) for loss in losses) and k not in certain[1:]] or counts[-1:]:
        yield from compare(f"P(loss if {k} {'fails' if k == 1 else 'fail'})", (loss.get(k) for loss in losses), 6)
    yield from (f"  ({text})" for text in metrics.explain_brokers())


def _render_cross_zone(before: CrossZoneTraffic, after: CrossZoneTraffic) -> Iterator[str]:
    """Render what crosses zones, and what that costs, as far as it is known."""
    for kind in TRAFFIC_KINDS:
        old, new = (getattr(traffic, f"{kind}_bytes_per_s") for traffic in (before, after))
        if old is not None and new is not None:
            yield _row(f"between zones: {kind}", f"{format_bytes(old)}/s", "", f"{format_bytes(new)}/s", "")
    if before.cost_per_month is not None and after.cost_per_month is not None:
        yield _row("  cost per month", f"{before.cost_per_month:,.2f}", "", f"{after.cost_per_month:,.2f}", "")


def _row(title: str, *cells: str) -> str:
    return f"  {title:36}{cells[0]:>11}{cells[1]:>10}{cells[2]:>13}{cells[3]:>10}".rstrip()


def _format(value: float | None, digits: int | None = 3) -> str:
    return "-" if value is None else f"{value}" if digits is None else f"{value:.{digits}f}"


def _describe_relief(relief: certificates.Relief) -> str:
    """Describe what a budget reaches of a load."""
    text = f"  {relief.load.replace('_', ' ')}: {relief.before:.3f} -> {relief.value:.3f} times the mean"
    bound = floor(relief.lower_bound * 1000) / 1000
    possible = relief.before - relief.lower_bound
    share = f" ({(relief.before - relief.value) / possible:.0%} of the possible relief)" if possible > 1e-6 else ""
    return f"{text}; within the budget no plan gets below {bound:.3f}{share}"


def _describe_proof(proof: certificates.Proof, few_moves: bool, has_budget: bool) -> str:
    """Describe a value and its bound.

    few_moves: whether the plan minimizes copied replicas, and not bytes. has_budget: whether a budget is spent, so that
    to copy little is not what the plan is for.
    """
    show = format_bytes if proof.quantity.startswith("bytes") else "{:,.10g}".format
    text = f"{proof.quantity}: {show(proof.value)}, proven lower bound {show(proof.lower_bound)}"
    if proof.quantity == certificates.BYTES_BETWEEN_LOG_DIRS:
        text += " for any plan that reaches as much"
    if "survivor" in proof.quantity:
        text += " with these leaders"
    elif proof.quantity == certificates.LEADERS_CHANGED:
        text += " for leaders as even as these"
    elif proof.quantity in (certificates.BYTES_COPIED, certificates.REPLICAS_COPIED):
        text += " for any plan that reaches as much"
    if has_budget:
        return text
    if proof.gap <= 1e-9 * abs(proof.lower_bound):
        return f"{text}: optimal"
    if proof.quantity == certificates.REPLICAS_COPIED and not few_moves:
        return f"{text}; the plan minimizes bytes, not replicas"
    if proof.quantity == certificates.BYTES_COPIED and few_moves:
        text += "; the plan minimizes replicas, not bytes"
    return f"{text}: gap {proof.gap / proof.lower_bound:.2%}" if proof.lower_bound else f"{text}: gap {show(proof.gap)}"


def _render_prices(certificate: certificates.Certificate) -> Iterator[str]:
    """Render how many more preferred leaders change than even leaders need."""
    leaders = getattr(certificate, "leaders", certificate)
    if not isinstance(leaders, certificates.LeaderCertificate):
        return
    if leaders.topics is not None:
        price = leaders.topics.price
        cost = f"{price.changes:+,} changed preferred leaders"
        if price.max_leaders or price.min_leaders:
            cost += f", {price.max_leaders:+,} on the fullest broker, {price.min_leaders:+,} on the emptiest"
        topics = count_of(price.topics_above_limit_without, "topic")
        yield f"  price of --per-topic: {cost}; without it, {topics} would not be spread as far as possible"
    if leaders.failover_price is not None and leaders.failover_price.changes:
        yield f"  price of failover: {leaders.failover_price.changes:+,} changed preferred leaders"


def _render_other_elections(summary: PlanSummary) -> Iterator[str]:
    if count := int(summary.elections.others.sum()):
        are_led = "is" if count == 1 else "are"
        partitions = f"{count_of(count, 'partition')} that the plan does not need {are_led} not led by"
        yield f"  optional, {plan_writer.OTHER_ELECTIONS}: {partitions} the preferred leader now"


def render_commands(summary: PlanSummary, rollback: PlanJudgement, out: Path, server: str) -> Iterator[str]:
    """Render the commands that execute a plan, and those that roll it back. rollback: how that is judged."""
    model, proposal, waves = summary.model, summary.proposal, summary.waves
    changed = find_reassigned_partitions(model, proposal)
    reassigned = int(changed.sum())
    elections = int(summary.elections.elected.sum())
    has_elections = elections > 0
    if not reassigned:
        reason = " is needed: the cluster meets the goal as far as possible"
        if proposal.certificate.missed:
            reason = ": see the missed targets"
        elif not model.live.any():
            reason = " is possible: no broker is live"
        yield f"  no reassignment{reason}"
        if not has_elections:
            yield from _render_other_elections(summary)
            return
    to = f"--bootstrap-server {shlex.quote(server)}"

    def reassign(file: str, options: str) -> str:
        return f"    kafka-reassign-partitions {to} --reassignment-json-file {shlex.quote(str(out / file))} {options}"

    def elect(file: str) -> str:
        path = shlex.quote(str(out / file))
        return f"    kafka-leader-election {to} --election-type preferred --path-to-json-file {path}"

    throttle = f" --throttle {int(waves.limits.throttle_bytes_per_s)}"
    copies = any(report.replicas_added for report in summary.wave_reports)
    yield "  to execute it:"
    if not reassigned:
        verb = "is not led by its preferred leader" if elections == 1 else "are not led by their preferred leaders"
        yield f"{elect(plan_writer.ELECTION)}    # {count_of(elections, 'partition')} {verb} now"
        return
    files = [plan_writer.name_wave_file(name) for name in plan_writer.name_waves(waves.waves)]
    dir_throttle = name_dir_throttle(summary)
    yield reassign(files[0], f"--execute{throttle if copies else dir_throttle}")
    removes = "    # once complete, it removes the throttle" if copies or dir_throttle else ""
    yield reassign(files[0], f"--verify{removes}")
    if waves.waves > 1:
        yield f"    and so on to {files[-1]}, each after --verify finds the previous one complete"
    if has_elections:
        yield elect(plan_writer.ELECTION)
    missing = plan_writer.list_not_in_rollback(model, proposal)
    changed[find_irreversible(model, proposal)] = False
    restored = reassigned - missing.partitions
    if restored:
        gone = model.with_lists(proposal.offsets, proposal.replicas).find_copied(model)
        copies_back = bool((gone & changed[model.row]).any())
        rate = f"{format_bytes(waves.limits.throttle_bytes_per_s)}/s per broker"
        at_once = f" ({restored:,} partitions at once, not in waves, at {rate})" if restored > 1 and copies_back else ""
        yield f"  to roll it back{at_once}:"
        if copies or copies_back:  # a request for the former replicas of what runs is rejected, or never completes
            yield reassign(plan_writer.REASSIGNMENT, "--cancel    # what still runs")
        yield reassign(plan_writer.ROLLBACK, f"--execute{throttle if copies_back else dir_throttle}")
        yield reassign(plan_writer.ROLLBACK, "--verify")
        yield from (f"    {finding.level}: {finding.text}" for finding in rollback.findings)
        if plan_writer.find_rollback_elections(model, proposal).any():
            yield elect(plan_writer.ROLLBACK_ELECTION)
    yield from _render_other_elections(summary)
    if missing.partitions:
        names = join_names(missing.first_partitions, _LISTED, missing.partitions)
        count_text = count_of(missing.partitions, "partition")
        yield f"  {plan_writer.ROLLBACK} cannot roll back {count_text}: {names}: {missing.reason}"
