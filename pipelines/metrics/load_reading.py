"""Reads the loads of one cluster from what --metrics names, as a file of a source."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import requests

from pipelines.config.setting_sections import MetricsSettings, print_window
from pipelines.config.setting_types import fill_variables, read_settings_file
from pipelines.config.settings import read_conf_file
from pipelines.errors import SourceError
from pipelines.ingest.formats.topic_loads import NO_RATES, LoadStatistic, TopicLoad, WindowRates, print_loads
from pipelines.metrics.load_collection import CollectedLoads, MeasuredSeries, collect_loads
from pipelines.metrics.load_files import (
    check_listed,
    is_csv,
    list_metrics,
    list_skipped,
    measure_files,
    read_csv_loads,
    read_files,
)
from pipelines.metrics.metric_names import (
    NAME,
    TOTALS,
    BrokerLabel,
    BrokerMatcher,
    KnownBroker,
    MetricKind,
    MetricName,
    MetricNames,
    parse_metric_names,
)
from pipelines.metrics.metrics_origin import MetricsOrigin
from pipelines.metrics.series import Labels, SeriesSet, Window, find_scrape_interval
from pipelines.warehouse_urls import redact_urls
from udfs.wording import format_duration, join_names

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


FILE_NAME = "loads-from-metrics.txt"
# The number at the end of the first part of a host name: kafka-2.example.com:9092, b-2.prod.kafka.eu-1.amazonaws.com, 2
_ID = re.compile(r"(?:[^.:]*[^0-9.:])?(?P<id>[0-9]+)(?:[.:].*)?")
_HOST = re.compile(r"(?P<host>.+?)(?::[0-9]+)?")
_MAX_NAMED = 5
_Collect = Callable[[Iterable[MeasuredSeries]], CollectedLoads]
_MISSING_PART = 0.05  # of the window; less is not worth a warning


def read_loads(
    origin: MetricsOrigin, settings: MetricsSettings, cluster: str, brokers: Sequence[KnownBroker] | None, end: datetime
) -> list[str]:
    """Return the lines of a file with the loads of a cluster. end: of the window.

    brokers: those that should have loads; None = not known. Raises: SourceError, SettingsError.
    """
    text = read_settings_file(settings.names_file) if settings.names_file else read_conf_file("metrics.toml")
    names = parse_metric_names(text, settings.names_file or "conf/metrics.toml")
    pattern = _ID if settings.broker_value == "id" else _HOST
    own_label = [BrokerLabel(label=settings.broker_label, pattern=pattern)] if settings.broker_label else []
    matcher = BrokerMatcher([*own_label, *names.brokers], brokers)
    ids = [one.id for one in brokers or ()]
    labels = {**settings.labels, **({settings.cluster_label: cluster} if settings.cluster_label else {})}
    collect = partial(collect_loads, names=names, matcher=matcher, brokers=ids)
    if origin.path is not None:
        loads = _read_files(origin.path, settings, names, labels, collect, ids)
    else:
        loads = _ask_server(origin.url or "", settings, names, labels, collect, end)
    if loads.ambiguous:
        remedy = "If they are of two clusters, set metrics.cluster_label or metrics.labels"
        raise SourceError(str(origin), loads.ambiguous, remedy)
    if not loads.loads:
        raise SourceError(str(origin), *_explain_no_loads(loads, labels))
    if loads.without_bytes:
        loads.problems.append(f"there are {_describe_exporters(loads)}. {_NO_BYTES_REMEDY}")
    statistic = LoadStatistic(settings.statistic)
    moment = _print_moment(end) if origin.url else "the last sample"
    header = str(origin)
    if any(isinstance(one, TopicLoad) for one in loads.loads):  # CSV has neither a window nor a statistic
        header += f", {print_window(settings.window)} until {moment}, {statistic}"
    return list(print_loads(header, loads.loads, loads.problems, statistic))


_NO_BYTES_REMEDY = (
    "Scrape the brokers themselves, as jmx_exporter does, or write their bytes per second into a CSV file"
)


def _explain_no_loads(loads: CollectedLoads, labels: Labels) -> tuple[str, str]:
    """Return the problem and its remedy."""
    chosen = " with " + ", ".join(f'{name}="{value}"' for name, value in labels.items()) if labels else ""
    problem = f"has no loads{chosen} within the window"
    if loads.without_bytes:
        return f"{problem}, but {_describe_exporters(loads)}", _NO_BYTES_REMEDY
    problem += f" ({'; '.join(loads.problems)})" if loads.problems else ""
    if loads.unmatched:
        return problem, "Name the label that has the id of the broker, or its host: --set metrics.broker_label=LABEL"
    return problem, "Check the names of the metrics and labels: settings [metrics] and conf/metrics.toml"


def _describe_exporters(loads: CollectedLoads) -> str:
    verb = "counts" if len(loads.without_bytes) == 1 else "count"
    return f"metrics of {join_names(loads.without_bytes)}, which {verb} no bytes per broker"


def _print_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_files(
    path: Path, settings: MetricsSettings, names: MetricNames, labels: Labels, collect: _Collect, brokers: Sequence[int]
) -> CollectedLoads:
    texts = read_files(path)
    listed, problems = check_listed(list(read_csv_loads(texts)), brokers)
    if skipped := list_skipped(path):
        problems.append(f"only files directly in the folder are read, not {join_names(skipped, _MAX_NAMED)}")
    series = list(measure_files(texts, names, labels, settings.window, settings.step))
    if listed and not series:
        if others := [file.name for file, text in texts.items() if not is_csv(text)]:
            problems.append(f"no metric of {join_names(others, _MAX_NAMED)} gives loads")
        return CollectedLoads([*listed], problems)
    measured = collect(series)
    if not listed and not measured.has_rates:
        measured.without_bytes = names.find_without_bytes(list_metrics(texts))
    return replace(measured, loads=[*listed, *measured.loads], problems=[*problems, *measured.problems])


def _ask_server(
    url: str, settings: MetricsSettings, names: MetricNames, labels: Labels, collect: _Collect, end: datetime
) -> CollectedLoads:
    headers = {name: fill_variables(text, f"metrics.headers.{name}") for name, text in settings.headers.items()}
    server = PrometheusServer(fill_variables(url, "--metrics"), labels, headers)
    end_s = round(end.timestamp(), 3)
    window = Window(end_s, settings.window, settings.step, server.find_scrape_interval(names, end_s))
    window.check(str(MetricsOrigin(url, None)))
    window, problems = _limit_window(server, names, window)
    loads = collect(server.measure(names, window))
    if not loads.has_rates:
        loads.without_bytes = server.find_without_bytes(names, window.end_s)
    return replace(loads, problems=[*problems, *loads.problems])


def _limit_window(server: PrometheusServer, names: MetricNames, window: Window) -> tuple[Window, list[str]]:
    """Return the part of a window that has samples, and sentences on what is missing.

    Samples are looked for in steps, and so may be found up to a step too late or too early.
    """
    first_s, last_s = server.find_ends(names, window)
    if first_s is None or last_s is None:
        return window, []
    problems, begin_s, end_s, step_s = [], window.end_s - window.length_s, window.end_s, window.step_ms / 1_000
    if last_s + step_s + window.margin_ms / 1_000 < end_s:
        ended = _print_moment(datetime.fromtimestamp(last_s, UTC))
        problems.append(f"the series end at {ended}: rates are of the time before")
        end_s = last_s
    if begin_s + step_s < first_s:
        begin_s = first_s
        if (missing_s := first_s - window.end_s + window.length_s) > _MISSING_PART * window.length_s:
            covered = format_duration(round(window.length_s - missing_s))
            problems.append(f"the series cover only the last {covered} of the window: rates are of this time")
    return replace(window, end_s=end_s, length_s=max(math.ceil(end_s - begin_s), 1)), problems
