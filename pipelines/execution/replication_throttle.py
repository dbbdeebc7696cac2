"""Throttles of an execution: set for each wave, removed after it, with the configs restored that were there before."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

from pipelines.execution.cluster_view import ClusterView, ask_directly
from pipelines.execution.journal import THROTTLE, UNTHROTTLE, EarlierConfigs, Journal
from pipelines.execution.planned_steps import Direction, PlannedSteps
from pipelines.live.kafka_changes import UNKNOWN_PARTITION, KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.plan_files.kafka_json import (
    EVERY_REPLICA,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    compute_throttle,
    describe_config_change,
)
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.wording import format_bytes, join_names

RATES, REPLICAS = (LEADER_RATE, FOLLOWER_RATE), (LEADER_REPLICAS, FOLLOWER_REPLICAS)
DIR_RATES = ("replica.alter.log.dirs.io.max.bytes.per.second",)  # of moves between log dirs
_MAX_VALUE = 30_000  # characters of a config: a record of the metadata log has to hold it

Configs = Mapping[str, str | None]
_Moves = Mapping[int, Set[tuple[frozenset[int], frozenset[int]]]]  # sources and added replicas, by partition


class SetThrottles(NamedTuple):
    """Configs of throttles, where they are set."""

    rates: Mapping[int, Configs]  # by broker, of those that answer
    replicas: dict[str, Configs]  # by topic
    unanswered: Mapping[int, str]  # sentences on brokers that do not answer


def shorten_replicas(text: str) -> str:
    """Shorten throttled replicas: a value that is too long names every one, as those in sync are not throttled."""
    return text if len(text) <= _MAX_VALUE else EVERY_REPLICA


def read_throttles(connection: KafkaAdmin, steps: PlannedSteps, view: ClusterView, brokers: Set[int]) -> SetThrottles:
    """Read the throttles of these brokers, of those that are not fenced, and of the plan's topics.

    Of a plan that moves replicas between log dirs, the throttles of such moves.
    """
    live = (broker for broker in view.state.brokers if broker.id in brokers & view.unfenced_brokers)
    names = DIR_RATES if steps.moves_log_dirs else RATES
    rates, unanswered = ask_directly(
        connection, live, lambda direct, id_: direct.describe_own_broker_configs(id_, names)
    )
    if steps.moves_log_dirs:
        return SetThrottles(rates, {}, unanswered)
    topics = sorted({topic for topic, _ in steps.partitions} & view.topic_ids.keys())
    replicas = connection.describe_topic_configs(topics, REPLICAS)
    return SetThrottles(rates, {topic: replicas[topic] for topic in topics if replicas.get(topic)}, unanswered)


def is_left(configs: Configs, restored: Configs | None) -> bool:
    """Return whether one of these throttles is not what was there before the plan."""
    return any((restored or {}).get(key) != value for key, value in configs.items())


def name_throttled(configs: EarlierConfigs) -> str:
    """Name brokers and topics, as in `brokers 1, 2 and topics a, b`."""
    count = len(configs.topics)
    topics = f"topic{'' if count == 1 else 's'} {join_names(sorted(configs.topics))}" if count else ""
    return " and ".join(filter(None, (name_with_noun(sorted(configs.brokers)) if configs.brokers else "", topics)))


def find_foreign(steps: PlannedSteps, throttles: SetThrottles, own: EarlierConfigs) -> EarlierConfigs:
    """Find the throttles of other tools on the brokers and topics of a plan. own: those of the plan."""
    rates = {id_: dict(one) for id_, one in throttles.rates.items() if id_ in steps.brokers and any(one.values())}
    return EarlierConfigs(rates, {name: dict(one) for name, one in throttles.replicas.items()}).without(own)


def describe_foreign(foreign: EarlierConfigs) -> str:
    """Name the brokers and topics with a throttle of another tool."""
    have = "has" if len(foreign.brokers) + len(foreign.topics) == 1 else "have"
    rates = [int(value) for one in foreign.brokers.values() for value in one.values() if value is not None]
    lowest = "rate" if len(foreign.brokers) == 1 else "lowest rate"
    limit = f" ({lowest} {format_bytes(min(rates))}/s)" if rates else ""
    return f"{name_throttled(foreign)} {have} a throttle of another tool{limit}"


def explain_foreign(foreign: EarlierConfigs, rate: int | None) -> tuple[str, str]:
    """Say what becomes of the throttles of another tool. rate: of the execution; None = without a throttle."""
    if rate is None:
        remedy = "copies through it may be slow; give a rate to replace it while a wave runs"
        return f"{describe_foreign(foreign)}, which stays: --throttle none sets none", remedy
    remedy = "it is replaced while a wave runs, and then set again; remove it first if it was left behind"
    return describe_foreign(foreign), remedy


def find_left_throttles(steps: PlannedSteps, throttles: SetThrottles, restored: EarlierConfigs) -> EarlierConfigs:
    """Find the throttles that an execution of this plan has set and not removed, without the help of its journal.

    A topic's are the plan's if they name the sources and the new replicas of the plan's moves. A wave sets the rate of
    all topics' brokers in their order, and removes it in the reverse order: so the rate of the first of them counts.
    Args: restored: configs of others, which were there before the plan and are back.
    Returns: the configs to remove, with None as the earlier value.
    """
    moves: dict[str, dict[int, set[tuple[frozenset[int], frozenset[int]]]]] = {}
    for (topic, partition), one in steps.partitions.items():
        moves.setdefault(topic, {})[partition] = {
            (frozenset(before), frozenset(after) - frozenset(before)) for before, after in one.list_moves()
        }
    topics: dict[str, dict[str, str | None]] = {}
    brokers: set[int] = set()
    for topic, configs in throttles.replicas.items():
        named = _find_brokers(configs, moves[topic]) if is_left(configs, restored.topics.get(topic)) else set()
        if named and (EVERY_REPLICA not in configs.values() or _is_shortened(steps, topic, configs)):
            topics[topic] = dict.fromkeys(REPLICAS)
            brokers |= named
    rates = {id_: configs for id_, configs in throttles.rates.items() if id_ in brokers}
    first = rates[min(rates)] if rates else {}
    if first.get(LEADER_RATE) is None or first.get(LEADER_RATE) != first.get(FOLLOWER_RATE):
        return EarlierConfigs(topics=topics)
    own = [id_ for id_, configs in rates.items() if configs == first and is_left(configs, restored.brokers.get(id_))]
    return EarlierConfigs({id_: dict.fromkeys(RATES) for id_ in own}, topics)


def _find_brokers(configs: Configs, moves: _Moves) -> set[int]:
    """Return the brokers of throttled replicas, which all have to be of the plan's moves; else no broker."""
    leaders, followers = (_parse_replicas(configs.get(name)) for name in REPLICAS)
    if leaders is None or followers is None:
        return set()
    brokers: set[int] = set()
    for partition in leaders.keys() | followers.keys() or moves.keys():
        matching = [
            move
            for move in moves.get(partition, ())
            if all(not one or one.get(partition) == ids for one, ids in zip((leaders, followers), move, strict=True))
        ]
        if not matching:
            return set()
        brokers |= {id_ for move in matching for ids in move for id_ in ids}
    return brokers


def _parse_replicas(text: str | None) -> dict[int, frozenset[int]] | None:
    """Return the throttled replicas of each partition; empty = every one; None = no such list."""
    if text == EVERY_REPLICA:
        return {}
    replicas: dict[int, set[int]] = {}
    for entry in (text or "").split(","):
        partition, _, broker = entry.strip().partition(":")
        if not (partition.isdecimal() and broker.isdecimal()):
            return None
        replicas.setdefault(int(partition), set()).add(int(broker))
    return {partition: frozenset(ids) for partition, ids in replicas.items()}


def _is_shortened(steps: PlannedSteps, topic: str, configs: Configs) -> bool:
    """Return whether a wave of the plan throttles every replica of a topic, as their names take too much room."""
    for direction in Direction:
        for wave in range(1, steps.waves + 1):
            targets = {key: one for key, one in steps.find_targets(wave, direction).items() if key[0] == topic}
            throttle = compute_throttle(*steps.select_lists(targets)).topics.get(topic)
            if throttle and tuple(map(shorten_replicas, throttle)) == tuple(configs.get(name) for name in REPLICAS):
                return True
    return False


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
