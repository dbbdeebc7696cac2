"""Connections with TLS and passwords, and users who may not do everything: clear errors, and no secret anywhere."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern, ResourceType

from pipelines.execution.cluster_view import view_cluster
from pipelines.execution.journal import JOURNAL
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from tests.commands import call
from tests.live.kafka_cluster import KafkaCluster, find_free_ports

pytestmark = [pytest.mark.slow, pytest.mark.live]

_PASSWORDS = {"ann": "s3cret-ann", "bob": "s3cret-bob"}
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
    """A broker with TLS, passwords and ACLs. ann may do everything; bob may describe t, not `hidden`."""
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
    }
    running = KafkaCluster(folder / "cluster", brokers=2, settings=settings, secure=True)
    try:
        running.start()
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
    assert "user name and password are right" in text
    assert "wrong-s3cret" not in text


def test_tls_mismatch(secure: KafkaCluster, tmp_path: Path) -> None:
    plain = tmp_path / "plain.properties"
    plain.write_text(_TIMEOUTS)
    text = _fail(secure.secure_bootstrap, "--command-config", str(plain))
    assert "security.protocol=PLAINTEXT" in text
    assert "its listener has this security.protocol" in text


def test_unknown_certificate_authority(secure: KafkaCluster, tmp_path: Path) -> None:
    _make_certificates(tmp_path)
    properties = _write_properties(tmp_path, secure, "bob")
    own = secure.folder.parent / "ca.pem"
    properties.write_text(properties.read_text().replace(str(own), str(tmp_path / "ca.pem")))
    assert "certificate" in _fail(secure.secure_bootstrap, "--command-config", str(properties))


def test_certificate_of_another_host(secure: KafkaCluster, tmp_path: Path) -> None:
    properties = _write_properties(tmp_path, secure, "bob")
    servers = secure.secure_bootstrap.replace("127.0.0.1", "localhost")
    assert "certificate" in _fail(servers, "--command-config", str(properties))


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
    for mode in ("--verify", "--rollback", "--cancel", "--execute"):
        text = call(*arguments, mode, code=1).stderr
        assert "may not describe topics of the plan, which look deleted: hidden" in text
