"""Helpers of the formats that are JSON documents, alone or among a tool's text lines."""

from __future__ import annotations

import re

from pipelines.ingest.formats.checked_values import Fact, ignored, shown, unparsable
from pipelines.ingest.formats.noise_lines import PROSE, TOOL_MESSAGE, noise_reason
from pipelines.ingest.json_elements import BROKEN, LINE, OTHER, Event

# Contexts of records that are no element; every other context is the format's own.
TEXT = "text"
FRAGMENT = "broken: "
FOREIGN = "other: "

TOPIC_TO_MOVE = "topic to move"

_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')
_PIECE = re.compile(r'\s*[\[\]{}",]')
OUTSIDE = (LINE, OTHER, BROKEN)  # kinds of events that are no element


def keys_in(text: str) -> set[str]:
    """Every key that the JSON in the text has."""
    return set(_KEY.findall(text))


def outside_record(event: Event, arrays: str) -> tuple[int, str | None, str]:
    """The record of a line outside of documents, a broken one, or one without the arrays we look for."""
    if event.kind == BROKEN:
        return event.line, FRAGMENT + str(event.value), event.raw
    if event.kind == OTHER:
        return event.line, FOREIGN + arrays, event.raw
    return event.line, TEXT, event.raw


def outside_facts(context: str, raw: str) -> list[Fact] | None:
    """Facts of such a record; None when the context is another."""
    if context == TEXT:
        reason = noise_reason(raw)
        if reason == PROSE and _PIECE.match(raw):
            raise unparsable("a piece of JSON outside of its document")
        return ignored(TOOL_MESSAGE if reason == PROSE else reason)
    if context.startswith(FRAGMENT):
        raise unparsable(f"{context[len(FRAGMENT) :]}, at {shown(raw[:60])}")
    if context.startswith(FOREIGN):
        if keys_in(raw) - {"version"} == {"topics", "topic"}:  # kept beside what --generate made of it
            return ignored(TOPIC_TO_MOVE)
        raise unparsable(f"a JSON document without {context[len(FOREIGN) :]}")
    return None
