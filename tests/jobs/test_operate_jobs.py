"""The jobs that carry out approved plans: cron's table, the DAG, and the resources beside a cluster of Strimzi."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
from ruamel.yaml import YAML

from pipelines.cli import app
from pipelines.config.settings import load_settings
from pipelines.live.client_properties import read_client_properties
from tests.jobs.airflow_stubs import AirflowFailException, load_dag

JOBS = Path(__file__).parents[2] / "jobs"
TAB = JOBS / "cron.d" / "kafka-placement-operate"
DAG = JOBS / "airflow" / "kafka_placement_operate_dag.py"
STRIMZI = JOBS / "strimzi" / "operate.yaml"


def parse_command(words: list[str]) -> dict[str, Any]:
    """Parse arguments as the command does; an unknown one fails."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("kafka-placement", words[:1])
    parameters: dict[str, Any] = (
        command.get_command(context, words[0]).make_context(words[0], words[1:], parent=context).params
    )
    return parameters


@pytest.mark.parametrize("code", [0, 6])
def test_cron_mails_only_a_step_that_failed(tmp_path: Path, code: int) -> None:
    lines = [line for line in TAB.read_text().splitlines() if line and not line.startswith("#")]
    settings = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z_]+=", line))
    (job,) = (line for line in lines if not re.match(r"[A-Z_]+=", line))
    *when, user, command = job.split(maxsplit=6)
    assert (when, user) == (["*/15", "*", "*", "*", "*"], "kafka-placement")
    assert "%" not in command  # cron replaces it by a line break
    script = tmp_path / "kafka-placement"
    script.write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" > {tmp_path}/args; echo a step; exit {code}\n')
    script.chmod(0o755)
    environment = {**settings, "PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(["/bin/bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "") if not code else ("operate ended with exit code 6:\na step\n", "")
    words = (tmp_path / "args").read_text().splitlines()
    assert parse_command(words)["server"] == "b1:9092,b2:9092"
    assert TAB.read_text().endswith("\n")


def test_the_dag_does_a_step_for_every_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dag = load_dag(DAG, monkeypatch)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "command"
    file.write_text('#!/bin/bash\nprintf "%s\\n" "$*" >> calls\n[ "$2" != prod ] || { echo late; exit 6; }\n')
    file.chmod(0o755)
    dag.values |= {
        "kafka_placement_command": str(file),
        "kafka_placement_operated": "prod=b1:9092,b2:9092 eu=e1:9093",
        "kafka_placement_clients": "/etc/any.properties eu=/etc/eu.properties",
    }
    with pytest.raises(AirflowFailException, match=r"^prod: exit code 6: late\n$"):
        dag.tasks["operate"]()
    calls = (tmp_path / "calls").read_text().splitlines()
    end = "--conf /etc/kafka-placement/operation.toml"
    assert calls == [
        f"operate prod --bootstrap-server b1:9092,b2:9092 --command-config /etc/any.properties {end}",
        f"operate eu --bootstrap-server e1:9093 --command-config /etc/eu.properties {end}",
    ]
    assert parse_command(calls[0].split())["cluster"] == "prod"
    assert dag.options["dag"]["max_active_runs"] == 1
    assert dag.options["dag"]["default_args"]["retries"] == 0


def test_the_resources_beside_strimzi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, settings and properties are accepted, and everything that is mounted is declared."""
    resources = list(YAML(typ="safe", pure=True).load_all(STRIMZI))
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for one in resources:
        assert one["metadata"]["namespace"] == "kafka"
        by_kind.setdefault(one["kind"], []).append(one)
    (user,), (config,), (claim,) = (by_kind[kind] for kind in ("KafkaUser", "ConfigMap", "PersistentVolumeClaim"))
    settings_file, properties = tmp_path / "operation.toml", tmp_path / "client.properties"
    settings_file.write_text(config["data"]["operation.toml"])
    (policy,) = load_settings([], str(settings_file)).operation.policies
    assert policy.cluster == user["metadata"]["labels"]["strimzi.io/cluster"] == "prod"
    assert tomllib.loads(config["data"]["operation.toml"])["operation"]["proposals"].startswith("/data/")
    ca = tmp_path / "ca.crt"
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    text = config["data"]["client.properties"].replace("/etc/cluster-ca/ca.crt", str(ca))
    assert str(ca) in text
    properties.write_text(text)
    ca.write_text("certificates")
    assert read_client_properties(properties).truststore is not None
    jobs = by_kind["CronJob"]
    assert [job["metadata"]["name"] for job in jobs] == ["kafka-placement-run", "kafka-placement-operate"]
    for job in jobs:
        spec = job["spec"]["jobTemplate"]["spec"]
        assert (job["spec"]["concurrencyPolicy"], spec["backoffLimit"]) == ("Forbid", 0)
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        assert container["command"] == ["kafka-placement"]
        parse_command(container["args"])
        volumes = {one["name"]: one for one in pod["volumes"]}
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert mounts.keys() == volumes.keys()
        assert volumes["data"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        assert volumes["settings"]["configMap"]["name"] == config["metadata"]["name"]
        assert container["env"][0]["valueFrom"]["secretKeyRef"]["name"] == user["metadata"]["name"]
        files = [word for word in container["args"] if word.startswith("/")]
        assert all(any(file.startswith(f"{path}/") for path in mounts.values()) for file in files)
