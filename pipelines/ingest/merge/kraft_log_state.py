"""Replays a KRaft metadata log: records in order -> the facts that are true at its end.

Source: PartitionRegistration.merge and BrokerRegistration of Kafka 4.1 - a change record has only what it changes,
and a new leader adds one to the leader epoch.
"""

from typing import Any

import pyarrow as pa

from pipelines.ingest.fact_tables import FactKind

_CHANGES = ("leader", "replicas", "isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas")
# Taken from the last record that changed a fact.
_ORIGIN = ("record_number", "line_number", "fact")
_WITHOUT_STATE = (FactKind.IGNORED, FactKind.REJECTED, FactKind.REPLICA, FactKind.OFFSET)


class _LogState:
    """State of one log. Partitions are found by topic id and number, as the log names them."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, Any]] = {}
        self.partitions: dict[str, dict[int, dict[str, Any]]] = {}
        self.configs: dict[str, dict[str, Any]] = {}
        self.brokers: dict[int, dict[str, Any]] = {}
        self.faults: list[tuple[dict[str, Any], str]] = []

    def apply(self, fact: dict[str, Any]) -> None:
        kind, topic_id = fact["kind"], fact["topic_id"]
        if kind == FactKind.TOPIC:
            self.topics[topic_id] = fact
        elif kind == FactKind.PARTITION:
            self.partitions.setdefault(topic_id, {})[fact["partition"]] = fact
        elif kind == FactKind.PARTITION_CHANGE:
            self._change_partition(fact)
        elif kind == FactKind.TOPIC_REMOVED:
            self.topics.pop(topic_id, None)
            self.partitions.pop(topic_id, None)
            self.configs.pop(fact["topic"], None)
        elif kind == FactKind.CLEAR_ELR:
            self._clear_elr(fact["topic"])
        elif kind == FactKind.CONFIG:
            self._change_config(fact)
        else:
            self._change_broker(fact)

    def _change_partition(self, fact: dict[str, Any]) -> None:
        partition = self.partitions.get(fact["topic_id"], {}).get(fact["partition"])
        if partition is None:
            reason = f"changes partition {fact['topic']}-{fact['partition']}, which the log has not created"
            self.faults.append((fact, reason))
            return
        epoch = partition["leader_epoch"]
        for name in _CHANGES:
            if fact[name] is not None:
                partition[name] = fact[name]
        if fact["leader"] is not None and epoch is not None:
            partition["leader_epoch"] = epoch + 1
        partition.update({name: fact[name] for name in _ORIGIN})

    def _clear_elr(self, topic: str | None) -> None:
        for partitions in self.partitions.values():
            for partition in partitions.values():
                if topic is None or partition["topic"] == topic:
                    partition["elr"], partition["last_known_elr"] = [], []

    def _change_config(self, fact: dict[str, Any]) -> None:
        configs = self.configs.setdefault(fact["topic"], {**fact, "configs": {}})
        for key, value in fact["configs"]:
            configs["configs"].pop(key, None)
            if value is not None:
                configs["configs"][key] = value
        configs.update({name: fact[name] for name in _ORIGIN})

    def _change_broker(self, fact: dict[str, Any]) -> None:
        broker_id = fact["broker_id"]
        if fact["kind"] == FactKind.BROKER:
            self.brokers[broker_id] = fact
        elif fact["kind"] == FactKind.BROKER_REMOVED:
            self.brokers[broker_id] = {
                **self.brokers.get(broker_id, fact),
                "kind": FactKind.BROKER,
                "registered": False,
            }
        elif broker_id in self.brokers:
            if fact["fenced"] is not None:
                self.brokers[broker_id]["fenced"] = fact["fenced"]
        else:
            self.faults.append((fact, f"changes broker {broker_id}, which the log has not registered"))

    def build_rows(self) -> list[dict[str, Any]]:
        rows = [*self.topics.values(), *self.brokers.values()]
        for partitions in self.partitions.values():
            rows.extend(partitions.values())
        rows.extend({**fact, "configs": list(fact["configs"].items())} for fact in self.configs.values())
        return rows


def replay_log(facts: pa.Table) -> tuple[pa.Table, list[tuple[dict[str, Any], str]]]:
    """Return (facts that are true at the end of one log, [(fact, why it cannot be applied)]).

    Args:
        facts: Facts of one KRaft log. Changes after the begin of a snapshot need the snapshot.
    """
    state = _LogState()
    for fact in facts.sort_by("record_number").to_pylist():
        if fact["kind"] not in _WITHOUT_STATE:
            state.apply(fact)
    return pa.Table.from_pylist(state.build_rows(), schema=facts.schema), state.faults
