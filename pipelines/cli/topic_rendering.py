"""The topics that a failure affects, or their teams, as text."""

from collections.abc import Iterator, Sequence

from pipelines.cli.text_format import EVERYTHING, Limits, align_rows
from pipelines.verdict.cluster_evidence import name_some
from pipelines.what_if.failure_effects import AffectedTopic
from udfs.wording import count_of

# Heading -> field of AffectedTopic.
_COLUMNS = {
    "partitions": "partitions",
    "offline": "offline_partitions",
    "unclean": "unclean_elections",
    "blocked": "under_min_isr_partitions",
    "one in sync": "single_isr_partitions",
    "leader moves": "leaders_moved",
}
_NO_TEAM = "no team"
_ROWS = 3  # of this table, for each of another


def format_topics(topics: Sequence[AffectedTopic], limits: Limits, by_team: bool) -> Iterator[str]:
    """Yield the affected topics, the worst first. by_team: by team, those without one last; a short answer adds up."""
    if not topics:
        yield "No topic is affected"
        return
    yield f"{count_of(len(topics), 'topic is', 'topics are')} affected; their partitions:"
    teams: dict[str, list[AffectedTopic]] = {}
    for row in sorted(topics, key=lambda row: (row.team is None, row.team or "")) if by_team else topics:
        teams.setdefault(row.team or _NO_TEAM, []).append(row)
    if by_team and limits != EVERYTHING:
        groups, labels = (
            list(teams.values()),
            {"team": list(teams), "topics": [f"{len(one)}" for one in teams.values()]},
        )
    else:
        groups = [[row] for rows in teams.values() for row in rows]
        labels = {"team": [row.team or _NO_TEAM for (row,) in groups]} if by_team else {}
        labels["topic"] = [row.topic for (row,) in groups]
    counts = {title: [sum(getattr(row, name) for row in group) for group in groups] for title, name in _COLUMNS.items()}
    cells = labels | {
        title: [f"{n:,}" if n else "" for n in numbers] for title, numbers in counts.items() if any(numbers)
    }
    heading, *lines = align_rows([list(cells), *zip(*cells.values(), strict=True)], left=(0, 1) if by_team else (0,))
    hidden = limits._replace(rows=limits.rows and _ROWS * limits.rows).hide(len(lines))
    yield from (f"  {line}" for line in (heading, *lines[: len(lines) - hidden]))
    if hidden:
        yield f"  ... {hidden} more: --all"
    if by_team and (rest := teams.get(_NO_TEAM)):
        yield f"  no pattern of --owner-map matches {name_some([row.topic for row in rest])}"
