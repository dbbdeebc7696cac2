"""The DAG, with stubs for the names of Airflow that it imports.

Airflow, with its hundred libraries, is not installed here. Importing a name without a stub fails; jobs/README.md has
the commands to test the DAG with Airflow itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.jobs.airflow_stubs import AirflowException, AirflowFailException, AirflowSkipException, load_dag

DAG = Path(__file__).parents[2] / "jobs" / "airflow" / "kafka_placement_dag.py"
SCRIPT = """#!/bin/bash
printf '%s\\n' "$*" >> calls
[ "$1" = run ] || exit 0
echo rows
echo "kafka-placement: alert: prod: worst_survivor_ratio is 2: worst_survivor_ratio > 1.5" >&2
exit CODE
"""


@pytest.fixture
def dag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "prod.txt").write_text("x")
    (tmp_path / "sources" / "eu").mkdir()
    monkeypatch.chdir(tmp_path)
    module = load_dag(DAG, monkeypatch)
    module.values["kafka_placement_data"] = str(tmp_path)
    return module


def set_exit_code(dag: Any, code: int) -> None:
    """Make the command end with an exit code."""
    file = Path("command with a space")
    file.write_text(SCRIPT.replace("CODE", str(code)))
    file.chmod(0o755)
    dag.values["kafka_placement_command"] = f"'{file.resolve()}'"


@pytest.mark.parametrize(
    ("code", "error"),
    [(1, AirflowException), (2, AirflowFailException), (3, AirflowFailException), (64, AirflowFailException)],
)
def test_only_input_errors_are_retried(dag: Any, code: int, error: type[Exception]) -> None:
    set_exit_code(dag, code)
    with pytest.raises(AirflowException, match=f"exit code {code}: kafka-placement: alert") as raised:
        dag.tasks["run"]()
    assert type(raised.value) is error


def test_a_crossed_threshold_notifies_and_is_not_retried(dag: Any, tmp_path: Path) -> None:
    set_exit_code(dag, 4)
    crossed = dag.tasks["run"]()
    assert crossed == ["kafka-placement: alert: prod: worst_survivor_ratio is 2: worst_survivor_ratio > 1.5"]
    with pytest.raises(AirflowFailException, match="worst_survivor_ratio is 2"):
        dag.tasks["alert"](crossed)
    assert dag.options["alert"]["retries"] == 0
    dag.tasks["plan"](crossed)
    calls = Path("calls").read_text().splitlines()
    assert calls == [
        f"run eu={tmp_path}/sources/eu prod={tmp_path}/sources/prod.txt --warehouse {tmp_path}/warehouse "
        f"--report {tmp_path}/report.html --alert new --alert offline_partitions > 0",
        f"plan prod={tmp_path}/sources/prod.txt --goal leaders --out {tmp_path}/plans/prod-2026-11-22",
    ]


def test_without_a_crossed_threshold_nothing_else_runs(dag: Any) -> None:
    set_exit_code(dag, 0)
    crossed = dag.tasks["run"]()
    assert crossed == []
    for name in ("alert", "plan"):
        with pytest.raises(AirflowSkipException):
            dag.tasks[name](crossed)
    assert dag.options["dag"]["max_active_runs"] == 1


def test_running_clusters_have_their_own_client_properties(dag: Any, tmp_path: Path) -> None:
    set_exit_code(dag, 4)
    dag.values["kafka_placement_clusters"] = "prod2=kafka://b1:9093,b2:9093 us=kafka://c1:9092"
    dag.values["kafka_placement_clients"] = "/etc/all.properties prod2=/etc/prod2.properties"
    crossed = [*dag.tasks["run"](), "kafka-placement: alert: us: x", "kafka-placement: alert: prod2: x"]
    dag.tasks["plan"](crossed)
    calls = Path("calls").read_text().splitlines()
    clusters = "prod2=kafka://b1:9093,b2:9093 us=kafka://c1:9092"
    both = "--command-config prod2=/etc/prod2.properties --command-config /etc/all.properties"
    assert f"{clusters} {both} --warehouse" in calls[0]
    plans = [line.partition(" --goal")[0] for line in calls[1:]]
    assert plans == [
        f"plan prod={tmp_path}/sources/prod.txt",
        "plan prod2=kafka://b1:9093,b2:9093 --command-config prod2=/etc/prod2.properties",
        "plan us=kafka://c1:9092 --command-config /etc/all.properties",
    ]
