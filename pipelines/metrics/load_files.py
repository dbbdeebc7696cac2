"""Loads from files: scrapes of exporters, answers of Prometheus, or CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from pipelines.errors import SourceError
from pipelines.ingest.formats import checked_values as check
from pipelines.ingest.formats.topic_loads import NO_RATES, WindowRates
from pipelines.ingest.source_format import Fact, FactKind
from pipelines.ingest.text import read_text
from pipelines.metrics import series as series_sets
from pipelines.metrics.load_collection import MeasuredSeries
from pipelines.metrics.metric_names import NAME, MetricKind, MetricNames
from udfs.arrow.ragged import row_of
from udfs.wording import join_names

COLUMNS = ("topic", "broker_id", "partition", "bytes_in_per_s", "bytes_out_per_s", "size_bytes")
_MAX_NAMED = 5
_PLACES = "topic and broker_id, broker_id alone, or topic and partition"
_CSV_REMEDY = f"Write a header with some of {', '.join(COLUMNS)}, and a row per {_PLACES}"


def is_csv(text: str) -> bool:
    """Return whether a text begins with a CSV header, and so is neither text nor JSON of Prometheus."""
    names = {name.strip() for name in text.lstrip("\ufeff").partition("\n")[0].split(",")}
    return len(names) > 1 and bool(names & {"topic", "broker_id"})


def parse_csv(path: Path, text: str) -> Iterator[Fact]:
    """Yield the loads of a CSV file. Raises: SourceError with the line, the value and the remedy."""
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff")))
    names = [name.strip() for name in next(reader)]
    if unknown := [name for name in names if name not in COLUMNS]:
        raise SourceError(f"{path}, line 1", f"there is no column {unknown[0]!r}", _CSV_REMEDY)
    if len(set(names)) < len(names) or not set(names) & set(COLUMNS[3:]):
        raise SourceError(f"{path}, line 1", "a column is there twice, or there are no loads", _CSV_REMEDY)
    seen = set[tuple[object, ...]]()
    for cells in reader:
        row = {name: cell.strip() for name, cell in zip(names, cells, strict=False)}
        if not any(row.values()):
            continue
        try:
            if len(cells) != len(names):
                raise check.unparsable(f"has {len(cells)} cells, but the header has {len(names)}")
            place = (*(row.get(name, "") for name in COLUMNS[:3]), bool(row.get("size_bytes")))
            if place in seen:
                raise check.unparsable("its topic, broker and partition are there twice")
            seen.add(place)
            yield from _parse_row(row)
        except check.BadValueError as error:
            raise SourceError(
                f"{path}, line {reader.line_num}", str(error).removeprefix("unparsable: "), _CSV_REMEDY
            ) from None


def _parse_row(row: dict[str, str]) -> Iterator[Fact]:
    values = check.read_columns({name: row.get(name) or None for name in COLUMNS})
    topic, broker, partition, rate_in, rate_out, size = (values[name] for name in COLUMNS)
    has_rates = rate_in is not None or rate_out is not None
    if size is not None:
        if topic is None or broker is None or partition is None:
            raise check.unparsable("size_bytes needs topic, partition and broker_id: it is the size of a replica")
        replica = {"topic": topic, "partition": partition, "broker_id": broker}
        yield FactKind.REPLICA_SIZE, {**replica, "size_bytes": size}
    if not has_rates:
        return
    if (topic is None and partition is not None) or (broker is None) == (partition is None):
        raise check.unparsable(f"bytes per second are of {_PLACES}")
    rates = {"bytes_in_per_s": rate_in, "bytes_out_per_s": rate_out}
    yield FactKind.LOAD, {"topic": topic, "broker_id": broker, "partition": partition, **rates}


def check_listed(loads: Sequence[Fact], brokers: Collection[int]) -> tuple[list[Fact], list[str]]:
    """Return the loads of brokers of the cluster, and sentences on what is odd. brokers: none = not known."""
    listed = {values["broker_id"] for kind, values in loads if kind == FactKind.LOAD} - {None}
    others = listed - {*brokers} if brokers else set()
    own = [(kind, values) for kind, values in loads if kind != FactKind.LOAD or values["broker_id"] not in others]
    problems = []
    if others:
        problems.append(
            f"rows of brokers that the cluster lacks are not used: {join_names(sorted(map(str, others)), 5)}"
        )
    if listed - others and (silent := sorted({*brokers} - listed)):
        problems.append(f"no rows of brokers {join_names(silent, _MAX_NAMED)}")
    return own, problems


_PROMETHEUS_REMEDY = "Give what an exporter prints, or an answer of /api/v1/query or /api/v1/query_range"


class MetricsFile(NamedTuple):
    """A file. time_s: seconds since 1970, of samples without a time; labels: added to series that lack them."""

    path: Path
    text: str
    time_s: float
    labels: Mapping[str, str]


def read_series(files: Iterable[MetricsFile]) -> series_sets.SeriesSet:
    """Read the series of files, as one set.

    Raises: SourceError for a file that is neither text nor JSON of Prometheus.
    """
    labels: list[dict[str, str]] = []
    times, values = [], []
    for file in files:
        path, text = str(file.path), file.text
        read = _read_json(path, text) if text.lstrip().startswith("{") else _read_text(path, text, file.time_s)
        for one, time, value in read:
            labels.append({**file.labels, **one})
            times.append(np.asarray(time, dtype=np.float64))
            values.append(np.asarray(value, dtype=np.float64))
    return series_sets.SeriesSet.of_samples(labels, times, values)


_Sample = tuple[dict[str, str], list[float], list[float]]  # labels, times, values


def _read_text(path: str, text: str, time_s: float) -> list[_Sample]:
    try:
        families = list(text_string_to_metric_families(text))
    except ValueError as error:
        raise SourceError(path, f"is no text of Prometheus: {error}", _PROMETHEUS_REMEDY) from None
    return [
        (
            {NAME: sample.name, **sample.labels},
            [time_s if sample.timestamp is None else float(sample.timestamp)],
            [float(sample.value)],
        )
        for family in families
        for sample in family.samples
    ]


def _read_json(path: str, text: str) -> list[_Sample]:
    try:
        answer = json.loads(text)
        if answer["status"] != "success":
            raise SourceError(path, f"Prometheus answered: {answer.get('error', answer['status'])}", _PROMETHEUS_REMEDY)
        kind, result = answer["data"]["resultType"], answer["data"]["result"]
        if kind not in ("matrix", "vector"):
            raise SourceError(
                path, f"is an answer with a {kind}, but loads need a matrix or a vector", _PROMETHEUS_REMEDY
            )
        rows: list[_Sample] = []
        for one in result:
            samples = one["values"] if kind == "matrix" else [one["value"]]
            rows.append((one["metric"], [float(time) for time, _ in samples], [float(value) for _, value in samples]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"is no answer of Prometheus's query API ({type(error).__name__}: {error})"
        raise SourceError(path, problem, _PROMETHEUS_REMEDY) from None
    return rows


# A scrape does not say which broker it is of, and when it was made. The name of its file may: broker-2-1764200000.prom
_BROKER = re.compile(r"(?:.*[^0-9])?(?:broker|kafka|node)[-_]?(?P<id>[0-9]{1,10})(?:[^0-9].*)?", re.I)
_BROKER_LABEL = "broker_id"
_TARGET = (NAME, "name", "job", "instance", _BROKER_LABEL)  # labels of a metric of a scrape
# What a paste has around it: a fence of Markdown, the command that printed it.
_AROUND = re.compile(r"^[ \t>]*+(?:`{3,}+|~{3,}+|\$ )[^\n]*+\n?", re.M)
_TIME = re.compile(r".*[^0-9](?P<seconds>1[0-9]{9})")  # seconds since 1970


def read_files(path: Path) -> dict[Path, str]:
    """Return the text of a file, or of the files of a folder. Raises: SourceError for an empty folder."""
    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.is_file() and not one.name.startswith("."))
    if not files:
        raise SourceError(str(path), "the folder has no files", "Name a file, or a folder with files of metrics")
    return {one: _AROUND.sub("", read_text(one)) for one in files}


def list_skipped(path: Path) -> list[str]:
    """Return the names of the sub-folders of a folder, whose files are not read."""
    return sorted(f"{one.name}/" for one in path.iterdir() if one.is_dir()) if path.is_dir() else []


def read_csv_loads(texts: Mapping[Path, str]) -> Iterator[Fact]:
    """Yield the loads of the CSV files among these."""
    for path, text in texts.items():
        if is_csv(text):
            yield from parse_csv(path, text)


def list_metrics(texts: Mapping[Path, str]) -> list[str]:
    """Return the names of all metrics of the other files."""
    return sorted({one[NAME] for one in _read_series(texts).labels if NAME in one})


def _read_series(texts: Mapping[Path, str]) -> series_sets.SeriesSet:
    return read_series(
        MetricsFile(path, text, _find_time(path), _find_labels(path))
        for path, text in texts.items()
        if not is_csv(text)
    )


def measure_files(
    texts: Mapping[Path, str], names: MetricNames, labels: Mapping[str, str], window_s: int, step_s: float = math.inf
) -> Iterator[MeasuredSeries]:
    """Yield the series of the other files that have these labels, within the window before the last sample.

    step_s: the longest step of the window. Raises: SourceError for a file that cannot be read, or if the window has too
    few scrapes.
    """
    series = _select_labels(_read_series(texts), names, labels)
    kinds = [None if (at := names.find(one)) is None else names.names[at].kind for one in series.labels]
    is_counter = np.array([kind is MetricKind.COUNTER for kind in kinds], dtype=np.bool_)
    scrape_s = series_sets.find_scrape_interval(
        series.take([row for row, kind in enumerate(kinds) if kind is not MetricKind.GAUGE])
    )
    window, series = _select_window(series, window_s, step_s, scrape_s, join_names(texts))
    target = _number_targets(series)
    covered_s = _find_covered(series, target)
    series = series_sets.begin_at_zero(series, is_counter, target)
    rates = series_sets.summarise_rates(series, is_counter)
    p95, peak = series_sets.summarise_steps(series, is_counter, window)
    p95, peak = np.where(np.isnan(p95), rates.p95, p95), np.where(np.isnan(peak), rates.peak, peak)
    observed = np.where(is_counter, rates.observed_s / np.maximum(covered_s, 1e-9), 1.0)  # part of the window
    mean = rates.mean * observed
    first, last = _find_ends(series)
    for row, (one, kind) in enumerate(zip(series.labels, kinds, strict=True)):
        samples = int(series.offsets[row + 1] - series.offsets[row])
        if not samples:
            continue
        if kind is MetricKind.GAUGE:
            entry = names.names[names.find(one) or 0]
            value = last[row] - first[row] if entry.is_growth else last[row]
            known = samples > 1 or not entry.is_growth
            yield MeasuredSeries(one, NO_RATES, float(value) if known else None, samples)
        else:
            numbers = (mean[row], p95[row], peak[row])
            of_window = WindowRates(*(None if np.isnan(number) else float(number) for number in numbers))
            yield MeasuredSeries(one, of_window, None, samples, int(rates.resets[row]), int(rates.gaps[row]))


def _select_window(
    series: series_sets.SeriesSet, window_s: int, step_s: float, scrape_s: float | None, place: str
) -> tuple[series_sets.Window, series_sets.SeriesSet]:
    """Return the window before the last sample, no longer than the samples, and the samples in it."""
    end_s, begin_s = float(series.times_s.max(initial=0)), float(series.times_s.min(initial=np.inf))
    window = series_sets.Window(end_s, window_s, step_s, scrape_s)
    window.check(place, max(end_s - begin_s, 0))
    series = series.select(end_s - window_s, end_s)
    covered_s = end_s - float(series.times_s.min(initial=end_s))  # no sample is before the first one
    return replace(window, length_s=min(window_s, covered_s + window.margin_ms / 1_000)), series


def _find_time(path: Path) -> float:
    """Return the time in the name of a file, else when it was written."""
    match = _TIME.fullmatch(path.stem)
    return float(match["seconds"]) if match else path.stat().st_mtime


def _find_labels(path: Path) -> dict[str, str]:
    match = _BROKER.fullmatch(path.stem)
    return {_BROKER_LABEL: match["id"]} if match else {}


def _select_labels(
    series: series_sets.SeriesSet, names: MetricNames, labels: Mapping[str, str]
) -> series_sets.SeriesSet:
    """Return the series of metrics that are read, with these labels."""
    return series.take(
        [
            row
            for row, one in enumerate(series.labels)
            if names.find(one) is not None and all(one.get(name) == value for name, value in labels.items())
        ]
    )


def _find_covered(series: series_sets.SeriesSet, target: series_sets.Ints) -> series_sets.Floats:
    """Return the seconds from the first sample of each series' target to its last: float64 (n)."""
    row = row_of(series.offsets)
    first, last = np.full(target.max(initial=-1) + 1, np.inf), np.full(target.max(initial=-1) + 1, -np.inf)
    np.minimum.at(first, target[row], series.times_s)
    np.maximum.at(last, target[row], series.times_s)
    return np.asarray((last - first)[target])


def _number_targets(series: series_sets.SeriesSet) -> series_sets.Ints:
    """Number what was scraped, by metric and by the labels of scrapes and brokers: int64 (n).

    Metrics are apart, as files may have them at different times.
    """
    numbers: dict[tuple[str | None, ...], int] = {}
    targets = [tuple(one.get(name) for name in _TARGET) for one in series.labels]
    for target in targets:
        numbers.setdefault(target, len(numbers))
    return np.array([numbers[target] for target in targets], dtype=np.int64)


def _find_ends(series: series_sets.SeriesSet) -> tuple[series_sets.Floats, series_sets.Floats]:
    """Return the first and the last value of each series; NaN without samples."""
    has_samples = np.diff(series.offsets) > 0
    first, last = np.full(len(has_samples), np.nan), np.full(len(has_samples), np.nan)
    first[has_samples] = series.values[series.offsets[:-1][has_samples]]
    last[has_samples] = series.values[series.offsets[1:][has_samples] - 1]
    return first, last
