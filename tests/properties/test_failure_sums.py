"""Singles, pairs, sets of brokers and restarts, against a replay: kill, elect and count, partition by partition."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from udfs.failures.kernels.broker_sums import sum_held
from udfs.failures.kernels.failure_sums import (
    AT_ONE,
    AT_STAKE,
    EVENTS,
    LOADS,
    OFFLINE,
    OFFLINE_BYTES,
    STAKE_UNKNOWN,
    UNCLEAN,
    UNDER_MIN,
    UNSIZED,
    sum_failures,
)
from udfs.failures.kernels.rolling_restart import sum_restart
from udfs.failures.kernels.scenario_sums import pair_leaders, sum_scenarios

Partition = dict


@st.composite
def clusters(draw: st.DrawFn) -> tuple[int, list[Partition]]:
    """(live brokers 0..n - 1, partitions); ids from n on are down."""
    n, down = draw(st.integers(1, 6)), draw(st.integers(0, 2))
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        replicas = draw(st.permutations(range(n + down)))[: draw(st.integers(1, n + down))]
        isr = [b for b in replicas if b < n and draw(st.booleans())]
        rows.append(
            {
                "replicas": replicas,
                "leader": draw(st.sampled_from(isr)) if isr else -1,
                "isr": isr or [b for b in replicas if b >= n][:1],
                "elr": [b for b in replicas if b not in isr and draw(st.booleans())],
                "lag": {b: draw(st.integers(-1, 9)) for b in replicas},
                "min": draw(st.integers(1, 3)),
                "unclean": draw(st.booleans()),
                "size": draw(st.integers(-1, 9)),
                "in": float(draw(st.integers(0, 9))),
                "out": float(draw(st.integers(0, 9))),
            }
        )
    return n, rows


def replay(row: Partition, n: int, failed: tuple[int, ...]) -> tuple[int, int, bool]:
    """(leader, live ISR, unclean) of one partition after these failed."""
    live = [b for b in row["replicas"] if b < n and b not in failed]
    live_isr = [b for b in live if b in row["isr"]]
    if row["leader"] == -1:
        return -1, len(live_isr), False
    if row["leader"] not in failed:
        return row["leader"], len(live_isr), False
    if live_isr:
        return live_isr[0], len(live_isr), False
    from_elr = [b for b in live if b in row["elr"]]
    if from_elr:
        return from_elr[0], 1, False
    return (live[0], 1, True) if live and row["unclean"] else (-1, 0, False)


def expected(rows: list[Partition], n: int, failed: tuple[int, ...]) -> tuple[list[int], list[list[float]], int]:
    """(events, leaders and loads of each survivor, takeover_brokers)."""
    events = [0] * EVENTS
    load = [[0.0] * LOADS for _ in range(n)]
    takeover_brokers = set()
    for row in rows:
        leader, live_isr, unclean = replay(row, n, failed)
        events[OFFLINE] += leader == -1
        events[UNDER_MIN] += leader != -1 and live_isr < row["min"]
        events[AT_ONE] += leader != -1 and live_isr == 1
        events[UNCLEAN] += unclean
        if unclean:
            events[AT_STAKE] += max(row["lag"][leader], 0)
            events[STAKE_UNKNOWN] += row["lag"][leader] == -1
        if leader == -1 and row["leader"] != -1:
            events[OFFLINE_BYTES] += max(row["size"], 0)
            events[UNSIZED] += row["size"] == -1
        if leader != -1:
            fetch = row["out"] + row["in"] * max(live_isr - 1, 0)
            for place, value in enumerate((1, row["in"], row["out"], fetch)):
                load[leader][place] += value
            if leader != row["leader"]:
                takeover_brokers.add(leader)
    return events, load, len(takeover_brokers)


def arrays(n: int, rows: list[Partition]) -> tuple[np.ndarray, ...]:
    flat = [
        (b if b < n else -1, b in row["isr"], b in row["elr"], row["lag"][b]) for row in rows for b in row["replicas"]
    ]
    broker, isr, elr, lag = zip(*flat, strict=True)
    return (
        np.append(0, np.cumsum([len(row["replicas"]) for row in rows])),
        np.array(broker, dtype=np.int32),
        np.array(isr),
        np.array(elr),
        np.array(lag, dtype=np.int64),
        np.array([row["leader"] for row in rows], dtype=np.int32),
        np.array([row["min"] for row in rows], dtype=np.int32),
        np.array([row["unclean"] for row in rows]),
        np.array([row["size"] for row in rows], dtype=np.int64),
        np.array([[row["in"], row["out"]] for row in rows]),
    )


@settings(max_examples=300)
@given(clusters())
def test_all_singles_and_all_pairs(cluster: tuple[int, list[Partition]]) -> None:
    n, rows = cluster
    now, led = np.zeros(EVENTS, np.int64), np.zeros((n, LOADS))
    singles, taken = np.zeros((n, EVENTS), np.int64), np.zeros((n, n, LOADS))
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
    sums = np.zeros((len(keys), 3))
    np.add.at(sums, where, np.column_stack([np.ones(entries), given_[-1][source[:entries]]]))
    count = n * (n - 1) // 2
    worst, total = np.empty((count, 3)), np.empty((count, 3))
    worst_broker, takeover_brokers = np.empty(count, np.int32), np.empty(count, np.int64)
    pair_leaders(
        np.ascontiguousarray(led[:, :3]),
        np.ascontiguousarray(taken[:, :, :3]),
        keys,
        sums,
        worst,
        worst_broker,
        takeover_brokers,
        total,
    )
    for i, (a, b) in enumerate(combinations(range(n), 2)):
        events, load, takers = expected(rows, n, (a, b))
        assert (now + singles[a] + singles[b] + pairs[a, b]).tolist() == events
        left = [load[c] for c in range(n) if c not in (a, b)]
        assert takeover_brokers[i] == takers
        assert total[i].tolist() == [sum(x[w] for x in left) for w in range(3)]
        assert worst[i].tolist() == [max((x[w] for x in left), default=0.0) for w in range(3)]
        best = [c for c in range(n) if c not in (a, b) and load[c][0] == worst[i, 0]]
        assert worst_broker[i] == (best[0] if best else -1)


@settings(max_examples=200)
@given(clusters(), st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=4))
def test_sets_of_brokers(cluster: tuple[int, list[Partition]], sets: list[set[int]]) -> None:
    n, rows = cluster
    failures = [tuple(sorted(b for b in chosen if b < n)) for chosen in sets]
    of_broker = [[s for s, failed in enumerate(failures) if b in failed] for b in range(n)]
    members = np.append(0, np.cumsum([len(found) for found in of_broker]))
    flat = np.array([s for found in of_broker for s in found], dtype=np.int64)
    events = np.zeros((len(failures), EVENTS), np.int64)
    lost, taken = np.zeros((len(failures), n, LOADS)), np.zeros((len(failures), n, LOADS))
    sum_scenarios(*arrays(n, rows), members, flat, events, lost, taken)
    before_events, before, _ = expected(rows, n, ())
    for s, failed in enumerate(failures):
        found, load, _ = expected(rows, n, failed)
        assert (before_events + events[s]).tolist() == found
        assert (np.array(before) - lost[s] + taken[s]).tolist() == load


@settings(max_examples=300)
@given(clusters())
def test_a_rolling_restart(cluster: tuple[int, list[Partition]]) -> None:
    n, rows = cluster
    now, led = np.zeros(EVENTS, np.int64), np.zeros((n, LOADS))
    given_ = arrays(n, rows)
    none = np.empty(0, np.int64)
    nothing = np.zeros((0, 0, EVENTS), np.int64)
    sum_failures(*given_, now, led, np.zeros((n, EVENTS), np.int64), np.zeros((n, n, LOADS)), nothing, none, none)
    during, then = np.zeros((n, EVENTS), np.int64), np.zeros((n, EVENTS), np.int64)
    moved, returned = np.zeros((n, n, 3)), np.zeros((n, 3))
    sum_restart(*given_, during, then, moved, returned)
    events, load = now.copy(), led[:, :3].copy()
    state = [dict(row) for row in rows]
    for step in range(n):
        found, after, _ = expected(state, n, (step,))
        assert (events + during[step]).tolist() == found
        load[step] = 0
        load += moved[step]
        assert load.tolist() == [x[:3] for x in after]
        load[step] += returned[step]
        events += then[step]
        for row in state:
            leader, _, _ = replay(row, n, (step,))
            if row["leader"] == step and leader != -1:
                if leader not in row["isr"]:
                    row["isr"] = [leader, step]
                row["leader"] = leader


@given(clusters())
def test_what_brokers_hold(cluster: tuple[int, list[Partition]]) -> None:
    n, rows = cluster
    counts, loads, totals = np.zeros((n, 4), np.int64), np.zeros((n, 4)), np.zeros(4, np.int64)
    offsets, broker, isr, _, _, leader, _, _, size, rate = arrays(n, rows)
    sum_held(offsets, broker, isr, leader, size, rate, counts, loads, totals)
    for b in range(n):
        holds = [row for row in rows if b in row["replicas"]]
        leads = [row for row in rows if row["leader"] == b]
        first = sum(row["replicas"][0] == b for row in rows)
        assert counts[b].tolist() == [len(leads), first, len(holds), sum(b in row["isr"] for row in holds)]
        held = [sum(max(row["size"], 0) for row in holds), sum(row["in"] for row in holds)]
        assert loads[b].tolist() == [*held, sum(row["out"] for row in leads), sum(row["in"] for row in leads)]
    by_first = sum(row["leader"] == row["replicas"][0] for row in rows)
    lagging = sum(not set(row["replicas"]) <= set(row["isr"]) for row in rows)
    assert totals.tolist() == [len(rows), sum(len(row["replicas"]) for row in rows), by_first, lagging]
