"""bronze.raw_metadata: the records of two files, as they are written there."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from pipelines.spark.arrow_frames import create_frame
from pipelines.stages.ingest_stages import FILES, raw_metadata
from tests.spark.stages.frames import KEYS, SAME_ROWS, expected_frame, select_columns

DESCRIBE = "Topic: orders\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n\n\tTopic: orders\tPartition: 0\n"
LOG_DIRS = """Received log directory information from brokers 1
{"version":1,"brokers":[
 {"broker":1,"logDirs":[{"logDir":"/d","error":null,"partitions":[
  {"partition":"orders-0","size":5,"offsetLag":0,"isFuture":false}]}]}]}
"""


@pytest.mark.stage("bronze.raw_metadata")
def test_records_of_files(spark: SparkSession, tmp_path: Path) -> None:
    """A line is a record of a describe, a broker or a replica is one of kafka-log-dirs; text around it is one too.

    A file may have both: each record has the format that read it.
    """
    (tmp_path / "describe.txt").write_text(DESCRIBE)
    (tmp_path / "both.txt").write_text(LOG_DIRS + DESCRIBE)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    names = ("describe.txt", "both.txt")
    files = [(*KEYS.values(), name, None, os.fsencode(tmp_path / name), at, 0, 1) for name in names]
    actual = raw_metadata(create_frame(spark, files, FILES))
    columns = "source format record_number line_number context raw ingested_at"
    broker = '{"broker": 1, "logDirs": [{"logDir": "/d", "error": null}]}'
    place = '{"broker": 1, "logDir": "/d", "error": null}'
    replica = '{"partition":"orders-0","size":5,"offsetLag":0,"isFuture":false}'
    expected = [
        ("describe.txt", "describe", 0, 1, None, DESCRIBE.split("\n")[0], at),
        ("describe.txt", "describe", 1, 2, None, "", at),
        ("describe.txt", "describe", 2, 3, None, "\tTopic: orders\tPartition: 0", at),
        ("both.txt", "log-dirs", 0, 1, "text", "Received log directory information from brokers 1", at),
        ("both.txt", "log-dirs", 1, 3, "broker", broker, at),
        ("both.txt", "log-dirs", 2, 4, place, replica, at),
        ("both.txt", "describe", 3, 5, None, DESCRIBE.split("\n")[0], at),
        ("both.txt", "describe", 4, 6, None, "", at),
        ("both.txt", "describe", 5, 7, None, "\tTopic: orders\tPartition: 0", at),
    ]
    assert_df_equality(
        select_columns(actual, columns), expected_frame(spark, "bronze.raw_metadata", columns, expected), **SAME_ROWS
    )


@pytest.mark.stage("bronze.raw_metadata")
@pytest.mark.parametrize("parts", [1, 3])
def test_a_large_file_is_read_in_parts(spark: SparkSession, tmp_path: Path, parts: int) -> None:
    """Each record is in one part."""
    line = "\tTopic: orders\tPartition: {}\tLeader: 1\tReplicas: 1\tIsr: 1"
    (tmp_path / "describe.txt").write_text("\n".join(line.format(i) for i in range(50_000)))
    file = (
        *KEYS.values(),
        "describe.txt",
        None,
        os.fsencode(tmp_path / "describe.txt"),
        datetime(2026, 1, 2, tzinfo=UTC),
    )
    frame = raw_metadata(create_frame(spark, [(*file, part, parts) for part in range(parts)], FILES))
    expected = [("describe.txt", i, i + 1, line.format(i)) for i in range(50_000)]
    columns = "source record_number line_number raw"
    assert_df_equality(
        select_columns(frame, columns), expected_frame(spark, "bronze.raw_metadata", columns, expected), **SAME_ROWS
    )
