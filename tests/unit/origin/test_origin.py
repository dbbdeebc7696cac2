"""The origin of topics: every scheme is recognised in topics placed by our own kernels, a manual change is not."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from tests.unit.origin.origin_topics import Replicas, expand, find_origins_of, place_topics
from tests.unit.placement.placement_requests import ADMIN_UTILS, STRIPED
from udfs.origin.kernels.striped_fit import count_steps

SCHEMES = ("kafka", "kafka_rack_aware", "kraft", "naive")


def cluster(rnd: random.Random, least: int = 1) -> tuple[list[int], list[str]]:
    """Broker ids in any order, and a rack for each; racks of unequal sizes."""
    n = rnd.randint(least, 14)
    ids = rnd.sample(range(1, 60), n)
    names = rnd.randint(1, min(n, 4))
    return ids, [f"r{rnd.randrange(names)}" for _ in ids]


def mixed_sizes(rnd: random.Random, brokers: int) -> list[tuple[int, int]]:
    partitions = [1, 2, 3, brokers, 2 * brokers, 3 * brokers + 1, 50]
    factor = brokers if rnd.random() < 0.3 else min(brokers, 4)
    return [(rnd.choice(partitions), rnd.randint(1, factor)) for _ in range(rnd.choice([1, 2, 5, 20]))]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(40))
def test_the_scheme_that_placed_a_topic_matches(scheme: str, seed: int) -> None:
    rnd = random.Random(seed)
    ids, racks = cluster(rnd)
    with_racks = racks if scheme == "kafka_rack_aware" or (scheme == "kraft" and rnd.random() < 0.7) else None
    topics = place_topics(scheme, ids, mixed_sizes(rnd, len(ids)), seed, with_racks)
    partial = [{p: r for p, r in enumerate(t) if p == 0 or rnd.random() < 0.7} for t in topics]
    for observed in (topics, partial):
        for found in find_origins_of(observed, ids, with_racks):
            assert scheme in found["matching_schemes"], found
            assert found["origin"] in (*found["matching_schemes"], "none")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(15))
def test_changed_topics_have_no_origin_and_the_others_keep_theirs(scheme: str, seed: int) -> None:
    rnd = random.Random(seed)
    n = rnd.randint(5, 12)
    ids = rnd.sample(range(100), n)
    racks = [f"r{i % 3}" for i in range(n)] if scheme in ("kafka_rack_aware", "kraft") else None
    topics = place_topics(scheme, ids, [(3 * n, 3)] * 12, seed, racks)
    by_hand = rnd.sample(range(12), 4)
    for i in by_hand:
        # Not the last rows: these could be an expansion.
        for row in rnd.sample(range(1, 3 * n - 4), 2):
            old = topics[i][row]
            topics[i][row] = rnd.sample([b for b in ids if b not in old], 1) + old[1:] if n > 3 else old[::-1]
    for i, found in enumerate(find_origins_of(topics, ids, racks)):
        if i in by_hand:
            assert (found["origin"], found["broker_order"]) == ("none", None)
            assert found["first_mismatch_partition"] is not None
        else:
            assert found["origin"] == scheme
            assert found["evidence"] > 0


def test_an_order_start_index_and_shift_are_found() -> None:
    order = [7, 3, 9, 1, 4]
    topics = place_topics("kafka", order, [(12, 3)] * 6, 5)
    for topic, found in zip(topics, find_origins_of(topics, sorted(order)), strict=True):
        assert found["broker_order"] == [1, 4, 7, 3, 9]
        assert found["broker_order"][found["start_index"]] == topic[0][0]
        behind = found["broker_order"][(found["start_index"] + 1 + found["shift"]) % 5]
        assert behind == topic[0][1]
        assert found["evidence"] == 12 * 3 - 2
        assert found["note"] is None


def test_one_replica_has_no_shift_and_one_partition_no_evidence() -> None:
    found = find_origins_of([*place_topics("kafka", [2, 1, 3], [(30, 1)] * 3, 1), [[2]]], [1, 2, 3])
    assert {f["shift"] for f in found} == {None}
    assert found[-1]["evidence"] == 0
    assert found[-1]["note"] == "too small to be conclusive"
    assert {"kafka", "kraft"} <= set(found[-1]["matching_schemes"])


@pytest.mark.parametrize("racks", [None, ["a", "b", "a", "c", "b", "c"]])
@pytest.mark.parametrize("seed", range(10))
def test_expanded_topics(seed: int, racks: list[str] | None) -> None:
    rnd = random.Random(seed)
    order = rnd.sample(range(50), 6)
    scheme = "kafka_rack_aware" if racks else "kafka"
    plain = place_topics(scheme, order, [(15, 3)] * 4, seed, racks)
    counts = [rnd.randint(1, 14) for _ in range(4)]
    later = place_topics(scheme, order, [(count, 3) for count in counts], seed + 100, racks)
    once = [expand(topic, rnd.randint(6, 20), order, racks) for topic in later]
    twice = [expand(topic, 9, order, racks) for topic in once]
    found = find_origins_of(plain + once + twice, order, racks)
    assert {f["origin"] for f in found} == {scheme}
    assert [f["expanded_from_partition"] for f in found[:4]] == [None] * 4
    for f, count in zip(found[4:8], counts, strict=True):
        # An expansion may begin with partitions that the pattern would have placed alike.
        assert f["expanded_from_partition"] is None or f["expanded_from_partition"] >= count


def test_an_order_is_found_although_every_topic_was_expanded() -> None:
    order = [7, 3, 9, 1, 4, 8, 2]
    topics = [expand(topic, 20, order) for topic in place_topics("kafka", order, [(18, 3)] * 5, 8)]
    found = find_origins_of(topics, order)
    assert {tuple(f["broker_order"]) for f in found} == {(1, 4, 8, 2, 7, 3, 9)}
    assert {f["expanded_from_partition"] for f in found} <= set(range(15, 22))


def test_a_short_expansion_by_kraft_is_inconclusive() -> None:
    topics = place_topics("kraft", range(9), [(20, 3)] * 8, 4, ["a", "b", "c"] * 3)
    added = place_topics("kraft", range(9), [(2, 3), (12, 3)], 5, ["a", "b", "c"] * 3)
    found = find_origins_of([topics[0] + added[0], topics[1] + added[1], *topics], range(9), ["a", "b", "c"] * 3)
    assert (found[0]["origin"], found[0]["matching_schemes"]) == ("none", ["kraft"])
    assert found[0]["note"] == (
        "fits KRaft's striped placement only with an expansion too short to be conclusive; expanded from partition 20"
    )
    assert (found[1]["origin"], found[1]["expanded_from_partition"]) == ("kraft", 20)


def test_topics_from_before_the_cluster_grew_and_shrank() -> None:
    old = place_topics("kafka", [3, 1, 2], [(10, 2)] * 5, 1)
    gone = place_topics("kafka", [8, 2, 9, 3], [(12, 3)] * 5, 2)
    new = place_topics("kafka", [5, 3, 1, 4, 2], [(15, 3)] * 9, 3)
    found = find_origins_of(old + gone + new, [1, 2, 3, 4, 5, 9], down=[9])
    assert {f["origin"] for f in found} == {"kafka"}
    orders = [tuple(f["broker_order"]) for f in found]
    assert orders == [(1, 2, 3)] * 5 + [(2, 9, 3, 8)] * 5 + [(1, 4, 2, 5, 3)] * 9
    assert found[0]["note"] == "over 3 brokers: without 4, 5"
    assert found[5]["note"] == "over 4 brokers: without 1, 4, 5; with 8, 9, not live"


def test_kraft_before_4_1_never_shuffled() -> None:
    first = place_topics("kraft", range(4), [(4, 2)], 1)[0]
    steady: Replicas = (first * 5)[:18]
    (found,) = find_origins_of([steady], range(4))
    assert "kraft" in found["matching_schemes"]
    shuffled = place_topics("kraft", range(4), [(24, 2)] * 9, 1)
    assert {f["origin"] for f in find_origins_of(shuffled, range(4))} == {"kraft"}
    assert find_origins_of(shuffled, range(4))[0]["note"] is None


def test_kraft_without_racks_differs_from_the_round_robin_in_its_shifts() -> None:
    found = find_origins_of(place_topics("kraft", range(10), [(5, 3)] * 30, 1), range(10))
    assert {f["origin"] for f in found} == {"kraft"}
    assert all({"kafka", "kraft"} <= set(f["matching_schemes"]) for f in found)


def test_unusual_rows() -> None:
    order = [1, 2, 3, 4]
    good = place_topics("naive", order, [(20, 2)] * 4, 0)
    changing = [*good[0][:10], [3, 4, 1], *good[0][11:]]
    unknown = {0: None, 1: None}
    some_unknown = {**dict(enumerate(good[0])), 5: None}
    twice = [*good[0][:6], [3, 3], *good[0][7:]]
    elsewhere = [[77, 78]] * 3
    found = find_origins_of([*good, changing, unknown, some_unknown, twice, elsewhere, {}], order)
    assert [f["origin"] for f in found] == ["naive"] * 4 + ["none", "unknown", "naive", "none", "none", "unknown"]
    assert "which has replication factor 3 instead of 2" in found[4]["note"]
    assert (found[5]["matching_schemes"], found[5]["note"]) == ([], "no replicas are known")
    assert found[6]["note"] == "1 partition has no known replicas"
    assert found[7]["first_mismatch_partition"] == 6
    assert found[8]["first_mismatch_partition"] in (0, 1)


def test_no_topics_no_brokers_and_one_broker() -> None:
    assert find_origins_of([{}], [])[0]["origin"] == "unknown"
    assert find_origins_of([[[5], [5], [5]]], [])[0]["matching_schemes"] == ["kafka", "kraft", "naive"]
    found = find_origins_of([[[5], [5], [5]], [[5]]], [5], ["a"])
    assert [(f["origin"], f["evidence"], f["note"]) for f in found] == [("kafka", 0, "too small to be conclusive")] * 2
    assert found[0]["matching_schemes"] == list(SCHEMES)


def test_answers_of_kafkas_own_classes() -> None:
    """Topics placed by Kafka's own classes; only fenced brokers are not supported."""
    for case in ADMIN_UTILS:
        if "replicas" not in case or case["first_partition"] > 0:
            continue
        ids, racks = [b["id"] for b in case["brokers"]], [b["rack"] for b in case["brokers"]]
        scheme = "kafka" if racks[0] is None else "kafka_rack_aware"
        (found,) = find_origins_of([case["replicas"]], ids, racks)
        assert scheme in found["matching_schemes"], case["seed"]
    for case in STRIPED:
        if any(b["fenced"] for b in case["brokers"]):
            continue
        topics = [t["replicas"] for t in case["topics"] if t.get("replicas")]
        for found in find_origins_of(topics, [b["id"] for b in case["brokers"]], [b["rack"] for b in case["brokers"]]):
            assert "kraft" in found["matching_schemes"], case["seed"]


