"""Sessions of kafka-metadata-shell, as Kafka 3.4 and 4.1 print them."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats.metadata_shell import FORMAT
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.sources import find_source

from .facts import FORMATS_DIR, check_facts, drop_kind, facts, find_formats, reasons, shorten

ID = "A" * 22
_SESSION = (FORMATS_DIR / "metadata-shell.txt").read_text()


def parse(text: str) -> list[dict[str, object]]:
    records = FORMAT.read_records(text, "x")
    return shorten(check_facts(records, FORMAT.parse_facts(records)))


def test_a_session_of_kafka_4() -> None:
    state = {"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 4, "replicas": [1, 2], "isr": [1, 2]}
    empty = {"removing_replicas": [], "adding_replicas": [], "elr": [], "last_known_elr": []}
    later = {"leader": 2, "leader_epoch": 5, "replicas": [2, 1], "isr": [2], "removing_replicas": [1], "elr": [1]}
    assert drop_kind(facts("metadata-shell.txt", FactKind.PARTITION)) == [
        *[state | empty] * 2,  # by id and by name
        state | empty | {"partition": 1} | later,
    ]
    assert drop_kind(facts("metadata-shell.txt", FactKind.BROKER)) == [
        {"broker_id": 1, "rack": "east", "host": "b1", "port": 9092, "fenced": False},
        {"broker_id": 2, "fenced": True},
    ]
    topics = drop_kind(facts("metadata-shell.txt", FactKind.TOPIC))
    assert topics[:2] == [{"topic": "audit"}, {"topic": "orders"}]
    assert {"topic": "orders", "topic_id": ID} in topics
    (configs,) = drop_kind(facts("metadata-shell.txt", FactKind.CONFIG))
    assert configs == {"topic": "orders", "configs": [("min.insync.replicas", "2")]}
    assert reasons("metadata-shell.txt") == {"prompt": 10, "listing": 10, "prose": 1}


def test_a_session_of_kafka_3_4() -> None:
    assert drop_kind(facts("metadata-shell-3.4.txt", FactKind.PARTITION, FactKind.BROKER, FactKind.CONFIG)) == [
        {
            "topic": "orders",
            "topic_id": ID,
            "partition": 0,
            "leader": 1,
            "leader_epoch": 3,
            "replicas": [1, 2],
            "isr": [1],
        },
        {"broker_id": 2, "fenced": True},
        {"topic": "orders", "configs": [("min.insync.replicas", "2")]},
    ]


def test_data_of_which_no_name_is_shown_is_rejected() -> None:
    partition = "PartitionRegistration(replicas=[1], isr=[1], leader=1, leaderEpoch=0)"
    assert find_formats(partition + "\n") == ["metadata-shell"]
    (row,) = parse(partition)
    assert "without the cat or tree command" in str(row["reasons"])
    *_, row = parse(f">> cat /image/topics/byId/{ID}/0\n{partition}\n")
    assert "show it by name" in str(row["reasons"])
    *_, row = parse(f">> cat /topicIds/{ID}/0/data\n{json.dumps({'leader': 1})}\n")
    assert "show it by name" in str(row["reasons"])
    *_, row = parse(">> cat /topics/t/0/data\n" + json.dumps({"leader": 1, "isr": [1]}) + "\n")
    assert "replicas is missing" in str(row["reasons"])
    *_, row = parse('>> cat /brokers/9\n{"brokers": [{"logDirs": [{"partitions": [{"partition": "t-0"}]}]}]}\n')
    assert "is no value of this node" in str(row["reasons"])


def test_several_targets_answer_one_after_the_other() -> None:
    rows = parse(">> cat /brokers/1/isFenced ../brokers/2/isFenced\ntrue\nfalse\n")
    assert drop_kind(rows[1:]) == [{"broker_id": 1, "fenced": True}, {"broker_id": 2, "fenced": False}]


@given(st.integers(0, len(_SESSION)), st.integers(0, 200), st.text(max_size=5))
def test_no_damage_to_a_session_raises(at: int, cut: int, extra: str) -> None:
    parse(_SESSION[:at] + extra + _SESSION[at + cut :])


def test_cordoned_log_dirs_of_a_session_of_kafka_4_3(tmp_path: Path) -> None:
    """Registrations have ids of log dirs, and configs paths: from a snapshot of Kafka 4.3.1."""
    registration = (
        "  BrokerRegistration(id={id_}, epoch=15, listeners=[Endpoint(listenerName='PLAINTEXT', securityProtocol="
        "PLAINTEXT, host='127.0.0.1', port=43097)], supportedFeatures={{metadata.version: 7-30}}, rack=Optional.empty, "
        "fenced=false, inControlledShutdown=false, isMigratingZkBroker=false, directories=[x7e4T9RsQxelolf3KDJNIQ, "
        "95jDpPgeR0CCYUt9h9F0Yw], cordonedDirectories=[{cordoned}])"
    )
    ids = {1: "x7e4T9RsQxelolf3KDJNIQ", 2: "95jDpPgeR0CCYUt9h9F0Yw, x7e4T9RsQxelolf3KDJNIQ", 3: ""}
    lines = [">> tree image/cluster/brokers"]
    for id_, cordoned in ids.items():
        lines += [f"{id_}:", registration.format(id_=id_, cordoned=cordoned)]
    lines += [">> tree image/configs", "BROKER:", "  min.insync.replicas:", "    1"]
    for id_, value in ((1, "/data"), (2, "*")):
        lines += [f"BROKER:{id_}:", "  cordoned.log.dirs:", f"    {value}"]
    (tmp_path / "shell.txt").write_text("\n".join([*lines, ""]))
    dirs = [{"logDir": path, "error": None, "partitions": []} for path in ("/data", "/data-2")]
    document = {"version": 1, "brokers": [{"broker": id_, "logDirs": dirs} for id_ in ids]}
    (tmp_path / "log-dirs.json").write_text(json.dumps(document))
    snapshot = load_snapshot(find_source(str(tmp_path)))
    assert snapshot.quarantined == []
    assert snapshot.brokers["cordoned"].to_pylist() == [False, True, False]
    assert snapshot.log_dirs["cordoned"].to_pylist() == [True, False, True, True, False, False]


def test_a_partition_below_another_node_is_rejected() -> None:
    text = ">> cat /image/features\nPartitionRegistration(replicas=[2, 4], isr=[4], leader=4, leaderEpoch=1)\n"
    assert [row["kind"] for row in parse(text)] == [FactKind.IGNORED, FactKind.REJECTED]
