"""What holds for every failure, against a replay that kills, elects and counts one partition at a time."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from udfs.takeovers import NOBODY, PLACED, takeovers_of


@st.composite
def clusters(draw: st.DrawFn) -> list[dict]:
    brokers = draw(st.integers(1, 5))
    dead = sorted(draw(st.sets(st.integers(0, brokers - 1), max_size=2)))
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        replicas = draw(st.permutations(range(brokers)))[: draw(st.integers(1, brokers))]
        live = [b for b in replicas if b not in dead]
        isr = [b for b in live if draw(st.booleans())]
        leader = draw(st.sampled_from(isr)) if isr else -1
        if leader == -1 and draw(st.booleans()):
            isr = [b for b in replicas if b in dead][:1]  # ZooKeeper keeps the last, dead member in the ISR
        elr = [b for b in replicas if b not in isr and draw(st.booleans())]
        rows.append(
            {
                "cluster_id": "c",
                "snapshot_id": "s",
                "scheme": draw(st.sampled_from(["observed", "kafka"])),
                "replicas": replicas,
                "leader": leader,
                "all_in_sync": set(isr) == set(replicas) and draw(st.booleans()),
                "isr": isr,
                "elr": elr,
                "dead_brokers": dead,
                "min_insync_replicas": draw(st.integers(1, 3)),
                "unclean_leader_election": draw(st.booleans()),
                "size_bytes": draw(st.integers(0, 100)),
                "bytes_in_per_s": None,
                "bytes_out_per_s": float(draw(st.integers(0, 50))),
            }
        )
    return rows


def replay(row: dict, failed: int) -> tuple[int, bool, int]:
    """(leader, unclean, live ISR) of one partition after `failed` died."""
    dead = {*row["dead_brokers"], failed}
    isr = row["isr"]
    live_isr = [b for b in isr if b not in dead]
    if row["leader"] == -1:
        return -1, False, len(live_isr)
    if row["leader"] != failed:
        return row["leader"], False, len(live_isr)
    for candidates, unclean in ((isr, False), (row["elr"], False), (row["replicas"], True)):
        if unclean and not row["unclean_leader_election"]:
            break
        for broker in row["replicas"]:
            if broker in candidates and broker not in dead:
                return broker, unclean, len(live_isr) if candidates is isr else 1
    return -1, False, 0


@settings(max_examples=300)
@given(clusters())
def test_sums_equal_a_replay(rows: list[dict]) -> None:
    sums = takeovers_of(pa.RecordBatch.from_pylist(rows, schema=PLACED)).to_pylist()
    found = {(r["scheme"], r["failed_broker"], r["receiver"]): r for r in sums}
    brokers = {b for row in rows for b in row["replicas"]} - set(rows[0]["dead_brokers"])
    for scheme in {row["scheme"] for row in rows}:
        mine = [row for row in rows if row["scheme"] == scheme]
        now = found[scheme, NOBODY, NOBODY]
        for failed in brokers:
            gained: Counter[int] = Counter()
            out: Counter[int] = Counter()
            total = Counter(unclean_elections=0, offline=0, under=0, one=0)
            for row in mine:
                leader, unclean, live = replay(row, failed)
                if row["leader"] == failed:
                    gained[leader] += 1
                    out[leader] += row["bytes_out_per_s"]
                total["unclean_elections"] += unclean
                total["offline"] += leader == -1
                total["under"] += leader != -1 and live < row["min_insync_replicas"]
                total["one"] += leader != -1 and live == 1
            events = [r for (s, f, _), r in found.items() if s == scheme and f == failed]
            assert {r["receiver"]: r["leaders"] for r in events if r["leaders"]} == dict(gained)
            assert {r["receiver"]: r["bytes_out_per_s"] for r in events if r["leaders"]} == dict(out)

            def summed(name: str, events: list[dict] = events) -> int:
                return sum(r[name] for r in events)

            assert summed("unclean_elections") == total["unclean_elections"]
            assert now["offline"] + summed("newly_offline") == total["offline"]
            under = now["under_min_isr"] + summed("newly_under_min_isr") - summed("under_min_isr_to_offline")
            assert under == total["under"]
            one = now["at_one_replica"] + summed("newly_at_one_replica") - summed("at_one_replica_to_offline")
            assert one == total["one"]


@given(clusters())
def test_leaderships_are_conserved(rows: list[dict]) -> None:
    sums = takeovers_of(pa.RecordBatch.from_pylist(rows, schema=PLACED)).to_pylist()
    for scheme in {row["scheme"] for row in rows}:
        led = sum(row["leader"] != -1 for row in rows if row["scheme"] == scheme)
        passed = sum(r["leaders"] for r in sums if r["scheme"] == scheme and r["failed_broker"] != NOBODY)
        assert passed == led


@given(clusters())
def test_order_of_partitions_does_not_matter(rows: list[dict]) -> None:
    def result(some: list[dict]) -> list[tuple]:
        return sorted(
            tuple(r.values()) for r in takeovers_of(pa.RecordBatch.from_pylist(some, schema=PLACED)).to_pylist()
        )

    assert repr(result(rows)) == repr(result(rows[::-1]))
