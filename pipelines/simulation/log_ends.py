"""Where the logs of replicas end in a snapshot: what its sources say, and what follows from that."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import Lists, numbers, valid, whole
from udfs.arrow.ragged import any_true, row_of

Ints = npt.NDArray[np.int64]
Offsets = tuple[int | None, ...]
_UNKNOWN = -1


def log_ends(partitions: pa.Table) -> tuple[list[Offsets], list[Offsets]]:
    """(log end offsets, high watermarks) of each partition, beside its replicas; () where nothing is known of any.

    partitions: schema SETTLED, all with replicas.
    """
    replicas = Lists.of(partitions["replicas"])
    row = row_of(replicas.offsets)
    said, hw, lag = (
        _of_logs(partitions["logs"], row, name) for name in ("log_end_offset", "high_watermark", "offset_lag")
    )
    leads = replicas.flat == numbers(partitions["leader"], -1)[row]
    in_sync = leads | _in_sync(row, replicas.flat, Lists.of(partitions["isr"]))
    # Sources that show log ends ask as a consumer does: what the leader answers is its high watermark.
    hw = np.where(leads, np.maximum(said, hw), hw)
    end = _leaders_ends(row, in_sync, leads, said, hw, partitions.num_rows)[row]
    behind = np.where(hw >= 0, np.maximum(hw - np.maximum(lag, 0), 0), _UNKNOWN)
    leo = np.where(in_sync & (end >= 0), end, np.maximum(said, behind))
    return _beside(leo, replicas.offsets), _beside(hw, replicas.offsets)


def _of_logs(logs: pa.ChunkedArray, row: Ints, name: str) -> Ints:
    """A field of the logs, of each replica; _UNKNOWN where no source says."""
    out = np.full(len(row), _UNKNOWN, dtype=np.int64)
    out[valid(logs)[row]] = numbers(pc.struct_field(whole(logs).flatten(), name), _UNKNOWN)
    return out


def _in_sync(row: Ints, broker: npt.NDArray[np.int32], isr: Lists) -> npt.NDArray[np.bool_]:
    """Of each replica, whether it is in its partition's ISR."""

    def key(rows: Ints, brokers: npt.NDArray[np.int32]) -> Ints:
        return (rows << np.int64(32)) | brokers.astype(np.int64)

    return np.isin(key(row, broker), key(row_of(isr.offsets), isr.flat))


def _leaders_ends(
    row: Ints, in_sync: npt.NDArray[np.bool_], leads: npt.NDArray[np.bool_], said: Ints, hw: Ints, count: int
) -> Ints:
    """Of each partition with a leader, its log end: it holds at least what any member of the ISR has seen committed."""
    out = np.full(count, _UNKNOWN, dtype=np.int64)
    np.maximum.at(out, row[in_sync], hw[in_sync])
    np.maximum.at(out, row[leads], said[leads])
    led = np.zeros(count, dtype=np.bool_)
    led[row[leads]] = True
    return np.where(led, out, _UNKNOWN)


def _beside(flat: Ints, offsets: Ints) -> list[Offsets]:
    known = any_true(flat >= 0, offsets)
    if not known.any():
        return [()] * len(known)
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(flat, mask=flat < 0)).to_pylist()
    return [tuple(ids) if shown else () for ids, shown in zip(lists, known.tolist(), strict=True)]
