"""The cron table and its script, run by the shell that cron uses."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import LAST_STAGE
from tests.shared_runs import SmallRun

FOLDER = Path(__file__).parents[2] / "jobs" / "cron.d"
ROOT = FOLDER.parents[1]
TAB, SCRIPT = FOLDER / "kafka-placement", FOLDER / "nightly.sh"


def make_environment(folder: Path, command: str) -> dict[str, str]:
    """Make cron's environment, with a `kafka-placement` that runs a shell command."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    (bin_folder / "kafka-placement").write_text(f"#!/bin/bash\n{command}\n")
    (bin_folder / "kafka-placement").chmod(0o755)
    return {"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(folder)}


def run_script(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", str(SCRIPT)], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def write_sources(folder: Path) -> None:
    (folder / "sources" / "eu").mkdir(parents=True)
    (folder / "sources" / "prod.eu.txt").write_text("\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n")


def test_cron_accepts_the_table() -> None:
    lines = [line for line in TAB.read_text().splitlines() if line and not line.startswith("#")]
    settings = [line for line in lines if re.match(r"[A-Z_]+=", line)]
    (job,) = (line for line in lines if line not in settings)
    assert {line.split("=")[0] for line in settings} == {"SHELL", "PATH", "MAILTO", "HOME", "JAVA_HOME"}
    minute, hour, day, month, weekday, user, command = job.split(maxsplit=6)
    assert (0 <= int(minute) < 60, 0 <= int(hour) < 24, day, month, weekday) == (True, True, "*", "*", "*")
    assert user == "kafka-placement"
    assert "%" not in command  # cron replaces it by a line break
    assert Path(command).name == SCRIPT.name
    assert os.access(SCRIPT, os.X_OK)
    assert TAB.read_text().endswith("\n")  # cron ignores a last line without it
    assert "." not in TAB.name
    assert subprocess.run(["/bin/bash", "-n", str(SCRIPT)], check=False).returncode == 0


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (0, ""),
        (1, "The run ended with exit code 1;"),
        (2, "A table has a fault"),
        (4, "Something is newly at risk, or a threshold is crossed."),
        (64, "The run ended with exit code 64;"),
    ],
)
def test_only_problems_are_mailed(tmp_path: Path, code: int, message: str) -> None:
    write_sources(tmp_path)
    ending = f"echo why >&2; exit {code}" if code else "exit 0"
    done = run_script(tmp_path, make_environment(tmp_path, f'printf "%s\\n" "$@" > args; echo much; {ending}'))
    assert done.returncode == code
    assert done.stdout.startswith(message)
    assert done.stdout.endswith("why\n") == bool(code)
    assert "much" not in done.stdout
    if not code:
        assert (done.stdout, done.stderr) == ("", "")
    (log,) = (tmp_path / "log").glob("*.log")
    assert log.read_text() == "much\n"
    arguments = (tmp_path / "args").read_text().splitlines()
    assert arguments[:3] == ["run", f"{tmp_path}/sources/eu", f"{tmp_path}/sources/prod.eu.txt"]


def test_runs_do_not_overlap(tmp_path: Path) -> None:
    write_sources(tmp_path)
    environment = make_environment(tmp_path, "touch started")
    (tmp_path / "log").mkdir()
    with (tmp_path / "log" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run_script(tmp_path, environment)
    assert done.returncode == 75
    assert "the previous run is still in progress" in done.stderr
    assert not (tmp_path / "started").exists()
    assert run_script(tmp_path, environment).returncode == 0
    assert (tmp_path / "started").exists()


def test_missing_sources(tmp_path: Path) -> None:
    done = run_script(tmp_path, make_environment(tmp_path, "exit 0"))
    assert (done.returncode, done.stderr) == (
        1,
        f"kafka-placement: there is no source in {tmp_path}/sources, and no cluster in {tmp_path}/clusters.txt\n",
    )


def test_running_clusters(tmp_path: Path) -> None:
    (tmp_path / "clusters.txt").write_text("# Europe\neu=kafka://b1:9093,b2:9093\n\nus=kafka://c1:9092\n")
    (tmp_path / "clients").mkdir()
    for name in ("eu", "default"):
        (tmp_path / "clients" / f"{name}.properties").touch()
    (tmp_path / "secrets.env").write_text("EU_PASSWORD='a b$c'\n")
    command = 'printf "%s\\n" "$@" > args; printf "%s" "$EU_PASSWORD" > password'
    done = run_script(tmp_path, make_environment(tmp_path, command))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    arguments = (tmp_path / "args").read_text().splitlines()
    assert arguments[:3] == ["run", "eu=kafka://b1:9093,b2:9093", "us=kafka://c1:9092"]
    clients = tmp_path / "clients"
    configs = ["--command-config", f"{clients}/default.properties", "--command-config", f"eu={clients}/eu.properties"]
    assert arguments[3:7] == configs
    assert (tmp_path / "password").read_text() == "a b$c"


@pytest.mark.parametrize("text", ["us=kafka://c1:9092\n", "us=kafka://c1:9092", "# none\n"])
def test_every_line_of_clusters_counts(tmp_path: Path, text: str) -> None:
    """The last line may have no newline, and properties without a running cluster are not passed on."""
    write_sources(tmp_path)
    (tmp_path / "clusters.txt").write_text(text)
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "default.properties").touch()
    done = run_script(tmp_path, make_environment(tmp_path, 'printf "%s\n" "$@" > args'))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    arguments = (tmp_path / "args").read_text().splitlines()
    assert ("us=kafka://c1:9092" in arguments) == ("--command-config" in arguments) == text.startswith("us")


@pytest.mark.slow
@pytest.mark.e2e
def test_with_the_command_itself(small_run: SmallRun, tmp_path: Path) -> None:
    """A failure takes a partition offline: the threshold is crossed, and all tables are written.

    Only the last table is missing, so that the command has little to do.
    """
    (tmp_path / "sources").mkdir()
    shutil.copy(small_run.folder / "sources" / "prod.eu.txt", tmp_path / "sources")
    shutil.copytree(small_run.warehouse, tmp_path / "warehouse")
    last = tmp_path / "warehouse" / "gold" / "scheme_comparison"
    shutil.rmtree(last)
    environment = make_environment(tmp_path, f'exec "{sys.executable}" -m pipelines.cli "$@" {" ".join(LAST_STAGE)}')
    environment |= {"PYTHONPATH": str(ROOT)}
    environment |= {key: os.environ[key] for key in ("JAVA_HOME",) if key in os.environ}
    environment["PATH"] += f":{os.environ['PATH']}"
    done = run_script(tmp_path, environment)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "alert: prod.eu: new: 1 partition would go offline if one broker fails: a (1)" in done.stdout
    assert (tmp_path / "report.html").is_file()
    assert (last / "_delta_log").is_dir()
