"""How and in which order the brokers that are down stopped, as metadata logs show it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.shard_facts import KRAFT_LOG
from pipelines.ingest.source_format import FactKind

_KINDS = (FactKind.BROKER, FactKind.BROKER_CHANGE, FactKind.BROKER_REMOVED)


class BrokerStops(NamedTuple):
    """Brokers that are fenced; of others, no source shows when and how they stopped."""

    order: tuple[int, ...] = ()  # the first to stop comes first
    shut_down: tuple[int, ...] = ()  # of these, those that were in a controlled shutdown
    lines: Mapping[int, tuple[str, int]] = MappingProxyType({})  # file and line that show the stop, by broker


def find_stops(facts: pa.Table) -> BrokerStops:
    """Find how brokers stopped. facts: of all files, each log in its order (schema SOURCED_FACTS)."""
    rows = facts.filter(pc.and_(pc.equal(facts["format"], KRAFT_LOG), pc.is_in(facts["kind"], pa.array(_KINDS))))
    names = ("kind", "broker_id", "fenced", "shutting_down", "source", "line_number")
    stopped: dict[int, bool] = {}  # whether in a controlled shutdown; in the order of stops
    lines: dict[int, tuple[str, int]] = {}
    leaving: set[int] = set()
    for kind, broker, fenced, shuts_down, *line in zip(*(rows[name].to_pylist() for name in names), strict=True):
        if kind == FactKind.BROKER or fenced is False:  # a process that starts, or that is live
            leaving.discard(broker)
            stopped.pop(broker, None)
        if shuts_down:
            leaving.add(broker)
        # A registered process is fenced until it is ready: that it stopped, only the log's snapshot can say.
        if fenced and (kind == FactKind.BROKER_CHANGE or shuts_down):
            stopped[broker], lines[broker] = broker in leaving, (line[0], line[1])
        elif kind == FactKind.BROKER_REMOVED:
            stopped.pop(broker, None)
    shut_down = tuple(broker for broker, clean in stopped.items() if clean)
    return BrokerStops(tuple(stopped), shut_down, {broker: lines[broker] for broker in stopped})
