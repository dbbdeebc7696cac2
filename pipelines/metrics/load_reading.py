"""Reads the loads of one cluster from what --metrics names, as a file of a source."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pipelines.config.metrics_settings import MetricsSettings, print_window
from pipelines.config.settings import read_conf_file
from pipelines.config.settings_text import fill_variables, read_settings_file
from pipelines.errors import SourceError
from pipelines.ingest.formats.topic_loads import LoadStatistic, TopicLoad, print_loads
from pipelines.metrics.load_collection import CollectedLoads, MeasuredSeries, collect_loads
from pipelines.metrics.load_csv import check_listed, is_csv
from pipelines.metrics.load_files import list_metrics, list_skipped, measure_files, read_csv_loads, read_files
from pipelines.metrics.metric_names import BrokerLabel, BrokerMatcher, KnownBroker, MetricNames, parse_metric_names
from pipelines.metrics.metrics_origin import MetricsOrigin
from pipelines.metrics.prometheus_server import PrometheusServer
from pipelines.metrics.series import Labels, Window
from udfs.plurals import join_names
from udfs.quantities import format_duration

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
