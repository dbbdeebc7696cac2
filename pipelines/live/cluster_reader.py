"""Reads a running cluster as a whole: until two reads agree, and with the name of everything that did not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pipelines.ingest.formats.live_requests import ONGOING, list_states, print_requests
from pipelines.live import tool_output
from pipelines.live.cluster_records import ClusterDescription, Features, LivePartition, LiveTopic, Quorum
from pipelines.live.kafka_connection import (
    FAILURE_CONFIGS,
    KafkaConnection,
    KafkaFault,
    Key,
    Reassignments,
    TopicConfigs,
    UnsupportedCall,
    split_chunks,
)
from pipelines.live.pauses import growing_pauses
from udfs.wording import count_of, is_or_are, it_or_them, join_names

_READS = 8  # until two in a row agree
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


class ClusterLayout(NamedTuple):
    """What must agree between two reads: leaders and ISRs may change at any time, replicas and brokers seldom do."""

    state: ClusterDescription
    topics: tuple[LiveTopic, ...]
    unreadable_topics: tuple[str, ...]  # that exist, but were not described
    reassignments: Reassignments | None  # None = not known
    fault: KafkaFault | None = None  # why reassignments are not known: an ACL is missing, or the controller is silent

    @property
    def shape(self) -> tuple[Any, ...]:
        """Return brokers, partitions and replicas."""
        assignments = {(topic.name, one.partition): one.replicas for topic in self.topics for one in topic.partitions}
        return (self.state, assignments, self.unreadable_topics, self.reassignments)


def read_layout(connection: KafkaConnection, pause: Callable[[float], None]) -> ClusterLayout:
    """Read brokers, topics and reassignments until two reads in a row agree: brokers may lag behind each other.

    pause: waits for so many seconds. Raises: KafkaFault if the cluster does not answer, or changes all the time.
    """
    before = _read_once(connection, None)
    for _, pause_s in zip(range(_READS - 1), growing_pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), strict=False):
        pause(pause_s)
        now = _read_once(connection, before.fault)
        if now.shape == before.shape:
            return now
        before = now
    problem = f"brokers, partitions or replicas differed between {_READS} reads"
    raise KafkaFault(connection.servers, problem, "Wait until the changes that are under way have settled")


def _read_once(connection: KafkaConnection, fault: KafkaFault | None) -> ClusterLayout:
    """Read all once. fault: why reassignments are not known, so that they are not asked for again."""
    reassignments: Reassignments | None = None
    if fault is None:  # Reassignments first: metadata is stale right after one ends.
        try:
            reassignments = connection.list_reassignments()
        except KafkaFault as error:
            if not error.is_denied and error.cause is None:
                raise
            fault = error
    state = connection.describe_cluster()
    topics, unreadable = connection.describe_topics()
    return ClusterLayout(state, topics, unreadable, reassignments, fault)


_MAX_NAMED = 5  # topics that a sentence names
_AND = " and "
_ADMIN = "ALTER"  # what a user may do on a cluster who sees all of its topics
_PARALLEL = 16  # brokers that are asked at once
_T = TypeVar("_T")


@dataclass(frozen=True)
class ClusterReading:
    """What was read of a cluster."""

    servers: str  # that were asked
    state: ClusterDescription
    topics: tuple[LiveTopic, ...]
    configs: TopicConfigs
    broker_configs: dict[int, dict[str, str]]
    elrs: dict[Key, LivePartition] | None  # None = this version of Kafka has none
    reassignments: Reassignments
    log_dirs: dict[int, list[dict[str, Any]]]  # by broker
    features: Features
    quorum: Quorum | None  # None = it has none, or is not known
    offsets: dict[Key, int]  # log end offsets, if requested
    problems: tuple[str, ...]  # sentences on what could not be read
    states: tuple[str, ...] = ()  # lines on the cluster (live_requests)

    def write_files(self, folder: Path, *, is_saved: bool = False) -> list[Path]:
        """Write the files of a source, as Kafka's tools print them. is_saved: False = named by their requests."""
        unread = self.states or self.problems
        texts = {
            tool_output.BROKERS: tool_output.print_brokers(self.state),
            tool_output.TOPICS: tool_output.print_topics(self.topics, self.configs, self.elrs, self.reassignments),
            tool_output.BROKER_CONFIGS: tool_output.print_broker_configs(self.broker_configs),
            tool_output.FEATURES: tool_output.print_features(self.features),
            tool_output.QUORUM: tool_output.print_quorum(self.quorum) if self.quorum else (),
            tool_output.LOG_DIRS: tool_output.print_log_dirs(self.log_dirs) if self.log_dirs else (),
            tool_output.OFFSETS: tool_output.print_offsets(self.offsets),
            tool_output.NOT_READ: print_requests(self.servers, self.states, self.problems) if unread else (),
        }
        folder.mkdir(parents=True, exist_ok=True)
        files = {folder / (name if is_saved else tool_output.REQUESTS[name]): [*lines] for name, lines in texts.items()}
        for file, lines in files.items():
            if lines:
                file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return sorted(file for file, lines in files.items() if lines)


