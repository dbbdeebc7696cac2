"""Loads from a Prometheus server: one query per metric over the window, so that it returns one value per series."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import requests

from pipelines.errors import SourceError
from pipelines.ingest.formats.topic_loads import NO_RATES, LoadStatistic, WindowRates
from pipelines.metrics.load_collection import MeasuredSeries
from pipelines.metrics.metric_names import NAME, MetricKind, MetricName, MetricNames
from pipelines.warehouse_urls import redact_urls

_TIMEOUT_S = 120
_QUERY = "/api/v1/query"
_Result = dict[frozenset[tuple[str, str]], float]


_OVER_TIME = {
    LoadStatistic.MEAN: "avg_over_time(",
    LoadStatistic.P95: "quantile_over_time(0.95, ",
    LoadStatistic.PEAK: "max_over_time(",
}
# How a server rejects a query for which it would load too many samples at once.
_TOO_MANY = "too many samples"


@dataclass(frozen=True)
class Window:
    """The time whose loads count. step_s: seconds over which single rates are computed; a few scrapes at least."""

    end_s: float  # since 1970
    length_s: int
    step_s: int

    @property
    def length(self) -> str:
        """The window, as a query names it."""
        return f"[{self.length_s}s]"


@dataclass(frozen=True)
class PrometheusServer:
    """A server. url: as in http://prometheus:9090, with user and password if it needs them; labels: of the cluster.

    headers: of requests, as a server with tokens or tenants needs them.
    """

    url: str
    labels: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)

    def measure(self, names: MetricNames, window: Window) -> Iterator[MeasuredSeries]:
        """Yield every series of the metrics. Raises: SourceError if the server does not answer as needed."""
        with requests.Session() as session:
            for name in names.names:
                yield from self._measure_metric(session, name, window)

    def find_first_sample(self, names: MetricNames, window: Window) -> float | None:
        """Return when the first sample of any broker's total within the window is; None = there is none."""
        totals = [one for one in names.names if one.topic is None]
        with requests.Session() as session:
            for name in totals:
                times = f"timestamp({_write_selector(name, self.labels)})"
                query = f"min(min_over_time({times}[{window.length_s}s:{window.step_s}s]))"
                if first := self._query(session, query, window):
                    return min(first.values())
        return None

    def _measure_metric(self, session: requests.Session, name: MetricName, window: Window) -> Iterator[MeasuredSeries]:
        selector = _write_selector(name, self.labels)
        counts = self._query(session, f"count_over_time({selector}{window.length})", window)
        if not counts:
            return
        rates, values, resets = {}, _Result(), _Result()
        if name.kind is MetricKind.GAUGE:
            values = self._query(session, _write_gauge_query(name, selector, window), window)
        else:
            rates = {one: self._query_rates(session, name, window, one) for one in LoadStatistic}
        if name.kind is MetricKind.COUNTER:
            resets = self._query(session, f"resets({selector}{window.length})", window)
        for labels, count in counts.items():
            of_series = WindowRates(*(rates[one].get(labels) for one in LoadStatistic)) if rates else NO_RATES
            known = {NAME: name.metric, **dict(labels)}
            yield MeasuredSeries(known, of_series, values.get(labels), int(count), int(resets.get(labels, 0)))

    def _query_rates(
        self, session: requests.Session, name: MetricName, window: Window, statistic: LoadStatistic
    ) -> _Result:
        """Return the rate of each series; scrape target by scrape target, if all are too much for the server."""
        selector = _write_selector(name, self.labels)
        try:
            return self._query(session, _write_rate_query(name, selector, window, statistic), window)
        except SourceError as error:
            if _TOO_MANY not in str(error):
                raise
        out: _Result = {}
        groups = self._query(session, f"group by (job, instance) (last_over_time({selector}{window.length}))", window)
        for group in groups:
            of_target = _write_selector(name, {**self.labels, **dict(sorted(group))})
            out |= self._query(session, _write_rate_query(name, of_target, window, statistic), window)
        return out

    def _query(self, session: requests.Session, query: str, window: Window) -> _Result:
        """Return one number per series, by its labels without the name."""
        try:
            answer = session.post(
                self.url.rstrip("/") + _QUERY,
                data={"query": query, "time": window.end_s},
                headers=dict(self.headers),
                timeout=_TIMEOUT_S,
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
    matchers += [f'{key}!=""' for key in name.places]
    return f"{name.metric}{{{','.join(matchers)}}}"


def _write_gauge_query(name: MetricName, selector: str, window: Window) -> str:
    """Write the query of a gauge: how much an offset grew, or the last of other values."""
    function = "delta" if name.is_growth else "last_over_time"
    return f"{function}({selector}{window.length})"


def _write_rate_query(name: MetricName, selector: str, window: Window, statistic: LoadStatistic) -> str:
    if name.kind is MetricKind.RATE:
        return f"{_OVER_TIME[statistic]}{selector}{window.length})"
    if statistic is LoadStatistic.MEAN:
        return f"rate({selector}{window.length})"
    return f"{_OVER_TIME[statistic]}rate({selector}[{window.step_s}s])[{window.length_s}s:{window.step_s}s])"
