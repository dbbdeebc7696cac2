"""An assignment in short: what `plan --check` needs to name every partition that is not as it was."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from udfs.arrow.ragged import position_of
from udfs.planning.cluster_model import ClusterModel, Ints

Hashes = npt.NDArray[np.uint32]

HEX_DIGITS = 8  # of a partition's hash


def digest(model: ClusterModel) -> str:
    """sha256 over topics, partition ids and replica lists in the source's order, in hex."""
    whole = hashlib.sha256("\n".join(model.topic_names).encode())
    for values in (model.topic, model.partition, model.offsets, _ids(model)):
        whole.update(b"\0" + values.astype("<i8").tobytes())
    return whole.hexdigest()


def hashes(model: ClusterModel) -> Hashes:
    """uint32 (p), of each partition's replica list in the source's order. Equal lists have equal ones."""
    with np.errstate(over="ignore"):
        place = position_of(model.offsets).astype(np.uint64)
        parts = _mixed(_mixed(_ids(model).astype(np.uint64)) + place)
        total = np.zeros(len(parts) + 1, dtype=np.uint64)
        np.cumsum(parts, out=total[1:])
        return (_mixed(total[model.offsets[1:]] - total[model.offsets[:-1]]) >> np.uint64(32)).astype(np.uint32)


def rack_names(model: ClusterModel) -> dict[int, str]:
    """{broker id: its rack}, of brokers whose rack is known; none if not every live broker's is."""
    names = model.rack_names
    ids, racks = model.broker_ids.tolist(), model.rack.tolist()
    return {id_: names[rack] for id_, rack in zip(ids, racks, strict=True) if rack < len(names)}


def of_topics(model: ClusterModel) -> dict[str, dict[str, str]]:
    """{topic: {"partitions": ids in ranges, "hashes": HEX_DIGITS a partition, in their order}}."""
    text = hashes(model).astype(">u4").tobytes().hex()
    ends = np.searchsorted(model.topic, np.arange(len(model.topic_names) + 1)).tolist()
    return {
        name: {"partitions": ranges(model.partition[begin:end]), "hashes": text[HEX_DIGITS * begin : HEX_DIGITS * end]}
        for name, begin, end in zip(model.topic_names, ends[:-1], ends[1:], strict=True)
    }


def ranges(ids: npt.NDArray[np.integer]) -> str:
    """Rising ids in short: 0-5,7."""
    breaks = np.flatnonzero(np.diff(ids) != 1)
    begins, ends = ids[np.append(0, breaks + 1)].tolist(), ids[np.append(breaks, len(ids) - 1)].tolist()
    return ",".join(f"{begin}-{end}" if end > begin else f"{begin}" for begin, end in zip(begins, ends, strict=True))


def ids_in(text: str, count: int) -> Ints:
    """The `count` ids (int64) of `ranges`; ValueError if there are more or fewer."""
    parts = [part.partition("-") for part in text.split(",")]
    spans = [range(int(begin), int(end or begin) + 1) for begin, _, end in parts]
    if sum(map(len, spans)) != count:
        raise ValueError(f"{text} is not {count} ids")
    return np.concatenate([np.arange(span.start, span.stop, dtype=np.int64) for span in spans])


def _ids(model: ClusterModel) -> Ints:
    places = model.replicas if model.as_is is None else model.as_is
    return model.broker_ids[places].astype(np.int64)


def _mixed(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """splitmix64's output function."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
