"""Look at the log of a Delta table in a folder of this machine: its last commit, and whether commits are lost."""

import json
import os
import re
from pathlib import Path

from pipelines.spark.storage_faults import make_access_error, make_damage_error

_LAST_COMMIT = "_last_commit"  # a file of the log that other programs ignore
_LOG_FILE = re.compile(r"(\d{20})(?:\.(json|crc)|\.(checkpoint)(?:\.[\w-]+)*\.(?:parquet|json))")


def list_commits(folder: Path) -> list[Path]:
    """List the commit files of a table in order; empty if there is no such table."""
    return sorted(file for file in (folder / "_delta_log").glob("*.json") if file.stem.isdigit())


def last_version(folder: Path) -> int:
    """Return the number of a table's last commit; -1 if there is no such table."""
    commits = list_commits(folder)
    return int(commits[-1].stem) if commits else -1


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
        if not os.access(file, os.R_OK):
            raise make_access_error(folder, file)
    return True


def find_damaged_line(folder: Path) -> str | None:
    """Find the first line of a table's commits that is not an action of Delta; None = no such line."""
    for commit in list_commits(folder):
        for number, line in enumerate(commit.read_bytes().splitlines(), 1):
            try:
                action = json.loads(line)
                is_action = isinstance(action, dict) and all(isinstance(value, dict) for value in action.values())
            except (ValueError, RecursionError):
                return f"line {number} of {commit} is not JSON"
            if not is_action:
                return f"line {number} of {commit} is not an action of Delta"
    return None
