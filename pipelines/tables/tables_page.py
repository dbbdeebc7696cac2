"""docs/tables.md: every table and column, from the contracts. `make docs` writes it; a test holds it to be current."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from pyspark.sql.pandas.types import from_arrow_type

from pipelines.tables import TABLES
from pipelines.tables.table_contract import Between, Expectation, Matches, NoRowWhere, OneOf, Table
from udfs.arrow.table_columns import get_comment

_HEAD = """# Tables

Made of the contracts in `pipelines/tables/` by `make docs`. Each is one Delta table; `cluster_id`, `snapshot_id` and
`scheme` mean the same in all of them. Columns with ● are never null. What is expected of a table is checked: of silver
before gold is made, of gold in the tests.
"""


def markdown(tables: Iterable[Table]) -> str:
    """The whole page."""
    held = list(tables)
    index = [f"- [`{table.name}`](#{_anchor(table.name)}): {table.comment}" for table in held]
    return "\n".join([_HEAD, *index, "", *(line for table in held for line in _section(table))]) + "\n"


def _anchor(name: str) -> str:
    return name.replace(".", "").lower()


def _section(table: Table) -> Iterator[str]:
    yield f"## {table.name}"
    yield ""
    yield table.comment
    yield ""
    facts = []
    if table.keys:
        facts.append(f"Keys: {_names(table.keys)}.")
    if table.partition_by:
        facts.append(f"Partitioned by {_names(table.partition_by)}.")
    if table.append_only:
        facts.append("Rows are only added.")
    if facts:
        yield " ".join(facts)
        yield ""
    yield "| column | type | |"
    yield "|---|---|---|"
    for column in table.columns:
        always = " ●" if table.is_required(column) else ""
        kind = from_arrow_type(column.type).simpleString()
        shown = kind if len(kind) <= 60 else f"{kind[:57]}..."
        yield f"| `{column.name}`{always} | `{shown}` | {_cell(get_comment(column))} |"
    yield ""
    if table.expectations:
        yield "Expected: " + "; ".join(map(_expected, table.expectations)) + "."
        yield ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _expected(one: Expectation) -> str:
    match one:
        case Between(column, low, high):
            ends = [f"at least {low:g}"] if low is not None else []
            ends += [f"at most {high:g}"] if high is not None else []
            return f"`{column}` is {' and '.join(ends)}"
        case Matches(column, regex):
            return f"`{column}` matches `{_cell(regex)}`"
        case OneOf(column, values):
            return f"`{column}` is one of {', '.join(values)}"
        case NoRowWhere(_, _, says):
            return f"no row {says}"


if __name__ == "__main__":
    sys.stdout.write(markdown(TABLES.values()))
