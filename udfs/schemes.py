"""The placement schemes by name. A new scheme is one entry here; the stages take them as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from udfs.kernels import round_robin
from udfs.kernels.java_random import JavaRandom
from udfs.kernels.round_robin import Asked, Assignment, TopicBatch

Ints = npt.NDArray[np.int64]

OBSERVED = "observed"
NAIVE = "naive"
KAFKA = "kafka"


@dataclass(frozen=True)
class Draw:
    """What a scheme drew for each topic (int64, n), or None where it draws nothing."""

    seed: Ints | None
    start_index: Ints | None
    shift: Ints | None


Place = Callable[[TopicBatch, Asked, Ints], tuple[Assignment, Draw]]


@dataclass(frozen=True)
class Scheme:
    """A way to place replicas.

    place: (topics, partitions asked for, a seed for each topic) -> (assignment, what was drawn); None where the
    placement is what a cluster has.
    """

    name: str
    title: str
    place: Place | None


def _place_kafka(batch: TopicBatch, asked: Asked, seeds: Ints) -> tuple[Assignment, Draw]:
    random = JavaRandom(seeds)
    start_index = random.next_int(batch.brokers)
    shift = random.next_int(batch.brokers)
    return round_robin.kafka_rack_unaware(batch, start_index, shift, asked), Draw(seeds, start_index, shift)


def _place_naive(batch: TopicBatch, asked: Asked, seeds: Ints) -> tuple[Assignment, Draw]:
    return round_robin.naive(batch, asked), Draw(None, None, None)


SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme(OBSERVED, "as the cluster is now", None),
        Scheme(KAFKA, "Kafka's round robin plus shift, without racks", _place_kafka),
        Scheme(NAIVE, "replica j of partition i on broker (i + j) mod n", _place_naive),
    )
}
