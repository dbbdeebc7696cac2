"""Run the rules of tables as Great Expectations suites, one per table, and write their Data Docs."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # before the import: it would report every use to its makers

import great_expectations as gx
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.ingest.sources import SnapshotKey
from pipelines.quality.quality_pages import CheckedSuite, write_pages
from pipelines.quality.table_rules import Finding, Rule, list_rules
from pipelines.tables.table_contract import SNAPSHOT_KEY, Table

# It logs at every start, and repeats the findings.
logging.getLogger("great_expectations").setLevel(logging.CRITICAL)

_ROWS = "rows_with_these_keys"


class RowsWhere(TableMetricProvider):
    """Counts the rows that meet an SQL condition, in one job with all other counts."""

    metric_name = "table.rows_where"
    value_keys = ("condition",)

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any
    ) -> tuple[Column, Any, dict[str, Any]]:
        return F.count_if(F.expr(metric_value_kwargs["condition"])), metric_domain_kwargs, {}


class RowsWithRepeatedKeys(TableMetricProvider):
    """Counts the rows whose keys another row has too. It shuffles only the keys, unlike GX's own."""

    metric_name = "table.rows_with_repeated_keys"
    value_keys = ("example_columns",)

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> int:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return count_repeated_keys(frame, metric_value_kwargs["example_columns"]).agg(F.sum(_ROWS)).collect()[0][0] or 0


def count_repeated_keys(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Count the rows of keys that more than one row has."""
    return frame.groupBy(*keys).agg(F.count(F.lit(1)).alias(_ROWS)).where(F.col(_ROWS) > 1)


def count_by_snapshot(frame: DataFrame, rows: Column, example_columns: Sequence[str]) -> list[list[Any]]:
    """Count faulty rows: [cluster, snapshot, rows, example as JSON]; the first two are None if not in `frame`."""
    key = [name for name in SNAPSHOT_KEY if name in frame.columns]
    example = F.first(F.to_json(F.struct(*example_columns), {"ignoreNullFields": "false"}))
    counted = frame.groupBy(*key).agg(rows.alias("_rows"), example.alias("_example")).collect()
    counts = (
        [*(row[name] if key else None for name in SNAPSHOT_KEY), row["_rows"], row["_example"]] for row in counted
    )
    return sorted(counts, key=str)


class ExpectNoRowWhere(BatchExpectation):
    """Expects no row that meets an SQL condition; an example of each snapshot costs another query."""

    condition: str = ""
    example_columns: tuple[str, ...] = ()
    fault: str = ""
    success_keys: ClassVar[Any] = ("condition", "example_columns")  # parameters of the metrics
    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "table.rows_where")

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:
        rows, faulty = (metrics[name] for name in self.metric_dependencies)
        percent = 100 * faulty / rows if rows else 0.0
        result = {"element_count": rows, "unexpected_count": faulty, "unexpected_percent": percent}
        if faulty:
            counts = self._count_by_snapshot(execution_engine.dataframe)
            result |= {"partial_unexpected_list": [counts[0][-1]], "by_snapshot": counts}
        return {"success": faulty == 0, "result": result}

    def _count_by_snapshot(self, frame: DataFrame) -> list[list[Any]]:
        return count_by_snapshot(frame.where(F.expr(self.condition)), F.count(F.lit(1)), self.example_columns)

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None, **_: Any
    ) -> list[RenderedStringTemplateContent]:
        kwargs = (configuration or result.expectation_config).kwargs
        template = {"template": "No row $fault.", "params": {"fault": kwargs["fault"]}}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]


class ExpectUniqueKeys(ExpectNoRowWhere):
    """Expects no two rows with the same keys."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "table.rows_with_repeated_keys")

    def _count_by_snapshot(self, frame: DataFrame) -> list[list[Any]]:
        groups = count_repeated_keys(frame, self.example_columns)
        return count_by_snapshot(groups, F.sum(_ROWS), [*self.example_columns, _ROWS])


def run_suites(tables: Sequence[tuple[Table, DataFrame]], docs_folder: str | None) -> list[Finding]:
    """Run the rules of tables over their rows, and replace the Data Docs in the folder, if any: a finding per rule."""
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False),  # they go to stderr
    )
    context = gx.get_context(mode="ephemeral", project_config=config)
    # Not persisted: two passes over a table cost less than caching all of its columns.
    source = context.data_sources.add_spark("tables", persist=False)
    findings, pages = [], []
    for table, frame in tables:
        rules = list_rules(table)
        batch = source.add_dataframe_asset(table.name).add_batch_definition_whole_dataframe("rows")
        suite = context.suites.add(gx.ExpectationSuite(name=table.name, expectations=[*map(_convert, rules)]))
        definition = context.validation_definitions.add(
            gx.ValidationDefinition(name=table.name, data=batch, suite=suite)
        )
        results = definition.run(batch_parameters={"dataframe": frame}, result_format={"result_format": "BASIC"})
        by_name = {str(result.expectation_config.meta["rule"]): result for result in results.results}  # type: ignore[union-attr]
        findings += [_make_finding(table, rule, by_name[rule.name]) for rule in rules]
        pages.append(CheckedSuite(suite, results))
    if docs_folder is not None:
        write_pages(pages, Path(docs_folder).resolve())
    return findings


def _convert(rule: Rule) -> ExpectNoRowWhere:
    expect = ExpectNoRowWhere if rule.condition else ExpectUniqueKeys
    meta = {"rule": rule.name}
    return expect(condition=rule.condition, fault=rule.fault, example_columns=rule.example_columns, meta=meta)


def _make_finding(table: Table, rule: Rule, result: Any) -> Finding:
    if "unexpected_count" not in result.result:
        raise RuntimeError(f"{table.name}: {rule.name} could not be checked: {result.exception_info}")
    examples = result.result.get("partial_unexpected_list", [])
    rows, unexpected = result.result["element_count"], result.result["unexpected_count"]
    by_snapshot = {SnapshotKey(c, s): (n, example) for c, s, n, example in result.result.get("by_snapshot", [])}
    text = (table.name, rule.name, rule.fault)
    return Finding(*text, result.success, rows, unexpected, examples[0] if examples else None, by_snapshot)
