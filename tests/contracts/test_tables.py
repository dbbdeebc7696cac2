"""Every table is declared completely, and every stage returns the declared schema, even without rows."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pipelines.config.settings import load_settings
from pipelines.ingest.merge.entities import ENTITY_SCHEMAS, Entities
from pipelines.stages.ingest_stages import FILES, raw_metadata
from pipelines.stages.stage_registry import STAGES, STEPS, Context, select_plan_settings, steps_between
from pipelines.tables import REPLAY_TABLES, RUN_TABLES, TABLES
from pipelines.tables.table_contract import Table
from udfs.arrow.columns import DOUBLE, LONG, get_comment


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


def list_types(schema: StructType) -> dict[str, str]:
    return {f.name: f.dataType.simpleString() for f in schema.fields}


def test_every_entity_has_a_column() -> None:
    names = [c.name for c in TABLES["internal.entities"].columns[3:]]
    assert names == [field.name for field in fields(Entities)] == list(ENTITY_SCHEMAS)


def test_stages_come_after_their_inputs() -> None:
    written = {"bronze.raw_metadata"}
    for stage in STAGES:
        assert set(stage.inputs) <= written
        written.add(stage.table)
    assert written | {"ops.runs", "ops.quality_results"} == set(RUN_TABLES)
    assert len(REPLAY_TABLES) == 10
    assert steps_between(None, None) == list(STEPS)
    assert steps_between("gold", None)[:2] == ["quality", "internal.scheme_aggregates"]
    assert steps_between("gold.durability", "gold.durability") == ["quality", "gold.durability"]
    assert steps_between("silver.brokers", "quality")[-1] == "quality"


@pytest.mark.parametrize("setting", ["durability.max_exact_steps=7", "durability.monte_carlo_samples=7"])
def test_settings_of_plans_include_those_of_their_metrics(setting: str) -> None:
    before, after = (select_plan_settings(load_settings(options, environ={})) for options in ([], [setting]))
    assert before != after


@pytest.mark.parametrize("stage", STAGES, ids=lambda s: s.table)
def test_a_stage_on_empty_frames_returns_its_schema(spark: SparkSession, stage) -> None:
    empty_frames = {name: spark.createDataFrame([], TABLES[name].schema) for name in stage.inputs}
    context = Context("run", datetime(2026, 1, 1, tzinfo=UTC), load_settings(environ={}), {})
    rows = stage.make(empty_frames, context)
    assert rows.collect() == []
    assert list_types(rows.schema) == list_types(TABLES[stage.table].schema)


def test_no_files_make_no_records(spark: SparkSession) -> None:
    rows = raw_metadata(spark.createDataFrame([], FILES))
    assert rows.collect() == []
    assert list_types(rows.schema) == list_types(TABLES["bronze.raw_metadata"].schema)
