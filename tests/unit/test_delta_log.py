"""Files of a table as its commits list them: the same as delta-rs finds, or none if Delta must be asked."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.errors import StoreError
from pipelines.spark import warehouse_folder
from pipelines.spark.warehouse_folder import count_rows, last_version, list_added_files, list_data_files, read_files


def make_rows(cluster: str, count: int) -> pa.Table:
    return pa.table({"cluster_id": [cluster] * count, "n": list(range(count))})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table partitioned by cluster after appends and an overwrite; one cluster has a name that paths escape."""
    folder = tmp_path / "a table"
    for cluster in ("one", "two", "a b/[c]%"):
        write_deltalake(str(folder), make_rows(cluster, 3), partition_by=["cluster_id"], mode="append")
    write_deltalake(str(folder), make_rows("two", 5), mode="overwrite", predicate="cluster_id = 'two'")
    return folder


def test_files_are_those_of_the_newest_version(table: Path) -> None:
    files = list_data_files(table)
    assert files is not None
    expected = {Path(unquote(uri.removeprefix("file://"))).name for uri in DeltaTable(str(table)).file_uris()}
    assert {Path(file.path).name for file in files} == expected
    assert all(Path(file.path).is_file() for file in files)
    assert sorted(str(file.partition["cluster_id"]) for file in files) == ["a b/[c]%", "one", "two"]
    assert (count_rows(files), last_version(table)) == (3 + 5 + 3, 3)


def test_rows_are_those_of_the_newest_version(table: Path) -> None:
    """With the partition column, which only folder names contain, in the requested order of columns."""
    files = list_data_files(table)
    assert files is not None
    rows = read_files(table, files, ["n", "cluster_id"])
    assert rows.column_names == ["n", "cluster_id"]
    expected = DeltaTable(str(table)).to_pyarrow_table().select(["n", "cluster_id"])
    assert sorted(map(str, rows.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert read_files(table, [], ["n", "cluster_id"]).num_rows == 0


def test_the_last_commit_lists_what_it_added_unless_it_removed_rows(table: Path) -> None:
    assert list_added_files(table) is None
    write_deltalake(str(table), make_rows("three", 7), mode="append")
    files = list_added_files(table)
    assert files is not None
    assert [(file.partition["cluster_id"], file.rows) for file in files] == [("three", 7)]


def test_a_missing_table_has_no_version_and_no_files(tmp_path: Path) -> None:
    assert (last_version(tmp_path), list_data_files(tmp_path), list_added_files(tmp_path)) == (-1, None, None)


def test_a_missing_file_is_named(table: Path) -> None:
    files = list_data_files(table)
    assert files is not None
    Path(files[0].path).unlink()
    with pytest.raises(StoreError, match=r"\.parquet is missing: .*Remove the whole folder .*/a table, and run again"):
        read_files(table, files, ["n"])


def test_an_incomplete_log_needs_delta(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as few:
        few.setattr(warehouse_folder, "_MAX_COMMITS", 3)
        assert list_data_files(table) is None
    first = table / "_delta_log" / f"{0:020}.json"
    text = first.read_text()
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}}
    first.write_text(f"{text.rstrip()}\n{json.dumps(protocol)}\n")
    assert list_data_files(table) is None
    first.unlink()  # as after a checkpoint, when old commits are cleaned up
    assert list_data_files(table) is None


def test_rows_are_unknown_without_statistics(table: Path) -> None:
    last = table / "_delta_log" / f"{3:020}.json"
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    last.write_text("".join(json.dumps(action) + "\n" for action in actions))
    files = list_data_files(table)
    assert files is not None
    assert count_rows(files) is None
