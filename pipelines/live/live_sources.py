"""A running cluster as a source: `kafka://host:9092,host2:9092` or `NAME=kafka://...`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import Source, select_option
from pipelines.live.client_properties import ClientProperties, read_client_properties
from pipelines.live.cluster_reader import ClusterReading, read_cluster
from pipelines.live.kafka_connection import KafkaConnection
from pipelines.warehouse_urls import redact_urls

_LIVE = re.compile(r"(?:(?P<name>[^=]*)=)?kafka://(?P<servers>.*)", re.S)
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


class LiveAddress(NamedTuple):
    """Where a cluster is, and what it is called; name: None = by its cluster id."""

    name: str | None
    servers: str  # host:port, several separated by commas


def parse_address(argument: str) -> LiveAddress:
    """Parse [NAME=]kafka://HOST:PORT. Raises: SourceError for another text."""
    match = _LIVE.fullmatch(argument)
    servers = [server.strip() for server in match["servers"].rstrip("/").split(",")] if match else []
    if match is None or not all(map(_SERVER.fullmatch, servers)):
        problem = "is not the address of a running cluster"
        raise SourceError(redact_urls(argument), problem, "Write it as in kafka://b1:9092,b2:9092")
    if match["name"] is not None and not match["name"].strip():
        raise SourceError(argument, "the cluster's name before '=' is empty", "Write NAME=kafka://host:port")
    return LiveAddress(match["name"], ",".join(servers))


def select_properties(name: str | None, texts: Sequence[str]) -> ClientProperties:
    """Read the file of client properties for a cluster. texts: values of --command-config, FILE or NAME=FILE.

    Raises: SettingsError if two are for this cluster, or if the file is wrong.
    """
    values = []
    for text in texts:
        prefix, separator, file = text.partition("=")
        is_named = separator and not os.path.exists(text)  # noqa: PTH110  (Path.exists takes no long text)
        values.append((prefix, file) if is_named else (None, text))
    chosen = select_option("--command-config", values, name)
    return read_client_properties(Path(chosen)) if chosen is not None else ClientProperties()


def read_snapshot(
    connection: KafkaConnection, name: str | None = None, pause: Callable[[float], None] = time.sleep
) -> tuple[Snapshot, ClusterReading]:
    """Read a cluster as commands read its files. name: of the cluster, None = its id. Raises: KafkaFault."""
    reading = read_cluster(connection, pause=pause)
    with TemporaryDirectory() as folder:
        files = tuple(reading.write_files(Path(folder)))
        return load_snapshot(Source(name or _name_cluster(reading, connection.servers), files)), reading


def _name_cluster(reading: ClusterReading, servers: str) -> str:
    return reading.state.cluster_id or servers.partition(":")[0]


def fetch_source(
    address: LiveAddress, properties: ClientProperties, folder: Path, *, offsets: bool = False, is_saved: bool = False
) -> tuple[Source, ClusterReading]:
    """Read a cluster, write what was read to a folder, and return it as a source.

    is_saved: whether the user keeps the files. Raises: KafkaFault if the cluster does not answer; SettingsError for
    certificates that cannot be used.
    """
    with KafkaConnection(address.servers, properties) as connection:
        reading = read_cluster(connection, offsets=offsets)
    name = address.name or _name_cluster(reading, address.servers)
    prefix = f"{address.name}=" if address.name else ""
    files = tuple(reading.write_files(folder, is_saved=is_saved))
    return Source(name, files, address=f"{prefix}kafka://{address.servers}"), reading
