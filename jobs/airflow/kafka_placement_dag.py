"""A DAG for Airflow 3: run all clusters every night, write the report, and plan for clusters that cross a threshold.

Copy this file to the DAG folder of Airflow. The DAG reads these Airflow variables, which have defaults below:

- `kafka_placement_command`: the command, installed by `make setup` or pip.
- `kafka_placement_data`: a folder with sources/NAME: one file (its name without the last extension names the cluster)
  or folder per cluster. Tables, report and plans are written there too. Its conf.toml, if there is one, has settings,
  such as policies and prices.
- `kafka_placement_clusters`: running clusters, separated by spaces, as in prod=kafka://b1:9092,b2:9092 (default: none).
- `kafka_placement_clients`: their client.properties, separated by spaces: FILE for all, NAME=FILE for one. ${env:NAME}
  in these files is a variable of the worker's environment, so that no password is in a DAG, a variable or a log.
- `kafka_placement_alerts`: thresholds, or `new`, separated by semicolons.

Exit codes of the command become:

    0   success
    1   wrong input, settings or environment: failed, and retried, because a source may have been incomplete
    2   a table fault stopped the run before gold: failed without retry, because the same input has the same fault
    3   no plan meets the hard constraints: failed without retry; the log names the broker, rack or partition
    4   a threshold is crossed: the task `run` succeeds, because all tables are written. The task `alert` fails instead.
        It sends notifications (callbacks and mail, as for every failed task) and is never retried
    64  wrong usage: failed without retry
"""

import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import Variable, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

COMMAND = "/opt/kafka-placement/.venv/bin/kafka-placement"
DATA = "/var/lib/kafka-placement"
ALERTS = "new; offline_partitions > 0"
EXIT_ALERT, EXIT_INPUT = 4, 1


def call(arguments: list[str]) -> tuple[int, str]:
    """Run the command, with its output in the task's log; return its exit code, 0 or EXIT_ALERT, and its stderr."""
    command = [*shlex.split(Variable.get("kafka_placement_command", default=COMMAND)), *arguments]
    print(shlex.join(command), flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="\n", flush=True)
    if done.returncode not in (0, EXIT_ALERT):
        error = AirflowException if done.returncode == EXIT_INPUT else AirflowFailException
        raise error(f"exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.returncode, done.stderr


def get_data_folder() -> Path:
    """Return the folder of sources, tables, report and plans."""
    return Path(Variable.get("kafka_placement_data", default=DATA))


def list_sources() -> list[str]:
    """List NAME=PATH or NAME=kafka://HOST:PORT of every cluster."""
    paths = sorted((get_data_folder() / "sources").glob("[!.]*"))
    sources = [f"{path.name if path.is_dir() else path.stem}={path}" for path in paths]
    sources += Variable.get("kafka_placement_clusters", default="").split()
    if not sources:
        raise AirflowFailException(f"there is no source in {get_data_folder() / 'sources'}, and no running cluster")
    return sources


def list_client_options(sources: list[str]) -> list[str]:
    """List the options that connect to the running clusters of sources; none if all are files."""
    names = {source.split("=")[0] for source in sources if "=kafka://" in source}
    files = Variable.get("kafka_placement_clients", default="").split() if names else []
    own = [file for file in files if file.split("=")[0] in names]
    others = [file for file in files if "=" not in file] if len(own) < len(names) else []
    return [part for file in (*own, *others) for part in ("--command-config", file)]


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
    """Run every night."""

    @task
    def run() -> list[str]:
        """Run all stages; return a line for each crossed threshold."""
        thresholds = Variable.get("kafka_placement_alerts", default=ALERTS).split(";")
        alerts = [part for text in thresholds if text.strip() for part in ("--alert", text.strip())]
        data = get_data_folder()
        files = ["--warehouse", str(data / "warehouse"), "--report", str(data / "report.html")]
        settings = ["--conf", str(data / "conf.toml")] if (data / "conf.toml").exists() else []
        sources = list_sources()
        code, stderr = call(["run", *sources, *list_client_options(sources), *settings, *files, *alerts])
        lines = [line for line in stderr.splitlines() if line.startswith("kafka-placement: alert: ")]
        return lines if code == EXIT_ALERT else []

    @task(retries=0)
    def alert(crossed: list[str]) -> None:
        """Fail if a threshold is crossed, so that Airflow sends its notifications of failed tasks."""
        if not crossed:
            raise AirflowSkipException("no threshold is crossed")
        raise AirflowFailException("\n".join(crossed))

    @task
    def plan(crossed: list[str]) -> None:
        """Plan even leaders for every cluster that crossed a threshold, as files for Kafka's tools; execute nothing."""
        if not crossed:
            raise AirflowSkipException("no threshold is crossed")
        day = get_current_context()["dag_run"].run_after.strftime("%Y-%m-%d")
        for source in list_sources():
            name = source.split("=")[0]
            if any(line.startswith(f"kafka-placement: alert: {name}: ") for line in crossed):
                out = str(get_data_folder() / "plans" / f"{name}-{day}")
                call(["plan", source, *list_client_options([source]), "--goal", "leaders", "--out", out])

    crossed = run()
    alert(crossed)
    plan(crossed)


kafka_placement()
