"""Text about what a plan does for racks: what it repairs, and why partitions stay in one rack."""

from collections.abc import Iterator

import numpy as np

from pipelines.cli.plan_command_line import PlanCommandLine
from pipelines.cli.text_format import format_bytes
from pipelines.plan_files.plan_creation import CreatedPlan
from pipelines.verdict.cluster_evidence import MAX_COMMAND_TOPICS
from udfs.planning.cluster_model import FREE, ClusterModel, Flags, FreezeReason
from udfs.planning.constraints import build_rules, find_rack_violations
from udfs.plurals import count_of, is_or_are, join_names

_FACTOR = 3  # that the command sets, if there are as many brokers


def render_racks(plan: CreatedPlan, command: PlanCommandLine) -> Iterator[str]:
    """Render what a repair does for racks; nothing for other goals, or without several racks."""
    model, proposal = plan.summary.model, plan.summary.proposal
    if plan.facts.request.goal != "repair" or len(np.unique(model.rack[model.live])) < 2:
        return
    cap = build_rules(model, plan.facts.request).rack_cap
    before = find_rack_violations(model, cap)
    after = before & find_rack_violations(model.with_lists(proposal.offsets, proposal.replicas), cap)
    if before.any():
        spread = f"{before.sum() - after.sum():,} of {count_of(int(before.sum()), 'partition')}"
        yield f"  racks: the plan spreads {spread} with too many replicas in one rack"
        yield from _explain_staying(model, after)
    yield from _render_single_replicas(model, command)


def render_rack_repairs(plan: CreatedPlan, command: PlanCommandLine) -> Iterator[str]:
    """Render how much of a plan for another goal repairs rack violations, and the command that leaves them."""
    repairs = getattr(plan.summary.proposal.certificate, "rack_repairs", None)
    if repairs is None:
        return
    size = f" ({format_bytes(repairs.bytes)})" if plan.summary.model.known[0] else ""
    copied = f"{count_of(repairs.replicas, 'replica')}{size} {is_or_are(repairs.replicas)} copied"
    again = command.with_other_folder("-without-racks").with_flag("--keep-rack-violations").change({})
    goal = plan.facts.request.goal
    yield f"  rack violations: at least {copied} only to repair them, not to {goal}; without that: {again}"


def _explain_staying(model: ClusterModel, stays: Flags) -> Iterator[str]:
    """Explain why these partitions keep too many replicas in one rack."""
    for code in np.unique(model.frozen[stays]).tolist():
        rows = np.flatnonzero(stays & (model.frozen == code))
        reason = "a limit of the plan, such as --max-moves or --at-min-isr-partitions, leaves them out"
        if code != FREE:
            reason = FreezeReason(code).explanation
        yield f"    {count_of(len(rows), 'partition')} not spread ({model.describe_partitions(rows)}): {reason}"


def _render_single_replicas(model: ClusterModel, command: PlanCommandLine) -> Iterator[str]:
    """Render the partitions that no other place makes safer, as they have one replica."""
    single = (model.factor == 1) & (model.frozen == FREE)
    count = int(single.sum())
    if not count:
        return
    topics = [model.topic_names[topic] for topic in np.unique(model.topic[single]).tolist()]
    factor = min(_FACTOR, int(model.live.sum()))
    options = {"--goal": ("rf",), "--rf": (str(factor),), "--topics": (",".join(topics[:MAX_COMMAND_TOPICS]),)}
    again = PlanCommandLine(command.source, options).change({})
    more = len(topics) - MAX_COMMAND_TOPICS
    others = f"; then the same for {count_of(more, 'more topic')}" if more > 0 else ""
    have, they = ("has", "it goes") if count == 1 else ("have", "they go")
    one = f"{count_of(count, 'partition')} ({join_names(topics, 3)}) {have} replication factor 1"
    yield f"  not addressed: {one}, so {they} offline with any broker or rack: {again}{others}"
