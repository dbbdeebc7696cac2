"""Write assignments as JSON, kafka-topics commands or a reassignment file."""

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from pipelines.assignment.assign_requests import AssignRequest
from pipelines.assignment.topic_assigner import Replicas, TopicAssignment


def to_json_request(request: AssignRequest, assignments: list[TopicAssignment]) -> dict[str, Any]:
    """Return the request as JSON, completed by its assignments or errors."""
    outcome = ("replicas", "error")
    fields = {key: value for key, value in request.fields.items() if key not in ("first_partition", *outcome)}
    if request.has_topics and not request.invalid_reason:
        rows = ({key: value for key, value in topic.items() if key not in outcome} for topic in fields["topics"])
        pairs = zip(rows, assignments, strict=True)
        return fields | {"topics": [row | to_json_outcome(assignment) for row, assignment in pairs]}
    only = assignments[0]
    return fields | ({"first_partition": only.first_partition} if only.error is None else {}) | to_json_outcome(only)


def to_json_outcome(assignment: TopicAssignment) -> dict[str, Any]:
    """Return the replicas or the error of an assignment as JSON."""
    if assignment.error is None:
        return {"replicas": assignment.replicas}
    return {"error": {"class": assignment.error.exception, "message": assignment.error.message}}


def _format_replicas(replicas: Replicas) -> str:
    return ",".join(":".join(map(str, partition)) for partition in replicas)


def _on_one_line(text: str) -> str:
    return " ".join(text.split()).encode(errors="backslashreplace").decode()


def format_commands(assignments: Iterable[TopicAssignment], server: str) -> Iterator[str]:
    """Yield a kafka-topics command for each topic, or a comment with the reason why there is none."""
    tool = f"kafka-topics --bootstrap-server {shlex.quote(server)}"
    for assignment in assignments:
        name, replicas, error = assignment.name, assignment.replicas, assignment.error
        if replicas is None:
            reason = f"{error.exception}: {error.message}" if error else ""
            yield f"# rejected: {_on_one_line(f'topic {name}: {reason}' if name else reason)}"
        elif not replicas:
            yield f"# topic {_on_one_line(name)}: no partitions to place"
        elif assignment.first_partition == 0:
            yield f"{tool} --create --topic {shlex.quote(name)} --replica-assignment {_format_replicas(replicas)}"
        elif assignment.existing is None:
            # kafka-topics needs the existing partitions too.
            begin = f"topic {_on_one_line(name)} begins at partition {assignment.first_partition}"
            yield f"# {begin}: add existing_replicas to the request to get a command"
        else:
            combined = [*assignment.existing, *replicas]
            topic = f"--topic {shlex.quote(name)} --partitions {len(combined)}"
            yield f"{tool} --alter {topic} --replica-assignment {_format_replicas(combined)}"


def format_reassignment(assignments: Iterable[TopicAssignment]) -> Iterator[str]:
    """Yield the lines of one JSON document, version 1: the assignment of all partitions that could be placed."""
    yield '{"version":1,"partitions":['
    entry = ""  # the last one has no comma after it
    for assignment in assignments:
        for number, replicas in enumerate(assignment.replicas or (), assignment.first_partition):
            if entry:
                yield f"{entry},"
            values = {"topic": assignment.name, "partition": number, "replicas": replicas}
            entry = json.dumps(values, separators=(",", ":"))
    if entry:
        yield entry
    yield "]}"
