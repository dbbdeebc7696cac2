"""Requests of `assign`: JSON lines in the form of Kafka's golden cases, or the topics and brokers of a source.

A line of JSON is a request: `algorithm`, `brokers` ([{id, rack, fenced, cordoned}] or [id, ...]), `seed`, and either
`partitions` and `replication_factor`, or `topics`: several topics that draw from one random generator in order.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.snapshot_reader import Snapshot
from udfs.placement.schemes import KAFKA, KRAFT, MANUAL, OBSERVED, SCHEMES
from udfs.wording import count_of, quote_value

MAX_REPLICAS = 100_000_000  # of one topic: more is probably a typing error

_Id = Annotated[int, Field(ge=0, lt=2**31)]
_Int = Annotated[int, Field(ge=-(2**31), lt=2**31)]


def list_algorithms() -> dict[str, str]:
    """Return the scheme of each algorithm that a request may name: a class of Kafka's, or a scheme."""
    return {"adminutils": KAFKA, "striped": KRAFT} | {name: name for name in SCHEMES if name != OBSERVED}


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class RequestedBroker(_Strict):
    """A broker to place over; only the striped placement considers `fenced`, and leaves out `cordoned` ones.

    cordoned: all of its log dirs are. Only Kafka 4.3 and later know this, so that errors are theirs where it is set.
    """

    id: _Id
    rack: str | None = None
    fenced: bool = False
    cordoned: bool | None = None


class _CommonFields(_Strict):
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    brokers: list[Annotated[RequestedBroker, BeforeValidator(lambda b: {"id": b} if isinstance(b, int) else b)]]


class TopicRequest(_Strict):
    """A topic to place; -1 = not set, as in Kafka.

    With `existing_replicas`, `partitions` are added to these partitions, and the start index is derived as in Kafka.
    """

    partitions: _Int
    replication_factor: _Int
    fixed_start_index: _Int = -1
    start_partition_id: _Int = -1
    existing_replicas: list[list[_Id]] | None = None
    topic: str | None = None


class _ManualRequest(_Strict):
    replica_assignment: str
    topic: str | None = None


@dataclass(frozen=True)
class AssignRequest:
    """One line of JSON."""

    location: str  # File and line, for messages
    number: int  # Line number
    fields: dict[str, Any]  # The JSON object as read
    invalid_reason: str = ""  # Why it is not a valid request; the following attributes are then empty
    scheme: str = ""  # Scheme to place by
    seed: int = 0  # Seed of the random generator
    brokers: tuple[RequestedBroker, ...] = ()  # Brokers to place over
    topics: tuple[TopicRequest, ...] = ()  # Topics to place
    replica_assignment: str = ""  # Assignment by hand, for the manual scheme

    @property
    def has_topics(self) -> bool:
        """Whether the request lists `topics`."""
        return "topics" in self.fields

    def topic_name(self, index: int = 0) -> str:
        """Return the name of a topic, or a name from the line number."""
        fields = self.fields["topics"][index] if self.has_topics else self.fields
        default = f"topic-{self.number}-{index + 1}" if self.has_topics else f"topic-{self.number}"
        return str(fields.get("topic") or default)


def read_requests(text: str, path: str, default_seed: int) -> Iterator[AssignRequest]:
    """Yield the request of each line that is not blank."""
    for number, line in _split_lines(text):
        yield _read_request(line, f"{path}, line {number}", number, default_seed)


def _split_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of filled lines; str.splitlines also splits at other characters that JSON may contain."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def has_requests(text: str) -> bool:
    """Return whether the first line is a request, rather than part of a list or document in JSON."""
    _, first = next(_split_lines(text), (0, ""))
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "algorithm" in value


def _read_request(line: str, location: str, number: int, default_seed: int) -> AssignRequest:
    fields: Any = {}
    try:
        try:
            fields = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"is not JSON: {error}") from error
        except (ValueError, RecursionError) as error:
            problem = "a number has thousands of digits, or brackets are nested too deeply"
            raise ValueError(f"is not JSON that can be read: {problem}") from error
        if not isinstance(fields, dict):
            fields = {}
            raise ValueError("is not a JSON object")
        return _validate_request(AssignRequest(location, number, fields), default_seed)
    except ValidationError as error:
        first = error.errors()[0]
        got = "" if first["type"] == "missing" else f", got {quote_value(first['input'])}"
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}{got}"
    except ValueError as error:
        reason = str(error)
    return AssignRequest(location, number, fields, reason)


