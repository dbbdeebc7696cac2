"""Loads from a Prometheus server: one query per metric over the window, so that it returns one value per series."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import requests

from pipelines.errors import SourceError
from pipelines.metrics.load_collection import MeasuredSeries
from pipelines.metrics.metric_names import NAME, MetricKind, MetricName, MetricNames, Quantity
from pipelines.warehouse_urls import redact_urls

_TIMEOUT_S = 120
_QUERY = "/api/v1/query"
_Result = dict[frozenset[tuple[str, str]], float]


class LoadStatistic(StrEnum):
    """Which of the rates within a window counts."""

    MEAN = "mean"
    P95 = "p95"
    PEAK = "peak"


_OVER_TIME = {
    LoadStatistic.MEAN: "avg_over_time(",
    LoadStatistic.P95: "quantile_over_time(0.95, ",
    LoadStatistic.PEAK: "max_over_time(",
}


@dataclass(frozen=True)
class Window:
    """The time whose loads count. step_s: seconds over which single rates are computed; a few scrapes at least."""

    end_s: float  # since 1970
    length_s: int
    step_s: int


@dataclass(frozen=True)
class PrometheusServer:
    """A server. url: as in http://prometheus:9090, with user and password if it needs them; labels: of the cluster."""

    url: str
    labels: Mapping[str, str]

    def measure(self, names: MetricNames, window: Window, statistic: LoadStatistic) -> Iterator[MeasuredSeries]:
        """Yield every series of the metrics. Raises: SourceError if the server does not answer as needed."""
        with requests.Session() as session:
            for name in names.names:
                selector = _write_selector(name, self.labels)
                values = self._query(session, _write_query(name, selector, window, statistic), window)
                if not values:
                    continue
                counts = self._query(session, f"count_over_time({selector}[{window.length_s}s])", window)
                is_counter = name.kind is MetricKind.COUNTER
                resets = self._query(session, f"resets({selector}[{window.length_s}s])", window) if is_counter else {}
                for labels, count in counts.items():
                    value, reset = values.get(labels), int(resets.get(labels, 0))
                    yield MeasuredSeries({NAME: name.metric, **dict(labels)}, value, int(count), reset)

    def _query(self, session: requests.Session, query: str, window: Window) -> _Result:
        """Return one number per series, by its labels without the name."""
        try:
            answer = session.post(
                self.url.rstrip("/") + _QUERY, data={"query": query, "time": window.end_s}, timeout=_TIMEOUT_S
            )
            content = answer.json()
        except requests.exceptions.JSONDecodeError:
            problem = f"answers with HTTP {answer.status_code} and no JSON"
            raise self._fail(problem, "Give the address of a Prometheus, as in http://prometheus:9090") from None
        except requests.RequestException as error:
            problem = f"does not answer ({type(error).__name__})"
            raise self._fail(problem, "Check the address, and whether it can be reached from here") from None
        if content.get("status") != "success":
            problem = f"rejects a query with HTTP {answer.status_code}: {content.get('error', 'no reason')}"
            raise self._fail(problem, "Shorten --window, or raise the server's limits")
        return {
            frozenset((key, value) for key, value in one["metric"].items() if key != NAME): float(one["value"][1])
            for one in content["data"]["result"]
            if one["value"][1] not in ("NaN", "+Inf", "-Inf")
        }

    def _fail(self, problem: str, remedy: str) -> SourceError:
        return SourceError(redact_urls(f"prometheus={self.url}"), redact_urls(problem), remedy)


def _write_selector(name: MetricName, labels: Mapping[str, str]) -> str:
    """Write the selector of a metric's series."""
    matchers = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in {**labels, **name.labels}.items()]
    matchers += [f'{key}=""' for key in name.without]
    matchers += [f'{key}!=""' for key in (name.topic, name.partition) if key is not None]
    return f"{name.metric}{{{','.join(matchers)}}}"


def _write_query(name: MetricName, selector: str, window: Window, statistic: LoadStatistic) -> str:
    """Write the query of the one value of each series."""
    length = f"[{window.length_s}s]"
    if name.partition is not None:
        growth_or_last = "delta" if name.quantity is Quantity.LOG_END_OFFSET else "last_over_time"
        return f"{growth_or_last}({selector}{length})"
    if name.kind is MetricKind.RATE:
        return f"{_OVER_TIME[statistic]}{selector}{length})"
    if statistic is LoadStatistic.MEAN:
        return f"rate({selector}{length})"
    return f"{_OVER_TIME[statistic]}rate({selector}[{window.step_s}s])[{window.length_s}s:{window.step_s}s])"
