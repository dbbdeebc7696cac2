"""What lines that no reader knows mention all the same."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from pipelines.ingest.text import (
    CHANGE,
    ELLIPSIS,
    LOG_LINE,
    MARKUP,
    OMISSION,
    PROBLEM,
    PROMPT,
    PROSE,
    STATE_MESSAGE,
    TOOL_MESSAGE,
    find_mention,
)

from .test_sections import load

DESCRIBE = (
    "Topic: t\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: min.insync.replicas=1\n"
    "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
)
SHRINKS = "[2026-01-01 00:00:00,000] INFO [Partition t-0 broker=1] Shrinking ISR from 1,2 to 1\n"


@pytest.mark.parametrize(
    ("reason", "line", "warning"),
    [
        (TOOL_MESSAGE, "Successfully started partition reassignment for a-0", CHANGE),
        (TOOL_MESSAGE, "Reassignment of partition a-0 completed successfully", CHANGE),
        (LOG_LINE, SHRINKS, CHANGE),
        (LOG_LINE, "INFO [KafkaServer id=2] shut down completed", CHANGE),
        (PROSE, "broker 2 went down at noon", CHANGE),
        (PROMPT, "$ docker compose stop kafka2", CHANGE),
        (PROMPT, "$ sudo systemctl --no-pager restart kafka", CHANGE),
        (PROMPT, "$ kubectl -n kafka scale sts kafka --replicas=1", CHANGE),
        (PROMPT, "$ kafka-topics.sh --describe", None),
        (PROMPT, "$ grep -i error x.log", None),
        (PROSE, "OfflinePartitionsCount 3", PROBLEM),
        (PROSE, "offlineReplicas: []", None),
        (PROSE, "Partition  Leader  Offline  Under-replicated", None),
        (PROSE, ">>> client.list_topics(timeout=10)", None),
        (PROSE, "request timed out", PROBLEM),
        ("blank line", "error", None),
        (STATE_MESSAGE, "Created topic bar.", CHANGE),
        (STATE_MESSAGE, "Successfully completed leader election (PREFERRED) for partitions a-0", CHANGE),
        (STATE_MESSAGE, "Error completing leader election (PREFERRED) for partition: a-0", None),
        (
            LOG_LINE,
            "INFO [Broker id=1] Leader a-0 with topic id Some(x) starts at leader epoch 5 from offset 1",
            CHANGE,
        ),
        (LOG_LINE, "INFO [BrokerServer id=2] Transition from STARTED to SHUTTING_DOWN", CHANGE),
        (LOG_LINE, "WARN Connection to node 2 (b2/10.0.0.2:9092) could not be established.", PROBLEM),
        (PROSE, "kafka2   cp-kafka   Exited (137) 5 minutes ago", CHANGE),
        (PROMPT, "$ kafka-topics.sh --create --topic a", CHANGE),
        (PROMPT, "$ rpk redpanda admin brokers decommission 2", CHANGE),
        (PROMPT, "$ kafka-cluster.sh unregister --bootstrap-server b1:9092 --id 2", CHANGE),
        (PROMPT, "$ pkill -f kafka.Kafka", CHANGE),
        (PROMPT, "[zk: zk1:2181(CONNECTED) 0] rmr /brokers/topics/a", CHANGE),
        (PROMPT, "$ curl -X POST 'http://cc/kafkacruisecontrol/remove_broker?brokerid=2&dryrun=false'", CHANGE),
        (LOG_LINE, "TRACE [Controller] Changed partition u-0 state from OnlinePartition to OfflinePartition", CHANGE),
        (PROSE, "--More--(34%)", OMISSION),
        (PROSE, ":", OMISSION),
        (PROSE, "(END)", None),
        (ELLIPSIS, "...", OMISSION),
        (MARKUP, "<snip>", OMISSION),
        (MARKUP, "```", None),
        (PROSE, "(output truncated)", OMISSION),
        (PROSE, "[... 40 more lines ...]", OMISSION),
        (PROSE, "-- more topics omitted --", OMISSION),
        (PROSE, "The list was cut off by my terminal, I think", None),
    ],
)
def test_a_mention_is_a_warning(reason: str, line: str, warning: str | None) -> None:
    assert find_mention(reason, line).get("warning") == warning


@pytest.mark.parametrize(
    "line",
    ["min.insync.replicas=3", "KAFKA_MIN_INSYNC_REPLICAS: 3", '"min.insync.replicas": "3"', "min.insync.replicas = 3"],
)
def test_a_setting_of_brokers_names_the_option(line: str) -> None:
    assert find_mention(PROSE, line)["warning"].endswith("use --set topics.min_insync_replicas=3")


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (DESCRIBE + SHRINKS, [CHANGE]),
        (DESCRIBE + SHRINKS * 3, [f"{CHANGE} (and 2 more)"]),
        (SHRINKS + DESCRIBE, []),
        (DESCRIBE + SHRINKS + DESCRIBE, []),
    ],
)
def test_a_change_only_matters_below_all_listings(tmp_path: Path, text: str, warnings: list[str]) -> None:
    assert load(tmp_path, text).warnings["warning"].to_pylist() == warnings


@pytest.mark.parametrize(
    "piece", ["kubectl -a ", "systemctl -a ", "min.insync.replicas", "broker 1 is ", "offline ", " ", "leader"]
)
@pytest.mark.parametrize("reason", [PROSE, PROMPT])
def test_no_repetition_takes_long(piece: str, reason: str) -> None:
    began = process_time()
    find_mention(reason, piece * (1_000_000 // len(piece)))
    assert process_time() - began < 1
