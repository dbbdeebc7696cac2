"""A folder that cannot hold tables is rejected before Spark starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines import cli
from pipelines.errors import StoreError
from pipelines.spark import session
from pipelines.spark.warehouse_folder import check_folder, find_lost_rows

SAMPLE = str(Path(__file__).parents[2] / "data_samples" / "kafka-4.1.1-kraft")


@pytest.mark.parametrize("below", ["", "/deeper"])
@pytest.mark.parametrize("command", [["run", SAMPLE], ["tables"], ["query", "SELECT 1"]], ids=lambda c: c[0])
def test_a_file_is_rejected_by_every_command(
    command: list[str], below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("here")
    monkeypatch.setattr(session, "starts_embedded_spark", lambda: True)
    monkeypatch.setattr(session, "open_session", lambda *_, **__: pytest.fail("Spark was started"))
    assert cli.main([*command, "--warehouse", f"{file}{below}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{file} is a file, not a folder" in line


def test_an_unwritable_folder_is_rejected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(session, "starts_embedded_spark", lambda: True)
    assert cli.main(["run", SAMPLE, "--warehouse", "/proc/warehouse"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "/proc/warehouse cannot be written to" in line


def test_a_missing_folder_is_created_only_for_writing(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    check_folder(str(folder), writing=False)
    assert not folder.exists()
    check_folder(str(folder), writing=True)
    assert list(folder.iterdir()) == []


def test_lost_rows_are_told_beside_a_table_whose_log_is_damaged(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    for name in ("silver/topics", "silver/brokers"):
        DeltaTable.create(str(tmp_path / name), schema)
        write_deltalake(str(tmp_path / name), pa.table({"n": [1]}, schema), mode="append")
        (tmp_path / name / "_delta_log" / f"{1:020}.json").unlink()
    (tmp_path / "silver/topics/_delta_log" / f"{0:020}.json").write_text("{cut")
    (sentence,) = find_lost_rows(str(tmp_path))
    assert "table silver.brokers at" in sentence


def test_a_folder_without_permission_is_rejected(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    leave_root = "os.getuid() or os.setuid(65534)"  # root may write anywhere
    code = (
        f"import os, pipelines.spark.warehouse_folder as w; {leave_root}; w.check_folder({str(tmp_path / 'w')!r}, True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    tmp_path.chmod(0o755)
    assert StoreError.__name__ in done.stderr
    assert "Permission denied" in done.stderr
