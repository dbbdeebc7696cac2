"""Results of `assign`: requests placed by the kernels in batches, and as JSON in the form of the request."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.assignment.assign_requests import AssignRequest, ClusterRequest, RequestedBroker
from udfs.arrow.ragged import offsets_of
from udfs.placement.kernels.admin_utils import derive_start_index
from udfs.placement.kernels.java_random import scramble_seeds
from udfs.placement.kernels.kafka_errors import KafkaError, describe_error
from udfs.placement.kernels.topic_arrays import BrokerLists, Ints, TopicPlacements, Topics
from udfs.placement.kernels.topic_seeds import compute_topic_seeds
from udfs.placement.manual_assignment import ManualAssignmentError, parse_manual_assignment
from udfs.placement.schemes import KRAFT, MANUAL, SCHEMES, find_place_function
from udfs.placement.topic_batches import get_utf8_buffers

_BATCH_REPLICAS = 5_000_000
_BATCH_REQUESTS = 5_000

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


def assign_requests(requests: Iterable[AssignRequest]) -> Iterator[tuple[AssignRequest, list[TopicAssignment]]]:
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
            error = KafkaError("InvalidRequestException", f"{request.location}: {request.invalid_reason}")
            assignments[i] = [TopicAssignment("", 0, None, error)]
        elif request.scheme == MANUAL:
            assignments[i] = [_assign_manually(request)]
        else:
            by_scheme.setdefault(request.scheme, []).append(i)
    for scheme, indices in by_scheme.items():
        assignments |= zip(indices, _place_requests(scheme, [batch[i] for i in indices]), strict=True)
    for i, request in enumerate(batch):
        yield request, assignments[i]


def _assign_manually(request: AssignRequest) -> TopicAssignment:
    name, ids = request.topic_name(), [broker.id for broker in request.brokers]
    try:
        return TopicAssignment(name, 0, parse_manual_assignment(name, request.replica_assignment, ids))
    except ManualAssignmentError as error:
        return TopicAssignment(name, 0, None, error.kafka_error)


def _create_broker_lists(lists: Sequence[Sequence[RequestedBroker]]) -> BrokerLists:
    brokers = [broker for list_ in lists for broker in list_]
    return BrokerLists.create(
        np.array([broker.id for broker in brokers], dtype=np.int32),
        offsets_of(np.array([len(list_) for list_ in lists], dtype=np.int64)),
        [broker.rack for broker in brokers],
        np.array([broker.fenced for broker in brokers], dtype=np.bool_),
    )


def _place_requests(scheme: str, requests: list[AssignRequest]) -> Iterator[list[TopicAssignment]]:
    """Yield the assignments of requests of one scheme. The topics of a request draw from one generator in order."""
    topics = [topic for request in requests for topic in request.topics]
    request_of = np.repeat(np.arange(len(requests)), [len(request.topics) for request in requests])
    existing = {i: topic.existing_replicas for i, topic in enumerate(topics) if topic.existing_replicas}
    expanded = np.array(list(existing), dtype=np.int64)
    # Kafka adds partitions over the brokers sorted by id.
    by_id = [sorted(requests[request_of[i]].brokers, key=lambda broker: broker.id) for i in existing]
    lists = _create_broker_lists([*(request.brokers for request in requests), *by_id])
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
    for request in requests:
        assignments = []
        for i, topic in enumerate(request.topics):
            name, outcome = request.topic_name(i), _read_outcome(placements, arrays, lists, at)
            assignments.append(TopicAssignment(name, int(start_partition[at]), *outcome, topic.existing_replicas))
            at += 1
        yield assignments


def _read_outcome(
    placements: TopicPlacements, topics: Topics, lists: BrokerLists, i: int
) -> tuple[Replicas | None, KafkaError | None]:
    """Return (replicas, error) of topic i; one of them is None."""
    if code := int(placements.error_code[i]):
        return None, describe_error(topics, lists, i, code, int(placements.error_detail[i]))
    begin, end = placements.replica_offsets[placements.row_offsets[i : i + 2]]
    return placements.broker[begin:end].reshape(-1, int(topics.replication_factor[i])).tolist(), None


def assign_cluster(
    request: ClusterRequest, scheme: str, run_seed: int, shared_random: bool
) -> Iterator[TopicAssignment]:
    """Yield the assignments of a source's topics; shared_random: all draw from one generator, in order of name."""
    place = find_place_function(scheme)
    n = len(request.names)
    lists = _create_broker_lists([request.brokers])
    seeds: Ints = np.array([run_seed], dtype=np.int64)
    generator = np.zeros(n, dtype=np.int64)
    if not shared_random:
        cluster, names = (pa.array(values, pa.string()) for values in ([request.cluster] * n, request.names))
        seeds = compute_topic_seeds(run_seed, get_utf8_buffers(cluster), get_utf8_buffers(names))
        generator = np.arange(n)
    states = scramble_seeds(seeds)
    # The generators' states carry over from batch to batch.
    batch_of = np.cumsum(request.partitions * request.replication_factor) // _BATCH_REPLICAS
    for batch in np.split(np.arange(n), np.flatnonzero(np.diff(batch_of)) + 1):
        sizes = (request.partitions[batch], request.replication_factor[batch], np.zeros(len(batch), dtype=np.int64))
        topics = Topics.create(*sizes, generator=generator[batch])
        placements = place(topics, lists, states)
        for i, at in enumerate(batch.tolist()):
            seed = int(seeds[generator[at]]) if SCHEMES[scheme].is_random else None
            yield TopicAssignment(request.names[at], 0, *_read_outcome(placements, topics, lists, i), seed=seed)


def to_json_request(request: AssignRequest, assignments: list[TopicAssignment]) -> dict[str, Any]:
    """Return the request as JSON, completed by its assignments or errors."""
    fields = {
        key: value for key, value in request.fields.items() if key not in ("first_partition", "replicas", "error")
    }
    if request.has_topics and not request.invalid_reason:
        topics = zip(request.fields["topics"], assignments, strict=True)
        return fields | {"topics": [_complete_topic(topic, assignment) for topic, assignment in topics]}
    only = assignments[0]
    return fields | ({"first_partition": only.first_partition} if only.error is None else {}) | to_json_outcome(only)


def _complete_topic(fields: dict[str, Any], assignment: TopicAssignment) -> dict[str, Any]:
    request = {key: value for key, value in fields.items() if key not in ("replicas", "error")}
    return request | to_json_outcome(assignment)


def to_json_outcome(assignment: TopicAssignment) -> dict[str, Any]:
    """Return the replicas or the error of an assignment as JSON."""
    if assignment.error is None:
        return {"replicas": assignment.replicas}
    return {"error": {"class": assignment.error.exception, "message": assignment.error.message}}
