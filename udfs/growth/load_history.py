"""From the loads of a cluster in several samples to one series for each subject and quantity."""

from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from udfs.arrow.columns import INT, LONG, TEXT, to_array, to_codes, to_numpy

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class SubjectKind(StrEnum):
    """What a series is about."""

    CLUSTER = "cluster"
    BROKER = "broker"
    LOG_DIR = "log_dir"
    TOPIC = "topic"


# The columns that name a subject.
SUBJECT = ("subject_kind", "broker_id", "log_dir", "topic")


# Quantities of a series, and the column that counts the partitions whose value is known; replicas are always known.
QUANTITIES = {
    "size_bytes": "partitions_with_size",
    "bytes_in_per_s": "partitions_with_bytes_in",
    "bytes_out_per_s": "partitions_with_bytes_out",
    "replicas": "partitions",
}
_MAX_CHANGE = 0.01  # of the part of the partitions whose value is known; else sums are of different partitions

# Rows of gold.load_history, each with the index of its sample; a snapshot that was seen again has several.
LOAD_SAMPLES = pa.schema(
    [
        *(("subject_kind", TEXT), ("broker_id", INT), ("log_dir", TEXT), ("topic", TEXT)),
        *(("topic_id", TEXT), ("sample", INT)),
        *((name, LONG) for name in ("partitions", "all_partitions", *list(QUANTITIES.values())[:-1])),
        *((name, LONG if name in ("size_bytes", "replicas") else pa.float64()) for name in QUANTITIES),
    ]
)


class LoadHistory(NamedTuple):
    """Subjects of a cluster that its newest sample has, and their series."""

    subjects: pa.Table  # SUBJECT
    values: dict[str, Floats]  # by quantity: float64 (subjects, samples), NaN = no value
    left_out: dict[str, npt.NDArray[np.int64]]  # by quantity: int64 (subjects), values that are no part of the series


def build_history(rows: pa.Table, samples: int) -> LoadHistory:
    """Build the series of subjects.

    The series of a topic begins when it was created again: at the first sample after one that lacks it, or in which it
    has another id or fewer partitions. Values are left out if they sum up another part of the partitions than the last,
    so those of a sample whose sources do not show all partitions; that such a sample lacks a topic says nothing.

    Args:
        rows: LOAD_SAMPLES, in any order, at most one per subject and sample.
        samples: Number of samples of the cluster.
    """
    # Only paths have slashes, and log dirs have no topic: no two subjects have the same key.
    names = [pc.cast(rows[name], TEXT) for name in SUBJECT]
    key = pc.binary_join_element_wise(*names, "/", null_handling="replace")
    code, keys = to_codes(key)
    sample, shape = to_numpy(rows["sample"]), (len(keys), samples)

    def spread(values: npt.NDArray[Any], missing: float) -> npt.NDArray[Any]:
        out = np.full(shape, missing, dtype=values.dtype)
        out[code, sample] = values
        return out

    row = spread(np.arange(rows.num_rows), -1)
    is_last = row[:, -1] >= 0 if samples else np.zeros(len(keys), dtype=bool)
    known, every = (to_numpy(pc.cast(rows[name], pa.float64()), np.nan) for name in ("partitions", "all_partitions"))
    partitions = spread(np.where(np.isnan(every), known, np.maximum(every, known)), np.nan)
    # The part of its replicas that a sample shows: of a broker or log dir, that of the cluster's partitions.
    with np.errstate(divide="ignore", invalid="ignore"):
        part_shown = spread(known, np.nan) / partitions
    kind = to_array(rows["subject_kind"])
    is_cluster = np.asarray(pc.equal(kind, SubjectKind.CLUSTER))
    of_cluster = part_shown[code[is_cluster][0]] if is_cluster.any() else np.ones(samples)
    of_cluster = np.nan_to_num(of_cluster, nan=1.0)
    is_place = np.asarray(pc.is_in(kind, pa.array([SubjectKind.BROKER, SubjectKind.LOG_DIR])))
    part_shown[code[is_place]] = of_cluster
    subjects = rows.select(list(SUBJECT)).take(pa.array(row[is_last, -1]))
    is_topic = np.asarray(pc.equal(to_array(subjects["subject_kind"]), SubjectKind.TOPIC))
    topic_ids = spread(to_codes(rows["topic_id"])[0], -1)[is_last]
    partitions, part_shown = partitions[is_last], part_shown[is_last]
    starts = _find_start(partitions, topic_ids, is_whole=of_cluster >= 1 - _MAX_CHANGE) * is_topic
    belongs = np.arange(samples) >= starts[:, None]
    values, left_out = {}, {}
    for quantity, count in QUANTITIES.items():
        array = to_numpy(pc.cast(rows[quantity], pa.float64()), np.nan)
        all_values = spread(array, np.nan)[is_last]
        with np.errstate(divide="ignore", invalid="ignore"):
            counts = spread(to_numpy(rows[count]).astype(np.float64), np.nan)[is_last]
            part = np.nan_to_num(part_shown if quantity == "replicas" else counts / partitions, nan=1.0)
        part = np.where(np.isnan(all_values), np.nan, part)
        is_used = belongs & (np.abs(part - _last_value(part)[:, None]) <= _MAX_CHANGE)
        values[quantity] = np.where(is_used, all_values, np.nan)
        left_out[quantity] = np.count_nonzero(~np.isnan(all_values) & ~is_used, axis=1)
    return LoadHistory(subjects, values, left_out)


def _find_start(partitions: Floats, topic_ids: npt.NDArray[np.int64], is_whole: Flags) -> npt.NDArray[np.int64]:
    """Return the first sample of each topic as it is now: int64 (topics).

    partitions: float64 (topics, samples), NaN = absent. topic_ids: codes, -1 = unknown. is_whole (samples): whether the
    sources show all partitions of the cluster, so that a topic that they lack does not exist.
    """
    before, now = partitions[:, :-1], partitions[:, 1:]
    old, new = topic_ids[:, :-1], topic_ids[:, 1:]
    begins = np.zeros(partitions.shape, dtype=bool)
    begins[:, 1:] = (np.isnan(before) & is_whole[:-1]) | (now < before) | ((old >= 0) & (new >= 0) & (old != new))
    index = np.where(begins, np.arange(partitions.shape[1]), 0)
    starts: npt.NDArray[np.int64] = index.max(axis=1, initial=0)
    return starts


def _last_value(values: Floats) -> Floats:
    """Return the last value of each row that is not NaN; NaN if it has none."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    index = np.where(np.isnan(values), 0, np.arange(values.shape[1])).max(axis=1)
    last: Floats = np.take_along_axis(values, index[:, None], axis=1)[:, 0]
    return last
