"""Assign topics as Kafka would, and write assignments as JSON, kafka-topics commands or a reassignment file."""

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.assignment.assign_requests import AssignRequest, RequestedBroker, read_cluster_request
from pipelines.ingest.formats.checked_values import explain_bad_topic_name
from pipelines.ingest.snapshot_reader import Snapshot
from udfs.arrow.ragged import offsets_of
from udfs.placement.kernels.admin_utils import derive_start_index
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.topic_arrays import BrokerLists, Ints, KafkaError, TopicPlacements, Topics, describe_error
from udfs.placement.kernels.topic_seeds import compute_topic_seeds
from udfs.placement.schemes import KRAFT, MANUAL, SCHEMES, find_place_function, find_usable
from udfs.placement.topic_placement import get_utf8_buffers
from udfs.wording import count_of, quote_value

_BATCH_REPLICAS = 5_000_000
_BATCH_REQUESTS = 5_000
_MAX_NAME_LENGTH = 249

Replicas = list[list[int]]


@dataclass(frozen=True)
class TopicAssignment:
    """The replicas of a topic from `first_partition` on, or Kafka's error; existing: those of earlier partitions."""

    name: str
    first_partition: int
    replicas: Replicas | None
    error: KafkaError | None = None
    existing: Replicas | None = None
    seed: int | None = None


def reject_topic_name(name: str) -> KafkaError | None:
    """Return the error of a topic name that Kafka rejects; None for any other name. Source: Topic.validate of 4.1."""
    if explain_bad_topic_name(name) is None:
        return None
    if name in ("", ".", ".."):
        problem = f"'{name}' is not allowed" if name else "the empty string is not allowed"
    elif len(name.encode("utf-16-le", "surrogatepass")) // 2 > _MAX_NAME_LENGTH:  # Java counts UTF-16 code units
        problem = f"the length of '{name}' is longer than the max allowed length {_MAX_NAME_LENGTH}"
    else:
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return KafkaError("InvalidTopicException", f"Topic name is invalid: {problem}")


def place_requests(requests: Iterable[AssignRequest]) -> Iterator[tuple[AssignRequest, list[TopicAssignment]]]:
    """Yield each request with the assignments of its topics, in order."""
    batch: list[AssignRequest] = []
    replicas = 0
    for request in requests:
        batch.append(request)
        replicas += sum(max(0, topic.partitions) * max(0, topic.replication_factor) for topic in request.topics)
        if replicas >= _BATCH_REPLICAS or len(batch) >= _BATCH_REQUESTS:
            yield from _assign_batch(batch)
            batch, replicas = [], 0
    yield from _assign_batch(batch)


def _assign_batch(batch: list[AssignRequest]) -> Iterator[tuple[AssignRequest, list[TopicAssignment]]]:
    assignments: dict[int, list[TopicAssignment]] = {}
    by_scheme: dict[str, list[int]] = {}
    for i, request in enumerate(batch):
        if request.invalid_reason:
            invalid = KafkaError("InvalidRequestException", f"{request.location}: {request.invalid_reason}")
            assignments[i] = [TopicAssignment("", 0, None, invalid)]
        elif request.scheme == MANUAL:
            assignments[i] = [_assign_manually(request)]
        else:
            by_scheme.setdefault(request.scheme, []).append(i)
    for scheme, indices in by_scheme.items():
        assignments |= zip(indices, _place_batch(scheme, [batch[i] for i in indices]), strict=True)
    for i, request in enumerate(batch):
        yield request, assignments[i]


def _assign_manually(request: AssignRequest) -> TopicAssignment:
    name = request.topic_name()
    if (invalid := reject_topic_name(name)) is not None:
        return TopicAssignment(name, 0, None, invalid)
    try:
        cordoned = {broker.id for broker in request.brokers if broker.cordoned}
        brokers = {broker.id for broker in request.brokers}
        replicas = parse_manual_assignment(name, request.replica_assignment, brokers, cordoned)
    except ManualAssignmentError as error:
        return TopicAssignment(name, 0, None, error.kafka_error)
    return TopicAssignment(name, 0, replicas)


def _select_usable(brokers: Sequence[RequestedBroker], scheme: str) -> list[RequestedBroker]:
    """Select the brokers that a scheme places over."""
    return [brokers[i] for i in find_usable(scheme, [broker.cordoned for broker in brokers])]


