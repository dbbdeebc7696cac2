"""Functions of the rows that two frames have of each snapshot."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from pipelines.spark.arrow_frames import apply_to_pairs

_COUNTS = pa.schema(
    [("cluster_id", pa.string()), ("snapshot_id", pa.string()), ("left", pa.int64()), ("sum", pa.int64())]
)
_KEY = "cluster_id STRING NOT NULL, snapshot_id STRING NOT NULL"


def count_rows(key: tuple[pa.Scalar, ...], left: pa.Table, right: pa.Table) -> pa.Table:
    total = sum(len(values) for values in right["values"].to_pylist() if values is not None)
    return pa.Table.from_pylist(
        [dict(zip(_COUNTS.names, (*(k.as_py() for k in key), left.num_rows, total), strict=True))]
    )


def test_a_snapshot_may_be_in_one_frame_only(spark: SparkSession) -> None:
    """Columns without nulls, as tables have them, are paired with others."""
    left = spark.createDataFrame([("a", "1", 1), ("a", "1", None), ("b", "2", 3)], f"{_KEY}, n INT")
    right = spark.createDataFrame([("a", "1", [1, 2]), ("a", "1", None), ("c", "3", [4])], f"{_KEY}, values ARRAY<INT>")
    rows = apply_to_pairs(left, right, count_rows, _COUNTS).toArrow().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [("a", "1", 2, 2), ("b", "2", 1, 0), ("c", "3", 0, 1)]
    none = apply_to_pairs(left.where("n > 5"), right.where("false"), count_rows, _COUNTS)
    assert none.toArrow().to_pylist() == []
