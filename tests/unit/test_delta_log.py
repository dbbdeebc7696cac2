"""The files of a table as its commits list them: the same as delta-rs finds, or none where Delta has to be asked."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.spark import delta_log
from pipelines.spark.delta_log import data_files, last_version, rows_of, table_of


def rows(cluster: str, count: int) -> pa.Table:
    return pa.table({"cluster_id": [cluster] * count, "n": list(range(count))})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table by cluster after an append, an overwrite of one cluster, and one with a name that paths escape."""
    folder = tmp_path / "a table"
    for cluster in ("one", "two", "a b/[c]%"):
        write_deltalake(str(folder), rows(cluster, 3), partition_by=["cluster_id"], mode="append")
    write_deltalake(str(folder), rows("two", 5), mode="overwrite", predicate="cluster_id = 'two'")
    return folder


def test_files_are_those_of_the_newest_version(table: Path) -> None:
    found = data_files(table)
    assert found is not None
    known = {Path(unquote(uri.removeprefix("file://"))).name for uri in DeltaTable(str(table)).file_uris()}
    assert {Path(file.path).name for file in found} == known
    assert all(Path(file.path).is_file() for file in found)
    assert sorted(str(file.partition["cluster_id"]) for file in found) == ["a b/[c]%", "one", "two"]
    assert (rows_of(found), last_version(table)) == (3 + 5 + 3, 3)


def test_rows_are_those_of_the_newest_version(table: Path) -> None:
    """With the column that stands in the names of folders alone, in the order that is asked for."""
    found = data_files(table)
    assert found is not None
    read = table_of(found, ["n", "cluster_id"])
    assert read.column_names == ["n", "cluster_id"]
    whole = DeltaTable(str(table)).to_pyarrow_table().select(["n", "cluster_id"])
    assert sorted(map(str, read.to_pylist())) == sorted(map(str, whole.to_pylist()))


def test_there_may_be_no_table(tmp_path: Path) -> None:
    assert (last_version(tmp_path), data_files(tmp_path)) == (-1, None)


def test_commits_that_do_not_tell_all_are_left_to_delta(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as few:
        few.setattr(delta_log, "_MOST_COMMITS", 3)
        assert data_files(table) is None
    first = table / "_delta_log" / f"{0:020}.json"
    text = first.read_text()
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}}
    first.write_text(f"{text.rstrip()}\n{json.dumps(protocol)}\n")
    assert data_files(table) is None
    first.unlink()  # as after a checkpoint, when old commits are cleaned up
    assert data_files(table) is None


def test_a_file_without_statistics_leaves_the_rows_unknown(table: Path) -> None:
    last = table / "_delta_log" / f"{3:020}.json"
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    last.write_text("".join(json.dumps(action) + "\n" for action in actions))
    found = data_files(table)
    assert found is not None
    assert rows_of(found) is None
