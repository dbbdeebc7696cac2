"""What `assign` is asked: JSON lines in the form of Kafka's golden cases, or a cluster's topics and brokers.

One line of JSON is one request: `algorithm`, `brokers` ([{id, rack, fenced}] or [id, ...]), `seed`, and either
`partitions` and `replication_factor`, or `topics`: several that draw from the one stream in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.snapshot import Snapshot
from udfs.placement.schemes import KAFKA, KRAFT, MANUAL, OBSERVED, SCHEMES

# The classes' names in requests, beside those of the schemes.
_CLASSES = {"adminutils": KAFKA, "striped": KRAFT}
MOST_REPLICAS = 100_000_000  # of one topic: beyond, a typing error is likelier than a real request

_Id = Annotated[int, Field(ge=0, lt=2**31)]
_Int = Annotated[int, Field(ge=-(2**31), lt=2**31)]


def algorithms() -> dict[str, str]:
    """The scheme of each name that a request may give: all but the one that is as the cluster is."""
    return _CLASSES | {name: name for name in SCHEMES if name != OBSERVED}


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class Broker(_Strict):
    """A broker to place over; `fenced` counts for the striped placement alone."""

    id: _Id
    rack: str | None = None
    fenced: bool = False


class TopicRequest(_Strict):
    """A topic to place. -1 = not given, as in Kafka.

    existing_replicas: of the partitions that the topic has; it grows by `partitions` then, and Kafka derives the start.
    """

    partitions: _Int
    replication_factor: _Int
    fixed_start_index: _Int = -1
    start_partition_id: _Int = -1
    existing_replicas: list[list[_Id]] | None = None
    topic: str | None = None


class _ByHand(_Strict):
    replica_assignment: str
    topic: str | None = None


@dataclass(frozen=True)
class Request:
    """One request. `bad` says why it cannot be understood; the rest is empty then.

    given: as read, for the answer.   name: of the file and line, for messages.   together: whether `topics` was given.
    """

    name: str
    number: int
    given: dict[str, Any]
    scheme: str = ""
    seed: int = 0
    brokers: tuple[Broker, ...] = ()
    topics: tuple[TopicRequest, ...] = ()
    by_hand: str = ""
    together: bool = False
    bad: str = ""

    def topic_name(self, index: int = 0) -> str:
        """The topic's name, or one made of the line's number."""
        named = self.given["topics"][index].get("topic") if self.together else self.given.get("topic")
        return str(named or (f"topic-{self.number}-{index + 1}" if self.together else f"topic-{self.number}"))


def read_lines(text: str, path: str, default_seed: int) -> Iterator[Request]:
    """The request of each line that is not blank."""
    for number, line in enumerate(_lines(text), 1):
        if line.strip():
            yield _request(line, f"{path}, line {number}", number, default_seed)


def _lines(text: str) -> list[str]:
    """Its lines; JSON may hold what Python takes for other line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def looks_like_requests(text: str) -> bool:
    """Whether the first line is a request, rather than a list or a document in JSON."""
    first = next((line for line in _lines(text) if line.strip()), "")
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "algorithm" in value


def _request(line: str, name: str, number: int, default_seed: int) -> Request:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Request(name, number, {}, bad=f"is no JSON: {error}")
    if not isinstance(given, dict):
        return Request(name, number, {}, bad="is no JSON object")
    try:
        return _understood(given, name, number, default_seed)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = f"{where}: {first['msg']}" + ("" if first["type"] == "missing" else f", got {first['input']!r}")
        return Request(name, number, given, bad=said)
    except ValueError as error:
        return Request(name, number, given, bad=str(error))


