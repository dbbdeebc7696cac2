"""Elects preferred leaders after a plan: repeatedly, as a replica may come back in sync a moment later."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipelines.live.kafka_changes import UNKNOWN_PARTITION, KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.live.pauses import growing_pauses

_ATTEMPTS = 5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 4.0


def elect_preferred_leaders(
    connection: KafkaAdmin, partitions: Sequence[Key], pause: Callable[[float], None]
) -> dict[Key, str]:
    """Elect the first replica of each partition. pause: waits for so many seconds.

    Returns: Kafka's error of each partition that has another leader; deleted partitions are no error.
    Raises: KafkaFault if the cluster does not answer, or if an ACL is missing.
    """
    failed = dict.fromkeys(partitions, "not tried")
    pauses = growing_pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    for attempt in range(_ATTEMPTS):
        if attempt:
            pause(next(pauses))
        try:
            errors = connection.elect_preferred_leaders(list(failed))
        except KafkaFault as error:
            if error.is_denied or attempt == _ATTEMPTS - 1:
                raise
            continue
        failed = {key: reason for key, reason in errors.items() if reason != UNKNOWN_PARTITION}
        if not failed:
            break
    return failed
