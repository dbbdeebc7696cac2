"""Recognises partitions as Go programs print their structs (`%+v`, `%#v`): kafka-go, sarama, franz-go, confluent."""

import re

from pipelines.ingest.formats.checked_values import BadValueError, unparsable

_MAX_LOOK = 20_000  # characters
_LEADER, _REPLICAS = re.compile(r"[{ ]Leader:[\w{-]"), re.compile(r" Replicas:\[")


def reject_struct(text: str) -> BadValueError | None:
    """Return the problem of a text that shows partitions as structs; None for other texts."""
    text = text[:_MAX_LOOK]
    if "{" not in text or _LEADER.search(text) is None or _REPLICAS.search(text) is None:
        return None
    return unparsable("a struct of a Go program, which this program does not read: use kafka-topics --describe")
