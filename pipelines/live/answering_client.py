"""kafka-python's client, so that a broker that does not answer costs a few seconds, and only once.

The library waits for each request as long as it may, for a TLS handshake without end, and asks a silent broker again.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka import errors
from kafka.admin import KafkaAdminClient
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import DescribeQuorumRequest

# Requests that a broker passes on to the controller (KIP-590): it may wait for that, and be well itself.
_PASSED_ON_CHANGES = frozenset(
    f"{name}Request"
    for name in ("AlterPartitionReassignments", "ElectLeaders", "IncrementalAlterConfigs", "AlterConfigs")
)
_PASSED_ON = _PASSED_ON_CHANGES | {"ListPartitionReassignmentsRequest", "DescribeQuorumRequest"}
# Requests that change something. One that is given up may have had its effect, so they get more time.
_CHANGES = _PASSED_ON_CHANGES | {"AlterReplicaLogDirsRequest"}
_CHANGE_S = 15.0
_SILENT_S = 60.0  # for so long, a silent broker is not asked again; a command that only reads takes less
_GRACE_S = 0.1  # to read what arrived while the client was busy with another answer
_LEAST_S = 3.0  # that any request waits, even once too much time is lost


class NoAnswerError(errors.KafkaError):  # type: ignore[misc]
    """A broker, or the controller behind it, does not answer. broker: None = the controller, or all brokers."""

    def __init__(self, text: str, broker: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.broker = broker


class NoServerError(errors.KafkaError):  # type: ignore[misc]
    """None of the servers is a broker that answers. causes: by host:port."""

    def __init__(self, causes: Mapping[str, BaseException]) -> None:
        super().__init__("no server answers")
        self.causes = causes


class Patience:
    """How long the brokers of a cluster are waited for, and which of them do not answer; outlives connections.

    request_s, connect_s: for a request, and for a connection. total_s: for all that do not answer.
    """

    def __init__(self, request_s: float, connect_s: float, total_s: float) -> None:
        self.connect_s = connect_s
        self._request_s = request_s
        self._total_s = total_s
        self._lost_s, self._lost_at = 0.0, 0.0
        self._silent: dict[int, tuple[float, str]] = {}  # until when, and why, by broker

    @property
    def is_over(self) -> bool:
        """Whether too much time is lost for another attempt."""
        return self._lost_s >= self._total_s

    def lose(self, begin: float) -> None:
        """Note the time since `begin` as lost. It is forgotten once the cluster has answered for as long."""
        now = time.monotonic()
        if begin - self._lost_at > self._total_s:
            self._lost_s = 0.0
        self._lost_s += now - max(begin, self._lost_at)
        self._lost_at = now

    def limit_s(self, seconds: float | None = None) -> float:
        """Return how long a request may wait. seconds: None = the usual time."""
        own = self._request_s if seconds is None else seconds
        return min(own, max(_LEAST_S, self._total_s - self._lost_s))

    def exclude(self, broker: int, problem: str) -> None:
        """Do not ask a broker again for a while."""
        self._silent[broker] = time.monotonic() + _SILENT_S, problem

    def explain(self, broker: int) -> str | None:
        """Return why a broker is not asked, None if it is."""
        until, problem = self._silent.get(broker, (0.0, ""))
        return problem if until > time.monotonic() else None

    def list_silent(self) -> list[int]:
        """List the brokers that do not answer."""
        return [broker for broker in sorted(self._silent) if self.explain(broker) is not None]

    def list_problems(self) -> list[str]:
        """List what is wrong with the brokers that do not answer."""
        return [self._silent[broker][1] for broker in self.list_silent()]


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """The connections of a client. Only brokers that answer are asked."""

    _bootstrap_future: Future | None

    def __init__(self, net: NetworkSelector, patience: Patience, **configs: Any) -> None:
        super().__init__(net, **configs)
        self._patience = patience
        self._passed_on = Counter[Any]()  # requests that wait for the controller, by node

    def least_loaded_node(self) -> int | None:
        """Return a broker that answers, preferably one that is connected and idle; None without any."""
        nodes = [broker.node_id for broker in self.cluster.brokers() if self._patience.explain(broker.node_id) is None]

        def count_waiting(node: Any) -> float:
            connection = self._conns.get(node)
            if connection is None or not connection.connected or connection.paused:
                return 1000.0 + float(self.connection_delay(node))
            return len(connection.in_flight_requests)

        return min(nodes, key=count_waiting, default=None)

    def send(self, request: Any, node_id: Any = None, request_timeout_ms: float | None = None) -> Future:
        """Send a request to a node, None = any; its future fails with NoAnswerError after the time of `patience`."""
        node = self.least_loaded_node() if node_id is None else node_id
        if node is None:
            return Future().failure(NoAnswerError("no broker answers"))
        if (problem := self._patience.explain(node)) is not None:
            return Future().failure(NoAnswerError(problem, node))
        if self.cluster.broker_metadata(node) is None:
            return self.call_soon(self._find_and_send, request, node, request_timeout_ms)
        sent = super().send(request, node, request_timeout_ms)
        return self.call_soon(self._await_answer, sent, node, type(request).__name__)

    async def _find_and_send(self, request: Any, node: Any, request_timeout_ms: float | None) -> Any:
        """Send a request to a broker that the metadata lack: it may have been down then, and be back."""
        await self.cluster.refresh_metadata()
        if self.cluster.broker_metadata(node) is None:
            raise errors.UnknownBrokerIdError(f"broker {node} is down, or does not exist")
        return await self.send(request, node, request_timeout_ms)

    async def _await_answer(self, sent: Future, node: Any, request: str) -> Any:
        limit_s = _CHANGE_S if request in _CHANGES else self._patience.limit_s()
        is_passed_on = request in _PASSED_ON
        is_behind = self._passed_on[node] > 0  # a broker answers the requests of a connection in their order
        self._passed_on[node] += is_passed_on
        is_answered = await self._wait(sent, node, limit_s)
        self._passed_on[node] -= is_passed_on
        if is_answered:
            return await sent
        if is_passed_on or is_behind:
            self._patience.lose(time.monotonic() - limit_s)
            raise NoAnswerError(f"the controller does not answer (no reply within {limit_s:.0f} s)")
        raise self._exclude(node, limit_s)

    async def _wait(self, sent: Future, node: Any, limit_s: float) -> bool:
        """Wait until a future is done; return whether it is, once nothing has arrived from the node for a time."""
        while not sent.is_done:
            begin = time.monotonic()
            connection = self._conns.get(node)
            transport = connection.transport if connection is not None and connection.connected else None
            try:
                await self.wait_for(sent, limit_s * 1000)
            except errors.KafkaTimeoutError:
                await self._net.sleep(_GRACE_S)
                if transport is None or transport.last_read < begin:
                    break
            except BaseException:
                if not sent.is_done:  # another call closes the client, which says nothing about the node
                    raise
                break  # the error is that of the future, which the caller awaits
        return bool(sent.is_done)

    def _exclude(self, node: Any, seconds: float, problem: str | None = None) -> NoAnswerError:
        text = f"does not answer ({problem or f'no reply within {seconds:.0f} s'})"
        if self.cluster.is_bootstrap(node):
            return NoAnswerError(text)
        self._patience.lose(time.monotonic() - seconds)
        broker = self.cluster.broker_metadata(node)
        text = f"broker {node}{f' ({broker.host}:{broker.port})' if broker else ''} {text}"
        self._patience.exclude(node, text)
        return NoAnswerError(text, node)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """Connect. The library drops what a broker sent before it closed a connection, as after a wrong password."""
        transport = await super()._build_transport(node, timeout_at)
        receive = transport._sock_recv

        def receive_before_end() -> tuple[bytes, BaseException | None]:
            data, error = receive()
            return data, None if data else error

        transport._sock_recv = receive_before_end
        return transport

    def bootstrap_async(self, timeout_ms: float | None = None, refresh: bool = True) -> Future:
        """Ask all servers at once, and take the first answer. Raises: NoServerError."""
        future = self._bootstrap_future
        if future is None or (refresh and future.is_done):
            future = self._bootstrap_future = self.call_soon(self._bootstrap)
        return future

    async def _bootstrap(self) -> None:
        servers = {node.node_id: f"{node.host}:{node.port}" for node in self.cluster.bootstrap_brokers()}
        causes: dict[str, BaseException] = {}
        first = Future()

        def note(place: str) -> Callable[[BaseException], None]:
            def note_error(error: BaseException) -> None:
                causes[place] = error
                if len(causes) == len(servers) and not first.is_done:
                    first.failure(NoServerError(causes))

            return note_error

        for node, place in servers.items():
            answer = self.call_soon(self._ask_server, node)
            answer.add_callback(lambda value: None if first.is_done else first.success(value))
            answer.add_errback(note(place))
        self.cluster.update_metadata(await first)
        self.cluster.start_refresh_loop()

    async def _ask_server(self, node: str) -> Any:
        """Return the metadata that a server answers with."""
        connection = await self._greet(node)
        try:
            answer = await self.send(self.cluster.metadata_request(), node)
        except errors.KafkaConnectionError as error:
            raise NoMetadataError(str(error)) from None
        finally:
            self._conns.pop(node, connection).close()
        if not answer.brokers:
            raise errors.BrokerNotAvailableError("it knows no broker")
        return answer

    async def _greet(self, node: Any) -> Any:
        """Return a connection to a node, once it has answered and knows the user."""
        limit_s = self._patience.limit_s(self._patience.connect_s)
        options = {"pop_on_close": False, "refresh_metadata_on_err": False} if self.cluster.is_bootstrap(node) else {}
        connection = self.get_connection(node, timeout_ms=2000 * limit_s, **options)  # so that it ends here first
        if not await self._wait(connection.init_future, node, limit_s):
            connection.close()
            raise self._exclude(node, limit_s)
        return await connection

    async def greet_brokers(self, unknown_hosts: Mapping[str, str]) -> None:
        """Connect to all brokers at once, so that those that do not answer are known. unknown_hosts: with the error."""
        waiting = []
        for broker in self.cluster.brokers():
            if broker.host in unknown_hosts:
                self._exclude(broker.node_id, 0, unknown_hosts[broker.host])
            elif self._patience.explain(broker.node_id) is None:
                waiting.append(self.call_soon(self._greet, broker.node_id))
        for one in waiting:
            try:
                await one
            except errors.KafkaError:
                continue  # asking it will say why


class NoMetadataError(errors.KafkaConnectionError):  # type: ignore[misc]
    """A server has said what it supports, and then closed the connection when it was asked for the cluster."""


class AnsweringClient(KafkaAdminClient):  # type: ignore[misc]
    """The library's client, with `patience` for brokers that do not answer. Raises: NoServerError if none does."""

    def __init__(self, patience: Patience, **configs: Any) -> None:
        def connect(**all_configs: Any) -> KafkaNetClient:
            net = NetworkSelector(**all_configs)
            return KafkaNetClient(net, _Connections(net, patience, **all_configs), **all_configs)

        self._patience = patience
        servers = configs["bootstrap_servers"]
        unknown = find_unknown_hosts((server.rpartition(":")[0] for server in servers), patience.connect_s)
        causes: dict[str, BaseException] = {
            one: OSError(text) for one in servers if (text := unknown.get(one.rpartition(":")[0].strip("[]")))
        }
        if len(causes) == len(servers):
            raise NoServerError(causes)
        known = [server for server in servers if server not in causes]
        try:
            super().__init__(kafka_client=connect, **(configs | {"bootstrap_servers": known}))
        except errors.KafkaError as error:
            self._closed = False
            self.close()
            raise NoServerError({**causes, **error.causes}) if isinstance(error, NoServerError) else error from None
        hosts = (broker.host for broker in self._manager.cluster.brokers())
        unknown = find_unknown_hosts(hosts, patience.limit_s(patience.connect_s))
        self._manager.run(self._manager.greet_brokers, unknown)

    def list_brokers(self) -> list[int]:
        """List the brokers that are registered and not fenced."""
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    def describe_logs(self, broker: int) -> list[dict[str, Any]]:
        """Describe the log dirs of a broker, with all logs: the library leaves out topics that are not described."""
        answers: list[dict[str, Any]] = self._manager.run(self._async_describe_log_dirs, None, [broker])
        return answers

    def describe_quorum(self) -> dict[str, Any]:
        """Describe the controller quorum: the library fails on answers before Kafka 3.8, which lack a field."""
        partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])

        async def ask() -> dict[str, Any]:
            answer = await self._manager.send(DescribeQuorumRequest(topics=[topic]))
            if answer.error_code:
                raise errors.for_code(answer.error_code)(answer.error_message or "")
            if answer.topics[0].partitions[0].error_code:  # a broker passed it on to one that leads no longer
                raise NoAnswerError("the controller does not lead the quorum")
            values: dict[str, Any] = answer.to_dict()
            return values

        quorum: dict[str, Any] = self._manager.run(ask)
        return quorum

    async def _refresh_controller_id(self, timeout_ms: float = 5000) -> int:
        """Return the controller, or another broker if that is silent: with KRaft, each passes requests on."""
        controller: int = await super()._refresh_controller_id(timeout_ms)
        if self._patience.explain(controller) is None:
            return controller
        other = self._manager.least_loaded_node()
        return controller if other is None else other


def find_unknown_hosts(hosts: Iterable[str], seconds: float) -> dict[str, str]:
    """Find hosts that have no address, with the error. The library would look them up one after the other."""
    unknown: dict[str, str] = {}

    def look_up(host: str) -> None:
        try:
            socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            unknown.pop(host, None)
        except OSError as error:
            unknown[host] = f"host {host} is not known: {error.strerror or error}"

    names = {host.strip("[]") for host in hosts}
    unknown |= {host: f"no address of host {host} within {seconds:.0f} s" for host in names}
    threads = [threading.Thread(target=look_up, args=(host,), daemon=True) for host in names]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(unknown)
