"""java.util.Random, against values that the Java class gave."""

from __future__ import annotations

import numpy as np
import pytest

from udfs.placement.kernels.java_random import JavaRandom, scrambled, shuffle

# new Random(seed), then nextInt(bound) five times (OpenJDK 17).
DRAWN = {
    (42, 10): [0, 3, 8, 4, 0],
    (0, 16): [11, 13, 3, 9, 10],
    (-1, 7): [3, 6, 4, 6, 6],
    (2**62, 1_610_612_737): [1_569_741_360, 516_548_029, 1_302_116_447, 1_368_843_515, 663_681_053],
}


@pytest.mark.parametrize(("seed", "bound"), DRAWN)
def test_draws_what_java_draws(seed: int, bound: int) -> None:
    random = JavaRandom(np.array([seed], dtype=np.int64))
    assert [int(random.next_int(np.array([bound]))[0]) for _ in range(5)] == DRAWN[seed, bound]


@pytest.mark.parametrize(("seed", "bound"), DRAWN)
def test_a_stream_that_draws_share(seed: int, bound: int) -> None:
    random = JavaRandom(np.array([7, seed], dtype=np.int64))
    which = np.array([1, 1, 1, 0, 1, 1])
    assert np.delete(random.next_int(np.full(6, bound), which), 3).tolist() == DRAWN[seed, bound]


def test_generators_are_independent() -> None:
    seeds = np.arange(1000, dtype=np.int64)
    bounds = np.arange(1, 1001, dtype=np.int64)
    together = JavaRandom(seeds)
    first, second = together.next_int(bounds), together.next_int(bounds)
    for i in (0, 1, 63, 500, 999):
        alone = JavaRandom(seeds[i : i + 1])
        assert alone.next_int(bounds[i : i + 1])[0] == first[i]
        assert alone.next_int(bounds[i : i + 1])[0] == second[i]


def test_shuffles_as_collections_shuffle() -> None:
    values = np.arange(10, dtype=np.int32)
    shuffle(scrambled(np.array([42])), 0, values)
    assert values.tolist() == [4, 6, 2, 1, 7, 9, 8, 5, 3, 0]  # OpenJDK 17


def test_rejects_a_bound_of_zero() -> None:
    with pytest.raises(ValueError, match="bound must be positive"):
        JavaRandom(np.array([1], dtype=np.int64)).next_int(np.array([0]))
