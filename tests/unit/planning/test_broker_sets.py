"""Plans with broker sets: topics on some of the brokers, judged by code that shares nothing with the planner."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.unit.planning.rated_models import make_rated_model
from udfs.planning.broker_sets import REST, BrokerSetsCertificate, assign_sets
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.constraints import InfeasibleRequest
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import BrokerSet, PlanRequest

_RACKS = [0, 1, 2] * 4  # brokers 0 to 11 in three racks
_SETS = (BrokerSet("gpu", (0, 1, 2, 3, 4, 5), ("ml-*",)), BrokerSet("elsewhere", (6,), ("ml-*",), cluster="other"))
_GPU = set(_SETS[0].brokers)


def _make_model(lists: dict[str, list[list[int]]]) -> ClusterModel:
    """Return a cluster of topics with these replica lists, by topic in order."""
    counts = [len(one) for one in lists.values()]
    topic = np.repeat(np.arange(len(lists)), counts).astype(np.int32)
    partition = np.concatenate([np.arange(count) for count in counts]).astype(np.int32)
    flat = [one for of_topic in lists.values() for one in of_topic]
    changes = {"topic_names": tuple(lists), "topic": topic, "partition": partition}
    return make_rated_model(flat, _RACKS, ("r0", "r1", "r2"), **changes)


def _draw(seed: int, brokers: range, partitions: int = 24) -> list[list[int]]:
    """Draw lists of two replicas in two racks, the more of them the lower the broker."""
    rng, lists = np.random.default_rng(seed), []
    weights = 1.0 / (1.0 + np.arange(len(brokers)))
    while len(lists) < partitions:
        one, two = rng.choice(list(brokers), 2, replace=False, p=weights / weights.sum()).tolist()
        if _RACKS[one] != _RACKS[two]:
            lists.append([one, two])
    return lists


@pytest.fixture
def model() -> ClusterModel:
    """Two topics of the set, one of them with replicas outside of it; two others, one with replicas in the set."""
    return _make_model(
        {
            "ml-a": _draw(1, range(6)),
            "ml-b": _draw(2, range(12)),
            "x": _draw(3, range(6, 12)),
            "y": _draw(4, range(11, 3, -1)),
        }
    )


def _list_replicas(model: ClusterModel, proposal: ProposedAssignment) -> dict[str, list[list[int]]]:
    out: dict[str, list[list[int]]] = {name: [] for name in model.topic_names}
    for row, topic in enumerate(model.topic.tolist()):
        begin, end = proposal.offsets[row : row + 2].tolist()
        out[model.topic_names[topic]].append(proposal.replicas[begin:end].tolist())
    return out


def _spread(lists: list[list[int]], brokers: set[int]) -> float:
    """Return the most replicas of a broker over the mean."""
    counts = Counter(b for one in lists for b in one)
    return max(counts[b] for b in brokers) / (sum(counts[b] for b in brokers) / len(brokers))


def _certificate(proposal: ProposedAssignment) -> BrokerSetsCertificate:
    assert isinstance(proposal.certificate, BrokerSetsCertificate)
    return proposal.certificate


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["all", "min-bytes"])
def test_balance_moves_topics_into_their_set_and_evens_out_each(model: ClusterModel, objective: str) -> None:
    proposal = make_plan(model, PlanRequest("balance", broker_sets=_SETS, objective=objective))
    lists = _list_replicas(model, proposal)
    rest = set(range(12)) - _GPU
    for topic, partitions in lists.items():
        own = _GPU if topic.startswith("ml-") else rest
        for one in partitions:
            assert set(one) <= own
            assert len({_RACKS[b] for b in one}) == 2
    assert _spread([*lists["ml-a"], *lists["ml-b"]], _GPU) < 1.1
    assert _spread([*lists["x"], *lists["y"]], rest) < 1.1
    sets = {one.name: one for one in _certificate(proposal).sets}
    assert sets.keys() == {"gpu", "elsewhere", REST} - {"elsewhere"}
    before = [b for row, topic in enumerate(model.topic) if topic < 2 for b in model.replicas[2 * row : 2 * row + 2]]
    assert sets["gpu"].outside_before == sum(b not in _GPU for b in before) > 0
    assert sets["gpu"].outside == sets[REST].outside == 0
    assert {proof.quantity.partition("(broker set ")[2] for proof in proposal.certificate.proofs} == {
        "gpu)",
        f"{REST})",
    }


def test_soft_sets_leave_what_is_outside_and_add_nothing(model: ClusterModel) -> None:
    proposal = make_plan(model, PlanRequest("balance", broker_sets=_SETS, soft_broker_sets=True))
    old, new = _list_replicas(model, make_unchanged(model)), _list_replicas(model, proposal)
    rest = set(range(12)) - _GPU
    for topic in old:
        own = _GPU if topic.startswith("ml-") else rest
        for before, after in zip(old[topic], new[topic], strict=True):
            assert after == before if not set(before) <= own else set(after) <= own
    assert model.find_changed(proposal).any()
    sets = {one.name: one for one in _certificate(proposal).sets}
    assert sets["gpu"].outside == sets["gpu"].outside_before > 0


def make_unchanged(model: ClusterModel) -> ProposedAssignment:
    """Propose what is there."""
    return ProposedAssignment(model.offsets, model.replicas, np.full(model.partitions, -1, dtype=np.int16), ())


@pytest.mark.parametrize("goal", ["leaders", "failover"])
def test_order_is_changed_within_sets_alone(model: ClusterModel, goal: str) -> None:
    proposal = make_plan(model, PlanRequest(goal, broker_sets=_SETS))
    assert not model.find_copied(proposal).any()
    led = [one[0] for topic, lists in _list_replicas(model, proposal).items() if topic == "ml-a" for one in lists]
    assert set(led) <= _GPU


@pytest.mark.slow
def test_drain_of_a_broker_stays_within_its_set(model: ClusterModel) -> None:
    proposal = make_plan(model, PlanRequest("drain", brokers=(7,), broker_sets=_SETS))
    lists = _list_replicas(model, proposal)
    assert not any(7 in one for partitions in lists.values() for one in partitions)
    assert all(set(one) <= set(range(6, 12)) for one in lists["x"])


def test_replication_factor_grows_within_the_set(model: ClusterModel) -> None:
    proposal = make_plan(model, PlanRequest("rf", factor=3, topics=("ml-a",), broker_sets=_SETS))
    lists = _list_replicas(model, proposal)
    assert all(len(one) == 3 and set(one) <= _GPU for one in lists["ml-a"])
    assert all(len(one) == 2 for topic in ("ml-b", "x", "y") for one in lists[topic])


def test_budget_is_of_all_sets_together(model: ClusterModel) -> None:
    proposal = make_plan(model, PlanRequest("balance", broker_sets=_SETS, max_moves=10))
    assert 0 < model.find_copied(proposal).sum() <= 10


def test_topics_and_brokers_of_two_sets_are_wrong(model: ClusterModel) -> None:
    with pytest.raises(InfeasibleRequest, match="broker 5 is in two broker sets, one of which is b"):
        assign_sets(model, (BrokerSet("a", (5,)), BrokerSet("b", (5, 6))))
    with pytest.raises(InfeasibleRequest, match="topic ml-a is in two broker sets"):
        assign_sets(model, (BrokerSet("a", (1,), ("ml-*",)), BrokerSet("b", (6,), ("*-a",))))
    with pytest.raises(InfeasibleRequest, match="topics on broker 7 are of the broker set"):
        make_plan(model, PlanRequest("replace", replacements=((7, 1),), broker_sets=_SETS))


def test_topic_without_a_pattern_is_of_the_set_with_most_of_its_replicas(model: ClusterModel) -> None:
    members = assign_sets(model, (BrokerSet("high", tuple(range(6, 12))),))
    by_topic = {
        model.topic_names[topic]: members.names[of] for topic, of in zip(model.topic, members.of_partition, strict=True)
    }
    assert by_topic == {"ml-a": REST, "ml-b": REST, "x": "high", "y": "high"}
