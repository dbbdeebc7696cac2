"""In which order to restart brokers one by one, as `what-if` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pipelines.cli.text_format import format_count

if TYPE_CHECKING:
    from pipelines.cli.what_if_answers import BrokerFailure


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
        first, more = ids[:room], len(ids[room:])
        room -= len(first)
        names = ", ".join(map(str, first)) + (f" and {more} more" if first and more else "")
        texts.append(f"{names or format_count(more, 'broker')}{f' ({effect})' if effect else ''}")
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
