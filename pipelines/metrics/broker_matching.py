"""Which broker of a cluster a series is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipelines.metrics.metric_names import BrokerLabel

_MAX_ID = 2**31 - 1


class KnownBroker(NamedTuple):
    """A broker of the cluster; host: None = not known."""

    id: int
    host: str | None


class BrokerMatcher:
    """Finds brokers by the labels of series. Hosts that several brokers share name none of them."""

    def __init__(self, labels: Sequence[BrokerLabel], brokers: Iterable[KnownBroker] | None) -> None:
        """Prepare the patterns. brokers: all of the cluster; None = not known: every id is one of them, and no host."""
        self._patterns = [(one.label, re.compile(one.pattern)) for one in labels]
        known = list(brokers or ())
        self._ids = None if brokers is None else {broker.id for broker in known}
        uses = Counter(broker.host.lower() for broker in known if broker.host)
        self._by_host = {broker.host.lower(): broker.id for broker in known if broker.host}
        self._shared = {host for host, count in uses.items() if count > 1}

    def find(self, labels: Mapping[str, str]) -> int | None:
        """Return the broker that the labels of a series name, or None."""
        for label, pattern in self._patterns:
            match = pattern.fullmatch(labels.get(label, ""))
            if match is None:
                continue
            groups = match.groupdict()
            broker = self._find_id(groups["id"]) if "id" in groups else self._find_host(groups["host"])
            if broker is not None:
                return broker
        return None

    def _find_id(self, text: str) -> int | None:
        number = int(text) if len(text) <= 10 else _MAX_ID + 1
        is_known = number <= _MAX_ID if self._ids is None else number in self._ids
        return number if is_known else None

    def _find_host(self, host: str) -> int | None:
        return None if host.lower() in self._shared else self._by_host.get(host.lower())