def _validate_request(request: AssignRequest, default_seed: int) -> AssignRequest:
    fields = request.fields
    algorithm, known = fields.get("algorithm"), list_algorithms()
    if not isinstance(algorithm, str) or algorithm not in known:
        raise ValueError(f"algorithm {quote_value(algorithm)} is unknown. Choose from {', '.join(known)}")
    common = _CommonFields.model_validate({"seed": default_seed} | fields)
    twice = [id_ for id_, count in Counter(broker.id for broker in common.brokers).items() if count > 1]
    if twice:
        raise ValueError(f"broker {twice[0]} is listed twice")
    request = replace(request, scheme=known[algorithm], seed=common.seed, brokers=tuple(common.brokers))
    if request.scheme == MANUAL:
        return replace(request, replica_assignment=_ManualRequest.model_validate(fields).replica_assignment)
    return replace(request, topics=_validate_topics(fields["topics"] if request.has_topics else [fields]))


def _validate_topics(values: Any) -> tuple[TopicRequest, ...]:
    if not (isinstance(values, list) and all(isinstance(value, dict) for value in values)):
        raise ValueError("`topics` is a list of {partitions, replication_factor}")
    topics = tuple(map(TopicRequest.model_validate, values))
    for topic in topics:
        if topic.partitions * max(topic.replication_factor, 0) > MAX_REPLICAS:
            size = f"{topic.partitions} partitions x {topic.replication_factor} replicas"
            raise ValueError(f"{size} exceed the limit of {MAX_REPLICAS} replicas per topic")
        if topic.existing_replicas is not None:
            _check_existing_replicas(topic, topic.existing_replicas)
    return topics


def _check_existing_replicas(topic: TopicRequest, existing: list[list[int]]) -> None:
    if not (existing and existing[0]):
        raise ValueError("existing_replicas has no replicas of partition 0")
    width = len(existing[0])
    for partition, replicas in enumerate(existing):
        if len(replicas) != width or len(set(replicas)) != width:
            first = f"partition 0 has {count_of(width, 'replica')}"
            raise ValueError(f"existing_replicas: partition {partition} has {quote_value(replicas)}, but {first}")
    if width != topic.replication_factor:
        raise ValueError(f"replication_factor is {topic.replication_factor}, but partition 0 has {width}")
    if topic.fixed_start_index != -1 or topic.start_partition_id not in (-1, len(existing)):
        raise ValueError("existing_replicas determines the start: omit fixed_start_index and start_partition_id")


def read_cluster_request(snapshot: Snapshot) -> tuple[pa.Table, list[RequestedBroker]]:
    """Return (topics whose partitions and replication factor are known, by name; live brokers, by id).

    Raises: SourceError if a record is quarantined; SettingsError if there is no such topic, or no live broker.
    """
    for row in snapshot.quarantined:
        problem = f"{quote_value(row['raw'])}: {'; '.join(row['reasons'])}"
        remedy = "Correct it; `inspect` shows all such records."
        raise SourceError(str(row["source"]), problem, remedy, row["line_number"])
    topics = snapshot.topics.select(["topic", "partitions", "replication_factor"])
    topics = topics.filter(pc.is_valid(topics["partitions"]))
    topics = topics.filter(pc.is_valid(topics["replication_factor"])).sort_by("topic")
    cluster = f"cluster {snapshot.cluster_id}"
    if not topics.num_rows:
        raise SettingsError(f"{cluster}: no topic has a known number of partitions and replication factor")
    counts_as_live = pc.fill_null(snapshot.brokers["live"], True)
    live = snapshot.brokers.filter(counts_as_live).sort_by("broker_id").select(["broker_id", "rack", "cordoned"])
    if not live.num_rows:
        raise SettingsError(f"{cluster}: no live broker is known. Add a list of brokers: --brokers FILE")
    return topics, [RequestedBroker(id=row.pop("broker_id"), **row) for row in live.to_pylist()]
