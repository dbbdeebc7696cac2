"""Rates within a window, from a real Prometheus and from the same samples in files, beside what was written."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import requests

from pipelines.config.settings import load_settings
from pipelines.errors import SourceError
from pipelines.metrics.load_reading import read_loads
from pipelines.metrics.metric_names import KnownBroker
from pipelines.metrics.metrics_origin import MetricsOrigin
from tests.live.metrics_exporter import find_prometheus, run_prometheus

pytestmark = [pytest.mark.slow, pytest.mark.live]

Floats = npt.NDArray[np.float64]
_METRIC = "kafka_server_brokertopicmetrics_bytesin"
_SCRAPE_S = 15
_DAY = 86_400
_LAST = 1_764_202_187.0  # the last scrape; just before a multiple of 2 and of 5 minutes
_END = datetime.fromtimestamp(_LAST + 6.4, UTC)
_WINDOWS = {"2m": 120, "5m": 300, "1h": 3_600, "1d": _DAY}
_BASE = 1_000.0  # bytes per second
_BURST = 1e6  # more
_BUSY_S = 1_800  # at the end
_SPIKE_S = 20
_BROKERS = [KnownBroker(1, None)]


def _write(times: Floats, begin_s: float, end_s: float) -> Floats:
    """Return a counter with the base rate, and with a burst; begin_s, end_s: of it, before the last scrape."""
    return _BASE * (times - times[0]) + _BURST * np.clip(times - (_LAST - begin_s), 0, begin_s - end_s)


def _begin_again(times: Floats) -> Floats:
    """Return a steady counter that begins again a minute before the end."""
    return np.where(times <= _LAST - 60, 5e9 + _BASE * (times - times[0]), _BASE * (times - _LAST + 60))


def _make_counters(times: Floats) -> dict[str, Floats]:
    """Return the counters of topics; one without a name is the total of the broker."""
    counters = {"": _write(times, 0, 0), "steady": _write(times, 0, 0), "restarted": _begin_again(times)}
    counters["busy"] = _write(times, _BUSY_S, 0)
    for name, length_s in _WINDOWS.items():
        counters[f"before-{name}"] = _write(times, length_s + 90, length_s)
        counters[f"spike-{name}"] = _write(times, 0.475 * length_s + _SPIKE_S / 2, 0.475 * length_s - _SPIKE_S / 2)
    return counters


class _Rates(NamedTuple):
    mean: float
    p95: float
    peak: float


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a day and more of scrapes of one broker."""
    executable = find_prometheus()
    folder = tmp_path_factory.mktemp("windows")
    times = np.arange(_LAST - _DAY - 3_600, _LAST + 1, _SCRAPE_S)
    times += _LAST - times[-1]  # the last one is then
    lines = [f"# TYPE {_METRIC} counter"]
    for topic, counts in _make_counters(times).items():
        labels = f'{{broker_id="1"{f",topic={json.dumps(topic)}" if topic else ""}}}'
        lines += [f"{_METRIC}_total{labels} {value:.3f} {at:.3f}" for at, value in zip(times, counts, strict=True)]
    lines += ["# TYPE kafka_topic_partition_leader gauge"]
    lines += [f'kafka_topic_partition_leader{{topic="t",env="other"}} 1 {_LAST}']
    (folder / "scrapes.txt").write_text("\n".join([*lines, "# EOF\n"]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "scrapes.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with run_prometheus(executable, folder, []) as running:
        yield running


@pytest.fixture(scope="module")
def file(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same samples, as the server has them."""
    path = tmp_path_factory.mktemp("windows") / "samples.json"
    query = {"query": f"{_METRIC}_total[{_DAY + 7_200}s]", "time": str(_LAST)}
    path.write_text(requests.get(f"{url}/api/v1/query", query, timeout=60).text)
    return path


def _read(
    url: str, file: Path, way: str, window: str, end: datetime = _END, missing: Sequence[str] = ()
) -> dict[str, _Rates]:
    """Read the rates of topics, the empty one of the broker."""
    origin = MetricsOrigin(url, None) if way == "server" else MetricsOrigin(None, file)
    settings = load_settings([f"metrics.window={window}"]).metrics
    lines = read_loads(origin, settings, "prod", _BROKERS, end)
    problems = [line.partition(": ")[2] for line in lines if line.startswith("problem")]
    found = [text for text in problems if "topics have" not in text and "began again" not in text]
    assert len(found) == len(missing)
    assert all(text.startswith(begin) for text, begin in zip(found, missing, strict=True)), found
    rates = " ".join(rf"bytes_in_{name}_per_s=(\S+)" for name in ("mean", "p95", "peak"))
    pattern = re.compile(rf"load (?:topic=(\S+) )?broker_id=1 .*{rates}.*")
    matches = (match for line in lines if (match := pattern.fullmatch(line)))
    return {match[1] or "": _Rates(*map(float, match.groups()[1:])) for match in matches}


@pytest.mark.parametrize("way", ["server", "file"])
@pytest.mark.parametrize("window", _WINDOWS)
def test_rates_are_of_the_window_alone(url: str, file: Path, way: str, window: str) -> None:
    """A burst that ended when the window began changes nothing, and a counter that begins again neither."""
    rates = _read(url, file, way, window)
    for topic in ("", "steady", "restarted", f"before-{window}"):
        assert rates[topic] == pytest.approx((_BASE, _BASE, _BASE), rel=0.01), topic
    share = min(_BUSY_S / _WINDOWS[window], 1)
    expected = (_BASE + _BURST * share, _BASE + _BURST * (share >= 0.05), _BASE + _BURST)
    assert rates["busy"] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("window", ["1h", "1d"])
def test_server_and_files_agree_on_a_spike(url: str, file: Path, window: str) -> None:
    end = datetime.fromtimestamp(_LAST, UTC)
    server, files = (_read(url, file, way, window, end)[f"spike-{window}"] for way in ("server", "file"))
    assert server.mean == pytest.approx(files.mean, rel=0.01)
    assert server.p95 == pytest.approx(files.p95, rel=0.01)
    assert files.p95 == pytest.approx(_BASE, rel=0.01)
    assert server.peak == pytest.approx(files.peak, rel=0.1)
    assert files.peak > 50 * _BASE


@pytest.mark.parametrize("way", ["server", "file"])
def test_window_of_few_scrapes_is_refused_with_the_shortest(url: str, file: Path, way: str) -> None:
    with pytest.raises(SourceError, match=r"too short for scrapes every 15 s\. Choose --window 1m or longer"):
        _read(url, file, way, "50s")
    assert _read(url, file, way, "1m")["steady"] == pytest.approx((_BASE, _BASE, _BASE), rel=0.01)


@pytest.mark.parametrize(
    ("window", "late_s", "missing"),
    [
        ("1h", 1_200, ["the series end at 2025-11-27T00:0"]),
        ("1d", 3 * 3_600, ["the series end at 2025-11-27T00:0"]),
        ("2d", 0, ["the series cover only the last 24 h"]),
        ("2d", 1_200, ["the series end at 2025-11-27T00:0", "the series cover only the last 25 h"]),
    ],
)
def test_rates_are_of_the_time_that_samples_cover(
    url: str, file: Path, window: str, late_s: int, missing: list[str]
) -> None:
    end = datetime.fromtimestamp(_LAST + late_s, UTC)
    assert _read(url, file, "server", window, end, missing)["steady"] == pytest.approx((_BASE, _BASE, _BASE), rel=0.01)


def test_exporter_without_bytes_is_named(url: str) -> None:
    settings = load_settings(['metrics.labels={"env": "other"}']).metrics
    problem = r'no loads with env="other" within the window, but metrics of kafka_exporter, which counts no bytes'
    with pytest.raises(SourceError, match=problem):
        read_loads(MetricsOrigin(url, None), settings, "prod", _BROKERS, _END)
