"""Which worker runs which test files, and in which order."""

from __future__ import annotations

import pytest

from tests.shared_runs import choose_scope

VIEWS, UNIT, CONTRACTS = "tests/spark/test_views.py", "tests/unit/test_doctor.py", "tests/contracts/test_tables.py"
GROWTH, SIX_BROKERS, NETWORK = "tests/spark/test_growth.py", "tests/live/six_brokers/", "tests/live/test_network.py"
ALL = (CONTRACTS, NETWORK, UNIT, GROWTH, VIEWS, SIX_BROKERS)


@pytest.mark.parametrize(
    ("worker", "workers", "expected"),
    [
        ("gw0", 3, [VIEWS, GROWTH, CONTRACTS, UNIT, NETWORK, SIX_BROKERS]),  # first what no other worker can run
        ("gw1", 3, [GROWTH, CONTRACTS, UNIT, NETWORK, SIX_BROKERS]),  # it has no Java
        ("gw2", 3, [SIX_BROKERS, NETWORK, UNIT]),  # it starts no Spark
        ("gw0", 2, [VIEWS, NETWORK, SIX_BROKERS, GROWTH, CONTRACTS, UNIT]),
        ("gw1", 2, [NETWORK, SIX_BROKERS, GROWTH, CONTRACTS, UNIT]),
        ("gw0", 1, [NETWORK, SIX_BROKERS, GROWTH, VIEWS, CONTRACTS, UNIT]),
    ],
)
def test_a_worker_runs_files_of_its_own_kind_first(worker: str, workers: int, expected: list[str]) -> None:
    left, order = list(ALL), []
    while (scope := choose_scope(left, worker, workers)) is not None:
        order.append(scope)
        left.remove(scope)
    assert order == expected
