"""A table's contract as rules: each with a name, and the SQL condition that a faulty row fulfils."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipelines.tables.table_contract import Between, Expectation, Matches, NoRowWhere, OneOf, Table


@dataclass(frozen=True)
class NotNull:
    """The column is never null."""

    column: str


@dataclass(frozen=True)
class Unique:
    """No two rows have the same values in these columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """One expectation of a table.

    fault: SQL, true for a faulty row ("" where no single row is: Unique).   says: what a faulty row does, in words.
    shown: columns that an example shows.
    """

    name: str
    expectation: Expectation | NotNull | Unique
    fault: str
    says: str
    shown: tuple[str, ...]


def rules_of(table: Table) -> list[Rule]:
    """Everything that the contract of `table` demands of its rows."""
    required = [c.name for c in table.columns if table.is_required(c)]
    rules = [_rule(table, NotNull(name)) for name in required]
    if table.keys:
        rules.append(
            Rule(
                "keys_unique",
                Unique(table.keys),
                "",
                f"has the keys of another row: {', '.join(table.keys)}",
                table.keys,
            )
        )
    rules += [_rule(table, expectation) for expectation in table.expectations]
    names = [rule.name for rule in rules]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{table.name} has two expectations named {', '.join(repeated)}: give them different names")
    return rules


def _rule(table: Table, expectation: Expectation | NotNull) -> Rule:
    match expectation:
        case NotNull(column):
            name, fault, says = f"{column}_not_null", f"{_name(column)} IS NULL", f"has no {column}"
        case Between(column, low, high):
            limits = [(">=", low), ("<=", high)]
            held = [f"{_name(column)} {sign} {limit}" for sign, limit in limits if limit is not None]
            words = [f"{word} {limit}" for word, limit in (("at least", low), ("at most", high)) if limit is not None]
            name, fault = f"{column}_between", f"NOT ({' AND '.join(held)})"
            says = f"has {column} that is not {' and '.join(words)}"
        case Matches(column, regex):
            name, fault = f"{column}_matches", f"NOT {_name(column)} RLIKE {_text(whole(regex))}"
            says = f"has {column} that does not match {regex}"
        case OneOf(column, values):
            name, fault = f"{column}_one_of", f"{_name(column)} NOT IN ({', '.join(map(_text, values))})"
            says = f"has {column} that is none of {', '.join(values)}"
        case NoRowWhere(name, condition, says):
            fault = condition
    # Not where it is a function's name: size(replicas).
    concerned = [c for c in table.column_names if re.search(rf"\b{re.escape(c)}\b(?!\()", fault)]
    return Rule(name, expectation, fault, says, tuple(dict.fromkeys([*table.keys, *concerned])))


def whole(regex: str) -> str:
    """The regular expression for a text as a whole (Java's `$` would let a last line break pass)."""
    return rf"\A(?:{regex})\z"


def _name(column: str) -> str:
    return f"`{column}`"


def _text(value: str) -> str:
    """A SQL literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
