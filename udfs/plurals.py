"""Count things in English: a noun or a verb, in the singular or the plural."""


def count_of(number: int, noun: str) -> str:
    """Write a number with its noun: 1 replica, 2,000 replicas."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def it_or_them(number: int) -> str:
    """Return the pronoun for a number of things."""
    return "it" if number == 1 else "them"


def is_or_are(number: int) -> str:
    """Return the verb for so many things: 1 partition is, 2 partitions are."""
    return "is" if number == 1 else "are"
