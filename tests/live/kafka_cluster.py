"""Starts real Kafka clusters: each node in a JVM of its own, so that tests can kill it; all end with this process.

The jars are those of jars.toml. A cluster has a random id and free ports: a node that is left from an earlier cluster
would otherwise be adopted by this one.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import InvalidReplicationAssignmentError

from pipelines.setup.jars import JarFolder, parse_jars
from pipelines.setup.java import check_java
from tests.commands import Output

JARS = Path(__file__).with_name("jars.toml")
DEFAULT_VERSION = "kafka_4_1"
_FEW_BROKERS = 5  # up to these, an archive of classes takes longer than it saves
_JARS_FOLDER = Path(sys.prefix, "share", "kafka-placement", "kafka-jars")
_REMEDY = "Run `make test` with a connection to Maven Central"

_JAVA_OPTIONS = (
    "-Xms64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
    "-Djava.net.preferIPv4Stack=true",
)
CONTROLLER_ID = 100  # the first one; brokers have lower ids
_START_SECONDS = 90
_STARTED = re.compile(r"Kafka Server started|KafkaServer id=\d+\] started")
# Small, as each node has a log dir of its own in the folder of a test.
# Listeners of a secure cluster, with their protocols.
_SECURE = {"SECURE": "SASL_SSL", "MUTUAL": "SSL", "LOGIN": "SASL_PLAINTEXT"}
_PROTOCOLS = dict.fromkeys(("CONTROLLER", "PLAINTEXT", "CLIENT"), "PLAINTEXT") | _SECURE
_COMMON = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "num.partitions": "1",
    "num.io.threads": "2",
    "num.network.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.enable": "false",
    "log.segment.bytes": str(16 << 20),
    "segment.index.bytes": "65536",
    "log.index.size.max.bytes": "65536",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "true",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "4000",
    # On two busy cores, a broker may miss several heartbeats.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "500",
    "queued.max.requests": "100",
    # Small fetches: a throttle only holds back the next one.
    "replica.fetch.max.bytes": "65536",
    "replica.fetch.response.max.bytes": "131072",
}


@cache
def find_class_path(version: str) -> str:
    """Return the jars of a list of jars.toml, as in kafka_4_1, fetched if they are not there."""
    entries = [
        {"module": module, "sha256": hash_} for module, hash_ in tomllib.loads(JARS.read_text())[version].items()
    ]
    jars = JarFolder(parse_jars(entries), _JARS_FOLDER, "tests/live/jars.toml", _REMEDY)
    _JARS_FOLDER.mkdir(parents=True, exist_ok=True)
    with (_JARS_FOLDER / ".lock").open("w") as lock:  # several test processes may need them
        fcntl.flock(lock, fcntl.LOCK_EX)
        return os.pathsep.join(map(str, jars.fetch_missing()))


@cache
def find_class_archive(version: str) -> Path:
    """Return an archive of the classes that a broker loads, which halves its start; a broker makes it as it stops."""
    archive = _JARS_FOLDER / f"{version}.jsa"
    find_class_path(version)
    with (_JARS_FOLDER / ".lock").open("w") as lock, TemporaryDirectory() as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            part = Path(folder, "classes.jsa")
            recorded = KafkaCluster(Path(folder, "cluster"), version, brokers=1, racks=0)
            recorded.start((f"-XX:ArchiveClassesAtExit={part}",))
            recorded.nodes[1].stop()
            recorded.stop()
            shutil.move(part, archive)
    return archive


def find_free_ports(count: int) -> list[int]:
    """Find ports of 127.0.0.1 that nothing listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_until(is_done: Callable[[], bool], problem: str, seconds: float = 60) -> None:
    """Wait until something is done; fail with the problem if it takes too long."""
    end = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < end, problem
        time.sleep(0.3)


def read_values(bootstrap: str, topic: str, begin: Mapping[tuple[str, int], int]) -> set[bytes]:
    """Read the values of a topic from these offsets to its end."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap.split(","))
    partitions = [TopicPartition(*key) for key in begin if key[0] == topic]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, begin[partition.topic, partition.partition])
    ends = consumer.end_offsets(partitions)
    values = set[bytes]()
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        for records in consumer.poll(timeout_ms=1000).values():
            values |= {record.value for record in records}
    consumer.close()
    return values


def make_kafka_uuid() -> str:
    """Return a random id as Kafka writes them: 22 characters of base64."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue
    return text


