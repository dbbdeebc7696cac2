"""Clear errors, and no secret anywhere: TLS and passwords, users who may not do everything, and brokers that hang."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern, ResourceType

from pipelines.execution.cluster_view import view_cluster
from pipelines.execution.journal import JOURNAL
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from tests.commands import Output, call
from tests.live.kafka_cluster import CONTROLLER_ID, KafkaCluster, find_free_ports

pytestmark = [pytest.mark.slow, pytest.mark.live]

_PASSWORDS = {"ann": "s3cret-ann", "bob": "s3cret-bob", "eve": "s3cret-eve"}
_MOST_S = 20  # that a command takes beside a broker that hangs
_READ = (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS)
_TIMEOUTS = "socket.connection.setup.timeout.ms=3000\n"


def _make_certificates(folder: Path) -> None:
    """Make a certificate for 127.0.0.1 that signs itself: server.pem has its key too, ca.pem has not."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    extra = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "ca.pem"]
    subprocess.run([*command, *extra], cwd=folder, check=True, capture_output=True)
    (folder / "server.pem").write_text((folder / "key.pem").read_text() + (folder / "ca.pem").read_text())


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Two brokers with TLS, passwords and ACLs. ann may do everything; bob may describe t, not `hidden`; eve nothing.

    A broker that hangs is not fenced.
    """
    folder = tmp_path_factory.mktemp("secure")
    _make_certificates(folder)
    users = " ".join(f'user_{name}="{password}"' for name, password in _PASSWORDS.items())
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    settings = {
        "listener.name.secure.ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": str(folder / "server.pem"),
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": login,
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": login,
        "listener.name.mutual.ssl.keystore.type": "PEM",
        "listener.name.mutual.ssl.keystore.location": str(folder / "server.pem"),
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:ann",
        "broker.session.timeout.ms": "600000",
    }
    running = KafkaCluster(folder / "cluster", brokers=2, settings=settings, secure=True)
    try:
        running.start()
        running.empty_answers = [call(name, f"prod=kafka://{running.bootstrap}") for name in ("what-if", "inspect")]
        hidden = ({0: [1, 2], 1: [1, 2]}, {})
        running.create_topics({"t": ({0: [1, 2], 1: [1, 2], 2: [1, 2], 3: [2, 1]}, {}), "hidden": hidden})
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap.split(","))
        places = (ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"), ResourcePattern(ResourceType.TOPIC, "t"))
        admin.create_acls([ACL("User:bob", "*", what, ACLPermissionType.ALLOW, at) for at in places for what in _READ])
        admin.close()
        running.wait_until_settled(6)
        yield running
    finally:
        running.stop()


def _write_properties(folder: Path, cluster: KafkaCluster, user: str, password: str | None = None) -> Path:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file = folder / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={cluster.folder.parent / 'ca.pem'}\n{_TIMEOUTS}"
        f'sasl.jaas.config={module} required username="{user}" password="{password or _PASSWORDS[user]}";\n'
    )
    return file


def _check_no_secret(text: str) -> None:
    assert not any(password in text for password in _PASSWORDS.values())


def test_user_with_password_over_tls(secure: KafkaCluster, tmp_path: Path) -> None:
    properties = _write_properties(tmp_path, secure, "bob")
    out = call("what-if", f"kafka://{secure.secure_bootstrap}", "--command-config", str(properties))
    assert "4 partitions" in out.stdout
    _check_no_secret(out.stdout + out.stderr)


def _fail(servers: str, *options: str) -> str:
    out = call("what-if", f"kafka://{servers}", *options, code=1)
    assert out.stdout == ""
    assert len(out.stderr.strip().splitlines()) == 1
    _check_no_secret(out.stderr)
    return out.stderr


def test_wrong_password(secure: KafkaCluster, tmp_path: Path) -> None:
    properties = _write_properties(tmp_path, secure, "bob", "wrong-s3cret")
    text = _fail(secure.secure_bootstrap, "--command-config", str(properties))
    assert "security.protocol=SASL_SSL, user bob" in text
    assert "rejects the user name or the password (sasl.mechanism=PLAIN)" in text
    assert "wrong-s3cret" not in text


def test_tls_mismatch(secure: KafkaCluster, tmp_path: Path) -> None:
    plain = tmp_path / "plain.properties"
    plain.write_text(_TIMEOUTS)
    text = _fail(secure.secure_bootstrap, "--command-config", str(plain))
    assert "has a listener with TLS. Set security.protocol=SSL" in text


def test_unknown_certificate_authority(secure: KafkaCluster, tmp_path: Path) -> None:
    _make_certificates(tmp_path)
    properties = _write_properties(tmp_path, secure, "bob")
    own = secure.folder.parent / "ca.pem"
    properties.write_text(properties.read_text().replace(str(own), str(tmp_path / "ca.pem")))
    text = _fail(secure.secure_bootstrap, "--command-config", str(properties))
    assert f"no authority in ssl.truststore.location={tmp_path / 'ca.pem'} confirms" in text


def test_certificate_of_another_host(secure: KafkaCluster, tmp_path: Path) -> None:
    properties = _write_properties(tmp_path, secure, "bob")
    servers = secure.secure_bootstrap.replace("127.0.0.1", "localhost")
    text = _fail(servers, "--command-config", str(properties))
    assert "has a certificate of another host (Hostname mismatch" in text


def test_unreachable_host(tmp_path: Path) -> None:
    plain = tmp_path / "plain.properties"
    plain.write_text(_TIMEOUTS)
    text = _fail(f"127.0.0.1:{find_free_ports(1)[0]}", "--command-config", str(plain))
    assert "Connection refused" in text


def test_user_who_may_not_alter(secure: KafkaCluster, tmp_path: Path) -> None:
    properties = str(_write_properties(tmp_path, secure, "bob"))
    source = f"prod=kafka://{secure.secure_bootstrap}"
    call("plan", source, "--command-config", properties, "--goal", "leaders", "--out", str(tmp_path / "plan"))
    arguments = ("apply", str(tmp_path / "plan"), "--bootstrap-server", secure.secure_bootstrap)
    out = call(*arguments, "--command-config", properties, "--execute", code=1)
    assert "lacks permissions: Alter on the cluster, AlterConfigs on the cluster, AlterConfigs on topic t" in out.stderr
    assert not (tmp_path / "plan" / JOURNAL).exists()
    with KafkaAdmin(secure.bootstrap, ClientProperties()) as admin:
        assert view_cluster(admin).partitions["t", 0].replicas == (1, 2)
        assert admin.list_reassignments() == {}


def test_topic_that_the_user_may_not_describe_is_not_taken_as_deleted(secure: KafkaCluster, tmp_path: Path) -> None:
    plan, properties = str(tmp_path / "plan"), str(_write_properties(tmp_path, secure, "bob"))
    call("plan", f"prod=kafka://{secure.bootstrap}", "--goal", "leaders", "--ignore-topics", "t", "--out", plan)
    arguments = ("apply", plan, "--bootstrap-server", secure.secure_bootstrap, "--command-config", properties)
    for mode in (("--verify",), ("--rollback", "--execute"), ("--cancel",), ("--execute",)):
        text = call(*arguments, *mode, code=1).stderr
        assert "may not describe topics of the plan, which look deleted: hidden" in text


def _write_plain(folder: Path, protocol: str, *lines: str) -> str:
    file = folder / "plain.properties"
    file.write_text("\n".join((f"security.protocol={protocol}", *lines)) + "\n")
    return str(file)


def _login(user: str) -> tuple[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="{user}" password="{_PASSWORDS[user]}";'
    return "sasl.mechanism=PLAIN", f"sasl.jaas.config={jaas}"


def test_client_certificate(secure: KafkaCluster, tmp_path: Path) -> None:
    folder, servers = secure.folder.parent, secure.get_address("MUTUAL")
    trust = ("ssl.truststore.type=PEM", f"ssl.truststore.location={folder / 'ca.pem'}", "ssl.keystore.type=PEM")
    text = _fail(servers, "--command-config", _write_plain(tmp_path, "SSL", *trust))
    assert "asks for a client certificate, and none is set" in text
    _make_certificates(tmp_path)
    for file, problem in ((tmp_path / "server.pem", "rejects the client certificate"), (tmp_path / "no.pem", "")):
        properties = _write_plain(tmp_path, "SSL", *trust, f"ssl.keystore.location={file}")
        assert (problem or f"ssl.keystore.location={file}: cannot be used") in _fail(
            servers, "--command-config", properties
        )
    properties = _write_plain(tmp_path, "SSL", *trust, f"ssl.keystore.location={folder / 'server.pem'}")
    assert "brokers: 2 live" in call("inspect", f"kafka://{servers}", "--command-config", properties).stdout


def test_listeners_with_and_without_login(secure: KafkaCluster, tmp_path: Path) -> None:
    login = secure.get_address("LOGIN")
    text = _fail(login)
    assert "has a listener with SASL: it needs a user name and a password" in text
    properties = _write_plain(tmp_path, "SASL_PLAINTEXT", *_login("ann"))
    plain = secure.bootstrap.partition(",")[0]
    assert "has a listener without SASL" in _fail(plain, "--command-config", properties)
    trust = ("ssl.truststore.type=PEM", f"ssl.truststore.location={secure.folder.parent / 'ca.pem'}")
    text = _fail(plain, "--command-config", _write_plain(tmp_path, "SSL", *trust))
    assert "ended the TLS handshake, as a listener without TLS does. Set security.protocol=PLAINTEXT" in text


def test_port_of_a_controller(secure: KafkaCluster) -> None:
    text = _fail(f"127.0.0.1:{secure.nodes[CONTROLLER_ID].port}")
    assert "is the port of a controller: it does not describe the cluster. Name the port of a broker's listener" in text


def test_empty_cluster_is_said_as_such(secure: KafkaCluster) -> None:
    what_if, inspected = secure.empty_answers
    assert "0 topics, 0 partitions" in what_if.stderr
    assert "The cluster has 0 topics." in what_if.stdout
    assert "topics: 0, partitions: 0" in inspected.stdout
    for out in secure.empty_answers:
        assert not any(word in out.stdout + out.stderr for word in ("warning", "empty", "--describe", ".txt"))


def test_missing_acls_are_named(secure: KafkaCluster, tmp_path: Path) -> None:
    source = ("what-if", f"prod=kafka://{secure.secure_bootstrap}", "--command-config")
    text = call(*source, str(_write_properties(tmp_path, secure, "bob"))).stdout
    assert "running cluster: 1 topic (hidden) is hidden: the user needs the ACL Describe on it." in text
    out = call(*source, str(_write_properties(tmp_path, secure, "eve")), code=1)
    assert "no topic is shown: there is none, or the user needs the ACL Describe on topics" in out.stderr
    problem = (
        "the user needs the ACL Describe on the cluster, so ongoing reassignments, voters and log dirs of all brokers"
    )
    assert problem in out.stderr
    assert (
        "the user needs the ACL DescribeConfigs on the cluster, so configs of all brokers are not known" in out.stderr
    )
    assert ".txt" not in text + out.stderr


@contextmanager
def _hang(cluster: KafkaCluster, *ids: int) -> Iterator[None]:
    """Stop processes, which keep their connections; and check how long what is done meanwhile takes."""
    processes = [process for id_ in ids if (process := cluster.nodes[id_].process) is not None]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        begin = time.monotonic()
        yield
        assert time.monotonic() - begin < _MOST_S
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


def _check_answer(out: Output, problem: str) -> None:
    assert problem in json.dumps(json.loads(out.stdout)["verdict"])
    assert ".txt" not in out.stdout + out.stderr
    assert "warning" not in out.stderr


@pytest.mark.parametrize("server", [1, 2])
def test_broker_that_hangs(secure: KafkaCluster, server: int) -> None:
    port = secure.nodes[2].port
    with _hang(secure, 2):
        if server == 2:
            out = call("what-if", f"prod=kafka://127.0.0.1:{port}", code=1)
            assert f"127.0.0.1:{port} does not answer (no reply within 5 s). Restart it if it hangs" in out.stderr
            return
        out = call("what-if", f"prod=kafka://{secure.bootstrap}", "--json", "-")
    problem = f"broker 2 (127.0.0.1:{port}) does not answer (no reply within 5 s)"
    _check_answer(out, f"running cluster: {problem}, so log dirs and configs of broker 2 are not known.")


def test_broker_that_hangs_behind_tls(secure: KafkaCluster, tmp_path: Path) -> None:
    properties = str(_write_properties(tmp_path, secure, "ann"))
    with _hang(secure, 1):
        text = call("what-if", f"kafka://{secure.secure_bootstrap}", "--command-config", properties, code=1).stderr
    assert f"{secure.secure_bootstrap} does not answer (no reply within 3 s)" in text


def test_controller_that_hangs(secure: KafkaCluster) -> None:
    with _hang(secure, CONTROLLER_ID):
        out = call("what-if", f"prod=kafka://{secure.bootstrap}", "--json", "-")
    controller = f"the controller ({CONTROLLER_ID}@127.0.0.1:{secure.nodes[CONTROLLER_ID].port}) does not answer"
    _check_answer(out, controller)
    assert "so ongoing reassignments and voters are not known" in out.stdout
    assert "log dirs" not in json.dumps(json.loads(out.stdout)["verdict"])


def test_plan_is_not_applied_beside_what_hangs(secure: KafkaCluster, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    call("plan", f"prod=kafka://{secure.bootstrap}", "--goal", "leaders", "--out", str(plan))
    silent = "broker 2 does not answer, though the cluster lists it as live"
    for id_, problem in ((2, silent), (CONTROLLER_ID, f"the controller ({CONTROLLER_ID}@")):
        with _hang(secure, id_):
            out = call("apply", str(plan), "--bootstrap-server", secure.bootstrap, "--execute", code=1)
        assert problem in out.stderr
        assert not (plan / JOURNAL).exists()
