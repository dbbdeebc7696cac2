"""Requests through the placement kernels, in batches; an answer each, in the form of the request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.assignment.assign_requests import Broker, ClusterRequest, Request
from udfs.arrow.ragged import offsets_of
from udfs.placement.kernels import kafka_errors
from udfs.placement.kernels.admin_utils import derived_start
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.topic_arrays import BrokerLists, Ints, Placed, Topics
from udfs.placement.kernels.topic_seeds import topic_seeds
from udfs.placement.manual_assignment import ManualError, parse_manual
from udfs.placement.schemes import KRAFT, MANUAL, SCHEMES
from udfs.placement.topic_batches import text_of

_BATCH_REPLICAS = 5_000_000
_BATCH_REQUESTS = 5_000

Replicas = list[list[int]]


@dataclass(frozen=True)
class Answer:
    """What becomes of one topic.

    replicas: of each new partition, from first_partition on; None = rejected, see error ({class, message}).
    existing: of the partitions that the topic has already, if they are known.
    """

    name: str
    first_partition: int
    replicas: Replicas | None
    error: dict[str, str] | None
    existing: Replicas | None = None
    seed: int | None = None


def answers(requests: Iterable[Request]) -> Iterator[tuple[Request, list[Answer]]]:
    """Each request with the answers to its topics, in order."""
    batch: list[Request] = []
    replicas = 0
    for request in requests:
        batch.append(request)
        replicas += sum(
            max(0, topic_request.partitions) * max(0, topic_request.replication_factor)
            for topic_request in request.topics
        )
        if replicas >= _BATCH_REPLICAS or len(batch) >= _BATCH_REQUESTS:
            yield from _answered(batch)
            batch, replicas = [], 0
    yield from _answered(batch)


def _answered(batch: list[Request]) -> Iterator[tuple[Request, list[Answer]]]:
    found: dict[int, list[Answer]] = {}
    by_scheme: dict[str, list[int]] = {}
    for i, request in enumerate(batch):
        if request.bad:
            error = {"class": "InvalidRequestException", "message": f"{request.name}: {request.bad}"}
            found[i] = [Answer("", 0, None, error)]
        elif request.scheme == MANUAL:
            found[i] = [_by_hand(request)]
        else:
            by_scheme.setdefault(request.scheme, []).append(i)
    for scheme, indices in by_scheme.items():
        found |= zip(indices, _placed(scheme, [batch[i] for i in indices]), strict=True)
    for i, request in enumerate(batch):
        yield request, found[i]


def _by_hand(request: Request) -> Answer:
    name = request.topic_name()
    try:
        replicas = parse_manual(name, request.by_hand, [broker.id for broker in request.brokers])
    except ManualError as error:
        return Answer(name, 0, None, {"class": error.kafka_class, "message": error.kafka_message})
    return Answer(name, 0, replicas, None)


def broker_lists(lists: list[tuple[Broker, ...]]) -> BrokerLists:
    """The kernels' form of these lists."""
    flat = [broker for brokers in lists for broker in brokers]
    return BrokerLists.of(
        np.array([broker.id for broker in flat], dtype=np.int32),
        offsets_of(np.array([len(brokers) for brokers in lists], dtype=np.int64)),
        [broker.rack for broker in flat],
        np.array([broker.fenced for broker in flat], dtype=np.bool_),
    )


