"""ZooKeeper's znodes: as JSON lines, and as the text of a zkCli.sh session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats import zookeeper_cli, zookeeper_json
from pipelines.ingest.formats.checked_values import BadValueError
from pipelines.ingest.formats.zookeeper_json import parse_znode
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.source_format import FactKind, parse_each, read_lines
from pipelines.ingest.sources import find_source

from .facts import BAD_DIR, FORMATS_DIR, check_facts, drop_kind, facts, faults, load_facts, reasons, shorten


def test_brokers_of_all_versions() -> None:
    assert drop_kind(facts("zookeeper-versions.jsonl", FactKind.BROKER)) == [
        {"broker_id": 1, "registered": True, "host": "b1", "port": 9092},
        {"broker_id": 2, "registered": True, "host": "b2", "port": 9092},
        {"broker_id": 3, "registered": True, "rack": "east", "host": "b3", "port": 9092},
        {"broker_id": 4, "registered": True, "rack": "west", "host": "b4", "port": 9094},
        {"broker_id": 5, "registered": True, "host": "fe80::5", "port": 9094},
        {"broker_id": 3, "controller": True},
    ]


def test_topics_of_all_versions() -> None:
    topic_id = "5gfb0WaGRD-gbXnSt6fEKQ"
    rows = drop_kind(facts("zookeeper-versions.jsonl", FactKind.TOPIC, FactKind.PARTITION))
    assert rows[:7] == [
        {"topic": "v1", "partition_count": 2, "release_before": 208},
        {"topic": "v1", "partition": 0, "replicas": [1, 2]},
        {"topic": "v1", "partition": 1, "replicas": [2, 3]},
        {"topic": "v2", "partition_count": 2, "release_before": 208},
        {"topic": "v2", "partition": 0, "replicas": [3, 1, 2], "adding_replicas": [3], "removing_replicas": [2]},
        {"topic": "v2", "partition": 1, "replicas": [2, 3]},
        {"topic": "v3", "topic_id": topic_id, "partition_count": 1},
    ]
    assert rows[7] == {"topic": "v3", "topic_id": topic_id, "partition": 0, "replicas": [4, 5]}
    assert rows[8:] == [
        {"topic": "v1", "partition": 0, "leader": 1, "leader_epoch": 8, "controller_epoch": 21, "isr": [1]},
        {"topic": "v1", "partition": 1, "leader": -1, "leader_epoch": 9, "controller_epoch": 21, "isr": [2]},
        {"topic": "v1", "marked_for_deletion": True},
    ]


def test_configs_also_of_a_topic_that_is_named_like_a_znode() -> None:
    assert drop_kind(facts("zookeeper-versions.jsonl", FactKind.CONFIG)) == [
        {"topic": "v1", "configs": [("min.insync.replicas", "2"), ("cleanup.policy", "compact,delete")]},
        {"topic": "controller", "configs": []},
    ]


def test_a_cluster_may_live_under_a_path_of_its_own() -> None:
    assert parse_znode("/kafka/east/controller", '{"brokerid":3}') == [
        (FactKind.BROKER, {"broker_id": 3, "controller": True})
    ]
    assert parse_znode("/kafka/brokers/topics/t", {"partitions": {"0": [1]}})[1][1]["replicas"] == [1]
    assert parse_znode("/config/users/controller", "{}")[0][1]["reasons"] == ["znode without placement"]


def test_a_session_gives_the_znodes_that_it_shows() -> None:
    assert drop_kind(
        facts("zookeeper-cli.txt", FactKind.BROKER, FactKind.TOPIC, FactKind.PARTITION, FactKind.CONFIG)
    ) == [
        {"broker_id": 1, "registered": True},
        {"broker_id": 2, "registered": True},
        {"broker_id": 3, "registered": True},
        {"broker_id": 1, "registered": True, "rack": "east", "host": "b1", "port": 9092},
        {"topic": "audit"},
        {"topic": "orders"},
        {"topic": "orders", "partition_count": 2},
        {"topic": "orders", "partition_count": 2, "release_before": 208},
        {"topic": "orders", "partition": 0, "replicas": [1, 2]},
        {"topic": "orders", "partition": 1, "replicas": [2, 3]},
        {"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 8, "controller_epoch": 21, "isr": [1, 2]},
        {"topic": "orders", "partition": 1, "leader": 2, "leader_epoch": 3, "controller_epoch": 21, "isr": [2]},
        {"broker_id": 2, "controller": True},
        {"topic": "orders", "configs": [("min.insync.replicas", "2")]},
    ]
    assert reasons("zookeeper-cli.txt") == {
        "prose": 3,
        "log line": 3,
        "blank line": 2,
        "prompt": 14,
        "stat line": 13,
        "node does not exist": 1,
        "znode without placement": 2,
    }


def test_one_shot_commands_and_bare_paths_name_the_znode() -> None:
    rows = drop_kind(facts("zookeeper-cli-one-shot.txt", FactKind.BROKER, FactKind.TOPIC, FactKind.PARTITION))
    assert rows == [
        {"topic": "orders", "partition_count": 1, "release_before": 208},
        {"topic": "orders", "partition": 0, "replicas": [1, 2]},
        {"topic": "orders", "partition": 0, "leader": 2, "leader_epoch": 4, "controller_epoch": 21, "isr": [2, 1]},
        {"broker_id": 2, "registered": True, "host": "b2", "port": 9092},
        {"broker_id": 1, "registered": True, "host": "b1", "port": 9092},
        {"broker_id": 3, "registered": True, "host": "b3", "port": 9092},
        {"broker_id": 7, "registered": False},
    ]


def session(*commands: tuple[str, str]) -> str:
    return "".join(f"[zk: h:2181(CONNECTED) {i}] {c}\n{answer}\n" for i, (c, answer) in enumerate(commands))


def broker_facts(*commands: tuple[str, str]) -> list[dict[str, object]]:
    records = zookeeper_cli.FORMAT.read_records(session(*commands), "x")
    return drop_kind(shorten(check_facts(records, zookeeper_cli.FORMAT.parse_facts(records)), FactKind.BROKER))


def registered(*ids: int) -> list[dict[str, object]]:
    return [{"broker_id": i, "registered": True} for i in ids]


def unregistered(*ids: int) -> list[dict[str, object]]:
    return [{"broker_id": i, "registered": False} for i in ids]


TOPIC_OF_3 = ("get /brokers/topics/t", '{"version":1,"partitions":{"0":[1,2,3]}}')
STATE_OF_3 = ("get /brokers/topics/t/partitions/0/state", '{"leader":1,"leader_epoch":1,"isr":[1,2]}')
LIST = "ls /brokers/ids"
NO_IDS = "Node does not exist: /brokers/ids"


def test_a_listing_shows_which_mentioned_brokers_are_not_registered() -> None:
    assert broker_facts((LIST, "[1, 2]"), TOPIC_OF_3) == registered(1, 2) + unregistered(3)
    assert broker_facts((LIST, "[]"), TOPIC_OF_3) == unregistered(1, 2, 3)
    assert broker_facts((LIST, NO_IDS), TOPIC_OF_3) == unregistered(1, 2, 3)
    assert broker_facts((LIST, "[1, 2, 3]"), TOPIC_OF_3) == registered(1, 2, 3)


@pytest.mark.parametrize(
    "answer",
    [
        "Node does not exist: /brokers/ids/3",
        "org.apache.zookeeper.KeeperException$NoNodeException: KeeperErrorCode = NoNode for /brokers/ids/3",
        "Node does not exist",
    ],
)
def test_a_missing_znode_shows_that_the_broker_is_not_registered(answer: str) -> None:
    assert broker_facts(("get /brokers/ids/3", answer)) == unregistered(3)


def test_what_all_brokers_set_for_topics_is_their_default() -> None:
    data = '{"version":1,"config":{"log.retention.ms":"5","unclean.leader.election.enable":"true"}}'
    expected = [(FactKind.TOPIC_DEFAULTS, {"configs": [("unclean.leader.election.enable", "true")]})]
    assert parse_znode("/config/brokers/<default>", data) == expected
    assert parse_znode("/config/brokers/1", data)[0][0] is FactKind.IGNORED


def test_another_missing_znode_says_nothing_about_brokers() -> None:
    assert broker_facts(("get /brokers/topics/t", "Node does not exist: /brokers/topics/t"), TOPIC_OF_3) == []
    assert broker_facts(("get /brokers/ids/x", "Node does not exist: /brokers/ids/x"), TOPIC_OF_3) == []
    assert broker_facts(("ls /brokers/topics", "[]"), TOPIC_OF_3) == []


def test_a_missing_znode_under_a_wrong_path_takes_no_broker_down() -> None:
    wrong = [(LIST, NO_IDS), ("get /brokers/ids/1", "Node does not exist: /brokers/ids/1")]
    assert broker_facts(*wrong, ("ls /kafka/brokers/ids", "[1]")) == registered(1)


def topic_facts(text: str) -> list[dict[str, object]]:
    records = zookeeper_cli.FORMAT.read_records(text, "x")
    rows = shorten(check_facts(records, zookeeper_cli.FORMAT.parse_facts(records)), FactKind.TOPIC, FactKind.BROKER)
    return drop_kind(rows)


def test_listings_name_topics() -> None:
    listings = [("ls /brokers/topics", "[audit, money]"), ("ls /brokers/topics/audit", "[partitions]")]
    assert topic_facts(session(*listings)) == [{"topic": "audit"}, {"topic": "money"}, {"topic": "audit"}]
    deletions = session(("ls /admin/delete_topics", "[old]"), ("ls /config/topics", "[older]"))
    assert topic_facts(deletions) == [{"topic": "old", "marked_for_deletion": True}]


def test_the_lines_of_a_recursive_listing_name_topics_and_partitions() -> None:
    paths = ["/brokers", "/brokers/ids", "/brokers/ids/1", "/brokers/topics", "/brokers/topics/a.b"]
    paths += [f"/brokers/topics/a.b/partitions{end}" for end in ("", "/0", "/0/state", "/12", "/12/state")]
    paths += ["/brokers/topics/money"]
    text = session(("ls -R /brokers", "\n".join(paths)), TOPIC_OF_3)
    names, one, other = [{"topic": "a.b"}, {"topic": "money"}], [{"topic": "a.b"}], [{"topic": "money"}]
    count = [{"topic": "a.b", "partition_count": 13}]  # partition 0 to 12: the others were cut off
    assert topic_facts(text) == [
        *names,
        *one,
        *count,
        *other,
        {"topic": "t", "partition_count": 1, "release_before": 208},
    ]
    records = zookeeper_cli.FORMAT.read_records(text, "x")
    rows = shorten(check_facts(records, zookeeper_cli.FORMAT.parse_facts(records)), FactKind.IGNORED)
    assert [row["reasons"] for row in rows[1:8]] == [["listing"]] * 7


def test_topics_that_are_listed_and_not_shown(tmp_path: Path) -> None:
    snapshot = load_session(tmp_path, ("ls /brokers/topics", "[money, t]"), TOPIC_OF_3, STATE_OF_3)
    assert {row["topic"]: row["incomplete"] for row in snapshot.topics.to_pylist()} == {"money": True, "t": False}


def load_session(folder: Path, *commands: tuple[str, str]) -> Snapshot:
    file = folder / "session.txt"
    file.write_text(session(*commands))
    return load_snapshot(find_source(str(file)))


@pytest.mark.parametrize(
    "second", [(LIST, "[1, 2]"), (LIST, "[]"), (LIST, NO_IDS), ("get /brokers/ids/3", NO_IDS + "/3")]
)
@pytest.mark.parametrize("turned", [False, True])
def test_listings_that_differ_are_a_conflict(tmp_path: Path, second: tuple[str, str], turned: bool) -> None:
    both = [(LIST, "[1, 2, 3]"), second]
    snapshot = load_session(tmp_path, *(both[::-1] if turned else both), TOPIC_OF_3, STATE_OF_3)
    (row,) = [row for row in snapshot.conflicts.to_pylist() if row["entity"] == "broker 3"]
    assert (row["field"], {row["value"], row["other_value"]}) == ("registered", {"True", "False"})
    assert sorted([row["line_number"], row["other_line_number"]]) == [2, 4]
    (broker,) = [row for row in snapshot.brokers.to_pylist() if row["broker_id"] == 3]
    place = f"{snapshot.files[0].name} line {2 if turned else 4}"
    assert broker["live"] is None
    assert broker["live_reason"].endswith(f"but not among the brokers in {place}, which is of another moment")


def test_after_an_empty_listing_all_brokers_are_down(tmp_path: Path) -> None:
    snapshot = load_session(tmp_path, (LIST, "[]"), TOPIC_OF_3, STATE_OF_3)
    assert {(b["broker_id"], b["live"], b["live_reason"]) for b in snapshot.brokers.to_pylist()} == {
        (i, False, "unregistered") for i in (1, 2, 3)
    }
    assert "broker 1" in snapshot.conflicts["entity"].to_pylist()  # it leads


def test_an_empty_listing_without_mentioned_brokers_is_ignored() -> None:
    records = zookeeper_cli.FORMAT.read_records(session((LIST, "[]")), "x")
    rows = shorten(check_facts(records, zookeeper_cli.FORMAT.parse_facts(records)))
    assert rows[1] == {"kind": "ignored", "reasons": ["empty broker listing"]}


def test_reasons_of_bad_znodes_name_key_and_value() -> None:
    found = faults("zookeeper-bad.jsonl")
    assert list(found) == list(range(1, 10))
    assert found[1] == 'unparsable: partitions."0"[0] is true, expected a whole number'
    assert found[2] == "unparsable: partitions is missing"
    assert found[3] == "unparsable: leader is 1.0, expected a whole number"
    assert found[7] == "unparsable: path is 7, expected text"
    assert found[8] == "unparsable: path is missing"
    assert "is not JSON" in found[9]
    assert faults("zookeeper-cli-bad.txt") == {
        2: "unparsable: the listing of /brokers/ids is cut off",
        4: "unparsable: a data line without the path of its znode",
    }


@pytest.mark.parametrize("data", ["[1]", "null", '"x"', "{", "[" * 100_000, "9" * 10_000, '{"partitions":[]}'])
def test_data_of_another_type_is_rejected(data: str) -> None:
    with pytest.raises(BadValueError, match="unparsable"):
        parse_znode("/brokers/topics/t", data)


def test_a_half_surrogate_pair_is_rejected() -> None:
    line = json.dumps({"path": "/brokers/ids/1", "data": '{"rack":"\\ud800","host":"b","port":1}'})
    records = zookeeper_json.FORMAT.read_records(line, "x")
    (row,) = shorten(check_facts(records, zookeeper_json.FORMAT.parse_facts(records)))
    assert "not valid text" in row["reasons"][0]


_LINES = (FORMATS_DIR / "zookeeper-versions.jsonl").read_text().splitlines()
_SESSION = (FORMATS_DIR / "zookeeper-cli.txt").read_text()


@given(st.sampled_from(_LINES), st.integers(0, 300), st.integers(0, 20), st.text(max_size=5))
def test_no_damage_to_a_dump_raises(line: str, at: int, cut: int, extra: str) -> None:
    records = zookeeper_json.FORMAT.read_records(line[:at] + extra + line[at + cut :] + "\n", "x")
    check_facts(records, zookeeper_json.FORMAT.parse_facts(records))


@given(st.integers(0, len(_SESSION)), st.integers(0, 200), st.text(max_size=5))
def test_no_damage_to_a_session_raises(at: int, cut: int, extra: str) -> None:
    records = zookeeper_cli.FORMAT.read_records(_SESSION[:at] + extra + _SESSION[at + cut :], "x")
    check_facts(records, zookeeper_cli.FORMAT.parse_facts(records))


def test_a_session_and_a_dump_of_the_same_znodes_give_the_same_facts() -> None:
    dump = (FORMATS_DIR / "zookeeper-versions.jsonl").read_text().splitlines()
    session = []
    for line in dump:
        znode = json.loads(line)
        data = znode["data"]
        session.append(f"[zk: localhost:2181(CONNECTED) 3] get {znode['path']}")
        session.append("null" if data is None else data if isinstance(data, str) else json.dumps(data))
    records = zookeeper_cli.FORMAT.read_records("\n".join(session) + "\n", "x")
    kinds = (FactKind.BROKER, FactKind.TOPIC, FactKind.PARTITION, FactKind.CONFIG)
    assert shorten(check_facts(records, zookeeper_cli.FORMAT.parse_facts(records)), *kinds) == facts(
        "zookeeper-versions.jsonl", *kinds
    )


def test_all_records_of_the_bad_dump_are_rejected() -> None:
    assert {row["kind"] for row in shorten(load_facts(BAD_DIR / "zookeeper-bad.jsonl"))} == {"rejected"}


def test_a_reassignment_in_zookeeper_is_a_warning() -> None:
    data = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[5,6]}]}'
    ((kind, values),) = parse_znode("/admin/reassign_partitions", data)
    assert (kind, values["warning"]) == (FactKind.IGNORED, "a reassignment is running: replicas change")
    assert "warning" not in parse_znode("/admin/reassign_partitions", None)[0][1]


def test_a_command_in_a_here_string_is_read() -> None:
    command = '$ bin/zookeeper-shell.sh zk1:2181 <<< "ls /brokers/ids"'
    facts = broker_facts((command, "[1]"), TOPIC_OF_3)
    assert facts == broker_facts(("ls /brokers/ids", "[1]"), TOPIC_OF_3) != []


def test_a_line_of_a_dump_below_a_command_that_breaks_off_is_no_answer_to_it() -> None:
    dump = '{"path":"/brokers/topics/t","data":"{\\"version\\":1,\\"partitions\\":{\\"0\\":[1,2]}}"}'
    records = zookeeper_cli.FORMAT.read_records("[zk: localhost:2181(CONNECTED) 4] get /brokers/to\n" + dump, "x")
    facts = shorten(check_facts(records, zookeeper_cli.FORMAT.parse_facts(records)), FactKind.PARTITION)
    assert drop_kind(facts) == [{"topic": "t", "partition": 0, "replicas": [1, 2]}]


def test_a_document_below_the_path_of_a_znode_without_such_data_is_rejected() -> None:
    with pytest.raises(BadValueError, match=r"the data of /brokers/topics/t/partitions/0 does not"):
        parse_znode("/brokers/topics/t/partitions/0", '{"partitions": [{"topic": "t", "partition": 0}]}')


_state_line = st.builds(
    lambda topic, partition, leader, isr, space, tail: (
        f'{{"path":{space}"/brokers/topics/{topic}/partitions/{partition}/state",{space}"data":{space}'
        + json.dumps(
            json.dumps(
                {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 7, "isr": isr},
                separators=("," + space, ":" + space),
            )
        )
        + tail
    ),
    st.sampled_from(["t", "a.b-c_d", "ü", "..", ""]),
    st.sampled_from(["0", "12", "007", "1000000", "x", ""]),
    st.sampled_from([-2, -1, 0, 5, 10**9, 10**12, None]),
    st.lists(st.sampled_from([0, 1, 999_999_999, 10**10, -1]), max_size=4),
    st.sampled_from(["", " "]),
    st.sampled_from(["}", "},", ', "czxid": 6, "version": 0}', ', "data": null}', ', "version": 01}', "", "} x"]),
)


@given(st.lists(_state_line | st.text(max_size=30), min_size=1, max_size=8))
def test_the_batch_parser_and_the_line_parser_agree(lines: list[str]) -> None:
    records = read_lines("\n".join(line.replace("\n", " ") for line in lines) + "\n")
    expected = parse_each(records, zookeeper_json.FORMAT.parse_record)
    assert check_facts(records, zookeeper_json.FORMAT.parse_facts(records)).equals(expected)
