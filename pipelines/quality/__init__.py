"""Quality: the contracts' expectations, checked over whole tables by Great Expectations; and the gate before gold.

Great Expectations takes two seconds to import, so nothing here imports it before it is needed; `warm_up`, called on
a thread while other stages run, hides that time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pipelines.errors import TableFault
from pipelines.ingest.sources import SnapshotKey
from pipelines.quality.findings import Finding
from pipelines.tables import TABLES
from pipelines.tables.table_contract import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Finding", "check", "checked_rows", "gate", "results_frame_rows", "warm_up"]

_REMEDY = (
    "This run wrote nothing to gold. Rejected records are in silver.quarantine, each with its reasons, and what "
    'the sources disagree on is in silver.conflicts (kafka-placement query "SELECT * FROM silver.quarantine"). '
    "Correct the source, or leave it out, and run again."
)


def warm_up() -> None:
    """Nothing; imports what `check` needs."""
    from pipelines.quality import gx_suites  # noqa: F401


def check(
    tables: Mapping[str, DataFrame], docs_folder: str | None, contracts: Mapping[str, Table] = TABLES
) -> list[Finding]:
    """One finding per expectation of each table, in the contracts' order; Data Docs in `docs_folder`, if given."""
    from pipelines.quality.gx_suites import check_tables

    return check_tables([(contracts[name], frame) for name, frame in tables.items()], docs_folder)


def results_frame_rows(
    findings: Sequence[Finding], rows: Mapping[tuple[str, SnapshotKey], int], snapshots: Sequence[SnapshotKey]
) -> list[tuple[str, str, str, str, bool, int, int, str | None]]:
    """Rows of ops.quality_results: of each finding what it says of each snapshot.

    rows: of `checked_rows`; what is not named there has no row.
    """
    out = []
    for s in snapshots:
        for f in findings:
            unexpected, example = f.by_snapshot.get(s, (0, None))
            checked = rows.get((f.table_name, s), 0)
            key = (s.cluster_id, s.snapshot_id, f.table_name, f.expectation)
            out.append((*key, unexpected == 0, checked, unexpected, example))
    return out


def checked_rows(
    findings: Sequence[Finding], tables: Mapping[str, DataFrame], snapshots: Sequence[SnapshotKey]
) -> dict[tuple[str, SnapshotKey], int]:
    """How many rows each table has of each snapshot."""
    if len(snapshots) == 1:  # known without asking again
        return {(f.table_name, snapshots[0]): f.checked_rows for f in findings}
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    key = ("cluster_id", "snapshot_id")
    parts = [frame.groupBy(*key).count().withColumn("name", F.lit(name)) for name, frame in tables.items()]
    counted = reduce(DataFrame.union, parts).collect()
    return {(row["name"], SnapshotKey(row.cluster_id, row.snapshot_id)): row["count"] for row in counted}


def gate(findings: Sequence[Finding]) -> None:
    """Nothing; raises TableFault, which tells every failed expectation, if there is one."""
    failed = [finding for finding in findings if not finding.success]
    if failed:
        count = "an expectation" if len(failed) == 1 else f"{len(failed)} expectations"
        lines = [f"the tables fail {count}:", *(f"  {finding.sentence()}" for finding in failed), _REMEDY]
        raise TableFault("\n".join(lines))
