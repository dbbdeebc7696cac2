"""Expectations as Great Expectations runs them: all of a table's in one pass over its rows, unique keys in a second.

Great Expectations' own column expectations collect faulty values, a Spark job each, whether there are any or not, and
their counts take another pass than those of the table. The ones here are the same in words and parameters, but count
only; one that fails then asks for a single row to show.
"""

from __future__ import annotations

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
    """Number of rows that fulfil an SQL condition, an aggregate that shares its job with all the others."""

    metric_name = "table.rows_where"
    value_keys = ("fault",)

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any
    ) -> tuple[Column, Any, dict[str, Any]]:
        return F.count_if(F.expr(metric_value_kwargs["fault"])), metric_domain_kwargs, {}


class RowsOfRepeatedKeys(TableMetricProvider):
    """Number of rows whose keys another row has too. Only keys are shuffled; GX has a window."""

    metric_name = "table.rows_of_repeated_keys"
    value_keys = ("shown",)

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(cls, execution_engine: Any, metric_domain_kwargs: Any, metric_value_kwargs: Any, **_: Any) -> int:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return repeated_keys(frame, metric_value_kwargs["shown"]).agg(F.sum(_ROWS)).collect()[0][0] or 0


def repeated_keys(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The keys that more than one row has, and how many do."""
    return frame.groupBy(*keys).agg(F.count(F.lit(1)).alias(_ROWS)).where(F.col(_ROWS) > 1)


def by_snapshot(frame: DataFrame, rows: Column, shown: Sequence[str]) -> list[list[Any]]:
    """[cluster, snapshot, its rows, one of them as JSON] per snapshot; cluster and snapshot are null if not in `frame`.

    rows: aggregate over faulty rows.   shown: columns of the example, nulls included.
    """
    key = [name for name in _SNAPSHOT if name in frame.columns]
    example = F.first(F.to_json(F.struct(*shown), {"ignoreNullFields": "false"}))
    found = frame.groupBy(*key).agg(rows.alias("_rows"), example.alias("_example")).collect()
    rows_of = ([*(row[name] if key else None for name in _SNAPSHOT), row["_rows"], row["_example"]] for row in found)
    return sorted(rows_of, key=str)


class _Counted(BatchExpectation):
    """What all have: the fault as SQL, the columns that an example shows; counted. Where it fails, one more query tells
    each snapshot's faulty rows, and one of them.

    It stands before Great Expectations' own class among the bases, which gives the parameters and the words.
    """

    fault: str = ""
    shown: tuple[str, ...] = ()
    success_keys: ClassVar[Any] = ("fault", "shown")  # what the metrics are given
    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "table.rows_where")

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: Any = None, **kwargs: Any
    ) -> Any:
        """Our metrics, not those of the column expectations."""
        return BatchExpectation.get_validation_dependencies(self, execution_engine, runtime_configuration, **kwargs)

    def _validate(self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None) -> Any:
        rows, faulty = (metrics[name] for name in self.metric_dependencies)
        percent = 100 * faulty / rows if rows else 0.0
        result = {"element_count": rows, "unexpected_count": faulty, "unexpected_percent": percent}
        if faulty:
            found = self._found(execution_engine.dataframe)
            result |= {"partial_unexpected_list": [found[0][-1]], "by_snapshot": found}
        return {"success": faulty == 0, "result": result}

    def _found(self, frame: DataFrame) -> list[list[Any]]:
        return by_snapshot(frame.where(F.expr(self.fault)), F.count(F.lit(1)), self.shown)


class ExpectNoNull(_Counted, ExpectColumnValuesToNotBeNull):
    """No null in a column."""


class ExpectBetween(_Counted, ExpectColumnValuesToBeBetween):
    """A column's values within limits."""


class ExpectMatches(_Counted, ExpectColumnValuesToMatchRegex):
    """A column's values match a regular expression."""


class ExpectOneOf(_Counted, ExpectColumnValuesToBeInSet):
    """A column's values are among some."""


class ExpectNoRowWhere(_Counted):
    """No row fulfils an SQL condition."""

    says: str = ""

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls, configuration: Any = None, result: Any = None, runtime_configuration: Any = None, **_: Any
    ) -> list[RenderedStringTemplateContent]:
        kwargs = (configuration or result.expectation_config).kwargs
        template = {"template": "No row $says.", "params": {"says": kwargs["says"]}}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]


class ExpectUniqueKeys(ExpectNoRowWhere):
    """No two rows have the same keys."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "table.rows_of_repeated_keys")

    def _found(self, frame: DataFrame) -> list[list[Any]]:
        return by_snapshot(repeated_keys(frame, self.shown), F.sum(_ROWS), [*self.shown, _ROWS])
