"""The work of a fleet: which recommended plans are due when, and what they copy in all."""

from __future__ import annotations

from typing import Any

from pipelines.report.planned_work import list_planned_work
from pipelines.verdict.cluster_evidence import ClusterFindings
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.levels import Level
from pipelines.verdict.statements import VerdictPoint

GB = 10**9


def cluster(name: str, *findings: tuple[str, str], down: tuple[int, ...] = (), **plans: Any) -> dict[str, Any]:
    """A cluster. findings: kind and goal; plans: bytes and seconds by goal, None = infeasible."""
    points = [
        VerdictPoint(Level.AT_RISK, kind, f"kafka-placement plan SOURCE --goal {goal}", kind) for kind, goal in findings
    ]
    rows = {
        goal: {"feasible": cost is not None, "changed_partitions": 5}
        | dict(zip(COSTS, cost or (None, None), strict=True))
        for goal, cost in plans.items()
    }
    verdict = Verdict(Level.AT_RISK, "x", tuple(points))
    return {"cluster_id": name, "verdict": verdict, "findings": ClusterFindings(down_brokers=down), "plans": rows}


COSTS = ("copied_bytes", "copy_duration_s")


def test_the_most_urgent_plans_come_first() -> None:
    work = list_planned_work(
        [
            cluster(
                "a", ("broker_offline", "rf"), ("hot_survivor", "failover"), rf=(3 * GB, 3600.0), failover=(0, 0.0)
            ),
            cluster("b", ("down", "repair"), down=(7,), repair=(9 * GB, 9000.0)),
            cluster("c", ("rack_offline", "repair"), ("down", "repair"), down=(1,), repair=(2 * GB, 3600.0)),
        ]
    )
    rows = [(one.due, one.cluster_index, one.cluster_id, one.goal, one.down_brokers) for one in work.plans]
    assert rows == [
        ("Today", 1, "b", "repair", (7,)),
        ("Today", 2, "c", "repair", ()),
        ("This week", 0, "a", "rf", ()),
        ("Watch", 0, "a", "failover", ()),
    ]
    assert work.plans[0].plan == {
        "feasible": True,
        "changed_partitions": 5,
        "copied_bytes": 9 * GB,
        "copy_duration_s": 9000.0,
    }
    assert work.summary == (
        "Due today and this week: 2 plans, 10 partitions to change, 5 GB to copy, 2 h 0 min one after the other. "
        "1 repair is not counted: a restart makes it needless."
    )


def test_plans_without_sizes_and_without_rows() -> None:
    no_sizes = cluster("a", ("broker_offline", "rf"), rf=(None, None))
    missing = cluster("b", ("broker_offline", "rf"))
    infeasible = cluster("c", ("broker_offline", "rf"), rf=None)
    assert list_planned_work([no_sizes, missing, infeasible]).summary == (
        "Due today and this week: 1 plan, 5 partitions to change. The sources show no sizes for 1 plan of these. "
        "2 more plans are not computed, or infeasible."
    )


def test_nothing_is_due() -> None:
    work = list_planned_work([cluster("a", ("hot_broker", "leaders"), leaders=(0, 0.0)), cluster("b")])
    assert ([one.goal for one in work.plans], work.summary) == (["leaders"], "No plan is due today or this week.")
