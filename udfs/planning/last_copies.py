"""Replicas on down brokers that may be the only copies of messages."""

import numpy as np

from udfs.arrow.ragged import any_true, count_true, is_in_segment, offsets_of, row_of
from udfs.planning.cluster_model import ClusterModel, Flags, ReplicaLists
from udfs.planning.elections import find_in_sync_replicas


def find_last_copies(model: ClusterModel, lists: ReplicaLists) -> Flags:
    """Find the replicas (bool, r) of the lists on down brokers without which an acknowledged message may be lost.

    These are the replicas of partitions without a live in-sync replica: those in the last known ISR, else those that
    may lead (find_last_in_sync), else all of them.
    """
    row = row_of(lists.offsets)
    old = ~model.live[lists.replicas] & ~model.find_copied(lists)
    is_lost = ~any_true(find_in_sync_replicas(model, lists), lists.offsets)
    last = old & is_lost[row]
    if model.in_sync is None:
        return last
    in_isr = model.in_sync
    isr_offsets = offsets_of(count_true(in_isr, model.offsets))
    in_last_isr = last & is_in_segment(lists.replicas, lists.offsets, model.replicas[in_isr], isr_offsets)
    return np.where(any_true(in_last_isr, lists.offsets)[row], in_last_isr, last)
