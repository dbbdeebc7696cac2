"""A verdict's findings and next steps as `what-if` and the summary of `run` print them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipelines.verdict.levels import Level
from udfs.plurals import count_of

if TYPE_CHECKING:
    from pipelines.verdict.judgement import Verdict

_MAX_FINDINGS = 3  # of a cluster in the summary


def format_findings(verdict: Verdict, limit: int | None = None) -> Iterator[str]:
    """Yield the findings, the worst first, with their next steps. The caller has printed the headline, which is one.

    limit: of how many findings; None = all.
    """
    for point in verdict.points[:limit]:
        if point.text != verdict.sentence:
            yield f"  - {point.text}"
        if point.step:
            yield f"    next: {point.step}"


def format_in_summary(cluster: str, verdict: Verdict, source: str) -> Iterator[str]:
    """Yield the headline of a cluster, and of one at risk also the worst findings with next steps.

    source: as commands name it.
    """
    yield f"{cluster}: {verdict.headline}"
    if verdict.level is Level.AT_RISK:
        yield from format_findings(verdict.name_source(source, cluster), _MAX_FINDINGS)
        if (more := len(verdict.points) - _MAX_FINDINGS) > 0:
            yield f"  {count_of(more, 'more finding')}: kafka-placement what-if {source}"
