"""gold.cluster_findings: what is wrong with each cluster, and what its sources lack; gold.findings: the verdict."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.ingest.merge.live_brokers import infer_brokers
from pipelines.ingest.merge.topic_merge import infer_state
from pipelines.ingest.snapshot_reader import UNORDERED_FORMATS, UNUSED_FORMATS, ClusterTables
from pipelines.spark.arrow_frames import apply_to_pairs, copy_table
from pipelines.spark.entity_shards import unpack
from pipelines.tables.gold_tables import CLUSTER_FINDINGS, FINDINGS
from pipelines.tables.table_contract import SNAPSHOT_KEY
from pipelines.verdict.cluster_evidence import make_evidence
from pipelines.verdict.finding_rows import make_finding_rows
from pipelines.verdict.judgement import judge_cluster
from pipelines.verdict.snapshot_findings import find_findings, make_row, read_row
from udfs.arrow.columns import schema_of
from udfs.failures.scenarios import ScenarioKind
from udfs.failures.topic_defaults import TopicDefaults
from udfs.placement.schemes import OBSERVED

_WHOLE = ("registrations", "usage", "topics", "log_dirs", "quorum", "quarantine", "conflicts", "warnings")


def _merge_shards(shards: pa.Table, sources: pa.Table) -> ClusterTables:
    whole = {name: unpack(shards[name].to_pylist(), name) for name in _WHOLE}
    brokers, conflicts = infer_brokers(whole["registrations"], whole["usage"])
    # Shard by shard: the logs take most of the memory.
    partitions = [
        infer_state(unpack([packed.as_py()], "partitions"), brokers).drop_columns(["logs"])
        for packed in shards["partitions"]
    ]
    names = sources["source"].to_pylist()
    formats = [set(text.split("+")) for text in sources["format"].to_pylist()]
    return ClusterTables(
        brokers=brokers,
        topics=whole["topics"],
        partitions=pa.concat_tables(partitions),
        log_dirs=whole["log_dirs"],
        quorum=whole["quorum"],
        quarantined=whole["quarantine"].to_pylist(),
        conflicts=pa.concat_tables([whole["conflicts"], conflicts]),
        warnings=whole["warnings"],
        unused_files=tuple(
            sorted(name for name, own in zip(names, formats, strict=True) if UNUSED_FORMATS.issuperset(own))
        ),
        shows_preferred_leaders=all(map(UNORDERED_FORMATS.isdisjoint, formats)),
    )


def cluster_findings(entities: DataFrame, source_summary: DataFrame, defaults: TopicDefaults) -> DataFrame:
    """Build gold.cluster_findings from all shards of each snapshot."""
    schema = schema_of(CLUSTER_FINDINGS.columns)

    def find(key: tuple[pa.Scalar, ...], shards: pa.Table, sources: pa.Table) -> pa.Table:
        keys = dict(zip(SNAPSHOT_KEY, (part.as_py() for part in key), strict=True))
        row = make_row(find_findings(_merge_shards(shards, sources), defaults))
        return pa.Table.from_pylist([keys | row], schema)

    packed = entities.select(*SNAPSHOT_KEY, *_WHOLE, "partitions")
    sources = source_summary.select(*SNAPSHOT_KEY, "source", "format")
    return apply_to_pairs(packed, sources, find, schema)


def findings(
    cluster_findings: DataFrame,
    leader_hotspots: DataFrame,
    failure_summary: DataFrame,
    disk_after_failure: DataFrame,
    *,
    over_capacity: DataFrame | None,
) -> DataFrame:
    """Judge each snapshot: rows of gold.findings. Only rows about the observed placement as a whole are collected.

    over_capacity: of clusters whose capacities are known; None = of no cluster.
    """
    observed = F.col("scheme") == OBSERVED
    hotspots = _collect(leader_hotspots.where(observed & F.col("topic").isNull()))
    kinds = [str(ScenarioKind.BROKER), str(ScenarioKind.RACK)]
    failures = _collect(failure_summary.where(observed & F.col("scenario_kind").isin(kinds)))
    disks, over = _collect(disk_after_failure.where("NOT fits")), {}
    if over_capacity is not None:
        over = _collect(over_capacity.where(observed & (F.col("scenario_kind") == str(ScenarioKind.BROKER))))
    rows: list[dict[str, Any]] = []
    for key, (row,) in sorted(_collect(cluster_findings).items()):
        now = next(iter(hotspots.get(key, ())), None)
        limits = disks.get(key, ()), over.get(key, ())
        verdict = judge_cluster(make_evidence(now, failures.get(key, ()), read_row(row), *limits))
        rows += (dict(zip(SNAPSHOT_KEY, key, strict=True)) | one for one in make_finding_rows(verdict))
    table = pa.Table.from_pylist(rows, schema_of(FINDINGS.columns))
    return copy_table(cluster_findings.sparkSession, table, FINDINGS.schema)


def _collect(frame: DataFrame) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in frame.toArrow().to_pylist():
        rows.setdefault(tuple(row.pop(name) for name in SNAPSHOT_KEY), []).append(row)
    return rows
