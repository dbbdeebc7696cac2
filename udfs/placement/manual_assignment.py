"""A replica assignment written by hand, as `kafka-topics --replica-assignment` takes it."""

from __future__ import annotations

import re
from collections.abc import Collection

_REJECTED = "The manual partition assignment includes "


class ManualError(ValueError):
    """An assignment that Kafka would reject: names the topic and the value.

    kafka_class, kafka_message: as Kafka's controller rejects it (ReplicationControlManager, 4.1).
    """

    def __init__(self, where: str, problem: str, kafka_message: str = "") -> None:
        super().__init__(f"{where}: {problem}")
        self.kafka_class = "InvalidReplicaAssignmentException" if kafka_message else "InvalidRequestException"
        self.kafka_message = kafka_message or str(self)


def parse_manual(topic: str, text: str, brokers: Collection[int]) -> list[list[int]]:
    """Replicas of each partition from `id:id:id,id:id:id`: `,` between partitions, `:` between replicas.

    A ManualError for what is no number, a repeated or unknown broker, or replica lists of unequal length.
    """
    known = set(brokers)
    out: list[list[int]] = []
    for partition, part in enumerate(text.split(",")):
        where = f"topic {topic}, partition {partition}, replicas {part!r}"
        if not re.fullmatch(r"\s*[0-9]{1,10}\s*(:\s*[0-9]{1,10}\s*)*", part):
            raise ManualError(where, "broker ids are numbers with ':' between them")
        replicas = [int(broker) for broker in part.split(":")]
        previous = None
        for broker in sorted(replicas):  # the order in which Kafka looks at them
            if broker not in known:
                rejected = f"{_REJECTED}broker {broker}, but no such broker is registered."
                raise ManualError(where, f"there is no broker {broker}", rejected)
            if broker == previous:
                rejected = f"{_REJECTED}the broker {broker} more than once."
                raise ManualError(where, f"broker {broker} is repeated", rejected)
            previous = broker
        if out and len(replicas) != len(out[0]):
            rejected = (
                f"{_REJECTED}a partition with {len(replicas)} replica(s), but this is not consistent with previous "
                f"partitions, which have {len(out[0])} replica(s)."
            )
            raise ManualError(where, f"{len(replicas)} replicas, but partition 0 has {len(out[0])}", rejected)
        out.append(replicas)
    return out
