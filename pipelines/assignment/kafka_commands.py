"""Answers as Kafka's own tools take them: kafka-topics commands, and the JSON of kafka-reassign-partitions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator

from pipelines.assignment.assign_results import Answer, Replicas
from pipelines.ingest.topic_names import bad_topic_name


def _assignment(replicas: Replicas) -> str:
    return ",".join(":".join(map(str, partition)) for partition in replicas)


def _one_line(text: str) -> str:
    return " ".join(text.split()).encode(errors="backslashreplace").decode()


def refusal(answer: Answer) -> str:
    """Why a topic is not among the others."""
    assert answer.error is not None
    name = f"topic {answer.name}: " if answer.name else ""
    return _one_line(f"{name}{answer.error['class']}: {answer.error['message']}")


def commands(answers: Iterable[Answer], server: str) -> Iterator[str]:
    """A line of kafka-topics for each topic; one that cannot be created so is a comment with its reason."""
    tool = f"kafka-topics --bootstrap-server {shlex.quote(server)}"
    for answer in answers:
        if answer.replicas is None:
            yield f"# rejected: {refusal(answer)}"
            continue
        if not answer.replicas:
            yield f"# topic {_one_line(answer.name)}: no partitions to place"
            continue
        problem = bad_topic_name(answer.name)
        if problem is not None:
            yield f"# rejected: {_one_line(ascii(answer.name))}: {problem}"
            continue
        topic = f"--topic {shlex.quote(answer.name)}"
        if answer.first_partition == 0:
            yield f"{tool} --create {topic} --replica-assignment {_assignment(answer.replicas)}"
        elif answer.existing is None:
            # kafka-topics wants the partitions that are there as well.
            missing = f"topic {_one_line(answer.name)} grows from partition {answer.first_partition}"
            yield f"# {missing}: give its existing_replicas to have its command"
        else:
            whole = [*answer.existing, *answer.replicas]
            yield f"{tool} --alter {topic} --partitions {len(whole)} --replica-assignment {_assignment(whole)}"


def reassignment(answers: Iterable[Answer]) -> Iterator[str]:
    """One JSON document, in lines: the assignment of all partitions that could be placed, version 1."""
    yield '{"version":1,"partitions":['
    waiting = ""  # the last entry has no comma behind it
    for answer in answers:
        for number, replicas in enumerate(answer.replicas or (), answer.first_partition):
            if waiting:
                yield f"{waiting},"
            entry = {"topic": answer.name, "partition": number, "replicas": replicas}
            waiting = json.dumps(entry, separators=(",", ":"))
    if waiting:
        yield waiting
    yield "]}"
