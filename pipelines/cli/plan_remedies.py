"""Warnings about a new plan, and commands of `plan` for alternatives or where no plan complies with a request."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipelines.ingest.merge.kraft_merge import find_voters
from pipelines.ingest.merge.live_brokers import get_down_brokers, is_version_known
from pipelines.ingest.snapshot_reader import Snapshot
from pipelines.plan_files import plan_writer
from pipelines.plan_files.plan_creation import CreatedPlan
from pipelines.verdict.cluster_evidence import MAX_COMMAND_TOPICS, MAX_NAMED, ClusterFindings, name_some, name_with_noun
from pipelines.verdict.risk_findings import describe_stuck
from pipelines.verdict.snapshot_findings import find_stuck_reassignments
from udfs.arrow.ragged import any_true, count_true
from udfs.planning.cluster_model import ClusterModel, FreezeReason, Ints
from udfs.planning.constraints import (
    COPYING_GOALS,
    Rules,
    build_rules,
    count_places,
    find_receiving_brokers,
    list_emptied_brokers,
)
from udfs.planning.elections import find_in_sync_replicas, find_last_copies
from udfs.planning.plan_making import freeze_partitions
from udfs.planning.plan_metrics import count_frozen_partitions
from udfs.planning.plan_request import PlanRequest
from udfs.planning.replicas.count_limits import find_lost_racks
from udfs.wording import count_of, is_or_are, it_or_them

_JOINED = ("--add-brokers",)  # options whose values are lists, to which new values are added
_REPEATED = ("--after", "--set", "--ignore-topics")  # options that may be written several times


@dataclass(frozen=True)
class PlanCommandLine:
    """A command line of `plan` as it was written."""

    source: str
    options: Mapping[str, tuple[str, ...]]  # Their values; none = a flag

    def with_other_folder(self, suffix: str) -> "PlanCommandLine":
        """Return the command with another folder for its plan, if it writes one, so that it overwrites no other."""
        folders = self.options.get("--out", ())
        if not folders or folders == ("-",):
            return self
        others = tuple(folder.rstrip("/") + suffix for folder in folders)
        return replace(self, options={**self.options, "--out": others})

    def with_flag(self, option: str) -> "PlanCommandLine":
        """Return the command with one more option that has no value."""
        return replace(self, options={**self.options, option: ()})

    def change(self, changes: Mapping[str, tuple[str, ...]]) -> str:
        """Return the command with other values of some options; without a value, an option is left out."""
        options = {option: value for option, value in self.options.items() if changes.get(option, value) or not value}
        for option, value in changes.items():
            if option in _REPEATED:
                options[option] = (*self.options.get(option, ()), *value)
            elif option in _JOINED and option in options:
                options[option] = (",".join((*options[option], *value)),)
            elif value:
                options[option] = value
        words = [self.source]
        for option, value in options.items():
            words += [word for one in value for word in (option, one)] or [option]
        return f"kafka-placement plan {' '.join(map(shlex.quote, words))}"


def list_remedies(model: ClusterModel, request: PlanRequest, command: PlanCommandLine) -> Iterator[str]:
    """List the commands for what must be repaired first, racks without brokers, and too few brokers; else nothing."""
    if request.goal not in COPYING_GOALS:
        return
    model = freeze_partitions(model, request)
    rules = build_rules(model, request)
    waits = np.isin(model.frozen, (FreezeReason.DOWN_REPLICA, FreezeReason.FAILED_DIR))
    if request.goal in ("drain", "replace") and (waits[model.row] & rules.must_leave[model.replicas]).any():
        yield f"  first: {PlanCommandLine(command.source, {'--goal': ('repair',)}).change({})}"
    elif lost := find_lost_racks(model, rules):
        yield from _replace_racks(model, command, lost)
    else:
        yield from _find_more_brokers(model, request, rules, command)


def _replace_racks(model: ClusterModel, command: PlanCommandLine, lost: Sequence[int]) -> Iterator[str]:
    racks = ", ".join(model.rack_names[rack] for rack in lost)
    again = _add_brokers(model, command, [model.rack_names[rack] for rack in lost])
    yield f"  start other brokers in rack {racks}, and use their ids in: {again}"
    yield f"  or give up rack {racks}: {command.with_flag('--allow-empty-racks').change({})}"


def _add_brokers(model: ClusterModel, command: PlanCommandLine, racks: Sequence[str]) -> str:
    """Return the command with a new broker in each of these racks, or without a rack where its name is empty."""
    first = int(model.broker_ids.max()) + 1
    return command.change(
        {"--add-brokers": (",".join(f"{first + i}:{rack}".rstrip(":") for i, rack in enumerate(racks)),)}
    )


def _find_more_brokers(
    model: ClusterModel, request: PlanRequest, rules: Rules, command: PlanCommandLine
) -> Iterator[str]:
    """List what to do where partitions should have more replicas than brokers can hold: more brokers, or fewer."""
    places = count_places(model, rules.receives, rules.must_leave | ~model.live).sum(axis=1)
    short = np.flatnonzero(~rules.fixed & (places < rules.factor))
    if not len(short):
        return
    if model.cordoned is not None:
        brokers = model.describe_brokers(np.flatnonzero(model.cordoned))
        yield f"  uncordon {brokers}: delete the config cordoned.log.dirs there"
    missing = int((rules.factor - places)[short].max())
    down = model.broker_ids[~model.live & ~np.isin(model.broker_ids, request.exclude_brokers)].tolist()
    restart = f"restart {name_with_noun(down)}, or " if down else ""
    fewest = np.argsort(np.bincount(model.rack[model.live]))
    racks = [model.rack_names[rack] for rack in fewest if model.rack_names] or [""]
    again = _add_brokers(model, command, [racks[i % len(racks)] for i in range(missing)])
    yield f"  {restart}add {count_of(missing, 'broker')}, with {it_or_them(missing)} in: {again}"
    most = int(places[short].min())
    if most >= 1 and most != request.factor:
        yield f"  or do with fewer replicas: {change_factor(model, short, most, command.source)}"


def change_factor(model: ClusterModel, rows: Ints, factor: int, source: str) -> str:
    """Return the command that gives the topics of partitions (int64) another number of replicas."""
    topics = sorted({model.topic_names[topic] for topic in model.topic[rows].tolist()})
    names, more = ",".join(topics[:MAX_COMMAND_TOPICS]), len(topics) - MAX_COMMAND_TOPICS
    options = {"--goal": ("rf",), "--rf": (str(factor),), "--topics": (names,)}
    others = f", and for {count_of(more, 'more topic')}" if more > 0 else ""
    return f"{PlanCommandLine(source, options).change({})}{others}"


def explain_few_brokers(model: ClusterModel, source: str) -> str:
    """Return what to do for the partitions that a repair leaves, as too few live brokers can hold their replicas."""
    rows = np.flatnonzero(model.frozen == FreezeReason.FEW_BROKERS)
    places = count_places(model, find_receiving_brokers(model), ~model.live).sum(axis=1)
    lower = change_factor(model, rows, max(int(places[rows].min()), 1), source)
    return f"Restart or add brokers, or do with fewer replicas: {lower}"


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
        yield f"{count_of(count, 'partition')} {stay} because of {explanation}{wait}"
    if stuck.stuck_partitions:
        point = describe_stuck(stuck).name_server(server)
        yield f"{point.text.rstrip('.')}. Next: {point.step}"
    yield from _warn_of_emptied_voters(plan, snapshot)
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


def _warn_of_emptied_voters(plan: CreatedPlan, snapshot: Snapshot) -> Iterator[str]:
    """Warn of brokers that are to be empty, and so may be stopped, though they are voters of the quorum."""
    quorum = find_voters(snapshot.quorum, snapshot.brokers)
    voters = sorted({*quorum.voters} & {*list_emptied_brokers(plan.summary.model, plan.facts.request)})
    if voters:
        role, they, are = "a voter" if len(voters) == 1 else "voters", it_or_them(len(voters)), is_or_are(len(voters))
        left = count_of(len(quorum.voters) - len({*voters, *quorum.lagging}), "voter")
        majority = "" if quorum.elects_without(voters) else ", which is no majority: no leader could be elected"
        yield (
            f"{name_with_noun(voters)} {are} also {role} of the controller quorum: without {they}, {left} of "
            f"{len(quorum.voters)} would be left{majority}. Before you stop {they}, add a controller on another node: "
            "kafka-metadata-quorum add-controller"
        )


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
    """Warn of disks that failed, or are of down brokers, and hold last copies of partitions after the plan."""
    model, proposal = plan.summary.model, plan.summary.proposal
    lists = model.with_lists(proposal.offsets, proposal.replicas)
    is_last = find_last_copies(model, proposal)
    for broker in np.unique(proposal.replicas[is_last]).tolist():
        rows = np.unique(lists.row[is_last & (proposal.replicas == broker)])
        which = "copy" if (lists.factor[rows] == 1).all() else "in-sync copy"
        names = name_some(list(map(model.name, rows[:MAX_NAMED].tolist())), len(rows))
        state = "which has a failed log dir" if model.live[broker] else "which is down"
        yield (
            f"do not wipe or replace the disk of broker {model.broker_ids[broker]}, {state}: it holds the only "
            f"{which} of {count_of(len(rows), 'partition')}: {names}"
        )
