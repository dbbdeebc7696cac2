"""Which servers the commands of a shell session ask, and whether these are servers of two clusters."""

import re
from typing import NamedTuple

from pipelines.ingest.formats.partition_filters import read_kcat, read_options
from pipelines.ingest.formats.shell_words import Command

BROKER, _ZOOKEEPER = "broker", "zookeeper"
_SERVER_OPTIONS = {"bootstrap-server": BROKER, "bootstrap-servers": BROKER, "zookeeper": _ZOOKEEPER}
_MAX_SERVERS = 100  # characters of servers that a message repeats
_PORT_OR_PATH = re.compile(r"(?::[0-9]++)?(?:/.*)?$", re.S)
_ADDRESS = re.compile(r"[0-9.]*+|.*:.*")
_NO_NAME = re.compile(r"[$<>{}%()]")  # a variable or a placeholder
_LETTERS = re.compile(r"[a-z]{2,}")  # single letters number servers, as digits do
# What names of one cluster's servers have, or lack.
_GENERAL = frozenset(
    {
        *("kafka", "broker", "brokers", "bootstrap", "server", "node", "host", "localhost", "local", "localdomain"),
        *("headless", "svc", "cluster", "internal", "external", "com", "net", "org", "zk", "zookeeper", "controller"),
    }
)


class Servers(NamedTuple):
    """The servers that a command asks."""

    kind: str  # BROKER or _ZOOKEEPER: servers of one kind can be compared
    text: str  # as the command has them


def find_servers(command: Command) -> Servers | None:
    """Return the servers that a command asks, or None if it does not name them."""
    if command.tool in ("kcat", "kafkacat"):
        servers = ((BROKER, value) for name, value in read_kcat(command.words) if name == "b")
    else:
        options = read_options(command.words)
        servers = ((_SERVER_OPTIONS[name], value) for name, value in options if name in _SERVER_OPTIONS)
    return next((Servers(kind, text[:_MAX_SERVERS]) for kind, text in servers if text), None)


def names_a_cluster(servers: Servers) -> bool:
    """Return whether the names of servers can tell their cluster from others."""
    names = _list_words(servers.text)
    return bool(names) and all(names)


def are_of_two_clusters(first: Servers, other: Servers) -> bool:
    """Return whether the names of servers show that these belong to two clusters.

    Names that differ only in digits, in single letters or in general words are no evidence, and no more are addresses,
    or a name that has all words of the other: `b1` and `b1.prod` are perhaps the same server.
    """
    if first.kind != other.kind or not names_a_cluster(first) or not names_a_cluster(other):
        return False
    names = [_list_words(servers.text) for servers in (first, other)]
    return not any(one <= two or two <= one for one in names[0] for two in names[1])


def _list_words(text: str) -> list[frozenset[str]]:
    """Return the words of each server's name that may tell clusters apart."""
    hosts = (_PORT_OR_PATH.sub("", server.strip().rpartition("://")[2]) for server in text.lower().split(","))
    names = ("" if _ADDRESS.fullmatch(host) else host for host in hosts)
    return [frozenset(_LETTERS.findall(name)) - _GENERAL for name in names if not _NO_NAME.search(name)]
