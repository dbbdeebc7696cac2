"""kafka-configs --describe: configs of topics, and a warning of what brokers set for all topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.ingest.formats.kafka_configs import FORMAT
from pipelines.ingest.snapshot_reader import FORMATS, load_snapshot
from pipelines.ingest.sources import find_source

from .facts import check_facts, shorten

DESCRIBE = (
    "Topic: orders\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: \n"
    "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
)
TOPIC = (
    "Dynamic configs for topic orders are:\n"
    "  min.insync.replicas=2 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:min.insync.replicas=2, "
    "DEFAULT_CONFIG:min.insync.replicas=1}\n"
)
BROKERS = (
    "Default configs for brokers in the cluster are:\n"
    "  min.insync.replicas=3 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=3}\n"
)


def parse(text: str) -> list[dict[str, Any]]:
    records = FORMAT.read_records(text, "x")
    return shorten(check_facts(records, FORMAT.parse_facts(records)))


def test_configs_of_a_topic_beside_its_describe(tmp_path: Path) -> None:
    (tmp_path / "paste.txt").write_text(DESCRIBE + "\n" + TOPIC)
    snapshot = load_snapshot(find_source(str(tmp_path / "paste.txt")))
    assert [(t["topic"], t["min_insync_replicas"]) for t in snapshot.topics.to_pylist()] == [("orders", 2)]
    assert snapshot.warnings.num_rows == 0


@pytest.mark.parametrize(
    "line",
    [
        "Configs for topic 'orders' are cleanup.policy=compact,delete,min.insync.replicas=2",
        "Configs for topics:orders are cleanup.policy=compact,delete,min.insync.replicas=2",
        "Configs for topic:orders are cleanup.policy=compact,delete,min.insync.replicas=2",
    ],
)
def test_configs_as_kafka_before_2_5_prints_them(line: str) -> None:
    (row,) = parse(line + "\n")
    configs = [("cleanup.policy", "compact,delete"), ("min.insync.replicas", "2")]
    assert row == {"kind": "config", "topic": "orders", "configs": configs}


def test_a_topic_without_configs_is_named() -> None:
    assert parse("Configs for topic 'a' are \nDynamic configs for topic b are:\n") == [
        {"kind": "config", "topic": "a", "configs": []},
        {"kind": "config", "topic": "b", "configs": []},
    ]


def test_what_brokers_set_holds_for_topics_without_an_own_value(tmp_path: Path) -> None:
    own = DESCRIBE.replace("orders", "own").replace("Configs: ", "Configs: min.insync.replicas=2,")
    (tmp_path / "paste.txt").write_text("\n".join([DESCRIBE, own, BROKERS]))
    topics = load_snapshot(find_source(str(tmp_path / "paste.txt"))).topics.to_pylist()
    assert [(t["topic"], t["min_insync_replicas"]) for t in topics] == [("orders", 3), ("own", 2)]
    assert "min.insync.replicas" not in dict(topics[0]["configs"])


def test_brokers_that_set_different_values_are_a_conflict(tmp_path: Path) -> None:
    second = "Dynamic configs for broker 1 are:\n  min.insync.replicas=1 sensitive=false synonyms={}\n"
    (tmp_path / "paste.txt").write_text("\n".join([DESCRIBE, BROKERS, second]))
    snapshot = load_snapshot(find_source(str(tmp_path / "paste.txt")))
    (row,) = snapshot.conflicts.to_pylist()
    expected = ("all topics", "config min.insync.replicas", "3", "1")
    assert (row["entity"], row["field"], row["value"], row["other_value"]) == expected
    assert snapshot.topics["min_insync_replicas"].to_pylist() == [3]


SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (SELECTOR, True),
        ("org.apache.kafka.common.replica.LeaderSelector", False),
        ("null", False),  # Kafka's default: the leader
        ("com.example.OwnSelector", None),
    ],
)
def test_the_selector_of_a_broker_says_whether_consumers_fetch_from_followers(
    value: str, expected: bool | None, tmp_path: Path
) -> None:
    config = f"All configs for broker 1 are:\n  replica.selector.class={value} sensitive=false synonyms={{}}\n"
    (tmp_path / "paste.txt").write_text("\n".join([DESCRIBE, config]))
    snapshot = load_snapshot(find_source(str(tmp_path / "paste.txt")))
    brokers = {row["broker_id"]: row for row in snapshot.brokers.to_pylist()}
    assert {id_: row["follower_fetching"] for id_, row in brokers.items()} == {1: expected, 2: None}
    assert {row["live"] for row in brokers.values()} == {True}
    assert snapshot.quarantined == []


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"cordoned.log.dirs": "*", "log.dirs": "/a,/b"}, True),
        ({"cordoned.log.dirs": "*"}, True),  # as kafka-configs --describe shows it without --all
        ({"cordoned.log.dirs": "/b,/a", "log.dir": "/c", "log.dirs": "/a,/b"}, True),
        ({"cordoned.log.dirs": "/a", "log.dir": "/a", "log.dirs": "/a,/b"}, False),
        ({"log.dirs": "null", "log.dir": "/a", "cordoned.log.dirs": "/a"}, True),
        ({"cordoned.log.dirs": "", "log.dirs": "/a"}, False),
        ({"cordoned.log.dirs": "/a"}, None),  # whether it has others is not shown
        ({"log.dirs": "/a"}, None),
    ],
)
def test_a_broker_whose_log_dirs_are_all_cordoned_is_cordoned(
    configs: dict[str, str], expected: bool | None, tmp_path: Path
) -> None:
    lines = [f"  {key}={value} sensitive=false synonyms={{}}" for key, value in configs.items()]
    own = "All configs for broker 2 are:\n  log.dirs=/z sensitive=false synonyms={}"
    (tmp_path / "paste.txt").write_text("\n".join([DESCRIBE, "All configs for broker 1 are:", *lines, own]))
    snapshot = load_snapshot(find_source(str(tmp_path / "paste.txt")))
    assert {row["broker_id"]: row["cordoned"] for row in snapshot.brokers.to_pylist()} == {1: expected, 2: None}
    assert snapshot.quarantined == []


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"cordoned.log.dirs": "*"}, {"/a": True, "/b": True, "/c": False}),
        ({"cordoned.log.dirs": "/b/"}, {"/a": False, "/b": True, "/c": False}),
        ({"cordoned.log.dirs": ""}, {"/a": False, "/b": False, "/c": False}),
        ({}, {"/a": None, "/b": None, "/c": False}),
    ],
)
def test_log_dirs_are_cordoned_as_configs_and_brokers_say(
    configs: dict[str, str], expected: dict[str, bool | None], tmp_path: Path
) -> None:
    lines = [f"  {key}={value} sensitive=false synonyms={{}}" for key, value in configs.items()]
    own = [{"logDir": path, "error": None, "partitions": []} for path in ("/a", "/b")]
    own.append({"logDir": "/c", "error": None, "partitions": [], "isCordoned": False})
    document = json.dumps({"version": 1, "brokers": [{"broker": 1, "logDirs": own}]})
    (tmp_path / "paste.txt").write_text("\n".join([DESCRIBE, document, "All configs for broker 1 are:", *lines]))
    snapshot = load_snapshot(find_source(str(tmp_path / "paste.txt")))
    assert (
        dict(zip(*(snapshot.log_dirs[name].to_pylist() for name in ("log_dir", "cordoned")), strict=True)) == expected
    )
    assert snapshot.quarantined == []


@pytest.mark.parametrize(("cordoned", "expected"), [((True, True), True), ((True, False), False), ((), None)])
def test_log_dirs_say_whether_their_broker_is_cordoned(
    cordoned: tuple[bool, ...], expected: bool | None, tmp_path: Path
) -> None:
    """Failed ones do not count."""
    own: list[dict[str, Any]] = [{"logDir": "/f", "error": "KAFKA_STORAGE_ERROR", "partitions": []}]
    own += [{"logDir": f"/{i}", "error": None, "partitions": [], "isCordoned": one} for i, one in enumerate(cordoned)]
    document = json.dumps({"version": 1, "brokers": [{"broker": 1, "logDirs": own}]})
    (tmp_path / "paste.txt").write_text(f"{DESCRIBE}\n{document}")
    snapshot = load_snapshot(find_source(str(tmp_path / "paste.txt")))
    assert {row["cordoned"] for row in snapshot.brokers.to_pylist() if row["broker_id"] == 1} == {expected}


def test_a_line_of_all_configs_of_a_broker_has_selector_and_defaults() -> None:
    line = f"Configs for broker 7 are min.insync.replicas=2,replica.selector.class={SELECTOR}\n"
    assert parse(line) == [
        {"kind": "broker", "broker_id": 7, "follower_fetching": True},
        {"kind": "topic_defaults", "configs": [("min.insync.replicas", "2")]},
    ]


def test_log_levels_of_brokers_are_no_defaults() -> None:
    text = "All configs for broker-logger 1 are:\n  min.insync.replicas=3 sensitive=false synonyms={}\n"
    assert {row["kind"] for row in parse(text)} == {"ignored"}


def test_configs_of_others_are_not_used() -> None:
    text = (
        "Quota configs for user-principal 'alice', client-id 'x' are producer_byte_rate=1.0\n"
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=4096\n"
        "Dynamic configs for client-metric m are:\n  interval.ms=1 sensitive=false synonyms={}\n"
    )
    assert {tuple(row["reasons"]) for row in parse(text)} == {("output of kafka-configs: not used",)}


def test_a_config_without_its_topic_is_rejected() -> None:
    (row,) = parse(TOPIC.splitlines()[1])
    assert "min.insync.replicas of which topic or brokers?" in row["reasons"][0]


def test_sentences_are_no_headers() -> None:
    claims = FORMATS["topic-configs"].signature.line
    for line in ("Default configs for topics are fine", "The configs for topic orders are wrong", "a=b"):
        assert not claims(line)
