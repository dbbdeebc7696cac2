"""Check whole tables against their contracts, and stop a run before gold if a table is faulty.

Great Expectations is imported when it is needed, on a thread while other stages run: it takes two seconds.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.errors import TableFault
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark.sql_text import quote_text
from pipelines.tables import TABLES
from pipelines.tables.table_contract import Between, Expectation, Matches, NoRowWhere, OneOf, Table

_REMEDY = (
    "This run wrote nothing to gold. Rejected records are in silver.quarantine with their reasons, and conflicts "
    'between sources are in silver.conflicts: kafka-placement query "SELECT * FROM silver.quarantine". '
    "Correct the source, or leave it out, and run again."
)


class Rule(NamedTuple):
    """An expectation of a table."""

    name: str  # Its name, unique within the table
    kind: str  # Class of gx_suites
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


def import_great_expectations() -> None:
    """Import what `check_tables` needs."""
    from pipelines.quality import gx_suites  # noqa: F401


def check_tables(
    frames: Mapping[str, DataFrame], docs_folder: str | None, contracts: Mapping[str, Table] = TABLES
) -> list[Finding]:
    """Check the rows of tables, and write Data Docs if there is a folder: a finding per expectation of each table."""
    from pipelines.quality.gx_suites import run_suites

    return run_suites([(contracts[name], frame) for name, frame in frames.items()], docs_folder)


def count_checked_rows(
    findings: Sequence[Finding], frames: Mapping[str, DataFrame], snapshots: Sequence[SnapshotKey]
) -> dict[tuple[str, SnapshotKey], int]:
    """Count the rows of each table and snapshot."""
    if len(snapshots) == 1:  # the findings have counted them
        return {(finding.table_name, snapshots[0]): finding.checked_rows for finding in findings}
    key = ("cluster_id", "snapshot_id")
    parts = [frame.groupBy(*key).count().withColumn("name", F.lit(name)) for name, frame in frames.items()]
    rows = reduce(DataFrame.union, parts).collect()
    return {(row["name"], SnapshotKey(row.cluster_id, row.snapshot_id)): row["count"] for row in rows}


def make_result_rows(
    findings: Sequence[Finding], checked: Mapping[tuple[str, SnapshotKey], int], snapshots: Sequence[SnapshotKey]
) -> list[tuple[str, str, str, str, bool, int, int, str | None]]:
    """Make the rows of ops.quality_results, each finding for each snapshot; `checked` is from `count_checked_rows`."""
    rows = []
    for snapshot in snapshots:
        for finding in findings:
            unexpected, example = finding.by_snapshot.get(snapshot, (0, None))
            counts = (checked.get((finding.table_name, snapshot), 0), unexpected)
            key = (snapshot.cluster_id, snapshot.snapshot_id, finding.table_name, finding.expectation)
            rows.append((*key, unexpected == 0, *counts, example))
    return rows


def require_success(findings: Sequence[Finding]) -> None:
    """Check that every expectation holds; raise a TableFault that lists all that fail."""
    failed = [finding for finding in findings if not finding.success]
    if failed:
        count = "1 expectation" if len(failed) == 1 else f"{len(failed)} expectations"
        lines = [f"the tables fail {count}:", *(f"  {finding.describe()}" for finding in failed), _REMEDY]
        raise TableFault(*lines)


def list_rules(table: Table) -> list[Rule]:
    """List the rules of a table's contract; raise ValueError if two have the same name."""
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
    if repeated := sorted({name for name in names if names.count(name) > 1}):
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
