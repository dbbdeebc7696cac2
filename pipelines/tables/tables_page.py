"""Render docs/tables.md, which lists every table and column, from the contracts; `make docs` writes it."""

import sys
from collections.abc import Iterable, Iterator

from pyspark.sql.pandas.types import from_arrow_type

from pipelines.tables import TABLES
from pipelines.tables.table_contract import Between, Expectation, Matches, NoRowWhere, OneOf, Table
from udfs.arrow.column_declarations import get_comment

_HEAD = """# Tables

`make docs` renders this page from `pipelines/tables/`. Each section is one Delta table; `cluster_id`, `snapshot_id`
and `scheme` mean the same in all of them. Columns with ● are never null. Expectations of bronze and silver tables are
checked before gold tables are written; the tests check those of gold tables.
"""
_MAX_TYPE_LENGTH = 60


def render_page(tables: Iterable[Table]) -> str:
    """Render the page as Markdown."""
    tables = list(tables)
    index = [f"- [`{table.name}`](#{table.name.replace('.', '').lower()}): {table.comment}" for table in tables]
    return "\n".join([_HEAD, *index, "", *(line for table in tables for line in _render_table(table))]) + "\n"


def _render_table(table: Table) -> Iterator[str]:
    yield from (f"## {table.name}", "", table.comment, "")
    facts = []
    if table.keys:
        facts.append(f"Keys: {_render_names(table.keys)}.")
    if table.partition_by:
        facts.append(f"Partitioned by {_render_names(table.partition_by)}.")
    if table.append_only:
        facts.append("Rows are only appended.")
    if facts:
        yield from (" ".join(facts), "")
    yield from ("| column | type | |", "|---|---|---|")
    for column in table.columns:
        required = " ●" if table.is_required(column.name) else ""
        type_name = from_arrow_type(column.type).simpleString()
        if len(type_name) > _MAX_TYPE_LENGTH:
            type_name = f"{type_name[: _MAX_TYPE_LENGTH - 3]}..."
        yield f"| `{column.name}`{required} | `{type_name}` | {_escape_cell(get_comment(column))} |"
    yield ""
    if table.expectations:
        yield from (f"Expected: {'; '.join(map(_render_expectation, table.expectations))}.", "")


def _render_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _render_expectation(expectation: Expectation) -> str:
    match expectation:
        case Between(column, low, high):
            limits = [f"at least {low:g}"] if low is not None else []
            limits += [f"at most {high:g}"] if high is not None else []
            return f"`{column}` is {' and '.join(limits)}"
        case Matches(column, regex):
            return f"`{column}` matches `{_escape_cell(regex)}`"
        case OneOf(column, values):
            return f"`{column}` is one of {', '.join(values)}"
        case NoRowWhere(_, _, fault):
            return f"no row {fault}"


if __name__ == "__main__":
    sys.stdout.write(render_page(TABLES.values()))
