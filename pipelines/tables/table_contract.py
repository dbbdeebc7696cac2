"""What a table's contract is made of: columns with units and comments, keys, partitioning, expectations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from udfs.arrow.table_columns import TEXT, column, get_comment


@dataclass(frozen=True)
class Between:
    """Values lie in [low, high]; null values pass; None = no limit."""

    column: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Matches:
    """Text values match a regular expression as a whole; null values pass."""

    column: str
    regex: str


@dataclass(frozen=True)
class OneOf:
    """Values are among these; null values pass."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class NoRowWhere:
    """No row fulfils `condition` (SQL); `says` is the fault in words."""

    name: str
    condition: str
    says: str


Expectation = Between | Matches | OneOf | NoRowWhere


@dataclass(frozen=True)
class Table:
    """One Delta table. Keys are unique and never null; that is an expectation of every table that has keys."""

    name: str  # schema.table
    comment: str
    columns: tuple[pa.Field, ...]  # see udfs.arrow.table_columns.column
    keys: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    skip_by: tuple[str, ...] = ()  # columns whose range each file tells; () = Delta's default, every column
    expectations: tuple[Expectation, ...] = ()
    append_only: bool = False
    gated: bool = field(default=False)  # checked before gold: a fault stops the run

    @property
    def schema(self) -> StructType:
        """The Spark schema, comments included."""
        return StructType(
            [
                StructField(c.name, from_arrow_type(c.type), not self.is_required(c), {"comment": get_comment(c)})
                for c in self.columns
            ]
        )

    def is_required(self, column: pa.Field) -> bool:
        """Return whether a column is never null."""
        return not column.nullable or column.name in self.keys

    @property
    def column_names(self) -> list[str]:
        return [c.name for c in self.columns]


CLUSTER = column("cluster_id", TEXT, "the cluster's name", required=True)
SNAPSHOT = column("snapshot_id", TEXT, "stands for the content of the cluster's sources", required=True)
SCHEME = column("scheme", TEXT, "placement scheme: observed = as the cluster is", required=True)


def columns(*rest: pa.Field, scheme: bool = False) -> tuple[pa.Field, ...]:
    """The columns of a table, led by the keys that all tables share."""
    lead: Sequence[pa.Field] = (CLUSTER, SNAPSHOT, SCHEME) if scheme else (CLUSTER, SNAPSHOT)
    return (*lead, *rest)
