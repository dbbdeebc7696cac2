"""Errors whose cause is the storage say what was written or read, and how to go on."""

from __future__ import annotations

import errno
import os

import pytest

from pipelines.spark.storage_faults import explain_storage_fault, read_message

WRITTEN = "table gold.plans at /w/gold/plans"
PLACES = ["/w/gold/plan", "/w/gold/plans", "/a b/silver/topics"]


class DeltaError(Exception):
    """Fails in looking for its text, as errors of Delta do, whose texts Spark does not know."""

    def getMessage(self) -> str:  # noqa: N802 - the name in PySpark
        raise RuntimeError("Cannot find main error class")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_names_what_was_written_and_how_to_resume(number: int) -> None:
    try:
        raise RuntimeError("Job aborted") from OSError(number, os.strerror(number))
    except RuntimeError as error:
        message = str(explain_storage_fault(error, WRITTEN))
    assert message.startswith(f"the disk is full, while writing {WRITTEN}: ")
    assert "repeat the command: it skips finished stages" in message


def test_a_read_only_folder_is_a_fault_only_of_writing() -> None:
    error = OSError(errno.EROFS, os.strerror(errno.EROFS), "/w/gold/plans")
    assert explain_storage_fault(error) is None
    assert str(explain_storage_fault(error, WRITTEN)).startswith(f"{WRITTEN} cannot be written: Read-only file system")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[FAILED_READ_FILE.NO_HINT] while reading file file:/w/gold/plans/x.parquet", "gold.plans at /w/gold/plans"),
        ("FileNotFoundException: file:///a%20b/silver/topics/_delta_log", "silver.topics at /a b/silver/topics"),
        ("Caused by: a.b.JsonParseException: no\n in /w/gold/plan", "gold.plan at /w/gold/plan"),
    ],
)
def test_a_damaged_table_is_named(text: str, name: str) -> None:
    fault = explain_storage_fault(RuntimeError(text), None, PLACES)
    assert fault is not None
    assert f"table {name} is damaged: " in fault.args[0]
    assert "Exception" not in fault.args[0]


def test_a_store_that_cannot_be_reached_shows_no_secret() -> None:
    error = RuntimeError(
        "o1.sql\n: ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3A for s3a://k:s@b not found"
    )
    fault = explain_storage_fault(error)
    assert fault is not None
    assert "s3a://***@b" in str(fault)


@pytest.mark.parametrize("text", ["Division by zero", "no such table /w/gold/plans", "FAILED_READ_FILE /elsewhere"])
def test_other_errors_have_another_cause(text: str) -> None:
    assert explain_storage_fault(RuntimeError(text), WRITTEN, PLACES) is None


def test_the_message_of_an_error_that_cannot_tell_it() -> None:
    assert read_message(DeltaError("[DELTA_X] no")) == "[DELTA_X] no"
    assert read_message(DeltaError()) == "DeltaError"
