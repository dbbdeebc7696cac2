"""Count things in English: one noun, in the singular or the plural."""


def count_of(number: int, noun: str) -> str:
    """Write a number with its noun: 1 replica, 2,000 replicas."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
