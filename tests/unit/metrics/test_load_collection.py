"""What each broker transfers of each topic, from series as exporters label them; and what is not known."""

from __future__ import annotations

from pipelines.ingest.formats.topic_loads import NO_RATES, TopicLoad, WindowRates
from pipelines.metrics.load_collection import CollectedLoads, MeasuredSeries, collect_loads
from pipelines.metrics.metric_names import BrokerMatcher, KnownBroker, MetricNames
from tests.loads import appended_records, measured_size, measured_volume

_IN = "kafka_server_brokertopicmetrics_bytesin_total"
_END = "kafka_log_log_logendoffset"


def _series(metric: str, value: float | None, samples: int = 10, **labels: str) -> MeasuredSeries:
    """A counter whose rates are value, value + 1 and value + 2; or a gauge, if it is of a partition."""
    name = {"__name__": metric, **labels}
    if "partition" in labels:
        return MeasuredSeries(name, NO_RATES, value, samples)
    return MeasuredSeries(name, NO_RATES if value is None else _window(value), None, samples)


def _window(mean: float) -> WindowRates:
    return WindowRates(mean, mean + 1, mean + 2)


def _collect(names: MetricNames, *series: MeasuredSeries, brokers: tuple[int, ...] = (1,)) -> CollectedLoads:
    matcher = BrokerMatcher(names.brokers, [KnownBroker(id_, None) for id_ in brokers])
    return collect_loads(series, names, matcher, brokers)


def test_totals_are_not_loads_of_topics(names: MetricNames) -> None:
    collected = _collect(names, _series(_IN, 10, broker_id="1"), _series(_IN, 10, broker_id="1", topic="t"))
    assert collected.loads == [TopicLoad(None, 1, _window(10), NO_RATES), TopicLoad("t", 1, _window(10), NO_RATES)]
    assert collected.problems == []


def test_first_metric_counts_and_a_second_scrape_does_not(names: MetricNames) -> None:
    rate = "kafka_server_BrokerTopicMetrics_OneMinuteRate"
    collected = _collect(
        names,
        _series(rate, 99, broker_id="1", topic="t", name="BytesInPerSec"),
        _series(_IN, 10, broker_id="1", topic="t", job="a"),
        _series(_IN, 11, samples=20, broker_id="1", topic="t", job="b"),
    )
    assert collected.loads == [TopicLoad("t", 1, _window(11), NO_RATES)]
    assert collected.problems == ["1 series are there twice, with other values of job: those with more samples count"]


def test_counter_without_a_rate_does_not_hide_a_rate(names: MetricNames) -> None:
    """As of a single scrape."""
    labels = {"broker_id": "1", "topic": "t", "name": "BytesInPerSec"}
    counter = _series("kafka_server_BrokerTopicMetrics_Count", None, samples=1, **labels)
    rate = _series("kafka_server_BrokerTopicMetrics_OneMinuteRate", 99, samples=1, **labels)
    for series in ((counter, rate), (rate, counter)):
        assert _collect(names, *series) == CollectedLoads([TopicLoad("t", 1, _window(99), NO_RATES)])


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
    assert collected.loads == [TopicLoad(None, 1, _window(100), NO_RATES), TopicLoad("t", 1, _window(80), NO_RATES)]
    assert collected.problems == [
        "no series of brokers 2, 3",
        "2 series name no broker of the cluster: broker_id=9, without a label of its broker",
        "too few samples to know the rates of u on broker 1",
        "topics have 80 % of the bytes in of broker 1",
    ]


def test_growth_is_of_each_replica(names: MetricNames) -> None:
    labels = {"topic": "t", "partition": "0"}
    ends = [_series(_END, value, broker_id=str(id_), **labels) for id_, value in ((1, 7.0), (2, 9.0))]
    restarted = _series(_END, -5, broker_id="1", topic="t", partition="1")
    odd = _series(_END, 5, broker_id="1", topic="t", partition="all")
    collected = _collect(names, *ends, restarted, odd, brokers=(1, 2))
    assert collected.loads == [appended_records("t", 0, 1, 7), appended_records("t", 0, 2, 9)]
    assert "the partition of 1 series is no number: these are not used" in collected.problems


def test_different_series_of_one_broker_are_ambiguous(names: MetricNames) -> None:
    """As those of two clusters without a label that names them; two scrapes of one broker are nearly equal."""
    one, near, other = (_series(_IN, rate, broker_id="1", topic="t", job=str(rate)) for rate in (100, 101, 700))
    assert _collect(names, one, near).ambiguous is None
    ambiguous = _collect(names, one, other).ambiguous
    assert ambiguous == "1 series are there twice with other rates, and other values of job"


def test_missing_samples_and_restarts_are_named_by_broker(names: MetricNames) -> None:
    totals = [_series(_IN, 10, samples=samples, broker_id=str(b)) for b, samples in ((1, 100), (2, 70), (3, 99))]
    totals[0] = totals[0]._replace(resets=2)
    problems = _collect(names, *totals, brokers=(1, 2, 3)).problems
    assert "counters began again on brokers 1 (2 times): what was counted just before is lost" in problems
    assert "brokers with fewer samples than others: 2 (70 %)" in problems


def test_sizes_are_of_replicas(names: MetricNames) -> None:
    labels = {"topic": "t", "partition": "0"}
    collected = _collect(
        names, *(_series("kafka_log_log_size", 5.0 * id_, broker_id=str(id_), **labels) for id_ in (1, 2))
    )
    assert collected.loads == [measured_size("t", 0, 1, 5)]  # broker 2 is none of the cluster


def test_volumes_of_brokers_are_collected_and_those_of_other_machines_are_not(names: MetricNames) -> None:
    def volume(metric: str, value: float, broker: str, path: str) -> MeasuredSeries:
        labels = {"__name__": f"node_filesystem_{metric}_bytes", "broker_id": broker, "mountpoint": path}
        return MeasuredSeries(labels, NO_RATES, value, 9)

    series = (
        volume("size", 900, "1", "/data"),
        volume("avail", 300, "1", "/data"),
        volume("size", 50, "1", "/"),
        volume("size", 70, "8", "/"),
    )
    collected = _collect(names, _series(_IN, 10, broker_id="1"), *series)
    assert collected.loads[1:] == [measured_volume("/", 1, 50, None), measured_volume("/data", 1, 900, 300)]
    assert not any("name no broker" in problem for problem in collected.problems)
