"""The syntax of sentences: their times, and patterns of numbers, names, partitions and options."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from udfs.simulation.cluster_events import BrokerIds, TopicPartition

# Sums of numbers stay within 64 bits; ids and partition numbers have 32 bits.
LARGEST, LARGEST_ID = 10**12 - 1, 10**9 - 1
NUMBER = r"(\d{1,12})"
IDS = r"(\d{1,9}(?:\s*,\s*\d{1,9})*)"
BROKER = r"(\d{1,9})"
NAME = r"([A-Za-z0-9._-]+)"
PARTITION = r"([A-Za-z0-9._-]+-\d{1,9})"
PARTITIONS = r"([A-Za-z0-9._-]+-\d{1,9}(?:\s*,\s*[A-Za-z0-9._-]+-\d{1,9})*)"
LISTS = r"(\d+(?::\d+)*(?:\s*,\s*\d+(?::\d+)*)*)"  # as in kafka-topics --replica-assignment: 1:2,2:3
TIME = r"(\d{1,12}(?:\.\d+)?(?:ms|s|m|h)?)"
OPTIONS = r"((?: [a-z]+=\S+)*)"

_TIME = re.compile(r"(\d{1,12}(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {None: 1000.0, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
_NUMBER = re.compile(NUMBER)
_TIMES = re.compile(rf"t={TIME}(?:\.\.{TIME})?(?: every {TIME})? (.*)")

MAX_EVENTS = 1_000_000  # of one sentence
TOO_MANY_EVENTS = f"makes more than {MAX_EVENTS:,} events"
REPEAT_LESS = "Repeat it less often, or for a shorter time."
EXAMPLES = '"t=10 broker 2 down", "t=20s preferred election", "t=0..60 every 500ms followers fetch"'


class SyntaxFault(Exception):
    """A sentence that is wrong: (problem, remedy)."""


@dataclass(frozen=True)
class Option:
    """What may follow `name=`. parse: returns None for a wrong value; remedy: what to write."""

    parse: Callable[[str], int | None]
    remedy: str


def parse_milliseconds(text: str) -> int | None:
    """Parse a time, in seconds unless it has a unit; None if it is none."""
    match = _TIME.fullmatch(text)
    return round(float(match[1]) * _UNITS[match[2]]) if match else None


def parse_number(text: str) -> int | None:
    """Parse a whole number of 0 or more; None if it is none."""
    return int(text) if _NUMBER.fullmatch(text) else None


TIME_OPTION = Option(parse_milliseconds, "Write a time, as in 500ms or 5s.")
NUMBER_OPTION = Option(parse_number, f"Write a whole number up to {LARGEST:,}.")
ACKS_OPTION = Option({"0": 0, "1": 1, "all": -1, "-1": -1}.get, "Write 0, 1 or all.")


def parse_ids(text: str) -> BrokerIds:
    """Parse broker ids, as in 1,2,3."""
    return tuple(int(part) for part in text.split(","))


def parse_partitions(text: str) -> list[TopicPartition]:
    """Parse partitions, as in orders-0,orders-1."""
    parts = [part.strip().rpartition("-") for part in text.split(",")]
    return [(topic, int(number)) for topic, _, number in parts]


def parse_times(sentence: str) -> tuple[range, str]:
    """Return (times of a sentence, ms; the rest of it).

    Raises:
        SyntaxFault: The times are wrong.
    """
    match = _TIMES.fullmatch(sentence)
    if match is None:
        check_sizes(sentence, _TIMES.fullmatch)
        raise SyntaxFault(f"{sentence!r} is not a sentence", f"Begin with a time: {EXAMPLES}.")
    first, last, every = (parse_milliseconds(text or "") for text in match.groups()[:3])
    assert first is not None
    if last is None and every is None:
        return range(first, first + 1), match[4]
    if last is None or every is None:
        raise SyntaxFault("a repetition needs an end and an interval", "As in: t=0..60 every 500ms followers fetch.")
    if every == 0:
        raise SyntaxFault(f"every {match[3]} never ends", "Repeat it every 1ms or more.")
    if last < first:
        raise SyntaxFault(f"ends at {match[2]}, before it starts", f"Write an end after {match[1]}.")
    times = range(first, last + 1, every)
    if len(times) > MAX_EVENTS:
        raise SyntaxFault(TOO_MANY_EVENTS, REPEAT_LESS)
    return times, match[4]


def check_sizes(text: str, parse: Callable[[str], object]) -> None:
    """Check whether a text cannot be parsed only because a number is too large.

    Args:
        text: The text.
        parse: Returns None if it cannot parse a text.

    Raises:
        SyntaxFault: That is so; it names the first such number, and the largest that is allowed there.
    """
    runs = list(re.finditer(r"\d{10,}", text))

    def parse_with(place: int, value: str) -> object:
        """Parse the text with this value at one place, and with ids at the others."""
        parts, end = [], 0
        for i, run in enumerate(runs):
            parts += [text[end : run.start()], value if i == place else str(LARGEST_ID)]
            end = run.end()
        return parse("".join([*parts, text[end:]]))

    for i, run in enumerate(runs):
        if not parse_with(i, run[0]):
            allowed = next((largest for largest in (LARGEST, LARGEST_ID) if parse_with(i, str(largest))), None)
            if allowed is not None:
                raise SyntaxFault(f"{run[0]} is too large a number", f"Write at most {allowed:,}.")
            return