def read_cluster(
    connection: KafkaConnection, *, offsets: bool = False, pause: Callable[[float], None] = time.sleep
) -> ClusterReading:
    """Read a cluster. What does not answer is named in `problems`; only brokers and topics are indispensable.

    offsets: also read log end offsets. Raises: KafkaFault if the cluster does not answer, or changes all the time.
    """
    layout = read_layout(connection, pause)
    problems = _Problems()
    quorum, fault = None, layout.fault
    if fault is not None:
        problems.note(fault, ONGOING)
    else:  # a controller without a majority lists reassignments, but does not describe the quorum
        try:
            quorum = connection.describe_quorum()
        except KafkaFault as error:
            fault = error
    if fault is not None:
        problems.note(fault, "voters")  # the controller answers about both, with the same ACL
    has_controller = fault.is_denied if fault is not None else quorum is None or quorum.voters.spare >= 0
    if layout.unreadable_topics:
        problems.add(f"partitions of {_name_topics(layout.unreadable_topics)} were not described")
    shows_none = not layout.topics and not layout.unreadable_topics
    is_empty = shows_none and _ADMIN in layout.state.operations
    if shows_none and not is_empty:
        problems.add("no topic is shown: there is none, or the user needs the ACL Describe on topics")
    names = [topic.name for topic in layout.topics]
    configs: TopicConfigs = problems.catch("configs of topics", lambda: connection.describe_topic_configs(names), {})
    if configs and (missing := [one for one in names if not configs.get(one, {}).keys() & set(FAILURE_CONFIGS)]):
        problems.add(
            f"configs of {_name_topics(missing)} are not known: the user needs the ACL DescribeConfigs on them"
        )
    features: Features = problems.catch("features", connection.describe_features, {})
    elrs = problems.catch("ELRs", partial(connection.describe_elrs, names, features), None)
    brokers = [broker.id for broker in layout.state.brokers if not broker.is_fenced]
    log_dirs = _read_brokers(problems, "log dirs", connection.describe_log_dirs, brokers)
    broker_configs = _read_brokers(problems, "configs", connection.describe_broker, brokers)
    logs = {topic["name"] for dirs in log_dirs.values() for one in dirs for topic in one["topics"]}
    undescribed = sorted(logs - set(names) - set(layout.unreadable_topics))  # hidden, or deleted in the meantime
    hidden: list[str] = problems.catch("other topics", lambda: connection.list_hidden_topics(undescribed), [])
    if hidden:
        verb, pronoun = is_or_are(len(hidden)), it_or_them(len(hidden))
        problems.add(f"{_name_topics(hidden)} {verb} hidden: the user needs the ACL Describe on {pronoun}")
    end_offsets: dict[Key, int] = {}
    if offsets:
        leaders = [
            (topic.name, one.partition) for topic in layout.topics for one in topic.partitions if one.leader >= 0
        ]
        for chunk in split_chunks(leaders):
            read = partial(connection.list_end_offsets, chunk)
            listed: dict[Key, int] = problems.catch("log end offsets", read, {})
            end_offsets |= listed
    silent = None if has_controller else sorted(problems.silent)
    return ClusterReading(
        connection.servers,
        layout.state,
        layout.topics,
        configs,
        broker_configs,
        elrs,
        layout.reassignments or {},
        log_dirs,
        features,
        quorum,
        end_offsets,
        tuple(problems.list_sentences()),
        tuple(list_states(is_empty=is_empty, knows_reassignments=layout.reassignments is not None, silent=silent)),
    )


@dataclass
class _Problems:
    """Why parts of a cluster are not known; one sentence for all that has one cause."""

    _unknown: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # things by cause, and by what has them
    _sentences: list[str] = field(default_factory=list)
    silent: set[int] = field(default_factory=set)  # brokers

    def add(self, sentence: str) -> None:
        """Add a sentence, without its full stop."""
        self._sentences.append(sentence)

    def note(self, fault: KafkaFault, things: str, owner: str = "") -> None:
        """Note why things are not known. owner: what has them, as in ` of broker 3`."""
        cause = fault.cause or (f"the user needs the ACL {fault.acl}" if fault.acl else fault.problem)
        noted = self._unknown.setdefault(cause, {}).setdefault(owner, [])
        if things not in noted:
            noted.append(things)

    def catch(self, things: str, read: Callable[[], _T], default: _T) -> _T:
        """Return what a call reads, or the default."""
        try:
            return read()
        except UnsupportedCall:
            raise
        except KafkaFault as fault:
            self.note(fault, things)
            return default

    def list_sentences(self) -> list[str]:
        """List the sentences."""
        causes = (f"{cause}, so {_name_things(things)} are not known" for cause, things in self._unknown.items())
        return [*causes, *self._sentences]


def _name_things(things: Mapping[str, Sequence[str]]) -> str:
    """Name what is not known, as in `voters, topics and log dirs of broker 3`. things: by what has them."""
    names = [name for owner, own in things.items() for name in ([f"{_AND.join(own)}{owner}"] if owner else own)]
    return _AND.join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def _read_brokers(problems: _Problems, things: str, read: Callable[[int], _T], brokers: Sequence[int]) -> dict[int, _T]:
    """Read something of each broker, of many at once; note the brokers that do not answer."""
    faults: dict[int, KafkaFault] = {}

    def try_one(broker: int) -> _T | None:
        try:
            return read(broker)
        except KafkaFault as fault:
            faults[broker] = fault
            return None

    with ThreadPoolExecutor(_PARALLEL) as pool:
        answers = list(pool.map(try_one, brokers))
    problems.silent |= {broker for broker, fault in faults.items() if not fault.is_denied}
    for broker, fault in sorted(faults.items()):
        owner = "all brokers" if len(faults) == len(brokers) > 1 else f"broker {broker}"
        problems.note(fault, things, f" of {owner}")
    return {broker: one for broker, one in zip(brokers, answers, strict=True) if one}


def _name_topics(names: Iterable[str]) -> str:
    named = sorted(names)
    return f"{count_of(len(named), 'topic')} ({join_names(named, _MAX_NAMED)})"
