"""Finish setup: compile the kernels of the first commands, and archive the classes that a small run loads.

A session that starts from the archive (Java's class data sharing) needs half of the time.
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pipelines.config.settings import load_settings
from pipelines.errors import KafkaPlacementError
from pipelines.ingest.sources import find_sources
from pipelines.runner import Progress, Run, make_context
from pipelines.setup.compile_on_demand import SETUP, compile_missing
from pipelines.setup.java import check_java
from pipelines.spark.session import class_archive_file, open_session, stop_embedded
from pipelines.spark.store import Store
from pipelines.stages.stage_registry import steps_between

# Most code runs too rarely to be worth more than Java's first compiler.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
_DESCRIBE = """Topic: t\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=2
\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2
"""
_SETTINGS = ("failures.seeds=1", "failures.random_sets=1", "hotspots.seeds=2")


def create_class_archive() -> None:
    """Create the class archive if it does not exist."""
    archive = class_archive_file(check_java())
    if archive.is_file():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".warm-up-", dir=archive.parent) as scratch:
        new_archive = Path(scratch, archive.name)
        options = f"{_JAVA_OPTIONS} -XX:ArchiveClassesAtExit={new_archive} -Xlog:disable -Xlog:all=error:stderr"
        exit_code = run_small_cluster(Path(scratch), options)
        if exit_code == 0 and new_archive.is_file():  # without an archive, starts are only slower
            for outdated in archive.parent.glob("classes-*.jsa"):
                outdated.unlink()
            new_archive.replace(archive)


def run_small_cluster(folder: Path, java_options: str) -> int:
    """Run the pipeline over a cluster of three brokers in a JVM with these options; return the JVM's exit code."""
    (folder / "source.txt").write_text(_DESCRIBE, encoding="utf-8")
    settings = load_settings([f"store.warehouse={folder / 'warehouse'}", *_SETTINGS], environ={})
    spark = open_session("warm-up", warehouse=None, small=True, extra={"spark.driver.extraJavaOptions": java_options})
    store = Store(spark, settings.store.warehouse)
    context = make_context(find_sources([str(folder / "source.txt")]), settings, datetime.now(UTC))
    Run(store, context, Progress()).go(steps_between(None, None), clock=lambda: datetime.now(UTC))
    return stop_embedded(spark)


if __name__ == "__main__":
    try:
        compile_missing(SETUP)
        create_class_archive()
    except KafkaPlacementError as error:
        print(f"kafka-placement: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
