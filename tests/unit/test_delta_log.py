"""Tables read without Spark: by snapshot, by file and by cluster; damaged ones are never read as older or empty."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import LocalFileSystem

from pipelines.errors import StoreError
from pipelines.ingest.sources import SnapshotKey
from pipelines.spark import delta_rs
from pipelines.spark.delta_log import check_log, last_version
from pipelines.spark.delta_rs import count_by_cluster, count_rows, list_files, read_rows
from pipelines.spark.table_files import has_unnamed_data

NUMBER, CLUSTER = pa.schema([("n", pa.int64())]), pa.schema([("cluster_id", pa.string())])
COLUMNS = pa.schema([*NUMBER, *CLUSTER])


def make_rows(cluster: str, count: int, snapshot: str = "s") -> pa.Table:
    return pa.table({"cluster_id": [cluster] * count, "snapshot_id": [snapshot] * count, "n": list(range(count))})


@pytest.fixture(params=[["cluster_id"], None], ids=["partitioned", "not partitioned"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A table after appends and an overwrite; one cluster has a name that paths escape."""
    folder = tmp_path / "a table"
    for cluster in ("one", "two", "a b/[c]%"):
        write_deltalake(str(folder), make_rows(cluster, 3), partition_by=request.param, mode="append")
    write_deltalake(str(folder), make_rows("two", 5), mode="overwrite", predicate="cluster_id = 'two'")
    return folder


def test_files_are_those_of_the_newest_version(table: Path) -> None:
    files = list_files(table, None)
    assert files is not None
    expected = {Path(unquote(uri.removeprefix("file://"))).name for uri in DeltaTable(str(table)).file_uris()}
    assert {Path(file).name for file in files} == expected
    assert all(Path(file).is_file() for file in files)
    assert (count_rows(table), last_version(table)) == (3 + 5 + 3, 3)


def test_columns_that_an_earlier_version_did_not_write_are_null(table: Path) -> None:
    rows = read_rows(table, [SnapshotKey("two", "s")], pa.schema([*NUMBER, ("sizes", pa.list_(pa.int64()))]))
    assert rows is not None
    assert rows.to_pydict() == {"n": [0, 1, 2, 3, 4], "sizes": [None] * 5}


def test_only_files_with_rows_of_the_snapshots_are_read(table: Path) -> None:
    write_deltalake(str(table), make_rows("two", 4, "later"), mode="append")
    write_deltalake(str(table), pa.concat_tables([make_rows("one", 1, "x"), make_rows("two", 2, "x")]), mode="append")
    keys = [SnapshotKey("two", "later")]
    files = list_files(table, keys)
    assert files is not None
    assert len(files) == 1
    for other in {*(list_files(table, None) or ())} - {*files}:
        Path(other).unlink()  # so that it cannot be read
    rows = read_rows(table, keys, COLUMNS)
    assert rows is not None
    assert rows.to_pydict() == {"n": [0, 1, 2, 3], "cluster_id": ["two"] * 4}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([SnapshotKey("one", "x")], {"one": 1}),
        ([SnapshotKey("one", "x"), SnapshotKey("two", "s"), SnapshotKey("two", "x")], {"one": 1, "two": 7}),
        ([SnapshotKey("a b/[c]%", "s"), SnapshotKey("one", "unknown")], {"a b/[c]%": 3}),
        ([], {}),
    ],
)
def test_rows_of_snapshots_are_counted_and_read(table: Path, keys: list[SnapshotKey], expected: dict[str, int]) -> None:
    write_deltalake(str(table), pa.concat_tables([make_rows("one", 1, "x"), make_rows("two", 2, "x")]), mode="append")
    assert count_by_cluster(table, keys) == expected
    rows = read_rows(table, keys, CLUSTER)
    assert rows is not None
    assert Counter(rows["cluster_id"].to_pylist()) == expected
    assert read_rows(table, None, NUMBER, max_rows=5) is None


def test_a_missing_table_has_no_version_and_no_files(tmp_path: Path) -> None:
    assert (last_version(tmp_path), list_files(tmp_path, None), read_rows(tmp_path, None, NUMBER)) == (-1, None, None)


def test_a_missing_file_is_named(table: Path) -> None:
    files = list_files(table, None)
    assert files is not None
    Path(files[0]).unlink()
    for read in (lambda: read_rows(table, None, NUMBER), lambda: list_files(table, None), lambda: count_rows(table)):
        with pytest.raises(StoreError, match=r"(?s)/a table is damaged.*\.parquet is missing.*move .*/a table away"):
            read()


def test_newer_features_need_spark(table: Path) -> None:
    first = table / "_delta_log" / f"{0:020}.json"
    text = first.read_text()
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    lines = [line for line in text.splitlines() if '"protocol"' not in line]
    first.write_text("\n".join([*lines, json.dumps({"protocol": {**protocol, "writerFeatures": ["deletionVectors"]}})]))
    assert list_files(table, None) is None
    assert read_rows(table, None, NUMBER) is None


def test_rows_are_unknown_without_statistics(table: Path) -> None:
    last = table / "_delta_log" / f"{3:020}.json"
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    last.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert count_rows(table) is None
    assert read_rows(table, None, NUMBER, max_rows=20) is not None


def test_old_commits_may_be_missing_after_a_checkpoint(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    write_deltalake(str(table), make_rows("three", 7), mode="append")
    (table / "_delta_log" / f"{0:020}.json").unlink()
    assert check_log(table)
    assert count_rows(table) == 3 + 5 + 3 + 7
    (table / "_delta_log" / f"{3:020}.checkpoint.parquet").unlink()
    with pytest.raises(StoreError, match=r"a commit of its log is lost: .*/0{20}\.json"):
        check_log(table)


def get_commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def cut_data(table: Path) -> None:
    file = Path((list_files(table, None) or [])[0])
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
    "other action": (lambda table: get_commit(table, 2).write_text('{"add": {}}\n'), r"whilst decoding field 'add'"),
    "no columns": (
        lambda table: get_commit(table, 0).write_text('{"commitInfo": {}}\n'),
        r"No table metadata or protocol",
    ),
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
        list_files(table, None)
    problem, remedy = raised.value.args
    assert f"at {table} is damaged" in problem
    assert f"move {table} away" in remedy
    assert "kafka-placement run SOURCE" in remedy
    assert "history is lost" in remedy


def test_data_of_the_right_size_that_is_not_parquet_is_named(table: Path) -> None:
    files = list_files(table, None)
    assert files is not None
    Path(files[0]).write_bytes(os.urandom(Path(files[0]).stat().st_size))
    with pytest.raises(StoreError, match=r"a table is damaged: .*\.parquet"):
        read_rows(table, None, NUMBER)


def test_what_a_killed_run_leaves_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "_delta_log" / "_staged_commits").mkdir(parents=True)
    assert not check_log(tmp_path)
    assert list_files(tmp_path, None) is None


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


def test_files_are_opened_without_python(table: Path) -> None:
    """While pyarrow begins to read files for DuckDB, nothing that needs Python may run: both would wait for ever."""
    rows = delta_rs._open_files(table, DeltaTable(str(table)))
    assert isinstance(rows.filesystem.base_fs, LocalFileSystem)
    assert rows.to_table().num_rows == DeltaTable(str(table)).to_pyarrow_table().num_rows > 0