def _end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    ctypes.CDLL("libc.so.6").prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@dataclass
class Node:
    """A broker or a controller."""

    id: int
    port: int
    folder: Path
    rack: str | None = None
    secure_ports: Mapping[str, int] = field(default_factory=dict)  # by listener
    heap_mb: int = 256
    controller_port: int = 0  # of a voter of the quorum; 0 = it is none
    process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        """What it has printed."""
        return (self.folder / "out.log").read_text(errors="replace")

    def start(
        self, class_path: str, options: Sequence[str] = (), main: Sequence[str] = ("kafka.Kafka", "server.properties")
    ) -> None:
        """Start it; wait_for_brokers says when it is ready. options: of Java. main: the class, and its settings."""
        with (self.folder / "out.log").open("ab") as out:
            logging = (
                f"-Dlog4j2.configurationFile={self.folder / 'log4j2.yaml'}",
                "-Dzookeeper.admin.enableServer=false",
            )
            java = (check_java().executable, f"-Xmx{self.heap_mb}m", *_JAVA_OPTIONS, *options)
            self.process = subprocess.Popen(
                [*java, *logging, "-cp", class_path, *main],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=_end_with_parent,
                cwd=self.folder,
            )

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Shut it down in an orderly way."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)


@dataclass
class KafkaCluster:
    """A KRaft cluster of controllers and brokers 1 to n, in racks r1, r2, ... in turn."""

    folder: Path
    version: str = DEFAULT_VERSION
    brokers: int = 3
    racks: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)
    heap_mb: int = 256  # of each node
    log_dirs: int = 1  # of each broker
    controllers: int = 1
    combined: bool = False  # whether brokers 1, 2, ... are the controllers
    dynamic: bool = False  # whether the metadata log has the voters (KIP-853), and not the settings
    secure: bool = False  # whether brokers also have the listeners of _SECURE; `settings` say how
    cluster_id: str = field(default_factory=make_kafka_uuid)
    nodes: dict[int, Node] = field(default_factory=dict)
    options: Sequence[str] = ()  # of Java
    empty_answers: Sequence[Output] = ()  # of commands before there were topics
    own_options: Callable[[int], Sequence[str]] = lambda _: ()  # of one node's Java, by its id
    client_ports: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # of CLIENT: listens, advertised, by id

    @property
    def bootstrap(self) -> str:
        """host:port of all brokers."""
        return ",".join(f"127.0.0.1:{node.port}" for id_, node in self.nodes.items() if id_ < CONTROLLER_ID)

    @property
    def secure_bootstrap(self) -> str:
        """host:port of the first broker, with SASL_SSL."""
        return self.get_address("SECURE")

    def get_address(self, listener: str) -> str:
        """host:port of a secure listener of the first broker."""
        return f"127.0.0.1:{self.nodes[1].secure_ports[listener]}"

    def start(self, options: Sequence[str] | None = None) -> KafkaCluster:
        """Start all nodes, and wait until all brokers have registered. options: of Java, instead of the usual ones."""
        self.options = self._list_options() if options is None else options
        ports = find_free_ports(self.brokers + self.controllers)
        first = 1 if self.combined else CONTROLLER_ID
        voters = dict(zip(range(first, first + self.controllers), ports, strict=False))
        controllers = ",".join(f"{id_}@127.0.0.1:{port}" for id_, port in voters.items())
        brokers = dict(zip(range(1, self.brokers + 1), ports[self.controllers :], strict=True))
        for id_, port in (voters | brokers).items():
            rack = None if id_ not in brokers or not self.racks else f"r{(id_ - 1) % self.racks + 1}"
            names = list(_SECURE) if self.secure and id_ in brokers else []
            secure_ports = dict(zip(names, find_free_ports(len(names)), strict=True))
            node = Node(id_, port, self.folder / str(id_), rack, secure_ports, self.heap_mb, voters.get(id_, 0))
            self._write_files(node, controllers)
            self.nodes[id_] = node
        for id_ in voters:
            self._format_controller(id_, voters)
        for node in self.nodes.values():
            node.start(find_class_path(self.version), (*self.options, *self.own_options(node.id)))
        self.wait_for_brokers(list(brokers))
        return self

    def _list_options(self) -> tuple[str, ...]:
        """Return Java's options that make the version start fast, if it is started often enough."""
        is_often = self.version == DEFAULT_VERSION or self.brokers > _FEW_BROKERS
        return (f"-XX:SharedArchiveFile={find_class_archive(self.version)}",) if is_often else ()

    def restart(self, id_: int) -> None:
        """Start a broker that was killed, and wait until it is ready."""
        node = self.nodes[id_]
        (node.folder / "out.log").write_text("")
        node.start(find_class_path(self.version), (*self.options, *self.own_options(id_)))
        self.wait_for_brokers([id_])

    def stop(self) -> None:
        """Kill all nodes, and delete their files."""
        for node in self.nodes.values():
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_for_brokers(self, ids: Sequence[int], seconds: float = _START_SECONDS) -> None:
        """Wait until these brokers accept connections and say that they have started."""
        end = time.monotonic() + seconds
        waiting = list(ids)
        while waiting:
            node = self.nodes[waiting[0]]
            if _STARTED.search(node.log):
                waiting.pop(0)
            elif not node.is_running or time.monotonic() > end:
                raise RuntimeError(f"broker {node.id} has not started:\n{node.log[-3000:]}")
            else:
                time.sleep(0.1)

    def wait_until_settled(self, partitions: int, seconds: float = 60) -> None:
        """Wait until each live broker shows so many partitions, all with a leader and all replicas in sync."""
        end = time.monotonic() + seconds
        waiting = [node for node in self.nodes.values() if node.id < CONTROLLER_ID and node.is_running]
        while waiting:
            admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{waiting[0].port}")
            topics = admin.describe_topics()
            admin.close()
            found = [one for topic in topics for one in topic["partitions"]]
            healthy = [p for p in found if p["leader_id"] >= 0 and len(p["isr_nodes"]) == len(p["replica_nodes"])]
            if len(healthy) == partitions == len(found):
                waiting.pop(0)
            elif time.monotonic() > end:
                raise RuntimeError(f"{len(healthy)} of {partitions} partitions have settled")
            else:
                time.sleep(0.3)

    def create_topics(self, topics: Mapping[str, tuple[Mapping[int, Sequence[int]], Mapping[str, str]]]) -> None:
        """Create topics: {name: ({partition: replicas}, configs)}."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))
        requests = {
            name: {"assignments": {id_: list(ids) for id_, ids in assignments.items()}, "configs": dict(configs)}
            for name, (assignments, configs) in topics.items()
        }
        admin.create_topics(requests, timeout_ms=30_000)
        admin.close()

    def produce(self, records: Mapping[tuple[str, int], int], size_bytes: int = 10_000) -> None:
        """Write so many records to each partition."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap.split(","), acks="all", linger_ms=20)
        for (topic, partition), count in records.items():
            for _ in range(count):
                producer.send(topic, bytes(size_bytes), partition=partition)
        producer.flush()
        producer.close()

    def list_topics(self) -> list[str]:
        """List the topics, without those of Kafka itself."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))
        names = [name for name in admin.list_topics() if not name.startswith("__")]
        admin.close()
        return names

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete topics."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))
        admin.delete_topics(list(topics))
        admin.close()

    def add_partition(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Add the next partition to a topic; wait if it is being moved, as its replicas are more than usual then."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))

        def is_added() -> bool:
            try:
                admin.create_partitions({topic: {"count": partition + 1, "assignments": [list(replicas)]}})
            except InvalidReplicationAssignmentError:
                return False
            return True

        wait_until(is_added, f"topic {topic} does not grow")
        admin.close()

    def _write_files(self, node: Node, controllers: str) -> None:
        node.folder.mkdir(parents=True)
        is_broker = node.id < CONTROLLER_ID
        ports = {**({"PLAINTEXT": node.port} if is_broker else {}), **node.secure_ports}
        listeners = advertised = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        if node.id in self.client_ports:  # what clients connect to may be closed while brokers reach each other
            listens, advertised_port = self.client_ports[node.id]
            listeners += f",CLIENT://127.0.0.1:{listens}"
            advertised += f",CLIENT://127.0.0.1:{advertised_port}"
        roles = ["broker"] if is_broker else []
        if node.controller_port:
            listeners = f"{listeners},CONTROLLER://127.0.0.1:{node.controller_port}".removeprefix(",")
            roles.append("controller")
        values = {
            **_COMMON,
            **self.settings,
            "node.id": str(node.id),
            "process.roles": ",".join(roles),
            **self._name_controllers(controllers),
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in _PROTOCOLS.items()),
            "log.dirs": ",".join(map(str, self._list_log_dirs(node))),
            **({"broker.rack": node.rack} if node.rack else {}),
            **({"advertised.listeners": advertised} if is_broker else {}),
        }
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        (node.folder / "server.properties").write_text(text)
        (node.folder / "log4j2.yaml").write_text(
            "Configuration:\n  Appenders:\n    Console:\n      name: out\n"
            "      PatternLayout:\n        pattern: '%m%n'\n"
            "  Loggers:\n    Root:\n      level: INFO\n      AppenderRef:\n        - ref: out\n"
        )
        for data in self._list_log_dirs(node):
            data.mkdir()
            (data / "meta.properties").write_text(
                f"version=1\ncluster.id={self.cluster_id}\nnode.id={node.id}\ndirectory.id={make_kafka_uuid()}\n"
            )

    def _list_log_dirs(self, node: Node) -> list[Path]:
        count = self.log_dirs if node.id < CONTROLLER_ID else 1
        return [node.folder / "data", *(node.folder / f"data-{number}" for number in range(2, count + 1))]

    def _name_controllers(self, controllers: str) -> dict[str, str]:
        """Return the setting that names the controllers."""
        if not self.dynamic:
            return {"controller.quorum.voters": controllers}
        servers = ",".join(one.partition("@")[2] for one in controllers.split(","))
        return {"controller.quorum.bootstrap.servers": servers}

    def _format_controller(self, id_: int, ports: Mapping[int, int]) -> None:
        """Write the features of a new cluster, as kafka-storage format does. ports: of all controllers, by id."""
        folder = self.nodes[id_].folder
        (folder / "data" / "meta.properties").unlink()
        ids = {one: base64.urlsafe_b64encode(one.to_bytes(16)).decode().rstrip("=") for one in ports}
        voters = ",".join(f"{one}@127.0.0.1:{port}:{ids[one]}" for one, port in ports.items())
        done = subprocess.run(
            [
                *(
                    check_java().executable,
                    *_JAVA_OPTIONS,
                    "-cp",
                    find_class_path(self.version),
                    "kafka.tools.StorageTool",
                    "format",
                ),
                *("--config", str(folder / "server.properties"), "--cluster-id", self.cluster_id),
                *(("--initial-controllers", voters) if self.dynamic else ()),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"KAFKA_OPTS": ""},
        )
        if done.returncode:
            raise RuntimeError(f"the controller cannot be formatted: {done.stdout}{done.stderr}")


class ZooKeeperCluster(KafkaCluster):
    """A cluster of Kafka 2.8 with ZooKeeper, which is its node 100."""

    def start(self, options: Sequence[str] | None = None) -> KafkaCluster:
        """Start all nodes, and wait until all brokers have started. options: of Java."""
        self.options = options or ()
        ports = find_free_ports(self.brokers + 1)
        zookeeper = Node(CONTROLLER_ID, ports[0], self.folder / str(CONTROLLER_ID))
        zookeeper.folder.mkdir(parents=True)
        lines = (
            f"dataDir={zookeeper.folder}",
            f"clientPort={zookeeper.port}",
            "clientPortAddress=127.0.0.1",
            "tickTime=500",
        )
        (zookeeper.folder / "zoo.cfg").write_text("".join(f"{line}\n" for line in lines))
        self.nodes[CONTROLLER_ID] = zookeeper
        zookeeper.start(
            find_class_path(self.version), main=("org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg")
        )
        for id_, port in zip(range(1, self.brokers + 1), ports[1:], strict=True):
            rack = f"r{(id_ - 1) % self.racks + 1}" if self.racks else None
            node = self.nodes[id_] = Node(id_, port, self.folder / str(id_), rack)
            node.folder.mkdir()
            values = {
                **_COMMON,
                **self.settings,
                "broker.id": str(id_),
                "zookeeper.connect": f"127.0.0.1:{zookeeper.port}",
                "zookeeper.session.timeout.ms": "4000",
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "log.dirs": str(node.folder / "data"),
                **({"broker.rack": rack} if rack else {}),
            }
            (node.folder / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            node.start(find_class_path(self.version))
        self.wait_for_brokers(range(1, self.brokers + 1))
        return self
