"""Read small Delta tables in a folder of this machine without Spark, and name what is wrong with them."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import parquet

from pipelines.errors import StoreError
from pipelines.spark.storage_faults import make_access_error, make_damage_error

_LAST_COMMIT = "_last_commit"  # a file of the log that other programs ignore
_MAX_COMMITS = 30
_MAX_BYTES = 4_000_000
_LOG_FILE = re.compile(r"(\d{20})(?:\.(json|crc)|\.(checkpoint)(?:\.[\w-]+)*\.(?:parquet|json))")


class DataFile(NamedTuple):
    """A Parquet file of a table: absolute path, values of the partition columns, rows (None = not recorded), bytes."""

    path: str
    partition: dict[str, str | None]
    rows: int | None
    size_bytes: int


def list_commits(folder: Path) -> list[Path]:
    """List the commit files of a table in order; empty if there is no such table."""
    return sorted(file for file in (folder / "_delta_log").glob("*.json") if file.stem.isdigit())


def last_version(folder: Path) -> int:
    """Return the number of a table's last commit; -1 if there is no such table."""
    commits = list_commits(folder)
    return int(commits[-1].stem) if commits else -1


def read_user_metadata(folder: Path, commits: int) -> str:
    """Read Delta's user metadata of the last write among so many commits; empty if it has none."""
    for commit in reversed(list_commits(folder)[-commits:]):
        try:
            actions = _read_actions(folder, commit)
        except StoreError:
            return ""
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        if not str(info.get("operation", "")).startswith("VACUUM"):
            return str(info.get("userMetadata", ""))
    return ""


def note_last_commit(folder: Path) -> None:
    """Note the number of a table's last commit, so that its loss is seen: Spark writes a checksum for each."""
    (folder / "_delta_log" / _LAST_COMMIT).write_text(str(last_version(folder)), encoding="ascii")


