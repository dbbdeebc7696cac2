"""What an execution sees of its cluster at one moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from itertools import compress
from typing import NamedTuple, TypeVar

import numpy as np

from pipelines.execution.log_dir_moves import NO_LOGS, ReplicaLogs, read_replica_logs
from pipelines.live.cluster_reader import read_layout
from pipelines.live.cluster_records import ClusterDescription, LiveBroker, LivePartition
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key, Reassignments
from pipelines.verdict.cluster_evidence import name_with_noun
from pipelines.verdict.risk_findings import describe_lagging_voters
from udfs.failures.partition_health import is_under_replicated
from udfs.wording import join_names

SILENCE_REMEDY = (
    "Start what has just failed; else make the listeners that they advertise reachable from here, or apply the plan "
    "from where they are"
)
_T = TypeVar("_T")


class ClusterView(NamedTuple):
    """A cluster at one moment."""

    state: ClusterDescription
    partitions: dict[Key, LivePartition]
    topic_ids: dict[str, str | None]
    reassignments: Reassignments
    unreadable_topics: frozenset[str] = frozenset()  # that exist, but were not described
    logs: ReplicaLogs = NO_LOGS  # of the brokers whose replicas a plan moves between log dirs

    @property
    def live_brokers(self) -> set[int]:
        """Ids of the brokers that are registered and not fenced, and that answer."""
        return {broker.id for broker in self.state.brokers if not broker.is_fenced} - set(self.state.silent_brokers)

    @property
    def unfenced_brokers(self) -> set[int]:
        """Ids of the brokers that the cluster has live, whether or not they answer this client."""
        return {broker.id for broker in self.state.brokers if not broker.is_fenced}

    def is_recreated(self, topic: str, topic_ids: Mapping[str, str]) -> bool:
        """Return whether a topic was deleted and created again since topics had these ids."""
        return topic in topic_ids and self.topic_ids.get(topic) not in (None, topic_ids[topic])

    def without_recreated(self, topic_ids: Mapping[str, str]) -> ClusterView:
        """Return the view without the topics that were deleted and created again since they had these ids."""
        others = {key: one for key, one in self.partitions.items() if not self.is_recreated(key[0], topic_ids)}
        return self._replace(partitions=others)

    def describe_lagging(self, keys: Iterable[Key]) -> str:
        """Name the brokers that hold up reassignments of these partitions with replicas that stay, once all are copied.

        Kafka waits for them up to 4.2, and later where more replicas are removed than added. Returns: the end of a
        sentence; empty if there are none.
        """
        lagging: set[int] = set()
        for key in keys:
            if key in self.partitions and key in self.reassignments:
                waits_for = set(self.reassignments[key].target) - set(self.partitions[key].isr)
                if waits_for.isdisjoint(self.reassignments[key].adding):
                    lagging |= waits_for
        stays = "whose replica stays but lags" if len(lagging) == 1 else "whose replicas stay but lag"
        return f", waits for {name_with_noun(sorted(lagging))}, {stays}" if lagging else ""

    def list_under_replicated(self) -> list[Key]:
        """List partitions with fewer replicas in sync than their replication factor, which is without added ones."""
        in_sync, replicas = [], []
        for key, partition in self.partitions.items():
            move = self.reassignments.get(key)
            adding = set(move.adding) if move else set()
            replicas.append(sum(replica not in adding for replica in partition.replicas))
            in_sync.append(len(partition.isr))
        is_listed = is_under_replicated(np.array(in_sync), np.array(replicas))
        return list(compress(self.partitions, is_listed))


def view_cluster(
    connection: KafkaAdmin, pause: Callable[[float], None] = time.sleep, log_brokers: Set[int] = frozenset()
) -> ClusterView:
    """Read a cluster until two reads agree. log_brokers: those whose logs are needed, if they are live.

    Raises: KafkaFault if the cluster does not answer, if its brokers keep to disagree, or if an ACL is missing.
    """
    layout = read_layout(connection, pause)
    if layout.fault is not None:
        raise layout.fault
    view = ClusterView(
        layout.state,
        {(topic.name, one.partition): one for topic in layout.topics for one in topic.partitions},
        {topic.name: topic.topic_id for topic in layout.topics},
        layout.reassignments or {},
        frozenset(layout.unreadable_topics),
    )
    return view._replace(logs=read_replica_logs(connection, log_brokers & view.live_brokers)) if log_brokers else view


def explain_weak_quorum(connection: KafkaAdmin) -> str:
    """Say which voters leave none to spare, or that no controller answers; empty if one may fail, or none is known."""
    try:
        quorum = connection.describe_quorum()
    except KafkaFault as error:
        return "" if error.is_denied else error.problem
    if quorum is None or not quorum.voters.is_weak:
        return ""
    point = describe_lagging_voters(quorum.voters, "one more failure would leave no controller")
    return point.text.removesuffix(".")


def name_partitions(keys: Iterable[Key], limit: int = 3) -> str:
    """Name the first partitions, and how many more there are."""
    return join_names((f"{topic}-{partition}" for topic, partition in sorted(keys)), limit)


def ask_directly(
    connection: KafkaAdmin, brokers: Iterable[LiveBroker], call: Callable[[KafkaAdmin, int], _T]
) -> tuple[dict[int, _T], dict[int, str]]:
    """Ask brokers, each on a connection of its own. Returns: answers, and sentences on those that do not answer.

    Raises: KafkaFault if an ACL is missing.
    """
    answers: dict[int, _T] = {}
    silent: dict[int, str] = {}
    for broker in brokers:
        try:
            with connection.connect_to(broker) as direct:
                answers[broker.id] = call(direct, broker.id)
        except KafkaFault as error:
            if error.is_denied:
                raise
            silent[broker.id] = f"broker {broker.id} at {broker.host}:{broker.port}: {error.problem}"
    return answers, silent


def describe_silence(silent: Mapping[int, str]) -> str:
    """Name the brokers that do not answer, and why."""
    names = name_with_noun(list(silent))
    verb, them = ("does", "it") if len(silent) == 1 else ("do", "them")
    return f"{names} {verb} not answer, though the cluster lists {them} as live ({'; '.join(silent.values())})"


def explain_fault(connection: KafkaAdmin, error: KafkaFault) -> KafkaFault:
    """Add to a fault which brokers do not answer, though the cluster has them live: any of them may be asked."""
    silent: dict[int, str] = {}
    if not error.is_denied:
        with suppress(KafkaFault):
            live = [broker for broker in connection.describe_cluster().brokers if not broker.is_fenced]
            silent = ask_directly(connection, live, lambda direct, _: direct.describe_cluster())[1]
    if not silent:
        return error
    return KafkaFault(connection.servers, f"{error.problem}; {describe_silence(silent)}", SILENCE_REMEDY)
