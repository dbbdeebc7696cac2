"""Compare the tables of two warehouses row by row: did a change of the code change any result?

    python -m tests.bench.compare_tables BEFORE AFTER

Prints a line per table of BEFORE: its rows, and how many of them the other warehouse lacks, with the first of these.
Exit code 1 if any table differs. Where a change renames tables, columns or values on purpose, options name them;
`@FILE` reads options from a file, one per line. ops.runs and `ingested_at`, which tell when, are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

TABLES_OF_TIMES = ("ops.runs",)
COLUMNS_OF_TIMES = ("ingested_at",)
SHOWN = 2


def list_tables(warehouse: Path) -> list[str]:
    """Return the names of the tables in a warehouse, as gold.plans."""
    logs = sorted(warehouse.glob("*/*/_delta_log"))
    return [f"{log.parent.parent.name}.{log.parent.name}" for log in logs]


def read_table(warehouse: Path, name: str) -> pa.Table:
    """Read a table as another reader than Spark sees it."""
    return DeltaTable(str(warehouse / name.replace(".", "/"))).to_pyarrow_table()


def find_differences(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows that `before` has more often than `after`, and the other way round. Columns are the same."""
    with duckdb.connect() as connection:
        connection.register("before", before)
        connection.register("after", after)
        query = "SELECT * FROM {} EXCEPT ALL SELECT * FROM {}"
        gone = connection.sql(query.format("before", "after")).to_arrow_table()
        added = connection.sql(query.format("after", "before")).to_arrow_table()
    return gone, added


def replace_values(table: pa.Table, name: str, replaced: dict[str, str]) -> pa.Table:
    """Replace parts of text columns, which `replaced` names as table.column.old = new."""
    for i, field in enumerate(table.schema):
        prefix = f"{name}.{field.name}."
        for key in sorted((key for key in replaced if key.startswith(prefix)), key=len, reverse=True):
            column = pc.replace_substring(table[field.name], key.removeprefix(prefix), replaced[key])
            table = table.set_column(i, field.name, column)
    return table


def list_ignored(columns: Sequence[str], table: str, patterns: Iterable[str]) -> list[str]:
    """List the columns of a table that a pattern names, as `column` or `table.column`."""
    return [c for c in columns if any(fnmatchcase(c, p) or fnmatchcase(f"{table}.{c}", p) for p in patterns)]


def compare(before: Path, after: Path, options: argparse.Namespace) -> list[str]:
    """Print a line per table of `before`. Return the names of those that differ."""
    for warehouse in (before, after):
        if not list_tables(warehouse):
            raise SystemExit(f"{warehouse}: there is no table. Name the folder of a warehouse")
    renamed, replaced = (dict(pair.split("=", 1) for pair in pairs) for pairs in (options.rename, options.value))
    ignored = {*COLUMNS_OF_TIMES, *options.ignore}
    differing = []
    for name in list_tables(before):
        if name in (*TABLES_OF_TIMES, *options.skip):
            continue
        new_name = renamed.get(name, name)
        if new_name not in list_tables(after):
            print(f"{name:28} MISSING")
            differing.append(name)
            continue
        old, new = read_table(before, name), read_table(after, new_name)
        old = old.rename_columns([renamed.get(f"{name}.{column}", column) for column in old.column_names])
        old, new = (table.drop_columns(list_ignored(table.column_names, new_name, ignored)) for table in (old, new))
        if sorted(old.column_names) != sorted(new.column_names):
            print(f"{name:28} COLUMNS {sorted(set(old.column_names) ^ set(new.column_names))}")
            differing.append(name)
            continue
        gone, added = find_differences(replace_values(old, new_name, replaced), new.select(old.column_names))
        if gone.num_rows or added.num_rows:
            print(f"{name:28} {old.num_rows:9} rows, {gone.num_rows} gone, {added.num_rows} new")
            for sign, rows in (("-", gone), ("+", added)):
                for row in rows.slice(0, SHOWN).to_pylist():
                    print(f"  {sign} {str(row)[:600]}")
            differing.append(name)
        else:
            print(f"{name:28} {old.num_rows:9} rows, the same")
    return differing


def main(argv: list[str]) -> int:
    """Return 0 if the tables are the same, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@"
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    many = {"action": "append", "default": []}
    parser.add_argument("--rename", metavar="OLD=NEW", help="a table, or a column as old_table.column=new", **many)
    parser.add_argument(
        "--value", metavar="TABLE.COLUMN.OLD=NEW", help="a part of a text column, by its new name", **many
    )
    parser.add_argument(
        "--ignore", metavar="COLUMN", help="a column or table.column, by its new name; * = any text", **many
    )
    parser.add_argument("--skip", metavar="TABLE", help="a table of BEFORE", **many)
    options = parser.parse_args(argv)
    differing = compare(options.before, options.after, options)
    print(f"{len(differing)} tables differ" if differing else "no table differs")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
