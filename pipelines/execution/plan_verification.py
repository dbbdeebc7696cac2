"""Whether a cluster is as a plan leaves it, or as it was before: replicas in their order, leaders, throttles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.execution.cluster_view import ClusterView
from pipelines.execution.journal import EarlierConfigs
from pipelines.execution.plan_waves import PlanWaves
from pipelines.execution.replication_throttle import RATES, REPLICAS
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key


@dataclass(frozen=True)
class Verification:
    """What was found. Lists of partitions are in order of topic and partition."""

    planned: int  # partitions of the plan
    done: int  # as after the plan
    not_begun: int  # as before it
    differing: tuple[Key, ...]  # as neither, nor after one of its steps
    gone: tuple[Key, ...]
    moving: tuple[Key, ...]
    not_preferred: tuple[Key, ...]  # led by another replica than the first
    under_replicated: tuple[Key, ...]
    throttled_brokers: tuple[int, ...]
    throttled_topics: tuple[str, ...]
    unanswered_brokers: tuple[int, ...]  # whose throttles are not known
    restored_brokers: tuple[int, ...] = ()  # with a throttle that was there before the plan's

    @property
    def is_applied(self) -> bool:
        """Whether the plan is carried out, and nothing of its execution is left."""
        return self.done + len(self.gone) == self.planned and self._is_settled

    @property
    def is_rolled_back(self) -> bool:
        """Whether the cluster is as before the plan, and nothing of its execution is left."""
        return self.not_begun + len(self.gone) == self.planned and self._is_settled

    @property
    def _is_settled(self) -> bool:
        return not (self.moving or self.throttled_brokers or self.throttled_topics or self.unanswered_brokers)


def verify_plan(connection: KafkaAdmin, steps: PlanWaves, view: ClusterView, restored: EarlierConfigs) -> Verification:
    """Compare a cluster with a plan. restored: configs that were there before its throttles, and are back since.

    Such a config may have been removed since, but a config with another value is one that was left behind.
    """
    counts = {"done": 0, "not_begun": 0}
    differing, gone, not_preferred = [], [], []
    for key, one in sorted(steps.partitions.items()):
        partition = view.partitions.get(key)
        if partition is None:
            gone.append(key)
            continue
        if key in view.reassignments:
            continue
        index = one.find(partition.replicas)
        counts["done"] += index == len(one.lists) - 1
        counts["not_begun"] += partition.replicas == one.lists[0]
        if index is None:
            differing.append(key)
        if partition.leader != partition.replicas[0]:
            not_preferred.append(key)
    rates, unanswered = read_rates(connection, steps, view)
    throttled = [broker for broker, configs in rates.items() if _is_left(configs, restored.brokers.get(broker))]
    topics = sorted({topic for topic, _ in steps.partitions} & view.topic_ids.keys())
    configs = connection.describe_topic_configs(topics, REPLICAS)
    under = set(view.list_under_replicated())
    return Verification(
        len(steps.partitions),
        counts["done"],
        counts["not_begun"],
        tuple(differing),
        tuple(gone),
        tuple(sorted(steps.partitions.keys() & view.reassignments.keys())),
        tuple(not_preferred),
        tuple(sorted(under & steps.partitions.keys())),
        tuple(throttled),
        tuple(name for name in topics if _is_left(configs.get(name, {}), restored.topics.get(name))),
        tuple(unanswered),
        tuple(broker for broker, configs in rates.items() if configs and broker not in throttled),
    )


def read_rates(
    connection: KafkaAdmin, steps: PlanWaves, view: ClusterView
) -> tuple[dict[int, Mapping[str, str | None]], list[int]]:
    """Return the rates of throttles that are set on the plan's live brokers, and the brokers that do not answer."""
    involved = {id_ for one in steps.partitions.values() for lists in one.lists for id_ in lists}
    rates: dict[int, Mapping[str, str | None]] = {}
    unanswered = []
    for broker in sorted(involved & view.live_brokers):
        try:
            rates[broker] = connection.describe_own_broker_configs(broker, RATES)
        except KafkaFault:
            unanswered.append(broker)
    return rates, unanswered


def _is_left(configs: Mapping[str, str | None], restored: Mapping[str, str | None] | None) -> bool:
    """Return whether one of these throttles is not what was there before the plan."""
    return any((restored or {}).get(key) != value for key, value in configs.items())