def test_count_steps_counts_partitions() -> None:
    for racks in range(1, 6):
        for width in range(1, racks + 1):
            for distance in range(racks):
                for epoch in range(3 * racks):
                    count = sum((distance - e) % racks < width for e in range(epoch))
                    assert count_steps(distance, width, racks, epoch) == count


@pytest.mark.slow
def test_a_topic_of_100000_partitions_and_many_topics() -> None:
    rng = np.random.default_rng(3)
    order = rng.permutation(40).tolist()
    racks = [f"r{b % 4}" for b in order]
    for scheme in SCHEMES:
        big = place_topics(scheme, order, [(100_000, 3)], 1, None if scheme == "kafka" else racks)[0]
        many = place_topics(scheme, order, [(10, 3)] * 3000, 2, None if scheme == "kafka" else racks)
        began = time.monotonic()
        found = find_origins_of([big, *many], order, racks)
        assert time.monotonic() - began < 20
        assert {f["origin"] for f in found} == {scheme}
        changed = [*big[:70_000], big[70_001], *big[70_001:]]
        first = find_origins_of([changed, *many[:50]], order, racks)[0]["first_mismatch_partition"]
        assert first == 70_000 or (scheme == "kraft" and first < 70_040)  # 70,000 begins a round there


@pytest.mark.parametrize("seed", range(5))
def test_topics_placed_before_and_after_a_cordon_are_explained(seed: int) -> None:
    """Brokers 4 and 7 are cordoned now: an exact match decides which topics are older."""
    ids, racks = range(9), ["a", "b", "c"] * 3
    usable = [id_ for id_ in ids if id_ not in (4, 7)]
    before = place_topics("kraft", ids, [(30, 3)] * 4, seed, racks)
    after = place_topics("kraft", usable, [(30, 3)] * 4, seed, [racks[id_] for id_ in usable])
    note = "over 7 brokers: without 4, 7"
    for cordoned, expected in (((4, 7), f"{note}, cordoned now"), ((), note)):
        found = find_origins_of(after, ids, racks, cordoned=cordoned)
        assert {one["note"] for one in found} == {expected}
    found = find_origins_of([*before, *after], ids, racks, cordoned=(4, 7))
    assert {one["origin"] for one in found} == {"kraft"}
    assert [one["note"] for one in found] == [None] * 4 + [f"{note}, cordoned now"] * 4
    unexplained = find_origins_of([*before, *after], ids, racks)[4:]
    assert {one["origin"] for one in unexplained} == {"none"}
