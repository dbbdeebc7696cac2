"""Every table keeps its contract: keys and comments, and the schema also when there is nothing to say."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from pipelines.config.settings import load_settings
from pipelines.ingest.merge import merged_schemas
from pipelines.ingest.merge.broker_liveness import BROKERS
from pipelines.ingest.merge.inferred_state import SETTLED
from pipelines.stages.raw_metadata_stage import FILES, raw_metadata
from pipelines.stages.stage_registry import STAGES, STEPS, Context, steps_between
from pipelines.tables import OF_REPLAYS, OF_RUNS, TABLES
from pipelines.tables.table_contract import Table
from udfs.arrow.table_columns import DOUBLE, LONG, get_comment


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_contract_is_complete(table: Table) -> None:
    names = table.column_names
    assert names[:2] == ["cluster_id", "snapshot_id"]
    assert len(set(names)) == len(names)
    assert set(table.keys) <= set(names)
    assert set(table.partition_by) <= set(names)
    assert table.comment
    assert all(get_comment(c) for c in table.columns)
    for column in table.columns:
        if column.name.endswith("_bytes"):
            assert column.type == LONG
        if column.name.endswith(("_ratio", "_percent", "_per_s")):
            assert column.type == DOUBLE


def types_of(schema: StructType) -> dict[str, str]:
    return {f.name: f.dataType.simpleString() for f in schema.fields}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("silver.partitions", SETTLED),
        ("silver.topics", merged_schemas.TOPICS),
        ("silver.brokers", BROKERS),
        ("silver.conflicts", merged_schemas.CONFLICTS),
    ],
)
def test_arrow_shapes_are_the_tables_columns(name: str, shape: pa.Schema) -> None:
    table = {f.name: to_arrow_type(f.dataType) for f in TABLES[name].schema.fields[2:]}
    assert set(table) == set(shape.names)
    for field in shape:
        assert str(table[field.name]).replace("element", "item").replace(" not null", "") == str(field.type).replace(
            "element", "item"
        ).replace(" not null", ""), field.name


def test_stages_come_after_what_they_read() -> None:
    made = {"bronze.raw_metadata"}
    for stage in STAGES:
        assert set(stage.inputs) <= made
        made.add(stage.table)
    assert made | {"ops.runs", "ops.quality_results"} == set(OF_RUNS)
    assert len(OF_REPLAYS) == 10
    assert steps_between(None, None) == list(STEPS)
    assert steps_between("gold", None)[:2] == ["quality", "internal.scheme_aggregates"]
    assert steps_between("gold.failure_load", "gold.failure_load") == ["quality", "gold.failure_load"]
    assert steps_between("silver.brokers", "quality")[-1] == "quality"


@pytest.fixture
def empty(spark: SparkSession) -> dict[str, DataFrame]:
    return {name: spark.createDataFrame([], table.schema) for name, table in TABLES.items()}


@pytest.mark.parametrize("stage", STAGES, ids=lambda s: s.table)
def test_a_stage_on_empty_frames_gives_its_schema(stage, empty: dict[str, DataFrame]) -> None:
    context = Context("run", datetime(2026, 1, 1, tzinfo=UTC), load_settings(environ={}), {})
    made = stage.make(empty, context)
    assert made.collect() == []
    assert types_of(made.schema) == types_of(TABLES[stage.table].schema)


def test_no_files_give_no_records(spark: SparkSession) -> None:
    made = raw_metadata(spark.createDataFrame([], FILES))
    assert made.collect() == []
    assert types_of(made.schema) == types_of(TABLES["bronze.raw_metadata"].schema)
