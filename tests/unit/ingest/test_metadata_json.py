"""JSON of topics and partitions with leaders, as tools, REST APIs and client libraries print it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import SourceError
from pipelines.ingest.formats import metadata_json
from pipelines.ingest.sections import read_sections
from pipelines.ingest.snapshot_reader import FORMATS, divide_text
from pipelines.ingest.source_format import FactKind

from .facts import FORMATS_DIR, check_facts, facts, find_formats, shorten

SAMPLES = sorted(path.name for path in FORMATS_DIR.glob("metadata-*"))


def parse(text: str, *kinds: str) -> list[dict[str, Any]]:
    records = metadata_json.FORMAT.read_records(text, "x")
    return shorten(check_facts(records, metadata_json.FORMAT.parse_facts(records)), *kinds)


def partitions(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("topic", "partition", "leader", "replicas", "isr")
    return [tuple(row.get(name) for name in names) for row in rows if row["kind"] == FactKind.PARTITION]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("metadata-kcat.json", [("orders", 0, 1, [1, 2], [1, 2]), ("orders", 1, -1, [3], [3])]),
        ("metadata-kcat-topics.json", [("orders", 0, 1, [1, 2], [1]), ("orders", 1, 2, [2, 1], [2, 1])]),
        ("metadata-kafka-ui.json", [("orders", 0, 1, [1, 2], [1, 2]), ("orders", 1, -1, [3, 2], [3])]),
        (
            "metadata-redpanda-console.json",
            [("orders", 0, 0, [0, 2, 1], [2, 0, 1]), ("orders", 1, 1, [1, 2, 0], [1, 0])],
        ),
        ("metadata-akhq.json", [("orders", 0, 1, [1, 2], [1])]),
        ("metadata-rest-v2.json", [("orders", 0, 1, [1, 2], [1, 2])]),
        ("metadata-rest-v3.json", [("orders", 0, 1, None, None), ("orders", 0, 1, [1, 2], [1])]),
        ("metadata-cruise-control.json", [*[("orders", 1, 2, [2, 3], [2])] * 3, ("orders", 0, 1, [1, 2], [1, 2])]),
        ("metadata-lines.jsonl", [("orders", 0, 1, [1, 2], [1, 2]), ("orders", 1, 2, [2, 1], [2])]),
        ("metadata-python.txt", [("orders", 0, 1, [1, 2], [1, 2]), ("orders", 1, 2, [2, 1], [2, 1])]),
    ],
)
def test_each_shape_gives_its_partitions(name: str, expected: list[tuple[Any, ...]]) -> None:
    assert partitions(facts(name)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("metadata-kcat.json", {1: (True, None), 2: (True, None)}),
        ("metadata-rest-v3.json", {1: (True, "east"), 2: (True, None)}),
        ("metadata-python.txt", {1: (True, None), 2: (True, "west")}),
        ("metadata-cruise-control.json", {1: (True, None), 2: (True, None), 3: (False, None)}),
        ("metadata-cruise-control-load.json", {1: (True, "east"), 2: (False, "west")}),
    ],
)
def test_live_brokers_and_racks(name: str, expected: dict[int, tuple[bool | None, str | None]]) -> None:
    rows = facts(name, FactKind.BROKER)
    live = {row["broker_id"]: row.get("registered", row.get("reported_live")) for row in rows}
    assert {row["broker_id"]: (live[row["broker_id"]], row.get("rack")) for row in rows} == expected


def test_brokers_of_an_unknown_tool_are_not_said_to_be_live() -> None:
    partition = '{"topic":"t","partition":0,"leader":1,"replicas":[1],"isr":[1]}'
    text = f'{{"brokers":[{{"id":1,"host":"b1"}}],"partitions":[{partition}]}}'
    (row,) = parse(text, FactKind.BROKER)
    assert "registered" not in row
    assert "listed" not in row


def test_cruise_control_counts_more_partitions_than_it_shows() -> None:
    state = {"LeaderCountByBrokerId": {"0": 41, "5": 40}, "ReplicaCountByBrokerId": {"0": 80, "5": 80, "7": 3}}
    lost = {
        "OutOfSyncCountByBrokerId": {"7": 3},
        "OfflineReplicaCountByBrokerId": {"7": 3},
        "IsController": {"0": True},
    }
    urp = {"topic": "t", "partition": 1, "leader": 0, "replicas": [0, 5], "in-sync": [0], "offline": [], "min-isr": 1}
    text = json.dumps({"KafkaPartitionState": {"offline": [], "urp": [urp, urp]}, "KafkaBrokerState": state | lost})
    assert find_formats(text) == ["metadata-json"]
    rows = parse(text)
    brokers = [row for row in rows if row["kind"] == FactKind.BROKER]
    assert [(row["broker_id"], row["reported_live"], row.get("controller")) for row in brokers] == [
        (0, True, True),
        (5, True, None),
        (7, False, None),
    ]
    (summary,) = [row for row in rows if row["kind"] == FactKind.IGNORED]
    assert summary["is_selection"]
    assert summary["warning"].startswith("kafka_cluster_state shows 1 of 81 partitions that have a leader")


def test_cruise_control_lists_offline_log_directories() -> None:
    dirs = {"1": [], "2": [f"/d{i}" for i in range(8)], "3": ["broker_dead"]}
    state = {"KafkaBrokerState": {"OfflineLogDirsByBrokerId": dirs}}
    (warning,) = [row["warning"] for row in parse(json.dumps(state)) if "warning" in row]
    assert warning.startswith('log directories are offline, with all replicas there: "/d0" of broker 2, "/d1" of')
    assert warning.endswith('"/d5" of broker 2 and 2 more')


def test_keys_in_any_order_and_partitions_by_number() -> None:
    text = '{"partitions":[{"replicas":[2,1],"isrs":[2],"leader":2,"id":0}],"topic":"t"}'
    assert partitions(parse(text)) == [("t", 0, 2, [2, 1], [2])]
    text = '{"topics":{"t":{"topic":"t","partitions":{"0":{"id":0,"leader":1,"replicas":[1],"isrs":[1]}}}}}'
    assert partitions(parse(text)) == [("t", 0, 1, [1], [1])]


@pytest.mark.parametrize(
    ("partition", "reason"),
    [
        ({"partition": 0, "leader": 1, "replicas": [1]}, "a partition without topic name"),
        ({"topic": "t", "leader": 1, "replicas": [1]}, "neither a topic nor a partition"),
        ({"topic": "t", "partition": 0, "leader": 1, "replicas": []}, "replicas is empty"),
        ({"topic": "t", "partition": 0, "leader": "b1", "replicas": [1]}, 'leader is "b1"'),
        ({"topic": "t", "partition": 0, "leader": 1, "replicas": ["b1"]}, 'replicas[0] is "b1"'),
        ({"topic": "t", "partition": 0, "leader": 1, "replicas": [{"host": "b1"}]}, "expected a broker"),
        ({"topic": "a b", "partition": 0, "leader": 1, "replicas": [1]}, "bad topic name"),
        ({"topic": "t", "partition": -1, "leader": 1, "replicas": [1]}, "expected 0 to"),
        (
            {"topic": "t", "partition": 0, "leader": 2, "replicas": [{"broker": 1, "leader": True}, {"broker": 2}]},
            "replica 1 is marked as the leader",
        ),
        (
            {"topic": "t", "partition": 0, "replicas": [{"id": 1, "leader": True}, {"id": 2, "leader": True}]},
            "2 leaders",
        ),
    ],
)
def test_what_is_ambiguous_is_rejected(partition: dict[str, Any], reason: str) -> None:
    (row,) = parse(json.dumps([partition]))
    assert row["kind"] == FactKind.REJECTED
    assert reason in row["reasons"][0]


def test_a_document_that_breaks_off_keeps_what_was_read() -> None:
    text = (FORMATS_DIR / "metadata-redpanda-console.json").read_text()
    rows = parse(text[: text.index('"id":1') + 40])
    assert len(partitions(rows)) == 1
    assert [row["reasons"] for row in rows if row["kind"] == FactKind.REJECTED]


@pytest.mark.parametrize(
    "text",
    [
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
        '{"topics":[{"topic":"t"}],"version":1}',
        '{"brokers":[{"id":1,"rack":"a"}]}',
        '{"topics":[{"topic":"t","partitions":6,"replication_factor":3}]}',
        '{"version":1,"brokers":[{"broker":1,"logDirs":[]}]}',
        "{'topic': 't', 'partition': 0, 'offset': 7}",
    ],
)
def test_documents_of_other_formats_are_not_claimed(text: str) -> None:
    assert "metadata-json" not in find_formats(text)


@given(st.sampled_from(SAMPLES), st.integers(0, 1500), st.integers(0, 30), st.text(max_size=5))
def test_every_record_of_a_damaged_file_has_a_fact(name: str, at: int, cut: int, extra: str) -> None:
    text = (FORMATS_DIR / name).read_text()
    text = text[:at] + extra + text[at + cut :]
    try:
        sections = read_sections(text, "x", divide_text(text))
    except SourceError:  # with its first brace damaged, its `brokers` begin like a list of brokers
        return
    for form, records in sections:
        check_facts(records, form.parse_facts(records))
    parse(text)


_KEYS = (
    *(
        "topic",
        "name",
        "partition",
        "id",
        "leader",
        "replicas",
        "isrs",
        "inSync",
        "partitions",
        "topics",
        "data",
        "kind",
    ),
    *(
        "brokers",
        "broker_id",
        "is_leader",
        "topic_name",
        "partition_id",
        "host",
        "KafkaBrokerState",
        "configs",
        "nodes",
    ),
    *("related", "OnlineLogDirsByBrokerId", "min-isr", "offsetMax"),
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["t", "1", "b:1", 1.5, 2**40]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=25,
)


@given(_values)
def test_no_json_raises(value: object) -> None:
    parse(json.dumps(value))
    parse(repr(value))


def test_a_long_line_takes_linear_time() -> None:
    element = '{"topic":"t","partition":0,"leader":1,"replicas":[1],"isr":[1]},'
    rows = parse("[" + element * 5_000 + element[:-1] + "]")
    assert len(rows) == 5_001


def test_it_comes_before_the_formats_that_would_take_its_documents() -> None:
    order = list(FORMATS)
    assert all(
        order.index("metadata-json") < order.index(name) for name in ("reassignment", "broker-list", "topic-list")
    )


def test_an_object_of_partitions_has_only_partitions() -> None:
    (row,) = parse('{"topics": [\n{"name": "t", "partitions": {"topic": "t",\n"partitions": []}}]}')
    assert row["kind"] == FactKind.REJECTED
    assert "neither a topic nor a partition" in str(row["reasons"])
