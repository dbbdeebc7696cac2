"""Describe tables: columns with units and comments, keys, partitioning, expectations."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from udfs.arrow.columns import TEXT, column, get_comment

SNAPSHOT_KEY = ("cluster_id", "snapshot_id")  # a cluster at the time of its sources


class Between(NamedTuple):
    """Expect values within [low, high]; nulls pass; None = no limit."""

    column: str
    low: float | None = None
    high: float | None = None


class Matches(NamedTuple):
    """Expect texts that match a regular expression as a whole; nulls pass."""

    column: str
    regex: str


class OneOf(NamedTuple):
    """Expect one of some values; nulls pass."""

    column: str
    values: tuple[str, ...]


class NoRowWhere(NamedTuple):
    """Expect no row that meets an SQL condition; `fault` says what such a row does."""

    name: str
    condition: str
    fault: str


Expectation = Between | Matches | OneOf | NoRowWhere


@dataclass(frozen=True)
class Table:
    """A Delta table."""

    name: str  # Its name, as schema.table
    comment: str  # What a row is
    columns: tuple[pa.Field, ...]  # Its columns, made by `udfs.arrow.columns.column`
    keys: tuple[str, ...]  # Columns that are unique together and never null, which is an expectation of every table
    partition_by: tuple[str, ...] = ()  # Columns that it is partitioned by
    # Columns whose ranges Delta records for each file, to skip files; empty = Delta's default
    skip_by: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()  # Other expectations
    append_only: bool = False  # Whether rows are only appended
    only_newest: bool = False  # Whether rows of older snapshots of a cluster are removed; partitioned by cluster_id
    gated: bool = False  # Whether a fault stops a run before gold

    @property
    def schema(self) -> StructType:
        """The Spark schema, with comments."""
        return StructType(
            [
                StructField(c.name, from_arrow_type(c.type), not self.is_required(c.name), {"comment": get_comment(c)})
                for c in self.columns
            ]
        )

    def select(self, names: Iterable[str]) -> pa.Schema:
        """Return columns with their types."""
        by_name = {c.name: c for c in self.columns}
        return pa.schema([pa.field(name, by_name[name].type) for name in names])

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return [c.name for c in self.columns]

    def is_required(self, name: str) -> bool:
        """Tell whether a column is never null."""
        return name in self.keys or any(c.name == name and not c.nullable for c in self.columns)


_CLUSTER = column("cluster_id", TEXT, "name of the cluster", required=True)
_SNAPSHOT = column("snapshot_id", TEXT, "digest of the cluster's sources", required=True)
_SCHEME = column("scheme", TEXT, "placement scheme; observed = the cluster's own placement", required=True)


def columns(*others: pa.Field, scheme: bool = False) -> tuple[pa.Field, ...]:
    """List the columns of a table: first the keys that all tables share, then others."""
    return (_CLUSTER, _SNAPSHOT, *((_SCHEME,) if scheme else ()), *others)
