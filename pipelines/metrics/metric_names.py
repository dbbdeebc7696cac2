"""Which metrics give which loads, and how their series name brokers: conf/metrics.toml, or a file like it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, ValidationError, model_validator

from pipelines.config.setting_types import SettingsSection, parse_toml
from pipelines.errors import SettingsError

NAME = "__name__"  # the label that Prometheus gives the name of a metric


class Quantity(StrEnum):
    """What a metric measures."""

    BYTES_IN = "bytes_in"  # of a topic on a broker
    BYTES_OUT = "bytes_out"
    BROKER_BYTES_IN = "broker_bytes_in"  # of a broker, all topics
    BROKER_BYTES_OUT = "broker_bytes_out"
    SIZE = "size"  # of a replica
    LOG_END_OFFSET = "log_end_offset"  # of a replica
    VOLUME_TOTAL = "volume_total"  # bytes of a volume, as a file system is mounted
    VOLUME_USABLE = "volume_usable"  # its free bytes


TOTALS = {Quantity.BROKER_BYTES_IN: Quantity.BYTES_IN, Quantity.BROKER_BYTES_OUT: Quantity.BYTES_OUT}
VOLUMES = (Quantity.VOLUME_TOTAL, Quantity.VOLUME_USABLE)


class MetricKind(StrEnum):
    """How the values of a metric are to be read."""

    COUNTER = "counter"  # bytes since the start of the broker
    RATE = "rate"  # bytes per second
    GAUGE = "gauge"  # bytes, or an offset


def _check_broker_pattern(pattern: re.Pattern[str]) -> re.Pattern[str]:
    if pattern.groupindex.keys() not in ({"id"}, {"host"}):
        raise ValueError("needs one named group, (?P<id>...) or (?P<host>...)")
    return pattern


class MetricName(SettingsSection):
    """A metric that gives a load. labels, without: labels that its series must have, and must not have."""

    exporter: str
    quantity: Quantity
    metric: str
    kind: MetricKind
    labels: Mapping[str, str] = {}
    without: tuple[str, ...] = ()
    topic: str | None = None
    partition: str | None = None
    volume: str | None = None

    @model_validator(mode="after")
    def _check(self) -> MetricName:
        is_of_volume = self.quantity in VOLUMES
        is_of_broker = self.quantity in TOTALS
        is_of_replica = self.quantity in (Quantity.SIZE, Quantity.LOG_END_OFFSET)
        for label, value, is_needed in (
            ("topic", self.topic, not is_of_broker and not is_of_volume),
            ("partition", self.partition, is_of_replica),
            ("volume", self.volume, is_of_volume),
        ):
            if is_needed != (value is not None):
                raise ValueError(f"{self.quantity} {'needs the' if is_needed else 'has no'} label of the {label}")
        is_gauge = is_of_replica or is_of_volume
        if is_gauge != (self.kind is MetricKind.GAUGE):
            raise ValueError(f"{self.quantity} is {'a gauge' if is_gauge else 'no gauge'}")
        return self

    @property
    def places(self) -> tuple[str, ...]:
        """The labels that name topic, partition or volume."""
        return tuple(label for label in (self.topic, self.partition, self.volume) if label is not None)

    @property
    def is_growth(self) -> bool:
        """Whether its growth within the window counts, not its last value."""
        return self.quantity is Quantity.LOG_END_OFFSET

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a series is one of this metric."""
        return (
            labels.get(NAME) == self.metric
            and all(labels.get(name) == value for name, value in self.labels.items())
            and not any(labels.get(name) for name in self.without)  # an empty label is none
            and all(labels.get(name) for name in self.places)
        )


class BrokerLabel(SettingsSection):
    """A label that names a broker. pattern: matches the whole label, with the group `id` or `host`."""

    label: str
    pattern: Annotated[re.Pattern[str], AfterValidator(_check_broker_pattern)]


class ExporterWithoutBytes(SettingsSection):
    """An exporter that does not count the bytes of brokers. metrics: a pattern of the names of its metrics."""

    exporter: str
    metrics: re.Pattern[str]


class MetricNames(SettingsSection):
    """All metrics that are read, in order of preference; and the labels of brokers."""

    names: tuple[MetricName, ...]
    brokers: tuple[BrokerLabel, ...]
    without_bytes: tuple[ExporterWithoutBytes, ...] = ()

    def find(self, labels: Mapping[str, str]) -> int | None:
        """Return the index of the first entry that a series matches, or None."""
        return next((index for index, one in enumerate(self.names) if one.matches(labels)), None)

    def find_without_bytes(self, metrics: Iterable[str]) -> list[str]:
        """Return the exporters without bytes that some of these metrics are of; each metric is of the first."""
        exporters = {
            next((one.exporter for one in self.without_bytes if one.metrics.fullmatch(metric)), None)
            for metric in metrics
        }
        return [one.exporter for one in self.without_bytes if one.exporter in exporters]


def parse_metric_names(text: str, origin: str) -> MetricNames:
    """Parse a file like conf/metrics.toml. Raises: SettingsError with the entry and what is wrong with it."""
    try:
        return MetricNames(**parse_toml(text, origin))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"{origin}: {place}: {problem}. See conf/metrics.toml for examples") from error


_MAX_ID = 2**31 - 1


class KnownBroker(NamedTuple):
    """A broker of the cluster; host: None = not known."""

    id: int
    host: str | None


class BrokerMatcher:
    """Finds brokers by the labels of series. Hosts that several brokers share name none of them."""

    def __init__(self, labels: Sequence[BrokerLabel], brokers: Sequence[KnownBroker] | None) -> None:
        """Index the brokers. brokers: all of the cluster; None = not known: every id is one of them, and no host."""
        self._labels = labels
        self._ids = None if brokers is None else {broker.id for broker in brokers}
        hosts = [(broker.host.lower(), broker.id) for broker in brokers or () if broker.host]
        uses = Counter(host for host, _ in hosts)
        self._by_host = {host: broker for host, broker in hosts if uses[host] == 1}

    def find(self, labels: Mapping[str, str]) -> int | None:
        """Return the broker that the labels of a series name, or None."""
        for one in self._labels:
            match = one.pattern.fullmatch(labels.get(one.label, ""))
            if match is None:
                continue
            groups = match.groupdict()
            broker = self._find_id(groups["id"]) if "id" in groups else self._by_host.get(groups["host"].lower())
            if broker is not None:
                return broker
        return None

    def _find_id(self, text: str) -> int | None:
        number = int(text) if len(text) <= 10 else _MAX_ID + 1
        is_known = number <= _MAX_ID if self._ids is None else number in self._ids
        return number if is_known else None