def _read_last_commit(folder: Path) -> int:
    """Return the number that note_last_commit has written; -1 without any."""
    try:
        return int((folder / "_delta_log" / _LAST_COMMIT).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return -1


def check_log(folder: Path) -> bool:
    """Tell whether there is a table; raise StoreError if commits of its log are lost.

    Delta would read a table whose last commits are lost as it was before them: without rows, if they were all it had.
    """
    log = folder / "_delta_log"
    try:
        files = [*log.iterdir()] if log.is_dir() else []
    except PermissionError as error:
        raise make_access_error(folder, log) from error
    matches = [match for file in files if (match := _LOG_FILE.fullmatch(file.name))]
    versions: dict[str, set[int]] = {"json": set(), "crc": set(), "checkpoint": set()}
    for match in matches:
        versions[match[2] or match[3]].add(int(match[1]))
    commits, checkpoints = versions["json"], versions["checkpoint"]
    if not commits | checkpoints:
        data = next((file for file in folder.rglob("*.parquet") if log not in file.parents), None)
        if data is not None and not list_commits(folder):
            raise make_damage_error(folder, f"it has data, such as {data.name}, but its log {log} has no commits")
        return False
    # Delta reads the newest checkpoint and the commits after it, and writes a checksum (.crc) after each commit.
    first = max(checkpoints) if checkpoints else 0
    last = max(commits | checkpoints | versions["crc"] | {_read_last_commit(folder)})
    needed = [log / f"{version:020}.json" for version in range(first, last + 1)]
    # A commit that was not listed may be one that another run has written in the meantime.
    lost = [file for file in needed if int(file.stem) not in commits and not file.exists()]
    if lost:
        more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise make_damage_error(folder, f"a commit of its log is lost: {lost[0]}{more}")
    for file in needed:
        if not file.stat().st_size:
            raise make_damage_error(folder, f"the commit {file} is empty")
    return True


def has_unnamed_data(folder: Path) -> bool:
    """Tell whether a table has been created, and data was written for it, but no commit names any."""
    commits = list_commits(folder)
    if [int(file.stem) for file in commits] != [0] or any(
        "add" in action for action in _read_actions(folder, commits[0])
    ):
        return False
    return any(_has_rows(file) for file in folder.rglob("*.parquet"))


def _has_rows(file: Path) -> bool:
    """Return whether a Parquet file has rows; Spark also writes files without any, and one may be cut or removed."""
    try:
        return bool(parquet.read_metadata(file).num_rows)
    except (OSError, pa.ArrowException):
        return False


def list_data_files(folder: Path) -> list[DataFile] | None:
    """List the files of a table's newest version; None if the log does not tell them all.

    Raises: StoreError if the log is damaged, or a file is missing or cut.
    """
    commits = list_commits(folder) if check_log(folder) else []
    is_complete = [int(file.stem) for file in commits] == list(range(len(commits)))
    if not commits or not is_complete or len(commits) > _MAX_COMMITS:
        return None
    if sum(file.stat().st_size for file in commits) > _MAX_BYTES:
        return None
    files: dict[str, DataFile] = {}
    for commit in commits:
        for action in _read_actions(folder, commit):
            protocol, file = action.get("protocol"), action.get("add") or action.get("remove") or {}
            if protocol and (protocol.get("readerFeatures") or protocol["minReaderVersion"] > 1):
                return None
            if file.get("deletionVector"):
                return None
            if "remove" in action:
                files.pop(action["remove"]["path"], None)
            elif "add" in action:
                files[action["add"]["path"]] = _parse_file(folder, action["add"])
    check_files(folder, list(files.values()))
    return list(files.values())


def list_added_files(folder: Path) -> list[DataFile] | None:
    """List the files that a table's last commit added; None if it removed any, or there is no such table."""
    commits = list_commits(folder)
    actions = _read_actions(folder, commits[-1]) if commits else []
    if not commits or any("remove" in action for action in actions):
        return None
    return [_parse_file(folder, action["add"]) for action in actions if "add" in action]


def count_rows(files: Sequence[DataFile]) -> int | None:
    """Count the rows of files; None if a commit does not record them."""
    counts = [file.rows for file in files if file.rows is not None]
    return sum(counts) if len(counts) == len(files) else None


def check_files(folder: Path, files: Sequence[DataFile]) -> None:
    """Check that the files of a table exist with their sizes; raise StoreError if one does not."""
    for file in files:
        try:
            size = Path(file.path).stat().st_size
        except FileNotFoundError:
            raise make_damage_error(folder, f"its file {file.path} is missing: it was removed without Delta") from None
        if size != file.size_bytes:
            problem = f"its file {file.path} has {size:,} bytes, but had {file.size_bytes:,} when it was written"
            raise make_damage_error(folder, problem)
        if not os.access(file.path, os.R_OK):  # Spark would say that the file does not exist
            raise make_access_error(folder, file.path)


def read_files(folder: Path, files: Sequence[DataFile], columns: Sequence[str]) -> pa.Table:
    """Read columns of all rows of some files of a table; raise StoreError if one is missing or damaged."""
    check_files(folder, files)
    parts = [pa.table({column: pa.array([], pa.string()) for column in columns})] if not files else []
    for file in files:
        stored = [column for column in columns if column not in file.partition]
        try:
            part = parquet.ParquetFile(file.path).read(stored)
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise make_damage_error(folder, f"its file {file.path} cannot be read: {reason}") from error
        for column in set(columns) - set(stored):
            part = part.append_column(column, pa.repeat(pa.scalar(file.partition[column], pa.string()), part.num_rows))
        parts.append(part.select(columns))
    return pa.concat_tables(parts)


def _read_actions(folder: Path, commit: Path) -> list[dict[str, Any]]:
    """Read the actions of a commit; raise StoreError if it is empty or not what Delta writes."""
    actions: list[dict[str, Any]] = []
    try:
        for number, line in enumerate(commit.read_bytes().splitlines(), 1):
            position = f"line {number} of {commit}"
            action = json.loads(line)
            if not isinstance(action, dict) or not all(isinstance(value, dict) for value in action.values()):
                raise make_damage_error(folder, f"{position} is not an action of Delta")
            actions.append(action)
    except PermissionError as error:
        raise make_access_error(folder, commit) from error
    except (ValueError, RecursionError) as error:
        raise make_damage_error(folder, f"{position} is not JSON") from error
    if not actions:
        raise make_damage_error(folder, f"the commit {commit} is empty")
    if not int(commit.stem) and not any("metaData" in action for action in actions):
        raise make_damage_error(folder, f"the commit {commit} lacks the columns of the table")
    return actions


def _parse_file(folder: Path, added: dict[str, Any]) -> DataFile:
    try:
        path, values, size_bytes = unquote(added["path"]), added["partitionValues"], added["size"]
        rows = json.loads(added.get("stats") or "{}").get("numRecords")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise make_damage_error(folder, f"its log describes a file without {error}") from error
    return DataFile(path if path.startswith("/") else f"{folder}/{path}", values, rows, size_bytes)
