"""Leader counts over seeds equal those of real placements; percentiles follow from the counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from udfs.hotspots.hotspot_distribution import HotspotDistribution, PlacementTrial
from udfs.hotspots.kernels.leader_counts import ClusterTopics
from udfs.hotspots.leaders_by_seed import count_by_placing, hash_names
from udfs.placement.kernels.topic_seeds import mix_run_seeds
from udfs.placement.topic_placement import LiveBrokers, TopicBatch, create_broker_lists, place_topics

DRAWN = ("kafka", "kafka_rack_unaware", "kraft")
UNEVEN = ("a", "a", "a", "b", "c", "c", "b")


def make_batch(topics: list[tuple[str, int, int, list[int]]], cluster: str = "prod") -> TopicBatch:
    """Build a batch of topics: (name, partitions, replication factor, ids of the partitions to place)."""
    names, partitions, factor, ids = zip(*topics, strict=True) if topics else ((), (), (), ())
    return TopicBatch(
        pa.array([cluster] * len(names), pa.string()),
        pa.array(names, pa.string()),
        pa.array(partitions, pa.int32()),
        pa.array(factor, pa.int32()),
        pa.array(ids, pa.list_(pa.int32())),
    )


def to_topics(batch: TopicBatch) -> ClusterTopics:
    ids = batch.partition_ids
    assert ids is not None
    return ClusterTopics(
        hash_names(batch.cluster, batch.topic).to_numpy().view(np.uint64),
        batch.partitions.to_numpy().astype(np.int64),
        batch.replication_factor.to_numpy().astype(np.int64),
        ids.flatten().to_numpy().astype(np.int64),
        ids.offsets.to_numpy().astype(np.int64),
    )


def make_topics(topics: list[tuple[str, int, int, list[int]]]) -> ClusterTopics:
    return to_topics(make_batch(topics))


def count_placed(batch: TopicBatch, brokers: LiveBrokers, scheme: str, seed: int) -> tuple[list[int], list[int]]:
    """Return (leaders, replicas) of each broker as in gold.placements."""
    zero = np.zeros(len(batch.topic), dtype=np.int64)
    placed = place_topics(batch, create_broker_lists(brokers), zero, scheme, seed).field("replicas").to_pylist()
    widths = batch.replication_factor.to_pylist()
    leaders = [b for replicas, width in zip(placed, widths, strict=True) if replicas for b in replicas[::width]]
    flat = [b for replicas in placed for b in replicas or ()]
    return [leaders.count(b) for b in brokers.ids], [flat.count(b) for b in brokers.ids]


def some_topics(n: int, seed: int) -> list[tuple[str, int, int, list[int]]]:
    """Return small, large and single-partition topics, some with gaps, and some that cannot be placed."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(60):
        partitions = int(rng.choice([1, 1, 2, n - 1 or 1, n, n + 1, 3 * n + 2, n * (n + 1) + 3]))
        gaps = (
            sorted(rng.choice(partitions, size=max(1, partitions // 2), replace=False).tolist()) if i % 5 == 0 else []
        )
        out.append((f"topic-{i}", partitions, int(rng.integers(1, min(n, 4) + 1)), gaps))
    return [*out, ("wide", 3, n + 1, []), ("none", 0, 1, []), ("unknown", 2, 0, [])]


CLUSTERS = {
    "no racks": LiveBrokers((3, 1, 7, 20, 8)),
    "one broker": LiveBrokers((4,)),
    "two brokers": LiveBrokers((4, 5)),
    "uneven racks": LiveBrokers((9, 1, 2, 3, 4, 5, 6), UNEVEN),
    "even racks": LiveBrokers((1, 2, 3, 4, 5, 6), ("x", "y", "z") * 2),
    "one rack": LiveBrokers((1, 2, 3), ("x",) * 3),
    "some racks": LiveBrokers((1, 2, 3, 4), ("x", None, "y", None)),
}


@pytest.mark.parametrize("scheme", [*DRAWN, "naive"])
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_each_seed_counts_what_a_run_with_it_places(cluster: str, scheme: str) -> None:
    brokers = CLUSTERS[cluster]
    batch = make_batch(some_topics(len(brokers.ids), 1))
    trial = PlacementTrial.create(scheme, to_topics(batch), brokers, seeds=6, max_placed_topics=10**9)
    counts = trial.count(run_seed=40)
    for i in range(trial.seeds):
        leaders, replicas = count_placed(batch, brokers, scheme, 40 + i)
        assert counts.leaders[i].tolist() == leaders
        assert counts.replicas[i].tolist() == replicas
    rejects_all = scheme == "kafka" and cluster == "some racks"
    assert trial.seeds == (0 if rejects_all else 1 if scheme == "naive" else 6)
    assert trial.unplaceable_topics == (len(batch.topic) if rejects_all else 2 if scheme == "kraft" else 3)
    assert (counts.leaders.sum(axis=1) == trial.partitions).all()


def test_only_krafts_scheme_leaves_out_cordoned_brokers() -> None:
    """They have no leaders, but count for the mean."""
    topics = make_topics(some_topics(4, 5))
    racks = ("x", "y", "x", "y", "x")
    some = LiveBrokers((1, 2, 3, 4, 5), racks, (None, False, True, False, None))
    fewer, all_ = LiveBrokers((1, 2, 4, 5), ("x", "y", "y", "x")), LiveBrokers((1, 2, 3, 4, 5), racks)
    for scheme, alike in (("kraft", fewer), ("kafka", all_), ("naive", all_)):
        trial, expected = (PlacementTrial.create(scheme, topics, one, 5, 10**9) for one in (some, alike))
        assert trial.count(3).leaders.tolist() == expected.count(3).leaders.tolist()
        means = [one.expect_random_leaders()[1].mean for one in (trial, expected)]
        assert means[0] == means[1]
        assert trial.find_facts([1] * 5).brokers == 5


@pytest.mark.parametrize("scheme", DRAWN)
def test_counting_gives_the_same_as_placing(scheme: str) -> None:
    brokers = CLUSTERS["uneven racks"]
    trial = PlacementTrial.create(scheme, make_topics(some_topics(7, 2)), brokers, seeds=4, max_placed_topics=10**9)
    plain = count_by_placing(scheme, trial.topics, create_broker_lists(brokers), mix_run_seeds(0, 4))
    counted = trial.count(0)
    assert (counted.leaders == plain.leaders).all()
    assert (counted.replicas == plain.replicas).all()


@pytest.mark.parametrize("scheme", DRAWN)
def test_the_order_of_topics_and_the_division_of_seeds_do_not_matter(scheme: str) -> None:
    topics = some_topics(7, 3)
    brokers = CLUSTERS["uneven racks"]
    trial = PlacementTrial.create(scheme, make_topics(topics), brokers, seeds=9, max_placed_topics=10**9)
    turned = PlacementTrial.create(scheme, make_topics(topics[::-1]), brokers, seeds=9, max_placed_topics=10**9)
    whole = trial.count(-4)
    assert (turned.count(-4).leaders == whole.leaders).all()
    cut = [trial.count(-4, first, until).replicas for first, until in ((0, 2), (2, 2), (2, 9))]
    assert (np.concatenate(cut) == whole.replicas).all()
    leaders, replicas = trial.find_hottest(-4, 1, 8)
    assert leaders.tolist() == whole.leaders[1:8].max(axis=1).tolist()
    assert replicas.tolist() == whole.replicas[1:8].max(axis=1).tolist()


def test_run_seeds_wrap_around() -> None:
    trial = PlacementTrial.create(
        "kafka", make_topics([("t", 1, 1, [])]), LiveBrokers((1, 2)), seeds=3, max_placed_topics=10**9
    )
    wrapped = [trial.count(2**63 - 1, i, i + 1).leaders.tolist() for i in range(3)]
    assert trial.count(2**63 - 1).leaders[:, None].tolist() == wrapped
    assert trial.count(-(2**63)).leaders[0].tolist() == wrapped[1][0]


def test_fewer_seeds_are_tried_if_they_would_place_too_many_topics() -> None:
    topics = make_topics([(f"t{i}", 2, 3, []) for i in range(100)])
    brokers = LiveBrokers((1, 2, 3))
    assert PlacementTrial.create("kafka", topics, brokers, seeds=50, max_placed_topics=10**6).seeds == 50
    assert PlacementTrial.create("kafka", topics, brokers, seeds=50, max_placed_topics=1030).seeds == 10
    assert PlacementTrial.create("kraft", topics, brokers, seeds=50, max_placed_topics=1030).seeds == 10
    racks = LiveBrokers((1, 2, 3), ("a", "b", "b"))
    assert PlacementTrial.create("kraft", topics, racks, seeds=50, max_placed_topics=6030).seeds == 10
    assert PlacementTrial.create("kafka", topics, brokers, seeds=50, max_placed_topics=1).seeds == 1


def test_nothing_to_place() -> None:
    for topics in ([], [("wide", 1, 9, [])]):
        trial = PlacementTrial.create(
            "kafka", make_topics(topics), LiveBrokers((1, 2)), seeds=5, max_placed_topics=10**9
        )
        assert (trial.seeds, trial.unplaceable_topics) == (0, len(topics))
        assert trial.count(0).leaders.shape == (0, 2)
    nobody = PlacementTrial.create(
        "kafka", make_topics([("t", 1, 1, [])]), LiveBrokers(()), seeds=5, max_placed_topics=10**9
    )
    assert (nobody.seeds, nobody.unplaceable_topics) == (0, 1)


def test_percentiles_and_exceedance_probabilities() -> None:
    distribution = HotspotDistribution.create([12, 10, 11, 20], total=40, brokers=4)
    assert distribution is not None
    assert [distribution.percentile(p) for p in (5, 25, 26, 50, 75, 95, 100)] == [10, 10, 11, 11, 12, 20, 20]
    assert [distribution.exceedance_probability(x) for x in (0.9, 1.0, 1.1, 1.19, 1.2, 2.0)] == [
        1.0,
        0.75,
        0.5,
        0.5,
        0.25,
        0.0,
    ]
    assert 100 * (1 - distribution.exceedance_probability(1.1)) == 50.0
    assert HotspotDistribution.create([], 0, 4) is None


@pytest.mark.parametrize("scheme", DRAWN)
def test_single_partition_topics_are_balls_in_bins(scheme: str) -> None:
    brokers = CLUSTERS["uneven racks"]
    topics = make_topics([(f"t{i}", 1, 3, []) for i in range(40)])
    trial = PlacementTrial.create(scheme, topics, brokers, seeds=4000, max_placed_topics=10**9)
    hottest = trial.count(1).leaders.max(axis=1)
    expected = trial.expect_single_partition_leaders()
    assert expected.mean == pytest.approx(hottest.mean(), abs=5 * hottest.std() / 4000**0.5)
    for count in range(8, 18):
        share = float((hottest <= count).mean())
        assert expected.at_most[count - expected.lowest] == pytest.approx(share, abs=0.04)


def test_partitions_beyond_whole_rounds_are_balls() -> None:
    trial = PlacementTrial.create(
        "kafka", make_topics([("a", 11, 1, []), ("b", 5, 1, [])]), LiveBrokers((1, 2, 3)), 1, 10**9
    )
    rounds, random = trial.expect_random_leaders()
    assert (rounds, random.lowest) == (3 + 1, 2)
    assert trial.single_partition_topics == 0
