"""The calls that change a running cluster. Each is sent once: one whose answer is lost may have had its effect."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, Self, cast

from kafka import errors
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.protocol.admin import AlterPartitionReassignmentsRequest
from kafka.structs import TopicPartition

from pipelines.live.cluster_records import LiveBroker
from pipelines.live.kafka_connection import KafkaConnection, KafkaFault, Key, ReplicaLogDirs, split_chunks

_PREFERRED = 0  # type of election
_ALTER, _ALTER_CONFIGS = "ALTER", "ALTER_CONFIGS"
NOT_IN_PROGRESS = "NoReassignmentInProgress"
UNKNOWN_PARTITION = "UnknownTopicOrPartition"
_NOTHING_TO_DO = (errors.NoError, errors.ElectionNotNeededError)
_REMEMBERED = (errors.NoError, errors.ReplicaNotAvailableError)  # of the log dir of a replica that is not there yet
_MAX_MESSAGE = 300  # characters of Kafka's message


class KafkaRejection(KafkaFault):
    """Kafka rejects a change, and will reject it again."""


class KafkaAdmin(KafkaConnection):
    """A connection that may change its cluster."""

    def connect_to(self, broker: LiveBroker) -> Self:
        """Return a connection that begins with this broker, so that no other one is the reason if it fails."""
        direct = type(self)(f"{broker.host}:{broker.port}", self.properties)
        direct._patience = self._patience  # it does not wait again for others that do not answer
        return direct

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

        Returns: Kafka's error with its message by partition, for those that it rejects. Raises: KafkaFault if the
        answer is lost, or if Kafka rejects all of them.
        """
        rejected: dict[Key, str] = {}
        for chunk in split_chunks(sorted(targets)):
            lists = {key: targets[key] for key in chunk}
            request = {TopicPartition(*key): None if ids is None else list(ids) for key, ids in lists.items()}
            answer = self.ask("the reassignment", partial(_send_reassignments, request), changes=True)
            self._check_answer("the reassignment", answer)
            rejected |= {
                (topic.name, one.partition_index): _describe_rejection(one.error_code, one.error_message)
                for topic in answer.responses
                for one in topic.partitions
                if one.error_code
            }
        return rejected

    def choose_log_dirs(self, log_dirs: ReplicaLogDirs) -> dict[Key, str]:
        """Have brokers create replicas that they do not have yet in these log dirs.

        A broker remembers the log dir until it restarts; otherwise it chooses the one with the fewest partitions.
        Returns: Kafka's error by partition, where a broker has no such log dir.
        """
        if not log_dirs:
            return {}
        answer = self.ask("the log dirs of replicas", methodcaller("alter_replica_log_dirs", log_dirs), changes=True)
        return {
            (one.topic, one.partition): f"{_name_error(error)}: {log_dirs[tuple(one)]} on broker {one.broker_id}"
            for one, error in answer.items()
            if error not in _REMEMBERED
        }

    def elect_preferred_leaders(self, partitions: Sequence[Key]) -> dict[Key, str]:
        """Have the preferred leaders of partitions lead. Returns: Kafka's error by partition, where it elected none."""
        failed: dict[Key, str] = {}
        for chunk in split_chunks(sorted(partitions)):
            topics = defaultdict[str, list[int]](list)
            for topic, partition in chunk:
                topics[topic].append(partition)
            call = methodcaller("elect_leaders", _PREFERRED, dict(topics), raise_errors=False)
            answer = self.ask("the election", call, changes=True)
            self._check_answer("the election", answer)
            for result in answer.replica_election_results:
                for one in result.partition_result:
                    if errors.for_code(one.error_code) not in _NOTHING_TO_DO:
                        failed[result.topic, one.partition_id] = _describe_rejection(one.error_code, one.error_message)
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
            raise self.make_rejection(what, text[:_MAX_MESSAGE])

    def _alter_configs(self, what: str, resources: Sequence[ConfigResource]) -> Mapping[str, Mapping[str, str]]:
        # The library would read all configs first, and reject the throttles, which brokers do not list.
        call = methodcaller("alter_configs", resources, raise_on_unknown=False)
        return cast(Mapping[str, Mapping[str, str]], self.ask(what, call, changes=True))

    def _check_answer(self, what: str, answer: Any) -> None:
        """Raise KafkaFault if Kafka rejects a request as a whole."""
        code = getattr(answer, "error_code", 0)
        if errors.for_code(code) not in _NOTHING_TO_DO:
            raise self.make_rejection(what, _describe_rejection(code, getattr(answer, "error_message", None)))

    def make_rejection(self, what: str, text: str) -> KafkaFault:
        """Make the fault for Kafka's error: a KafkaRejection, unless the error may pass."""
        name = re.search(r"\b([A-Z]\w+?)(?:Error)?:|$", text)
        error = getattr(errors, f"{name and name[1]}Error", errors.KafkaError)
        problem = f"Kafka rejects {what}: {text}"
        if error.retriable:
            return KafkaFault(self.servers, problem, "Repeat the command")
        if issubclass(error, errors.AuthorizationError):
            remedy = "Grant the user Alter and AlterConfigs on the cluster and its topics"
            return KafkaRejection(self.servers, problem, remedy, is_denied=True)
        return KafkaRejection(self.servers, problem, "Correct what Kafka's message names")


def is_error(rejection: str, name: str) -> bool:
    """Return whether a rejection is Kafka's error of this name."""
    return rejection.partition(":")[0] == name


def _send_reassignments(targets: Mapping[TopicPartition, list[int] | None], client: KafkaAdminClient) -> Any:
    """Send a reassignment, and return the answer with Kafka's messages, which the library's call leaves out."""
    topics = client._process_alter_partition_reassignments_input(targets)
    request = AlterPartitionReassignmentsRequest(timeout_ms=client.config["request_timeout_ms"], topics=topics)
    return client._manager.run(
        client._send_request_to_controller, request, lambda answer: [errors.for_code(answer.error_code)], False
    )


def _allows(operations: Sequence[str] | None, operation: str) -> bool:
    """Return whether a user may do something; without any operation, Kafka has not said what the user may do."""
    return not operations or operation in operations


def _make_resource(kind: ConfigResourceType, name: str, changes: Mapping[str, str | None]) -> ConfigResource:
    operations = {
        key: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
        for key, value in changes.items()
    }
    return ConfigResource(kind, name, operations)


def _describe_rejection(code: int, message: str | None) -> str:
    name = _name_error(errors.for_code(code))
    return f"{name}: {' '.join(message.split())[:_MAX_MESSAGE]}" if message else name


def _name_error(error: type[BaseException]) -> str:
    return error.__name__.removesuffix("Error")
