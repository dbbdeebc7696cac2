"""Rules of tables, made from their contracts, and what checks find."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pipelines.ingest.sources import SnapshotKey
from pipelines.sql_text import quote_text
from pipelines.tables.table_contract import Between, Expectation, Matches, NoRowWhere, OneOf, Table


class Rule(NamedTuple):
    """A rule that no row of a table may break."""

    name: str  # Its name, unique within the table
    condition: str  # SQL condition that a faulty row meets; empty for unique keys, where no single row is faulty
    fault: str  # What a faulty row does, in words
    example_columns: tuple[str, ...]  # Columns that an example of a faulty row shows


@dataclass(frozen=True)
class Finding:
    """The result of a rule over a table."""

    table_name: str  # The table
    expectation: str  # Name of the rule
    fault: str  # What a faulty row does, in words
    success: bool  # Whether no row is faulty
    checked_rows: int  # Rows of the table
    unexpected_rows: int  # Faulty rows
    example: str | None = None  # The keys and the columns at fault of one of them, as JSON
    # Number of faulty rows and an example by snapshot that has any
    by_snapshot: Mapping[SnapshotKey, tuple[int, str | None]] = field(default_factory=dict)

    def describe(self) -> str:
        """Describe the finding in a sentence."""
        subject = f"{self.table_name}: {self.expectation}"
        if self.success:
            return f"{subject}: holds for {self.checked_rows:,} rows"
        rows = f"{self.unexpected_rows:,} of {self.checked_rows:,} rows"
        return f"{subject}: {rows}: a row {self.fault}, for example {self.example}"


def list_rules(table: Table) -> list[Rule]:
    """List the rules of a table's contract; raise ValueError if two have the same name."""
    rules = [Rule(*rule, _list_example_columns(table, rule[1])) for rule in _describe_rules(table)]
    names = [rule.name for rule in rules]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{table.name} has two expectations named {', '.join(repeated)}: give them different names")
    return rules


def _describe_rules(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yield name, condition and fault of each rule."""
    for name in filter(table.is_required, table.column_names):
        yield f"{name}_not_null", f"`{name}` IS NULL", f"has no {name}"
    if table.keys:
        yield "keys_unique", "", f"has the keys of another row: {', '.join(table.keys)}"
    yield from map(_convert, table.expectations)


def _convert(expectation: Expectation) -> tuple[str, str, str]:
    match expectation:
        case Between(column, low, high):
            limits = [("at least", ">=", low), ("at most", "<=", high)]
            checks = [f"`{column}` {sign} {limit}" for _, sign, limit in limits if limit is not None]
            texts = [f"{text} {limit}" for text, _, limit in limits if limit is not None]
            fault = f"has {column} that is not {' and '.join(texts)}"
            return f"{column}_between", f"NOT ({' AND '.join(checks)})", fault
        case Matches(column, regex):
            whole = quote_text(rf"\A(?:{regex})\z")  # Java's `$` would also match before a final line break
            return f"{column}_matches", f"NOT `{column}` RLIKE {whole}", f"has {column} that does not match {regex}"
        case OneOf(column, values):
            condition = f"`{column}` NOT IN ({', '.join(map(quote_text, values))})"
            return f"{column}_one_of", condition, f"has {column} that is none of {', '.join(values)}"
        case NoRowWhere():
            return expectation


def _list_example_columns(table: Table, condition: str) -> tuple[str, ...]:
    # A name before a bracket is a function, as in size(replicas).
    at_fault = [c for c in table.column_names if re.search(rf"\b{re.escape(c)}\b(?!\()", condition)]
    return tuple(dict.fromkeys([*table.keys, *at_fault]))
