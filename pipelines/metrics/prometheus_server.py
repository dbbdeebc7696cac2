"""Loads from a Prometheus server: one query per metric over the window, so that it returns one value per series."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import requests

from pipelines.errors import SourceError
from pipelines.ingest.formats.topic_loads import NO_RATES, LoadStatistic, WindowRates
from pipelines.metrics.load_collection import MeasuredSeries
from pipelines.metrics.metric_names import NAME, TOTALS, MetricKind, MetricName, MetricNames
from pipelines.metrics.series import SeriesSet, Window, find_scrape_interval
from pipelines.warehouse_urls import redact_urls

_TIMEOUT_S = 120
_QUERY = "/api/v1/query"
_LOOK_BACK = "[3600s]"  # before the end of the window, for the time between two scrapes
_Result = dict[frozenset[tuple[str, str]], float]


# How a server rejects a query for which it would load too many samples at once.
_TOO_MANY = "too many samples"


@dataclass(frozen=True)
class PrometheusServer:
    """A server. url: as in http://prometheus:9090, with user and password if it needs them; labels: of the cluster.

    headers: of requests, as a server with tokens or tenants needs them.
    """

    url: str
    labels: Mapping[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)
    _session: requests.Session = field(default_factory=requests.Session)

    def measure(self, names: MetricNames, window: Window) -> Iterator[MeasuredSeries]:
        """Yield every series of the metrics. Raises: SourceError if the server does not answer as needed."""
        for name in names.names:
            yield from self._measure_metric(name, window)

    def find_scrape_interval(self, names: MetricNames, end_s: float) -> float | None:
        """Return the usual seconds between two scrapes of a broker; None = unknown."""
        for name in _list_totals(names):
            result = self._fetch(_write_selector(name, self.labels) + _LOOK_BACK, end_s)
            samples = [np.array(one["values"], dtype=np.float64).T for one in result]
            times, values = zip(*samples, strict=True) if samples else ((), ())
            scrape_s = find_scrape_interval(SeriesSet.of_samples([one["metric"] for one in result], times, values))
            if scrape_s is not None:
                return scrape_s
        return None

    def find_without_bytes(self, names: MetricNames, end_s: float) -> list[str]:
        """Return the exporters without bytes whose metrics the server has."""
        if not names.without_bytes:
            return []
        pattern = json.dumps("|".join(one.metrics.pattern for one in names.without_bytes))
        query = f"group by ({NAME}) ({{{','.join([f'{NAME}=~{pattern}', *_write_matchers(self.labels)])}}})"
        return names.find_without_bytes(one["metric"][NAME] for one in self._fetch(query, end_s))

    def find_ends(self, names: MetricNames, window: Window) -> tuple[float | None, float | None]:
        """Return when the first and the last sample of brokers' totals within the window are; None = there is none."""
        for name in _list_totals(names):
            times = f"timestamp({_write_selector(name, self.labels)}){window.length[:-1]}:{_print_ms(window.step_ms)}]"
            queries = (f"{function}({function}_over_time({times}))" for function in ("min", "max"))
            first, last = (self._query(query, window.end_s) for query in queries)
            if first or last:
                return next(iter(first.values()), None), next(iter(last.values()), None)
        return None, None

    def _measure_metric(self, name: MetricName, window: Window) -> Iterator[MeasuredSeries]:
        selector = _write_selector(name, self.labels)
        counts = self._query(f"count_over_time({selector}{window.length})", window.end_s)
        if not counts:
            return
        rates, values, resets = {}, _Result(), _Result()
        if name.kind is MetricKind.GAUGE:
            function = "delta" if name.is_growth else "last_over_time"
            values = self._query(f"{function}({selector}{window.length})", window.end_s)
        else:
            rates = {one: self._query_rates(name, window, one) for one in LoadStatistic}
        if name.kind is MetricKind.COUNTER:
            resets = self._query(f"resets({selector}{window.length})", window.end_s)
        for labels, count in counts.items():
            of_series = WindowRates(*(rates[one].get(labels) for one in LoadStatistic)) if rates else NO_RATES
            known = {NAME: name.metric, **dict(labels)}
            yield MeasuredSeries(known, of_series, values.get(labels), int(count), int(resets.get(labels, 0)))

    def _query_rates(self, name: MetricName, window: Window, statistic: LoadStatistic) -> _Result:
        """Return the rate of each series; scrape target by scrape target, if all are too much for the server."""
        selector = _write_selector(name, self.labels)
        try:
            return self._query(*_write_rate_query(name, selector, window, statistic))
        except SourceError as error:
            if _TOO_MANY not in str(error):
                raise
        out: _Result = {}
        query = f"group by (job, instance) (last_over_time({selector}{window.length}))"
        for group in self._query(query, window.end_s):
            of_target = _write_selector(name, {**self.labels, **dict(sorted(group))})
            out |= self._query(*_write_rate_query(name, of_target, window, statistic))
        return out

    def _query(self, query: str, time_s: float) -> _Result:
        """Return one number per series, by its labels without the name."""
        return {
            frozenset((key, value) for key, value in one["metric"].items() if key != NAME): float(one["value"][1])
            for one in self._fetch(query, time_s)
            if one["value"][1] not in ("NaN", "+Inf", "-Inf")
        }

    def _fetch(self, query: str, time_s: float) -> list[dict[str, Any]]:
        """Return the series of an answer, as the server writes them."""
        try:
            answer = self._session.post(
                self.url.rstrip("/") + _QUERY,
                data={"query": query, "time": time_s},
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
        return cast(list[dict[str, Any]], content["data"]["result"])

    def _fail(self, problem: str, remedy: str) -> SourceError:
        return SourceError(redact_urls(f"prometheus={self.url}"), redact_urls(problem), remedy)


def _write_selector(name: MetricName, labels: Mapping[str, str]) -> str:
    """Write the selector of a metric's series."""
    matchers = _write_matchers({**labels, **name.labels})
    matchers += [f'{key}=""' for key in name.without]
    matchers += [f'{key}!=""' for key in name.places]
    return f"{name.metric}{{{','.join(matchers)}}}"


def _write_matchers(labels: Mapping[str, str]) -> list[str]:
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in labels.items()]


