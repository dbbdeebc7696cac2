"""Loads from files: scrapes of two moments, ranges of samples, and CSV."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.formats.topic_loads import Load, TopicLoad
from pipelines.ingest.source_format import FactKind
from pipelines.metrics.load_collection import CollectedLoads, collect_loads
from pipelines.metrics.load_files import check_listed, measure_files, read_csv_loads, read_files
from pipelines.metrics.metric_names import BrokerMatcher, KnownBroker, MetricNames
from tests.docs.pages import ROOT
from tests.loads import measured_size, plain_load

_WEEK = 604_800
_IN = "kafka_server_brokertopicmetrics_bytesin_total"


def _collect(names: MetricNames, path: Path, labels: dict[str, str] | None = None) -> CollectedLoads:
    matcher = BrokerMatcher(names.brokers, [KnownBroker(id_, None) for id_ in (1, 2, 3)])
    return collect_loads(measure_files(read_files(path), names, labels or {}, _WEEK), names, matcher, (1, 2, 3))


@pytest.mark.parametrize("folder", ["jmx-exporter-with-rules", "jmx-exporter-without-rules"])
def test_recorded_cluster(names: MetricNames, folder: str) -> None:
    """20 records of 10,072 bytes each were written to two partitions within 10 seconds."""
    collected = _collect(names, ROOT / "data_samples" / "metrics" / folder)
    rates = {(one.topic, one.broker): one.bytes_in for one in collected.loads if isinstance(one, TopicLoad)}
    assert {key: rate.mean for key, rate in rates.items() if rate.mean} == {
        **{(None, broker): 20_144 for broker in (1, 3)},
        **{("orders", broker): 20_144 for broker in (1, 3)},
    }
    assert rates["un-clean_1.x", 2].mean == 0
    sizes = {tuple(load[1].values())[:3] for load in collected.loads if load[0] == FactKind.REPLICA_SIZE}
    assert {("orders", 0, 1), ("orders", 0, 2), ("un-clean_1.x", 0, 2)} <= sizes


@pytest.mark.parametrize(
    ("folder", "labels", "expected"),
    [
        ("strimzi-as-documented", {"strimzi_io_cluster": "my-cluster"}, [(0, 300, 600), (1, 150, 450), (2, 60, 0)]),
        ("msk-as-documented", {}, [(1, 100, 200), (2, 200, 400), (3, 300, 600)]),
    ],
)
def test_documented_names(
    names: MetricNames, folder: str, labels: dict[str, str], expected: list[tuple[int, float, float]]
) -> None:
    ids = [broker for broker, *_ in expected]
    matcher = BrokerMatcher(names.brokers, [KnownBroker(id_, None) for id_ in ids])
    series = measure_files(read_files(ROOT / "data_samples" / "metrics" / folder), names, labels, _WEEK)
    collected = collect_loads(series, names, matcher, ids)
    rates = [one for one in collected.loads if isinstance(one, TopicLoad) and one.topic == "orders"]
    assert [(one.broker, one.bytes_in.p95, one.bytes_out.p95) for one in rates] == expected
    assert collected.problems == []


def test_range_is_reduced_to_its_window_and_labels(names: MetricNames, tmp_path: Path) -> None:
    def series(cluster: str, *values: float) -> dict[str, object]:
        metric = {"__name__": _IN, "topic": "t", "instance": "kafka-1:9404", "broker_id": "1", "cluster": cluster}
        return {"metric": metric, "values": [[_WEEK * 10 + 60 * at, str(value)] for at, value in enumerate(values)]}

    result = [series("prod", 0, 600, 1800, 1800), series("test", 0, 9e9, 9e9, 9e9)]
    result[0]["values"].insert(0, [1.0, "5"])  # type: ignore[attr-defined]  # long before the window
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    (tmp_path / "range.json").write_text(json.dumps(answer))
    (load,) = _collect(names, tmp_path, {"cluster": "prod"}).loads
    assert isinstance(load, TopicLoad)
    assert load.bytes_in == (10, 20, 20)


def test_peak_is_over_a_step_of_the_window_alone(names: MetricNames, tmp_path: Path) -> None:
    """A burst of 900 bytes within one of 20 steps of 180 s, and one that ends when the window begins."""
    times = [1_000_000 + 30 * at for at in range(-20, 121)]
    values = [10 * (at - 900_000) + 30 * max(min(at - 1_001_890, 30), 0) for at in times]
    burst = [value + 9_000 * max(min(at - 999_700, 300), 0) for at, value in zip(times, values, strict=True)]
    labels = {"__name__": _IN, "topic": "t", "broker_id": "1"}
    result = [{"metric": labels, "values": [[at, str(value)] for at, value in zip(times, burst, strict=True)]}]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    (tmp_path / "range.json").write_text(json.dumps(answer))
    (one,) = measure_files(read_files(tmp_path), names, {}, 3_600, 300)
    assert one.rates == pytest.approx((10 + 900 / 3_600, 10, 15), rel=0.01)
    with pytest.raises(SourceError, match=r"too short for scrapes every 30 s\. Choose --window 2m or longer"):
        list(measure_files(read_files(tmp_path), names, {}, 100))


def test_metrics_of_files_at_other_times_do_not_begin_at_zero(names: MetricNames, tmp_path: Path) -> None:
    """Each file is one query, and the second one was made three seconds later."""
    for number, metric in enumerate((_IN, _IN.replace("bytesin", "bytesout"))):
        labels = {"__name__": metric, "topic": "t", "broker_id": "1", "instance": "b1:9404"}
        values = [[1_000_000 + 3 * number + 60 * at, str(5e9 + 600 * at)] for at in range(5)]
        answer = {
            "status": "success",
            "data": {"resultType": "matrix", "result": [{"metric": labels, "values": values}]},
        }
        (tmp_path / f"{number}.json").write_text(json.dumps(answer))
    (load,) = _collect(names, tmp_path).loads
    assert isinstance(load, TopicLoad)
    assert (load.bytes_in, load.bytes_out) == ((10, 10, 10), (10, 10, 10))


def test_mean_of_a_topic_that_began_late_is_over_the_whole_window(names: MetricNames, tmp_path: Path) -> None:
    result = []
    for topic, values in {"old": range(0, 4800, 600), "late": range(600, 3000, 600)}.items():
        labels = {"__name__": _IN, "topic": topic, "broker_id": "1"}
        began = 8 - len(values)
        result.append(
            {"metric": labels, "values": [[1_000_000 + 60 * (began + i), str(v)] for i, v in enumerate(values)]}
        )
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    (tmp_path / "range.json").write_text(json.dumps(answer))
    late, old = _collect(names, tmp_path).loads
    assert isinstance(late, TopicLoad)
    assert isinstance(old, TopicLoad)
    assert (old.bytes_in.mean, old.bytes_in.p95) == (10, 10)
    assert (late.bytes_in.mean, late.bytes_in.p95) == (pytest.approx(10 * 4 / 7), 10)


def test_one_scrape_has_no_rates_of_counters(names: MetricNames, tmp_path: Path) -> None:
    (tmp_path / "broker-1.prom").write_text(f'{_IN}{{topic="t"}} 10\n')
    collected = _collect(names, tmp_path)
    assert collected.loads == []
    assert "too few samples to know the rates of t on broker 1" in collected.problems


def _read_csv(tmp_path: Path, text: str) -> list[Load]:
    file = tmp_path / "loads.csv"
    file.write_text(text)
    return list(read_csv_loads(read_files(file)))


def test_csv_has_loads_of_topics_brokers_and_partitions(tmp_path: Path) -> None:
    text = """\ufefftopic,broker_id,partition,bytes_in_per_s,bytes_out_per_s,size_bytes
