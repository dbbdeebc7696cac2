"""Great Expectations suites made from the contracts, one a table, run over the tables' rows; and their Data Docs."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # before the import: else it tells its makers of every use

import great_expectations as gx
from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.expectations.expectation import BatchExpectation
from pyspark.sql import DataFrame

from pipelines.ingest.sources import SnapshotKey
from pipelines.quality import gx_expectations as kinds
from pipelines.quality.findings import Finding
from pipelines.quality.table_rules import NotNull, Rule, Unique, rules_of, whole
from pipelines.tables.table_contract import Between, Matches, NoRowWhere, OneOf, Table

# It logs on every start, and says again what the findings say.
logging.getLogger("great_expectations").setLevel(logging.CRITICAL)

_SITE = "data_docs"
_TRIES = 20


def check_tables(tables: Sequence[tuple[Table, DataFrame]], docs_folder: str | None) -> list[Finding]:
    """One finding per expectation of each table; Data Docs in `docs_folder`, if given, in place of what is there."""
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False),  # they go to stderr
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    # Not kept in memory: two passes over a table cost less than to keep all of its columns.
    source = context.data_sources.add_spark("tables", persist=False)
    findings = []
    for table, frame in tables:
        rules = rules_of(table)
        batch = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe("rows")
        suite = gx.ExpectationSuite(name=table.name, expectations=[_expectation(rule) for rule in rules])
        definition = context.validation_definitions.add(
            gx.ValidationDefinition(name=table.name, data=batch, suite=context.suites.add(suite))
        )
        outcomes = definition.run(batch_parameters={"dataframe": frame}, result_format={"result_format": "BASIC"})
        by_name = {_rule_name(outcome): outcome for outcome in outcomes.results}
        findings += [_finding(table, rule, by_name[rule.name]) for rule in rules]
    if docs_folder is not None:
        _write_docs(context, Path(docs_folder).resolve())
    return findings


def _expectation(rule: Rule) -> BatchExpectation:
    """The rule as Great Expectations runs it."""
    common: dict[str, Any] = {"fault": rule.fault, "shown": rule.shown, "meta": {"rule": rule.name}}
    match rule.expectation:
        case NotNull(column):
            return kinds.ExpectNoNull(column=column, **common)
        case Unique():
            return kinds.ExpectUniqueKeys(says=rule.says, **common)
        case Between(column, low, high):
            return kinds.ExpectBetween(column=column, min_value=low, max_value=high, **common)
        case Matches(column, regex):
            return kinds.ExpectMatches(column=column, regex=whole(regex), **common)
        case OneOf(column, values):
            return kinds.ExpectOneOf(column=column, value_set=list(values), **common)
        case NoRowWhere():
            return kinds.ExpectNoRowWhere(says=rule.says, **common)


def _rule_name(outcome: Any) -> str:
    return str(outcome.expectation_config.meta["rule"])


def _finding(table: Table, rule: Rule, outcome: Any) -> Finding:
    """What Great Expectations found. Raises its error where it could not look."""
    if "unexpected_count" not in outcome.result:
        raise RuntimeError(f"{table.name}: {rule.name} could not be checked: {outcome.exception_info}")
    examples = outcome.result.get("partial_unexpected_list", [])
    return Finding(
        table.name,
        rule.name,
        rule.says,
        outcome.success,
        outcome.result["element_count"],
        outcome.result["unexpected_count"],
        examples[0] if examples else None,
        {SnapshotKey(c, s): (rows, example) for c, s, rows, example in outcome.result.get("by_snapshot", [])},
    )


def _write_docs(context: AbstractDataContext, folder: Path) -> None:
    """Nothing; makes the site beside `folder`, then puts it in its place: no reader sees half of one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        made = Path(scratch, "made")
        site: Any = {
            "class_name": "SiteBuilder",
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(made)},
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "show_how_to_buttons": False,
        }
        context.add_data_docs_site(_SITE, site)
        context.build_data_docs(site_names=[_SITE])
        for attempt in count():
            with contextlib.suppress(FileNotFoundError):
                folder.rename(Path(scratch, f"outdated-{attempt}"))
            try:
                made.rename(folder)
                return
            except OSError:  # another run's pages came there in between
                if attempt == _TRIES:
                    raise
