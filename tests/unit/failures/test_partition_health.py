"""Which partitions are healthy, and who takes over if the broker or the rack of their leader fails."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from udfs.arrow.columns import INT, INTS
from udfs.failures.partition_health import LiveBrokerRacks, TopicRules, find_health, number_racks
from udfs.failures.topic_defaults import TopicDefaults

INPUT = pa.schema(
    [*((name, INTS) for name in ("replicas", "isr", "elr", "observers", "adding_replicas", "offline_replicas"))]
).append(pa.field("leader", INT))
# Live: 1 and 2 in rack a, 3 in rack b, 4 without a rack, of which nothing shows that it is live. 9 is down.
BROKERS = LiveBrokerRacks(
    np.array([1, 2, 3, 4], dtype=np.int32), number_racks(["a", "a", "b", None]), np.array([4], dtype=np.int32)
)


class Health(NamedTuple):
    """What is expected of a partition; min.insync.replicas is 2."""

    online: bool | None = True
    under_replicated: bool | None = False
    under_min_isr: bool | None = False
    successor: int | None = None
    rack_successor: int | None = None
    effective_min_isr: int | None = None
    min_isr_critical_brokers: list[int] | None = None
    failed_dir_replicas: list[int] | None = None


DOWN = Health(online=False, under_replicated=True)
UNCLEAN = "denied"  # all topics but this one allow unclean elections in the second run
# name: partition, its health, and the successors where unclean elections are allowed.
CASES: dict[str, tuple[dict[str, object], Health, tuple[int | None, int | None]]] = {
    "isr": ({"replicas": [1, 2, 3], "isr": [1, 3], "leader": 1}, Health(True, True, False, 3, 3), (3, 3)),
    "one rack": ({"replicas": [1, 2], "isr": [1, 2], "leader": 1}, Health(True, False, False, 2, -1), (2, -1)),
    "elr": ({"replicas": [1, 2, 3], "isr": [1], "elr": [3], "leader": 1}, Health(True, True, True, 3, 3), (3, 3)),
    "default": ({"replicas": [1, 9, 3], "isr": [1], "leader": 1}, Health(True, True, True, -1, -1), (3, 3)),
    UNCLEAN: ({"replicas": [1, 3], "isr": [1], "leader": 1}, Health(True, True, True, -1, -1), (-1, -1)),
    "unknown": ({"replicas": [1, 4], "isr": [1], "elr": [4], "leader": 1}, Health(True, True, True, -1, -1), (4, 4)),
    "leader without rack": (
        {"replicas": [4, 1], "isr": [4, 1], "leader": 4},
        Health(True, False, False, 1, None),
        (1, None),
    ),
    "down replica in the ISR": (
        {"replicas": [1, 9], "isr": [1, 9], "leader": 1},
        Health(True, True, True, -1, -1),
        (-1, -1),
    ),
    "down leader": ({"replicas": [9, 1], "isr": [9, 1], "leader": 9}, DOWN, (None, None)),
    "offline": ({"replicas": [1, 2], "isr": [2], "leader": -1}, DOWN, (None, None)),
    "only replica down": (
        {"replicas": [9], "isr": [9], "leader": -1},
        Health(online=False, effective_min_isr=1),
        (None, None),
    ),
    "only replica down, ELR": (
        {"replicas": [9], "isr": [], "elr": [9], "leader": -1},
        Health(online=False, effective_min_isr=1),
        (None, None),
    ),
    "one replica": ({"replicas": [3], "isr": [3], "leader": 3}, Health(True, False, False, -1, -1), (-1, -1)),
    "observer": (
        {"replicas": [1, 3, 2], "isr": [1, 3], "observers": [2], "leader": 1},
        Health(True, False, False, 3, 3),
        (3, 3),
    ),
    "reassigned": (
        {"replicas": [1, 3, 2], "isr": [1, 3], "adding_replicas": [2], "leader": 1},
        Health(True, False, False, 3, 3),
        (3, 3),
    ),
    "failed log dirs": (  # the brokers are live, but none can lead, not even by an unclean election
        {"replicas": [1, 2, 3], "isr": [1], "offline_replicas": [2, 3], "leader": 1},
        Health(True, True, True, -1, -1),
        (-1, -1),
    ),
    "last copy on a failed disk": (
        {"replicas": [1, 2], "isr": [2], "offline_replicas": [2], "leader": -1},
        DOWN,
        (None, None),
    ),
    "unplaced": ({"leader": 2}, Health(None, None, None), (None, None)),
}
# Brokers whose failure takes the partition below min.insync.replicas; none of the others has any.
CRITICAL = {
    "isr": [1, 3],
    "one rack": [1, 2],
    "leader without rack": [4, 1],
    "observer": [1, 3],
    "reassigned": [1, 3],
    "unplaced": None,
}
FAILED = {"failed log dirs": [2, 3], "last copy on a failed disk": [2], "unplaced": None}


@pytest.mark.parametrize("unclean", [False, True])
def test_health(unclean: bool) -> None:
    rows = [row for row, _, _ in CASES.values()]
    allowed = np.array([unclean and topic != UNCLEAN for topic in CASES])
    lengths = np.array([len(row.get("replicas", ())) for row in rows])  # type: ignore[arg-type]
    min_isr = TopicDefaults(min_insync_replicas=2).fill_min_isr(pa.nulls(len(CASES), pa.int32()), lengths)
    health = find_health(pa.Table.from_pylist(rows, INPUT), BROKERS, TopicRules(min_isr, allowed))
    assert tuple(health) == Health._fields
    found = {topic: Health(*(values[i].as_py() for values in health.values())) for i, topic in enumerate(CASES)}
    for topic, size, (_, expected, successors) in zip(CASES, lengths.tolist(), CASES.values(), strict=True):
        expected = expected._replace(
            effective_min_isr=min(2, size) or None,
            min_isr_critical_brokers=CRITICAL.get(topic, []),
            failed_dir_replicas=FAILED.get(topic, []),
        )
        if unclean:
            expected = expected._replace(successor=successors[0], rack_successor=successors[1])
        assert found[topic] == expected, topic


@pytest.mark.parametrize(("is_capped", "expected"), [(True, [2, 2, 1, 1]), (False, [2, 5, 2, 2])])
def test_min_isr_counts_up_to_the_number_of_replicas_since_kafka_3_7(is_capped: bool, expected: list[int]) -> None:
    defaults = TopicDefaults(min_insync_replicas=2, cap_min_insync_replicas=is_capped)
    values = pa.array([2, 5, None, 2], pa.int32())
    assert defaults.fill_min_isr(values, np.array([3, 2, 1, 0])).tolist() == expected


def test_empty_clusters() -> None:
    nobody = LiveBrokerRacks(*(np.empty(0, dtype=np.int32),) * 3)
    rules = TopicRules(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.bool_))
    assert {len(values) for values in find_health(INPUT.empty_table(), nobody, rules).values()} == {0}
    one = pa.Table.from_pylist([{"replicas": [1], "isr": [1], "leader": 1}], INPUT)
    rules = TopicRules(np.ones(1, dtype=np.int32), np.zeros(1, dtype=np.bool_))
    found = [values[0].as_py() for values in find_health(one, nobody, rules).values()]
    assert found == list(Health(online=False, effective_min_isr=1, min_isr_critical_brokers=[], failed_dir_replicas=[]))
