"""A connection to a running cluster. The only module that knows the client library, so that another one can replace it.

kafka-python (Apache-2.0, pure Python): the only Python client that reads log dirs, ELRs and fenced brokers, and alters
reassignments. It caches the id of the controller, so a connection is opened anew after each error.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import methodcaller
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.structs import TopicPartition

from pipelines.errors import SourceError
from pipelines.live import cluster_records as records
from pipelines.live.answering_client import AnsweringClient, NoAnswerError, NoServerError, Patience
from pipelines.live.client_properties import ClientProperties
from pipelines.live.connection_errors import describe_error, explain_servers
from udfs.wording import join_names

Key = tuple[str, int]  # topic, partition
ReplicaLogDirs = dict[tuple[str, int, int], str]  # path of the log dir by topic, partition and broker
Assignments = dict[Key, tuple[int, ...]]
TopicConfigs = dict[str, dict[str, str | None]]

# Configs of topics that decide what a failure does: read even where they have Kafka's default.
FAILURE_CONFIGS = ("min.insync.replicas", "unclean.leader.election.enable")
_PROTOCOL = "inter.broker.protocol.version"  # by default that of the version, up to Kafka 3.9
CORDONED_LOG_DIRS = "cordoned.log.dirs"  # by default none; unknown up to Kafka 4.2
# Configs of brokers that explain what a cluster does; its topics and log dirs show the rest.
_BROKER_CONFIGS = (
    *("auto.leader.rebalance.enable", "default.replication.factor", _PROTOCOL, "num.partitions"),
    *("leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.lag.time.max.ms"),
    *("replica.selector.class", "remote.log.storage.system.enable", "min.insync.replicas"),
    *("unclean.leader.election.enable", "controller.quorum.voters"),
    *(CORDONED_LOG_DIRS, "log.dirs", "log.dir"),
)
_VOTERS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
_ELR_FEATURE = "eligible.leader.replicas.version"
# Between attempts: in all longer than broker.session.timeout.ms, as brokers may name a failed one as controller.
_PAUSES_S = (0.5, 1.0, 2.0, 3.0, 4.0)
_PATIENCE_S = 8.0  # for all that does not answer, unless client.properties have a longer time for one request
_MAX_NAMED = 4  # brokers that a message names
_CHUNK = 500  # topics or partitions in a request
_DENIED = (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError)
_UNSUPPORTED = (errors.IncompatibleBrokerVersion, errors.UnsupportedVersionError)
# The library logs its settings, which contain passwords, at the level DEBUG, and each attempt to connect as a warning.
logging.getLogger("kafka").setLevel(logging.CRITICAL)

_T = TypeVar("_T")


Reassignments = dict[Key, records.OngoingReassignment]


class KafkaFault(SourceError):
    """A cluster did not answer as needed. problem: what was tried, and how it failed."""

    def __init__(
        self,
        servers: str,
        problem: str,
        remedy: str,
        *,
        is_denied: bool = False,
        acl: str | None = None,
        cause: str | None = None,
    ) -> None:
        super().__init__(servers, problem, remedy)
        self.problem = problem
        self.acl = acl  # that the user lacks, as in "Describe on the cluster"
        self.cause = cause  # why there is no answer: what does not answer
        self.is_denied = is_denied  # an ACL is missing, so that trying again is of no use


class UnsupportedCall(KafkaFault):
    """The cluster's version lacks a call."""


