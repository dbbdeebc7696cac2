"""Run the rules of tables as Great Expectations suites, one per table, and write their Data Docs."""

import contextlib
import logging
import os
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # before the import: it would report every use to its makers

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
from pipelines.quality import gx_expectations
from pipelines.quality.table_rules import Finding, Rule, list_rules
from pipelines.tables.table_contract import Table

# It logs at every start, and repeats the findings.
logging.getLogger("great_expectations").setLevel(logging.CRITICAL)

_SITE = "data_docs"
_MAX_ATTEMPTS = 20


def run_suites(tables: Sequence[tuple[Table, DataFrame]], docs_folder: str | None) -> list[Finding]:
    """Run the rules of tables over their rows; Data Docs in the folder, if any, are replaced.

    Returns:
        A finding per rule of each table, in order.

    Raises:
        RuntimeError: If Great Expectations could not check a rule.
    """
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False),  # they go to stderr
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    # Not persisted: two passes over a table cost less than caching all of its columns.
    source = context.data_sources.add_spark("tables", persist=False)
    findings = []
    for table, frame in tables:
        rules = list_rules(table)
        batch = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe("rows")
        suite = gx.ExpectationSuite(name=table.name, expectations=[_make_expectation(rule) for rule in rules])
        definition = context.validation_definitions.add(
            gx.ValidationDefinition(name=table.name, data=batch, suite=context.suites.add(suite))
        )
        results = definition.run(batch_parameters={"dataframe": frame}, result_format={"result_format": "BASIC"})
        by_name = {str(result.expectation_config.meta["rule"]): result for result in results.results}  # type: ignore[union-attr]
        findings += [_make_finding(table, rule, by_name[rule.name]) for rule in rules]
    if docs_folder is not None:
        _write_docs(context, Path(docs_folder).resolve())
    return findings


def _make_expectation(rule: Rule) -> BatchExpectation:
    expectation: BatchExpectation = getattr(gx_expectations, rule.kind)(
        **rule.parameters, condition=rule.condition, example_columns=rule.example_columns, meta={"rule": rule.name}
    )
    return expectation


def _make_finding(table: Table, rule: Rule, result: Any) -> Finding:
    if "unexpected_count" not in result.result:
        raise RuntimeError(f"{table.name}: {rule.name} could not be checked: {result.exception_info}")
    examples = result.result.get("partial_unexpected_list", [])
    return Finding(
        table.name,
        rule.name,
        rule.fault,
        result.success,
        result.result["element_count"],
        result.result["unexpected_count"],
        examples[0] if examples else None,
        {SnapshotKey(c, s): (rows, example) for c, s, rows, example in result.result.get("by_snapshot", [])},
    )


def _write_docs(context: AbstractDataContext, folder: Path) -> None:
    """Write the site beside the folder, then replace the folder, so that no reader sees half of a site."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        new_site = Path(scratch, "new")
        site: Any = {
            "class_name": "SiteBuilder",
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(new_site)},
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "show_how_to_buttons": False,
        }
        context.add_data_docs_site(_SITE, site)
        context.build_data_docs(site_names=[_SITE])
        for attempt in count():
            with contextlib.suppress(FileNotFoundError):
                folder.rename(Path(scratch, f"outdated-{attempt}"))
            try:
                new_site.rename(folder)
                return
            except OSError:  # another run has written its pages meanwhile
                if attempt == _MAX_ATTEMPTS:
                    raise
