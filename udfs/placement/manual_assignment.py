"""Replica assignments written by hand, in the form of `kafka-topics --replica-assignment`."""

import re
from collections.abc import Collection

from udfs.placement.kernels.kafka_errors import KafkaError

_INCLUDES = "The manual partition assignment includes "


class ManualAssignmentError(ValueError):
    """An assignment that Kafka rejects. The message names topic, partition and value.

    Attributes:
        kafka_error: The error of Kafka's controller (ReplicationControlManager, 4.1).
    """

    def __init__(self, location: str, problem: str, kafka_message: str = "") -> None:
        """Describe a problem at a location; without Kafka's message, the request itself is invalid."""
        super().__init__(f"{location}: {problem}")
        exception = "InvalidReplicaAssignmentException" if kafka_message else "InvalidRequestException"
        self.kafka_error = KafkaError(exception, kafka_message or str(self))


def parse_manual_assignment(topic: str, text: str, brokers: Collection[int]) -> list[list[int]]:
    """Parse `id:id:id,id:id:id`: `,` separates partitions, `:` replicas.

    Returns:
        The replicas of each partition.

    Raises:
        ManualAssignmentError: If the text is malformed, names a broker twice or an unknown broker, or if partitions
            differ in their number of replicas.
    """
    known = set(brokers)
    partitions: list[list[int]] = []
    for partition, part in enumerate(text.split(",")):
        location = f"topic {topic}, partition {partition}, replicas {part!r}"
        if not re.fullmatch(r"\s*[0-9]{1,10}\s*(:\s*[0-9]{1,10}\s*)*", part):
            raise ManualAssignmentError(location, "broker ids are numbers with ':' between them")
        replicas = [int(broker) for broker in part.split(":")]
        previous = None
        for broker in sorted(replicas):  # Kafka checks them in this order
            if broker not in known:
                message = f"{_INCLUDES}broker {broker}, but no such broker is registered."
                raise ManualAssignmentError(location, f"there is no broker {broker}", message)
            if broker == previous:
                message = f"{_INCLUDES}the broker {broker} more than once."
                raise ManualAssignmentError(location, f"broker {broker} is repeated", message)
            previous = broker
        if partitions and len(replicas) != len(partitions[0]):
            message = (
                f"{_INCLUDES}a partition with {len(replicas)} replica(s), but this is not consistent with previous "
                f"partitions, which have {len(partitions[0])} replica(s)."
            )
            problem = f"{len(replicas)} replicas, but partition 0 has {len(partitions[0])}"
            raise ManualAssignmentError(location, problem, message)
        partitions.append(replicas)
    return partitions
