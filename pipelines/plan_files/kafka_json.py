"""The JSON documents of kafka-reassign-partitions and kafka-leader-election, a partition a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.cluster_model import FREE, ClusterModel, Ints, Places, ProposedAssignment
from udfs.planning.waves import Waves, leader_of, to_change

Key = tuple[str, int]
Lists = dict[Key, list[int]]


def key_of(model: ClusterModel, row: int) -> Key:
    """Topic and id of a partition."""
    return model.topic_names[model.topic[row]], int(model.partition[row])


def broker_lists(model: ClusterModel, rows: Sequence[int], offsets: Ints, replicas: Places) -> list[list[int]]:
    """Broker ids of the segments `rows`."""
    ids = model.broker_ids[replicas].tolist()
    return [ids[offsets[row] : offsets[row + 1]] for row in rows]


def lists_before(model: ClusterModel, rows: Sequence[int]) -> Lists:
    """The lists of these partitions as the source has them, in its order."""
    as_is = model.replicas if model.as_is is None else model.as_is
    lists = broker_lists(model, rows, model.offsets, as_is)
    return {key_of(model, row): one for row, one in zip(rows, lists, strict=True)}


def lists_after(model: ClusterModel, proposal: ProposedAssignment, rows: Sequence[int]) -> Lists:
    """The lists that the proposal has for these partitions."""
    lists = broker_lists(model, rows, proposal.offsets, proposal.replicas)
    return {key_of(model, row): one for row, one in zip(rows, lists, strict=True)}


def lists_of_wave(model: ClusterModel, waves: Waves, wave: int) -> Lists:
    """The lists that a wave (from 0) sets."""
    steps = range(*waves.begins[wave : wave + 2].tolist())
    lists = broker_lists(model, steps, waves.offsets, waves.replicas)
    return {key_of(model, row): one for row, one in zip(waves.row[steps].tolist(), lists, strict=True)}


def not_given_back(model: ClusterModel, proposal: ProposedAssignment) -> Ints:
    """Rows of the partitions that the plan sets and no rollback can: a down broker is in their list before.

    Kafka's tool rejects a whole file for one broker that is not registered.
    """
    down = any_true(~model.live[model.replicas], model.offsets)
    return np.flatnonzero(down & to_change(model, proposal))


def to_elect(model: ClusterModel, proposal: ProposedAssignment) -> list[Key]:
    """The partitions whose preferred leader after the plan lives and does not lead now.

    Those that must stay as they are, are left to themselves.
    """
    chosen = to_change(model, proposal)
    as_is = model.replicas if model.as_is is None else model.as_is
    first = np.where(chosen, proposal.replicas[proposal.offsets[:-1]], as_is[model.offsets[:-1]])
    wanted = model.live[first] & (first != leader_of(model)) & (chosen | (model.frozen == FREE))
    return [key_of(model, row) for row in np.flatnonzero(wanted).tolist()]


def compact(value: Any) -> str:
    """A value as JSON without spaces; NaN and infinities are rejected."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def array(elements: Iterable[Any]) -> str:
    """A JSON array with an element a line."""
    lines = ",\n".join(map(compact, elements))
    return f"[\n{lines}\n]" if lines else "[]"


def reassignment(lists: Mapping[Key, Sequence[int]]) -> str:
    """Version 1 of kafka-reassign-partitions, by topic and partition."""
    entries = ({"topic": t, "partition": p, "replicas": list(lists[t, p])} for t, p in sorted(lists))
    return f'{{"version":1,"partitions":{array(entries)}}}\n'


def election(partitions: Iterable[Key]) -> str:
    """What kafka-leader-election and kafka-preferred-replica-election take."""
    return f'{{"partitions":{array({"topic": t, "partition": p} for t, p in sorted(partitions))}}}\n'


def topics_to_move(topics: Iterable[str]) -> str:
    """What kafka-reassign-partitions --generate takes."""
    return f'{{"topics":{array({"topic": topic} for topic in sorted(set(topics)))},"version":1}}\n'
