"""Series from files: what an exporter prints, and answers of Prometheus's query API as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from pipelines.errors import SourceError
from pipelines.metrics.metric_names import NAME
from pipelines.metrics.series import SeriesSet

_REMEDY = "Give what an exporter prints, or an answer of /api/v1/query or /api/v1/query_range"


class MetricsFile(NamedTuple):
    """A file. time_s: seconds since 1970, of samples without a time; labels: added to series that lack them."""

    path: Path
    text: str
    time_s: float
    labels: Mapping[str, str]


def read_series(files: Iterable[MetricsFile]) -> SeriesSet:
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
    return SeriesSet.of_samples(labels, times, values)


_Sample = tuple[dict[str, str], list[float], list[float]]  # labels, times, values


def _read_text(path: str, text: str, time_s: float) -> list[_Sample]:
    try:
        families = list(text_string_to_metric_families(text))
    except ValueError as error:
        raise SourceError(path, f"is no text of Prometheus: {error}", _REMEDY) from None
    return [
        ({NAME: sample.name, **sample.labels}, [_to_seconds(sample.timestamp, time_s)], [float(sample.value)])
        for family in families
        for sample in family.samples
    ]


def _to_seconds(timestamp: Any, default: float) -> float:
    return default if timestamp is None else float(timestamp)


def _read_json(path: str, text: str) -> list[_Sample]:
    try:
        answer = json.loads(text)
        if answer["status"] != "success":
            raise SourceError(path, f"Prometheus answered: {answer.get('error', answer['status'])}", _REMEDY)
        kind, result = answer["data"]["resultType"], answer["data"]["result"]
        if kind not in ("matrix", "vector"):
            raise SourceError(path, f"is an answer with a {kind}, but loads need a matrix or a vector", _REMEDY)
        rows: list[_Sample] = []
        for one in result:
            samples = one["values"] if kind == "matrix" else [one["value"]]
            rows.append((one["metric"], [float(time) for time, _ in samples], [float(value) for _, value in samples]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"is no answer of Prometheus's query API ({type(error).__name__}: {error})"
        raise SourceError(path, problem, _REMEDY) from None
    return rows
