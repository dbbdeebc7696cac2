"""conf/metrics.toml, and which series its entries select."""

from __future__ import annotations

import pytest

from pipelines.errors import SettingsError
from pipelines.metrics.load_files import MetricsFile, read_series
from pipelines.metrics.metric_names import (
    BrokerMatcher,
    KnownBroker,
    MetricKind,
    MetricNames,
    Quantity,
    parse_metric_names,
)
from tests.docs.pages import ROOT

_PLAIN, _RAW = "kafka_server_brokertopicmetrics_bytesin_total", "kafka_server_BrokerTopicMetrics_Count"
_BAD = """
[[names]]
exporter = "x"
quantity = "bytes_in"
metric = "m"
kind = "counter"
"""


@pytest.mark.parametrize(
    ("labels", "quantity"),
    [
        ({"__name__": _PLAIN, "topic": "t", "instance": "b1:7071"}, Quantity.BYTES_IN),
        ({"__name__": _PLAIN, "instance": "b1:7071"}, Quantity.BROKER_BYTES_IN),
        ({"__name__": _PLAIN, "topic": ""}, Quantity.BROKER_BYTES_IN),
        ({"__name__": _RAW, "name": "BytesOutPerSec", "topic": "t"}, Quantity.BYTES_OUT),
        ({"__name__": _RAW, "name": "BytesOutPerSec"}, Quantity.BROKER_BYTES_OUT),
        ({"__name__": _RAW, "name": "MessagesInPerSec", "topic": "t"}, None),
        ({"__name__": "kafka_log_log_size", "topic": "t", "partition": "3"}, Quantity.SIZE),
        ({"__name__": "kafka_log_log_size", "topic": "t"}, None),
        # Bytes in tiered storage: on no broker's disk, and not copied by a move.
        ({"__name__": "kafka_server_brokertopicmetrics_remotelogsizebytes", "topic": "t"}, None),
        ({"__name__": "kafka_server_brokertopicmetrics_remotefetchbytes_total", "topic": "t"}, None),
        ({"__name__": "kafka_log_log_logendoffset", "topic": "t", "partition": "3"}, Quantity.LOG_END_OFFSET),
        (
            {"__name__": "kafka_log_Log_Value", "name": "LogEndOffset", "topic": "t", "partition": "3"},
            Quantity.LOG_END_OFFSET,
        ),
        ({"__name__": _RAW.lower(), "name": "BytesInPerSec", "topic": "t"}, Quantity.BYTES_IN),
        ({"__name__": _RAW.lower(), "name": "BytesOutPerSec"}, Quantity.BROKER_BYTES_OUT),
        ({"__name__": "kafka_log_log_value", "name": "Size", "topic": "t", "partition": "3"}, Quantity.SIZE),
        *(
            ({"__name__": f"kafka_server_{name}", "topic": topic}, total if topic == "" else quantity)
            for name in (
                *("brokertopicmetrics_bytesinpersec_total", "brokertopicmetrics_bytesinpersec"),  # Strimzi, Confluent
                *("BrokerTopicMetrics_BytesInPerSec_Count", "brokertopicmetrics_bytesinpersec_count"),  # Aiven, Bitnami
            )
            for topic in ("t", "")
            for quantity, total in [(Quantity.BYTES_IN, Quantity.BROKER_BYTES_IN)]
            if topic or not name.endswith("_count")
        ),
        ({"__name__": "kafka_server_brokertopicmetrics_total_bytesoutpersec_count"}, Quantity.BROKER_BYTES_OUT),
        ({"__name__": "kafka_server_brokertopicmetrics_bytesinpersec_oneminuterate", "topic": "t"}, Quantity.BYTES_IN),
        ({"__name__": "kafka_log_Log_Size_Value", "topic": "t", "partition": "3"}, Quantity.SIZE),
        ({}, None),
    ],
)
def test_series_is_recognised(names: MetricNames, labels: dict[str, str], quantity: Quantity | None) -> None:
    index = names.find(labels)
    assert (None if index is None else names.names[index].quantity) == quantity


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (_BAD, "names.1: bytes_in needs the label of the topic"),
        (_BAD + 'topic = "t"\npartition = "p"\n', "names.1: bytes_in has no label of the partition"),
        (_BAD + 'topic = "t"\nlabel = {}\n', "names.1.label: Extra inputs are not permitted"),
        ('names = []\n[[brokers]]\nlabel = "x"\npattern = "([0-9]+)"', "brokers.1.pattern: needs one named group"),
        (
            'names = []\n[[brokers]]\nlabel = "x"\npattern = "("',
            "brokers.1.pattern: Input should be a valid regular expression",
        ),
    ],
)
def test_wrong_entry_is_named(text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_metric_names(
            text if "brokers" in text else text + "\n[[brokers]]\nlabel='b'\npattern='(?P<id>.)'", "my.toml"
        )
    assert str(caught.value).startswith(f"my.toml: {problem}")


@pytest.mark.parametrize(
    ("labels", "broker"),
    [
        ({"broker_id": "2"}, 2),
        ({"broker_id": "7"}, None),
        ({"broker_id": "9" * 30}, None),
        ({"broker_id": "7", "instance": "kafka-a.example.com:7071"}, 1),
        ({"kubernetes_pod_name": "my-cluster-kafka-3"}, 3),
        ({"instance": "b-2.prod.abc.c2.kafka.eu-west-1.amazonaws.com:11001"}, 2),
        ({"broker": "broker-3"}, 3),
        ({"broker_id": "broker-3"}, 3),
        ({"broker": "prod-7"}, None),
        ({"broker": "kafka-a.example.com:9092"}, 1),
        ({"broker": "kafka-2"}, 4),  # a host, although its name ends like an id
        ({"instance": "KAFKA-A.example.com:7071"}, 1),
        ({"instance": "kafka-a.example.com"}, 1),
        ({"instance": "shared.example.com:7071"}, None),  # of two brokers
        ({"instance": "other.example.com:7071"}, None),
        ({}, None),
    ],
)
def test_broker_of_a_series(names: MetricNames, labels: dict[str, str], broker: int | None) -> None:
    hosts = {1: "kafka-a.example.com", 2: "shared.example.com", 3: "shared.example.com", 4: "kafka-2"}
    matcher = BrokerMatcher(names.brokers, [KnownBroker(*item) for item in hosts.items()])
    assert matcher.find(labels) == broker


def test_lower_case_names_are_those_without_rules(names: MetricNames) -> None:
    rules = [one for one in names.names if one.exporter == "jmx_exporter without rules"]
    lower = [one for one in names.names if one.exporter == "jmx_exporter without rules, in lower case"]
    assert rules
    assert [one.model_copy(update={"exporter": "", "metric": one.metric.lower()}) for one in rules] == [
        one.model_copy(update={"exporter": ""}) for one in lower
    ]


@pytest.mark.parametrize(
    ("metrics", "exporters"),
    [
        (["kafka_topic_partition_current_offset", "kafka_consumergroup_lag"], ["kafka_exporter"]),
        (["kafka_consumergroup_group_lag", "up"], ["Kafka Lag Exporter"]),
        (["kminion_kafka_topic_info"], ["kminion"]),
        (["confluent_kafka_server_received_bytes"], ["Confluent Cloud's metrics API"]),
        (["strimzi_reconciliations_total", "jvm_threads"], ["Strimzi's operators"]),
        (["kafka_server_brokertopicmetrics_bytesin_total", "kafka_log_log_size", "node_load1", "kafka_other"], []),
    ],
)
def test_exporters_without_bytes(names: MetricNames, metrics: list[str], exporters: list[str]) -> None:
    assert names.find_without_bytes(metrics) == exporters


@pytest.mark.parametrize("folder", ["jmx-exporter-with-rules", "jmx-exporter-without-rules"])
def test_recorded_exporters(names: MetricNames, folder: str) -> None:
    """20 records of 10,072 bytes each were written to two partitions, led by brokers 1 and 3, between two scrapes."""
    increase: dict[tuple[Quantity, int, str | None], float] = {}
    for broker in (1, 2, 3):
        scrapes = (ROOT / "data_samples" / "metrics" / folder / f"broker-{broker}-17642000{m}0.txt" for m in (0, 1))
        series = read_series(MetricsFile(scrape, scrape.read_text(), 10.0 * i, {}) for i, scrape in enumerate(scrapes))
        for i, labels in enumerate(series.labels):
            if (index := names.find(labels)) is not None and names.names[index].kind is MetricKind.COUNTER:
                first, last = series.values[series.offsets[i]], series.values[series.offsets[i + 1] - 1]
                increase[names.names[index].quantity, broker, labels.get("topic")] = last - first
    written = 20 * 10_072
    of_brokers = [increase[Quantity.BROKER_BYTES_IN, broker, None] for broker in (1, 2, 3)]
    assert of_brokers == [written, 0, written]
    assert increase[Quantity.BYTES_IN, 1, "orders"] == written
    assert increase[Quantity.BYTES_IN, 2, "un-clean_1.x"] == 0
    assert increase[Quantity.BYTES_OUT, 1, "orders"] == 0
