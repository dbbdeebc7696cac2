"""Databricks accepts the bundle, and its jobs call commands that exist."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import typer.main

from pipelines.alerts.alert_outputs import parse_alerts
from pipelines.cli import app, entry
from pipelines.config.settings import load_settings
from tests.jobs.bundle import InvalidBundle, check_job, load_bundle, resolve

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "jobs" / "databricks"
VARIABLES = {"catalog": "main", "volume": "/Volumes/main/kafka/placement", "notify": "a@example.com", "node_type": "m"}
# Filled in by the platform when a job starts.
STARTED = {"job.start_time.iso_date": "2026-11-22"}


def list_variables(bundle: dict[str, Any], target: str, values_set: dict[str, str]) -> dict[str, Any]:
    """List the values of all variables by the names that references use."""
    values = {name: one["default"] for name, one in bundle["variables"].items() if "default" in one}
    values |= bundle["targets"][target].get("variables", {}) | values_set
    return {f"var.{name}": value for name, value in values.items()} | {
        "bundle.name": bundle["bundle"]["name"],
        "bundle.target": target,
    }


BUNDLE = load_bundle(FOLDER)
JOBS = {target: resolve(BUNDLE["jobs"], list_variables(BUNDLE, target, VARIABLES)) for target in BUNDLE["targets"]}
WHEEL_TASKS = [
    (name, task) for name, job in JOBS["prod"].items() for task in job["tasks"] if "python_wheel_task" in task
]


def list_arguments(name: str, task: dict[str, Any], jobs: dict[str, Any] = JOBS["prod"]) -> list[str]:
    """List the arguments of the command when the job starts with the defaults of its parameters."""
    known = STARTED | {f"job.parameters.{one['name']}": one["default"] for one in jobs[name].get("parameters", [])}
    return [
        re.sub(r"\{\{([^}]+)\}\}", lambda match: known[match.group(1)], text)
        for text in task["python_wheel_task"]["parameters"]
    ]


def test_each_job_has_one_file() -> None:
    assert [file.stem for file in BUNDLE["included"]] == sorted(BUNDLE["jobs"])
    assert set(BUNDLE["targets"]) == {"dev", "prod"}


@pytest.mark.parametrize("target", JOBS)
def test_the_api_accepts_the_jobs(target: str) -> None:
    for name, job in JOBS[target].items():
        check_job(name, job)
        assert job["tasks"]
        clusters = {one["job_cluster_key"] for one in job["job_clusters"]}
        assert {task["job_cluster_key"] for task in job["tasks"]} == clusters
        schedule = job.get("schedule")
        if schedule:
            assert schedule["pause_status"] == {"dev": "PAUSED", "prod": "UNPAUSED"}[target]
            fields = schedule["quartz_cron_expression"].split()
            assert len(fields) == 6
            assert "?" in (fields[3], fields[5])  # Quartz needs one of the two days to be open
    resolve(BUNDLE["targets"][target], list_variables(BUNDLE, target, VARIABLES))


FAULTS: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "a key of the job": (("max_concurent_runs",), 1, "there is no max_concurent_runs"),
    "a key of a task": (("tasks", 0, "retries"), 0, r"tasks\[0\]: there is no retries"),
    "a key of a wheel task": (("tasks", 0, "python_wheel_task", "args"), [], "there is no args"),
    "a key of a cluster": (("job_clusters", 0, "new_cluster", "workers"), 2, "there is no workers"),
    "a type": (("timeout_seconds",), "an hour", "is no int"),
    "a boolean for a number": (("max_concurrent_runs",), True, "is no int"),
    "a value of a list of values": (("tasks", 1, "run_if"), "ALWAYS", "is none of ALL_DONE"),
    "text for a list": (("tasks", 0, "python_wheel_task", "parameters"), "run prod", "is no list"),
    "a schedule without its time": (("schedule",), {"timezone_id": "UTC"}, "quartz_cron_expression is missing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_job_is_found(fault: str) -> None:
    keys, value, message = FAULTS[fault]
    job = copy.deepcopy(JOBS["prod"]["nightly_run"])
    place = job
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    with pytest.raises(InvalidBundle, match=message):
        check_job("nightly_run", job)


def test_an_unknown_key_or_variable_is_found(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "b")
    file = tmp_path / "b" / "databricks.yml"
    text = file.read_text()
    file.write_text(text.replace("include:", "includes:"))
    with pytest.raises(InvalidBundle, match="includes"):
        load_bundle(tmp_path / "b")
    file.write_text(text.replace("      - source:", "    - source:").replace("    files:", "    file:"))
    with pytest.raises(InvalidBundle, match=r"artifacts\.wheel: file"):
        load_bundle(tmp_path / "b")
    with pytest.raises(InvalidBundle, match=r"\$\{var\.catalog\} is not known"):
        resolve(
            BUNDLE["jobs"], list_variables(BUNDLE, "dev", {**{k: v for k, v in VARIABLES.items() if k != "catalog"}})
        )


@pytest.mark.parametrize(("name", "task"), WHEEL_TASKS, ids=[name for name, _ in WHEEL_TASKS])
def test_wheel_tasks_call_the_command(name: str, task: dict[str, Any]) -> None:
    """The entry point exists, and accepts the parameters: options and metrics are known."""
    wheel_task = task["python_wheel_task"]
    (entry_point,) = distribution(wheel_task["package_name"]).entry_points.select(name=wheel_task["entry_point"])
    assert entry_point.load() is entry
    words = list_arguments(name, task)
    command: Any = typer.main.get_command(app)
    context = command.make_context("kafka-placement", words[:1])
    sub = command.get_command(context, words[0])
    subcontext = sub.make_context(words[0], words[1:], parent=context)
    if subcontext.params.get("alert"):
        assert parse_alerts(subcontext.params["alert"], load_settings([]).alerts, ())


def test_files_of_the_jobs_exist() -> None:
    built = {str((FOLDER / one["source"]).resolve()) for one in BUNDLE["artifacts"]["wheel"]["files"]}
    assert built == {str(ROOT / "dist" / "databricks" / "*.whl")}
    deployed = [(FOLDER / path).resolve() for path in BUNDLE["sync"]["paths"]]
    for job in BUNDLE["jobs"].values():
        for task in job["tasks"]:
            wheels = {str((FOLDER / "resources" / one["whl"]).resolve()) for one in task["libraries"]}
            assert wheels == built
            if "notebook_task" in task:
                notebook = (FOLDER / "resources" / task["notebook_task"]["notebook_path"]).resolve()
                assert notebook.read_text().startswith("# Databricks notebook source\n")
                assert any(notebook.is_relative_to(folder) for folder in deployed)


@pytest.mark.slow
def test_the_weekly_plan_is_written(tmp_path: Path, samples: Path) -> None:
    """As the platform does, call the entry point within a process, with arguments in sys.argv; it returns."""
    shutil.copytree(samples / "kafka-2.8.2-zookeeper", tmp_path / "sources" / "prod")
    jobs = resolve(BUNDLE["jobs"], list_variables(BUNDLE, "dev", {**VARIABLES, "volume": str(tmp_path)}))
    task = jobs["weekly_plan"]["tasks"][0]
    code = """
import json, sys
from importlib.metadata import distribution
sys.argv = ["", *json.loads(sys.argv[1])]
(entry_point,) = distribution("kafka-placement").entry_points.select(name="kafka-placement")
print("returned:", entry_point.load()())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(list_arguments("weekly_plan", task, jobs))],
        env={**os.environ, "PYTHONPATH": str(ROOT), "DATABRICKS_RUNTIME_VERSION": "18.2"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("returned: None\n")
    plan = tmp_path / "plans" / "prod-2026-11-22"
    assert json.loads((plan / "plan.json").read_text())["goal"] == "balance"
