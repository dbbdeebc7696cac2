"""Why a connection to a broker failed, as far as a client can know it; and what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from kafka import errors

from pipelines.live.answering_client import NoAnswerError, NoMetadataError
from pipelines.live.client_properties import ClientProperties
from udfs.wording import join_names

_CHECK_ALL = (
    "Check that this is the port of a broker and not of a controller, that its listener has this security.protocol, "
    "and that certificate authority, client certificate, user name and password are right (--command-config FILE)"
)
_CHECK_PORT = "Name the port of a broker's listener"
_ERRNO = re.compile(r"([0-9]+) E[A-Z]+$")
_FRAME = re.compile(r"Invalid frame length: (-?[0-9]+)")
_VERIFY = re.compile(r"certificate verify failed: (.*?)\.? \(_ssl")
_ALERT = re.compile(r"\[SSL: \w*?ALERT_\w+\] (?:sslv3 |tlsv1 |tlsv13 )*(.*?) \(_ssl")
_MAX_NAMED = 5  # servers


_Explanation = tuple[str, str]  # what is wrong with a server, as a predicate, and what to do


def explain_servers(causes: Mapping[str, BaseException], properties: ClientProperties) -> tuple[str, str]:
    """Return problem and remedy where no server answers. causes: by host:port."""
    servers: dict[_Explanation, list[str]] = {}
    for server, cause in causes.items():
        servers.setdefault(_explain(cause, properties), []).append(server)
    user = f", user {properties.username}" if properties.username else ""
    problems = "; ".join(f"{join_names(names, _MAX_NAMED)} {problem}" for (problem, _), names in servers.items())
    remedy = ". ".join(dict.fromkeys(remedy for _, remedy in servers))
    return f"no connection (security.protocol={properties.security_protocol}{user}): {problems}", remedy


def _explain(error: BaseException, properties: ClientProperties) -> _Explanation:
    text = str(error)
    if isinstance(error, NoAnswerError):
        return (error.text, "Restart it if it hangs, or name other brokers too, as in b1:9092,b2:9092")
    if isinstance(error, errors.IncompatibleBrokerVersion):
        return ("is the port of a controller: it does not describe the cluster", _CHECK_PORT)
    if isinstance(error, errors.BrokerNotAvailableError):
        return ("answers, but knows no live broker", "Start the brokers")
    if (login := _explain_login(error, properties)) is not None:
        return login
    if frame := _FRAME.search(text):
        return _explain_frame(int(frame[1]), properties)
    if properties.uses_tls and (tls := _explain_tls(text, properties)) is not None:
        return tls
    if code := _ERRNO.search(text):
        return (f"cannot be reached ({os.strerror(int(code[1]))})", "Check that a broker listens there")
    if not isinstance(error, errors.KafkaError):
        return (f"cannot be reached ({text})", "Check the address")
    hint = ", as a listener with TLS does" if not properties.uses_tls else ""
    return (f"closed the connection{hint} ({_strip_names(text)})", _CHECK_ALL)


def _explain_login(error: BaseException, properties: ClientProperties) -> _Explanation | None:
    tls = "SSL" if properties.uses_tls else "PLAINTEXT"
    if isinstance(error, errors.SaslAuthenticationFailedError):
        remedy = "Correct username or password in sasl.jaas.config, or sasl.mechanism (--command-config FILE)"
        return (f"rejects the user name or the password (sasl.mechanism={properties.sasl_mechanism})", remedy)
    if isinstance(error, errors.UnsupportedSaslMechanismError):
        remedy = "Set a mechanism of this listener (its sasl.enabled.mechanisms)"
        return (f"does not have sasl.mechanism={properties.sasl_mechanism}", remedy)
    if isinstance(error, errors.IllegalSaslStateError):
        remedy = f"Set security.protocol={tls}, or name the port of a listener with SASL"
        return ("has a listener without SASL: it takes no user name and password", remedy)
    if isinstance(error, NoMetadataError) and properties.sasl_mechanism is None:
        remedy = f"Set security.protocol=SASL_{tls}, sasl.mechanism and sasl.jaas.config (--command-config FILE)"
        return ("has a listener with SASL: it needs a user name and a password", remedy)
    return None


def _explain_frame(length: int, properties: ClientProperties) -> _Explanation:
    """Explain what is no answer of Kafka by its first four bytes, which the client takes for a length."""
    begin = (length & 0xFFFFFFFF).to_bytes(4, "big")
    if begin.startswith(b"\x15\x03"):  # an alert of TLS
        protocol = properties.security_protocol.replace("PLAINTEXT", "SSL")
        return ("has a listener with TLS", f"Set security.protocol={protocol} (--command-config FILE)")
    text = f": it answers {begin.decode()!r}..." if begin.isascii() and begin.decode().isprintable() else ""
    return (f"is not a port of Kafka{text}", _CHECK_PORT)


def _explain_tls(text: str, properties: ClientProperties) -> _Explanation | None:
    if verified := _VERIFY.search(text):
        if "mismatch" in verified[1]:
            remedy = "Name the broker as its certificate does, or set ssl.endpoint.identification.algorithm= (empty)"
            return (f"has a certificate of another host ({verified[1]})", remedy)
        store = properties.truststore
        place = f" in ssl.truststore.location={store.location}" if store and store.location else ""
        known = place or (" in ssl.truststore.certificates" if store else " on this machine")
        remedy = "Name the PEM file of the authority that signed the broker's certificate in ssl.truststore.location"
        if "expired" in verified[1] or "not yet valid" in verified[1]:
            remedy = "Renew the broker's certificate"
        return (f"has a certificate that no authority{known} confirms ({verified[1]})", remedy)
    if alert := _ALERT.search(text):
        if properties.keystore is None:
            remedy = "Name a PEM file with the client's certificate and key in ssl.keystore.location"
            return (f"asks for a client certificate, and none is set ({alert[1]})", remedy)
        remedy = "Name a certificate in ssl.keystore.location that an authority of the broker has signed"
        return (f"rejects the client certificate or the TLS version ({alert[1]})", remedy)
    if "Handshake failed" in text:
        protocol = properties.security_protocol.replace("SSL", "PLAINTEXT")
        remedy = f"Set security.protocol={protocol}, or name the port of a listener with TLS"
        is_sure = "WRONG_VERSION_NUMBER" in text
        problem = "has no TLS" if is_sure else "ended the TLS handshake, as a listener without TLS does"
        return (problem, remedy)
    return None


def _strip_names(text: str) -> str:
    """Return the text of an error without the names of its classes."""
    return re.sub(r"^(?:\[Error -?[0-9]+\] )?(?:\w+Error: ?)*", "", text)[:200] or text[:200]


def describe_error(error: BaseException) -> str:
    """Describe an error of the client in a few words, without what was sent."""
    text = str(error).partition("\n")[0]
    if isinstance(error, errors.NodeNotReadyError):  # its text is the id of the node
        return "no connection"
    if isinstance(error, errors.KafkaConnectionError):
        code = _ERRNO.search(text)
        return f"no connection ({os.strerror(int(code[1])) if code else _strip_names(text)})"
    name = type(error).__name__.removesuffix("Error")
    return f"{name}: {text[:200]}" if text and "Request" not in text else name
