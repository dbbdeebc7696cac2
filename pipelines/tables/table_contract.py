"""What a table's contract is made of: columns with units and comments, keys, partitioning, expectations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql.types import ArrayType, DataType, IntegerType, StringType, StructField, StructType


@dataclass(frozen=True)
class Column:
    """A column. `required`: never null."""

    name: str
    type: DataType
    comment: str
    required: bool = False


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
    columns: tuple[Column, ...]
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
                StructField(c.name, c.type, not (c.required or c.name in self.keys), {"comment": c.comment})
                for c in self.columns
            ]
        )

    @property
    def column_names(self) -> list[str]:
        return [c.name for c in self.columns]


INTS = ArrayType(IntegerType(), True)
TEXTS = ArrayType(StringType(), True)

CLUSTER = Column("cluster_id", StringType(), "the cluster's name", required=True)
SNAPSHOT = Column("snapshot_id", StringType(), "stands for the content of the cluster's sources", required=True)
SCHEME = Column("scheme", StringType(), "placement scheme: observed = as the cluster is", required=True)


def columns(*rest: Column, scheme: bool = False) -> tuple[Column, ...]:
    """The columns of a table, led by the keys that all tables share."""
    lead: Sequence[Column] = (CLUSTER, SNAPSHOT, SCHEME) if scheme else (CLUSTER, SNAPSHOT)
    return (*lead, *rest)
