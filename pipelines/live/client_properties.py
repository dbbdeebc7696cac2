"""The client.properties of Kafka's own tools: how to reach a cluster, and as whom.

The keys are those of Kafka's Java clients (Kafka documentation, "Admin Configs"). A value may name a variable of the
environment: `${env:NAME}`, as Kafka's EnvVarConfigProvider (KIP-887) does.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import javaproperties

from pipelines.config.setting_types import VARIABLE, fill_variables, read_settings_file
from pipelines.errors import SettingsError

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_KEYS = (
    *("security.protocol", "sasl.mechanism", "sasl.jaas.config", "client.id", "request.timeout.ms"),
    *("socket.connection.setup.timeout.ms", "ssl.endpoint.identification.algorithm", "ssl.key.password"),
    *("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates"),
    *("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key"),
)
# Keys that do not change how to connect: read and not used.
_UNUSED = frozenset(
    (
        *("bootstrap.servers", "retries", "retry.backoff.ms", "retry.backoff.max.ms", "default.api.timeout.ms"),
        *("reconnect.backoff.ms", "reconnect.backoff.max.ms", "connections.max.idle.ms", "metadata.max.age.ms"),
        *("send.buffer.bytes", "receive.buffer.bytes", "client.dns.lookup", "security.providers"),
        *("config.providers", "config.providers.env.class", "ssl.protocol", "ssl.enabled.protocols"),
    )
)
_REMEDIES = {
    "ssl.truststore.password": "A PEM truststore has no password: export the certificates as PEM "
    "(keytool -exportcert -rfc), and set ssl.truststore.type=PEM",
    "ssl.keystore.password": "A PEM keystore has no password: export key and certificates as PEM (openssl pkcs12 "
    "-in FILE -out client.pem), and set ssl.keystore.type=PEM; ssl.key.password is the password of the key",
    **dict.fromkeys(
        ("sasl.kerberos.service.name", "sasl.login.callback.handler.class", "sasl.client.callback.handler.class"),
        "Kerberos and Java classes are not supported: use SCRAM, PLAIN or a client certificate",
    ),
}
_OTHER_PROVIDER = re.compile(r"\$\{[a-z]+:[^}]*\}")
_MODULE = re.compile(
    r"\s*org\.apache\.kafka\.common\.security\.(plain\.Plain|scram\.Scram)LoginModule\s+required\s+(.*)", re.S
)
_OPTION = re.compile(r"""\s*([A-Za-z]\w*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")


@dataclass(frozen=True)
class Secret:
    """A text that never appears in messages, logs or the text of an object that has it."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        """Return asterisks."""
        return "***"


@dataclass(frozen=True)
class Pem:
    """Certificates or a key, as a file or as text."""

    location: Path | None = None
    text: Secret | None = None


@dataclass(frozen=True)
class ClientProperties:
    """How to connect to a cluster."""

    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    username: str | None = None
    password: Secret | None = None
    client_id: str = "kafka-placement"
    request_timeout_ms: int = 6_000
    connect_timeout_ms: int = 5_000  # until a broker has answered, and knows the user
    checks_host_name: bool = True
    truststore: Pem | None = None  # None = the system's
    keystore: Pem | None = None  # certificate chain and key of the client
    keystore_key: Secret | None = None  # the key, where the keystore is a text without it
    key_password: Secret | None = None

    @property
    def uses_tls(self) -> bool:
        """Return whether connections are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    def make_ssl_context(self) -> ssl.SSLContext:
        """Make the TLS settings of connections. Raise SettingsError for a file that cannot be used."""
        key, store = "ssl.truststore", self.truststore
        try:
            data = store.text.value if store and store.text else None
            context = ssl.create_default_context(cafile=store.location if store else None, cadata=data)
            context.check_hostname = self.checks_host_name
            key, store = "ssl.keystore", self.keystore
            if store:
                _load_client_certificate(context, store, self.keystore_key, self.key_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise SettingsError(_explain_store(key, store, error)) from None
        return context


def _explain_store(key: str, store: Pem | None, error: Exception) -> str:
    """Return what is wrong with a truststore or keystore, named by its file, and what to do."""
    place = f"{key}.location={store.location}" if store and store.location else f"{key}: its text"
    problem = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    content = "certificates" if key == "ssl.truststore" else "the client's certificate and its key"
    password = "; set ssl.key.password if the key is encrypted" if key == "ssl.keystore" else ""
    return f"{place}: cannot be used ({problem}). It must be a file in PEM format with {content}{password}"


def _load_client_certificate(
    context: ssl.SSLContext, keystore: Pem, key: Secret | None, password: Secret | None
) -> None:
    secret = password.value if password else ""  # without one, OpenSSL would ask on the terminal
    if keystore.location:
        context.load_cert_chain(keystore.location, password=secret)
        return
    # OpenSSL only reads files: this one is readable by its owner alone, and gone at once.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write("\n".join(part.value for part in (keystore.text, key) if part))
        file.flush()
        context.load_cert_chain(file.name, password=secret)


def read_client_properties(file: Path) -> ClientProperties:
    """Read client.properties. Raises: SettingsError, which names file and key, but no value that may be secret."""
    text = read_settings_file(file, "--command-config", encoding="latin-1")
    try:
        values = javaproperties.loads(text)
    except ValueError:  # an invalid \u escape: its text may be part of a secret
        problem = "is not a file of Java properties. Write KEY=VALUE lines"
        raise SettingsError(f"--command-config {file}: {problem}") from None
    try:
        return translate_properties(values, os.environ)
    except SettingsError as error:
        raise SettingsError(f"--command-config {file}: {error}") from None


def translate_properties(values: Mapping[str, str], environment: Mapping[str, str]) -> ClientProperties:
    """Translate Java's keys; raise SettingsError for one that is wrong, unknown or not supported."""
    for key, text in values.items():
        if other := _OTHER_PROVIDER.search(VARIABLE.sub("", text)):
            raise SettingsError(f"{key}: {other[0].partition(':')[0]}:...}} is not supported. Use ${{env:NAME}}")
    values = {key: fill_variables(text, key, environment) for key, text in values.items()}
    for key in values:
        _check_key(key)
    for store in ("truststore", "keystore"):
        _check_store_type(store, values)
    protocol = values.get("security.protocol", "PLAINTEXT").strip().upper()
    _check_choice("security.protocol", protocol, _PROTOCOLS)
    mechanism: str | None = None
    login: tuple[str | None, Secret | None] = (None, None)
    if protocol.startswith("SASL_"):
        mechanism = values.get("sasl.mechanism", "").strip().upper()
        _check_choice("sasl.mechanism", mechanism, _MECHANISMS)
        login = _read_login(values.get("sasl.jaas.config", ""), mechanism)
    algorithm = values.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    _check_choice("ssl.endpoint.identification.algorithm", algorithm, ("https", ""))
    return ClientProperties(
        protocol,
        mechanism,
        login[0],
        login[1],
        values.get("client.id", ClientProperties.client_id).strip() or ClientProperties.client_id,
        _read_milliseconds(values, "request.timeout.ms", ClientProperties.request_timeout_ms),
        _read_milliseconds(values, "socket.connection.setup.timeout.ms", ClientProperties.connect_timeout_ms),
        algorithm == "https",
        _read_pem(values, "ssl.truststore.location", "ssl.truststore.certificates"),
        _read_pem(values, "ssl.keystore.location", "ssl.keystore.certificate.chain"),
        _read_secret(values, "ssl.keystore.key"),
        _read_secret(values, "ssl.key.password"),
    )


def _check_key(key: str) -> None:
    if key in _KEYS or key in _UNUSED:
        return
    if key in _REMEDIES:
        raise SettingsError(f"{key} is not supported. {_REMEDIES[key]}")
    near = get_close_matches(key, _KEYS, 1, 0.8)
    hint = f"Did you mean {near[0]}?" if near else f"Remove it; supported keys: {', '.join(_KEYS)}"
    raise SettingsError(f"{key} is not supported. {hint}")


def _check_store_type(store: str, values: Mapping[str, str]) -> None:
    """Check that a store is PEM, which must be said: Kafka's default is JKS."""
    names = [key for key in values if key.startswith(f"ssl.{store}.") and key != f"ssl.{store}.type"]
    kind = values.get(f"ssl.{store}.type", "JKS").strip().upper()
    if names and kind != "PEM":
        remedy = _REMEDIES[f"ssl.{store}.password"].partition(": ")[2]
        location = values.get(f"ssl.{store}.location", "its text")
        raise SettingsError(f"ssl.{store}.type={kind} of {location} is not supported, only PEM: {remedy}")


def _check_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        names = ", ".join(choice or "an empty value" for choice in choices)
        raise SettingsError(f"{key}={value} is not supported. Use {names}")


def _read_login(jaas: str, mechanism: str) -> tuple[str, Secret]:
    """Read user name and password from sasl.jaas.config, which no message repeats."""
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    form = f'org.apache.kafka.common.security.{module}LoginModule required username="NAME" password="PASSWORD";'
    match = _MODULE.fullmatch(jaas)
    if not match or match[1] != module:
        raise SettingsError(f"sasl.jaas.config does not fit sasl.mechanism={mechanism}. Write {form}")
    options, at = {}, 0
    while option := _OPTION.match(match[2], at):
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = option.end()
    if match[2][at:].strip() != ";" or not options.get("username") or "password" not in options:
        raise SettingsError(f"sasl.jaas.config cannot be read, or lacks username or password. Write {form}")
    return options["username"], Secret(options["password"])


def _read_milliseconds(values: Mapping[str, str], key: str, default: int) -> int:
    text = values.get(key, str(default)).strip()
    if not text.isdecimal() or int(text) < 1:
        raise SettingsError(f"{key}={text} is not a number of milliseconds. Write it as in {key}=30000")
    return int(text)


def _read_pem(values: Mapping[str, str], location: str, text: str) -> Pem | None:
    if location in values and text in values:
        raise SettingsError(f"{location} and {text} are both set. Set one of them")
    if values.get(location, "").strip():
        return Pem(Path(values[location].strip()))
    secret = _read_secret(values, text)
    return Pem(text=secret) if secret else None


def _read_secret(values: Mapping[str, str], key: str) -> Secret | None:
    return Secret(values[key]) if values.get(key, "").strip() else None