def _understood(given: dict[str, Any], name: str, number: int, default_seed: int) -> Request:
    algorithm = given.get("algorithm")
    known = algorithms()
    if not isinstance(algorithm, str) or algorithm not in known:
        raise ValueError(f"algorithm {algorithm!r} is none of {', '.join(known)}")
    scheme = known[algorithm]
    listed = given.get("brokers")
    if not isinstance(listed, list):
        raise ValueError("`brokers` is missing: a list of {id, rack} or of ids")
    brokers = tuple(Broker.model_validate({"id": b} if isinstance(b, int) else b) for b in listed)
    if len({broker.id for broker in brokers}) < len(brokers):
        ids = [broker.id for broker in brokers]
        raise ValueError(f"broker {next(b for b in ids if ids.count(b) > 1)} is listed twice")
    seed = given.get("seed", default_seed)
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed {seed!r} is no 64-bit number")
    common: dict[str, Any] = {"scheme": scheme, "seed": seed, "brokers": brokers}
    if scheme == MANUAL:
        return Request(name, number, given, **common, by_hand=_ByHand.model_validate(given).replica_assignment)
    together = "topics" in given
    if together and not (isinstance(given["topics"], list) and all(isinstance(t, dict) for t in given["topics"])):
        raise ValueError("`topics` is a list of {partitions, replication_factor}")
    topics = tuple(
        TopicRequest.model_validate(topic_request) for topic_request in (given["topics"] if together else [given])
    )
    for topic_request in topics:
        if topic_request.partitions * max(topic_request.replication_factor, 0) > MOST_REPLICAS:
            size = f"{topic_request.partitions} partitions of {topic_request.replication_factor} replicas"
            raise ValueError(f"{size} are more than {MOST_REPLICAS} replicas of one topic")
        if topic_request.existing_replicas is not None:
            _check_growth(topic_request)
    return Request(name, number, given, **common, topics=topics, together=together)


def _check_growth(topic_request: TopicRequest) -> None:
    if not (topic_request.existing_replicas and topic_request.existing_replicas[0]):
        raise ValueError("existing_replicas has no replicas of partition 0")
    held = len(topic_request.existing_replicas[0])
    for partition, replicas in enumerate(topic_request.existing_replicas):
        if len(replicas) != held or len(set(replicas)) != held:
            raise ValueError(f"existing_replicas: partition {partition} has {replicas}, partition 0 {held} replicas")
    if held != topic_request.replication_factor:
        raise ValueError(
            f"replication_factor is {topic_request.replication_factor}, but partition 0 has {held} replicas"
        )
    if topic_request.fixed_start_index != -1 or topic_request.start_partition_id not in (
        -1,
        len(topic_request.existing_replicas),
    ):
        raise ValueError("existing_replicas gives the start: leave fixed_start_index and start_partition_id out")


@dataclass(frozen=True)
class ClusterRequest:
    """All topics of a source, over its brokers.

    names, partitions, replication_factor: (n).   brokers: the live ones, by id.
    """

    cluster: str
    names: list[str]
    partitions: np.ndarray
    replication_factor: np.ndarray
    brokers: tuple[Broker, ...] = field(default=())


def of_snapshot(snapshot: Snapshot) -> ClusterRequest:
    """The topics of a source that say how many partitions and replicas they have, over its brokers that live."""
    topics, brokers = snapshot.topics, snapshot.brokers
    if snapshot.quarantined:
        row = snapshot.quarantined[0]
        reasons = "; ".join(row["reasons"])
        raise SourceError(str(row["source"]), f"{row['raw']!r}: {reasons}", "Mend it: see inspect.", row["line_number"])
    listed = topics.filter(
        pa.compute.and_(topics["partitions"].is_valid(), topics["replication_factor"].is_valid())
    ).sort_by("topic")
    if not listed.num_rows:
        raise SettingsError(f"cluster {snapshot.cluster_id}: no topic with partitions and replication factor is listed")
    live = brokers.filter(brokers["live"]).sort_by("broker_id").select(["broker_id", "rack"]).to_pylist()
    if not live:
        raise SettingsError(
            f"cluster {snapshot.cluster_id}: no broker is listed. Name a broker list too: --brokers FILE"
        )
    return ClusterRequest(
        snapshot.cluster_id,
        listed["topic"].to_pylist(),
        listed["partitions"].to_numpy().astype(np.int64),
        listed["replication_factor"].to_numpy().astype(np.int64),
        tuple(Broker(id=row["broker_id"], rack=row["rack"]) for row in live),
    )
