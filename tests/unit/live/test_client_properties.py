"""client.properties: Java's keys and escapes, variables, and what is rejected, without any secret in a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import SettingsError
from pipelines.live.client_properties import ClientProperties, read_client_properties, translate_properties

_PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="se\\"cret";'
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required username='ann' password='s3;cret';"


def _translate(**values: str) -> ClientProperties:
    return translate_properties({key.replace("_", "."): value for key, value in values.items()}, {"PW": "from-env"})


def test_nothing_is_plaintext() -> None:
    assert _translate() == ClientProperties()


@pytest.mark.parametrize(
    ("mechanism", "jaas", "password"),
    [("PLAIN", _PLAIN, 'se"cret'), ("SCRAM-SHA-512", _SCRAM, "s3;cret"), ("SCRAM-SHA-256", _SCRAM, "s3;cret")],
)
def test_login_is_read(mechanism: str, jaas: str, password: str) -> None:
    found = _translate(security_protocol="sasl_ssl", sasl_mechanism=mechanism, sasl_jaas_config=jaas)
    assert (found.security_protocol, found.sasl_mechanism, found.username) == ("SASL_SSL", mechanism, "ann")
    assert found.password is not None
    assert found.password.value == password
    assert password not in repr(found)
    assert password not in str(found.password)


def test_variables_of_the_environment_are_filled_in() -> None:
    jaas = _PLAIN.replace('se\\"cret', "${env:PW}")
    found = _translate(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas)
    assert found.password is not None
    assert found.password.value == "from-env"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"sasl.jaas.confg": "x"}, "Did you mean sasl.jaas.config?"),
        ({"ssl.truststore.location": "/t.jks"}, "ssl.truststore.type=JKS of /t.jks is not supported, only PEM"),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/k.p12"}, "only PEM"),
        ({"ssl.truststore.password": "geheim"}, "has no password"),
        ({"security.protocol": "SASL"}, "SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism= is not supported. Use PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": _SCRAM}, "does not fit"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "does not fit"),
        ({"request.timeout.ms": "30s"}, "not a number of milliseconds"),
        ({"client.id": "${env:MISSING}"}, "export MISSING="),
        ({"client.id": "${file:/etc/secret:geheim}"}, "Use ${env:NAME}"),
        ({"sasl.kerberos.service.name": "kafka"}, "Kerberos and Java classes are not supported"),
    ],
)
def test_what_is_wrong_is_named_with_a_remedy(values: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        translate_properties(values, {})
    assert problem in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("geheim", "cret", "s3;"))


def test_file_has_javas_escapes_and_continued_lines(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# comment\nsecurity.protocol : SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nclient.id=a\\u0041\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '    username="ann" \\\n    password="p";\n'
    )
    found = read_client_properties(file)
    assert (found.client_id, found.username) == ("aA", "ann")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--command-config .*none\.properties: cannot be read"):
        read_client_properties(tmp_path / "none.properties")
