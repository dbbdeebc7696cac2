"""Seeds depend on the run's seed, the cluster and the topic, and on nothing else."""

from __future__ import annotations

import numpy as np

from udfs.placement.kernels.topic_seeds import compute_topic_seeds


def text(*names: str) -> tuple[np.ndarray, np.ndarray]:
    data = [name.encode() for name in names]
    return np.frombuffer(b"".join(data), dtype=np.uint8), np.cumsum([0, *map(len, data)])


def seeds(run: int, clusters: list[str], topics: list[str]) -> list[int]:
    return compute_topic_seeds(run, text(*clusters), text(*topics)).tolist()


def test_other_topics_and_their_order_do_not_matter() -> None:
    names = ["a", "orders", "x" * 249, "é"]
    together = seeds(7, ["c"] * 4, names)
    assert [seeds(7, ["c"], [name])[0] for name in names] == together
    assert seeds(7, ["c"] * 4, names[::-1]) == together[::-1]


def test_each_part_matters() -> None:
    values = {
        seeds(1, ["a"], ["bc"])[0],
        seeds(1, ["ab"], ["c"])[0],
        seeds(2, ["a"], ["bc"])[0],
        seeds(1, ["a"], ["bd"])[0],
    }
    values.add(seeds(-1, ["a"], ["bc"])[0])
    assert len(values) == 5


def test_never_changes() -> None:
    # Written down: a release that changed a seed would change every placement made before.
    assert seeds(0, ["prod"], ["orders"]) == [SEED_OF_PROD_ORDERS]


def test_spread_over_48_bits() -> None:
    many = np.array(seeds(0, ["c"] * 20_000, [f"t{i}" for i in range(20_000)]))
    assert len(set(many.tolist())) == 20_000
    assert many.min() >= 0
    assert many.max() < 2**48
    assert abs((many / 2**48).mean() - 0.5) < 0.01


SEED_OF_PROD_ORDERS = 130_585_318_554_527
