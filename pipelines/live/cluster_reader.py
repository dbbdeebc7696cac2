"""Reads a running cluster as a whole: until two reads agree, and with the name of everything that did not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pipelines.live import tool_output
from pipelines.live.cluster_layout import read_layout
from pipelines.live.kafka_connection import (
    FAILURE_CONFIGS,
    ClusterDescription,
    KafkaConnection,
    KafkaFault,
    Key,
    LivePartition,
    LiveTopic,
    Reassignments,
    TopicConfigs,
    UnsupportedCall,
    split_chunks,
)
from udfs.plurals import count_of, join_names

_MAX_NAMED = 5  # topics that a sentence names
_T = TypeVar("_T")


@dataclass(frozen=True)
class ClusterReading:
    """What was read of a cluster."""

    state: ClusterDescription
    topics: tuple[LiveTopic, ...]
    configs: TopicConfigs
    broker_configs: dict[int, dict[str, str]]
    elrs: dict[Key, LivePartition] | None  # None = this version of Kafka has none
    reassignments: Reassignments
    log_dirs: dict[int, list[dict[str, Any]]]  # by broker
    offsets: dict[Key, int]  # log end offsets, if requested
    problems: tuple[str, ...]  # sentences on what could not be read

    def write_files(self, folder: Path) -> list[Path]:
        """Write the files of a source, as Kafka's tools print them."""
        texts = {
            tool_output.TOPICS: tool_output.print_topics(self.topics, self.configs, self.elrs, self.reassignments),
            tool_output.BROKERS: tool_output.print_brokers(self.state),
        }
        if self.broker_configs:
            texts[tool_output.BROKER_CONFIGS] = tool_output.print_broker_configs(self.broker_configs)
        if self.log_dirs:
            texts[tool_output.LOG_DIRS] = tool_output.print_log_dirs(self.log_dirs)
        if self.offsets:
            texts[tool_output.OFFSETS] = tool_output.print_offsets(self.offsets)
        if self.problems:
            texts[tool_output.NOT_READ] = (f"Error: {problem}" for problem in self.problems)
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in texts.items():
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return sorted(folder / name for name in texts)


def read_cluster(
    connection: KafkaConnection, *, offsets: bool = False, pause: Callable[[float], None] = time.sleep
) -> ClusterReading:
    """Read a cluster. What does not answer is named in `problems`; only brokers and topics are indispensable.

    offsets: also read log end offsets. Raises: KafkaFault if the cluster does not answer, or changes all the time.
    """
    layout = read_layout(connection, pause)
    problems: list[str] = []
    if layout.reassignments is None:
        problems.append("ongoing reassignments are not known: listing them needs Describe on the cluster")
    if layout.unreadable_topics:
        problems.append(f"partitions of {_name_topics(layout.unreadable_topics)} were not described")
    names = [topic.name for topic in layout.topics]
    configs: TopicConfigs = _try(problems, partial(connection.describe_topic_configs, names), {})
    if missing := [name for name in names if not configs.get(name, {}).keys() & set(FAILURE_CONFIGS)]:
        problems.append(f"configs of {_name_topics(missing)} are not known: reading them needs DescribeConfigs on them")
    elrs: dict[Key, LivePartition] | None = _try(problems, partial(connection.describe_elrs, names), None)
    log_dirs: dict[int, list[dict[str, Any]]] = {}
    broker_configs: dict[int, dict[str, str]] = {}
    for broker in (broker.id for broker in layout.state.brokers if not broker.is_fenced):
        log_dirs[broker] = _try(problems, partial(connection.describe_log_dirs, broker), [])
        broker_configs[broker] = _try(problems, partial(connection.describe_broker, broker), {})
    end_offsets: dict[Key, int] = {}
    if offsets:
        leaders = [
            (topic.name, one.partition) for topic in layout.topics for one in topic.partitions if one.leader >= 0
        ]
        for chunk in split_chunks(leaders):
            listed: dict[Key, int] = _try(problems, partial(connection.list_end_offsets, chunk), {})
            end_offsets |= listed
    return ClusterReading(
        layout.state,
        layout.topics,
        configs,
        {id_: one for id_, one in broker_configs.items() if one},
        elrs,
        layout.reassignments or {},
        {id_: dirs for id_, dirs in log_dirs.items() if dirs},
        end_offsets,
        tuple(problems),
    )


def _try(problems: list[str], read: Callable[[], _T], default: _T) -> _T:
    """Return what a call reads; note why it is missing if it cannot be read."""
    try:
        return read()
    except UnsupportedCall:
        raise
    except KafkaFault as error:
        problems.append(error.problem)
        return default


def _name_topics(names: Iterable[str]) -> str:
    named = sorted(names)
    return f"{count_of(len(named), 'topic')} ({join_names(named, _MAX_NAMED)})"
