"""Which worker runs which test files, and in which order."""

from __future__ import annotations

import pytest

from tests.shared_runs import choose_scope

SPARK, UNIT, CONTRACTS = "tests/spark/test_views.py", "tests/unit/test_doctor.py", "tests/contracts/test_tables.py"
APPLYING, NETWORK, READING = (f"tests/live/test_{name}.py" for name in ("applying", "network", "reading"))
ALL = (CONTRACTS, NETWORK, UNIT, SPARK, READING, APPLYING)


@pytest.mark.parametrize(
    ("runs_live", "expected"),
    [
        (True, [APPLYING, NETWORK, UNIT]),  # it starts no Spark
        (False, [READING, SPARK, CONTRACTS, UNIT, NETWORK, APPLYING]),
        (None, [NETWORK, READING, APPLYING, SPARK, CONTRACTS, UNIT]),
    ],
)
def test_one_worker_runs_the_tests_of_kafka_clusters(runs_live: bool | None, expected: list[str]) -> None:
    left, order = list(ALL), []
    while (scope := choose_scope(left, runs_live)) is not None:
        order.append(scope)
        left.remove(scope)
    assert order == expected
