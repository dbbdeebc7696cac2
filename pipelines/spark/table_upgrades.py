"""Create tables, and find what those that an earlier version of this program has written lack, to continue them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from pipelines.errors import StoreError
from pipelines.sql_text import quote_text
from pipelines.tables.earlier_tables import find_earlier_columns
from pipelines.tables.table_contract import Table

# A property of each table. Raise it when tables or columns go, get another name, or another meaning: earlier_tables.py.
VERSION_PROPERTY = "kafkaPlacement.tableVersion"
TABLE_VERSION = 3
# Commits between two checkpoints, as Spark's: without these files, reading a table takes longer with each commit.
CHECKPOINT_INTERVAL = 25  # each is a file more in a night
_REMEDY = "Load its sources into another folder: kafka-placement run SOURCE... --warehouse DIR"


@dataclass(frozen=True)
class TableState:
    """What a table is."""

    schema: StructType
    version: int  # 0 = written before versions were recorded

    @classmethod
    def of_properties(cls, schema: StructType, properties: Mapping[str, str]) -> "TableState":
        """Return the state of a table with these properties."""
        version = properties.get(VERSION_PROPERTY, "0")
        return cls(schema, int(version) if version.isdecimal() else 0)


@dataclass(frozen=True)
class Upgrade:
    """What a table lacks. Rows that it has already are null in new columns."""

    new_fields: Mapping[str, StructField]  # by path: new columns, and new fields of structs in columns
    new_columns: tuple[StructField, ...]  # the columns that have these, with all their fields
    new_comments: Mapping[str, str]  # by column
    sets_version: bool
    earlier_columns: tuple[str, ...] = ()  # columns of earlier_tables.py, with which it cannot be written

    @property
    def is_empty(self) -> bool:
        """Whether the table lacks nothing."""
        return not (self.new_columns or self.new_comments or self.sets_version or self.earlier_columns)


def find_upgrade(table: Table, state: TableState, place: str) -> Upgrade:
    """Find what a table lacks; raise StoreError if a newer version has written it, or it cannot be continued."""
    if state.version > TABLE_VERSION:
        problem = f"{place} was written by a newer version of kafka-placement: it has tables of version {state.version}"
        raise StoreError(f"{problem}, and this one knows those up to {TABLE_VERSION}. Install that version again")
    existing = {field.name: field for field in state.schema}
    expected = {field.name: field for field in table.schema}
    earlier = find_earlier_columns(table.name) if state.version < TABLE_VERSION else {}
    if extra := [name for name in existing if name not in expected and name not in earlier]:
        raise _make_version_error(place, f"has columns that no longer exist: {', '.join(extra)}")
    new_fields = {f"`{name}`": field for name, field in expected.items() if name not in existing}
    for name, field in existing.items():
        if now := expected.get(earlier.get(name) or name):
            new_in_structs = _find_new_fields(f"`{name}`", field.dataType, now.dataType)
            if new_in_structs is None:
                types = field.dataType.simpleString(), now.dataType.simpleString()
                raise _make_version_error(place, f"has column {name} with type {types[0]}, not {types[1]}")
            new_fields |= new_in_structs
    new_columns = {path.split("`")[1] for path in new_fields}
    return Upgrade(
        new_fields,
        tuple(field for name, field in expected.items() if name in new_columns),
        {
            name: field.metadata["comment"]
            for name, field in expected.items()
            if name in existing and existing[name].metadata.get("comment") != field.metadata["comment"]
        },
        state.version != TABLE_VERSION,
        tuple(name for name in existing if name in earlier),
    )


def list_properties(skip_by: Iterable[str]) -> dict[str, str]:
    """List the properties of a new table. skip_by: columns whose ranges each file records; empty = Delta's default."""
    properties = {VERSION_PROPERTY: str(TABLE_VERSION), "delta.checkpointInterval": str(CHECKPOINT_INTERVAL)}
    if columns := ",".join(skip_by):
        properties["delta.dataSkippingStatsColumns"] = columns
    return properties


def make_create_statement(table: Table, sql_name: str) -> str:
    """Make the statement of Spark that creates a table by its contract."""
    columns = (_describe_column(field, "" if field.nullable else " NOT NULL") for field in table.schema.fields)
    return f"CREATE TABLE IF NOT EXISTS {sql_name} ({', '.join(columns)}) {_describe_table(table)}"


def make_replace_statement(table: Table, sql_name: str, query: str) -> str:
    """Make the statement of Spark that creates a table, or replaces all of it, with the rows of a query."""
    return f"CREATE OR REPLACE TABLE {sql_name} {_describe_table(table)} AS {query}"


def make_alter_clauses(upgrade: Upgrade) -> list[str]:
    """Make the clauses of ALTER TABLE that upgrade a table with Spark, the version last."""
    clauses = [f"ALTER COLUMN `{name}` COMMENT {quote_text(text)}" for name, text in upgrade.new_comments.items()]
    if upgrade.new_fields:
        columns = (_describe_column(field, path=path) for path, field in upgrade.new_fields.items())
        clauses.append(f"ADD COLUMNS ({', '.join(columns)})")
    return [*clauses, *([f"SET {_set_properties({VERSION_PROPERTY: str(TABLE_VERSION)})}"] * upgrade.sets_version)]


def _describe_table(table: Table) -> str:
    partitioned = f"PARTITIONED BY ({', '.join(table.partition_by)}) " if table.partition_by else ""
    properties = _set_properties(list_properties(table.skip_by))
    return f"USING delta {partitioned}COMMENT {quote_text(table.comment)} {properties}"


def _find_new_fields(path: str, existing: DataType, expected: DataType) -> dict[str, StructField] | None:
    """Find the fields by which the structs in a type have grown, by path; None if the types differ otherwise."""
    if existing == expected:
        return {}
    if isinstance(existing, ArrayType) and isinstance(expected, ArrayType):
        return _find_new_fields(f"{path}.element", existing.elementType, expected.elementType)
    if not (isinstance(existing, StructType) and isinstance(expected, StructType)):
        return None
    names = existing.names
    if names != expected.names[: len(names)]:
        return None
    new_fields = {f"{path}.`{field.name}`": field for field in expected.fields[len(names) :]}
    for field, now in zip(existing, expected, strict=False):
        inner = _find_new_fields(f"{path}.`{field.name}`", field.dataType, now.dataType)
        if inner is None:
            return None
        new_fields |= inner
    return new_fields


def _describe_column(field: StructField, constraint: str = "", path: str = "") -> str:
    comment = quote_text(field.metadata.get("comment", ""))
    return f"{path or f'`{field.name}`'} {field.dataType.simpleString()}{constraint} COMMENT {comment}"


def _set_properties(properties: Mapping[str, str]) -> str:
    pairs = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    return f"TBLPROPERTIES ({pairs})"


def make_migration_error(place: str) -> StoreError:
    """Make the error for a table of an earlier version, where others have other names or columns."""
    problem = f"{place} was written by an earlier version of kafka-placement, whose tables had other names and columns"
    return StoreError(f"{problem}. To upgrade all tables, with their rows: kafka-placement maintain --warehouse DIR")


def _make_version_error(place: str, problem: str) -> StoreError:
    return StoreError(f"{place} was written by another version of kafka-placement: it {problem}. {_REMEDY}")
