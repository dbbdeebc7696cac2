"""Series from what exporters and Prometheus print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.metrics.load_files import MetricsFile, read_series

_TEXT = """# HELP kafka_log_log_size Size
# TYPE kafka_log_log_size gauge
kafka_log_log_size{topic="a \\"b\\\\c",partition="0",} 12.5
# TYPE kafka_server_brokertopicmetrics_bytesin counter
kafka_server_brokertopicmetrics_bytesin_total{topic="t"} 1.5E9 1700000000000
"""


def _answer(kind: str, result: object) -> str:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}})


def _read(path: Path, time_s: float = 0.0) -> MetricsFile:
    return MetricsFile(path, path.read_text(), time_s, {})


def test_text_of_an_exporter(tmp_path: Path) -> None:
    file = tmp_path / "scrape.txt"
    file.write_text(_TEXT)
    series = read_series([MetricsFile(file, _TEXT, 50.0, {"broker_id": "1"})])
    assert series.labels[0] == {
        "__name__": "kafka_log_log_size",
        "topic": 'a "b\\c',
        "partition": "0",
        "broker_id": "1",
    }
    assert series.times_s.tolist() == [50, 1_700_000_000]
    assert series.values.tolist() == [12.5, 1.5e9]


def test_scrapes_at_two_moments_are_one_series(tmp_path: Path) -> None:
    for number, value in enumerate((10, 30)):
        (tmp_path / f"{number}.txt").write_text(f'm_total{{topic="t"}} {value}\n')
    series = read_series([_read(tmp_path / "0.txt", 100.0), _read(tmp_path / "1.txt", 160.0)])
    assert series.times_s.tolist() == [100, 160]
    assert series.values.tolist() == [10, 30]


def test_answers_of_prometheus(tmp_path: Path) -> None:
    metric = {"__name__": "m", "topic": "t"}
    (tmp_path / "range.json").write_text(_answer("matrix", [{"metric": metric, "values": [[1, "2"], [2.5, "NaN"]]}]))
    (tmp_path / "now.json").write_text(_answer("vector", [{"metric": metric, "value": [9, "4"]}]))
    series = read_series([_read(tmp_path / name) for name in ("range.json", "now.json")])
    assert series.labels == (metric,)
    assert series.times_s.tolist() == [1, 9]
    assert series.values.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no metrics at all\n", "is no text of Prometheus"),
        ('{"status": "error", "error": "query timed out"}', "Prometheus answered: query timed out"),
        (_answer("scalar", [1, "2"]), "is an answer with a scalar"),
        (_answer("matrix", [{"metric": {}, "values": [[1, "x"]]}]), "is no answer of Prometheus's query API"),
        ('{"data": []}', "is no answer of Prometheus's query API"),
        ('{"status": ', "is no answer of Prometheus's query API"),
    ],
)
def test_wrong_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "bad"
    file.write_text(text)
    with pytest.raises(SourceError) as caught:
        read_series([_read(file)])
    assert str(caught.value).startswith(f"{file}: {problem}")
