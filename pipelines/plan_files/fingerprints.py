"""Fingerprints of an assignment, by which `plan --check` finds every partition that has changed since."""

import hashlib

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import position_of
from udfs.planning.cluster_model import ClusterModel, Ints

Hashes = npt.NDArray[np.uint32]

HEX_DIGITS = 8  # of a partition's hash


def hash_assignment(model: ClusterModel) -> str:
    """Return the sha256, in hex, of topics, partition ids and replica lists in the source's order."""
    whole = hashlib.sha256("\n".join(model.topic_names).encode())
    for values in (model.topic, model.partition, model.offsets, _list_ids(model)):
        whole.update(b"\0" + values.astype("<i8").tobytes())
    return whole.hexdigest()


def hash_partitions(model: ClusterModel) -> Hashes:
    """Hash each partition's replica list in the source's order: uint32 (p). Equal lists have equal hashes."""
    with np.errstate(over="ignore"):
        place = position_of(model.offsets).astype(np.uint64)
        parts = _mix(_mix(_list_ids(model).astype(np.uint64)) + place)
        total = np.zeros(len(parts) + 1, dtype=np.uint64)
        np.cumsum(parts, out=total[1:])
        return (_mix(total[model.offsets[1:]] - total[model.offsets[:-1]]) >> np.uint64(32)).astype(np.uint32)


def get_rack_names(model: ClusterModel) -> dict[int, str]:
    """Return the racks of brokers whose rack is known; none unless the rack of every live broker is known."""
    ids, racks = model.broker_ids.tolist(), model.rack.tolist()
    return {id_: model.rack_names[rack] for id_, rack in zip(ids, racks, strict=True) if rack < len(model.rack_names)}


def find_topic_ranges(model: ClusterModel) -> list[tuple[str, int, int]]:
    """Return each topic with its first partition's row, and the row after its last."""
    ends = np.searchsorted(model.topic, np.arange(len(model.topic_names) + 1)).tolist()
    return list(zip(model.topic_names, ends[:-1], ends[1:], strict=True))


def fingerprint_topics(model: ClusterModel) -> dict[str, dict[str, str]]:
    """Return {topic: {"partitions": ids as ranges, "hashes": HEX_DIGITS for each, in their order}}."""
    text = hash_partitions(model).astype(">u4").tobytes().hex()
    return {
        topic: {
            "partitions": format_ranges(model.partition[begin:end]),
            "hashes": text[HEX_DIGITS * begin : HEX_DIGITS * end],
        }
        for topic, begin, end in find_topic_ranges(model)
    }


def format_ranges(ids: npt.NDArray[np.integer]) -> str:
    """Format rising ids as ranges: 0-5,7."""
    breaks = np.flatnonzero(np.diff(ids) != 1)
    begins, ends = ids[np.append(0, breaks + 1)].tolist(), ids[np.append(breaks, len(ids) - 1)].tolist()
    return ",".join(f"{begin}-{end}" if end > begin else f"{begin}" for begin, end in zip(begins, ends, strict=True))


def parse_ranges(text: str, count: int) -> Ints:
    """Parse ranges of ids: int64 (count).

    Raises:
        ValueError: There are more ids, or fewer.
    """
    parts = [part.partition("-") for part in text.split(",")]
    spans = [range(int(begin), int(end or begin) + 1) for begin, _, end in parts]
    if sum(map(len, spans)) != count:
        raise ValueError(f"{text} is not {count} ids")
    return np.concatenate([np.arange(span.start, span.stop, dtype=np.int64) for span in spans])


def _list_ids(model: ClusterModel) -> Ints:
    return model.broker_ids[model.source_order].astype(np.int64)


def _mix(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply splitmix64's output function."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
