"""The source of a folder is its files. Other entries are named; hidden entries are not."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source, compute_snapshot_id, find_source

DESCRIBE = "\tTopic: t\tPartition: 0\tLeader: 5\tReplicas: 5\tIsr: 5\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A describe, a sub-folder with another file, a broken link, and hidden ones of each."""
    made = tmp_path / "cluster"
    for sub in ("older", ".git"):
        (made / sub).mkdir(parents=True)
        (made / sub / "describe.txt").write_text(DESCRIBE)
    (made / "describe.txt").write_text(DESCRIBE)
    (made / ".DS_Store").write_text("x")
    (made / "gone").symlink_to(made / "nowhere")
    return made


@pytest.mark.parametrize(
    ("name", "file", "argument"),
    [
        ("", "prod.txt", "{folder}/prod.txt"),
        ("eu=", "prod.txt", "eu={folder}/prod.txt"),
        ("", "", "{folder}"),
        ("eu=", "", "eu={folder}"),
        ("e u=", "prod.txt", "'e u={folder}/prod.txt'"),
    ],
)
def test_a_source_as_an_argument_of_a_command(tmp_path: Path, name: str, file: str, argument: str) -> None:
    folder = tmp_path / "prod"
    folder.mkdir()
    for other in ("prod.txt", "brokers.csv"):
        (folder / other).write_text("x")
    source = find_source(f"{name}{folder / file if file else folder}")
    assert source.argument == argument.replace("{folder}", str(folder))
    assert find_source(shlex.split(source.argument)[0]) == source


def test_entries_of_a_folder_that_are_not_files_are_named(folder: Path) -> None:
    source = find_source(str(folder))
    assert [file.name for file in source.files] == ["describe.txt"]
    assert source.skipped == ("gone", "older/")
    assert source.warnings == [f"{folder}: ignored, because only files directly in the folder are read: gone, older/"]
    assert load_snapshot(source).skipped == source.skipped


def test_a_folder_of_files_only_gives_no_warning(tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "describe.txt").write_text(DESCRIBE)
    assert find_source(str(tmp_path)).warnings == []
    assert find_source(str(tmp_path / "describe.txt")).warnings == []


@pytest.mark.parametrize("command", [["inspect"], ["what-if", "--fail", "5"]])
def test_the_commands_warn_about_skipped_entries(
    folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answers = folder.parent / "answer.json"
    assert main([*command, str(folder), "--json", str(answers)]) == 0
    assert capsys.readouterr().err == (
        f"kafka-placement: warning: {folder}: ignored, because only files directly in the folder are read: "
        "gone, older/\n"
    )
    answer = json.loads(answers.read_text())
    assert (
        answer["skipped"] == ["gone", "older/"]
        if command == ["inspect"]
        else answer["summary"]["gaps"]["skipped_entries"]
    )


def test_the_error_of_a_folder_without_files_names_its_entries(tmp_path: Path) -> None:
    (tmp_path / ".hidden").write_text("x")
    with pytest.raises(SourceError, match=r"the folder has no files\."):
        find_source(str(tmp_path))
    (tmp_path / "a").mkdir()
    with pytest.raises(SourceError, match=r"the folder has no files, only a/\."):
        find_source(str(tmp_path))


def test_a_folder_without_a_readable_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "segment.log").write_bytes(bytes(100))
    with pytest.raises(SourceError, match=r"segment\.log: is binary"):
        load_snapshot(find_source(str(tmp_path)))


def test_a_path_that_the_system_rejects_is_a_source_error() -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        find_source("a" * 300)


def test_a_file_that_vanishes_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        compute_snapshot_id(Source("x", (tmp_path / "gone",)), None)