t,1,,40,80.5,
,1,,100,,
t,,3,5,6,

t,2,3,,,900
"""
    assert _read_csv(tmp_path, text) == [
        plain_load("t", 1, None, 40, 80.5),
        plain_load(None, 1, None, 100, None),
        plain_load("t", None, 3, 5, 6),
        measured_size("t", 3, 2, 900),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("topic,rate\nt,5\n", "line 1: there is no column 'rate'"),
        ("topic,broker_id\nt,1\n", "line 1: a column is there twice, or there are no loads"),
        ("topic,broker_id,bytes_in_per_s\nt,1,-5\n", "line 2: bytes_in_per_s is -5.0, expected"),
        ("topic,broker_id,bytes_in_per_s\nt,x,5\n", 'line 2: broker_id is "x"'),
        ("topic,broker_id,bytes_in_per_s\n\nt,1\n", "line 3: has 2 cells, but the header has 3"),
        ("topic,bytes_in_per_s\nt,5\n", "line 2: bytes per second are of topic and broker_id"),
        ("topic,broker_id,partition,bytes_in_per_s\nt,1,1,5\n", "line 2: bytes per second are of topic and broker_id"),
        ("topic,broker_id,size_bytes\nt,1,5\n", "line 2: size_bytes needs topic, partition and broker_id"),
        ("topic,broker_id,bytes_in_per_s\nt,1,5\nt,1,6\n", "line 3: its topic, broker and partition are there twice"),
    ],
)
def test_wrong_csv_is_named_by_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SourceError) as caught:
        _read_csv(tmp_path, text)
    assert problem in str(caught.value)


def test_rows_of_other_brokers_are_not_used() -> None:
    own, other = plain_load("t", 1, None, 40, 80), plain_load("t", 77, None, 9, 9)
    loads, problems = check_listed([own, other], (1, 2))
    assert loads == [own]
    assert problems == ["rows of brokers that the cluster lacks are not used: 77", "no rows of brokers 2"]
    assert check_listed([own, other], ()) == ([own, other], [])


def test_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no files"):
        read_files(tmp_path)
