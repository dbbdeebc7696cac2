"""`what-if` without `--fail`: every broker's failure, as that of one alone says, and the verdict over all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.cli.broker_failure_output import failures, lines
from pipelines.cli.what_if_output import TopicDefaults, leaders_of, what_if
from pipelines.ingest.snapshot import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source

SAMPLES = Path(__file__).parents[3] / "data_samples"
DEFAULTS = TopicDefaults()


def load(path: Path) -> Snapshot:
    return load_snapshot(find_source(str(path)))


@pytest.mark.parametrize(
    "source",
    [
        SAMPLES / "kafka-4.1.1-kraft",
        SAMPLES / "kafka-2.8.2-zookeeper",
        SAMPLES / "captures" / "kafka-4.1.1-two-dead" / "topics-describe.brokers-1-4-down.txt",
    ],
    ids=lambda path: path.name,
)
def test_each_failure_is_what_it_is_alone(source: Path) -> None:
    snapshot = load(source)
    answer = failures(snapshot, DEFAULTS)
    live = [row["broker_id"] for row in snapshot.brokers.to_pylist() if row["live"]]
    assert [row["failed"] for row in answer["brokers"]] == sorted(live)
    for row in answer["brokers"]:
        alone = what_if(snapshot, [row["failed"]], DEFAULTS)["summary"]
        assert row["newly_offline_partitions"] == alone["offline_after"] - alone["offline_before"]
        assert row["under_min_isr_partitions"] == alone["under_min_isr_after"]
        assert row["worst_survivor_ratio"] == alone["worst_survivor_max_over_mean"]
        assert row["takeover_brokers"] == len(alone["takeovers"])
        assert row["can_i_lose_it"].startswith("no") == (row["newly_offline_partitions"] > 0)


def test_what_a_person_reads(tmp_path: Path) -> None:
    file = tmp_path / "small.txt"
    file.write_text(
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
        "\tTopic: a\tPartition: 1\tLeader: 20\tReplicas: 20\tIsr: 20\n"
        "\tTopic: a\tPartition: x\tLeader: 2\tReplicas: 2,1\tIsr: 2,1\n"
    )
    assert lines(failures(load(file), DEFAULTS)) == [
        "cluster small, 3 live brokers, 2 partitions",
        "  AT RISK: The failure of broker 20 takes 1 partition offline.",
        "  - After the worst failure (broker 20), broker 1 would lead 2.00 times the mean.",
        "  - Now broker 1 leads most: 1.50 times the mean.",
        "  - 1 record of the sources was rejected: see silver.quarantine, or inspect.",
        "Can I lose this broker now?",
        "  20  no: 1 partition would be offline (leads 1, 0 take over, the worst survivor (broker 1) 2.00 x the mean)",
        "   1  yes (leads 1, 1 take over, the worst survivor (broker 2) 1.00 x the mean)",
        "   2  yes (leads 0, 0 take over, the worst survivor (broker 1) 1.00 x the mean)",
    ]


def test_where_nobody_lives(tmp_path: Path) -> None:
    file = tmp_path / "down.txt"
    file.write_text("\tTopic: a\tPartition: 0\tLeader: none\tReplicas: 1,2\tIsr: \n")
    assert lines(failures(load(file), DEFAULTS)) == [
        "cluster down, 0 live brokers, 1 partition",
        "  AT RISK: 1 partition has no leader now.",
        "  - No broker that lives is known: nothing else can be said.",
    ]


def test_leaders_are_counted_by_broker() -> None:
    assert leaders_of(np.array([5, -1, 9, 5, 7], np.int32), np.array([2, 5, 9], np.int32)).tolist() == [0, 2, 1]
    assert leaders_of(np.array([5], np.int32), np.array([], np.int32)).tolist() == []
