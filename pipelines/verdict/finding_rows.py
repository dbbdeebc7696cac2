"""Verdicts as rows of gold.findings: one row for each sentence, the most serious first."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from pipelines.ingest.merge.entities import to_struct
from pipelines.verdict import source_statements
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.verdict_points import Level, NextPlan, VerdictPoint
from udfs.arrow.columns import FLAG, INT, INTS, LONG, TEXT, TEXTS, column
from udfs.json_answers import to_json

_PLAN = (
    column("goal", TEXT, "goal of the plan, as in plan --goal"),
    column("folder", TEXT, "what the name of its folder ends with; empty = the goal"),
    column("factor", INT, "replication factor for the goal rf"),
    column("topics", TEXTS, "topics of the goal rf"),
    column("brokers", INTS, "only partitions with a replica on these brokers; empty = all"),
    column("at_min_isr_partitions", FLAG, "only partitions at min.insync.replicas"),
    column("under_min_isr_partitions", FLAG, "only partitions below min.insync.replicas"),
    column("new_brokers", TEXTS, "brokers to add first, as in 13:eu-1c"),
)
FINDING_COLUMNS = (
    column("place", INT, "0 = the most serious finding, which is the headline of the verdict", required=True),
    column("level", TEXT, f"how serious it is: {', '.join(Level)}", required=True),
    column("text", TEXT, "the finding in words", required=True),
    column("step", TEXT, "what to do about it, with commands; empty = nothing", required=True),
    column("kind", TEXT, "what it is about, as in broker_offline: the statements of docs/verdicts.md", required=True),
    column("plan", to_struct(_PLAN), "the plan that the next step makes; null = it makes none"),
    column("affected", LONG, "how many partitions, brokers, topics or records it counts", required=True),
    column("topics", TEXTS, "the first topics that it affects, those with most partitions first; empty = not by topic"),
    column(
        "subject",
        TEXT,
        "brokers, racks or log dirs that it is about, in words and with counts, so it changes as they do: compare "
        "findings by kind; null = the cluster",
    ),
)


def make_finding_rows(verdict: Verdict) -> list[dict[str, Any]]:
    """Return the rows (FINDING_COLUMNS) of a verdict."""
    return [{"place": place, **to_json(point)} for place, point in enumerate(verdict.points)]


def read_verdicts(rows: Iterable[Mapping[str, Any]], clusters: Iterable[str]) -> dict[str, Verdict]:
    """Return the verdict of each cluster from the rows of all, which have its name as cluster_id."""
    by_cluster: dict[str, list[Mapping[str, Any]]] = {cluster: [] for cluster in clusters}
    for row in rows:
        by_cluster[row["cluster_id"]].append(row)
    return {cluster: read_finding_rows(own) for cluster, own in by_cluster.items()}


def read_finding_rows(rows: Iterable[Mapping[str, Any]]) -> Verdict:
    """Return the verdict whose rows these are, in any order; without rows, that nothing is known."""
    points = []
    for row in sorted(rows, key=lambda row: row["place"]):
        values: dict[str, Any] = {field.name: row[field.name] for field in fields(VerdictPoint)}
        if plan := row["plan"]:
            lists = {name: tuple(part) for name, part in plan.items() if isinstance(part, list)}
            values["plan"] = NextPlan(**{**plan, **lists})
        points.append(VerdictPoint(**values | {"level": Level(row["level"]), "topics": tuple(row["topics"])}))
    if not points:
        warning = "gold.findings has no row of this snapshot: run the cluster again"
        points = [source_statements.SOURCE_WARNING.fill(warning=warning)]
    return Verdict(points[0].level, points[0].text, tuple(points))
