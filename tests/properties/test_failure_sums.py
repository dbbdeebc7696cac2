"""Singles, pairs and sets of brokers, against a replay that kills, elects and counts one partition at a time."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from udfs.kernels.failure_scenarios import pair_leaders, sum_scenarios
from udfs.kernels.failure_sums import AT_ONE, EVENTS, OFFLINE, UNCLEAN, UNDER_MIN, sum_failures

Partition = dict


@st.composite
def clusters(draw: st.DrawFn) -> tuple[int, list[Partition]]:
    """(living brokers 0..n - 1, partitions); ids from n on are dead."""
    n, dead = draw(st.integers(1, 6)), draw(st.integers(0, 2))
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        replicas = draw(st.permutations(range(n + dead)))[: draw(st.integers(1, n + dead))]
        isr = [b for b in replicas if b < n and draw(st.booleans())]
        rows.append(
            {
                "replicas": replicas,
                "leader": draw(st.sampled_from(isr)) if isr else -1,
                "isr": isr or [b for b in replicas if b >= n][:1],
                "elr": [b for b in replicas if b not in isr and draw(st.booleans())],
                "min": draw(st.integers(1, 3)),
                "unclean": draw(st.booleans()),
                "weight": float(draw(st.integers(0, 9))),
            }
        )
    return n, rows


def replay(row: Partition, n: int, failed: tuple[int, ...]) -> tuple[int, int, bool]:
    """(leader, live ISR, unclean) of one partition after these died."""
    alive = [b for b in row["replicas"] if b < n and b not in failed]
    live = [b for b in alive if b in row["isr"]]
    if row["leader"] == -1:
        return -1, len(live), False
    if row["leader"] not in failed:
        return row["leader"], len(live), False
    if live:
        return live[0], len(live), False
    from_elr = [b for b in alive if b in row["elr"]]
    if from_elr:
        return from_elr[0], 1, False
    return (alive[0], 1, True) if alive and row["unclean"] else (-1, 0, False)


def expected(rows: list[Partition], n: int, failed: tuple[int, ...]) -> tuple[list[int], list[list[float]], int]:
    """(events, leaders and loads of each survivor, receivers)."""
    events = [0] * EVENTS
    load = [[0.0, 0.0] for _ in range(n)]
    receivers = set()
    for row in rows:
        leader, live, unclean = replay(row, n, failed)
        events[OFFLINE] += leader == -1
        events[UNDER_MIN] += leader != -1 and live < row["min"]
        events[AT_ONE] += leader != -1 and live == 1
        events[UNCLEAN] += unclean
        if leader != -1:
            load[leader][0] += 1
            load[leader][1] += row["weight"]
            if leader != row["leader"]:
                receivers.add(leader)
    return events, load, len(receivers)


def arrays(n: int, rows: list[Partition]) -> tuple[np.ndarray, ...]:
    flat = [(b if b < n else -1, b in row["isr"], b in row["elr"]) for row in rows for b in row["replicas"]]
    broker, isr, elr = zip(*flat, strict=True)
    return (
        np.append(0, np.cumsum([len(row["replicas"]) for row in rows])),
        np.array(broker, dtype=np.int32),
        np.array(isr),
        np.array(elr),
        np.array([row["leader"] for row in rows], dtype=np.int32),
        np.array([row["min"] for row in rows], dtype=np.int32),
        np.array([row["unclean"] for row in rows]),
        np.array([[row["weight"]] for row in rows]),
    )


@settings(max_examples=300, deadline=None)
@given(clusters())
def test_all_singles_and_all_pairs(cluster: tuple[int, list[Partition]]) -> None:
    n, rows = cluster
    now, led = np.zeros(EVENTS, np.int64), np.zeros((n, 2))
    singles, taken = np.zeros((n, EVENTS), np.int64), np.zeros((n, n, 2))
    pairs = np.zeros((n, n, EVENTS), np.int64)
    key, source = np.empty(2 * len(rows), np.int64), np.empty(2 * len(rows), np.int64)
    given_ = arrays(n, rows)
    entries = sum_failures(*given_, now, led, singles, taken, pairs, key, source)
    assert now.tolist() == expected(rows, n, ())[0]
    assert led.tolist() == expected(rows, n, ())[1]
    for a in range(n):
        events, load, _ = expected(rows, n, (a,))
        assert (now + singles[a]).tolist() == events
        after = led + taken[a]
        after[a] = 0
        assert after.tolist() == load
    keys, where = np.unique(key[:entries], return_inverse=True)
    sums = np.zeros((len(keys), 2))
    np.add.at(sums, where, np.column_stack([np.ones(entries), given_[-1][source[:entries], 0]]))
    count = n * (n - 1) // 2
    worst, total = np.empty((count, 2)), np.empty((count, 2))
    worst_broker, receivers = np.empty(count, np.int32), np.empty(count, np.int64)
    pair_leaders(led, taken, keys, sums, worst, worst_broker, receivers, total)
    for i, (a, b) in enumerate(combinations(range(n), 2)):
        events, load, takers = expected(rows, n, (a, b))
        assert (now + singles[a] + singles[b] + pairs[a, b]).tolist() == events
        left = [load[c] for c in range(n) if c not in (a, b)]
        assert receivers[i] == takers
        assert total[i].tolist() == [sum(x[0] for x in left), sum(x[1] for x in left)]
        assert worst[i].tolist() == [max((x[w] for x in left), default=0.0) for w in (0, 1)]
        best = [c for c in range(n) if c not in (a, b) and load[c][0] == worst[i, 0]]
        assert worst_broker[i] == (best[0] if best else -1)


@settings(max_examples=200, deadline=None)
@given(clusters(), st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=4))
def test_sets_of_brokers(cluster: tuple[int, list[Partition]], sets: list[set[int]]) -> None:
    n, rows = cluster
    failures = [tuple(sorted(b for b in chosen if b < n)) for chosen in sets]
    of_broker = [[s for s, failed in enumerate(failures) if b in failed] for b in range(n)]
    members = np.append(0, np.cumsum([len(found) for found in of_broker]))
    flat = np.array([s for found in of_broker for s in found], dtype=np.int64)
    events = np.zeros((len(failures), EVENTS), np.int64)
    lost, taken = np.zeros((len(failures), n, 2)), np.zeros((len(failures), n, 2))
    sum_scenarios(*arrays(n, rows), members, flat, events, lost, taken)
    before_events, before, _ = expected(rows, n, ())
    for s, failed in enumerate(failures):
        found, load, _ = expected(rows, n, failed)
        assert (before_events + events[s]).tolist() == found
        assert (np.array(before) - lost[s] + taken[s]).tolist() == load
