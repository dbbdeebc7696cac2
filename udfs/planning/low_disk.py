"""Brokers to fill whose disk a plan leaves far below that of others: no limit of disk is a minimum."""

from collections.abc import Iterator

import numpy as np

from udfs.planning.cluster_model import ClusterModel, Flags, ReplicaLists
from udfs.planning.constraints import Rules, select_target_brokers
from udfs.planning.plan_request import DISK, PlanRequest

_LOW_DISK = 0.5  # of a broker to fill, over the average of the others in its rack; below it, the plan says so


def explain_low_disk(
    model: ClusterModel, rules: Rules, request: PlanRequest, lists: ReplicaLists, counted: Flags
) -> Iterator[str]:
    """Explain which brokers to fill stay far emptier than others of their rack. counted: bool (n), in the mean."""
    if not model.known[0] or DISK not in request.priorities or not counted.any():
        return
    load = model.sum_bytes(lists)
    disk = load / max(float(load[counted].mean()), 1e-300)
    named = np.isin(model.broker_ids, select_target_brokers(model, request)) & (request.goal == "expand")
    empty = np.bincount(model.replicas, minlength=model.brokers) == 0
    filled = counted & rules.receives & (named | empty)
    for broker in np.flatnonzero(filled).tolist():
        others = counted & ~filled
        in_rack = others & (model.rack == model.rack[broker])
        where = f" in rack {model.rack_names[model.rack[broker]]}" if model.rack_names and in_rack.any() else ""
        others = in_rack if in_rack.any() else others
        mean = float(disk[others].mean()) if others.any() else 0.0
        if disk[broker] < _LOW_DISK * mean:
            share = f"{disk[broker]:.4f} of the mean, {disk[broker] / mean:.0%} of the average of the others{where}"
            yield f"disk: broker {model.broker_ids[broker]} gets only {share}; targets of disk limit only the fullest"
