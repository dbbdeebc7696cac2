"""A DAG for Airflow 3: every night all tables of every cluster, the page, and a plan where a threshold is crossed.

Copy it to Airflow's folder of DAGs. Variables of Airflow, each with a default here:

- `kafka_placement_command`: the command, as `make setup` or pip made it.
- `kafka_placement_data`: a folder with sources/NAME, a file (its last extension is no part of the name) or a folder a
  cluster; tables, page and plans go there too.
- `kafka_placement_alerts`: thresholds, separated by semicolons.

What an exit code of the command becomes:

    0   success
    1   bad input, settings or environment: failed; only this is tried again, as a source may have been half written
    2   a table fault stopped the run before gold: failed at once, as the same input has the same fault
    3   hard constraints leave no plan: failed at once; the log says which broker, rack or partition forbids it
    4   a threshold is crossed. All tables are written, so the run is a success; the task `alert` fails in its place,
        is never tried again, and its failure is what notifies (callbacks and mail as set up for every failed task)
    64  wrong usage: failed at once
"""

from __future__ import annotations

import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import Variable, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

COMMAND = "/opt/kafka-placement/.venv/bin/kafka-placement"
DATA = "/var/lib/kafka-placement"
ALERTS = "worst_survivor > 1.5; newly_offline > 0; offline > 0"
ALERT, TRY_AGAIN = 4, 1


def call(arguments: list[str]) -> tuple[int, str]:
    """(exit code, standard error) of the command; its output is the task's log. Raises for codes but 0 and ALERT."""
    command = [*shlex.split(Variable.get("kafka_placement_command", default=COMMAND)), *arguments]
    print(shlex.join(command), flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="\n", flush=True)
    if done.returncode not in (0, ALERT):
        fault = AirflowException if done.returncode == TRY_AGAIN else AirflowFailException
        raise fault(f"exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.returncode, done.stderr


def data() -> Path:
    return Path(Variable.get("kafka_placement_data", default=DATA))


def sources() -> list[str]:
    """NAME=PATH of every cluster."""
    paths = sorted((data() / "sources").glob("[!.]*"))
    found = [f"{path.name if path.is_dir() else path.stem}={path}" for path in paths]
    if not found:
        raise AirflowFailException(f"there is no source in {data() / 'sources'}")
    return found


@dag(
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10), "execution_timeout": timedelta(hours=4)},
    doc_md=__doc__,
    tags=["kafka"],
)
def kafka_placement() -> None:
    @task
    def run() -> list[str]:
        """The lines that say which thresholds are crossed; [] = none."""
        thresholds = Variable.get("kafka_placement_alerts", default=ALERTS).split(";")
        alerts = [part for one in thresholds if one.strip() for part in ("--alert", one.strip())]
        place = ["--warehouse", str(data() / "warehouse"), "--report", str(data() / "report.html")]
        code, said = call(["run", *sources(), *place, *alerts])
        lines = [line for line in said.splitlines() if line.startswith("kafka-placement: alert: ")]
        return lines if code == ALERT else []

    @task(retries=0)
    def alert(crossed: list[str]) -> None:
        """Fails where a threshold is crossed: whoever is told of failed tasks is told of this."""
        if not crossed:
            raise AirflowSkipException("no threshold is crossed")
        raise AirflowFailException("\n".join(crossed))

    @task
    def plan(crossed: list[str]) -> None:
        """Even leaders for every cluster that crossed a threshold, as files for Kafka's tools; nothing is executed."""
        if not crossed:
            raise AirflowSkipException("no threshold is crossed")
        day = get_current_context()["dag_run"].run_after.strftime("%Y-%m-%d")
        for source in sources():
            name = source.split("=")[0]
            if any(line.startswith(f"kafka-placement: alert: {name}: ") for line in crossed):
                call(["plan", source, "--goal", "leaders", "--out", str(data() / "plans" / f"{name}-{day}")])

    crossed = run()
    alert(crossed)
    plan(crossed)


kafka_placement()
