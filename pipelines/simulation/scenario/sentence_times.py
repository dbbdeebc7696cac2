"""When a sentence happens: once, or every so often."""

from __future__ import annotations

import re
from typing import NoReturn

from pipelines.simulation.scenario.sentence_patterns import TIME, milliseconds, too_large
from pipelines.simulation.scenario.yaml_document import Page

MOST = 1_000_000  # events of one sentence
LESS = "Repeat it less often, or for a shorter time."
EXAMPLES = '"t=10 broker 2 down", "t=20s preferred election", "t=0..60 every 500ms followers fetch"'
_AT = re.compile(rf"t={TIME}(?:\.\.{TIME})?(?: every {TIME})? (.*)")


def read_times(page: Page, sentence: str, line: int) -> tuple[range, str]:
    """(milliseconds at which it happens, what happens)."""
    found = _AT.fullmatch(sentence)
    if found is None:
        if large := too_large(sentence, _AT.fullmatch):
            page.fail(f"{large[0]} is too large a number", f"Write at most {large[1]:,}.", line)
        page.fail(f"{sentence!r} is no sentence", f"Begin with a time: {EXAMPLES}.", line)
    first, last, every = (milliseconds(text or "") for text in found.groups()[:3])
    assert first is not None
    if last is None and every is None:
        return range(first, first + 1), found[4]
    if last is None or every is None:
        page.fail("a repetition needs an end and a step", "As in: t=0..60 every 500ms followers fetch.", line)
    if every == 0:
        page.fail(f"every {found[3]} never comes to an end", "Repeat it every 1ms or more.", line)
    if last < first:
        page.fail(f"ends at {found[2]}, before it begins", f"Write an end after {found[1]}.", line)
    times = range(first, last + 1, every)
    if len(times) > MOST:
        too_many(page, line, LESS)
    return times, found[4]


def too_many(page: Page, line: int | None, remedy: str) -> NoReturn:
    """SourceError: more events than one sentence may make."""
    page.fail(f"makes more than {MOST:,} events", remedy, line)
