"""What each broker transfers of each topic, from series as exporters label them; and what is not known."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.ingest.formats.topic_loads import AppendedRecords, TopicLoad
from pipelines.metrics.broker_matching import BrokerMatcher, KnownBroker
from pipelines.metrics.load_collection import CollectedLoads, MeasuredSeries, collect_loads
from pipelines.metrics.metric_files import read_series
from pipelines.metrics.metric_names import MetricNames
from pipelines.metrics.series import begin_at_zero, summarise_rates
from tests.docs.pages import ROOT

_IN = "kafka_server_brokertopicmetrics_bytesin_total"
_END = "kafka_log_log_logendoffset"


def _series(metric: str, value: float | None, samples: int = 10, **labels: str) -> MeasuredSeries:
    return MeasuredSeries({"__name__": metric, **labels}, value, samples)


def _collect(names: MetricNames, *series: MeasuredSeries, brokers: tuple[int, ...] = (1,)) -> CollectedLoads:
    matcher = BrokerMatcher(names.brokers, [KnownBroker(id_, None) for id_ in brokers])
    return collect_loads(series, names, matcher, brokers)


def test_totals_are_not_loads_of_topics(names: MetricNames) -> None:
    collected = _collect(names, _series(_IN, 10, broker_id="1"), _series(_IN, 10, broker_id="1", topic="t"))
    assert collected.loads == [TopicLoad("t", 1, 10, None)]
    assert collected.problems == []


def test_first_metric_counts_and_a_second_scrape_does_not(names: MetricNames) -> None:
    rate = "kafka_server_BrokerTopicMetrics_OneMinuteRate"
    collected = _collect(
        names,
        _series(rate, 99, broker_id="1", topic="t", name="BytesInPerSec"),
        _series(_IN, 10, broker_id="1", topic="t", job="a"),
        _series(_IN, 11, samples=20, broker_id="1", topic="t", job="b"),
    )
    assert collected.loads == [TopicLoad("t", 1, 11, None)]
    assert collected.problems == ["1 series are there twice: those with more samples are used"]


def test_what_is_not_known_is_named(names: MetricNames) -> None:
    collected = _collect(
        names,
        _series(_IN, 100, broker_id="1"),
        _series(_IN, 80, broker_id="1", topic="t"),
        _series(_IN, None, samples=1, broker_id="1", topic="u"),
        _series(_IN, 5, broker_id="9", topic="t"),
        _series(_IN, 5, topic="t"),
        brokers=(1, 2, 3),
    )
    assert collected.loads == [TopicLoad("t", 1, 80, None)]
    assert collected.problems == [
        "no series of brokers 2, 3",
        "2 series name no broker of the cluster: broker_id=9, without a label of its broker",
        "too few samples to know the rates of u on broker 1",
        "20% of the bytes in of broker 1 belong to no topic",
    ]


def test_growth_is_the_most_of_all_replicas(names: MetricNames) -> None:
    labels = {"topic": "t", "partition": "0"}
    ends = [_series(_END, value, broker_id=str(id_), **labels) for id_, value in ((1, 7.0), (2, 9.0))]
    restarted = _series(_END, -5, broker_id="1", topic="t", partition="1")
    collected = _collect(names, *ends, restarted, brokers=(1, 2))
    assert collected.appended == [AppendedRecords("t", 0, 9)]


@pytest.mark.parametrize("folder", ["jmx-exporter-with-rules", "jmx-exporter-without-rules"])
def test_recorded_cluster(names: MetricNames, folder: str) -> None:
    """20 records of 10,072 bytes each were written to two partitions within 10 seconds."""
    measured = []
    for broker in (1, 2, 3):
        scrapes = (ROOT / "data_samples" / "metrics" / folder / f"broker-{broker}-{moment}.txt" for moment in (1, 2))
        series = read_series({str(path): 10.0 * i for i, path in enumerate(scrapes)}, {"broker_id": str(broker)})
        is_counter = np.array([names.find(one) is not None for one in series.labels])
        series = begin_at_zero(series, is_counter, np.zeros(len(is_counter), dtype=np.int64))
        rates = summarise_rates(series, is_counter)
        measured += [MeasuredSeries(one, rates.mean[i], 2) for i, one in enumerate(series.labels)]
    collected = _collect(names, *measured, brokers=(1, 2, 3))
    rates_in = {(one.topic, one.broker): one.bytes_in_per_s for one in collected.loads}
    assert {key: rate for key, rate in rates_in.items() if rate} == {("orders", 1): 20_144, ("orders", 3): 20_144}
    assert rates_in["un-clean_1.x", 2] == 0
    assert collected.problems == []
