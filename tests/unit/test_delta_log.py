"""Files of a table as its commits list them: the same as delta-rs finds, or none if Delta must be asked."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.errors import StoreError
from pipelines.spark import delta_log
from pipelines.spark.delta_log import (
    check_log,
    count_rows,
    has_unnamed_data,
    last_version,
    list_added_files,
    list_data_files,
    read_files,
)


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
    with pytest.raises(StoreError, match=r"(?s)/a table is damaged.*\.parquet is missing.*move .*/a table away"):
        read_files(table, files, ["n"])


def test_an_incomplete_log_needs_delta(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as few:
        few.setattr(delta_log, "_MAX_COMMITS", 3)
        assert list_data_files(table) is None
    first = table / "_delta_log" / f"{0:020}.json"
    text = first.read_text()
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}}
    first.write_text(f"{text.rstrip()}\n{json.dumps(protocol)}\n")
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


def test_old_commits_may_be_missing_after_a_checkpoint(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    write_deltalake(str(table), make_rows("three", 7), mode="append")
    (table / "_delta_log" / f"{0:020}.json").unlink()
    assert check_log(table)
    assert list_data_files(table) is None  # Delta must be asked
    (table / "_delta_log" / f"{3:020}.checkpoint.parquet").unlink()
    with pytest.raises(StoreError, match=r"a commit of its log is lost: .*/0{20}\.json"):
        check_log(table)


def get_commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def cut_data(table: Path) -> None:
    file = next(file for file in table.rglob("*.parquet") if "cluster_id=one" in str(file))
    file.write_bytes(file.read_bytes()[:-5])


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "first commit": (lambda table: get_commit(table, 0).unlink(), r"a commit of its log is lost: .*/0{20}\.json"),
    "middle commit": (lambda table: get_commit(table, 1).unlink(), r"a commit of its log is lost: .*0001\.json"),
    "two commits": (lambda table: [get_commit(table, n).unlink() for n in (1, 2)], r"0001\.json, and 1 more"),
    # Delta writes the checksum of a version after its commit.
    "last commit": (lambda table: get_commit(table, 4).with_suffix(".crc").touch(), r"lost: .*0004\.json"),
    "empty commit": (lambda table: get_commit(table, 3).write_bytes(b""), r"0003\.json is empty"),
    "half a commit": (
        lambda table: get_commit(table, 2).write_bytes(get_commit(table, 2).read_bytes()[:50]),
        r"line 1 of .*0002\.json is not JSON",
    ),
    "bytes": (lambda table: get_commit(table, 2).write_bytes(b"\xff\xfe\x00"), r"0002\.json is not JSON"),
    "deep JSON": (lambda table: get_commit(table, 2).write_text("[" * 100_000), r"0002\.json is not JSON"),
    "other JSON": (lambda table: get_commit(table, 2).write_text("[1]\n"), r"0002\.json is not an action of Delta"),
    "other action": (
        lambda table: get_commit(table, 2).write_text('{"add": {}}\n'),
        r"describes a file without 'path'",
    ),
    "no columns": (lambda table: get_commit(table, 0).write_text('{"commitInfo": {}}\n'), r"lacks the columns"),
    "cut data": (cut_data, r"\.parquet has [\d,]+ bytes, but had [\d,]+ when it was written"),
    "no log": (
        lambda table: shutil.rmtree(table / "_delta_log"),
        r"has data, such as .*\.parquet, but its log .* has no",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_table_is_never_read_as_an_older_or_empty_one(
    table: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(table)
    with pytest.raises(StoreError, match=message) as raised:
        list_data_files(table)
    problem, remedy = raised.value.args
    assert f"at {table} is damaged" in problem
    assert f"move {table} away" in remedy
    assert "kafka-placement run SOURCE" in remedy
    assert "history is lost" in remedy


def test_data_of_the_right_size_that_is_not_parquet_is_named(table: Path) -> None:
    files = list_data_files(table)
    assert files is not None
    Path(files[0].path).write_bytes(os.urandom(files[0].size_bytes))
    with pytest.raises(StoreError, match=r"\.parquet cannot be read"):
        read_files(table, files, ["n"])


def test_what_a_killed_run_leaves_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "_delta_log" / "_staged_commits").mkdir(parents=True)
    assert not check_log(tmp_path)
    assert list_data_files(tmp_path) is None


def test_data_that_no_commit_names_is_told(tmp_path: Path) -> None:
    assert not has_unnamed_data(tmp_path)
    schema = pa.schema([("n", pa.int64())])
    DeltaTable.create(str(tmp_path), schema)
    assert not has_unnamed_data(tmp_path)
    write_deltalake(str(tmp_path), pa.table({"n": [1]}, schema), mode="append")
    assert not has_unnamed_data(tmp_path)
    for file in (tmp_path / "_delta_log").glob(f"*{1:020}*"):
        file.unlink()
    assert has_unnamed_data(tmp_path)
