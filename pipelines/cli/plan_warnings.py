"""Warnings about a new plan: what it cannot change, what the sources lack, and disks that must not be lost."""

from collections.abc import Iterator

import numpy as np

from pipelines.cli.text_format import format_count
from pipelines.plan_files import plan_writer
from pipelines.plan_files.plan_creation import CreatedPlan
from udfs.planning.cluster_model import FreezeReason, join_names
from udfs.planning.plan_metrics import count_frozen_partitions
from udfs.planning.under_replication import find_last_copies

_LISTED = 6  # partitions by name


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
        names = (
            join_names(out_of_sync.first_partitions, _LISTED)
            if count <= _LISTED
            else (f"{', '.join(out_of_sync.first_partitions[:_LISTED])} and {count - _LISTED} more")
        )
        their, they = ("its", "it is") if count == 1 else ("their", "they are")
        yield (
            f"{format_count(count, 'partition')} cannot be led by {their} preferred leader now, which is out of sync: "
            f"{names}. {plan_writer.ELECTION} leaves {'it' if count == 1 else 'them'} out, and the planned leaders "
            f"count the current one. Once {they} in sync again, make the plan again"
        )
    if plan.unplaced:
        verb = "is" if plan.unplaced == 1 else "are"
        yield f"{format_count(plan.unplaced, 'partition')} without known replicas {verb} left out"
    if not model.known[0] and plan.request.broker_bytes is not None:
        yield "the sources show no sizes: plans.broker_bytes is ignored"
    if model.known[0] and plan.unsized:
        yield f"the sources show no size for {format_count(plan.unsized, 'partition')}: counted as 0 bytes"


def _warn_of_only_copies(plan: CreatedPlan) -> Iterator[str]:
    """Warn of down brokers whose disks still hold the last copies of partitions after the plan."""
    model, proposal = plan.summary.model, plan.summary.proposal
    lists = model.with_lists(proposal.offsets, proposal.replicas)
    is_last = find_last_copies(model, proposal)
    for broker in np.unique(proposal.replicas[is_last]).tolist():
        rows = np.unique(lists.row[is_last & (proposal.replicas == broker)])
        which = "copy" if (lists.factor[rows] == 1).all() else "in-sync copy"
        names = join_names(map(model.name, rows[:_LISTED].tolist()))
        more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
        yield (
            f"do not wipe or replace the disk of broker {model.broker_ids[broker]}, which is down: it holds the only "
            f"{which} of {format_count(len(rows), 'partition')}: {names}{more}"
        )
