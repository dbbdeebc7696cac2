"""The KRaft metadata log folded: records in order -> the facts that hold at its end.

Source: PartitionRegistration.merge and BrokerRegistration of Kafka 4.1 - a change record holds only what it changes,
and a new leader adds one to the leader epoch.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pipelines.ingest.records import (
    BROKER,
    BROKER_CHANGE,
    BROKER_REMOVED,
    CLEAR_ELR,
    CONFIG,
    PARTITION,
    PARTITION_CHANGE,
    TOPIC,
    TOPIC_REMOVED,
)

_CHANGES = ("leader", "replicas", "isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas")
# Where a fact stands: that of the last record that changed it.
_ORIGIN = ("record_number", "line_number", "fact")
_HANDLED = {BROKER, BROKER_CHANGE, BROKER_REMOVED, CLEAR_ELR, CONFIG, PARTITION, PARTITION_CHANGE, TOPIC, TOPIC_REMOVED}


class _Fold:
    """State of one log. Partitions are found by topic id and number, as the log names them."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, Any]] = {}
        self.partitions: dict[str, dict[int, dict[str, Any]]] = {}
        self.configs: dict[str, dict[str, Any]] = {}
        self.brokers: dict[int, dict[str, Any]] = {}
        self.faults: list[tuple[dict[str, Any], str]] = []

    def apply(self, fact: dict[str, Any]) -> None:
        kind, topic_id = fact["kind"], fact["topic_id"]
        if kind == TOPIC:
            self.topics[topic_id] = fact
        elif kind == PARTITION:
            self.partitions.setdefault(topic_id, {})[fact["partition"]] = fact
        elif kind == PARTITION_CHANGE:
            self._change(fact)
        elif kind == TOPIC_REMOVED:
            self.topics.pop(topic_id, None)
            self.partitions.pop(topic_id, None)
            self.configs.pop(fact["topic"], None)
        elif kind == CLEAR_ELR:
            self._clear_elr(fact["topic"])
        elif kind == CONFIG:
            self._config(fact)
        else:
            self._broker(fact)

    def _change(self, fact: dict[str, Any]) -> None:
        held = self.partitions.get(fact["topic_id"], {}).get(fact["partition"])
        if held is None:
            reason = f"changes partition {fact['topic']}-{fact['partition']}, which the log has not created"
            self.faults.append((fact, reason))
            return
        epoch = held["leader_epoch"]
        for name in _CHANGES:
            if fact[name] is not None:
                held[name] = fact[name]
        if fact["leader"] is not None and epoch is not None:
            held["leader_epoch"] = epoch + 1
        held.update({name: fact[name] for name in _ORIGIN})

    def _clear_elr(self, topic: str | None) -> None:
        for partitions in self.partitions.values():
            for held in partitions.values():
                if topic is None or held["topic"] == topic:
                    held["elr"], held["last_known_elr"] = [], []

    def _config(self, fact: dict[str, Any]) -> None:
        held = self.configs.setdefault(fact["topic"], {**fact, "configs": {}})
        for key, value in fact["configs"]:
            held["configs"].pop(key, None)
            if value is not None:
                held["configs"][key] = value
        held.update({name: fact[name] for name in _ORIGIN})

    def _broker(self, fact: dict[str, Any]) -> None:
        broker_id = fact["broker_id"]
        if fact["kind"] == BROKER:
            self.brokers[broker_id] = fact
        elif fact["kind"] == BROKER_REMOVED:
            self.brokers[broker_id] = {**self.brokers.get(broker_id, fact), "kind": BROKER, "registered": False}
        elif broker_id in self.brokers:
            if fact["fenced"] is not None:
                self.brokers[broker_id]["fenced"] = fact["fenced"]
        else:
            self.faults.append((fact, f"changes broker {broker_id}, which the log has not registered"))

    def rows(self) -> list[dict[str, Any]]:
        rows = [*self.topics.values(), *self.brokers.values()]
        for partitions in self.partitions.values():
            rows.extend(partitions.values())
        rows.extend({**held, "configs": list(held["configs"].items())} for held in self.configs.values())
        return rows


def fold_log(facts: pa.Table) -> tuple[pa.Table, list[tuple[dict[str, Any], str]]]:
    """(facts that hold at the end of one log, [(fact, why it cannot be applied)]).

    facts: rows of one KRaft log, of the kinds that a log has. A change after a snapshot's begin needs the snapshot.
    """
    fold = _Fold()
    for fact in facts.sort_by("record_number").to_pylist():
        if fact["kind"] in _HANDLED:
            fold.apply(fact)
    return pa.Table.from_pylist(fold.rows(), schema=facts.schema), fold.faults
