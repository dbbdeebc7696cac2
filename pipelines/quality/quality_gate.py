"""Check whole tables against their contracts, and stop a run before gold if a table is faulty.

Great Expectations is imported when it is needed, on a thread while other stages run: it takes two seconds.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.errors import TableFault
from pipelines.ingest.sources import SnapshotKey
from pipelines.quality.table_rules import Finding
from pipelines.tables import TABLES
from pipelines.tables.table_contract import Table

_REMEDY = (
    "This run wrote nothing to gold. Rejected records are in silver.quarantine with their reasons, and conflicts "
    'between sources are in silver.conflicts: kafka-placement query "SELECT * FROM silver.quarantine". '
    "Correct the source, or leave it out, and run again."
)


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
