"""The tables give the verdict that `what-if` gives: for every sample, every paste, and mutations of them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.cli.what_if_answers import evaluate_brokers
from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source, find_source, get_name
from pipelines.report.figure_queries import FIGURES
from pipelines.report.report_data import VERDICT_FIGURES, judge_rows
from pipelines.stages import failure_stages, silver_stages
from pipelines.stages.cluster_inputs import collect_clusters
from pipelines.stages.ingest_stages import FILES, entities, raw_metadata
from pipelines.tables import gold_tables
from pipelines.verdict.levels import Level
from tests.fuzz.case_execution import write_case
from tests.fuzz.cases import build_case
from udfs.failures import arrow_functions
from udfs.failures.arrow_functions import AggregationPlan
from udfs.failures.failure_rows import summary_rows
from udfs.failures.scenarios import RandomSets
from udfs.failures.topic_defaults import KAFKA_DEFAULTS

SAMPLES = Path(__file__).parents[2] / "data_samples"
MUTATIONS = 100
PLAN = AggregationPlan(
    schemes=("observed",),
    run_seed=0,
    seeds=1,
    max_placed_partitions=1,
    hot_ratio=1.1,
    random_sets=RandomSets(),
    max_pairs=0,
    pair_loads=False,
)


def list_sources(folder: Path) -> list[Source]:
    """Every sample and paste alone, the sample clusters, and mutations of all these."""
    files = [file for name in ("formats", "pastes") for file in sorted((SAMPLES / name).iterdir())]
    files = [file for file in files if file.is_file() and file.suffix not in (".expected", ".md")]
    result = [find_source(str(SAMPLES / name)) for name in ("kafka-4.1.1-kraft", "kafka-2.8.2-zookeeper")]
    result += [Source(f"{file.parent.name}-{file.name}", (file,)) for file in files]
    seed = int(os.environ["TEST_SEED"])
    for index in range(MUTATIONS):
        place = folder / f"mutation-{index}"
        place.mkdir()
        argument = write_case(build_case(seed, index), place)
        try:
            source = find_source(argument)
            load_snapshot(source)
        except SourceError:
            continue
        result.append(Source(f"mutation-{index}", source.files))
    return result


@pytest.mark.slow
def test_tables_and_what_if_give_the_same_verdict(spark: SparkSession, tmp_path: Path) -> None:
    sources = list_sources(tmp_path)
    expected = {}
    for source in sources:
        try:
            snapshot = load_snapshot(source)
            expected[source.cluster_id] = evaluate_brokers(snapshot, KAFKA_DEFAULTS).verdict
        except SourceError:
            expected[source.cluster_id] = None
    now = datetime(2026, 1, 2, tzinfo=UTC)
    rows = [
        (source.cluster_id, "s", get_name(file), None, os.fsencode(file), now, 0, 1)
        for source in sources
        for file in source.files
    ]
    raw = raw_metadata(spark.createDataFrame(rows, FILES)).localCheckpoint()
    merged = entities(raw, {}).localCheckpoint()
    brokers = silver_stages.brokers(merged).localCheckpoint()
    topics = silver_stages.topics(merged).localCheckpoint()
    parameters = failure_stages.AggregationParameters(KAFKA_DEFAULTS, collect_clusters(brokers, topics), PLAN, "")
    sums = failure_stages.scheme_aggregates(merged, brokers, parameters).localCheckpoint()
    summary = arrow_functions.table_function(summary_rows)
    hotspots = arrow_functions.hotspot_function(1.1)
    tables = {
        "silver.brokers": brokers,
        "silver.topics": topics,
        "silver.partitions": silver_stages.partitions(merged, brokers, KAFKA_DEFAULTS).localCheckpoint(),
        "silver.warnings": silver_stages.warnings(merged),
        "silver.conflicts": silver_stages.conflicts(merged, brokers),
        "silver.source_summary": silver_stages.source_summary(merged, raw),
        "gold.failure_summary": failure_stages.compute_table(sums, summary, gold_tables.FAILURE_SUMMARY),
        "gold.leader_hotspots": failure_stages.compute_table(sums, hotspots, gold_tables.LEADER_HOTSPOTS, True),
    }
    for name, frame in tables.items():
        frame.createOrReplaceTempView(f"verdict_{name.replace('.', '_')}")
    figures = {}
    for figure in FIGURES:
        if figure.name in VERDICT_FIGURES:
            query = figure.sql.format(condition="snapshot_id = 's'")
            for name in tables:
                query = query.replace(name, f"verdict_{name.replace('.', '_')}")
            figures[figure.name] = spark.sql(query).toArrow()
    assert len(expected) > 150
    judged = {cluster: judge_rows(figures, cluster) for cluster in expected}
    for cluster, verdict in expected.items():
        if verdict is not None:
            assert judged[cluster] == verdict, cluster
    assert {verdict.level for verdict in judged.values()} == set(Level), "else the samples show too little"
