"""What a running cluster did not answer, or has none of, when it was read; Kafka's tools print nothing like it."""

import re
from collections.abc import Iterable, Iterator

from pipelines.ingest.formats.checked_values import as_int, quote, unparsable
from pipelines.ingest.source_format import Fact, FactKind, Format, Signature, ignore

_HEADER = re.compile(r"requests to kafka://(.+)")
_UNANSWERED = re.compile(r"not answered: (.+)")
ONGOING = "ongoing reassignments"  # as an unanswered request names them
NO_TOPICS = "the cluster has 0 topics"  # and all of them would be shown
NO_REASSIGNMENTS = f"{ONGOING} are not known"
NO_CONTROLLER = "no controller with a majority answers"
_SILENT = re.compile(r"broker (\d+) does not answer")  # nor does a controller: what others say of it may be old
_STALE = f"{NO_CONTROLLER}: no leader is elected, and brokers, leaders and ISRs are shown as they were before"
_ANY = re.compile(
    rf"requests to kafka://|not answered: |(?:{NO_TOPICS}|{NO_REASSIGNMENTS}|{NO_CONTROLLER}|{_SILENT.pattern})$"
)


def print_requests(servers: str, states: Iterable[str], problems: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file. states: lines on the cluster; problems: sentences on what is not known."""
    yield f"requests to kafka://{servers}"
    yield from states
    for text in problems:
        yield f"not answered: {text}"


def list_states(*, is_empty: bool, knows_reassignments: bool, silent: Iterable[int] | None) -> list[str]:
    """List the lines on a cluster. silent: brokers that do not answer, where no controller does; None = one does."""
    lines = [NO_TOPICS] if is_empty else []
    lines += [] if knows_reassignments else [NO_REASSIGNMENTS]
    return lines + ([] if silent is None else [NO_CONTROLLER, *(f"broker {one} does not answer" for one in silent)])


def _parse(_: str | None, line: str) -> Iterable[Fact]:
    if match := _UNANSWERED.fullmatch(line):
        return ignore("not answered", match[1])
    if line == NO_CONTROLLER:
        return [(kind, values | {"controller": False}) for kind, values in ignore("no controller", _STALE)]
    if match := _SILENT.fullmatch(line):
        return [(FactKind.BROKER, {"broker_id": as_int(match[1], "broker"), "registered": False, "controller": False})]
    if line in (NO_TOPICS, NO_REASSIGNMENTS):
        return ignore(line, line if line == NO_TOPICS else None)
    if _HEADER.fullmatch(line):
        return ignore("header")
    raise unparsable(f"{quote(line)} is no line about requests")


FORMAT = Format(
    "live-requests", "what a running cluster did not answer, as snapshot writes it", Signature(_ANY.match), _parse
)
