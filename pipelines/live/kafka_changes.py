"""The calls that change a running cluster. Each is sent once: one whose answer is lost may have had its effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from typing import Any

from kafka import errors
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.structs import TopicPartition

from pipelines.live.kafka_connection import KafkaConnection, KafkaFault, Key, ReplicaLogDirs, split_chunks

_PREFERRED = 0  # type of election
_ALTER, _ALTER_CONFIGS = "ALTER", "ALTER_CONFIGS"
NOT_IN_PROGRESS = "NoReassignmentInProgress"
UNKNOWN_PARTITION = "UnknownTopicOrPartition"
_NOTHING_TO_DO = (errors.NoError, errors.ElectionNotNeededError)


class KafkaAdmin(KafkaConnection):
    """A connection that may change its cluster."""

    def list_missing_permissions(self, topics: Sequence[str], *, configs: bool) -> list[str]:
        """List what the user lacks to apply a plan, as in "Alter on the cluster"; nothing where Kafka does not say it.

        configs: also to set throttles on brokers and topics.
        """
        operations = self.describe_cluster().operations
        missing = ["Alter on the cluster"] if not _allows(operations, _ALTER) else []
        if configs and not _allows(operations, _ALTER_CONFIGS):
            missing.append("AlterConfigs on the cluster")
        for chunk in split_chunks(sorted(topics)) if configs else ():
            answer = self.ask("the user's permissions", methodcaller("describe_topics", chunk))
            rejected = [t["name"] for t in answer if not _allows(t.get("authorized_operations"), _ALTER_CONFIGS)]
            missing += [f"AlterConfigs on topic {name}" for name in rejected]
        return missing

    def alter_reassignments(self, targets: Mapping[Key, Sequence[int] | None]) -> dict[Key, str]:
        """Set the replicas of partitions, in their order; None cancels a reassignment.

        Returns: Kafka's error by partition, for those that it rejects. Raises: KafkaFault if the answer is lost.
        """
        rejected: dict[Key, str] = {}
        for chunk in split_chunks(sorted(targets)):
            request = {TopicPartition(*key): _to_list(targets[key]) for key in chunk}
            answer = self._change("the reassignment", methodcaller("alter_partition_reassignments", request))
            rejected |= {(key.topic, key.partition): _name_error(error) for key, error in answer.items() if error}
        return rejected

    def choose_log_dirs(self, log_dirs: ReplicaLogDirs) -> None:
        """Have brokers create replicas that they do not have yet in these log dirs.

        A broker remembers the log dir until it restarts; otherwise it chooses the one with the fewest partitions.
        """
        if log_dirs:
            self._change("the log dirs of replicas", methodcaller("alter_replica_log_dirs", log_dirs))

    def elect_preferred_leaders(self, partitions: Sequence[Key]) -> dict[Key, str]:
        """Have the preferred leaders of partitions lead. Returns: Kafka's error by partition, where it elected none."""
        failed: dict[Key, str] = {}
        for chunk in split_chunks(sorted(partitions)):
            topics = defaultdict[str, list[int]](list)
            for topic, partition in chunk:
                topics[topic].append(partition)
            call = methodcaller("elect_leaders", _PREFERRED, dict(topics), raise_errors=False)
            answer = self._change("the election", call)
            top_level = errors.for_code(getattr(answer, "error_code", 0))
            if top_level not in _NOTHING_TO_DO:
                return dict.fromkeys(partitions, _name_error(top_level))
            for result in answer.replica_election_results:
                for one in result.partition_result:
                    error = errors.for_code(one.error_code)
                    if error not in _NOTHING_TO_DO:
                        failed[result.topic, one.partition_id] = _name_error(error)
        return failed

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Set configs of topics; None removes one. Returns: Kafka's error by topic, where it rejects them."""
        rejected: dict[str, str] = {}
        for chunk in split_chunks(sorted(changes)):
            resources = [_make_resource(ConfigResourceType.TOPIC, name, changes[name]) for name in chunk]
            rejected |= self._alter_configs("the configs of topics", resources).get("topic", {})
        return {name: text for name, text in rejected.items() if text != "OK"}

    def alter_broker_configs(self, broker: int, changes: Mapping[str, str | None]) -> None:
        """Set configs of one broker; None removes one. Raises: KafkaFault if it does not answer, or rejects them."""
        what = f"the configs of broker {broker}"
        answer = self._alter_configs(what, [_make_resource(ConfigResourceType.BROKER, str(broker), changes)])
        text = answer.get("broker", {}).get(str(broker), "OK")
        if text != "OK":
            raise KafkaFault(
                self.servers, f"{what} were not changed: {text[:200]}", "Grant AlterConfigs on the cluster"
            )

    def _alter_configs(self, what: str, resources: Sequence[ConfigResource]) -> Mapping[str, Mapping[str, str]]:
        # The library would read all configs first, and reject the throttles, which brokers do not list.
        call = methodcaller("alter_configs", resources, raise_on_unknown=False)
        results: Mapping[str, Mapping[str, str]] = self._change(what, call)
        return results

    def _change(self, what: str, call: Callable[[KafkaAdminClient], Any]) -> Any:
        return self.ask(what, call, changes=True)


def _allows(operations: Sequence[str] | None, operation: str) -> bool:
    """Return whether a user may do something; without any operation, Kafka has not said what the user may do."""
    return not operations or operation in operations


def _make_resource(kind: ConfigResourceType, name: str, changes: Mapping[str, str | None]) -> ConfigResource:
    operations = {
        key: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
        for key, value in changes.items()
    }
    return ConfigResource(kind, name, operations)


def _to_list(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _name_error(error: type[BaseException]) -> str:
    return error.__name__.removesuffix("Error")
