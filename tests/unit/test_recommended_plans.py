"""The plans that a verdict recommends: options of their commands, and whether a restart makes them needless."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.common_options import PlanOptions
from pipelines.cli.plan_command import parse_request
from pipelines.config.settings import load_settings
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.stages.plan_requests import build_run_requests, list_possible_goals
from pipelines.verdict.cluster_evidence import AffectedPartitions, ClusterEvidence, ClusterFindings, PartitionIssue
from pipelines.verdict.judgement import Verdict, judge_cluster
from pipelines.verdict.recommended_plans import RECOMMENDABLE_GOALS, list_all_plans, list_recommended_plans
from pipelines.verdict.verdict_points import Level, NextPlan, VerdictPoint
from pipelines.what_if.what_if_answers import evaluate_brokers
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.planning.goal_registry import GOALS

SAMPLES = Path(__file__).parents[2] / "data_samples"
SINGLE = AffectedPartitions(2, 2, ["a", "b"], [1, 1], 2, 2, ["a", "b"])


def judge(down: tuple[int, ...] = (), racks: int = 0, **issues: AffectedPartitions) -> Verdict:
    """Judge three live brokers. racks: partitions that the failure of the first of two racks takes offline."""
    none = {"newly_offline_partitions": 0, "unclean_elections": 0, "hot_survivor": None, "worst_survivor_ratio": None}
    none |= {"newly_under_min_isr_partitions": 0, "under_min_isr_partitions": 0, "brokers": 1}
    single = "offline_if_broker_fails" in issues
    brokers = [none | {"failed": broker, "newly_offline_partitions": 2 * single} for broker in (1, 2, 3)]
    by_rack = [none | {"failed": "r1", "newly_offline_partitions": racks}, none | {"failed": "r2"}]
    findings = ClusterFindings(
        {PartitionIssue(name): value for name, value in issues.items()}, 9, 9, 2, 3.0, 3, down_brokers=down
    )
    return judge_cluster(ClusterEvidence(None, brokers, by_rack, findings))


def test_the_options_of_a_command_are_those_of_the_request() -> None:
    (plan,) = list_recommended_plans(judge(offline_if_broker_fails=SINGLE))
    assert (plan.goal, plan.fields) == ("rf", {"factor": 3, "topics": ("a", "b")})
    for options, fields in (
        ("", {}),
        (" --under-min-isr-partitions", {"under_min_isr_partitions": True}),
        (" --at-min-isr-partitions --brokers 5", {"at_min_isr_partitions": True, "brokers": (5,)}),
    ):
        plan = NextPlan("repair", **fields)
        assert plan.command == f"kafka-placement plan SOURCE --goal repair{options} --out plan-CLUSTER-repair"
        verdict = Verdict(Level.AT_RISK, "x", (VerdictPoint(Level.AT_RISK, "x", plan.command, "down", plan),))
        assert [one.fields for one in list_recommended_plans(verdict)] == [fields]


def test_a_source_and_cluster_in_the_command_change_no_option() -> None:
    verdict = judge(offline_if_broker_fails=SINGLE).name_source("'my --rf 9 dump'", "prod --rf 7")
    assert [plan.fields for plan in list_recommended_plans(verdict)] == [{"factor": 3, "topics": ("a", "b")}]


def test_topics_that_get_as_many_replicas_are_one_plan() -> None:
    plans = [NextPlan("rf", factor=n, topics=topics) for n, topics in ((3, ("a", "b")), (3, ("c", "b")), (4, ("d",)))]
    points = tuple(
        VerdictPoint(Level.WARNING, "x", f"{plan.command}; then", f"kind-{i}", plan) for i, plan in enumerate(plans)
    )
    (plan,) = list_recommended_plans(Verdict(Level.WARNING, "x", points))
    assert plan.fields == {"factor": 3, "topics": ("a", "b", "c")}
    command = "kafka-placement plan SOURCE --goal rf --rf 3 --topics a,b,c --out plan-CLUSTER-rf; then"
    assert plan.step == command


def test_only_a_restart_makes_a_repair_needless() -> None:
    lagging = {"under_replicated": AffectedPartitions(1, on_down_brokers=1)}
    (down,) = list_recommended_plans(judge((4,), **lagging))
    assert (down.goal, down.replaces_restart) == ("repair", True)
    confined = AffectedPartitions(3, 1, ["a"], [3])
    (both,) = list_recommended_plans(judge((4,), 3, offline_if_rack_fails=confined, **lagging))
    assert (both.goal, both.replaces_restart) == ("repair", False)
    (spread,) = list_recommended_plans(judge((), 3, offline_if_rack_fails=confined))
    assert (spread.goal, spread.replaces_restart) == ("repair", False)
    (more_replicas,) = list_recommended_plans(judge(offline_if_broker_fails=SINGLE))
    assert not more_replicas.replaces_restart


@pytest.mark.parametrize("sample", ["kafka-4.1.1-kraft", "kafka-2.8.2-zookeeper"])
def test_requests_of_a_run_are_those_of_the_commands(sample: str) -> None:
    settings = load_settings(environ={})
    verdict = evaluate_brokers(load_snapshot(find_source(str(SAMPLES / sample))), KAFKA_DEFAULTS).verdict
    requests = build_run_requests(settings, verdict)
    steps = {plan.goal: plan.step for plan in list_recommended_plans(verdict)}
    assert {request.goal for request in requests} == set(steps)
    for request in requests:
        words = steps[request.goal].split(";")[0].split()
        options: dict[str, Any] = {
            name: words[words.index(f"--{name}") + 1] for name in ("rf", "topics") if f"--{name}" in words
        }
        options |= {"rf": int(options["rf"])} if "rf" in options else {}
        assert request == parse_request(PlanOptions(request.goal, **options), settings)


def test_goals_of_a_run() -> None:
    quiet = Verdict(Level.OK, "x", ())
    at_risk = judge(offline_if_broker_fails=SINGLE)
    for goals, verdict, expected in (
        ("recommended", quiet, ["leaders"]),
        ("recommended", at_risk, ["rf"]),
        ("recommended,failover", at_risk, ["rf", "failover"]),
        ("balance,recommended", at_risk, ["rf", "balance"]),
        ("drain", None, ["drain"]),
        ("[]", None, []),
    ):
        settings = load_settings([f"plans.goals={goals}"], environ={})
        requests = build_run_requests(settings, verdict)
        assert [request.goal for request in requests] == expected
        assert {request.goal for request in requests} <= set(list_possible_goals(settings.plans.goals))


def test_goals_that_a_verdict_can_recommend() -> None:
    assert set(RECOMMENDABLE_GOALS) == {"balance", "leaders", "failover", "repair", "rf"} <= set(GOALS)


def test_a_run_leaves_out_plans_of_log_dirs() -> None:
    """It would call them infeasible, as its plans know no log dirs."""
    verdict = Verdict(Level.OK, "x", (VerdictPoint(Level.OK, "x", "x", "uneven_log_dirs", NextPlan("log-dirs")),))
    assert [plan.goal for plan in list_all_plans(verdict)] == ["log-dirs"]
    assert [request.goal for request in build_run_requests(load_settings(environ={}), verdict)] == ["leaders"]


def test_a_run_leaves_out_plans_that_need_new_brokers() -> None:
    for brokers, option, racks in (
        (("10:c", "11:b"), "10:c,11:b", ["c", "b"]),
        (("10:eu 1's",), shlex.quote("10:eu 1's"), ["eu 1's"]),
    ):
        plan = NextPlan("expand", new_brokers=brokers)
        options = f"--goal expand --add-brokers {option} --out plan-CLUSTER-expand"
        assert plan.command == f"kafka-placement plan SOURCE {options}"
        point = VerdictPoint(Level.WARNING, "", plan.command, "rack_under_min_isr", plan)
        verdict = Verdict(Level.WARNING, "", (point,))
        assert list_recommended_plans(verdict) == []
        assert [(one.goal, one.new_broker_racks) for one in list_all_plans(verdict)] == [("expand", racks)]
