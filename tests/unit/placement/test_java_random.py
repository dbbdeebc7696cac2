"""java.util.Random, compared with values drawn by the Java class."""

from __future__ import annotations

import numpy as np
import pytest

from udfs.placement.kernels.java_util import next_int, scramble_seeds, shuffle

# new Random(seed), then nextInt(bound) five times (OpenJDK 17).
JAVA_DRAWS = {
    (42, 10): [0, 3, 8, 4, 0],
    (0, 16): [11, 13, 3, 9, 10],
    (-1, 7): [3, 6, 4, 6, 6],
    (2**62, 1_610_612_737): [1_569_741_360, 516_548_029, 1_302_116_447, 1_368_843_515, 663_681_053],
}


@pytest.mark.parametrize(("seed", "bound"), JAVA_DRAWS)
def test_draws_equal_those_of_java(seed: int, bound: int) -> None:
    states = scramble_seeds(np.array([seed], dtype=np.int64))
    assert [next_int(states, 0, bound) for _ in range(5)] == JAVA_DRAWS[seed, bound]


@pytest.mark.parametrize(("seed", "bound"), JAVA_DRAWS)
def test_draws_of_another_generator_do_not_matter(seed: int, bound: int) -> None:
    states = scramble_seeds(np.array([7, seed], dtype=np.int64))
    draws = [next_int(states, generator, bound) for generator in (1, 1, 1, 0, 1, 1)]
    assert draws[:3] + draws[4:] == JAVA_DRAWS[seed, bound]


def test_generators_are_independent() -> None:
    seeds = np.arange(1000, dtype=np.int64)
    states = scramble_seeds(seeds)
    first, second = ([next_int(states, i, i + 1) for i in range(1000)] for _ in range(2))
    for i in (0, 1, 63, 500, 999):
        alone = scramble_seeds(seeds[i : i + 1])
        assert next_int(alone, 0, i + 1) == first[i]
        assert next_int(alone, 0, i + 1) == second[i]


def test_shuffle_equals_collections_shuffle() -> None:
    values = np.arange(10, dtype=np.int32)
    shuffle(scramble_seeds(np.array([42])), 0, values)
    assert values.tolist() == [4, 6, 2, 1, 7, 9, 8, 5, 3, 0]  # OpenJDK 17