def _placed(scheme: str, requests: list[Request]) -> Iterator[list[Answer]]:
    """Answers to requests of one scheme: one generator a request, which its topics draw from in their order."""
    topic_requests = [topic_request for request in requests for topic_request in request.topics]
    which = np.repeat(np.arange(len(requests)), [len(request.topics) for request in requests])
    growing = np.array(
        [i for i, topic_request in enumerate(topic_requests) if topic_request.existing_replicas], dtype=np.int64
    )
    # What grows is placed over the brokers by id, as Kafka takes them then.
    by_id = [tuple(sorted(requests[which[i]].brokers, key=lambda broker: broker.id)) for i in growing]
    lists = broker_lists([*(request.brokers for request in requests), *by_id])
    of_list = which.copy()
    of_list[growing] = len(requests) + np.arange(len(growing))
    first = np.array([max(0, w.start_partition_id) for w in topic_requests], dtype=np.int64)
    fixed = np.array([w.fixed_start_index for w in topic_requests], dtype=np.int64)
    if len(growing) and scheme != KRAFT:  # which places what grows like what is new
        leaders = np.array([topic_requests[i].existing_replicas[0][0] for i in growing], dtype=np.int64)
        fixed[growing] = derived_start(lists, of_list[growing], leaders)
    first[growing] = [len(topic_requests[i].existing_replicas or ()) for i in growing]
    topics = Topics.of(
        np.array([w.partitions for w in topic_requests], dtype=np.int64),
        np.array([w.replication_factor for w in topic_requests], dtype=np.int64),
        of_list,
        stream=which,
        first_partition=first,
        fixed_start=fixed,
    )
    place = SCHEMES[scheme].place
    assert place is not None
    placed = place(topics, lists, scrambled(np.array([request.seed for request in requests], dtype=np.int64)))
    sizes = np.diff(lists.offsets)
    at = 0
    for k, request in enumerate(requests):
        made = []
        for i, topic_request in enumerate(request.topics):
            replicas, error = _outcome(placed, topics, at, int(sizes[k]))
            made.append(Answer(request.topic_name(i), int(first[at]), replicas, error, topic_request.existing_replicas))
            at += 1
        yield made


def _outcome(placed: Placed, topics: Topics, i: int, brokers: int) -> tuple[Replicas | None, dict[str, str] | None]:
    """(replicas, error) of topic i; one of them is None."""
    code = int(placed.refusal[i])
    factor = int(topics.replication_factor[i])
    if code:
        asked = (int(topics.partitions[i]), factor, brokers)
        name, message = kafka_errors.in_words(code, *asked, int(placed.detail[i]))
        return None, {"class": name, "message": message}
    rows = placed.row_offsets[i : i + 2]
    begin, end = placed.replica_offsets[rows]
    return placed.broker[begin:end].reshape(-1, factor).tolist(), None


def of_cluster(request: ClusterRequest, scheme: str, run_seed: int, one_stream: bool) -> Iterator[Answer]:
    """A source's topics, each from its own seed, or all from one stream in the order of their names."""
    place = SCHEMES[scheme].place
    assert place is not None
    n = len(request.names)
    lists = broker_lists([request.brokers])
    seeds: Ints = np.array([run_seed], dtype=np.int64)
    stream = np.zeros(n, dtype=np.int64)
    if not one_stream:
        cluster = text_of(pa.array([request.cluster] * n, pa.string()))
        seeds, stream = topic_seeds(run_seed, cluster, text_of(pa.array(request.names, pa.string()))), np.arange(n)
    states = scrambled(seeds)
    # In steps: the stream goes on from one to the next.
    ends = np.cumsum(request.partitions * request.replication_factor) // _BATCH_REPLICAS
    for step in np.split(np.arange(n), np.flatnonzero(np.diff(ends)) + 1):
        asked = (request.partitions[step], request.replication_factor[step], np.zeros(len(step), dtype=np.int64))
        topics = Topics.of(*asked, stream=stream[step])
        placed = place(topics, lists, states)
        for i, at in enumerate(step.tolist()):
            replicas, error = _outcome(placed, topics, i, len(request.brokers))
            seed = int(seeds[stream[at]]) if SCHEMES[scheme].draws else None
            yield Answer(request.names[at], 0, replicas, error, seed=seed)


def as_json(request: Request, made: list[Answer]) -> dict[str, Any]:
    """The answer in the form of the request."""
    out = {key: value for key, value in request.given.items() if key not in ("first_partition", "replicas", "error")}
    if request.bad:
        return out | {"error": made[0].error}
    if request.together:
        return out | {"topics": [_topic(given, a) for given, a in zip(request.given["topics"], made, strict=True)]}
    only = made[0]
    if only.error is not None:
        return out | {"error": only.error}
    return out | {"first_partition": only.first_partition, "replicas": only.replicas}


def _topic(given: dict[str, Any], answer: Answer) -> dict[str, Any]:
    out = {key: value for key, value in given.items() if key not in ("replicas", "error")}
    return out | ({"replicas": answer.replicas} if answer.error is None else {"error": answer.error})
