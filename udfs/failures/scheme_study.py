"""Schemes side by side on made-up mixes of topics: what a down broker does, and what can be lost, over many seeds."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.durability.kernels.loss_probability import copysets
from udfs.failures.aggregates import sum_seed
from udfs.failures.seed_rows import metrics_of
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.topic_arrays import BrokerLists, Placed, Topics
from udfs.placement.kernels.topic_seeds import topic_seeds
from udfs.placement.schemes import SCHEMES
from udfs.placement.topic_batches import text_of


@dataclass(frozen=True)
class Mix:
    """topics of the same number of partitions and replicas, on brokers that are on racks in turn (0 = on none)."""

    brokers: int
    racks: int
    partitions: int
    replication_factor: int
    topics: int


@dataclass(frozen=True)
class Figures:
    """Of one scheme on one mix, a value a seed (float64).

    worst_survivor: most leaders over the mean, of the worst survivor of the worst single failure.
    takeover_brokers: survivors that take over, of the failure with fewest.   copysets: distinct replica sets.
    loss: the chance that as many failures as replicas lose some partition.
    """

    worst_survivor: npt.NDArray[np.float64]
    takeover_brokers: npt.NDArray[np.float64]
    copysets: npt.NDArray[np.float64]
    loss: npt.NDArray[np.float64]


def _place(mix: Mix, scheme: str, seed: int) -> Placed:
    place = SCHEMES[scheme].place
    assert place is not None
    count = mix.topics
    ids = np.arange(mix.brokers, dtype=np.int32)
    racks = [f"rack-{i % mix.racks}" for i in range(mix.brokers)] if mix.racks else None
    lists = BrokerLists.of(ids, np.array([0, mix.brokers]), racks)
    names = text_of(pa.array([f"topic-{i}" for i in range(count)]))
    cluster = text_of(pa.array([f"{mix.brokers}x{mix.racks}"] * count))
    sizes = np.full(count, mix.partitions, dtype=np.int64)
    asked = Topics.of(sizes, np.full(count, mix.replication_factor, dtype=np.int64), np.zeros(count, dtype=np.int64))
    return place(asked, lists, scrambled(topic_seeds(seed, cluster, names)))


def study(mix: Mix, scheme: str, first_seed: int, seeds: int) -> Figures:
    """The figures of a scheme over seeds first_seed, first_seed + 1, ...; one that draws nothing has just one."""
    rows = []
    for seed in range(first_seed, first_seed + (seeds if SCHEMES[scheme].draws else 1)):
        placed = _place(mix, scheme, seed)
        summed = sum_seed(placed, mix.brokers)
        metrics = metrics_of(summed["seed_led"][0].astype(np.float64), summed["seed_taken"][0].astype(np.float64))
        sets = len(copysets(placed.replica_offsets, placed.broker, mix.brokers)[0]) - 1
        rows.append((metrics[1], metrics[3], sets, sets / comb(mix.brokers, mix.replication_factor)))
    return Figures(*np.array(rows, dtype=np.float64).T)
