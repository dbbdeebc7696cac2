"""Warnings about a new plan: what it cannot change, what the sources lack, and disks that must not be lost."""

from collections.abc import Iterator

import numpy as np

from pipelines.cli.plan_remedies import explain_few_brokers
from pipelines.ingest.merge.live_brokers import get_down_brokers, is_version_known
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files import plan_writer
from pipelines.plan_files.plan_creation import CreatedPlan
from pipelines.verdict.cluster_evidence import MAX_NAMED, ClusterFindings
from pipelines.verdict.naming import name_some
from pipelines.verdict.reassignment_findings import describe_stuck
from pipelines.verdict.snapshot_findings import find_stuck_reassignments
from udfs.arrow.ragged import any_true, count_true
from udfs.planning.cluster_model import FreezeReason
from udfs.planning.elections import find_in_sync_replicas, find_last_copies
from udfs.planning.plan_metrics import count_frozen_partitions
from udfs.plurals import count_of, is_or_are, it_or_them


def list_warnings(plan: CreatedPlan, snapshot: Snapshot, source: str, server: str) -> Iterator[str]:
    """List what a person should know before trusting the plan. source, server: for commands of ours and of Kafka."""
    model = plan.summary.model
    stuck = ClusterFindings(**find_stuck_reassignments(snapshot.partitions, get_down_brokers(snapshot.brokers)))
    yield from _warn_of_only_copies(plan)
    reasons = {reason.explanation: reason for reason in FreezeReason}
    for explanation, count in count_frozen_partitions(model).items():
        reason = reasons[explanation]
        stay = "stays as it is" if count == 1 else "stay as they are"
        waits = reason == FreezeReason.IN_FLIGHT and count > stuck.stuck_partitions
        wait = ". Wait until the reassignment is complete, then make a new plan" if waits else ""
        wait = f". {explain_few_brokers(model, source)}" if reason == FreezeReason.FEW_BROKERS else wait
        yield f"{count_of(count, 'partition')} {stay}: {explanation}{wait}"
    if stuck.stuck_partitions:
        point = describe_stuck(stuck).name_server(server)
        yield f"{point.text.rstrip('.')}. Next: {point.step}"
    yield from _warn_of_kept_lagging(plan)
    yield from _warn_of_high_min_isr(plan, is_version_known(snapshot.brokers))
    out_of_sync = plan_writer.list_not_elected(plan.summary)
    if count := out_of_sync.partitions:
        names = name_some(out_of_sync.first_partitions, count)
        their, they = ("its", "it is") if count == 1 else ("their", "they are")
        yield (
            f"{count_of(count, 'partition')} cannot be led by {their} preferred leader now, which is out of sync: "
            f"{names}. {plan_writer.ELECTION} leaves {it_or_them(count)} out, and the planned leaders "
            f"count the current one. Once {they} in sync again, make the plan again"
        )
    if plan.unplaced:
        yield f"{count_of(plan.unplaced, 'partition')} without known replicas {is_or_are(plan.unplaced)} left out"
    if not model.known[0] and plan.facts.request.broker_bytes is not None:
        yield "the sources show no sizes: plans.broker_bytes is ignored"
    if model.known[0] and (count := model.unsized_partitions):
        yield f"the sources show no size for {count_of(count, 'partition')}: counted as 0 bytes"


def _warn_of_kept_lagging(plan: CreatedPlan) -> Iterator[str]:
    """Warn of partitions of which a plan drops replicas, and whose other ones are not all in sync."""
    model, proposal = plan.summary.model, plan.summary.proposal
    in_sync = find_in_sync_replicas(model, proposal)
    factor = np.diff(proposal.offsets)
    rows = np.flatnonzero((factor < model.factor) & any_true(~in_sync, proposal.offsets))
    if not len(rows):
        return
    count = count_true(in_sync, proposal.offsets)
    states = [
        f"{model.name(row)}: {count_of(int(count[row]), 'in-sync replica')} of {factor[row]}"
        for row in rows[:MAX_NAMED].tolist()
    ]
    keep = "partition keeps" if len(rows) == 1 else "partitions keep"
    yield (
        f"with fewer replicas, {len(rows):,} {keep} every replica that is in sync, but others are not: "
        f"{name_some(states, len(rows))}"
    )


def _warn_of_high_min_isr(plan: CreatedPlan, is_version_known: bool) -> Iterator[str]:
    """Warn of partitions that would have fewer replicas than min.insync.replicas, where Kafka may not lower it."""
    model, factor = plan.summary.model, np.diff(plan.summary.proposal.offsets)
    min_isr = model.find_min_isr(np.arange(model.partitions), factor) if is_version_known else model.topic_min_isr
    rows = np.flatnonzero((factor < model.factor) & (factor < min_isr))
    if len(rows):
        have = "1 partition has" if len(rows) == 1 else f"{len(rows):,} partitions have"
        names = name_some(list(map(model.name, rows[:MAX_NAMED].tolist())), len(rows))
        yield (
            f"then {have} fewer replicas than min.insync.replicas, which blocks acks=all producers"
            f"{'' if is_version_known else ' before Kafka 3.7'}: {names}. "
            "Lower min.insync.replicas of their topics first"
        )


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
            f"{which} of {count_of(len(rows), 'partition')}: {names}"
        )
