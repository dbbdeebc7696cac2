"""Commands of Kafka's tools in releases that lack those of today."""

import re

_ZOOKEEPER = "--zookeeper localhost:2181"
_SERVER = r"--bootstrap-server \S+"
# The release from which on a tool has what the pattern matches, and what to write before. With ZooKeeper, whose option
# tools of that age have, as they have no other or, for configs of topics, one that only some releases know.
_OLDER = (
    (202, re.compile(rf"\bkafka-topics {_SERVER}"), f"kafka-topics {_ZOOKEEPER}"),
    (203, re.compile(r"--(?:under|at)-min-isr-partitions"), "--under-replicated-partitions"),
    (206, re.compile(rf"\bkafka-configs {_SERVER}"), f"kafka-configs {_ZOOKEEPER}"),
    (206, re.compile(r", or cancel (?:it|them): .*", re.S), ", as tools cancel reassignments only since Kafka 2.6"),
    (206, re.compile(rf"\bkafka-reassign-partitions {_SERVER}"), f"kafka-reassign-partitions {_ZOOKEEPER}"),
    (
        204,
        re.compile(rf"\bkafka-leader-election {_SERVER} --election-type (?i:preferred)(?: --all-topic-partitions)?"),
        f"kafka-preferred-replica-election {_ZOOKEEPER}",
    ),
    (300, re.compile(r"; after one, find open transactions: .*"), ""),
)


def use_older_commands(text: str, release_before: int | None) -> str:
    """Return a text with commands that releases before this one have, as 307 for Kafka 3.7; None = not known."""
    for release, pattern, older in _OLDER:
        if release_before is not None and release_before <= release:
            text = pattern.sub(older, text)
    return text
