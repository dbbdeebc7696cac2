"""A cluster as planners see it - flat arrays over brokers and partitions - and what they give back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.ragged import any_true, contained, has_repeat, offsets_of, row_of

Ints = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

# Why a partition is left as it is, whatever the goal. Codes of ClusterModel.frozen.
FREE, EXCLUDED, IN_FLIGHT, DELETED, OFFLINE, FROZEN = range(6)
FROZEN_WORDS = (
    "",
    "its topic is excluded",
    "it is being reassigned",
    "its topic is being deleted",
    "none of its replicas is on a live broker",
    "a replica is on a down broker, which no file for Kafka may name: repair it first",
)


@dataclass(frozen=True)
class ClusterModel:
    """One cluster before a plan. n brokers, p partitions in order of topic name and id, r replicas.

    broker_ids: int32 (n), rising. Brokers are meant by their places in it everywhere else.
    rack: int32 (n), into rack_names; all 0 if not every live broker has a rack, as then Kafka knows of none.
    live, draining: bool (n); draining = the source wants it empty.
    topic: int32 (p), into topic_names (rising).   partition: int32 (p), ids.
    offsets: int64 (p + 1), replicas: int32 (r), places, preferred leader first.
    size: float64 (p), bytes of a replica; rate_in, rate_out: float64 (p), bytes per second; 0 where not known.
    known: which of the three any partition has.   frozen: int8 (p), FREE or why it must stay as it is.
    min_isr: int32 (p).
    as_is: int32 (r), places in the source's own order, where a down broker may be first; None = as replicas.
    leader: int32 (p), the place that leads now, -1 = none or not known; None = the first of replicas.
    """

    cluster_id: str
    broker_ids: Places
    rack: Places
    rack_names: tuple[str, ...]
    live: Flags
    draining: Flags
    topic_names: tuple[str, ...]
    topic: Places
    partition: Places
    offsets: Ints
    replicas: Places
    size: Floats
    rate_in: Floats
    rate_out: Floats
    known: tuple[bool, bool, bool]
    frozen: npt.NDArray[np.int8]
    min_isr: Places
    as_is: Places | None = None
    leader: Places | None = None

    @property
    def brokers(self) -> int:
        """How many brokers there are, down ones too."""
        return len(self.broker_ids)

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.partition)

    @property
    def factor(self) -> Ints:
        """Replicas of each partition: int64 (p)."""
        return np.diff(self.offsets)

    @property
    def row(self) -> Ints:
        """The partition of each replica: int64 (r)."""
        return row_of(self.offsets)

    def name(self, row: int) -> str:
        """A partition as people write it: orders-3."""
        return f"{self.topic_names[self.topic[row]]}-{self.partition[row]}"

    def ids(self, places: npt.NDArray[np.integer] | Sequence[int]) -> list[int]:
        """Broker ids of places."""
        return [int(broker) for broker in self.broker_ids[np.asarray(places, dtype=np.int64)]]

    def placed(self, offsets: Ints, replicas: Places) -> ClusterModel:
        """The same cluster with these replica lists."""
        return replace(self, offsets=offsets, replicas=replicas, as_is=None, leader=None)


@dataclass(frozen=True)
class ProposedAssignment:
    """Replica lists that a planner proposes for a model.

    offsets: int64 (p + 1), replicas: int32, as in ClusterModel.   reason: int16 (p), into reasons; -1 = unchanged.
    certificate: objective, bound, gap, what was relaxed or missed: plain values, the same for the same model.
    """

    offsets: Ints
    replicas: Places
    reason: npt.NDArray[np.int16]
    reasons: tuple[str, ...]
    certificate: Mapping[str, Any] = field(default_factory=dict)


def changed(model: ClusterModel, offsets: Ints, replicas: Places) -> Flags:
    """Which partitions (bool, p) have another replica list than in `model`, be it only in order."""
    same: Flags = np.diff(offsets) == model.factor
    out: Flags = ~same
    rows = row_of(offsets)
    mine = same[rows]
    at = model.offsets[:-1][rows[mine]] + np.flatnonzero(mine) - offsets[:-1][rows[mine]]
    out[rows[mine][model.replicas[at] != replicas[mine]]] = True
    return out


def moved(model: ClusterModel, offsets: Ints, replicas: Places) -> Flags:
    """For each replica of the lists (bool), whether its broker holds none of the partition now: it must be copied."""
    held: Flags = contained(replicas, offsets, model.replicas, model.offsets)
    return ~held


def model_of(
    cluster_id: str,
    brokers: pa.Table,
    partitions: pa.Table,
    topics: pa.Table,
    exclude_topics: Sequence[str] = (),
    default_min_isr: int = 1,
) -> ClusterModel:
    """The model of one cluster's brokers, partitions and topics (columns as in silver).

    Partitions without known replicas are left out. Live replicas come first in a list: a down broker
    cannot lead.
    """
    brokers = brokers.sort_by("broker_id")
    broker_ids = _array(brokers["broker_id"], 0).astype(np.int32)
    live = _array(brokers["live"], False).astype(np.bool_)
    draining = _array(brokers["draining"], False).astype(np.bool_)
    rack, rack_names = _racks(brokers["rack"].to_pylist(), live)

    known = partitions.filter(pc.is_valid(partitions["replicas"]))
    known = known.sort_by([("topic", "ascending"), ("partition", "ascending")]).combine_chunks()
    names = pa.array(sorted(set(known["topic"].to_pylist())), pa.string())
    topic = pc.index_in(_whole(known["topic"]), value_set=names)
    lists = _whole(known["replicas"])
    offsets = offsets_of(_array(pc.list_value_length(lists), 0).astype(np.int64))
    ids = _array(lists.flatten(), 0).astype(np.int32)
    replicas = np.searchsorted(broker_ids, ids).astype(np.int32)
    if len(ids) and (replicas.max() >= len(broker_ids) or (broker_ids[replicas] != ids).any()):
        raise ValueError("a replica is on a broker that is not among the brokers")
    assert not has_repeat(replicas, offsets).any()
    # Stable: the order among the live, and among the down, stays.
    order = np.lexsort((np.arange(len(ids)), ~live[replicas], row_of(offsets)))
    as_is, replicas = replicas, replicas[order]

    topic_rows = pc.index_in(_whole(known["topic"]), value_set=_whole(topics["topic"]))
    deleted = _array(_whole(topics["marked_for_deletion"]).take(topic_rows), False).astype(np.bool_)
    min_isr = _array(_whole(topics["min_insync_replicas"]).take(topic_rows), default_min_isr).astype(np.int32)
    frozen = np.zeros(len(offsets) - 1, dtype=np.int8)
    frozen[~any_true(live[replicas], offsets)] = OFFLINE
    frozen[np.asarray(pc.is_in(_whole(known["topic"]), value_set=pa.array(list(exclude_topics), pa.string())))] = (
        EXCLUDED
    )
    frozen[deleted] = DELETED
    frozen[_in_flight(known)] = IN_FLIGHT
    loads = [known[name] for name in ("size_bytes", "bytes_in_per_s", "bytes_out_per_s")]
    size, rate_in, rate_out = (_array(column, 0).astype(np.float64) for column in loads)
    return ClusterModel(
        cluster_id,
        broker_ids,
        rack,
        rack_names,
        live,
        draining,
        tuple(names.to_pylist()),
        _array(topic, 0).astype(np.int32),
        _array(known["partition"], 0).astype(np.int32),
        offsets,
        replicas,
        size,
        rate_in,
        rate_out,
        (loads[0].null_count < len(size), loads[1].null_count < len(size), loads[2].null_count < len(size)),
        frozen,
        min_isr,
        as_is,
        _leaders(known, broker_ids),
    )


def _racks(names: Sequence[str | None], live: Flags) -> tuple[Places, tuple[str, ...]]:
    known = sorted({name for name in names if name is not None})
    if any(name is None for name, lives in zip(names, live.tolist(), strict=True) if lives) or not known:
        return np.zeros(len(names), dtype=np.int32), ()
    place = {name: i for i, name in enumerate(known)}
    # A down broker without a rack is nowhere: a place of its own, so that it is in no other's way.
    return np.array([place.get(name or "", len(known)) for name in names], dtype=np.int32), tuple(known)


def _leaders(partitions: pa.Table, broker_ids: Places) -> Places | None:
    if "leader" not in partitions.column_names:
        return None
    ids = _array(partitions["leader"], -1)
    places = np.searchsorted(broker_ids, ids)
    # Nobody leads, nobody says who does, or a broker that no source knows.
    unknown = (places == len(broker_ids)) | (np.append(broker_ids, -1)[places] != ids)
    return np.where(unknown, -1, places).astype(np.int32)


def _in_flight(partitions: pa.Table) -> Flags:
    out = np.zeros(partitions.num_rows, dtype=np.bool_)
    for name in ("adding_replicas", "removing_replicas"):
        out |= _array(pc.list_value_length(_whole(partitions[name])), 0) > 0
    return out


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _array(column: pa.ChunkedArray | pa.Array, missing: int | float | bool) -> npt.NDArray[Any]:
    array = _whole(column)
    return np.asarray(pc.fill_null(array, pa.scalar(missing, array.type)).to_numpy(zero_copy_only=False))
