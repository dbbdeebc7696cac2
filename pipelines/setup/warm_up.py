"""The last step of set-up: a first start of Spark, which shows that it works here and makes later starts faster.

`python -m pipelines.setup.warm_up` writes down the classes that a small run loads (Java's class data sharing): a
session that starts from that archive is up in half of the time. It also compiles the kernels that the first commands
call.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pipelines.cli.report_output import report
from pipelines.config.settings import load_settings
from pipelines.errors import KafkaPlacementError
from pipelines.ingest.sources import find_sources
from pipelines.runner import Progress, Run, make_context
from pipelines.setup.first_use_compilation import SETUP, compile_missing
from pipelines.setup.java import check_java
from pipelines.spark.jvm import class_archive
from pipelines.spark.session import open_session, stop_embedded
from pipelines.spark.store import Store
from pipelines.stages.stage_registry import steps_between

# Little is run often enough to be worth more than Java's first compiler.
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
DESCRIBE = """Topic: t\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=2
\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2
"""
FEW = ("failures.seeds=1", "failures.random_sets=1", "hotspots.seeds=2")


def make_archive() -> Path:
    """The archive, made anew if it is missing; whole or not at all."""
    archive = class_archive(check_java())
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".warm-up-", dir=archive.parent) as scratch:
        made = Path(scratch, archive.name)
        options = f"{QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:disable -Xlog:all=error:stderr"
        exit_code = run_once(Path(scratch), options)
        if exit_code == 0 and made.is_file():  # else starts are slower, and that is all
            for outdated in archive.parent.glob("classes-*.jsa"):
                outdated.unlink()
            made.replace(archive)
    return archive


def run_once(folder: Path, java_options: str) -> int:
    """Run the pipeline over a cluster of three brokers in a JVM with these options.

    Returns:
        The JVM's exit code.
    """
    (folder / "source.txt").write_text(DESCRIBE, encoding="utf-8")
    settings = load_settings([f"store.warehouse={folder / 'warehouse'}", *FEW], environ={})
    spark = open_session("warm-up", warehouse=None, small=True, extra={"spark.driver.extraJavaOptions": java_options})
    store = Store(spark, settings.store.warehouse)
    context = make_context(find_sources([str(folder / "source.txt")]), settings, datetime.now(UTC))
    work = Run(spark, store, context, Progress())
    work.go(steps_between(None, None), clock=lambda: datetime.now(UTC))
    report(store, folder / "report.html", snapshots=context.snapshots, alone=True)
    return stop_embedded(spark)


def main() -> int:
    """0 once the archive is there or Spark has shown that it works without; else 1, with one message on stderr."""
    try:
        compile_missing(SETUP)
        make_archive()
    except KafkaPlacementError as fault:
        print(f"kafka-placement: {fault}", file=sys.stderr)
        return fault.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
