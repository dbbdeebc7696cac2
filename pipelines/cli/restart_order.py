"""In which order to start brokers that are down, and to restart live ones one by one, as `what-if` prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from udfs.plurals import count_of, join_names

if TYPE_CHECKING:
    from pipelines.ingest.returned_brokers import OfflinePartitions
    from pipelines.what_if.outage import OfflinePartition, Outage
    from pipelines.what_if.what_if_answers import BrokerFailure
    from udfs.failures.leader_recovery import BrokerStart

# Which offline partitions need more than a start, and what to say of them.
_EXCEPTIONS: tuple[tuple[Callable[[OfflinePartition], bool], str], ...] = (
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
        "messages; the broker that stopped last has most of them",
    ),
)


def format_start_order(outage: Outage) -> Iterator[str]:
    """Yield in which order to start the brokers that are down, and which offline partitions need more than that."""
    from pipelines.verdict.naming import name_brokers, name_some, name_with_noun
    from pipelines.verdict.verdict_points import fill_forms

    starts = outage.start_order
    if not outage.offline or not outage.down_brokers:
        return
    if starts:
        order = name_brokers([_describe_start(start, is_first=not i) for i, start in enumerate(starts)])
        yield f"Start the brokers that are down in this order: {order}"
        if others := sorted(set(outage.down_brokers) - {start.broker for start in starts}):
            verb = "brings" if len(others) == 1 else "bring"
            yield f"  {name_with_noun(others)} {verb} no other offline partition online"
    else:
        yield "No broker that is down is sure to bring an offline partition online:"
    for applies, text in _EXCEPTIONS:
        names = [one.name for one in outage.offline if applies(one)]
        if names:
            yield f"  {count_of(len(names), 'partition')} {fill_forms(text, len(names))}: {name_some(names)}"


def _describe_start(start: BrokerStart, *, is_first: bool) -> str:
    if not start.partitions:
        return f"{start.broker}"
    count = count_of(start.partitions, "more partition" if not is_first else "partition")
    return f"{start.broker} ({count} online)"  # without a count: the next one is needed too


def describe_stays(offline: OfflinePartitions, ids: Sequence[int]) -> str:
    """Return what stays offline of the partitions of brokers that are back, as a clause; empty without any."""
    from pipelines.verdict.naming import name_some, name_with_noun

    count, rows = offline.find_on(ids)
    if not count:
        return ""
    names = name_some([f"{row['topic']}-{row['partition']}" for row in rows], count)
    needed = [start.broker for start in offline.starts]
    gain = count_of(sum(start.partitions for start in offline.starts), "partition")
    verb = "brings" if len(needed) == 1 else "bring"
    step = f"start {name_with_noun(needed)} too, which {verb} {gain} online" if needed else "no broker brings them back"
    return f", but {count_of(count, 'partition')} with a replica there would stay offline ({names}): {step}"


def format_restart_order(rows: Sequence[BrokerFailure], *, is_limited: bool) -> Iterator[str]:
    """Yield the order, the safest broker first; which not yet, and why; and what holds for all.

    Partitions with replication factor 1 are offline whenever their broker restarts, so no broker waits for them.
    is_limited: the sources lack something, so that the order may be wrong.
    """
    from pipelines.verdict.cluster_evidence import MAX_BROKERS

    if len(rows) < 2:
        return
    groups, texts, room = _group_by_effect(rows), [], MAX_BROKERS
    for effect, ids in groups.items():
        names = join_names(ids, room) if room else count_of(len(ids), "broker")
        room = max(room - len(ids), 0)
        texts.append(f"{names}{f' ({effect})' if effect else ''}")
    limited = " (as far as the sources show)" if is_limited else ""
    if "" in groups:
        waiting = f"; not yet: {', '.join(texts[1:])}" if texts[1:] else ""
        yield f"Restart in this order{limited}: {texts[0]}{waiting}"
    else:
        yield f"Restart no broker yet{limited}; the least harmful first: {', '.join(texts)}"
    alone = any(row.single_replica_partitions for row in rows)
    offline = "; partitions with replication factor 1 are offline while their broker restarts" if alone else ""
    yield f"  before each, wait until all replicas are in sync{offline}"


def _group_by_effect(rows: Sequence[BrokerFailure]) -> dict[str, list[int]]:
    """Group brokers by the worst effect of their failure on replicated partitions, the least harmful first.

    Of equal ones, those with fewer unreplicated partitions come first, then those whose takeovers are more even.
    """

    def count_losses(row: BrokerFailure) -> dict[str, int]:
        return {
            "partitions offline": row.newly_offline_partitions - row.single_replica_partitions,
            "messages at risk": row.unclean_elections,
            "acks=all blocked": row.newly_under_min_isr_partitions,
        }

    def rank(row: BrokerFailure) -> tuple[float, ...]:
        load = (row.worst_survivor_ratio or 0, row.leaders_lost)
        return (*count_losses(row).values(), row.single_replica_partitions, *load)

    groups: dict[str, list[int]] = {}
    for row in sorted(rows, key=rank):
        effect = next((effect for effect, count in count_losses(row).items() if count), "")
        groups.setdefault(effect, []).append(row.failed)
    return groups
