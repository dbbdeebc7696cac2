"""Parsing a batch of records in two ways: columns where the text is as Kafka writes it, else one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.records import FACTS, Records


def rows_of(records: Records, rows: slice) -> Records:
    """The records of a range."""
    return Records(records.record_number[rows], records.line_number[rows], records.context[rows], records.raw[rows])


def pick(records: Records, rows: npt.NDArray[Any]) -> Records:
    """The records at these positions (int, ascending)."""
    at = rows.tolist()
    return Records(
        [records.record_number[i] for i in at],
        [records.line_number[i] for i in at],
        [records.context[i] for i in at],
        [records.raw[i] for i in at],
    )


def table_of(columns: dict[str, pa.Array], size: int) -> pa.Table:
    """A table of schema FACTS of some of its columns; the others are null."""
    arrays = [columns[field.name] if field.name in columns else pa.nulls(size, field.type) for field in FACTS]
    return pa.Table.from_arrays(arrays, schema=FACTS)


def with_origin(columns: dict[str, pa.Array], records: Records, rows: npt.NDArray[Any]) -> pa.Table:
    """A table of schema FACTS of columns that were parsed from the records at these positions."""
    numbers = pa.array(records.record_number, pa.int64()).take(pa.array(rows))
    lines = pa.array(records.line_number, pa.int64()).take(pa.array(rows))
    return table_of(columns | {"record_number": numbers, "line_number": lines}, len(rows))


def in_order(parts: Sequence[pa.Table]) -> pa.Table:
    """The rows of all parts, by record number."""
    table = pa.concat_tables([part for part in parts if part.num_rows] or parts[:1])
    return table.take(pc.sort_indices(table["record_number"])).combine_chunks()
