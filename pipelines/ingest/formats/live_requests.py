"""What a running cluster did not answer, or has none of, when it was read; Kafka's tools print nothing like it."""

import re
from collections.abc import Iterable, Iterator

from pipelines.ingest.formats.checked_values import quote, unparsable
from pipelines.ingest.source_format import Fact, Format, Signature, ignore

_HEADER = re.compile(r"requests to kafka://(.+)")
_UNANSWERED = re.compile(r"not answered: (.+)")
ONGOING = "ongoing reassignments"  # as an unanswered request names them
NO_TOPICS = "the cluster has 0 topics"  # and all of them would be shown
_ANY = re.compile(rf"requests to kafka://|not answered: |{NO_TOPICS}")


def print_requests(servers: str, problems: Iterable[str], *, is_empty: bool) -> Iterator[str]:
    """Yield the lines of a file. problems: sentences on what is not known; is_empty: whether there is no topic."""
    yield f"requests to kafka://{servers}"
    if is_empty:
        yield NO_TOPICS
    for text in problems:
        yield f"not answered: {text}"


def _parse(_: str | None, line: str) -> Iterable[Fact]:
    if match := _UNANSWERED.fullmatch(line):
        return ignore("not answered", match[1])
    if line == NO_TOPICS:
        return ignore("no topics", line)
    if _HEADER.fullmatch(line):
        return ignore("header")
    raise unparsable(f"{quote(line)} is no line about requests")


FORMAT = Format(
    "live-requests",
    "what a running cluster did not answer, as snapshot writes it",
    Signature(line=lambda line: _ANY.match(line) is not None),
    _parse,
)
