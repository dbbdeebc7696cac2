"""Singles, pairs, sets of brokers and rolling restarts, against plain Python: fail, elect and count each partition."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seed_sampler import count_cases
from udfs.failures.kernels.election import BrokerCounts, PartitionGroup, count_brokers
from udfs.failures.kernels.failure_totals import (
    EVENTS,
    LOADS,
    LOST_MESSAGES,
    NEWLY_UNDER_MIN_ISR,
    OFFLINE,
    OFFLINE_BYTES,
    SINGLE_ISR,
    UNCLEAN_ELECTIONS,
    UNDER_MIN_ISR,
    UNKNOWN_LAG,
    UNKNOWN_SIZE,
    FailureSums,
    PairSums,
    RestartSums,
    ScenarioSums,
    sum_failures,
    sum_pairs,
    sum_restart,
    sum_scenarios,
)
from udfs.failures.scenarios import QuorumVoters

Partition = dict


@st.composite
def clusters(draw: st.DrawFn) -> tuple[int, list[Partition]]:
    """Return n and partitions: brokers 0..n - 1 are live, ids from n on are down."""
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
                "counted": draw(st.integers(0, 4)) > 0,
                "size": draw(st.integers(-1, 9)),
                "in": float(draw(st.integers(0, 9))),
                "out": float(draw(st.integers(0, 9))),
            }
        )
    return n, rows


quorums = st.one_of(
    st.just(QuorumVoters()),
    st.lists(st.integers(0, 7), min_size=1, max_size=5, unique=True).flatmap(
        lambda voters: st.builds(QuorumVoters, st.just(tuple(voters)), st.lists(st.sampled_from(voters), max_size=1))
    ),
)


def elects_after(quorum: QuorumVoters, failed: tuple[int, ...]) -> bool:
    """Return whether more than half of the voters are left."""
    left = set(quorum.voters) - set(quorum.lagging) - set(failed)
    return not quorum.voters or len(left) * 2 > len(quorum.voters)


def elect(row: Partition, n: int, failed: tuple[int, ...], elects: bool = True) -> tuple[int, int, bool]:
    """Return (leader, live in-sync replicas, whether it is unclean) of one partition after brokers failed."""
    if not elects and row["leader"] in failed:
        return -1, 0, False
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


def is_under_min_isr(row: Partition, n: int) -> bool:
    leader, live_isr, _ = elect(row, n, ())
    return leader != -1 and live_isr < row["min"]


def expected(
    rows: list[Partition], n: int, failed: tuple[int, ...], elects: bool = True
) -> tuple[list[int], list[list[float]], int]:
    """Return (events, leaders and loads of each survivor, takeover brokers)."""
    events = [0] * EVENTS
    load = [[0.0] * LOADS for _ in range(n)]
    takeover_brokers = set()
    for row in rows:
        leader, live_isr, unclean = elect(row, n, failed, elects)
        counted = row["counted"]
        waits = not elects and any(b in row["isr"] and b in row["replicas"] and b < n for b in failed)
        is_under = leader != -1 and (live_isr < row["min"] or waits)
        events[OFFLINE] += counted and leader == -1
        events[UNDER_MIN_ISR] += counted and is_under
        was_under = row.get("was_under", is_under_min_isr(row, n))
        events[NEWLY_UNDER_MIN_ISR] += counted and is_under and not was_under
        events[SINGLE_ISR] += counted and leader != -1 and live_isr == 1
        events[UNCLEAN_ELECTIONS] += counted and unclean
        if counted and unclean:
            events[LOST_MESSAGES] += max(row["lag"][leader], 0)
            events[UNKNOWN_LAG] += row["lag"][leader] == -1
        if counted and leader == -1 and row["leader"] != -1:
            events[OFFLINE_BYTES] += max(row["size"], 0)
            events[UNKNOWN_SIZE] += row["size"] == -1
        if leader != -1:
            fetch = row["out"] + row["in"] * max(live_isr - 1, 0)
            for place, value in enumerate((1, row["in"], row["out"], fetch)):
                load[leader][place] += value
            if leader != row["leader"]:
                takeover_brokers.add(leader)
    return events, load, len(takeover_brokers)


def partition_group(n: int, rows: list[Partition]) -> PartitionGroup:
    replicas = [
        (b if b < n else -1, b in row["isr"], b in row["elr"], row["lag"][b]) for row in rows for b in row["replicas"]
    ]
    broker, isr, elr, lag = zip(*replicas, strict=True)
    return PartitionGroup(
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
        np.array([row["counted"] for row in rows]),
    )


def failure_sums(n: int, partitions: int, pairs: bool) -> FailureSums:
    paired, room = (n, 2 * partitions) if pairs else (0, 0)
    return FailureSums(
        np.zeros(EVENTS, np.int64),
        np.zeros((n, LOADS)),
        np.zeros((n, EVENTS), np.int64),
        np.zeros((n, n, LOADS)),
        np.zeros((paired, paired, EVENTS), np.int64),
        np.zeros((n, EVENTS), np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )


@settings(max_examples=count_cases(300))
@given(clusters(), quorums)
def test_all_single_failures_and_all_pairs(cluster: tuple[int, list[Partition]], quorum: QuorumVoters) -> None:
    n, rows = cluster
    group, sums = partition_group(n, rows), failure_sums(n, len(rows), pairs=True)
    stops = quorum.find_fatal_pairs(np.arange(n, dtype=np.int32))
    entries = sum_failures(group, stops, sums)
    assert sums.events.tolist() == expected(rows, n, ())[0]
    assert sums.leader_loads.tolist() == expected(rows, n, ())[1]
    for a in range(n):
        events, load, _ = expected(rows, n, (a,), elects_after(quorum, (a,)))
        assert (sums.events + sums.single_events[a]).tolist() == events
        after = sums.leader_loads + sums.takeovers[a]
        after[a] = 0
        assert after.tolist() == load
    keys, where = np.unique(sums.joint_key[:entries], return_inverse=True)
    joint = np.zeros((len(keys), 3))
    rates = group.rate[sums.joint_partition[:entries]]
    np.add.at(joint, where, np.column_stack([np.ones(entries), rates]))
    count = n * (n - 1) // 2
    pairs = PairSums(np.empty((count, 3)), np.empty((count, 3)), np.empty(count, np.int32), np.empty(count, np.int64))
    leader_loads, takeovers = (np.ascontiguousarray(x[..., :3]) for x in (sums.leader_loads, sums.takeovers))
    sum_pairs(leader_loads, takeovers, stops, keys, joint, pairs)
    for i, (a, b) in enumerate(combinations(range(n), 2)):
        elects = elects_after(quorum, (a, b))
        events, load, takeover_brokers = expected(rows, n, (a, b), elects)
        single = sums.single_events if elects else sums.stopped_events
        assert (sums.events + single[a] + single[b] + sums.pair_events[a, b]).tolist() == events
        survivors = [load[c] for c in range(n) if c not in (a, b)]
        assert pairs.takeover_brokers[i] == takeover_brokers
        assert pairs.total[i].tolist() == [sum(x[w] for x in survivors) for w in range(3)]
        assert pairs.worst[i].tolist() == [max((x[w] for x in survivors), default=0.0) for w in range(3)]
        worst = [c for c in range(n) if c not in (a, b) and load[c][0] == pairs.worst[i, 0]]
        assert pairs.worst_broker[i] == (worst[0] if worst else -1)


@settings(max_examples=count_cases(200))
@given(clusters(), st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=4), quorums)
def test_sets_of_brokers(cluster: tuple[int, list[Partition]], sets: list[set[int]], quorum: QuorumVoters) -> None:
    n, rows = cluster
    failures = [tuple(sorted(b for b in chosen if b < n)) for chosen in sets]
    by_broker = [[s for s, failed in enumerate(failures) if b in failed] for b in range(n)]
    offsets = np.append(0, np.cumsum([len(numbers) for numbers in by_broker]))
    scenario = np.array([s for numbers in by_broker for s in numbers], dtype=np.int64)
    count = len(failures)
    sums = ScenarioSums(np.zeros((count, EVENTS), np.int64), np.zeros((count, n, LOADS)))
    elects = [elects_after(quorum, failed) for failed in failures]
    assert elects == [quorum.elects_without(failed) for failed in failures]
    sum_scenarios(partition_group(n, rows), offsets, scenario, ~np.array(elects), sums)
    events_before, before, _ = expected(rows, n, ())
    for s, failed in enumerate(failures):
        events, load, _ = expected(rows, n, failed, elects[s])
        assert (events_before + sums.events[s]).tolist() == events
        after = np.array(before) + sums.takeovers[s]
        after[list(failed)] = 0
        assert after.tolist() == load


@settings(max_examples=count_cases(300))
@given(clusters(), quorums)
def test_a_rolling_restart(cluster: tuple[int, list[Partition]], quorum: QuorumVoters) -> None:
    n, rows = cluster
    group, now = partition_group(n, rows), failure_sums(n, len(rows), pairs=False)
    stops = quorum.find_fatal_pairs(np.arange(n, dtype=np.int32))
    sum_failures(group, stops, now)
    sums = RestartSums(
        np.zeros((n, EVENTS), np.int64), np.zeros((n, EVENTS), np.int64), np.zeros((n, n, 3)), np.zeros((n, 3))
    )
    sum_restart(group, stops, sums)
    events, load = now.events.copy(), now.leader_loads[:, :3].copy()
    state = [row | {"was_under": is_under_min_isr(row, n)} for row in rows]
    for step in range(n):
        elects = elects_after(quorum, (step,))
        events_expected, after, _ = expected(state, n, (step,), elects)
        assert (events + sums.events[step]).tolist() == events_expected
        load[step] = 0
        load += sums.takeovers[step]
        assert load.tolist() == [x[:3] for x in after]
        load[step] += sums.returns[step]
        events += sums.lasting_events[step]
        for row in state:
            leader, _, _ = elect(row, n, (step,), elects)
            if row["leader"] == step and leader != -1:
                if leader not in row["isr"]:
                    row["isr"] = [leader, step]
                row["leader"] = leader


@given(clusters())
def test_what_brokers_hold(cluster: tuple[int, list[Partition]]) -> None:
    n, rows = cluster
    out = BrokerCounts(np.zeros((n, 4), np.int64), np.zeros((n, 3)), np.zeros(4, np.int64))
    count_brokers(partition_group(n, rows), out)
    for b in range(n):
        holds = [row for row in rows if b in row["replicas"]]
        leads = [row for row in rows if row["leader"] == b]
        first = sum(row["replicas"][0] == b for row in rows)
        assert out.broker_counts[b].tolist() == [len(leads), first, len(holds), sum(b in row["isr"] for row in holds)]
        loads = [0, sum(row["in"] for row in holds), sum(row["out"] for row in leads)]
        assert out.broker_loads[b].tolist() == loads  # bytes are summed by each replica's own log
    led_by_first = sum(row["leader"] == row["replicas"][0] for row in rows)
    lagging = sum(not set(row["replicas"]) <= set(row["isr"]) for row in rows)
    assert out.totals.tolist() == [len(rows), sum(len(row["replicas"]) for row in rows), led_by_first, lagging]
