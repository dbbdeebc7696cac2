"""Render docs/tables.md, which lists every column of tables and views, from the contracts; `make docs` writes it."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from pipelines.spark.views import VIEWS, View
from pipelines.tables import TABLES
from pipelines.tables.table_contract import Between, Expectation, Matches, NoRowWhere, OneOf, Table
from udfs.arrow.columns import get_comment

_HEAD = """# Tables

`make docs` renders this page from `pipelines/tables/` and `pipelines/spark/view_columns.py`. Each section is one Delta
table, or one view (schema `insights`), which a run also writes as a table; `cluster_id`, `snapshot_id` and `scheme`
mean the same in all of them. Columns of tables with ● are never null. Expectations of bronze and silver tables are
checked before gold tables are written; the tests check those of gold tables.
"""
_MAX_TYPE_LENGTH = 60


def render_page(tables: Iterable[Table], views: Iterable[View]) -> str:
    """Render the page as Markdown."""
    tables, views = list(tables), list(views)
    comments = {table.name: table.comment for table in tables} | {view.name: view.comment for view in views}
    index = [f"- [`{name}`](#{name.replace('.', '').lower()}): {text}" for name, text in comments.items()]
    sections = [*map(_render_table, tables), *map(_render_view, views)]
    return "\n".join([_HEAD, *index, "", *(line for section in sections for line in section)]) + "\n"


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
    required = {column.name for column in table.columns if table.is_required(column.name)}
    yield from _render_columns(table.columns, required)
    if table.expectations:
        yield from (f"Expected: {'; '.join(map(_render_expectation, table.expectations))}.", "")


def _render_view(view: View) -> Iterator[str]:
    yield from (f"## {view.name}", "", view.comment, "", f"A view over {_render_names(view.dependencies)}.", "")
    yield from _render_columns(view.columns, set())


def _render_columns(columns: Sequence[pa.Field], required: Collection[str]) -> Iterator[str]:
    yield from ("| column | type | |", "|---|---|---|")
    for column in columns:
        mark = " ●" if column.name in required else ""
        type_name = from_arrow_type(column.type).simpleString()
        if len(type_name) > _MAX_TYPE_LENGTH:
            type_name = f"{type_name[: _MAX_TYPE_LENGTH - 3]}..."
        yield f"| `{column.name}`{mark} | `{type_name}` | {_escape_cell(get_comment(column))} |"
    yield ""


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
    sys.stdout.write(render_page(TABLES.values(), VIEWS))
