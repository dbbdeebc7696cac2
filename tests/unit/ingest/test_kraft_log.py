"""The KRaft metadata log and snapshots, decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats.checked_values import BadValueError
from pipelines.ingest.formats.kraft_log import FORMAT
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.sources import find_source

from .facts import FORMATS_DIR, check_facts, facts, faults, reasons, shorten

T1, T3 = "A" * 22, "C" * 22
SNAPSHOT = "dump the snapshot before it too, as in --files N.checkpoint,N.log"


def _record(kind: str, **data: object) -> str:
    return json.dumps({"type": kind, "version": 0, "data": data})


def at(host: str) -> dict[str, object]:
    return {"fenced": True, "host": host, "port": 9092}


def test_the_records_of_a_log_in_order() -> None:
    rows = [row for row in facts("kraft-log.txt") if row["kind"] != FactKind.IGNORED]
    placed = {"adding_replicas": [], "removing_replicas": [], "elr": [], "last_known_elr": [], "leader_epoch": 0}
    orders = {"topic": "orders", "topic_id": T1}
    assert rows == [
        {"kind": "quorum", "broker_id": 100, "voter": True, "controller": True},
        {"kind": "broker", "broker_id": 1, "registered": True, "rack": "east"} | at("b1"),
        {"kind": "broker", "broker_id": 2, "registered": True} | at("b2"),
        {"kind": "broker_change", "broker_id": 1, "fenced": False},
        {"kind": "broker_change", "broker_id": 2, "fenced": False},
        {"kind": "topic", **orders},
        {"kind": "partition", **orders, "partition": 0, "leader": 1, "replicas": [1, 2], "isr": [1, 2], **placed},
        {"kind": "partition", **orders, "partition": 1, "leader": 2, "replicas": [2, 1], "isr": [2, 1], **placed},
        {"kind": "config", "topic": "orders", "configs": [("min.insync.replicas", "2")]},
        {"kind": "topic_defaults", "configs": [("min.insync.replicas", "1")]},
        {"kind": "partition_change", **orders, "partition": 0, "isr": [1]},
        {
            "kind": "partition_change",
            **orders,
            "partition": 1,
            "isr": [],
            "leader": -1,
            "elr": [2],
            "last_known_elr": [1],
        },
        {"kind": "config", "topic": "orders", "configs": [("min.insync.replicas", None)]},
        {"kind": "clear_elr", "topic": "orders"},
        {"kind": "topic", "topic": "short", "topic_id": T3},
        {
            "kind": "partition",
            "topic": "short",
            "topic_id": T3,
            "partition": 0,
            "leader": 2,
            "replicas": [2],
            "isr": [2],
            **placed,
        },
        {"kind": "topic_removed", "topic": "short", "topic_id": T3},
        {"kind": "broker_change", "broker_id": 1, "fenced": True},
        {"kind": "broker_change", "broker_id": 2, "fenced": True},
        {"kind": "broker_removed", "broker_id": 2},
    ]  # fmt: skip


def test_records_of_unfinished_transactions_are_ignored() -> None:
    ignored = reasons("kraft-log.txt")
    assert ignored["aborted transaction"] == 4
    assert ignored["unfinished transaction"] == 2
    assert ignored["batch header"] == 7
    assert ignored["NO_OP record"] == 1
    assert ignored["FEATURE_LEVEL_RECORD carries no placement"] == 1


def test_records_of_an_unknown_type_are_quarantined() -> None:
    """They might say something about placement."""
    records = FORMAT.read_records(_record("PARTITION_MOVED_RECORD", topicId=T1), "x")
    (fault,) = shorten(check_facts(records, FORMAT.parse_facts(records)), FactKind.REJECTED)
    text = 'record type "PARTITION_MOVED_RECORD" is unknown up to Kafka 4.4, and names "topicId"'
    assert text in fault["reasons"][0]


@pytest.mark.parametrize("data", [{}, {"controllerId": 1}, {"quotaName": "q", "value": 3}])
def test_records_of_a_later_version_are_counted_if_they_cannot_concern_partitions(data: dict[str, Any]) -> None:
    records = FORMAT.read_records(_record("QUOTA_WINDOW_RECORD", **data), "x")
    (fact,) = shorten(check_facts(records, FORMAT.parse_facts(records)))
    assert fact["kind"] == FactKind.IGNORED
    assert "QUOTA_WINDOW_RECORD of a later version names no partition or broker" in str(fact)


def test_a_controller_may_be_unregistered() -> None:
    records = FORMAT.read_records(_record("UNREGISTER_CONTROLLER_RECORD", controllerId=3), "x")
    (fact,) = shorten(check_facts(records, FORMAT.parse_facts(records)))
    assert fact["kind"] == FactKind.IGNORED


def test_a_topic_of_an_aborted_transaction_stays_unknown() -> None:
    topic = _record("TOPIC_RECORD", name="t", topicId=T1)
    begin, abort = _record("BEGIN_TRANSACTION_RECORD"), _record("ABORT_TRANSACTION_RECORD")
    change = _record("PARTITION_CHANGE_RECORD", partitionId=0, topicId=T1)
    records = FORMAT.read_records("\n".join([begin, topic, change, abort, change]), "x")
    kinds = [row["kind"] for row in shorten(check_facts(records, FORMAT.parse_facts(records)))]
    assert kinds == [FactKind.IGNORED] * 4 + [FactKind.REJECTED]


def test_a_change_after_the_topic_was_removed_is_rejected() -> None:
    text = (FORMATS_DIR / "kraft-log.txt").read_text()
    late = "\n" + _record("PARTITION_CHANGE_RECORD", partitionId=0, topicId=T3)
    end = text.rindex("| offset: 26")  # before the transaction that never ends
    records = FORMAT.read_records(text[:end] + late, "x")
    (fault,) = shorten(check_facts(records, FORMAT.parse_facts(records)), FactKind.REJECTED)
    assert "belongs to no topic" in fault["reasons"][0]


def test_a_snapshot_and_bare_payloads_are_read_the_same_way() -> None:
    assert [row["kind"] for row in facts("kraft-snapshot.txt") if row["kind"] != FactKind.IGNORED] == [
        *("topic", "partition", "partition", "config", "broker", "broker")
    ]
    assert facts("kraft-payloads.jsonl")[3] == {"kind": "clear_elr"}  # of all topics
    assert facts("kraft-payloads.jsonl")[0]["fenced"] is False


def test_reasons_of_bad_records_name_key_and_value() -> None:
    assert {n: reason.removeprefix("unparsable: ") for n, reason in faults("kraft-bad.txt").items()} == {
        2: f'topicId "{T1}" belongs to no topic that the log has created: {SNAPSHOT}',
        4: "replicas[0] is true, expected a whole number",
        5: "leader is -7, expected -1 to 2147483647",
        6: 'partitionId is "0x", expected a whole number',
        7: "replicas is missing",
        8: "brokerId is -1, expected 0 to 2147483647",
        9: "value is missing",
        10: "the payload is not JSON (Unterminated string at character 9)",
        12: "an entry without a decoded payload (dump with --cluster-metadata-decoder)",
    }


_TEXT = (FORMATS_DIR / "kraft-log.txt").read_text()


@given(st.integers(0, len(_TEXT)), st.integers(0, 200), st.text(max_size=5))
def test_no_damage_to_a_log_raises(at: int, cut: int, extra: str) -> None:
    records = FORMAT.read_records(_TEXT[:at] + extra + _TEXT[at + cut :], "x")
    check_facts(records, FORMAT.parse_facts(records))


def find_warnings(text: str) -> list[tuple[int, str]]:
    records = FORMAT.read_records(text, "x")
    rows = check_facts(records, FORMAT.parse_facts(records)).to_pylist()
    assert [row["is_selection"] for row in rows if row["warning"]] == [True] * sum(bool(r["warning"]) for r in rows)
    return [(row["line_number"], row["warning"]) for row in rows if row["warning"]]


def test_a_log_without_its_begin_is_a_warning() -> None:
    late = (
        "the log begins at offset {}, so older topics and brokers are missing: "
        "dump the snapshot before it too, as in --files N.checkpoint,N.log"
    )
    topic = "| offset: 5001 payload: " + _record("TOPIC_RECORD", name="t", topicId=T1) + "\n"
    dump = f"Dumping 5000.log\nLog starting offset: 5000\n{topic}"
    assert find_warnings(dump) == [(2, late.format(5000))]
    assert find_warnings(topic) == [(1, late.format(5001))]
    for before in ("Snapshot end offset: 5000, epoch: 3\n", "Log starting offset: 0\n", topic.replace("5001", "2")):
        assert find_warnings(before + dump) == []


def test_what_all_brokers_set_for_topics_is_their_default() -> None:
    config = {"resourceType": 4, "resourceName": "", "name": "min.insync.replicas", "value": "2"}
    rows = [_record("CONFIG_RECORD", **(config | change)) for change in ({}, {"resourceName": "1"}, {"value": None})]
    records = FORMAT.read_records("\n".join(rows), "x")
    facts = check_facts(records, FORMAT.parse_facts(records))
    assert facts["kind"].to_pylist() == ["topic_defaults", "ignored", "topic_defaults"]
    assert facts["configs"].to_pylist() == [[("min.insync.replicas", "2")], None, [("min.insync.replicas", None)]]


@pytest.mark.parametrize(
    ("changes", "expected"), [([], None), ([["A", "B"]], True), ([["A"]], False), ([["A", "B"], None, []], False)]
)
def test_a_broker_is_cordoned_once_all_of_its_log_dirs_are(
    changes: list[list[str] | None], expected: bool | None, tmp_path: Path
) -> None:
    broker = {"brokerId": 1, "brokerEpoch": 9}
    records = [{"type": "REGISTER_BROKER_RECORD", "version": 4, "data": broker | {"logDirs": ["A", "B"]}}]
    for dirs in changes:
        change = broker | {"fenced": -1} | ({} if dirs is None else {"cordonedLogDirs": dirs})
        records.append({"type": "BROKER_REGISTRATION_CHANGE_RECORD", "version": 3, "data": change})
    (tmp_path / "log.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    snapshot = load_snapshot(find_source(str(tmp_path / "log.json")))
    assert snapshot.brokers["cordoned"].to_pylist() == [expected]
    assert snapshot.quarantined == []


@pytest.mark.parametrize("end", ["LeaderChange", "LeaderChange:", "LeaderChange: ", "LeaderChange: {"])
def test_a_change_of_the_controller_that_is_cut_is_rejected(end: str) -> None:
    line = "| offset: 0 CreateTime: 1 keySize: 4 valueSize: 19 sequence: -1 headerKeys: [] " + end
    with pytest.raises(BadValueError):
        FORMAT.parse_record(None, line)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["/b"], {"/a": False, "/b": True}),
        (["/b", "/a"], {"/a": True, "/b": False}),
        (["*"], {"/a": True, "/b": True}),
        (["/b", None], {"/a": False, "/b": False}),
        ([], {"/a": None, "/b": None}),
    ],
)
def test_configs_of_a_log_name_the_cordoned_log_dirs_of_a_broker(
    values: list[str | None], expected: dict[str, bool | None], tmp_path: Path
) -> None:
    ids = ["A", "B"]
    closed = {"fenced": -1, "cordonedLogDirs": ids if "*" in values else ["B"]}
    change = _record("BROKER_REGISTRATION_CHANGE_RECORD", brokerId=1, brokerEpoch=9, **closed)
    records = [
        _record("REGISTER_BROKER_RECORD", brokerId=1, brokerEpoch=9, logDirs=ids),
        *([change] if values else []),
        *(
            _record("CONFIG_RECORD", resourceType=4, resourceName=broker, name="cordoned.log.dirs", value=value)
            for value in values
            for broker in ("1", "9")  # 9 was unregistered
        ),
    ]
    (tmp_path / "log.json").write_text("\n".join(records))
    own = [{"logDir": path, "error": None, "partitions": []} for path in ("/a", "/b")]
    (tmp_path / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": [{"broker": 1, "logDirs": own}]}))
    snapshot = load_snapshot(find_source(str(tmp_path)))
    cordoned = zip(*(snapshot.log_dirs[name].to_pylist() for name in ("log_dir", "cordoned")), strict=True)
    assert dict(cordoned) == expected
    assert snapshot.brokers["broker_id"].to_pylist() == [1]
    assert not snapshot.quarantined
    assert not snapshot.conflicts.num_rows
