"""While brokers are down: what waiting for them leaves broken, and what moving their replicas to others takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipelines.errors import Infeasible, SourceError
from pipelines.ingest.formats.kraft_log import find_create_time
from pipelines.ingest.merge.shard_facts import KRAFT_LOG
from pipelines.ingest.returned_brokers import find_missing_brokers, return_brokers
from pipelines.plan_files.hypothetical_cluster import assume_executed, assume_first_wave
from pipelines.plan_files.plan_creation import propose_plan
from pipelines.what_if.outage import CopyCost, ReplicaMove, WaitOrMove
from pipelines.what_if.what_if_answers import ClusterAnswer, evaluate_brokers
from udfs.arrow.ragged import is_in_segment
from udfs.planning.planned_waves import PlannedWaves, plan_waves

if TYPE_CHECKING:
    from pipelines.ingest.snapshot_reader import Snapshot
    from udfs.failures.topic_defaults import TopicDefaults
    from udfs.planning.plan_request import PlanRequest
    from udfs.planning.waves import WaveLimits


class RepairPlanning(NamedTuple):
    """What the plan that moves replicas is made from."""

    request: PlanRequest
    limits: WaveLimits
    defaults: TopicDefaults


class ReturnedAnswer(NamedTuple):
    """The answer once the brokers are live, with all their replicas in sync."""

    brokers: list[int]  # that are down, or have replicas out of sync
    answer: ClusterAnswer


def evaluate_return(snapshot: Snapshot, defaults: TopicDefaults) -> ReturnedAnswer | None:
    """Evaluate the cluster once all brokers are live, and all replicas in sync; None if that changes nothing."""
    missing = find_missing_brokers(snapshot, defaults)
    returned = return_brokers(snapshot, missing, defaults)
    if returned.partitions.equals(snapshot.partitions):  # also where partitions stay offline though all are back
        return None
    return ReturnedAnswer(missing, evaluate_brokers(returned, defaults))


def compare_choices(
    snapshot: Snapshot, answer: ClusterAnswer, returned: ReturnedAnswer, planning: RepairPlanning
) -> WaitOrMove | None:
    """Compare waiting for the brokers that are down with moving their replicas; None if none is down.

    What lags on other brokers lags in both cases. answer: on the snapshot. returned: once nothing lags.
    """
    down = answer.outage.down_brokers
    if not down:
        return None
    back = returned.answer
    if returned.brokers != down:
        back = evaluate_brokers(return_brokers(snapshot, down, planning.defaults), planning.defaults)
    choice = WaitOrMove(down, find_stop_times(snapshot, down), answer.exposure, back.exposure, None)
    try:
        model, proposal = propose_plan(snapshot, planning.request, planning.defaults)
    except Infeasible as error:
        return replace(choice, obstacle=" ".join(part.strip() for part in error.args))
    except SourceError as error:
        return replace(choice, obstacle=str(error))
    plan = plan_waves(model, proposal, planning.limits)
    if not sum(report.replicas_added for report in plan.wave_reports):
        return replace(choice, obstacle="plan --goal repair copies no replica")
    return replace(choice, move=_measure_move(snapshot, plan, planning))


def _measure_move(snapshot: Snapshot, plan: PlannedWaves, planning: RepairPlanning) -> ReplicaMove:
    reports, has_sizes = plan.wave_reports, plan.model.known[0]
    costs = [
        CopyCost(
            sum(report.replicas_added for report in some),
            sum(report.bytes_to_copy for report in some) if has_sizes else None,
            round(sum(report.seconds for report in some), 1) if has_sizes else None,
        )
        for some in (reports, reports[:1])
    ]
    states = [assume_executed(snapshot, plan)]
    states += [assume_first_wave(snapshot, plan)] * (len(reports) > 1)
    exposures = [evaluate_brokers(state, planning.defaults).exposure for state in states]
    return ReplicaMove(
        cost=costs[0],
        waves=len(reports),
        throttle_bytes_per_s=planning.limits.throttle_bytes_per_s,
        first_wave=costs[1],
        after_first_wave=exposures[-1],
        after_all_waves=exposures[0],
        cost_back=_measure_return(plan),
    )


def _measure_return(plan: PlannedWaves) -> CopyCost:
    """Measure what it takes to copy the replicas that a plan takes from brokers that are down back to them."""
    model, proposal = plan.model, plan.proposal
    leaves = ~model.live[model.replicas]
    leaves &= ~is_in_segment(model.replicas, model.offsets, proposal.replicas, proposal.offsets)
    if not model.known[0]:
        return CopyCost(int(leaves.sum()), None, None)
    received = np.bincount(model.replicas[leaves], model.size[model.row[leaves]])
    seconds = float(received.max(initial=0)) / plan.waves.limits.throttle_bytes_per_s
    return CopyCost(int(leaves.sum()), round(float(received.sum())), round(seconds, 1))


def find_stop_times(snapshot: Snapshot, down: Sequence[int]) -> dict[int, int]:
    """Find since when brokers are down, as the lines of metadata logs show it: ms since 1970, by broker."""
    lines = {broker: line for broker, line in snapshot.stops.lines.items() if broker in down}
    times = {}
    for file in snapshot.files:
        numbers = {number: broker for broker, (source, number) in lines.items() if source == file.name}
        part = file.find_part(KRAFT_LOG) if numbers else None
        for _, number, _, raw in part or ():
            if number in numbers and (time := find_create_time(raw)) is not None:
                times[numbers[number]] = time
    return times
