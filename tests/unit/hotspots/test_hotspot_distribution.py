"""Counts over seeds are those of the placements themselves; distribution and percentiles are those of the counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from udfs.hotspots import hotspot_distribution
from udfs.hotspots.hotspot_distribution import HotspotDistribution, Mix, Trial
from udfs.placement.kernels.topic_arrays import BrokerLists
from udfs.placement.schemes import SCHEMES
from udfs.placement.topic_batches import LiveBrokers, Requests, place_topics

DRAWN = ("kafka", "kafka_rack_unaware", "kraft")
UNEVEN = ("a", "a", "a", "b", "c", "c", "b")


def requests(topics: list[tuple[str, int, int, list[int]]], cluster: str = "prod") -> Requests:
    """Topics: (name, partitions, factor, partitions listed)."""
    names, partitions, factor, listed = zip(*topics, strict=True) if topics else ((), (), (), ())
    return Requests(
        pa.array([cluster] * len(names), pa.string()),
        pa.array(names, pa.string()),
        pa.array(partitions, pa.int32()),
        pa.array(factor, pa.int32()),
        pa.array(listed, pa.list_(pa.int32())),
    )


def mix_of(asked: Requests) -> Mix:
    listed = asked.listed
    assert listed is not None
    return Mix(
        hotspot_distribution.names_of(asked.cluster, asked.topic).to_numpy().view(np.uint64),
        asked.partitions.to_numpy().astype(np.int64),
        asked.replication_factor.to_numpy().astype(np.int64),
        listed.flatten().to_numpy().astype(np.int64),
        listed.offsets.to_numpy().astype(np.int64),
    )


def placed(asked: Requests, brokers: LiveBrokers, scheme: str, seed: int) -> tuple[list[int], list[int]]:
    """(leaders, replicas) of each broker as gold.placements would have them."""
    lists = BrokerLists.of(np.array(brokers.ids), np.array([0, len(brokers.ids)]), brokers.racks)
    zero = np.zeros(len(asked.topic), dtype=np.int64)
    rows = [
        replicas
        for topic in place_topics(asked, lists, zero, SCHEMES[scheme], seed).field("replicas").to_pylist()
        for replicas in topic
        if replicas is not None
    ]
    flat = [broker for replicas in rows for broker in replicas]
    return [sum(r[0] == b for r in rows) for b in brokers.ids], [flat.count(b) for b in brokers.ids]


def some_topics(n: int, seed: int) -> list[tuple[str, int, int, list[int]]]:
    """Small, large, single-partition, with gaps, and rejected ones."""
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
    asked = requests(some_topics(len(brokers.ids), 1))
    trial = Trial.of(scheme, mix_of(asked), brokers, seeds=6, work=10**9)
    counts = trial.counts(run_seed=40)
    for i in range(trial.seeds):
        leaders, replicas = placed(asked, brokers, scheme, 40 + i)
        assert counts.leaders[i].tolist() == leaders
        assert counts.replicas[i].tolist() == replicas
    rejects_all = scheme == "kafka" and cluster == "some racks"
    assert trial.seeds == (0 if rejects_all else 1 if scheme == "naive" else 6)
    assert trial.rejected == (len(asked.topic) if rejects_all else 2 if scheme == "kraft" else 3)
    assert (counts.leaders.sum(axis=1) == trial.partitions).all()


@pytest.mark.parametrize("scheme", DRAWN)
def test_counting_is_placing_counted(scheme: str) -> None:
    brokers = CLUSTERS["uneven racks"]
    trial = Trial.of(scheme, mix_of(requests(some_topics(7, 2))), brokers, seeds=4, work=10**9)
    runs = hotspot_distribution.run_words(0, 4)
    plain = hotspot_distribution._by_placing(scheme)(trial.mix, hotspot_distribution._lists(brokers), runs)
    counted = trial.counts(0)
    assert (counted.leaders == plain.leaders).all()
    assert (counted.replicas == plain.replicas).all()


@pytest.mark.parametrize("scheme", DRAWN)
def test_the_order_of_topics_and_the_cut_of_seeds_do_not_matter(scheme: str) -> None:
    topics = some_topics(7, 3)
    brokers = CLUSTERS["uneven racks"]
    trial = Trial.of(scheme, mix_of(requests(topics)), brokers, seeds=9, work=10**9)
    turned = Trial.of(scheme, mix_of(requests(topics[::-1])), brokers, seeds=9, work=10**9)
    whole = trial.counts(-4)
    assert (turned.counts(-4).leaders == whole.leaders).all()
    cut = [trial.counts(-4, first, until).replicas for first, until in ((0, 2), (2, 2), (2, 9))]
    assert (np.concatenate(cut) == whole.replicas).all()
    hottest = trial.hottest(-4, 1, 8)
    assert hottest.leaders.tolist() == whole.leaders[1:8].max(axis=1).tolist()
    assert hottest.replicas.tolist() == whole.replicas[1:8].max(axis=1).tolist()


def test_the_last_run_seed_has_successors() -> None:
    trial = Trial.of("kafka", mix_of(requests([("t", 1, 1, [])])), LiveBrokers((1, 2)), seeds=3, work=10**9)
    wrapped = [trial.counts(2**63 - 1, i, i + 1).leaders.tolist() for i in range(3)]
    assert trial.counts(2**63 - 1).leaders[:, None].tolist() == wrapped
    assert trial.counts(-(2**63)).leaders[0].tolist() == wrapped[1][0]


def test_fewer_seeds_are_tried_where_the_work_would_be_too_much() -> None:
    mix = mix_of(requests([(f"t{i}", 2, 3, []) for i in range(100)]))
    brokers = LiveBrokers((1, 2, 3))
    assert Trial.of("kafka", mix, brokers, seeds=50, work=10**6).seeds == 50
    assert Trial.of("kafka", mix, brokers, seeds=50, work=1030).seeds == 10
    assert Trial.of("kraft", mix, brokers, seeds=50, work=1030).seeds == 10
    racks = LiveBrokers((1, 2, 3), ("a", "b", "b"))
    assert Trial.of("kraft", mix, racks, seeds=50, work=6030).seeds == 10
    assert Trial.of("kafka", mix, brokers, seeds=50, work=1).seeds == 1


def test_nothing_to_place() -> None:
    for topics in ([], [("wide", 1, 9, [])]):
        trial = Trial.of("kafka", mix_of(requests(topics)), LiveBrokers((1, 2)), seeds=5, work=10**9)
        assert (trial.seeds, trial.rejected) == (0, len(topics))
        assert trial.counts(0).leaders.shape == (0, 2)
    nobody = Trial.of("kafka", mix_of(requests([("t", 1, 1, [])])), LiveBrokers(()), seeds=5, work=10**9)
    assert (nobody.seeds, nobody.rejected) == (0, 1)


def test_distribution_are_shares_of_seeds() -> None:
    distribution = HotspotDistribution.of([12, 10, 11, 20], total=40, brokers=4)
    assert distribution is not None
    assert [distribution.percentile(p) for p in (5, 25, 26, 50, 75, 95, 100)] == [10, 10, 11, 11, 12, 20, 20]
    assert [distribution.above(x) for x in (0.9, 1.0, 1.1, 1.19, 1.2, 2.0)] == [1.0, 0.75, 0.5, 0.5, 0.25, 0.0]
    assert distribution.percent_up_to(1.1) == 50.0
    assert HotspotDistribution.of([], 0, 4) is None


@pytest.mark.parametrize("scheme", DRAWN)
def test_single_partition_topics_are_balls_in_bins(scheme: str) -> None:
    brokers = CLUSTERS["uneven racks"]
    mix = mix_of(requests([(f"t{i}", 1, 3, []) for i in range(40)]))
    trial = Trial.of(scheme, mix, brokers, seeds=4000, work=10**9)
    hottest = trial.counts(1).leaders.max(axis=1)
    expected = trial.expected_singles()
    assert expected.mean == pytest.approx(hottest.mean(), abs=5 * hottest.std() / 4000**0.5)
    for count in range(8, 18):
        share = float((hottest <= count).mean())
        assert expected.at_most[count - expected.lowest] == pytest.approx(share, abs=0.04)


def test_the_rest_of_whole_rounds_would_be_balls() -> None:
    trial = Trial.of("kafka", mix_of(requests([("a", 11, 1, []), ("b", 5, 1, [])])), LiveBrokers((1, 2, 3)), 1, 10**9)
    rounds, blind = trial.expected_blind()
    assert (rounds, blind.lowest) == (3 + 1, 2)
    assert trial.singles == 0
