"""Names brokers, topics and other things in sentences: the first of many, and how many there are."""

from collections.abc import Iterable, Sequence

from pipelines.verdict.cluster_evidence import MAX_BROKERS, MAX_NAMED, MAX_TOPICS, AffectedPartitions
from udfs.plurals import count_of, join_names


def name_some(items: Sequence[object], count: int | None = None) -> str:
    """Name the first items, as in `1, 2, 3, 4, 5, 6 and 2 more`. count: how many there are, if not all are given."""
    return join_names(items, MAX_NAMED, count)


def name_brokers(ids: Sequence[object]) -> str:
    """Name the first brokers, as in `1, 2 and 3 more`."""
    return join_names(ids, MAX_BROKERS)


def name_any(names: Sequence[object]) -> str:
    """Name the first things of which any may fail, as in `1, 2 or 3`, or `1, 2 or one of 3 more`."""
    first = [str(name) for name in names[:MAX_BROKERS]]
    more = len(names) - len(first)
    *first, last = [*first, f"one of {more} more"] if more else first
    return f"{', '.join(first)} or {last}" if first else last


def name_with_noun(brokers: Sequence[int]) -> str:
    """Name brokers, as in `broker 1` or `brokers 1, 2`."""
    return f"broker{'' if len(brokers) == 1 else 's'} {name_brokers(brokers)}"


def name_topics(partitions: Iterable[tuple[str, int]], topics: int) -> str:
    """Name the first topics with their partitions, as in `a (12), b (4) and 2 more topics`. topics: how many in all."""
    names = [f"{name} ({count:,})" for name, count in partitions][:MAX_TOPICS]
    more = topics - len(names)
    return ", ".join(names) + (f" and {count_of(more, 'more topic')}" if more else "")


def name_affected_topics(affected: AffectedPartitions) -> str:
    """Name the topics with most of these partitions, as in `: a (12), b (4), all with replication factor 1`."""
    if not affected.topic_names:
        return ""
    names = name_topics(zip(affected.topic_names, affected.topic_partitions, strict=True), affected.topics)
    single = affected.single_replica_partitions
    if single == affected.partitions:
        names += ", all with replication factor 1" if single > 1 else ", with replication factor 1"
    elif single:
        names += f"; {single:,} with replication factor 1"
    return f": {names}"
