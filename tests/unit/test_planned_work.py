"""The work of a fleet: which recommended plans are due when, and what they copy in all."""

from __future__ import annotations

from typing import Any

from pipelines.report.planned_work import list_planned_work
from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterFindings, PartitionIssue
from pipelines.verdict.judgement import Verdict
from pipelines.verdict.verdict_points import Level, NextPlan, VerdictPoint
from tests.report.made_up import cluster_of

GB = 10**9


def cluster(
    name: str,
    *findings: tuple[str, str | NextPlan],
    down: tuple[int, ...] = (),
    issues: dict[str, AffectedPartitions] | None = None,
    **plans: Any,
) -> dict[str, Any]:
    """A cluster. findings: kind, and goal or plan; plans: bytes and seconds by goal, None = infeasible."""
    recommended = [(kind, NextPlan(plan) if isinstance(plan, str) else plan) for kind, plan in findings]
    points = [VerdictPoint(Level.AT_RISK, kind, plan.command, kind, plan) for kind, plan in recommended]
    row = cluster_of(3)["plan"] | {"changed_partitions": 5}
    rows = {
        goal: row | {"goal": goal, "feasible": cost is not None} | dict(zip(COSTS, cost or (None, None), strict=True))
        for goal, cost in plans.items()
    }
    verdict = Verdict(Level.AT_RISK, "x", tuple(points))
    findings = ClusterFindings(down_brokers=down, issues=issues or {})
    return {"cluster_id": name, "verdict": verdict, "findings": findings, "plans": rows, "rack_failures": []}


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
    plan, effects = work.plans[0].plan, work.plans[0].effects
    assert plan is not None
    assert effects is not None
    assert [plan[name] for name in COSTS] == [9 * GB, 9000.0]
    assert effects.better == ["offline if a broker fails: up to 4 -> 0"]
    assert [one.label for one in work.plans[1:3]] == ["repair replicas (repair)", "raise the replication factor (rf)"]
    assert work.summary == (
        "Due today and this week: 2 plans, 10 partitions to change, 5 GB to copy, 2 h 0 min one after the other. "
        "Not counted: 1 plan needless after a restart."
    )


def test_plans_without_sizes_and_without_rows() -> None:
    no_sizes = cluster("a", ("broker_offline", "rf"), rf=(None, None))
    missing = cluster("b", ("broker_offline", "rf"))
    infeasible = cluster("c", ("broker_offline", "rf"), rf=None)
    assert list_planned_work([no_sizes, missing, infeasible]).summary == (
        "Due today and this week: 1 plan, 5 partitions to change. The sources show no sizes for 1 plan of these. "
        "Not counted: 2 plans not computed, or infeasible."
    )


def test_nothing_is_due() -> None:
    work = list_planned_work([cluster("a", ("hot_broker", "leaders"), leaders=(0, 0.0)), cluster("b")])
    assert ([one.goal for one in work.plans], work.summary) == (["leaders"], "No plan is due today or this week.")


def test_brokers_to_restart_are_listed_with_what_that_ends() -> None:
    counts = {"offline": 3, "under_min_isr": 1_005, "under_replicated": 123}
    on_down = {PartitionIssue(name): AffectedPartitions(n + 9, on_down_brokers=n) for name, n in counts.items()}
    one = {PartitionIssue.UNDER_REPLICATED: AffectedPartitions(5, on_down_brokers=1)}
    work = list_planned_work(
        [
            cluster("a", ("down", "repair"), down=(4,), issues=on_down),
            cluster("without-effect", down=(3,)),
            cluster("live", issues=one),
            cluster("b", down=(1, 2), issues=one),
        ]
    )
    assert work.restarts == [
        (0, "a", "broker 4", "is", "3 offline, 1,005 blocked (acks=all) and 123 under-replicated partitions"),
        (3, "b", "brokers 1, 2", "are", "1 under-replicated partition"),
    ]


def test_plans_made_while_a_broker_is_down_are_made_again() -> None:
    one = {PartitionIssue.UNDER_REPLICATED: AffectedPartitions(5, on_down_brokers=1)}
    for brokers, again in (((4,), ["made while broker 4 is down: make it again after the restart"]), ((), [])):
        work = list_planned_work([cluster("a", ("broker_offline", "rf"), down=brokers, issues=one, rf=(3, 1.0))])
        (plan,) = work.plans
        assert plan.effects is not None
        assert [text for text in plan.effects.caveats if "make it again" in text] == again


def test_plans_that_need_new_brokers_are_work() -> None:
    expand = ("rack_offline", NextPlan("expand", new_brokers=("13:eu-1c", "14:eu-1c", "15:eu-1a")))
    work = list_planned_work([cluster("a", expand, ("hot_broker", "leaders"), leaders=(0, 0.0))])
    rows = [(one.due, one.goal, one.new_brokers, one.plan is None) for one in work.plans]
    assert rows == [("This week", "expand", "3 new brokers (eu-1c, eu-1a)", True), ("Watch", "leaders", "", False)]
    assert work.summary == "Not counted: 1 plan for new brokers that do not exist yet."


def test_the_assumptions_of_times() -> None:
    fast = cluster("b", ("hot_broker", "leaders"), leaders=(0, 0.0))
    fast["plans"]["leaders"]["throttle_bytes_per_s"] = 1e8
    slow = cluster("a", ("broker_offline", "rf"), rf=(GB, 9.0))
    start = "Times are for copies at {} per broker (plans.throttle_bytes_per_s); better and worse are "
    assert list_planned_work([slow]).assumptions.startswith(start.format("50 MB/s"))
    assert list_planned_work([fast, slow]).assumptions.startswith(start.format("50 MB/s to 100 MB/s"))
    assert list_planned_work([cluster("c", ("broker_offline", "rf"), rf=None)]).assumptions == ""
    slow["plans"]["rf"]["throttle_bytes_per_s"] = None  # of a warehouse of an older version
    assert list_planned_work([slow]).assumptions == ""
