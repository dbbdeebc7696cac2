"""The last step of set-up: a first start of Spark, which shows that it works here and makes later starts faster.

`python -m pipelines.warm_up` writes down the classes that a small piece of work loads (Java's class data sharing);
a session that starts from that archive is up in half of the time. It also compiles the kernels that the first
commands call.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pipelines.compilation import SETUP, compile_missing
from pipelines.errors import KafkaPlacementError
from pipelines.java import check_java
from pipelines.jvm import class_archive
from pipelines.session import open_session, stop_embedded

# Little is run often enough to be worth more than Java's first compiler.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
COLUMNS = "part STRING NOT NULL, id BIGINT, replicas ARRAY<INT>, size DOUBLE, at TIMESTAMP"
ROWS = """SELECT 'a' AS part, id, array(CAST(id AS INT), 2) AS replicas, id / 2 AS size, TIMESTAMP '2026-01-01' AS at
FROM range(100)"""


def make_archive() -> Path:
    """The archive, made anew if it is missing; whole or not at all."""
    archive = class_archive(check_java())
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".warm-up-", dir=archive.parent) as scratch:
        made = Path(scratch, archive.name)
        options = f"{QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:disable -Xlog:all=error:stderr"
        exit_code = work(Path(scratch, "table"), {"spark.driver.extraJavaOptions": options})
        if exit_code == 0 and made.is_file():  # else starts are slower, and that is all
            for outdated in archive.parent.glob("classes-*.jsa"):
                outdated.unlink()
            made.replace(archive)
    return archive


def work(table: Path, settings: dict[str, str]) -> int:
    """The exit code of a JVM whose Spark did once what a run does often, and ended."""
    spark = open_session("warm-up", warehouse=None, small=True, extra=settings)
    name = f"delta.`{table}`"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING delta PARTITIONED BY (part) COMMENT 'a table'")
    rows = spark.sql(ROWS)
    for _ in range(2):
        rows.write.format("delta").mode("overwrite").option("replaceWhere", "part = 'a'").save(str(table))
    passed = rows.mapInArrow(lambda batches: batches, rows.schema).selectExpr("id", "explode(replicas) AS replica")
    stored = spark.read.format("delta").load(str(table)).where("part = 'a'")
    stored.join(passed, on="id", how="left").groupBy("replica").agg({"size": "avg"}).orderBy("replica").collect()
    spark.sql(f"SELECT part, max(size), percent_rank() OVER (ORDER BY part) FROM {name} GROUP BY part").toPandas()
    spark.sql(f"DESCRIBE HISTORY {name}").collect()
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
