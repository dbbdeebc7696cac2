"""The JSON documents of kafka-reassign-partitions and kafka-leader-election, one line per partition."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.cluster_model import FREE, ClusterModel, Int32s, Ints, ProposedAssignment
from udfs.planning.waves import Waves, find_reassigned_partitions

Key = tuple[str, int]
Lists = dict[Key, list[int]]


def get_key(model: ClusterModel, row: int) -> Key:
    """Return topic and id of a partition."""
    return model.topic_names[model.topic[row]], int(model.partition[row])


def list_broker_ids(model: ClusterModel, rows: Sequence[int], offsets: Ints, replicas: Int32s) -> list[list[int]]:
    """Return the broker ids of some segments of `replicas`."""
    ids = model.broker_ids[replicas].tolist()
    return [ids[offsets[row] : offsets[row + 1]] for row in rows]


def get_source_lists(model: ClusterModel, rows: Sequence[int]) -> Lists:
    """Return the lists of these partitions before the plan, in the source's order."""
    lists = list_broker_ids(model, rows, model.offsets, model.source_order)
    return {get_key(model, row): ids for row, ids in zip(rows, lists, strict=True)}


def get_proposed_lists(model: ClusterModel, proposal: ProposedAssignment, rows: Sequence[int]) -> Lists:
    """Return the proposed lists of these partitions."""
    lists = list_broker_ids(model, rows, proposal.offsets, proposal.replicas)
    return {get_key(model, row): ids for row, ids in zip(rows, lists, strict=True)}


def get_wave_lists(model: ClusterModel, waves: Waves, wave: int) -> Lists:
    """Return the lists that a wave (from 0) sets."""
    steps = range(*waves.begins[wave : wave + 2].tolist())
    lists = list_broker_ids(model, steps, waves.offsets, waves.replicas)
    return {get_key(model, row): ids for row, ids in zip(waves.row[steps].tolist(), lists, strict=True)}


def find_irreversible(model: ClusterModel, proposal: ProposedAssignment) -> Ints:
    """Find the partitions (rows) that the plan sets and no rollback can: their old list has a down broker.

    Kafka's tool rejects a whole file for one broker that is not registered.
    """
    down = any_true(~model.live[model.replicas], model.offsets)
    return np.flatnonzero(down & find_reassigned_partitions(model, proposal))


def find_elections(model: ClusterModel, proposal: ProposedAssignment) -> list[Key]:
    """Find the partitions whose preferred leader after the plan is live and does not lead now.

    Frozen partitions are left out.
    """
    reassigned = find_reassigned_partitions(model, proposal)
    first = np.where(reassigned, proposal.replicas[proposal.offsets[:-1]], model.source_order[model.offsets[:-1]])
    elected = model.live[first] & (first != model.current_leaders) & (reassigned | (model.frozen == FREE))
    return [get_key(model, row) for row in np.flatnonzero(elected).tolist()]


def dump_compact(value: Any) -> str:
    """Write a value as JSON without spaces; NaN and infinities are rejected."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def dump_lines(elements: Iterable[Any]) -> str:
    """Write a JSON array with one line per element."""
    lines = ",\n".join(map(dump_compact, elements))
    return f"[\n{lines}\n]" if lines else "[]"


def dump_reassignment(lists: Mapping[Key, Sequence[int]]) -> str:
    """Write what kafka-reassign-partitions takes (version 1), by topic and partition."""
    entries = ({"topic": t, "partition": p, "replicas": list(lists[t, p])} for t, p in sorted(lists))
    return f'{{"version":1,"partitions":{dump_lines(entries)}}}\n'


def dump_election(partitions: Iterable[Key]) -> str:
    """Write what kafka-leader-election and kafka-preferred-replica-election take."""
    return f'{{"partitions":{dump_lines({"topic": t, "partition": p} for t, p in sorted(partitions))}}}\n'


def dump_topics_to_move(topics: Iterable[str]) -> str:
    """Write what kafka-reassign-partitions --generate takes."""
    return f'{{"topics":{dump_lines({"topic": topic} for topic in sorted(set(topics)))},"version":1}}\n'
