"""Small clusters, written as replica lists, and all choices that a planner has in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

from udfs.arrow.ragged import offsets_of
from udfs.planning.cluster_model import FREE, ClusterModel, FreezeReason, ProposedAssignment


def cluster(
    lists: Sequence[Sequence[int]],
    brokers: int,
    down: Sequence[int] = (),
    draining: Sequence[int] = (),
    frozen: Sequence[int] = (),
    topics: Sequence[int] | None = None,
    rate_out: Sequence[float] | None = None,
) -> ClusterModel:
    """Make the model of replica lists over brokers 0 to `brokers` - 1; down brokers go last in the lists."""
    p = len(lists)
    down_brokers = set(down)
    lists = [sorted(replicas, key=lambda b: b in down_brokers) for replicas in lists]
    topic = np.zeros(p, dtype=np.int32) if topics is None else np.array(sorted(topics), dtype=np.int32)
    codes = np.zeros(p, dtype=np.int8)
    codes[list(frozen)] = FreezeReason.EXCLUDED
    codes[[i for i, replicas in enumerate(lists) if down_brokers.issuperset(replicas)]] = FreezeReason.OFFLINE
    rates = np.ones(p) if rate_out is None else np.array(rate_out, dtype=np.float64)
    return ClusterModel(
        "small",
        np.arange(brokers, dtype=np.int32),
        np.zeros(brokers, dtype=np.int32),
        (),
        np.array([b not in down_brokers for b in range(brokers)], dtype=np.bool_),
        np.array([b in draining for b in range(brokers)], dtype=np.bool_),
        tuple(f"t{t}" for t in range(int(topic.max(initial=-1)) + 1)),
        topic,
        np.arange(p, dtype=np.int32),
        offsets_of(np.array([len(replicas) for replicas in lists], dtype=np.int64)),
        np.array([b for replicas in lists for b in replicas], dtype=np.int32),
        rates,
        rates,
        rates,
        (True, True, True),
        codes,
        np.ones(p, dtype=np.int32),
    )


@st.composite
def clusters(draw: st.DrawFn, topics: int = 1, partitions: int = 7) -> ClusterModel:
    """Draw clusters of up to five brokers, with down and draining brokers and frozen partitions."""
    brokers = draw(st.integers(1, 5))
    some_brokers = st.lists(st.integers(0, brokers - 1), max_size=1)
    width = min(3, brokers)
    replicas = st.lists(st.integers(0, brokers - 1), min_size=1, max_size=width, unique=True)
    lists = draw(st.lists(replicas, max_size=partitions))
    p = len(lists)
    return cluster(
        lists,
        brokers,
        draw(some_brokers),
        draw(some_brokers),
        draw(st.lists(st.integers(0, p - 1), max_size=1)) if p else (),
        draw(st.lists(st.integers(0, topics - 1), min_size=p, max_size=p)),
        draw(st.lists(st.integers(0, 20).map(float), min_size=p, max_size=p)),
    )


def lists_of(cluster: ClusterModel | ProposedAssignment) -> list[list[int]]:
    """Return the replica lists as Python lists."""
    return (
        [part.tolist() for part in np.split(cluster.replicas, cluster.offsets[1:-1])]
        if len(cluster.offsets) > 1
        else []
    )


def may_lead(model: ClusterModel) -> set[int]:
    """Return the brokers that are live and not draining."""
    return set(np.flatnonzero(model.live & ~model.draining).tolist())


def leader_options(model: ClusterModel) -> list[list[int]]:
    """Return for each partition the brokers that could be its preferred leader; -1 = none."""
    out = []
    for replicas, frozen in zip(lists_of(model), model.frozen.tolist(), strict=True):
        options = [b for b in replicas if b in may_lead(model)] if frozen == FREE else []
        out.append(options or ([replicas[0]] if model.live[replicas[0]] else [-1]))
    return out


def successor_options(model: ClusterModel) -> list[list[int]]:
    """Return for each partition the brokers that could lead after its leader fails; -1 = none."""
    out = []
    for replicas, frozen in zip(lists_of(model), model.frozen.tolist(), strict=True):
        leads = bool(model.live[replicas[0]])
        options = [b for b in replicas[1:] if b in may_lead(model)] if frozen == FREE and leads else []
        second = replicas[1] if len(replicas) > 1 and model.live[replicas[1]] and leads else -1
        out.append(options or [second])
    return out


def every(options: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Iterate over all choices."""
    return product(*options)


def relabelled(model: ClusterModel, places: np.ndarray) -> ClusterModel:
    """Return the same cluster with broker b renamed to places[b]."""
    down, draining = places[~model.live], places[model.draining]
    lists = [[int(places[b]) for b in replicas] for replicas in lists_of(model)]
    frozen = np.flatnonzero(model.frozen == 1).tolist()
    topics, rates = model.topic.tolist(), model.rate_out.tolist()
    return cluster(lists, model.brokers, down.tolist(), draining.tolist(), frozen, topics, rates)
