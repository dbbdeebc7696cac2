"""The verdict on a cluster, and the answer for each broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pipelines.verdict.cluster_evidence import (
    MAX_COMMAND_TOPICS,
    MAX_TOPICS,
    AffectedPartitions,
    ClusterEvidence,
    ClusterFindings,
    PartitionIssue,
)
from pipelines.verdict.judgement import Verdict, judge_cluster
from pipelines.verdict.recommended_plans import list_recommended_plans
from pipelines.verdict.verdict_points import NO_MAJORITY, Level, assess_failure

NOW = {"leaders_max": 11, "leaders_mean": 10.0, "max_over_mean_ratio": 1.1, "hottest_broker": 3}
PARTITIONS = 100
MANY = dict(zip("bcdefgh", (5, 4, 3, 2, 2, 1, 1), strict=True))


DESCRIBE = "kafka-topics --bootstrap-server localhost:9092 --describe"


def failure(failed: int | str, **values: Any) -> dict[str, Any]:
    row = {"newly_offline_partitions": 0, "under_min_isr_partitions": 0, "worst_survivor_ratio": 1.2}
    row |= {"newly_under_min_isr_partitions": 0, "unclean_elections": 0, "hot_survivor": None, "leaders_after_max": 12}
    row["leaves_majority"] = True
    return {"failed": failed, "brokers": 1, "worst_survivor": 9, **row, **values}


def judge(
    failures: Sequence[dict[str, Any]],
    findings: ClusterFindings | None = None,
    now: dict[str, Any] | None = NOW,
    racks: Sequence[dict[str, Any]] = (),
) -> Verdict:
    known = replace(findings or ClusterFindings(), partitions=PARTITIONS, counted_partitions=PARTITIONS)
    if known.down_brokers:
        known = replace(known, live_brokers=5, replication_factor=3.0)
    return judge_cluster(ClusterEvidence(now, failures, racks, known))


def in_topics(topics: dict[str, int], single: int = 0, on_down: int = 0) -> AffectedPartitions:
    names, counts = list(topics)[:MAX_TOPICS], list(topics.values())[:MAX_TOPICS]
    singles = [topic for topic, count in topics.items() if count <= single]
    return AffectedPartitions(
        sum(topics.values()), len(topics), names, counts, single, len(singles), singles[:MAX_COMMAND_TOPICS], on_down
    )


def find(
    problem: PartitionIssue, topics: dict[str, int], single: int = 0, on_down: int = 0, **others: Any
) -> ClusterFindings:
    affected = in_topics(topics, single, on_down)
    if problem is PartitionIssue.UNDER_REPLICATED:
        affected = replace(affected, under_replicated=affected.partitions)
    return ClusterFindings(issues={problem: affected}, **others)


def test_ok() -> None:
    verdict = judge([failure(1), failure(2, worst_survivor_ratio=1.1)])
    assert verdict.level is Level.OK
    assert verdict.sentence == (
        "Any single broker can fail: no partition goes offline, and no survivor leads more than 1.20 times the mean."
    )
    assert verdict.headline.startswith("OK: any single broker can fail")
    racks = [failure("east"), failure("west")]
    assert judge([failure(1)], racks=racks).sentence.startswith("Any single broker or rack can fail: ")


def test_a_mean_is_no_news() -> None:
    even = judge([failure(1, worst_survivor_ratio=1.0), failure(2, worst_survivor_ratio=1.0)])
    assert even.sentence == "Any single broker can fail: no partition goes offline."
    unknown = judge([failure(1, worst_survivor_ratio=None)], now=NOW | {"max_over_mean_ratio": None})
    assert (unknown.level, unknown.sentence) == (Level.OK, even.sentence)


@pytest.mark.parametrize(
    ("findings", "sentence", "step"),
    [
        (
            find(PartitionIssue.OFFLINE, {"a": 1}),
            "1 partition is offline now: a (1).",
            f"list the offline partitions: {DESCRIBE} --unavailable-partitions",
        ),
        (
            find(
                PartitionIssue.OFFLINE,
                dict(zip("bcdefgh", (5, 4, 3, 2, 2, 1, 1), strict=True)),
                single=3,
                on_down=18,
                down_brokers=[9],
            ),
            "18 partitions are offline now: b (5), c (4), d (3) and 4 more topics; 3 with replication factor 1.",
            "restart broker 9; keep its disk, which has the only copy of 3 partitions; list the offline "
            f"partitions: {DESCRIBE} --unavailable-partitions",
        ),
        (
            find(PartitionIssue.UNDER_MIN_ISR, {"orders": 1_200}),
            "1,200 partitions are below min.insync.replicas now and block acks=all producers: orders (1,200).",
            f"watch the replicas catch up: {DESCRIBE} --under-min-isr-partitions",
        ),
        (
            find(PartitionIssue.OFFLINE, {"a": 1}, single=1, down_brokers=[9]),
            "1 partition is offline now: a (1), with replication factor 1.",
            f"list the offline partitions: {DESCRIBE} --unavailable-partitions",
        ),
    ],
)
def test_at_risk_now(findings: ClusterFindings, sentence: str, step: str) -> None:
    verdict = judge([failure(1)], findings)
    assert (verdict.level, verdict.sentence, verdict.points[0].step) == (Level.AT_RISK, sentence, step)
    assert verdict.headline == f"AT RISK: {sentence[0].lower()}{sentence[1:]}"


def test_partitions_that_block_producers_are_repaired_first_while_brokers_are_down() -> None:
    watch = f"watch the replicas catch up: {DESCRIBE} --under-min-isr-partitions"
    repair = "kafka-placement plan SOURCE --goal repair --under-min-isr-partitions --out plan-CLUSTER-repair-first"
    for on_down, some in ((3, "these partitions"), (2, "the 2 of them with a replica there")):
        findings = find(PartitionIssue.UNDER_MIN_ISR, {"a": 3}, on_down=on_down, down_brokers=[8, 9])
        step = next(point.step for point in judge([failure(1)], findings).points if "block" in point.text)
        assert step == (f"restart brokers 8, 9; {watch}; if brokers 8, 9 stay down, repair {some} first: {repair}")
    elsewhere = find(PartitionIssue.UNDER_MIN_ISR, {"a": 3}, down_brokers=[8, 9])
    assert judge([failure(1)], elsewhere).points[0].step == watch


def test_next_steps_name_a_live_broker_that_the_sources_show() -> None:
    findings = find(PartitionIssue.UNDER_MIN_ISR, {"a": 1}, bootstrap_server="b1:9093")
    step = judge([failure(1)], findings).points[0].step
    assert step == (
        "watch the replicas catch up: kafka-topics --bootstrap-server b1:9093 --describe --under-min-isr-partitions"
    )


@pytest.mark.parametrize(
    ("failures", "sentence"),
    [
        (
            [failure(1, newly_offline_partitions=1), failure(2)],
            "Losing broker 1 takes 1 partition offline: tmp (30), a (1); 30 with replication factor 1.",
        ),
        (
            [failure(n, newly_offline_partitions=n) for n in (1, 2)] + [failure(3)],
            "Losing broker 1 or 2 takes partitions offline (worst case: broker 2, 2 partitions); 31 partitions "
            "in all: tmp (30), a (1); 30 with replication factor 1.",
        ),
        (
            [failure(n, newly_offline_partitions=n) for n in (1, 2)],
            "Losing any single broker takes partitions offline (worst case: broker 2, 2 partitions); 31 partitions "
            "in all: tmp (30), a (1); 30 with replication factor 1.",
        ),
        (
            [failure(n, newly_offline_partitions=1) for n in range(1, 15)] + [failure(15)],
            "Losing broker 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 or one of 2 more takes partitions offline (in "
            "each case 1 partition); 31 partitions in all: tmp (30), a (1); 30 with replication factor 1.",
        ),
    ],
)
def test_at_risk_if_a_broker_fails(failures: list[dict[str, Any]], sentence: str) -> None:
    verdict = judge(failures, find(PartitionIssue.OFFLINE_IF_BROKER_FAILS, {"tmp": 30, "a": 1}, single=30))
    assert (verdict.level, verdict.sentence) == (Level.AT_RISK, sentence)
    factor = min(3, len(failures))
    step = (
        "add replicas (a failed disk would lose the only copy): "
        f"kafka-placement plan SOURCE --goal rf --rf {factor} --topics tmp,a --out plan-CLUSTER-rf"
    )
    assert verdict.points[0].step == step + (RAISE_MIN_ISR.format("tmp") if factor == 3 else "")


RAISE_MIN_ISR = (
    "; then raise min.insync.replicas to 2 where it is 1 (acks=all waits for two replicas): kafka-configs "
    "--bootstrap-server localhost:9092 --alter --entity-type topics --entity-name {} --add-config min.insync.replicas=2"
)


@pytest.mark.parametrize(
    ("topics", "command"),
    [
        (5, "--topics t0,t1,t2,t3,t4 --out plan-CLUSTER-rf"),
        (22, "t18,t19 --out plan-CLUSTER-rf; then do the same for 2 more topics with replication factor 1"),
    ],
)
def test_next_step_names_all_topics_with_one_replica(topics: int, command: str) -> None:
    single = {f"t{i}": 1 for i in range(topics)}
    exposed = find(PartitionIssue.OFFLINE_IF_BROKER_FAILS, single, 1)
    one = failure(1, newly_offline_partitions=1)
    assert judge([one, failure(2)], exposed).points[0].step.endswith(command)
    assert judge([one], exposed).points[0].step == "add a broker: one broker cannot hold a second replica"


def test_replicas_out_of_sync_need_no_new_ones() -> None:
    verdict = judge([failure(1, newly_offline_partitions=1)], find(PartitionIssue.OFFLINE_IF_BROKER_FAILS, {"a": 1}))
    assert verdict.sentence == "Losing broker 1 takes 1 partition offline: a (1)."
    assert "--under-replicated-partitions" in verdict.points[0].step


def test_racks() -> None:
    findings = find(PartitionIssue.OFFLINE_IF_RACK_FAILS, {"a": 60, "b": 8})
    racks = [failure("east", newly_offline_partitions=68), failure("west")]
    verdict = judge([failure(1)], findings, racks=racks)
    assert verdict.headline == "AT RISK: losing rack east takes 68 partitions offline: a (60), b (8)."
    both = [failure(rack, newly_offline_partitions=34) for rack in ("east", "west")]
    assert judge([failure(1)], findings, racks=both).sentence == (
        "Losing any single rack takes partitions offline (in each case 34 partitions): a (60), b (8)."
    )
    more = [failure(rack, newly_offline_partitions=40) for rack in ("east", "west")]
    assert judge([failure(1)], findings, racks=more).sentence == (
        "Losing any single rack takes partitions offline (in each case 40 partitions); 80 partitions "
        "in all, of which 68 survive the failure of any single broker: a (60), b (8)."
    )
    one = find(PartitionIssue.OFFLINE_IF_RACK_FAILS, {"a": 1})
    assert judge([failure(1)], one, racks=[*more[:1], failure("west")]).sentence == (
        "Losing rack east takes 40 partitions offline, of which 1 survives the failure of any single broker: a (1)."
    )
    assert judge([failure(1)], racks=[*more[:1], failure("west")]).sentence == (
        "Losing rack east takes 40 partitions offline."
    )
    blocked = judge([failure(1)], racks=[failure("east", newly_under_min_isr_partitions=3), failure("west")])
    assert blocked.headline == (
        "WARNING: losing rack east blocks acks=all producers (3 partitions below min.insync.replicas)."
    )


SPREAD = "spread replicas over racks: kafka-placement plan SOURCE --goal repair --out plan-CLUSTER-repair"
EXPAND = (
    "{}: add brokers there before spreading replicas over racks: "
    "kafka-placement plan SOURCE --goal expand --add-brokers {} --out plan-CLUSTER-expand"
)


@pytest.mark.parametrize(
    ("sizes", "factor", "step"),
    [
        (
            {"a": 4, "b": 4, "c": 1},
            3.0,
            EXPAND.format("rack c has 1 of 9 live brokers and would hold a third of all replicas", "10:c,11:c,12:c"),
        ),
        (
            {"a 1": 3, "b 1": 2, "c": 6},
            3.0,
            EXPAND.format(
                "rack b 1 has 2 of 11 live brokers and would hold a third of all replicas",
                "'12:b 1,13:b 1,14:b 1,15:b 1'",
            ),
        ),
        (
            {"a": 8, "b": 2, "c": 2},
            3.5,
            EXPAND.format(
                "rack b has 2, rack c has 2 of 12 live brokers and would each hold a third of all replicas",
                ",".join([*(f"{n}:b" for n in range(13, 19)), *(f"{n}:c" for n in range(19, 25))]),
            ),
        ),
        (
            {"a": 4, "b": 1},
            5.0,
            EXPAND.format("rack b has 1 of 5 live brokers and would hold 40% of all replicas", "6:b,7:b,8:b"),
        ),
        ({"a": 4, "b": 4, "c": 3}, 3.0, SPREAD),  # 1.22 times the mean
        ({"a": 4, "b": 4, "c": 1}, 2.0, SPREAD),  # a partition need not have a replica in rack c
        ({"a": 4, "b": 4, "c": 1}, None, SPREAD),
    ],
)
def test_a_small_rack_needs_brokers_before_replicas_are_spread(
    sizes: dict[str, int], factor: float | None, step: str
) -> None:
    brokers = [failure(n) for n in range(1, sum(sizes.values()) + 1)]
    findings = find(PartitionIssue.OFFLINE_IF_RACK_FAILS, {"a": 1}, replication_factor=factor, crowded_partitions=1)
    for values in ({"newly_offline_partitions": 1}, {"newly_under_min_isr_partitions": 1}):
        racks = [failure(rack, brokers=size, **(values if rack[0] == "a" else {})) for rack, size in sizes.items()]
        assert judge(brokers, findings, racks=racks).points[0].step == step


def test_replicas_that_are_spread_already_are_not_spread_again() -> None:
    racks = [failure("a", brokers=4, newly_under_min_isr_partitions=1), failure("b", brokers=4)]
    step = judge([failure(n) for n in range(1, 9)], ClusterFindings(replication_factor=3.0), racks=racks).points[0].step
    assert step == (
        "replicas are spread over racks already: only brokers in another rack, more replicas or a lower "
        "min.insync.replicas help"
    )


def test_a_rack_is_not_small_because_a_broker_is_down() -> None:
    racks = [failure("a", brokers=3, newly_offline_partitions=1), failure("b", brokers=3), failure("c", brokers=2)]
    findings = find(PartitionIssue.OFFLINE_IF_RACK_FAILS, {"a": 1}, replication_factor=3.0)
    brokers = [failure(n) for n in range(1, 9)]
    assert judge(brokers, findings, racks=racks).points[0].step.startswith("rack c has 2 of 8 live brokers")
    assert judge(brokers, replace(findings, down_brokers=[9]), racks=racks).points[0].step == SPREAD


def test_one_rack_is_said_but_no_problem() -> None:
    only = [failure("east", newly_offline_partitions=100)]
    verdict = judge([failure(1), failure(2)], racks=only)
    assert verdict.level is Level.OK
    assert verdict.points[1].text == "All live brokers are in rack east: nothing survives its failure."
    assert len(judge([failure(1)], racks=only).points) == 1, "one broker"


def test_warnings_about_failures() -> None:
    verdict = judge([failure(1, newly_under_min_isr_partitions=2), failure(2)])
    assert verdict.level is Level.WARNING
    assert verdict.sentence == "Losing broker 1 blocks acks=all producers (2 partitions below min.insync.replicas)."
    verdict = judge([failure(n, newly_under_min_isr_partitions=n) for n in (1, 2)])
    assert verdict.headline == (
        "WARNING: losing any single broker blocks acks=all producers "
        "(worst case: broker 2, 2 partitions below min.insync.replicas)."
    )
    verdict = judge([failure(1, unclean_elections=2), failure(2)])
    sentence = "Losing broker 1 causes unclean elections that could lose messages in 2 partitions."
    assert (verdict.level, verdict.sentence) == (Level.WARNING, sentence)
    assert judge([failure(n, unclean_elections=n) for n in (1, 2)]).sentence == (
        "Losing any single broker causes unclean elections that could lose messages "
        "(worst case: broker 2, 2 partitions)."
    )


def test_brokers_without_replicas_share_no_leaders() -> None:
    """Three of four brokers lead 8 partitions each: 1.33 times the mean, as broker 4 was drained."""
    now = NOW | {"leaders_max": 8, "leaders_mean": 6.0, "max_over_mean_ratio": 8 / 6}
    drained = ClusterFindings(live_brokers=4, empty_brokers=1, fillable_brokers=1)
    assert judge([failure(1), failure(2)], drained, now).level is Level.OK
    verdict = judge([failure(1), failure(2)], replace(drained, fillable_brokers=0), now)
    assert verdict.level is Level.WARNING
    for plans, moment in ((0, "now"), (1, "after the plan"), (2, "after the plans")):
        text = f"Broker 3 leads 8 partitions {moment}, 1.33 times the mean."
        named = verdict.name_moment(plans)
        assert (named.sentence, named.points[0].text) == (text, text)


def test_brokers_without_replicas_may_be_filled() -> None:
    findings = ClusterFindings(live_brokers=4, empty_brokers=3, fillable_brokers=2, cordoned_brokers=(3,))
    (point,) = [one for one in judge([failure(1), failure(2)], findings).points if one.kind == "empty_brokers"]
    assert (point.level, point.text) == (Level.OK, "2 live brokers have no replicas.")
    assert "fill them, unless that is meant: kafka-placement plan SOURCE --goal expand" in point.step
    for other in ({"fillable_brokers": 0}, {"live_brokers": PARTITIONS + 1}):
        assert "empty_brokers" not in {one.kind for one in judge([failure(1)], replace(findings, **other)).points}


def test_load() -> None:
    verdict = judge([failure(1, worst_survivor_ratio=1.5, hot_survivor=9, leaders_after_max=15), failure(2)])
    assert verdict.headline == "WARNING: if broker 1 fails, broker 9 leads 15 partitions, 1.50 times the mean."
    hot = NOW | {"leaders_max": 16, "max_over_mean_ratio": 1.6}
    verdict = judge([failure(1)], ClusterFindings(electable_partitions=5, elected_ratio=1.21), now=hot)
    assert verdict.headline == "WARNING: broker 3 leads 16 partitions now, 1.60 times the mean."
    assert verdict.points[0].step.startswith("elect the preferred leaders: kafka-leader-election")
    assert verdict.points[1].text == (
        "5 partitions are not led by their preferred leader; after their election, the hottest broker leads 1.21 times "
        "the mean."
    )
    useless = judge([failure(1)], ClusterFindings(electable_partitions=5, elected_ratio=1.7), now=hot)
    assert useless.points[0].step.startswith("even out leaders: kafka-placement plan SOURCE --goal leaders")


def test_one_plan_evens_out_takeovers_and_leaders() -> None:
    failures = [failure(1, worst_survivor_ratio=1.5, hot_survivor=9, leaders_after_max=15), failure(2)]
    plan = "kafka-placement plan SOURCE --goal failover --out plan-CLUSTER-failover"
    uneven, hot = (NOW | {"leaders_max": 16, "max_over_mean_ratio": ratio} for ratio in (1.2, 1.6))
    assert [point.step for point in judge(failures, now=hot).points] == [
        f"spread takeovers evenly (this also evens out leaders): {plan}",
        "",
    ]
    assert [plan.goal for plan in list_recommended_plans(judge(failures, now=hot))] == ["failover"]
    assert [point.step for point in judge(failures, now=uneven).points] == [
        f"spread takeovers evenly: {plan}",
        "see whether that is chance: kafka-placement hotspots SOURCE",
    ]
    elected = ClusterFindings(electable_partitions=5, elected_ratio=1.21)
    steps = [point.step for point in judge(failures, elected, now=hot).points]
    assert [step.partition(":")[0] for step in steps] == [
        "spread takeovers evenly (this also evens out leaders)",
        "",
        "elect the preferred leaders",
    ]


def test_leaders_cannot_be_more_even_than_their_number_allows() -> None:
    few = NOW | {"leaders_max": 2, "leaders_mean": 1.5, "max_over_mean_ratio": 1.33}
    assert judge([failure(1, worst_survivor_ratio=1.33)], now=few).level is Level.OK


def test_failures_are_not_blamed_for_the_present() -> None:
    failures = [failure(n, under_min_isr_partitions=3) for n in (1, 2)]
    assert not any("Losing" in point.text for point in judge(failures).points)
    failures.append(failure(4, under_min_isr_partitions=5, newly_under_min_isr_partitions=2))
    assert judge(failures).sentence == (
        "Losing broker 4 blocks acks=all producers (2 partitions below min.insync.replicas)."
    )


def test_answers() -> None:
    def answer(**values: Any) -> str:
        return assess_failure(failure(1, **values)).answer

    assert answer() == "Yes"
    assert assess_failure(failure(1)).level is Level.OK
    assert answer(newly_offline_partitions=1) == "No: 1 partition would go offline"
    below = "would fall below min.insync.replicas (acks=all blocked)"
    assert answer(newly_under_min_isr_partitions=2) == f"Risky: 2 partitions {below}"
    assert answer(newly_under_min_isr_partitions=1) == f"Risky: 1 partition {below}"
    assert answer(under_min_isr_partitions=2) == "Yes"
    unclean = answer(unclean_elections=1, newly_under_min_isr_partitions=1)
    assert unclean == "Risky: unclean elections could lose messages in 1 partition"
    assert answer(hot_survivor=9) == "Yes, but broker 9 would be hot"
    assert assess_failure(failure(1, hot_survivor=9)).level is Level.WARNING
    assert answer(worst_survivor_ratio=None) == "Yes"
    assert answer(leaves_majority=False, newly_offline_partitions=1) == NO_MAJORITY
    assert assess_failure(failure(1, leaves_majority=False)).level is Level.AT_RISK


def test_no_evidence_is_never_ok() -> None:
    empty = judge_cluster(ClusterEvidence(None, [], []))
    assert empty.headline == "UNKNOWN: the sources show no partition with its replicas."
    offline = find(PartitionIssue.OFFLINE, {"a": 2}, down_brokers=[1])
    verdict = judge([], offline, now=None)
    assert [point.level for point in verdict.points] == [Level.AT_RISK, Level.WARNING, Level.UNKNOWN]
    assert verdict.points[2].text == "No live broker is known: failures cannot be evaluated."


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        (ClusterFindings(down_brokers=[3]), "Broker 3 is down."),
        (ClusterFindings(down_brokers=range(8)), "Brokers 0, 1, 2, 3, 4, 5, 6, 7 are down."),
        (ClusterFindings(down_brokers=range(14)), "Brokers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more are down."),
        (
            ClusterFindings(lagging_partitions=1, lagging_brokers=[5], lagging_broker_partitions=[1]),
            "1 partition has replicas that are out of sync on live brokers: broker 5 (1).",
        ),
    ],
)
def test_warnings_about_the_present(findings: ClusterFindings, sentence: str) -> None:
    verdict = judge([failure(1), failure(2)], findings)
    assert (verdict.level, verdict.sentence) == (Level.WARNING, sentence)


def test_a_failed_broker_that_is_missed_is_a_risk() -> None:
    missed = find(PartitionIssue.UNDER_REPLICATED, {"a": 938}, on_down=930, down_brokers=[9])
    verdict = judge([failure(1)], missed)
    assert verdict.headline == "AT RISK: broker 9 is down; 930 partitions with a replica there are under-replicated."
    assert verdict.points[0].step.endswith("kafka-placement plan SOURCE --goal repair --out plan-CLUSTER-repair")
    few = judge_cluster(ClusterEvidence(NOW, [failure(1)], [], replace(missed, live_brokers=2, replication_factor=3.0)))
    assert few.points[0].step.startswith("restart it; if it does not return, add a broker, or lower the replication")


def test_a_failed_broker_is_not_blamed_for_live_brokers_that_lag() -> None:
    lagging = {"lagging_partitions": 16, "lagging_brokers": [5, 4], "lagging_broker_partitions": [10, 7]}
    findings = find(PartitionIssue.UNDER_REPLICATED, {"a": 16}, down_brokers=[9], **lagging)
    critical = {PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS: replace(in_topics({"a": 2}), under_replicated=2)}
    findings = replace(findings, issues={**findings.issues, **critical})
    blocked = [failure(1, newly_under_min_isr_partitions=2), failure(2)]
    racks = [failure("east", newly_under_min_isr_partitions=2), failure("west")]
    points = judge(blocked, findings, racks=racks).points
    assert [point.text for point in points[:2]] == [
        "Broker 9 is down.",
        "16 partitions have replicas that are out of sync on live brokers: broker 5 (10), broker 4 (7).",
    ]
    assert points[1].step == (
        "look at these brokers (log of the replica fetchers, disk, network), and watch the replicas catch up: "
        f"{DESCRIBE} --under-replicated-partitions"
    )
    waiting = f"wait until all replicas are in sync: {DESCRIBE} --under-replicated-partitions"
    assert [point.step for point in points if "acks=all" in point.text] == [waiting, waiting]
    assert not [point for point in points if "repair" in point.step]


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        (
            ClusterFindings(warnings=["d.txt line 4: the command failed: the listing may be cut"]),
            "d.txt line 4: the command failed: the listing may be cut.",
        ),
        (
            ClusterFindings(quarantined_records=1),
            "1 record of the sources is quarantined and left out of every answer: run inspect to see why.",
        ),
        (
            ClusterFindings(quarantined_records=2),
            "2 records of the sources are quarantined and left out of every answer: run inspect to see why.",
        ),
        (
            ClusterFindings(unused_files=["a.txt", "b.txt"]),
            "Nothing is used of 2 files (a.txt, b.txt): run inspect to see why.",
        ),
        (
            ClusterFindings(incomplete_topics=1, incomplete_topic_names=["money"]),
            "1 topic is not fully shown by the sources (money): no answer covers what is missing.",
        ),
        (
            ClusterFindings(incomplete_topics=8, incomplete_topic_names=list("abcdef"), missing_partitions=1),
            "8 topics are not fully shown by the sources (a, b, c, d, e, f and 2 more); 1 partition is missing: "
            "no answer covers what is missing.",
        ),
        (
            ClusterFindings(unlisted_brokers=[4]),
            "The broker list lacks broker 4, which has replicas, and may be outdated: no answer covers the "
            "partitions there.",
        ),
        (ClusterFindings(unplaced_partitions=1), "No source shows the replicas of 1 partition: no answer covers it."),
        (
            ClusterFindings(inferred_partitions=2),
            "The sources do not show leader or ISR of 2 partitions: they count as healthy.",
        ),
        (
            ClusterFindings(identity_conflicts=2),
            "The sources name different ids of a topic or different hosts of a broker: they may be of two clusters.",
        ),
        (
            ClusterFindings(config_conflicts=1),
            "The sources show different values of min.insync.replicas or unclean.leader.election.enable (1 conflict): "
            "the first is used (run inspect for details).",
        ),
        (
            ClusterFindings(unknown_brokers=[2]),
            "Unknown whether broker 2 is live: it counts as live (run inspect for details).",
        ),
        (
            ClusterFindings(unknown_brokers=range(8)),
            "Unknown whether brokers 0, 1, 2, 3, 4, 5, 6, 7 are live: they count as live (run inspect for details).",
        ),
    ],
)
def test_what_sources_lack_makes_a_healthy_cluster_unknown(findings: ClusterFindings, sentence: str) -> None:
    verdict = judge([failure(1), failure(2)], findings)
    assert verdict.headline == "UNKNOWN: no problem is known, but the sources do not show everything."
    assert [point.text for point in verdict.points[1:]] == [sentence]
    known = judge([failure(1)], replace(findings, down_brokers=[1]))
    assert [point.level for point in known.points] == [Level.WARNING, Level.UNKNOWN]


def test_only_some_warnings_are_repeated() -> None:
    texts = [point.text for point in judge([failure(1)], ClusterFindings(warnings=list("abcdefgh"))).points]
    assert texts[1:] == ["a.", "b.", "c.", "d.", "e.", "f.", "2 more warnings: run inspect."]


def test_leaders_that_are_uneven_but_not_a_risk_point_to_hotspots() -> None:
    """Hotspots may call them "Not chance": what-if names the same fact."""
    uneven = NOW | {"leaders_max": 1249, "leaders_mean": 1000.0, "max_over_mean_ratio": 1.249}
    verdict = judge([failure(1)], now=uneven).name_source("dumps/prod", "prod")
    assert verdict.level is Level.OK
    assert [(point.text, point.step) for point in verdict.points[1:]] == [
        (
            "Broker 3 leads 1,249 partitions now, 1.25 times the mean.",
            "see whether that is chance: kafka-placement hotspots dumps/prod",
        )
    ]
    few = uneven | {"leaders_max": 2, "leaders_mean": 1.7, "max_over_mean_ratio": 1.18}
    for now in (NOW, few):
        assert len(judge([failure(1)], now=now).points) == 1


def test_what_is_said_of_healthy_clusters() -> None:
    findings = ClusterFindings(deleted_topics_offline_partitions=2, reassigned_partitions=1, electable_partitions=1)
    findings = replace(findings, cordoned_brokers=[3])
    verdict = judge([failure(1)], findings)
    assert verdict.level is Level.OK
    assert [point.text for point in verdict.points[1:]] == [
        "2 offline partitions belong to topics that are marked for deletion.",
        "1 partition is being reassigned.",
        "Broker 3 is cordoned: it gets no new replicas.",
        "1 partition is not led by its preferred leader.",
    ]


@pytest.mark.parametrize(
    ("topics", "offline", "text"),
    [
        (1, 0, "The problems of 1 ignored topic do not count."),
        (1, 2, "The problems of 1 ignored topic do not count; 2 partitions of it are offline."),
        (2, 1, "The problems of 2 ignored topics do not count; 1 partition of them is offline."),
    ],
)
def test_ignored_topics_are_counted_apart(topics: int, offline: int, text: str) -> None:
    verdict = judge([failure(1)], ClusterFindings(ignored_topics=topics, ignored_offline_partitions=offline))
    assert verdict.level is Level.OK
    assert [point.text for point in verdict.points[1:]] == [text]


def test_a_cluster_of_ignored_topics_is_not_ok() -> None:
    verdict = judge_cluster(ClusterEvidence(None, [failure(1)], [], ClusterFindings(partitions=3)))
    assert verdict.level is Level.UNKNOWN
    assert verdict.sentence == "All topics are ignored or marked for deletion: no problem counts."


def test_the_most_serious_comes_first() -> None:
    findings = ClusterFindings(
        issues={problem: in_topics({"a": 1}, on_down=1) for problem in PartitionIssue},
        down_brokers=[9],
        quarantined_records=1,
        reassigned_partitions=1,
    )
    racks = [failure("east", newly_offline_partitions=1), failure("west")]
    verdict = judge([failure(1, newly_offline_partitions=1), failure(2)], findings, racks=racks)
    order = list(Level)
    levels = [order.index(point.level) for point in verdict.points]
    assert levels == sorted(levels)
    starts = ("1 partition is offline now", "Broker 9", "1 partition is below", "Losing rack east", "Losing broker 1")
    assert [point.text.startswith(start) for point, start in zip(verdict.points, starts, strict=False)] == [True] * 5


def test_the_step_for_small_isrs_depends_on_why_they_are_small() -> None:
    blocked = [failure(1, newly_under_min_isr_partitions=2)]
    lagging = find(PartitionIssue.UNDER_REPLICATED, {"a": 2}, on_down=2, down_brokers=[9])
    affected = replace(in_topics({"a": 2}, on_down=2), under_replicated=2)
    critical = {PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS: affected}
    lagging = replace(lagging, issues={**lagging.issues, **critical}, down_critical_brokers=[1])
    waiting = f"restart broker 9; wait until all replicas are in sync: {DESCRIBE} --under-replicated-partitions"
    waiting += (
        "; if broker 9 stays down, repair the partitions that need broker 1 first: "
        "kafka-placement plan SOURCE --goal repair --at-min-isr-partitions --under-min-isr-partitions --brokers 1 "
        "--out plan-CLUSTER-repair-for-1"
    )
    steps = [point.step for point in judge(blocked, lagging).points if "acks=all" in point.text]
    assert steps == [waiting]
    worse = [*blocked, failure(2, under_min_isr_partitions=9)]  # though of no partition that a repair would help
    steps = [point.step for point in judge(worse, lagging).points if "acks=all" in point.text]
    assert steps == [waiting]
    steps = [point.step for point in judge(blocked).points if "acks=all" in point.text]
    lower = "add a broker and then a replica, or lower min.insync.replicas below the replication factor"
    assert steps == [f"{lower}, for the topics listed by: {DESCRIBE} --at-min-isr-partitions"]


@pytest.mark.parametrize(
    ("live", "topics", "step"),
    [
        (3, 2, "--goal rf --rf 3 --topics a,b --out plan-CLUSTER-rf-spare"),
        (3, 5, "--goal rf --rf 3 --topics a,b --out plan-CLUSTER-rf-spare; then do the same for 3 more topics"),
        (2, 2, "listed by: "),
    ],
)
def test_partitions_without_a_spare_replica_get_one_more(live: int, topics: int, step: str) -> None:
    affected = replace(in_topics({"a": 3, "b": 2}), topics=topics, min_factor=2, min_factor_topics=2)
    issues = {PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS: replace(affected, min_factor_topic_names=["a", "b"])}
    blocked = [failure(broker, newly_under_min_isr_partitions=2) for broker in range(live)]
    points = judge(blocked, ClusterFindings(issues=issues)).points
    assert step in next(point.step for point in points if "acks=all" in point.text)


def test_waiting_is_no_step_for_partitions_that_are_in_sync() -> None:
    """Some partitions lag elsewhere; of those that a broker blocks, 2 lag, and 3 have no spare replica."""
    findings = find(PartitionIssue.UNDER_REPLICATED, {"c": 9})
    spare = replace(in_topics({"a": 3, "b": 2}), min_factor=2, min_factor_topics=1, min_factor_topic_names=["a"])
    blocked = [failure(broker, newly_under_min_isr_partitions=2) for broker in (1, 2, 3)]
    wait, more = "wait until all replicas are in sync", "--goal rf --rf 3 --topics a "
    for lagging, has_wait, has_more in ((0, False, True), (2, True, True), (5, True, False)):
        critical = {PartitionIssue.UNDER_MIN_ISR_IF_BROKER_FAILS: replace(spare, under_replicated=lagging)}
        points = judge(blocked, replace(findings, issues={**findings.issues, **critical})).points
        (point,) = (point for point in points if "acks=all" in point.text)
        assert ((wait in point.step), (more in point.step)) == (has_wait, has_more)
        assert (point.plan is not None) is has_more


def test_a_broker_that_is_the_cause_comes_before_its_rack() -> None:
    exposed = find(PartitionIssue.OFFLINE_IF_BROKER_FAILS, {"a": 2}, single=2)
    racks = [failure("east", newly_offline_partitions=2), failure("west")]
    points = judge([failure(1, newly_offline_partitions=2), failure(2)], exposed, racks=racks).points
    assert [point.text.partition(" takes")[0] for point in points[:2]] == ["Losing broker 1", "Losing rack east"]
    assert [bool(point.step) for point in points[:2]] == [True, False]
    assert points[1].text == (
        "Losing rack east takes 2 partitions offline; they are the same partitions that single brokers take offline."
    )


def test_partitions_of_a_rack_and_of_its_brokers_are_not_added_up() -> None:
    exposed = find(PartitionIssue.OFFLINE_IF_BROKER_FAILS, {"a": 2}, single=2).issues
    confined = find(PartitionIssue.OFFLINE_IF_RACK_FAILS, {"b": 3}).issues
    findings = replace(find(PartitionIssue.OFFLINE_IF_RACK_FAILS, {"b": 3}), issues={**exposed, **confined})
    racks = [failure("east", newly_offline_partitions=5), failure("west")]
    points = judge([failure(1, newly_offline_partitions=2), failure(2)], findings, racks=racks).points
    assert [point.text for point in points[:2]] == [
        "Losing rack east takes 5 partitions offline, of which 3 survive the failure of any single broker: b (3).",
        "Losing broker 1 takes 2 partitions offline, which also go offline with their rack: a (2), all with "
        "replication factor 1.",
    ]


def test_a_broker_of_unknown_state_is_not_called_live() -> None:
    lagging = ClusterFindings(lagging_partitions=2, lagging_brokers=(2, 3), lagging_broker_partitions=(2, 1))
    sentence = "2 partitions have replicas that are out of sync on {}: broker 2 (2), broker 3 (1)."
    for unknown, where in (((), "live brokers"), ((3,), "brokers that are not down")):
        points = judge([failure(1), failure(2), failure(3)], replace(lagging, unknown_brokers=unknown)).points
        assert sentence.format(where) in [point.text for point in points]
    for unknown, where in (((), "live brokers"), ((2,), "brokers that are not down")):
        findings = ClusterFindings(unknown_brokers=unknown)
        points = judge([failure(1), failure(2)], findings, racks=[failure("east")]).points
        assert f"All {where} are in rack east: nothing survives its failure." in [point.text for point in points]