def _create_broker_lists(lists: Sequence[Sequence[RequestedBroker]]) -> BrokerLists:
    brokers = [broker for list_ in lists for broker in list_]
    return BrokerLists.create(
        np.array([broker.id for broker in brokers], dtype=np.int32),
        offsets_of(np.array([len(list_) for list_ in lists], dtype=np.int64)),
        [broker.rack for broker in brokers],
        np.array([broker.fenced for broker in brokers], dtype=np.bool_),
    )


def _place_batch(scheme: str, requests: list[AssignRequest]) -> Iterator[list[TopicAssignment]]:
    """Yield the assignments of requests of one scheme. The topics of a request draw from one generator in order."""
    # Kafka rejects a name before it places the topic, so that a rejected topic draws nothing from the generator.
    rejections = [[reject_topic_name(r.topic_name(i)) for i in range(len(r.topics))] for r in requests]
    placed = [
        [topic for topic, rejection in zip(request.topics, rejected, strict=True) if rejection is None]
        for request, rejected in zip(requests, rejections, strict=True)
    ]
    topics = [topic for of_request in placed for topic in of_request]
    request_of = np.repeat(np.arange(len(requests)), [len(of_request) for of_request in placed])
    existing = {i: topic.existing_replicas for i, topic in enumerate(topics) if topic.existing_replicas}
    expanded = np.array(list(existing), dtype=np.int64)
    # Kafka adds partitions over the brokers sorted by id.
    usable = [_select_usable(request.brokers, scheme) for request in requests]
    by_id = [sorted(usable[request_of[i]], key=lambda broker: broker.id) for i in existing]
    lists = _create_broker_lists([*usable, *by_id])
    broker_list = request_of.copy()
    broker_list[expanded] = len(requests) + np.arange(len(expanded))
    start_partition = np.array([max(0, topic.start_partition_id) for topic in topics], dtype=np.int64)
    start_partition[expanded] = [len(replicas) for replicas in existing.values()]
    start_index = np.array([topic.fixed_start_index for topic in topics], dtype=np.int64)
    if existing and scheme != KRAFT:  # which places added partitions like a new topic
        leaders = np.array([replicas[0][0] for replicas in existing.values()], dtype=np.int64)
        start_index[expanded] = derive_start_index(lists, broker_list[expanded], leaders)
    arrays = Topics.create(
        np.array([topic.partitions for topic in topics], dtype=np.int64),
        np.array([topic.replication_factor for topic in topics], dtype=np.int64),
        broker_list,
        generator=request_of,
        start_partition=start_partition,
        fixed_start_index=start_index,
    )
    states = scramble_seeds(np.array([request.seed for request in requests], dtype=np.int64))
    placements = find_place_function(scheme)(arrays, lists, states)
    at = 0
    for request, rejected in zip(requests, rejections, strict=True):
        assignments, cordons = [], _knows_cordons(request.brokers)
        for i, (topic, rejection) in enumerate(zip(request.topics, rejected, strict=True)):
            name = request.topic_name(i)
            if rejection is not None:
                assignments.append(TopicAssignment(name, 0, None, rejection))
                continue
            outcome = _read_outcome(placements, arrays, lists, at, cordons=cordons)
            assignments.append(TopicAssignment(name, int(start_partition[at]), *outcome, topic.existing_replicas))
            at += 1
        yield assignments


def _knows_cordons(brokers: Iterable[RequestedBroker]) -> bool:
    return any(broker.cordoned is not None for broker in brokers)


def _read_outcome(
    placements: TopicPlacements, topics: Topics, lists: BrokerLists, i: int, *, cordons: bool
) -> tuple[Replicas | None, KafkaError | None]:
    """Return (replicas, error) of topic i; one of them is None. cordons: with errors of Kafka 4.3 and later."""
    if code := int(placements.error_code[i]):
        return None, describe_error(topics, lists, i, code, int(placements.error_detail[i]), cordons=cordons)
    begin, end = placements.replica_offsets[placements.row_offsets[i : i + 2]]
    return placements.broker[begin:end].reshape(-1, int(topics.replication_factor[i])).tolist(), None


