"""Next steps print commands that the release of the cluster has."""

from __future__ import annotations

import pytest

from pipelines.verdict.verdict_points import use_older_commands
from tests.commands import call
from udfs.failures.topic_defaults import ReleaseRange, find_end

_SERVER = "--bootstrap-server b1:9092"
_OLD = "--zookeeper localhost:2181"
_ELECT = f"kafka-leader-election {_SERVER} --election-type PREFERRED --all-topic-partitions"
_CANCEL = f"restart 1, or cancel it: echo '{{}}' > c.json && kafka-reassign-partitions {_SERVER} --cancel"
_DESCRIBE = f"kafka-topics {_SERVER} --describe"


@pytest.mark.parametrize(
    ("command", "release_before", "older"),
    [
        (
            f"{_DESCRIBE} --under-min-isr-partitions",
            202,
            f"kafka-topics {_OLD} --describe --under-replicated-partitions",
        ),
        (_DESCRIBE, 203, None),
        (f"kafka-configs {_SERVER} --alter", 206, f"kafka-configs {_OLD} --alter"),
        (f"kafka-configs {_SERVER} --alter", 207, None),
        (_ELECT, 204, f"kafka-preferred-replica-election {_OLD}"),
        (_CANCEL, 205, "restart 1, as tools cancel reassignments only since Kafka 2.6"),
        ("set it; after one, find open transactions: kafka-transactions find-hanging", 300, "set it"),
        (_DESCRIBE, None, None),
    ],
)
def test_commands_of_older_releases(command: str, release_before: int | None, older: str | None) -> None:
    assert use_older_commands(command, release_before) == (older or command)


def test_a_release_is_known_if_all_brokers_show_it() -> None:
    assert find_end([ReleaseRange(None, 202), ReleaseRange(200, 206)]) == 206
    assert find_end([ReleaseRange(None, 202), ReleaseRange(200, None)]) is None
    assert find_end([]) is None


def test_a_listing_of_an_old_release_gives_its_commands() -> None:
    answer = call("what-if", "data_samples/pastes/min-isr-above-replicas.txt").stdout
    assert "kafka-configs --zookeeper localhost:2181 --alter" in answer
    assert "--bootstrap-server" not in answer
    assert "kafka-metadata-quorum" not in answer
