"""Servers that do not answer, or are no broker: said as such, in a few seconds, whatever is asked of them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import errors
from kafka.future import Future
from kafka.net.selector import NetworkSelector

from pipelines.errors import SettingsError
from pipelines.live.answering_client import NoAnswerError, NoMetadataError, Patience, _Connections, find_unknown_hosts
from pipelines.live.client_properties import ClientProperties, Pem, Secret
from pipelines.live.connection_errors import explain_servers
from pipelines.live.kafka_connection import KafkaConnection, KafkaFault

_CONNECT_MS = 700
_SLACK_S = 3.0
_AT, _VERIFY = "(_ssl.c:1006)", "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"
_PLAIN = ClientProperties(connect_timeout_ms=_CONNECT_MS)
_TLS = ClientProperties("SSL", connect_timeout_ms=_CONNECT_MS)
_LOGIN = ClientProperties("SASL_SSL", "PLAIN", "ann", Secret("s3cret"), connect_timeout_ms=_CONNECT_MS)

Serve = Callable[[bytes | None], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server that answers each request with these bytes and closes; None = accepts, and never answers."""
    sockets: list[socket.socket] = []

    def start(answer: bytes | None) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        sockets.append(server)

        def run() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                sockets.append(connection)
                if answer is not None:
                    connection.recv(4096)
                    connection.sendall(answer)
                    connection.close()

        threading.Thread(target=run, daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    yield start
    for one in sockets:
        one.close()


def _fail(servers: str, properties: ClientProperties) -> str:
    begin = time.monotonic()
    with pytest.raises(KafkaFault) as caught, KafkaConnection(servers, properties) as connection:
        connection.describe_cluster()
    assert time.monotonic() - begin < _CONNECT_MS / 1000 + _SLACK_S
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("properties", [_PLAIN, _TLS, _LOGIN])
def test_servers_that_accept_and_never_answer_are_asked_at_once(serve: Serve, properties: ClientProperties) -> None:
    servers = [serve(None) for _ in range(4)]
    text = _fail(",".join(servers), properties)
    assert all(server in text for server in servers)
    assert "does not answer (no reply within 1 s)" in text


def test_full_queue_of_connections(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        assert "does not answer" in _fail(f"127.0.0.1:{server.getsockname()[1]}", _PLAIN)
        for one in waiting:
            one.close()


@pytest.mark.parametrize(
    ("answer", "properties", "problem"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", _PLAIN, "is not a port of Kafka: it answers 'HTTP'"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", _PLAIN, "is not a port of Kafka: it answers 'SSH-'"),
        (b"\x15\x03\x03\x00\x02\x02\x50", _PLAIN, "has a listener with TLS. Set security.protocol=SSL"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", _LOGIN, "has no TLS. Set security.protocol=SASL_PLAINTEXT"),
        (b"", _TLS, "ended the TLS handshake, as a listener without TLS does"),
        (b"", _PLAIN, "closed the connection, as a listener with TLS does"),
    ],
)
def test_what_answers_otherwise(serve: Serve, answer: bytes, properties: ClientProperties, problem: str) -> None:
    assert problem in _fail(serve(answer), properties)


def test_each_server_has_its_own_cause(serve: Serve) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refusing = f"127.0.0.1:{unused.getsockname()[1]}"
        text = _fail(f"{refusing},nohost.invalid:9092,{serve(b'HTTP/1.1 200 OK')}", _PLAIN)
    assert f"{refusing} cannot be reached (Connection refused)" in text
    assert "nohost.invalid:9092 cannot be reached (host nohost.invalid is not known" in text
    assert "is not a port of Kafka" in text


@pytest.mark.parametrize(
    ("error", "properties", "problem"),
    [
        (errors.SaslAuthenticationFailedError("Authentication failed"), _LOGIN, "rejects the user name"),
        (errors.UnsupportedSaslMechanismError(), _LOGIN, "does not have sasl.mechanism=PLAIN"),
        (errors.IllegalSaslStateError(), _LOGIN, "has a listener without SASL"),
        (NoMetadataError("socket disconnected"), _PLAIN, "has a listener with SASL"),
        (errors.IncompatibleBrokerVersion("no Metadata"), _PLAIN, "is the port of a controller"),
        (
            errors.KafkaConnectionError(
                f"[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required {_AT}"
            ),
            _TLS,
            "asks for a client certificate, and none is set",
        ),
        (
            errors.KafkaConnectionError(f"Handshake failed: {_VERIFY}: certificate has expired {_AT}"),
            _TLS,
            "Renew the broker's certificate",
        ),
        (
            errors.KafkaConnectionError("socket disconnected"),
            _LOGIN,
            "certificate authority, client certificate, user name and password are right",
        ),
    ],
)
def test_errors_of_the_client(error: BaseException, properties: ClientProperties, problem: str) -> None:
    assert problem in ". ".join(explain_servers({"b1:9092": error}, properties))


def test_unknown_hosts_are_found_without_the_others() -> None:
    unknown = find_unknown_hosts(["127.0.0.1", "nohost.invalid", "localhost"], 5)
    assert list(unknown) == ["nohost.invalid"]


def test_time_that_is_lost_counts_once_and_shortens_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    patience = Patience(request_s=6, connect_s=5, total_s=8)
    assert (patience.limit_s(), patience.limit_s(5)) == (6, 5)
    patience.exclude(3, "broker 3 does not answer")
    now[0] = 105.0
    for _ in range(3):  # several brokers at the same time
        patience.lose(100.0)
    assert patience.limit_s() == 3
    assert not patience.is_over
    now[0] = 109.0
    patience.lose(105.0)
    assert patience.is_over
    assert patience.limit_s() == 3
    assert patience.list_silent() == [3]
    now[0] = 200.0
    assert patience.list_silent() == []
    patience.lose(199.0)
    assert not patience.is_over


def test_broker_whose_client_is_closed_meanwhile_is_not_silent() -> None:
    """Another call closes the client that both use; the next one asks the broker again."""
    patience, net = Patience(request_s=6, connect_s=5, total_s=8), NetworkSelector()
    connections = _Connections(net, patience)
    net.close()
    with pytest.raises(RuntimeError, match="closed"):
        connections._await_answer(Future(), 1, "MetadataRequest").send(None)
    assert patience.list_silent() == []


def test_broker_whose_controller_is_silent_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers in order, so that the next request on its connection waits for the controller as well."""

    async def never(*_: object) -> bool:
        await asyncio.sleep(0)
        return False

    patience, net = Patience(request_s=6, connect_s=5, total_s=8), NetworkSelector()
    connections = _Connections(net, patience)
    net.close()
    monkeypatch.setattr(connections, "_wait", never)
    requests = ("ListPartitionReassignmentsRequest", "MetadataRequest")
    for waiting in [connections._await_answer(Future(), 1, request) for request in requests]:
        waiting.send(None)
    with pytest.raises(NoAnswerError, match="the controller"):
        waiting.send(None)
    assert patience.list_silent() == []


def test_stores_are_named_by_file_and_property(tmp_path: Path) -> None:
    missing, text, binary = tmp_path / "none.pem", tmp_path / "text.pem", tmp_path / "store.jks"
    text.write_text("hello\n")
    binary.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:s3cret", "-subj", "/CN=a"]
    subprocess.run([*command, "-keyout", "key.pem", "-out", "ca.pem"], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "both.pem").write_text((tmp_path / "key.pem").read_text() + (tmp_path / "ca.pem").read_text())
    for file, problem in (
        (missing, "cannot be used (No such file or directory)"),
        (text, "cannot be used"),
        (binary, "cannot be used"),
        (tmp_path, "cannot be"),
    ):
        with pytest.raises(SettingsError) as caught:
            ClientProperties("SSL", truststore=Pem(file)).make_ssl_context()
        assert str(caught.value).startswith(f"ssl.truststore.location={file}: {problem}")
        with pytest.raises(SettingsError) as caught:
            ClientProperties("SSL", keystore=Pem(file)).make_ssl_context()
        assert str(caught.value).startswith(f"ssl.keystore.location={file}: {problem}")
    for password in (None, Secret("wrong-s3cret")):
        with pytest.raises(SettingsError, match=r"both\.pem: cannot be used .* set ssl\.key\.password") as caught:
            ClientProperties("SSL", keystore=Pem(tmp_path / "both.pem"), key_password=password).make_ssl_context()
        assert "s3cret" not in str(caught.value)
    good = ClientProperties("SSL", keystore=Pem(tmp_path / "both.pem"), key_password=Secret("s3cret"))
    assert isinstance(good.make_ssl_context(), ssl.SSLContext)