def assign_cluster(snapshot: Snapshot, scheme: str, run_seed: int, shared_random: bool) -> Iterator[TopicAssignment]:
    """Yield the assignments of a source's topics; shared_random: all draw from one generator, in order of name."""
    table, brokers = read_cluster_request(snapshot)
    names = table["topic"].to_pylist()
    partitions, factor = (table[name].to_numpy().astype(np.int64) for name in ("partitions", "replication_factor"))
    lists, cordons = _create_broker_lists([_select_usable(brokers, scheme)]), _knows_cordons(brokers)
    place, n = find_place_function(scheme), len(names)
    seeds: Ints = np.array([run_seed], dtype=np.int64)
    generator = np.zeros(n, dtype=np.int64)
    if not shared_random:
        columns = (pa.array(values, pa.string()) for values in ([snapshot.cluster_id] * n, names))
        seeds = compute_topic_seeds(run_seed, *map(get_utf8_buffers, columns))
        generator = np.arange(n)
    states = scramble_seeds(seeds)
    # The generators' states carry over from batch to batch.
    batch_of = np.cumsum(partitions * factor) // _BATCH_REPLICAS
    for batch in np.split(np.arange(n), np.flatnonzero(np.diff(batch_of)) + 1):
        only_list = np.zeros(len(batch), dtype=np.int64)
        topics = Topics.create(partitions[batch], factor[batch], only_list, generator=generator[batch])
        placements = place(topics, lists, states)
        for i, at in enumerate(batch.tolist()):
            seed = int(seeds[generator[at]]) if SCHEMES[scheme].is_random else None
            outcome = _read_outcome(placements, topics, lists, i, cordons=cordons)
            yield TopicAssignment(names[at], 0, *outcome, seed=seed)


_INCLUDES = "The manual partition assignment includes "


class ManualAssignmentError(ValueError):
    """An assignment that Kafka rejects. The message names topic, partition and value.

    `kafka_error` is the error of Kafka's controller (ReplicationControlManager, 4.4).
    """

    def __init__(self, location: str, problem: str, kafka_message: str = "") -> None:
        """Describe a problem at a location; without Kafka's message, the request itself is invalid."""
        super().__init__(f"{location}: {problem}")
        exception = "InvalidReplicaAssignmentException" if kafka_message else "InvalidRequestException"
        self.kafka_error = KafkaError(exception, kafka_message or str(self))


def parse_manual_assignment(
    topic: str, text: str, brokers: Collection[int], cordoned: Collection[int] = ()
) -> list[list[int]]:
    """Parse `id:id:id,id:id:id`: `,` separates partitions, `:` replicas. Return the replicas of each partition.

    cordoned: brokers whose log dirs are all cordoned, which Kafka rejects since 4.4.
    Raises: ManualAssignmentError if the text is malformed, or Kafka's controller would reject the assignment.
    """
    partitions: list[list[int]] = []
    for partition, part in enumerate(text.split(",")):
        location = f"topic {topic}, partition {partition}, replicas {quote_value(part)}"
        if not re.fullmatch(r"\s*[0-9]{1,10}\s*(:\s*[0-9]{1,10}\s*)*", part):
            raise ManualAssignmentError(location, "broker ids are numbers with ':' between them")
        replicas = [int(broker) for broker in part.split(":")]
        for broker in sorted(replicas):  # Kafka checks them in this order
            if broker not in brokers:
                message = f"{_INCLUDES}broker {broker}, but no such broker is registered."
                raise ManualAssignmentError(location, f"there is no broker {broker}", message)
            if broker in cordoned:
                message = f"{_INCLUDES}broker {broker}, but all its log directories are cordoned."
                raise ManualAssignmentError(location, f"broker {broker} is cordoned", message)
            if replicas.count(broker) > 1:
                message = f"{_INCLUDES}the broker {broker} more than once."
                raise ManualAssignmentError(location, f"broker {broker} is repeated", message)
        if partitions and len(replicas) != len(partitions[0]):
            count, first = len(replicas), len(partitions[0])
            message = f"{_INCLUDES}a partition with {count} replica(s), but this is not consistent with previous "
            message += f"partitions, which have {first} replica(s)."
            problem = f"{count_of(count, 'replica')}, but partition 0 has {first}"
            raise ManualAssignmentError(location, problem, message)
        partitions.append(replicas)
    return partitions


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
