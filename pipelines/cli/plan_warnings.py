"""Warnings about a new plan: what it cannot change, what the sources lack, and disks that must not be lost."""

from collections.abc import Iterator

import numpy as np

from pipelines.cli.text_format import format_count
from pipelines.plan_files import plan_writer
from pipelines.plan_files.plan_creation import CreatedPlan
from pipelines.verdict.cluster_evidence import MAX_NAMED
from pipelines.verdict.judgement import name_some
from udfs.planning.cluster_model import FreezeReason
from udfs.planning.last_copies import find_last_copies
from udfs.planning.plan_metrics import count_frozen_partitions
from udfs.plurals import is_or_are, it_or_them


def list_warnings(plan: CreatedPlan) -> Iterator[str]:
    """List what a person should know before trusting the plan."""
    model = plan.summary.model
    yield from _warn_of_only_copies(plan)
    reasons = {reason.explanation: reason for reason in FreezeReason}
    for explanation, count in count_frozen_partitions(model).items():
        reason = reasons[explanation]
        stay = "stays as it is" if count == 1 else "stay as they are"
        in_flight = reason == FreezeReason.IN_FLIGHT
        wait = ". Wait until the reassignment is complete, then make a new plan" if in_flight else ""
        yield f"{format_count(count, 'partition')} {stay}: {reason.explain(count)}{wait}"
    out_of_sync = plan_writer.list_not_elected(plan.summary)
    if count := out_of_sync.partitions:
        names = name_some(out_of_sync.first_partitions, count)
        their, they = ("its", "it is") if count == 1 else ("their", "they are")
        yield (
            f"{format_count(count, 'partition')} cannot be led by {their} preferred leader now, which is out of sync: "
            f"{names}. {plan_writer.ELECTION} leaves {it_or_them(count)} out, and the planned leaders "
            f"count the current one. Once {they} in sync again, make the plan again"
        )
    if plan.unplaced:
        yield f"{format_count(plan.unplaced, 'partition')} without known replicas {is_or_are(plan.unplaced)} left out"
    if not model.known[0] and plan.request.broker_bytes is not None:
        yield "the sources show no sizes: plans.broker_bytes is ignored"
    if model.known[0] and (count := model.unsized_partitions):
        yield f"the sources show no size for {format_count(count, 'partition')}: counted as 0 bytes"


def _warn_of_only_copies(plan: CreatedPlan) -> Iterator[str]:
    """Warn of down brokers whose disks still hold the last copies of partitions after the plan."""
    model, proposal = plan.summary.model, plan.summary.proposal
    lists = model.with_lists(proposal.offsets, proposal.replicas)
    is_last = find_last_copies(model, proposal)
    for broker in np.unique(proposal.replicas[is_last]).tolist():
        rows = np.unique(lists.row[is_last & (proposal.replicas == broker)])
        which = "copy" if (lists.factor[rows] == 1).all() else "in-sync copy"
        names = name_some(list(map(model.name, rows[:MAX_NAMED].tolist())), len(rows))
        yield (
            f"do not wipe or replace the disk of broker {model.broker_ids[broker]}, which is down: it holds the only "
            f"{which} of {format_count(len(rows), 'partition')}: {names}"
        )
