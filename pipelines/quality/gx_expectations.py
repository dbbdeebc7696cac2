"""Define expectations that Great Expectations evaluates in one pass over a table, and unique keys in a second one.

Its own column expectations collect faulty values in a Spark job each, even if there are none, and count them in other
passes than the rows of the table. These have the same texts and parameters, but only count; one that fails then asks
for a single row as an example.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_column_values_to_match_regex import ExpectColumnValuesToMatchRegex
from great_expectations.expectations.core.expect_column_values_to_not_be_null import ExpectColumnValuesToNotBeNull
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_ROWS = "rows_with_these_keys"
_SNAPSHOT = ("cluster_id", "snapshot_id")


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
    """Count the faulty rows of each snapshot with an aggregate over faulty rows, or groups of them.

    Returns:
        [cluster, snapshot, number of rows, example as JSON]; cluster and snapshot are None if `frame` lacks them.
    """
    key = [name for name in _SNAPSHOT if name in frame.columns]
    example = F.first(F.to_json(F.struct(*example_columns), {"ignoreNullFields": "false"}))
    counted = frame.groupBy(*key).agg(rows.alias("_rows"), example.alias("_example")).collect()
    counts = ([*(row[name] if key else None for name in _SNAPSHOT), row["_rows"], row["_example"]] for row in counted)
    return sorted(counts, key=str)


class _CountingExpectation(BatchExpectation):
    """Counts the rows that meet `condition`; if there are any, another query finds an example for each snapshot.

    It is the first base of each expectation; the second one, of Great Expectations, gives parameters and texts.
    """

    condition: str = ""
    example_columns: tuple[str, ...] = ()
    success_keys: ClassVar[Any] = ("condition", "example_columns")  # parameters of the metrics
    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "table.rows_where")

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: Any = None, **kwargs: Any
    ) -> Any:
        """Return the metrics of this class instead of those of column expectations."""
        return BatchExpectation.get_validation_dependencies(self, execution_engine, runtime_configuration, **kwargs)

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


class ExpectNoNull(_CountingExpectation, ExpectColumnValuesToNotBeNull):
    """Expects no null in a column."""


class ExpectBetween(_CountingExpectation, ExpectColumnValuesToBeBetween):
    """Expects values of a column within limits."""


class ExpectMatch(_CountingExpectation, ExpectColumnValuesToMatchRegex):
    """Expects values of a column to match a regular expression."""


class ExpectOneOf(_CountingExpectation, ExpectColumnValuesToBeInSet):
    """Expects values of a column among some values."""


class ExpectNoRowWhere(_CountingExpectation):
    """Expects no row that meets an SQL condition."""

    fault: str = ""

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
