"""Reads the loads of one cluster from what --metrics names, as a file of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pipelines.config.environment_variables import fill_variables
from pipelines.config.metrics_settings import MetricsSettings, print_window
from pipelines.config.settings import read_conf_file
from pipelines.config.settings_text import read_settings_file
from pipelines.errors import SourceError
from pipelines.ingest.formats.topic_loads import LoadStatistic, TopicLoad, print_loads
from pipelines.metrics.broker_matching import BrokerMatcher, KnownBroker
from pipelines.metrics.load_collection import CollectedLoads, collect_loads
from pipelines.metrics.load_csv import check_listed
from pipelines.metrics.load_files import measure_files, read_csv_loads, read_files
from pipelines.metrics.metric_names import BrokerLabel, MetricNames, parse_metric_names
from pipelines.metrics.metrics_origin import MetricsOrigin
from pipelines.metrics.prometheus_server import PrometheusServer, Window
from pipelines.quantities import format_duration

FILE_NAME = "loads-from-metrics.txt"
# The number at the end of the first part of a host name: kafka-2.example.com:9092, b-2.prod.kafka.eu-1.amazonaws.com, 2
_ID = r"(?:[^.:]*[^0-9.:])?(?P<id>[0-9]+)(?:[.:].*)?"
_HOST = r"(?P<host>.+?)(?::[0-9]+)?"
_MISSING_PART = 0.05  # of the window; less is not worth a warning


def read_loads(
    origin: MetricsOrigin, settings: MetricsSettings, cluster: str, brokers: Sequence[KnownBroker] | None, end: datetime
) -> list[str]:
    """Return the lines of a file with the loads of a cluster. end: of the window.

    brokers: those that should have loads; None = not known. Raises: SourceError, SettingsError.
    """
    names = _read_names(settings)
    matcher = BrokerMatcher(_select_broker_labels(settings, names), brokers)
    ids = [one.id for one in brokers or ()]
    labels = {**settings.labels, **({settings.cluster_label: cluster} if settings.cluster_label else {})}
    if origin.url is None:
        assert origin.path is not None
        loads = _read_files(origin.path, settings, names, labels, matcher, ids)
    else:
        loads = _ask_server(origin.url, settings, names, labels, matcher, ids, end)
    if loads.ambiguous:
        remedy = "If they are of two clusters, set metrics.cluster_label or metrics.labels"
        raise SourceError(str(origin), loads.ambiguous, remedy)
    if not loads.loads:
        raise SourceError(str(origin), _explain_no_loads(loads, labels), _NO_LOADS_REMEDY)
    statistic = LoadStatistic(settings.statistic)
    moment = end.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    header = str(origin)
    if any(isinstance(one, TopicLoad) for one in loads.loads):  # CSV has neither a window nor a statistic
        header += f", {print_window(settings.window)} until {moment}, {statistic}"
    return list(print_loads(header, loads.loads, loads.problems, statistic))


_NO_LOADS_REMEDY = "Check the names of the metrics and labels: settings [metrics] and conf/metrics.toml"


def _explain_no_loads(loads: CollectedLoads, labels: Mapping[str, str]) -> str:
    chosen = " with " + ", ".join(f'{name}="{value}"' for name, value in labels.items()) if labels else ""
    reasons = f" ({'; '.join(loads.problems)})" if loads.problems else ""
    return f"has no loads{chosen} within the window{reasons}"


def _read_names(settings: MetricsSettings) -> MetricNames:
    if settings.names_file:
        return parse_metric_names(read_settings_file(settings.names_file), settings.names_file)
    return parse_metric_names(read_conf_file("metrics.toml"), "conf/metrics.toml")


def _select_broker_labels(settings: MetricsSettings, names: MetricNames) -> Sequence[BrokerLabel]:
    if not settings.broker_label:
        return names.brokers
    pattern = _ID if settings.broker_value == "id" else _HOST
    return (BrokerLabel(label=settings.broker_label, pattern=pattern), *names.brokers)


def _read_files(
    path: Path,
    settings: MetricsSettings,
    names: MetricNames,
    labels: Mapping[str, str],
    matcher: BrokerMatcher,
    brokers: Sequence[int],
) -> CollectedLoads:
    texts = read_files(path)
    listed, csv_problems = check_listed(list(read_csv_loads(texts)), brokers)
    series = list(measure_files(texts, names, labels, settings.window))
    if listed and not series:
        return CollectedLoads(listed, csv_problems)
    measured = collect_loads(series, names, matcher, brokers)
    return replace(measured, loads=[*listed, *measured.loads], problems=[*csv_problems, *measured.problems])


def _ask_server(
    url: str,
    settings: MetricsSettings,
    names: MetricNames,
    labels: Mapping[str, str],
    matcher: BrokerMatcher,
    brokers: Sequence[int],
    end: datetime,
) -> CollectedLoads:
    headers = {name: fill_variables(text, f"metrics.headers.{name}") for name, text in settings.headers.items()}
    server = PrometheusServer(fill_variables(url, "--metrics"), labels, headers)
    window = Window(end.timestamp(), settings.window, min(settings.step, settings.window))
    first_s = server.find_first_sample(names, window)
    covered_s = window.length_s if first_s is None else max(round(window.end_s - first_s), 1)
    problems = []
    # The first sample is looked for in steps, and so may be a step too late.
    if covered_s < window.length_s - max(_MISSING_PART * window.length_s, 2 * window.step_s):
        problems = [
            f"the series cover only the last {format_duration(covered_s)} of the window: rates are of this time"
        ]
        window = replace(window, length_s=covered_s, step_s=min(window.step_s, covered_s))
    loads = collect_loads(server.measure(names, window), names, matcher, brokers)
    return replace(loads, problems=[*problems, *loads.problems])