def _write_rate_query(name: MetricName, selector: str, window: Window, statistic: LoadStatistic) -> tuple[str, float]:
    """Write the query of a rate, and the time at which it is to be evaluated.

    Subqueries evaluate their inner expression at multiples of the step since 1970, wherever the window is. An offset
    moves what is read there, so that the last step ends with the window, and the first one begins in it.
    """
    function = "rate" if name.kind is MetricKind.COUNTER else "avg_over_time"
    if statistic is LoadStatistic.MEAN:
        return f"{function}({selector}{window.length})", window.end_s
    end_ms, step_ms = round(1_000 * window.end_s), window.step_ms
    offset_ms = -end_ms % step_ms
    length = f"[{_print_ms(step_ms + window.margin_ms)}]" + (f" offset {_print_ms(offset_ms)}" if offset_ms else "")
    # Half a step more: servers differ in whether a range has both of its ends.
    steps = f"[{_print_ms((window.steps - 1) * step_ms + step_ms // 2)}:{_print_ms(step_ms)}]"
    over_time = "max_over_time(" if statistic is LoadStatistic.PEAK else f"quantile_over_time({window.p95_rank!r}, "
    return f"{over_time}{function}({selector}{length}){steps})", (end_ms + offset_ms) / 1_000


def _list_totals(names: MetricNames) -> list[MetricName]:
    return [one for one in names.names if one.quantity in TOTALS]


def _print_ms(milliseconds: int) -> str:
    return f"{milliseconds}ms" if milliseconds % 1_000 else f"{milliseconds // 1_000}s"