@dataclass
class KafkaConnection:
    """A connection to one cluster, as a context manager.

    servers: host:port, several separated by commas.
    """

    servers: str
    properties: ClientProperties
    _client: AnsweringClient | None = None
    _has_answered: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        request_s, connect_s = self.properties.request_timeout_ms / 1000, self.properties.connect_timeout_ms / 1000
        self._patience = Patience(request_s, connect_s, max(_PATIENCE_S, request_s, connect_s))

    def __enter__(self) -> Self:
        """Return the connection, which the first call opens."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def describe_cluster(self) -> records.ClusterDescription:
        """Describe the brokers, fenced ones included where the cluster shows them (Kafka 4)."""
        answer = self.ask("the brokers", _describe_cluster)
        brokers = sorted(
            records.LiveBroker(b["broker_id"], b["host"], b["port"], b.get("rack"), b.get("is_fenced"))
            for b in answer["brokers"]
        )
        operations = tuple(answer.get("authorized_operations") or ())
        unfenced = {broker.id for broker in brokers if not broker.is_fenced}
        silent = tuple(broker for broker in self._patience.list_silent() if broker in unfenced)
        return records.ClusterDescription(answer.get("cluster_id"), tuple(brokers), operations, silent)

    def describe_topics(self) -> tuple[tuple[records.LiveTopic, ...], tuple[str, ...]]:
        """Describe all topics, without ELRs; and return the names of those that the cluster did not describe."""
        answer = self.ask("the topics", methodcaller("describe_topics"))
        described = sorted(records.read_topic(topic) for topic in answer if topic["partitions"])
        return tuple(described), tuple(sorted(topic["name"] for topic in answer if not topic["partitions"]))

    def describe_features(self) -> records.Features:
        """Describe the features: of the broker that answers, and of the cluster."""
        answer = self.ask("the features", methodcaller("describe_features"))
        return {
            name: records.Feature(lowest, highest, levels.get("finalized", (0, 0))[1])
            for name, levels in sorted(answer.items())
            if "supported" in levels
            for lowest, highest in (levels["supported"],)
        }

    def describe_quorum(self) -> records.Quorum | None:
        """Describe the controller quorum; None if the cluster has none (ZooKeeper, or before Kafka 3.3)."""
        try:
            return records.read_quorum(self.ask("the controller quorum", methodcaller("describe_quorum")))
        except UnsupportedCall:
            return None

    def describe_elrs(
        self, topics: Sequence[str], features: records.Features
    ) -> dict[Key, records.LivePartition] | None:
        """Describe the partitions of topics with their ELRs; None if the cluster has none (before Kafka 4)."""
        if _ELR_FEATURE not in features or features[_ELR_FEATURE].finalized < 1:
            return None
        partitions: dict[Key, records.LivePartition] = {}
        for chunk in split_chunks(topics):
            cursor = None
            while True:
                try:
                    answer = self.ask("the ELRs", methodcaller("describe_topic_partitions", chunk, cursor=cursor))
                except UnsupportedCall:
                    return None
                for topic in answer["topics"]:
                    for one in topic["partitions"]:
                        partitions[topic["name"], one["partition_index"]] = records.read_partition(one)
                cursor = answer["next_cursor"]
                if cursor is None:
                    break
        return partitions

    def describe_topic_configs(self, topics: Sequence[str], keys: Sequence[str] | None = None) -> TopicConfigs:
        """Describe the configs of topics that are not Kafka's defaults, and the two that failures depend on.

        keys: only these, and only where a topic has a value of its own. A topic whose configs the user may not read has
        none.
        """
        configs: TopicConfigs = {}
        for chunk in split_chunks(topics):
            requested = None if keys is None else dict.fromkeys(keys)
            resources = [ConfigResource(ConfigResourceType.TOPIC, name, requested) for name in chunk]
            answer = self.ask("the topic configs", methodcaller("describe_configs", resources, config_filter="all"))
            for name, entries in answer.get("topic", {}).items():
                configs[name] = {
                    key: entry["value"]
                    for key, entry in entries.items()
                    if (keys is None and key in FAILURE_CONFIGS)
                    or (_is_own(entry) if keys is not None else _is_set(entry))
                }
        return configs

    def describe_broker(self, broker: int) -> dict[str, str]:
        """Describe the configs of a broker that matter to placement: two of them, and what is not Kafka's default."""
        entries = self._describe_broker(broker, _BROKER_CONFIGS)
        if not entries:  # the library does not say that the user may not read them
            what = f"the configs of broker {broker}"
            raise _make_denied(self.servers, what, "an empty answer", acl="DescribeConfigs on the cluster")
        by_default = (_PROTOCOL, CORDONED_LOG_DIRS)
        known = {key: entry["value"] for key, entry in entries.items() if _is_set(entry) or key in by_default}
        return {key: value for key, value in known.items() if value is not None}

    def describe_own_broker_configs(self, broker: int, keys: Sequence[str]) -> dict[str, str]:
        """Describe configs that are set for one broker dynamically, and not for all brokers or in its file."""
        return {
            key: entry["value"]
            for key, entry in self._describe_broker(broker, keys).items()
            if entry["config_source"] == "DYNAMIC_BROKER_CONFIG" and entry["value"] is not None
        }

    def _describe_broker(self, broker: int, keys: Sequence[str]) -> Mapping[str, Any]:
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker), dict.fromkeys(keys))
        what = f"the configs of broker {broker}"
        answer = self.ask(what, methodcaller("describe_configs", [resource], config_filter="all"), broker=broker)
        entries: Mapping[str, Any] = answer.get("broker", {}).get(str(broker), {})
        return entries

    def describe_log_dirs(self, broker: int) -> list[dict[str, Any]]:
        """Describe the log dirs of a broker, in the form of DescribeLogDirs. Raises: KafkaFault if it has no answer."""
        what = f"the log directories of broker {broker}"
        answers = self.ask(what, methodcaller("describe_logs", broker), broker=broker)
        dirs: list[dict[str, Any]] = next((answer["log_dirs"] for answer in answers if answer["broker"] == broker), [])
        if not dirs:
            raise _make_denied(self.servers, what, "an empty answer", acl="Describe on the cluster")
        for log_dir in dirs:
            code = log_dir.get("error_code", 0)
            log_dir["error"] = describe_error(errors.for_code(code)()) if code else None
        return dirs

    def list_reassignments(self) -> Reassignments:
        """List the ongoing reassignments."""
        answer = self.ask("the ongoing reassignments", methodcaller("list_partition_reassignments"))
        return {
            (key.topic, key.partition): records.OngoingReassignment(
                tuple(one["replicas"]), tuple(one["adding_replicas"]), tuple(one["removing_replicas"])
            )
            for key, one in answer.items()
        }

    def list_end_offsets(self, partitions: Sequence[Key]) -> dict[Key, int]:
        """List the log end offsets of partitions, which must have leaders."""
        specs = {TopicPartition(*key): OffsetSpec.LATEST for key in partitions}
        answer = self.ask("the log end offsets", methodcaller("list_partition_offsets", specs))
        return {(key.topic, key.partition): one.offset for key, one in answer.items() if one.offset >= 0}

    def list_hidden_topics(self, topics: Sequence[str]) -> list[str]:
        """List the topics that the user may not describe: a list of all topics leaves them out like deleted ones."""
        code = errors.TopicAuthorizationFailedError.errno
        chunks = split_chunks(sorted(topics))
        answers = (self.ask("the topics", methodcaller("describe_topics", chunk)) for chunk in chunks)
        return [topic["name"] for answer in answers for topic in answer if topic["error_code"] == code]

    def ask(
        self, what: str, call: Callable[[KafkaAdminClient], Any], *, changes: bool = False, broker: int | None = None
    ) -> Any:
        """Call the client; if that fails, try again with a new connection, as another broker may have to take over.

        what: the object of the call, for messages. changes: whether it changes the cluster: such a call is sent once,
        as it may have had its effect though its answer is lost. broker: the only one that can answer, None = any; calls
        of several brokers may run at once. Raises: KafkaFault, which says what failed.
        """
        pauses = () if changes else _PAUSES_S[:1] if broker is not None else _PAUSES_S
        for pause in (*pauses, None):
            begin = time.monotonic()
            try:
                client = self._get_client()
                answer = call(client)
                self._has_answered = True
                return answer
            except _UNSUPPORTED:
                raise UnsupportedCall(self.servers, f"this version of Kafka does not have {what}", "") from None
            except _DENIED as error:
                name = type(error).__name__.removesuffix("Error")
                is_topic = isinstance(error, errors.TopicAuthorizationFailedError)
                acl = None if changes else f"Describe on {'topics' if is_topic else 'the cluster'}"
                raise _make_denied(self.servers, what, name, changes, acl) from None
            except KafkaFault:
                self._patience.lose(begin)
                # A cluster that never answered has a wrong address.
                if pause is None or not self._has_answered or self._patience.is_over:
                    raise
            except (errors.KafkaError, OSError, RuntimeError) as error:  # RuntimeError: no controller was found
                self._patience.lose(begin)
                is_silent = isinstance(error, NoAnswerError) and error.broker is not None
                if broker is None and not is_silent:
                    self.close()
                if pause is None or self._patience.is_over or (is_silent and broker is not None):
                    raise self._make_fault(what, error) from None
                if is_silent:
                    continue  # another broker is asked
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _make_fault(self, what: str, error: BaseException) -> KafkaFault:
        """Return the error of a call without an answer, which names the brokers that do not answer."""
        causes = [error.text if isinstance(error, NoAnswerError) else describe_error(error)]
        if isinstance(error, NoAnswerError) and error.broker is None:
            causes[0] = causes[0].replace("the controller", f"the controller{self._name_voters()}")
        if not isinstance(error, NoAnswerError) or error.broker is None:
            causes += self._patience.list_problems()
        cause = join_names(dict.fromkeys(causes), _MAX_NAMED)
        remedy = "Restart what does not answer, or repeat the command when it does"
        return KafkaFault(self.servers, f"no answer about {what}: {cause}", remedy, cause=cause)

    def _name_voters(self) -> str:
        """Name the nodes one of which is the controller, as a broker's configs do; nothing if they are not known."""
        with suppress(errors.KafkaError, KafkaFault, OSError, RuntimeError, StopIteration):
            client = self._get_client()  # a new one: on the old connection, brokers still wait for the controller
            broker = next(iter(set(client.list_brokers()) - set(self._patience.list_silent())))
            resource = ConfigResource(ConfigResourceType.BROKER, str(broker), dict.fromkeys(_VOTERS))
            entries = client.describe_configs([resource], config_filter="all").get("broker", {})
            texts = [one["value"] for one in entries.get(str(broker), {}).values() if one["value"]]
            return f" ({'one of ' if ',' in texts[0] else ''}{texts[0]})" if texts else ""
        return ""

    def _get_client(self) -> AnsweringClient:
        with self._lock:
            if self._client is None:
                self._client = self._open()
            return self._client

    def _open(self) -> AnsweringClient:
        properties = self.properties
        try:
            return AnsweringClient(
                self._patience,
                bootstrap_servers=[server.strip() for server in self.servers.split(",")],
                client_id=properties.client_id,
                security_protocol=properties.security_protocol,
                sasl_mechanism=properties.sasl_mechanism,
                sasl_plain_username=properties.username,
                sasl_plain_password=properties.password and properties.password.value,
                ssl_context=properties.make_ssl_context() if properties.uses_tls else None,
            )
        except NoServerError as error:
            raise KafkaFault(self.servers, *explain_servers(error.causes, properties)) from None

    def close(self) -> None:
        """Close the connection; the next call opens it anew."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _make_denied(servers: str, what: str, error: str, changes: bool = False, acl: str | None = None) -> KafkaFault:
    permissions = "Alter and AlterConfigs" if changes else "Describe and DescribeConfigs"
    remedy = f"Grant the user {acl or f'{permissions} on the cluster and its topics'}"
    problem = f"the user may not {'change' if changes else 'read'} {what} ({error})"
    return KafkaFault(servers, problem, remedy, is_denied=True, acl=acl)


def _describe_cluster(client: KafkaAdminClient) -> Any:
    """Describe the cluster. The library fails on answers of Kafka 2.8 to 3.6, which lack a field that it removes."""
    try:
        return client.describe_cluster()
    except KeyError:
        metadata = client._manager.run(client._get_cluster_metadata, [])
        return metadata | {"brokers": [broker | {"broker_id": broker["node_id"]} for broker in metadata["brokers"]]}


def _is_set(entry: Mapping[str, Any]) -> bool:
    return entry["config_source"] != "DEFAULT_CONFIG" and not entry["is_sensitive"]


def _is_own(entry: Mapping[str, Any]) -> bool:
    return entry["config_source"] in ("TOPIC_CONFIG", "DYNAMIC_TOPIC_CONFIG") and not entry["is_sensitive"]


def split_chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Split what is asked for into requests."""
    for begin in range(0, len(items), _CHUNK):
        yield items[begin : begin + _CHUNK]
