"""Turn a table's contract into rules: each has a name, and the SQL condition that a faulty row meets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.sql_conditions import quote_text
from pipelines.tables.table_contract import Between, Expectation, Matches, NoRowWhere, OneOf, Table


@dataclass(frozen=True)
class Rule:
    """An expectation of a table."""

    name: str  # Its name, unique within the table
    kind: str  # Class of gx_expectations
    parameters: Mapping[str, object]  # Parameters of the class
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
    """List the rules of a table's contract.

    Raises:
        ValueError: If two have the same name.
    """
    rules = [
        _make_rule(table, f"{name}_not_null", "ExpectNoNull", {"column": name}, f"`{name}` IS NULL", f"has no {name}")
        for name in table.column_names
        if table.is_required(name)
    ]
    if table.keys:
        fault = f"has the keys of another row: {', '.join(table.keys)}"
        rules.append(_make_rule(table, "keys_unique", "ExpectUniqueKeys", {"fault": fault}, "", fault))
    rules += [_convert(table, expectation) for expectation in table.expectations]
    names = [rule.name for rule in rules]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{table.name} has two expectations named {', '.join(repeated)}: give them different names")
    return rules


def _convert(table: Table, expectation: Expectation) -> Rule:
    parameters: dict[str, object]
    match expectation:
        case Between(column, low, high):
            limits = [("at least", ">=", low), ("at most", "<=", high)]
            checks = [f"`{column}` {sign} {limit}" for _, sign, limit in limits if limit is not None]
            texts = [f"{text} {limit}" for text, _, limit in limits if limit is not None]
            parameters = {"column": column, "min_value": low, "max_value": high}
            condition, fault = f"NOT ({' AND '.join(checks)})", f"has {column} that is not {' and '.join(texts)}"
            return _make_rule(table, f"{column}_between", "ExpectBetween", parameters, condition, fault)
        case Matches(column, regex):
            whole = rf"\A(?:{regex})\z"  # Java's `$` would also match before a final line break
            condition, fault = f"NOT `{column}` RLIKE {quote_text(whole)}", f"has {column} that does not match {regex}"
            parameters = {"column": column, "regex": whole}
            return _make_rule(table, f"{column}_matches", "ExpectMatch", parameters, condition, fault)
        case OneOf(column, values):
            condition = f"`{column}` NOT IN ({', '.join(map(quote_text, values))})"
            fault = f"has {column} that is none of {', '.join(values)}"
            parameters = {"column": column, "value_set": list(values)}
            return _make_rule(table, f"{column}_one_of", "ExpectOneOf", parameters, condition, fault)
        case NoRowWhere(name, condition, fault):
            return _make_rule(table, name, "ExpectNoRowWhere", {"fault": fault}, condition, fault)


def _make_rule(
    table: Table, name: str, kind: str, parameters: Mapping[str, object], condition: str, fault: str
) -> Rule:
    # A name before a bracket is a function, as in size(replicas).
    at_fault = [c for c in table.column_names if re.search(rf"\b{re.escape(c)}\b(?!\()", condition)]
    return Rule(name, kind, parameters, condition, fault, tuple(dict.fromkeys([*table.keys, *at_fault])))
