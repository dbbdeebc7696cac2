"""Throttles of an execution: set for each wave, removed after it, with the configs restored that were there before."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

from pipelines.execution.journal import THROTTLE, UNTHROTTLE, EarlierConfigs, Journal
from pipelines.execution.set_throttles import DIR_RATES, RATES, REPLICAS, shorten_replicas
from pipelines.live.kafka_changes import UNKNOWN_PARTITION, KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.plan_files.kafka_json import compute_throttle, describe_config_change

_ATTEMPTS, _PAUSE_S = 5, 1.0  # to restore a config
_T = TypeVar("_T")


class ConfigChange:
    """Changes configs of a cluster, and restores them; the journal knows what has to be restored."""

    name: ClassVar[str]
    events: ClassVar[tuple[str, str]]  # of the journal: changed, restored

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

    @property
    def earlier(self) -> EarlierConfigs:
        """The configs that are to be restored."""
        return self._journal.find_earlier_configs(self.events[0])

    def _read_own(self, brokers: Iterable[int], names: Sequence[str]) -> dict[int, dict[str, str | None]]:
        """Read configs of brokers; None where one is not set."""
        return {
            broker: {**dict.fromkeys(names), **self._connection.describe_own_broker_configs(broker, names)}
            for broker in sorted(brokers)
        }

    def _write(self, earlier: EarlierConfigs, **values: int | None) -> None:
        brokers = {str(broker): configs for broker, configs in earlier.brokers.items()}
        self._journal.write(self.events[0], **values, earlier_brokers=brokers, earlier_topics=earlier.topics)

    def restore(self, live: set[int]) -> None:
        """Restore the configs that were there before, and name what keeps the new ones. live: brokers that answer.

        Brokers come first, the last one before the others, so that whatever an interruption leaves can be recognized.
        """
        earlier = self.earlier
        if not earlier:
            return
        rejected = {f"broker {broker}": "it is down, or does not answer" for broker in earlier.brokers.keys() - live}
        restored = []
        for broker in sorted(earlier.brokers.keys() & live, reverse=True):
            try:
                self._retry(partial(self._connection.alter_broker_configs, broker, earlier.brokers[broker]))
                restored.append(broker)
            except KafkaFault as error:
                rejected[f"broker {broker}"] = error.problem
        errors: dict[str, str] = {}
        try:
            errors = (
                self._retry(partial(self._connection.alter_topic_configs, earlier.topics)) if earlier.topics else {}
            )
        except KafkaFault as error:
            errors = dict.fromkeys(earlier.topics, error.problem)
        errors = {name: error for name, error in errors.items() if UNKNOWN_PARTITION not in error}
        for name, problem in sorted((rejected | {f"topic {name}": error for name, error in errors.items()}).items()):
            self._say(f"warning: the {self.name} of {name} was not removed: {problem}")
        topics = sorted(earlier.topics.keys() - errors.keys())
        self._journal.write(self.events[1], brokers=sorted(restored), topics=topics)

    def _retry(self, change: Callable[[], _T]) -> _T:
        """Make a change, again if the cluster does not answer. Raises: KafkaFault of the last attempt."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return change()
            except KafkaFault as error:
                if error.is_denied:
                    raise
            self._pause(_PAUSE_S)
        return change()


class ReplicationThrottle(ConfigChange):
    """Sets and removes throttles on a cluster."""

    name, events = "throttle", (THROTTLE, UNTHROTTLE)

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
        earlier_brokers, known = self._read_own(brokers, RATES), self.earlier
        if earlier_brokers.keys() - known.brokers.keys() or earlier_topics.keys() - known.topics.keys():
            self._write(EarlierConfigs(earlier_brokers, earlier_topics), wave=wave, rate_bytes_per_s=rate)
        throttles = {
            name: dict(zip(REPLICAS, map(shorten_replicas, lists), strict=True))
            for name, lists in throttle.topics.items()
        }
        for name, error in self._connection.alter_topic_configs(throttles).items():
            if UNKNOWN_PARTITION not in error:
                raise self._connection.make_rejection(f"the throttle of topic {name}", error)
        for broker in brokers:
            self._connection.alter_broker_configs(broker, dict.fromkeys(RATES, str(rate)))

    def limit_dir_moves(self, wave: int, rate: int, brokers: set[int]) -> None:
        """Throttle moves between the log dirs of brokers. rate: bytes per second of a broker. Raises: KafkaFault."""
        earlier = self._read_own(brokers, DIR_RATES)
        if earlier.keys() - self.earlier.brokers.keys():
            self._write(EarlierConfigs(earlier), wave=wave, rate_bytes_per_s=rate)
        for broker in sorted(brokers):
            self._connection.alter_broker_configs(broker, dict.fromkeys(DIR_RATES, str(rate)))

    def adopt(self, left: EarlierConfigs) -> None:
        """Have throttles removed that an execution of this plan has left whose journal is lost."""
        self._write(left, wave=None, rate_bytes_per_s=None)


def list_restore_commands(earlier: EarlierConfigs, servers: str, command_config: Path | None) -> list[str]:
    """List the commands that restore configs, one for each broker and topic."""
    connection = f"--bootstrap-server {shlex.quote(servers)}"
    if command_config is not None:
        connection += f" --command-config {shlex.quote(str(command_config))}"
    changes = [describe_config_change("brokers", str(broker), one) for broker, one in sorted(earlier.brokers.items())]
    changes += [describe_config_change("topics", topic, one) for topic, one in sorted(earlier.topics.items())]
    return [f"kafka-configs {connection} --alter {change}" for change in changes]
