"""Plans for some topics only, whatever the goal."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from tests.unit.planning.models import make_model
from tests.unit.planning.plan_commands import CommandResult
from tests.unit.planning.test_sick_plans import describe
from udfs.network.traffic_rows import NetworkAssumptions
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.goal_registry import GOALS
from udfs.planning.plan_making import freeze_partitions, make_plan
from udfs.planning.plan_metrics import count_frozen_partitions
from udfs.planning.plan_request import PlanRequest

_OF_GOAL = {
    "drain": PlanRequest("drain", brokers=(2,)),
    "expand": PlanRequest("expand", brokers=(11,)),
    "replace": PlanRequest("replace", replacements=((2, 11),)),
    "rf": PlanRequest("rf", factor=4),
    "zones": PlanRequest("zones", network=NetworkAssumptions(producer_zones={"r0": 1.0})),
}


def _make_cluster(goal: str) -> tuple[ClusterModel, tuple[str, ...]]:
    """Make a cluster, and name some of its topics: those of every second partition."""
    model = make_model(12, 3, 60, 5, empty=1 if goal in ("expand", "replace") else 0, oversized=False)
    if goal == "repair":  # a broker is down
        live = model.live.copy()
        live[4] = False
        live_first = np.lexsort((np.arange(len(model.replicas)), model.replicas == 4, model.row))
        model = replace(model, live=live, replicas=model.replicas[live_first], source_replicas=model.replicas)
    if goal == "relieve":  # all disks are too full but that of broker 3
        excess = np.where(model.broker_ids == 3, 0.0, 1.0)
        model = replace(model, disk_room=np.where(excess > 0, 0.0, 1e18), disk_excess=excess)
    return model, model.topic_names[::2]


@pytest.mark.parametrize("goal", [name for name in GOALS if name not in ("log-dirs", "empty-log-dir")])
def test_only_the_named_topics_change(goal: str) -> None:
    model, topics = _make_cluster(goal)
    request = replace(_OF_GOAL.get(goal, PlanRequest(goal)), topics=topics)
    changed = model.find_changed(make_plan(model, request))
    is_named = np.isin(model.topic_names, topics)[model.topic]
    assert changed[is_named].any()
    assert not changed[~is_named].any()
    frozen = count_frozen_partitions(freeze_partitions(model, request))
    assert frozen == {"a topic that --topics does not name": int((~is_named).sum())}


def test_drain_takes_the_named_topics_off_and_says_what_stays() -> None:
    model, topics = _make_cluster("drain")
    proposal = make_plan(model, PlanRequest("drain", brokers=(2,), topics=topics, objective="min-moves"))
    on_broker = proposal.replicas == 2
    row = np.repeat(np.arange(model.partitions), np.diff(proposal.offsets))
    assert on_broker.any()
    assert not np.isin(model.topic_names, topics)[model.topic[row[on_broker]]].any()
    kept = f"broker 2 keeps {int(on_broker.sum())} replicas of topics that --topics does not name"
    assert (proposal.certificate.relaxed[0], proposal.certificate.missed) == (kept, [])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_drain_that_leaves_racks_as_they_are_copies_what_must_leave(seed: int) -> None:
    model = make_model(12, 3, 60, seed, oversized=False)
    rng = np.random.default_rng(seed)
    replicas = model.replicas.copy()
    for row in np.flatnonzero((model.factor == 3) & (rng.random(model.partitions) < 0.2)):
        first, second = model.offsets[row], model.offsets[row] + 1  # the second goes into the rack of the first
        same_rack = np.flatnonzero(model.rack == model.rack[replicas[first]])
        replicas[second] = next(one for one in same_rack if one not in replicas[first : model.offsets[row + 1]])
    model = model.with_lists(model.offsets, replicas)
    must_leave = int((replicas == 3).sum())
    for objective in ("min-moves", "min-bytes", "all"):
        request = PlanRequest("drain", brokers=(3,), keep_rack_violations=True, objective=objective)
        proposal = make_plan(model, request)
        assert not (proposal.replicas == 3).any()
        assert model.find_copied(proposal).sum() == must_leave
    evened = make_plan(model, PlanRequest("drain", brokers=(3,), objective="min-moves"))
    assert model.find_copied(evened).sum() > must_leave * 1.1


@pytest.mark.parametrize(
    "goal", [("rf", "--rf", "1"), ("repair",), ("drain", "--brokers", "3"), ("leaders", "--per-topic")]
)
def test_other_topics_are_not_reported(
    goal: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topic a has an offline partition, replicas on the broker to drain, and one leader for all."""
    source = tmp_path / "topics.txt"
    lists = describe("a", 2, "9,3 9", "1,3 1,3", "1,9 1"), describe("b", 2, "1,2 1,2", "2,1 2,1")
    source.write_text("\n".join(chain(*lists)).replace("Leader: 9", "Leader: none") + "\n")
    result = CommandResult(capsys, "plan", source, "--goal", *goal, "--topics", "b")
    assert not re.search(r"(missed|not addressed): .*(\ba-\d|\ba \(|still holds)", result.out)
    assert "3 partitions stay as they are because of a topic that --topics does not name" in result.err
    assert "within its budget" not in result.out  # there is none
