"""Count and list things in English: a noun or a verb, in the singular or the plural; the first of many names."""

from collections.abc import Iterable


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number with its noun: 1 replica, 2,000 replicas. plural: None = the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count_live_brokers(count: int, unknown: int) -> str:
    """Count brokers that count as live, as in `2 live brokers, 1 broker of unknown state`; unknown: how many are so."""
    live = [count_of(count - unknown, "live broker")] if count > unknown or not unknown else []
    return ", ".join([*live, *([f"{count_of(unknown, 'broker')} of unknown state"] if unknown else [])])


def it_or_them(number: int) -> str:
    """Return the pronoun for a number of things."""
    return "it" if number == 1 else "them"


def is_or_are(number: int) -> str:
    """Return the verb for so many things: 1 partition is, 2 partitions are."""
    return "is" if number == 1 else "are"


def join_names(names: Iterable[object], limit: int = 8, count: int | None = None) -> str:
    """Join the first `limit` names: 1, 2 and 7 more. count: how many there are, if not all are given."""
    texts = [str(name) for name in names]
    more = (len(texts) if count is None else count) - min(len(texts), limit)
    return ", ".join(texts[:limit]) + (f" and {more:,} more" if more else "")
