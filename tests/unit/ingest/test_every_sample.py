"""Every file of data_samples has the expected format, and each of its records becomes a fact."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import CHOICES
from pipelines.ingest.text import read_text

from .facts import BAD_DIR, SAMPLES, find_formats, load_facts

# The beginning of a sample's name says its format; the longest that fits counts.
NAMES = {
    "describe": "describe",
    "topics-describe": "describe",
    "zookeeper": "zookeeper-json",
    "zookeeper-cli": "zookeeper-cli",
    "kraft": "kraft-log",
    "cluster-metadata-dump": "kraft-log",
    "log-dirs": "log-dirs",
    "offsets": "offsets",
    "get-offsets": "offsets",
    "replication-offset-checkpoint": "offset-checkpoint",
    "reassign": "reassignment",
    "reassignment-list": "reassignment-list",
    "kcat": "kcat",
    "metadata": "metadata-json",
    "metadata-shell": "metadata-shell",
    "topic-configs": "topic-configs",
    "strimzi-topics": "strimzi-topics",
    "loads": "topic-loads",
    "requests": "live-requests",
    "rpk": "rpk",
    "broker-api-versions": "broker-api-versions",
    "cluster-endpoints": "cluster-endpoints",
    "metadata-quorum": "metadata-quorum",
    "java-description": "java-description",
    "cruise-control": "cruise-control",
    "leader-election": "reassignment",
    "topics-to-move": "tool-input",
    "election": "tool-input",
    "brokers": "broker-list",
    "topics": "topic-list",
    "model": "model",
}
REJECTED = {
    "empty.txt": "the file is empty",
    "binary.bin": "is binary",
    "broken.txt.gz": "broken gzip",
    "unknown.txt": "nothing in it is output of a tool that this program reads",
    "recovery-point-offset-checkpoint.broker-2": "whose offsets are not those of the replicas",
    "unsupported-acls.txt": "is output of kafka-acls, which shows no replicas",
    "unsupported-capacity.json": "is a capacity file of Cruise Control",
    "unsupported-consumer-groups.txt": "is output of kafka-consumer-groups",
    "unsupported-error.txt": "line 2: the command that wrote it failed: no broker answered",
    "unsupported-kubernetes.yaml": "is a Kubernetes resource",
    "unsupported-metrics.txt": "is metrics of Prometheus or JMX",
    "unsupported-names.txt": "is a list of names",
    "unsupported-server.properties": "is the configuration of a broker",
    "unsupported-usage.txt": "the command that wrote it failed: this is its usage text",
    "brokers-no-id.csv": "line 2: no column broker_id",
    "topics-no-partitions.csv": "line 1: no column partitions",
    "replication-offset-checkpoint": "does not show which broker",
}
NO_SOURCES = ("pastes", "metrics")
FILES = [
    path
    for path in sorted(SAMPLES.rglob("*"))
    if path.is_file() and path.suffix != ".md" and not set(NO_SOURCES) & set(path.relative_to(SAMPLES).parts)
]
READ = [p for p in FILES if not (p.parent == BAD_DIR and p.name in REJECTED)]


def expected_format(path: Path) -> str:
    return NAMES[max((start for start in NAMES if path.name.startswith(start)), key=len)]


@pytest.mark.parametrize("path", READ, ids=lambda p: str(p.relative_to(SAMPLES)))
def test_the_format_of_a_sample_is_detected_and_every_record_becomes_a_fact(path: Path) -> None:
    assert set(find_formats(read_text(path))) == {expected_format(path)}
    assert load_facts(path).num_rows > 0  # table_of compares the records with the facts


@pytest.mark.parametrize("name", REJECTED)
def test_the_error_of_a_rejected_file_names_the_file(name: str) -> None:
    with pytest.raises(SourceError, match=REJECTED[name]) as error:
        load_facts(BAD_DIR / name)
    assert str(BAD_DIR / name) in str(error.value)


def test_every_format_has_a_sample() -> None:
    assert {expected_format(path) for path in READ} == set(CHOICES)


def test_the_readme_explains_every_sample() -> None:
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in FILES if f"`{p.name}`" not in readme] == []


def test_an_unknown_text_names_its_first_line_the_command_to_run_and_the_option(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("\n\nhello there\n")
    with pytest.raises(SourceError) as error:
        load_facts(tmp_path / "x.txt")
    message = str(error.value)
    assert "x.txt" in message
    assert "'hello there'" in message
    assert "kafka-topics --describe" in message
    assert "--format" in message
    assert not any(name in message for name in ("kraft-log", "zookeeper-json", "offset-checkpoint"))


def test_data_after_a_long_log_is_found() -> None:
    log = "[2024-05-06 07:08:09,123] INFO starting\n" * 5000
    table = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    assert find_formats(log + table + log) == ["describe"]


def test_a_model_with_many_brokers_before_its_partitions_is_no_broker_list() -> None:
    brokers = ",\n".join(f'{{"id":{i},"rack":"r"}}' for i in range(5000))
    text = f'{{"name":"m","brokers":[\n{brokers}],\n"removed":[],"partitions":[]}}'
    assert find_formats(text) == ["model"]
    assert find_formats(text.replace("\n", "")) == ["model"]
