"""Compare the tables of two warehouses row by row: did a change of the code change any result?

    python -m tests.bench.compare_tables BEFORE AFTER

Prints a line a table: its rows, and how many of them the other warehouse lacks, with the first of these. Exit code 1 if
any table differs. `--rename gold.old=gold.new` and `--rename gold.table.old=new` name tables and columns that have
another name in AFTER; `--ignore COLUMN` leaves a column out. Both warehouses are folders; the tables of BEFORE are
compared. ops.runs, which tells when and how long, is left out, and so is `ingested_at`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

LEFT_OUT = ("ops.runs",)
CLOCKS = ("ingested_at",)
SHOWN = 2


def tables_in(warehouse: Path) -> list[str]:
    """Return the names of the tables in a warehouse, as gold.plans."""
    logs = sorted(warehouse.glob("*/*/_delta_log"))
    return [f"{log.parent.parent.name}.{log.parent.name}" for log in logs]


def read(warehouse: Path, name: str) -> pa.Table:
    """Read a table as another reader than Spark sees it."""
    return DeltaTable(str(warehouse / name.replace(".", "/"))).to_pyarrow_table()


def compared(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows that `before` has more often than `after`, and the other way round. Columns are the same."""
    with duckdb.connect() as connection:
        connection.register("before", before)
        connection.register("after", after)
        query = "SELECT * FROM {} EXCEPT ALL SELECT * FROM {}"
        gone = connection.sql(query.format("before", "after")).to_arrow_table()
        new = connection.sql(query.format("after", "before")).to_arrow_table()
    return gone, new


def compare(before: Path, after: Path, renamed: dict[str, str], ignored: set[str]) -> list[str]:
    """Print a line a table of `before`. Return the names of those that differ."""
    differing = []
    for name in tables_in(before):
        if name in LEFT_OUT:
            continue
        new_name = renamed.get(name, name)
        if new_name not in tables_in(after):
            print(f"{name:28} MISSING")
            differing.append(name)
            continue
        old, new = read(before, name), read(after, new_name)
        old = old.drop_columns([c for c in old.column_names if c in ignored])
        old = old.rename_columns([renamed.get(f"{name}.{c}", c) for c in old.column_names])
        new = new.drop_columns([c for c in new.column_names if c in ignored])
        if sorted(old.column_names) != sorted(new.column_names):
            print(f"{name:28} COLUMNS {sorted(set(old.column_names) ^ set(new.column_names))}")
            differing.append(name)
            continue
        gone, added = compared(old, new.select(old.column_names))
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument("--ignore", action="append", default=[], metavar="COLUMN")
    given = parser.parse_args(argv)
    renamed = dict(pair.split("=", 1) for pair in given.rename)
    differing = compare(given.before, given.after, renamed, {*CLOCKS, *given.ignore})
    print(f"{len(differing)} tables differ" if differing else "no table differs")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
