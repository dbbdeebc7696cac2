"""The bytes of replicas: of their own logs, else of the leader's."""

from __future__ import annotations

import pyarrow as pa

from pipelines.ingest.merge.entities import LOG
from udfs.failures.replica_logs import list_replica_bytes, measure_replicas


def log(size: int | None) -> dict[str, object]:
    return dict.fromkeys(field.name for field in LOG) | {"size_bytes": size}


def partitions(*rows: tuple[list[int] | None, list[dict[str, object] | None] | None, int | None]) -> pa.Table:
    fields = [("replicas", pa.list_(pa.int32())), ("logs", pa.list_(LOG)), ("size_bytes", pa.int64())]
    names = [name for name, _ in fields]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], pa.schema(fields))


def test_own_logs_come_first_and_leaders_replace_what_is_missing() -> None:
    table = partitions(
        ([1, 2, 3], [log(2_000), log(10_000), None], 2_000),  # broker 3 did not answer
        ([2, 1], None, 500),  # a model shows sizes of partitions alone
        (None, None, None),
        ([3], None, None),
    )
    measured = measure_replicas(table)
    assert measured.size.tolist() == [2_000, 10_000, 2_000, 500, 500, -1]
    assert measured.is_inferred.tolist() == [False, False, True, False, False, False]
    columns = list_replica_bytes(table)
    assert columns["replica_sizes"].to_pylist() == [[2_000, 10_000, 2_000], [500, 500], None, [None]]
    assert columns["unmeasured_replicas"].to_pylist() == [[3], [], None, []]
