"""A DAG for Airflow 3: carry out the plans that nightly runs have proposed and somebody has approved.

Copy this file to the DAG folder of Airflow. The DAG reads these Airflow variables, which have defaults below:

- `kafka_placement_command`: the command, installed by `make setup` or pip.
- `kafka_placement_settings`: the settings file with the policies, as in docs/operation.md.
- `kafka_placement_operated`: clusters and their brokers, separated by spaces, as in prod=b1:9092,b2:9092.
- `kafka_placement_clients`: their client.properties, separated by spaces: FILE for all, NAME=FILE for one.

Each call does one step, and what is under way continues in the next one, so that no task is retried. A step that failed
fails its task, and Airflow sends its notifications.
"""

import shlex
import subprocess
from datetime import UTC, datetime, timedelta

from airflow.sdk import Variable, dag, task
from airflow.sdk.exceptions import AirflowFailException

COMMAND = "/opt/kafka-placement/.venv/bin/kafka-placement"
SETTINGS = "/etc/kafka-placement/operation.toml"


def list_calls() -> list[list[str]]:
    """List the arguments of the command for each cluster."""
    settings = Variable.get("kafka_placement_settings", default=SETTINGS)
    files = dict(
        file.split("=", 1) if "=" in file else ("", file)
        for file in Variable.get("kafka_placement_clients", default="").split()
    )
    calls = []
    for cluster in Variable.get("kafka_placement_operated", default="").split():
        name, servers = cluster.split("=", 1)
        properties = files.get(name, files.get(""))
        config = ["--command-config", properties] if properties else []
        calls.append(["operate", name, "--bootstrap-server", servers, *config, "--conf", settings])
    return calls


@dag(
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 0, "execution_timeout": timedelta(hours=12)},
    doc_md=__doc__,
    tags=["kafka"],
)
def kafka_placement_operate() -> None:
    """Do one step for every cluster."""

    @task
    def operate() -> None:
        """Do one step for every cluster, also after one that failed; then fail if any did."""
        failed = []
        for arguments in list_calls():
            command = [*shlex.split(Variable.get("kafka_placement_command", default=COMMAND)), *arguments]
            print(shlex.join(command), flush=True)
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            print(done.stdout, done.stderr, sep="\n", flush=True)
            if done.returncode:
                failed.append(f"{arguments[1]}: exit code {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
        if failed:
            raise AirflowFailException("\n".join(failed))

    operate()


kafka_placement_operate()
