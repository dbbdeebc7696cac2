"""Brokers and partitions in sentences: the first few by name, and how many more there are."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from udfs.planning.cluster_model import ClusterModel


def join_names(names: Iterable[object], limit: int = 8) -> str:
    """Join the first `limit` names: 1, 2 and 7 more."""
    texts = [str(name) for name in names]
    return ", ".join(texts[:limit]) + (f" and {len(texts) - limit} more" if len(texts) > limit else "")


def count_of(number: int, noun: str) -> str:
    """Write a number with its noun: 1 replica, 2 replicas."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def describe_brokers(model: ClusterModel, brokers: npt.NDArray[np.integer]) -> str:
    """Name brokers by their ids: broker 1; brokers 1, 2 and 7 more."""
    return f"broker{'s' if len(brokers) > 1 else ''} {join_names(model.ids(brokers))}"


def describe_partitions(model: ClusterModel, rows: npt.NDArray[np.integer]) -> str:
    """Name the first of some partitions: t1-0 and 12 others."""
    first, others = model.name(int(rows[0])), len(rows) - 1
    return f"{first} and {others} other{'s' if others > 1 else ''}" if others else first
