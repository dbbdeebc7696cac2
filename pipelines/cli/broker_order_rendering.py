"""The order in which to start brokers that are down and to restart live ones, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pipelines.ingest.returned_brokers import OfflinePartitions
from pipelines.verdict.cluster_evidence import MAX_BROKERS, name_brokers, name_some, name_with_noun
from pipelines.verdict.verdict_points import fill_forms
from pipelines.what_if.outage import OfflinePartition, Outage
from pipelines.what_if.what_if_answers import ClusterAnswer, SingleFailure
from udfs.failures.partition_health import BrokerStart
from udfs.failures.scenarios import UNKNOWN_VOTER
from udfs.wording import count_of, join_names

# Findings that may go away by themselves, or once brokers are back.
_TEMPORARY = {"offline", "under_min_isr", "failed_log_dir", "down", "under_replicated", "quorum_lost", "voters_lag"}
# Which offline partitions need more than a start, and what to say of them.
_EXCEPTIONS: tuple[tuple[Callable[[OfflinePartition], bool], str], ...] = (
    (
        lambda one: one.only_in_failed_dirs,
        "[has its only in-sync copy|have their only in-sync copies] in a failed log dir of a live broker",
    ),
    (
        lambda one: one.needs_all and not one.allows_unclean,
        "[needs|need] all eligible brokers back, as one that crashed may not lead; one is enough if it was shut down "
        "cleanly",
    ),
    (
        lambda one: one.needs_clean_stop and not one.allows_unclean,
        "[comes|come] online only if an eligible broker was shut down cleanly",
    ),
    (
        lambda one: one.allows_unclean and bool(one.eligible_brokers),
        "[allows|allow] unclean elections: messages may be lost if another broker starts before an eligible one",
    ),
    (
        lambda one: one.elected_from == "unknown",
        "[has|have] no in-sync replica and no ELR that a source shows: start all brokers that have a replica",
    ),
    (
        lambda one: one.elected_from == "unclean",
        "[has|have] no eligible replica: the first broker that starts leads, and messages may be lost",
    ),
    (
        lambda one: one.elected_from == "none",
        "[has|have] no eligible replica: only kafka-leader-election --election-type unclean helps, which may lose "
        "messages and leave transactions open; the broker that stopped last has most of them",
    ),
)


def format_start_order(outage: Outage) -> Iterator[str]:
    """Yield in which order to start the brokers that are down, and which offline partitions need more than that."""
    starts = outage.start_order
    if not outage.offline or not outage.down_brokers:
        return
    if starts:
        order = name_brokers([_describe_start(start, is_first=not i) for i, start in enumerate(starts)])
        yield f"Start the brokers that are down in this order: {order}"
        if others := sorted(set(outage.down_brokers) - {start.broker for start in starts}):
            verb = "brings" if len(others) == 1 else "bring"
            yield f"  {name_with_noun(others)} {verb} no other offline partition online"
    exceptions = []
    for applies, text in _EXCEPTIONS:
        if names := [one.name for one in outage.offline if applies(one)]:
            exceptions.append(
                f"  {count_of(len(names), 'partition')} {fill_forms(text, len(names))}: {name_some(names)}"
            )
    if not starts:
        yield f"No broker that is down is sure to bring an offline partition online{':' if exceptions else ''}"
    yield from exceptions


def _describe_start(start: BrokerStart, *, is_first: bool) -> str:
    if not start.partitions:
        return f"{start.broker}"
    count = count_of(start.partitions, "more partition" if not is_first else "partition")
    return f"{start.broker} ({count} online)"  # without a count: the next one is needed too


def describe_stays(offline: OfflinePartitions, ids: Sequence[int]) -> str:
    """Return what stays offline of the partitions of brokers that are back, as a clause; empty without any."""
    count, rows = offline.find_on(ids)
    if not count:
        return ""
    names = name_some([f"{row['topic']}-{row['partition']}" for row in rows], count)
    needed = [start.broker for start in offline.starts]
    gain = count_of(sum(start.partitions for start in offline.starts), "partition")
    verb = "brings" if len(needed) == 1 else "bring"
    step = f"start {name_with_noun(needed)} too, which {verb} {gain} online" if needed else "no broker brings them back"
    return f", but {count_of(count, 'partition')} with a replica there would stay offline ({names}): {step}"


def format_restart_order(answer: ClusterAnswer, most: int | None = MAX_BROKERS) -> Iterator[str]:
    """Yield the order, the safest broker first; which not yet, and why; and what holds for all; then controllers.

    most: brokers that are named; None = all. Partitions with replication factor 1 are offline whenever their broker
    restarts, so no broker waits for them.
    """
    rows, quorum = answer.brokers, answer.quorum
    if len(rows) > 1:
        yield from _order_brokers(answer, len(rows) if most is None else most)
    apart = set(quorum.voters).difference([UNKNOWN_VOTER, *(row.failed for row in rows)])
    if lagging := apart.intersection(quorum.lagging):
        yield f"Restart controllers that are down or lag first: {join_names(sorted(lagging))}"
    ready, waiting = quorum.order_restarts(apart - lagging)
    if ready:
        not_yet = f"; not yet: {join_names(waiting)} (no majority of voters would be left)" if waiting else ""
        yield f"Restart controllers in this order: {join_names(ready)}{not_yet}"
        yield "  before each, wait until all voters follow the active controller"
    elif waiting and quorum.spare >= 0:
        yield f"While any controller restarts ({join_names(waiting)}), no leader is elected: no majority is left"


def _order_brokers(answer: ClusterAnswer, room: int) -> Iterator[str]:
    """Yield the order of brokers that are safe to restart, and what the restart of each other one does meanwhile."""
    rows, quorum = answer.brokers, answer.quorum
    groups = _group_by_effect(rows, quorum.leader)
    limited = " (as far as the sources show)" if answer.left_out.is_limited else ""
    if "" not in groups:
        yield f"No broker is safe to restart now{limited}; the least harmful first:"
    for effect, losses in groups.items():
        names = join_names([broker for broker, _ in losses], room) if room else count_of(len(losses), "broker")
        room = max(room - len(losses), 0)
        fewest, most = min(count for _, count in losses), max(count for _, count in losses)
        counts = f"{fewest:,} to {count_of(most, 'partition')}" if fewest < most else count_of(most, "partition")
        if effect:
            yield f"  {names}: {effect.format(counts)}"
        else:
            yield f"Safe to restart now, in this order{limited}: {names}"
    if any(groups) and not limited and not _TEMPORARY.intersection(point.kind for point in answer.verdict.points):
        yield "  waiting does not make these restarts safer: see the next steps above"
    alone = any(row.single_replica_partitions for row in rows)
    offline = "; partitions with replication factor 1 are offline while their broker restarts" if alone else ""
    voters = " and all voters follow" if any(row.failed in quorum.voters for row in rows) else ""
    yield f"  before each, wait until all replicas are in sync{voters}{offline}"


def _group_by_effect(rows: Sequence[SingleFailure], active: int | None) -> dict[str, list[tuple[int | str, int]]]:
    """Group brokers, with how many partitions it is, by the worst effect of their failure on replicated partitions.

    The least harmful come first; the effect "" is none. {} in an effect stands for the partitions.

    Of equal ones, those with fewer unreplicated partitions come first, then those whose takeovers are more even.
    active: the active controller, the last of its group, so that it moves once.
    """

    def count_losses(row: SingleFailure) -> dict[str, int]:
        return {
            "no leader can be elected meanwhile": int(not row.leaves_majority),
            "{} offline meanwhile": row.newly_offline_partitions - row.single_replica_partitions,
            "{} may lose messages": row.unclean_elections,
            "acks=all blocked on {} meanwhile": row.newly_under_min_isr_partitions,
        }

    def rank(row: SingleFailure) -> tuple[float, ...]:
        load = (row.worst_survivor_ratio or 0, row.leaders_lost)
        losses = count_losses(row).values()
        return (*losses, row.failed == active and not any(losses), row.single_replica_partitions, *load)

    groups: dict[str, list[tuple[int | str, int]]] = {}
    for row in sorted(rows, key=rank):
        effect, count = next((loss for loss in count_losses(row).items() if loss[1]), ("", 0))
        groups.setdefault(effect, []).append((row.failed, count))
    return groups
