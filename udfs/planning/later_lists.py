"""What a plan within a budget leaves for later plans: the lists of the whole plan whose moves it did not pay for."""

from itertools import chain

import numpy as np

from udfs.arrow.ragged import expand_ranges, offsets_of, row_of
from udfs.planning.cluster_model import ClusterModel, Int32s, Ints, ProposedAssignment
from udfs.planning.constraints import Rules, find_rack_violations
from udfs.planning.plan_request import LaterLists


def list_later(model: ClusterModel, proposal: ProposedAssignment) -> LaterLists | None:
    """List what the plan leaves; None if it has no budget, or is no part of a whole plan."""
    if proposal.later is None:
        return None
    row, begins, ends = row_of(proposal.offsets), proposal.offsets[:-1], proposal.offsets[1:]
    rows = np.unique(row[proposal.later != proposal.replicas])
    topics = np.array(model.topic_names, dtype=object)[model.topic[rows]].tolist()
    spans = [slice(*span) for span in zip(begins[rows].tolist(), ends[rows].tolist(), strict=True)]
    before, after = (
        tuple(tuple(ids[span]) for span in spans) for ids in map(model.ids, (proposal.replicas, proposal.later))
    )
    return LaterLists(tuple(topics), tuple(model.partition[rows].tolist()), before, after)


def count_later_copies(later: LaterLists) -> int:
    """Count the partitions of which later plans copy replicas."""
    return sum(not {*after} <= {*before} for before, after in zip(later.before, later.after, strict=True))


def find_later_slots(model: ClusterModel, rules: Rules, later: LaterLists) -> Int32s | None:
    """Return all lists after what an earlier plan left, int32 (r); None if one no longer fits."""
    index = {name: number for number, name in enumerate(model.topic_names)}
    topic = np.array([index.get(name, -1) for name in later.topics], dtype=np.int64)
    lengths = np.fromiter(map(len, later.before), dtype=np.int64, count=len(topic))
    keys, own = (topic << 32) + np.array(later.partitions, dtype=np.int64), (model.topic.astype(np.int64) << 32)
    own += model.partition
    rows = np.searchsorted(own, keys).clip(max=len(own) - 1)
    if (own[rows] != keys).any() or rules.fixed[rows].any() or (lengths != np.diff(model.offsets)[rows]).any():
        return None
    before, after = (np.array([*chain.from_iterable(lists)], dtype=np.int64) for lists in (later.before, later.after))
    places, slots = expand_ranges(model.offsets[:-1][rows], lengths), model.replicas.copy()
    known, row = np.isin(after, model.broker_ids), row_of(offsets_of(lengths))
    now = model.broker_ids[slots[places]].astype(np.int64)
    if not known.all() or (_sort(now, row) != _sort(before, row)).any():
        return None
    slots[places] = np.searchsorted(model.broker_ids, after)
    placed = model.with_lists(model.offsets, slots)
    violations = (find_rack_violations(each, rules.rack_cap) for each in (placed, model))
    copied = model.find_copied(placed)
    worse = next(violations) & ~next(violations)
    return None if worse.any() or not rules.receives[slots[copied]].all() else slots


def _sort(values: Ints, row: Ints) -> Ints:
    return values[np.lexsort((values, row))]
