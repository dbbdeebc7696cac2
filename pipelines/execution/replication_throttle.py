"""Throttles of an execution: set for each wave, removed after it, with the configs restored that were there before."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from pipelines.execution.journal import THROTTLE, UNTHROTTLE, Journal
from pipelines.live.kafka_changes import UNKNOWN_PARTITION, KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.plan_files.kafka_json import (
    EVERY_REPLICA,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    compute_throttle,
)

RATES, REPLICAS = (LEADER_RATE, FOLLOWER_RATE), (LEADER_REPLICAS, FOLLOWER_REPLICAS)
_ATTEMPTS, _PAUSE_S = 5, 1.0  # to restore a config
_MAX_VALUE = 30_000  # characters of a config: a record of the metadata log has to hold it


class ReplicationThrottle:
    """Sets and removes throttles on a cluster; the journal knows what has to be restored."""

    def __init__(
        self,
        connection: KafkaAdmin,
        journal: Journal,
        say: Callable[[str], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = connection
        self._journal = journal
        self._say = say
        self._pause = pause

    def apply(
        self,
        wave: int,
        rate: int,
        before: Mapping[Key, Sequence[int]],
        after: Mapping[Key, Sequence[int]],
        live: set[int],
    ) -> None:
        """Throttle the copies of a wave. rate: bytes per second of a broker, each way. live: brokers that take configs.

        Raises: KafkaFault if a live broker does not take its throttle: nothing is copied without it.
        """
        throttle = compute_throttle(before, after)
        brokers = [broker for broker in throttle.brokers if broker in live]
        own = {name: dict.fromkeys(REPLICAS) for name in throttle.topics}
        topics = self._connection.describe_topic_configs(sorted(throttle.topics), REPLICAS)
        earlier_topics = {name: {**own[name], **topics.get(name, {})} for name in throttle.topics}
        earlier_brokers = {
            broker: {**dict.fromkeys(RATES), **self._connection.describe_own_broker_configs(broker, RATES)}
            for broker in brokers
        }
        self._journal.write(
            THROTTLE,
            wave=wave,
            rate_bytes_per_s=rate,
            earlier_brokers={str(broker): configs for broker, configs in earlier_brokers.items()},
            earlier_topics=earlier_topics,
        )
        throttles = {
            name: dict(zip(REPLICAS, (_shorten(text) for text in lists), strict=True))
            for name, lists in throttle.topics.items()
        }
        for name, error in self._connection.alter_topic_configs(throttles).items():
            if UNKNOWN_PARTITION not in error:
                problem = f"the throttle of topic {name} was rejected: {error}"
                raise KafkaFault(self._connection.servers, problem, "Grant AlterConfigs on the plan's topics")
        for broker in brokers:
            self._connection.alter_broker_configs(broker, dict.fromkeys(RATES, str(rate)))

    def restore(self, live: set[int]) -> list[int]:
        """Restore the configs that throttles have replaced. live: brokers that are asked repeatedly.

        Returns: brokers that did not answer, or do not allow it: they keep their throttle.
        """
        earlier = self._journal.find_earlier_configs()
        if not earlier:
            return []
        rejected = self._restore_topics(earlier.topics)
        unchanged = {name for name, error in rejected.items() if UNKNOWN_PARTITION not in error}
        for name in sorted(unchanged):
            self._say(f"warning: the throttle of topic {name} was not removed: {rejected[name]}")
        missing = [
            broker
            for broker, configs in sorted(earlier.brokers.items())
            if not self._restore_broker(broker, configs, _ATTEMPTS if broker in live else 1)
        ]
        restored = sorted(set(earlier.brokers) - set(missing))
        self._journal.write(UNTHROTTLE, brokers=restored, topics=sorted(set(earlier.topics) - unchanged))
        return missing

    def _restore_topics(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Restore the configs of topics. Returns: Kafka's error by topic."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._connection.alter_topic_configs(topics) if topics else {}
            except KafkaFault as error:
                if error.is_denied or attempt == _ATTEMPTS - 1:
                    return dict.fromkeys(topics, error.problem)
            self._pause(_PAUSE_S)
        raise AssertionError("unreachable")

    def _restore_broker(self, broker: int, configs: Mapping[str, str | None], attempts: int) -> bool:
        for attempt in range(attempts):
            try:
                self._connection.alter_broker_configs(broker, configs)
            except KafkaFault as error:
                if error.is_denied or attempt == attempts - 1:
                    return False
                self._pause(_PAUSE_S)
            else:
                return True
        return False


def _shorten(text: str) -> str:
    """A value that is too long names every replica, as those in sync are not throttled."""
    return text if len(text) <= _MAX_VALUE else EVERY_REPLICA
