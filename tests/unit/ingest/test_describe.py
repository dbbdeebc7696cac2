"""`kafka-topics --describe` of every version, also as mails, tickets and scripts change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats.describe import FORMAT
from pipelines.ingest.formats.describe_line import parse_line, split_configs
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.source_format import FactKind, parse_each, read_lines
from pipelines.ingest.sources import find_source
from pipelines.ingest.text import OMISSION, PROBLEM

from .facts import BAD_DIR, FORMATS_DIR, check_facts, drop_kind, facts, faults, load_facts, reasons, shorten

ORDERS_ID = "uvI100-vS2WmgO9_X9Uk5Q"


def partition(topic: str, number: int, leader: int, replicas: list[int], isr: list[int], **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": number, "leader": leader, "replicas": replicas, "isr": isr} | more


def parse_facts(line: str) -> list[dict[str, Any]]:
    """Return the facts of one line."""
    records = read_lines(line)
    return shorten(check_facts(records, FORMAT.parse_facts(records)))


def parse_fact(line: str) -> dict[str, Any]:
    """Return the only fact of one line."""
    (row,) = parse_facts(line)
    return row


def test_0_8_0_has_lower_case_labels_and_no_header() -> None:
    assert drop_kind(facts("describe-0.8.0.txt")) == [
        partition("orders", 0, 0, [0, 1], [0, 1]),
        partition("orders", 1, 1, [1, 2], [1, 2]),
        partition("orders", 2, -1, [2], []),
        partition("audit", 0, 2, [2, 0], [2]),
    ]


def test_0_8_1_to_2_1_have_a_header_without_spaces() -> None:
    assert drop_kind(facts("describe-0.8.1.txt", FactKind.TOPIC)) == [
        {"topic": "orders", "partition_count": 3, "replication_factor": 2, "configs": [], "release_before": 202},
        {
            "topic": "audit",
            "partition_count": 1,
            "replication_factor": 2,
            "configs": [("cleanup.policy", "compact"), ("retention.ms", "86400000")],
            "marked_for_deletion": True,
            "release_before": 202,
        },
    ]
    assert drop_kind(facts("describe-0.8.1.txt", FactKind.PARTITION))[2] == partition("orders", 2, -1, [2, 0], [])


def test_2_2_has_spaces_and_no_topic_id() -> None:
    assert drop_kind(facts("describe-2.2.txt")) == [
        {"topic": "orders", "partition_count": 2, "replication_factor": 2, "configs": [("min.insync.replicas", "2")]},
        partition("orders", 0, 0, [0, 1], [0, 1]),
        partition("orders", 1, 1, [1, 2], [2, 1]),
        {"topic": "audit", "partition_count": 1, "replication_factor": 2, "configs": [], "marked_for_deletion": True},
        partition("audit", 0, -1, [2, 0], []),
        {"topic": "audit", "marked_for_deletion": True},
    ]


def test_a_deletion_mark_on_a_partition_line_marks_the_topic_without_a_header(tmp_path: Path) -> None:
    file = tmp_path / "describe.txt"
    line = "\tTopic: t\tPartition: {}\tLeader: 1\tReplicas: 1\tIsr: 1{}\n"
    file.write_text(line.format(0, "\tMarkedForDeletion: true") + line.format(1, "\tMarkedForDeletion: true"))
    snapshot = load_snapshot(find_source(str(file)))
    assert [topic["marked_for_deletion"] for topic in snapshot.topics.to_pylist()] == [True]
    assert snapshot.outcomes.to_pylist() == [
        {"source": "describe.txt", "outcome": "accepted", "reason": None, "records": 2, "first_lines": None}
    ]


def test_2_8_has_topic_ids() -> None:
    assert facts("describe-2.8.txt", FactKind.TOPIC)[0]["topic_id"] == ORDERS_ID


def test_3_8_has_eligible_leader_replicas_that_are_unknown_empty_or_filled() -> None:
    assert drop_kind(facts("describe-3.8-elr.txt", FactKind.PARTITION)) == [
        partition("orders", 0, 0, [0, 1, 2], [0, 1, 2]),
        partition("orders", 1, 1, [1, 2, 0], [1, 2, 0], elr=[], last_known_elr=[]),
        partition("orders", 2, 2, [2, 0, 1], [2], elr=[0], last_known_elr=[]),
        partition("orders", 3, -1, [1, 0, 2], [], elr=[1, 0], last_known_elr=[2]),
    ]


def test_a_reassignment_shows_adding_and_removing_replicas() -> None:
    assert drop_kind(facts("describe-reassigning.txt", FactKind.PARTITION)) == [
        partition("orders", 0, 0, [3, 0, 1], [0, 1], adding_replicas=[3], removing_replicas=[1]),
        partition(
            *("orders", 1, 1, [3, 1, 2], [1, 2]), adding_replicas=[3], removing_replicas=[], elr=[], last_known_elr=[]
        ),
    ]


def test_filtered_output_has_no_header() -> None:
    assert [row["kind"] for row in facts("describe-filtered.txt")] == [FactKind.PARTITION] * 3


def test_config_values_may_contain_commas_colons_spaces_equals_and_json() -> None:
    configs = {row["topic"]: dict(row["configs"]) for row in facts("describe-configs.txt", FactKind.TOPIC)}
    assert configs == {
        "throttled": {"leader.replication.throttled.replicas": "0:1,0:2,1:1", "min.insync.replicas": "1"},
        "policies": {"cleanup.policy": "compact,delete", "preallocate": "true", "retention.ms": "1000"},
        "json": {
            "confluent.placement.constraints": '{"version":1,"replicas":[{"count":2,"constraints":'
            '{"rack":"east, a.b=c"}}],"observers":[]}',
            "segment.bytes": "1024",
        },
        "spaces": {"owner.note": "team: a b, on call=yes", "segment.bytes": "1024"},
        "lone": {"owner.pattern": 'a[b"c', "segment.bytes": "1024"},
    }


def test_columns_of_other_distributions_may_be_anywhere() -> None:
    assert drop_kind(facts("describe-confluent.txt")) == [
        {
            "topic": "orders",
            "topic_id": ORDERS_ID,
            "partition_count": 3,
            "replication_factor": 3,
            "configs": [("min.insync.replicas", "2")],
        },
        partition("orders", 0, 0, [0, 1, 2], [0, 1], offline_replicas=[2], observers=[2]),
        partition("orders", 1, 1, [1, 2, 0], [1, 2, 0], elr=[2], offline_replicas=[]),
        partition("orders", 2, 2, [2, 0, 1], [2, 0], offline_replicas=[1], observers=[0]),
    ]


def test_an_empty_field_before_a_filled_one_stays_empty() -> None:
    rows = drop_kind(facts("describe-empty-field.txt"))
    assert [row["isr"] for row in rows] == [[]] * 4
    assert [row["elr"] for row in rows] == [[1, 2]] * 4
    assert [row["last_known_elr"] for row in rows] == [[], [], [], [1]]


def test_other_lines_around_the_table_are_ignored_by_reason() -> None:
    assert drop_kind(facts("describe-as-kept.txt", FactKind.TOPIC, FactKind.PARTITION)) == [
        {
            "topic": "orders",
            "topic_id": ORDERS_ID,
            "partition_count": 3,
            "replication_factor": 2,
            "configs": [("min.insync.replicas", "1")],
        },
        partition("orders", 0, 0, [0, 1], [0, 1]),
        partition("orders", 1, 1, [1, 2], [1, 2]),
        partition("orders", 2, 2, [2, 0], [2, 0]),
        {"topic": "audit", "partition_count": 1, "replication_factor": 2, "configs": [], "release_before": 202},
        partition("audit", 0, 2, [2, 0], [2, 0]),
    ]
    assert reasons("describe-as-kept.txt") == {"prose": 2, "blank line": 2, "prompt": 3, "log line": 3, "ellipsis": 1}


def test_a_line_cut_off_before_the_end_of_its_isr_is_rejected() -> None:
    table = load_facts(FORMATS_DIR / "describe-cut-off.txt").to_pylist()
    kinds = {row["line_number"]: row["kind"] for row in table}
    assert [n for n, kind in kinds.items() if kind == FactKind.REJECTED] == [1, *range(4, 13)]
    assert [n for n, kind in kinds.items() if kind == FactKind.IGNORED] == [13, 14]
    assert all(row["reasons"][0].startswith("unparsable: ") for row in table if row["kind"] == FactKind.REJECTED)
    # behind Isr, only the column that is cut stays unknown; of the configs, the pair that is
    assert drop_kind(shorten(load_facts(FORMATS_DIR / "describe-cut-off.txt"), FactKind.PARTITION)) == [
        partition("orders", 0, 0, [0, 1], [0, 1]),
        partition("orders", 1, 1, [1, 2], [1, 2]),
    ]
    assert facts("describe-cut-off.txt", FactKind.TOPIC)[0]["configs"] == [("min.insync.replicas", "1")]


@pytest.mark.parametrize("dots", ["...", " ...", "..", " ..", "…", " … ", "...]"])
@pytest.mark.parametrize(
    ("configs", "accepted"),
    [
        ("cleanup.policy=compact,de", []),
        ("cleanup.policy=compact,", []),
        ("cleanup.policy=compact", []),
        ("retention.ms=5,cleanup.policy=compact,de", [("retention.ms", "5")]),
        ("cleanup.policy=compact,delete,retention.m", [("cleanup.policy", "compact,delete")]),
        ("cleanup.policy=compact,retention.ms=", [("cleanup.policy", "compact")]),
        ("cleanup.policy=compact,retention.ms=86", [("cleanup.policy", "compact")]),
        ('retention.ms=5,a.b={"c":"d,e.f=1,g.h', [("retention.ms", "5")]),
        ("", []),
    ],
)
def test_a_config_value_that_is_cut_off_is_rejected(configs: str, accepted: list[tuple[str, str]], dots: str) -> None:
    line = f"Topic: t\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: {configs}{dots}"
    topic, fault = parse_facts(line)
    assert topic == {
        "kind": FactKind.TOPIC,
        "topic": "t",
        "partition_count": 1,
        "replication_factor": 2,
        "configs": accepted,
    }
    assert fault["kind"] == FactKind.REJECTED
    assert fault["topic"] == "t"  # so both facts of the record go the same way
    assert all("cut off" in reason for reason in fault["reasons"])


def test_a_config_value_that_is_shortened_inside_of_the_line_is_rejected() -> None:
    start = "Topic: t\tPartitionCount: 1\tReplicationFactor: 2\t"
    topic, fault = parse_facts(start + "Configs: cleanup.policy=compact,de...,a.b=1\tMarkedForDeletion: true")
    assert topic["configs"] == [("a.b", "1")]
    assert topic["marked_for_deletion"]
    assert fault["reasons"] == [
        'unparsable: Configs has "cleanup.policy=compact,de...", which is cut off; the rest of the line is used'
    ]


def test_a_tab_before_the_dots_ends_the_value() -> None:
    topic, fault = parse_facts("Topic: t\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: a.b=1\t...")
    assert topic["configs"] == [("a.b", "1")]
    assert fault["reasons"] == ["unparsable: cut off behind configs; the rest of the line is used"]
    line = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\t..."
    assert parse_fact(line) == {"kind": FactKind.PARTITION} | partition("t", 0, 1, [1, 2], [1])


@pytest.mark.parametrize("isr", ["11 ...", "11...", "1,1...", "1,1 …", "1..", "11 ..", "1, ..."])
def test_a_list_that_is_cut_off_is_rejected(isr: str) -> None:
    row = parse_fact(f"\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,11,12\tIsr: {isr}")
    assert row["kind"] == FactKind.REJECTED
    assert row["reasons"][0].startswith("unparsable: cut off in Isr")


def test_a_header_with_cut_or_bad_configs_is_quarantined_and_the_rest_is_used(tmp_path: Path) -> None:
    file = tmp_path / "describe.txt"
    line = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    for configs in ("min.insync.replicas=2,cleanup.policy=compact,de...", "nonsense,min.insync.replicas=2"):
        file.write_text(f"Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: {configs}\n{line}")
        snapshot = load_snapshot(find_source(str(file)))
        (topic,) = snapshot.topics.to_pylist()
        assert topic["configs"] == [("min.insync.replicas", "2")]
        assert [row["line_number"] for row in snapshot.quarantined] == [1]
        assert [(row["outcome"], row["records"]) for row in snapshot.outcomes.to_pylist()] == [
            ("accepted", 1),
            ("quarantined", 1),
        ]


@pytest.mark.parametrize("tail", ["...", "…", ""])
def test_a_line_cut_off_before_the_isr_is_never_ignored_as_prose(tail: str) -> None:
    line = "\tTopic: orders\tPartition: 17\tLeader: 12\tReplicas: 12,13\tIsr: 12,13"
    for end in range(len("\tTopic: o"), line.index("Isr: ") + 5):
        assert parse_fact(line[:end] + tail)["kind"] == FactKind.REJECTED, line[:end]
        spaced = line[:end].replace("\t", "  ") + tail
        assert parse_fact(spaced)["kind"] == FactKind.REJECTED, spaced


def test_reasons_of_bad_lines_name_field_and_value() -> None:
    found = faults("describe-bad-lines.txt")
    assert {line: reason.removeprefix("unparsable: ") for line, reason in found.items()} == {
        5: 'Partition is "x", expected a whole number',
        6: 'Leader is "one", expected a broker id, none or -1',
        7: 'Replicas is "1;2", expected broker ids separated by commas',
        8: 'Replicas is "99999999999", expected 0 to 2147483647',
        9: 'Leader is "-2", expected a broker id, none or -1',
        10: "Replicas is empty: paste the whole line",
        13: 'Configs has "nonsense", expected key=value; the rest of the line is used',
        14: 'PartitionCount is "many", expected a whole number',
        15: "ReplicationFactor is missing: paste the whole line",
    }


def test_lines_with_impossible_values_are_parsed_and_left_to_the_merge() -> None:
    rows = drop_kind(facts("describe-bad-lines.txt", FactKind.PARTITION, folder=BAD_DIR))
    assert rows == [
        partition("orders", 0, 1, [1, 1], [1]),
        partition("orders", 1, 3, [1, 2], [1, 2]),
        partition("orders", 2, 1, [1, 2], [1, 3]),
        partition("bad name!", 0, 1, [1, 2], [1, 2]),
    ]
    assert facts("describe-bad-lines.txt", FactKind.TOPIC, folder=BAD_DIR)[1]["topic"] == "bad name!"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Topic: my topic Partition: 0 Leader: 1 Replicas: 1 Isr: 1", partition("my topic", 0, 1, [1], [1])),
        ("Topic: a:b\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", partition("a:b", 0, 1, [1], [1])),
        ("kafka-0  | \tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", partition("t", 0, 1, [1], [1])),
        ("12:\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", partition("t", 0, 1, [1], [1])),
        ("Topic: t\u00a0Partition: 0\u00a0Leader: 1\u00a0Replicas: 1\u00a0Isr: 1", partition("t", 0, 1, [1], [1])),
        ("Topic: t Partition: 0 Leader: 1 Replicas: 1, 2 Isr: 1, 2", partition("t", 0, 1, [1, 2], [1, 2])),
        ("Topic: t Partition: 0 Leader: 2147483647 Replicas: 2147483647 Isr: 2147483647 ",
         partition("t", 0, 2147483647, [2147483647], [2147483647])),
    ],
)  # fmt: skip
def test_unusual_but_clear_lines_are_read(line: str, expected: dict[str, Any]) -> None:
    assert parse_fact(line) == {"kind": FactKind.PARTITION} | expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "blank line"),
        ("  \t ", "blank line"),
        ("...", "ellipsis"),
        ("[...]", "ellipsis"),
        ("$ kafka-topics.sh --describe", "prompt"),
        ("root@broker:/# bin/kafka-topics.sh --describe", "prompt"),
        ("> bin/kafka-topics.sh --describe", "prompt"),
        ("kafka-topics --bootstrap-server b:9092 --describe", "prompt"),
        ("sh-4.2$ exit", "prompt"),
        ("[2024-05-06 07:08:09,123] WARN x", "log line"),
        ("\tat kafka.admin.TopicCommand.main(TopicCommand.scala)", "log line"),
        ("The table follows.", "prose"),
        ("Topic: rebalancing of the cluster next week", "prose"),
    ],
)
def test_other_lines_are_ignored_with_their_reason(line: str, reason: str) -> None:
    warning = {"warning": OMISSION} if reason == "ellipsis" else {}
    assert parse_fact(line or "\n") == {"kind": FactKind.IGNORED, "reasons": [reason], **warning}


@pytest.mark.parametrize(
    ("line", "is_problem"),
    [
        ("Exception in thread main java.lang.RuntimeException", True),
        ("org.apache.kafka.common.errors.TimeoutException: x", True),
        ("java.net.ConnectException: x", True),
        ("Error while executing topic command : x", True),
        ("kafka-0 exited with code 1", True),
        ("command terminated with exit code 0", False),
        ("OfflinePartitionsCount = 3", True),
        ("kafka_controller_kafkacontroller_offlinepartitionscount 3.0", True),
        ("kafka_controller_kafkacontroller_offlinepartitionscount 0.0", False),
        ("OfflinePartitionsCount = 0;", False),
        ("  leader: -1,", True),
        ("  leader: 1,", False),
        ("[2024-05-06 07:08:09,123] INFO Fencing broker 3", True),
        ("The table follows.", False),
    ],
)
def test_text_that_mentions_a_problem_is_a_warning(line: str, is_problem: bool) -> None:
    fact = parse_fact(line)
    assert (fact["kind"], fact.get("warning")) == (FactKind.IGNORED, PROBLEM if is_problem else None)


@pytest.mark.parametrize(
    "line",
    [
        "-- Topic: t Partition: 0 Leader: 1 Replicas: 1 Isr: 1",
        "Topic: t Partition: 0 Leader: 1 Leader: 2 Replicas: 1 Isr: 1",
        "Topic: \tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1",
        "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1 2",
        "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1,",
        "Topic: t\tPartition: 2147483648\tLeader: 1\tReplicas: 1\tIsr: 1",
        "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: x",
        "Topic: t\tPartition: \u0663\tLeader: 1\tReplicas: 1\tIsr: 1",
        "Topic: t\tPartition: " + "9" * 5000 + "\tLeader: 1\tReplicas: 1\tIsr: 1",
    ],
)
def test_an_ambiguous_table_line_is_rejected(line: str) -> None:
    row = parse_fact(line)
    assert row["kind"] == FactKind.REJECTED
    assert row["reasons"][0].startswith("unparsable: ")


def test_zeros_before_a_number_are_no_limit() -> None:
    row = parse_fact("Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: " + "0" * 50_000 + "1")
    assert row["isr"] == [1]


def test_only_bad_configs_are_left_out() -> None:
    problem = 'Configs has "nonsense", expected key=value'
    assert split_configs("nonsense") == ([], [problem])
    assert split_configs("nonsense,a.b=1") == ([("a.b", "1")], [problem])
    assert split_configs(" ") == ([], [])
    assert split_configs("a.b=1,") == ([("a.b", "1")], [])


# --- the two ways to parse agree -------------------------------------------------------------------------

_ids = st.lists(st.integers(0, 2**31 + 5) | st.integers(0, 9), min_size=1, max_size=4)
_joined = _ids.map(lambda ids: ",".join(map(str, ids)))
_elr = st.just("") | st.just("N/A") | _joined
_gap = st.sampled_from(["\t", " ", "   ", " \t"])
_names = st.text("abcXYZ019._-", min_size=1, max_size=8) | st.sampled_from(["Partition", "a b", "x!", "Isr", "Elr"])
_value = st.sampled_from(["", "1", "a:b", "compact,delete", "1.5", "{1,a.b=2}", "x=y", "x...", "x..", "…"])
_config = st.tuples(st.sampled_from(["a.b", "min.insync.replicas", "preallocate", "plain", "A.b"]), _value).map(
    "=".join
)


@st.composite
def partition_lines(draw: st.DrawFn) -> str:
    gap = draw(_gap)
    colon = draw(st.sampled_from([": ", ":"]))
    fields = [
        ("Topic", draw(_names)),
        ("Partition", str(draw(st.integers(0, 2**31 + 5) | st.integers(0, 99)))),
        ("Leader", draw(st.sampled_from(["none", "-1", "None", "-2", "0", "12", "007", "4294967296"]))),
        ("Replicas", draw(_joined)),
        ("Isr", draw(_joined | st.just(""))),
    ]
    if draw(st.integers(0, 2)) == 0:
        fields += [("Adding Replicas", draw(_joined | st.just(""))), ("Removing Replicas", draw(_joined | st.just("")))]
    if draw(st.booleans()):
        fields += [("Elr", draw(_elr)), ("LastKnownElr", draw(_elr))]
    if draw(st.integers(0, 3)) == 0:
        fields.append(("Offline", draw(_elr)))
    if draw(st.integers(0, 3)) == 0:
        fields.append((draw(st.sampled_from(["Observers", "LiveObservers"])), draw(_elr)))
    if draw(st.integers(0, 5)) == 0:
        fields.append(("MarkedForDeletion", "true"))
    if draw(st.integers(0, 5)) == 0:
        fields.insert(
            draw(st.integers(1, len(fields))), (draw(st.sampled_from(["Offline", "Live Ones", "Leader"])), "1")
        )
    line = gap.join(name + colon + value for name, value in fields)
    line = line.lower() if draw(st.integers(0, 9)) == 0 else line
    return draw(st.sampled_from(["\t", "", " ", "> "])) + line + draw(st.sampled_from(["", "", " ", "\t", "...", "x"]))


@st.composite
def topic_lines(draw: st.DrawFn) -> str:
    gap, colon = draw(_gap), draw(st.sampled_from([": ", ":"]))
    fields = [("Topic", draw(_names))]
    if draw(st.booleans()):
        fields.append(("TopicId", draw(st.sampled_from([ORDERS_ID, "short", "", "A" * 22]))))
    fields += [
        ("PartitionCount", draw(st.sampled_from(["3", "0", "x", "9999999999", "010"]))),
        ("ReplicationFactor", draw(st.sampled_from(["3", "", "1"]))),
        ("Configs", ",".join(draw(st.lists(_config, max_size=4)))),
    ]
    if draw(st.integers(0, 3)) == 0:
        fields.append(("MarkedForDeletion", "true"))
    return gap.join(name + colon + value for name, value in fields) + draw(st.sampled_from(["", " ", "..."]))


@given(st.lists(partition_lines() | topic_lines() | st.text(max_size=40), min_size=1, max_size=12))
def test_the_batch_parser_and_the_line_parser_agree(lines: list[str]) -> None:
    records = read_lines("\n".join(line.replace("\n", " ") for line in lines) + "\n")
    assert check_facts(records, FORMAT.parse_facts(records)).equals(parse_each(records, parse_line))


@given(st.data())
def test_no_damage_to_a_line_raises(data: st.DataObject) -> None:
    line = data.draw(partition_lines() | topic_lines())
    begin = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(begin, len(line)))
    damaged = line[:begin] + data.draw(st.text(max_size=6)) + line[end:]
    records = read_lines(damaged + "\n")
    check_facts(records, FORMAT.parse_facts(records))


@pytest.mark.slow
def test_many_lines_keep_their_order_and_numbers() -> None:
    header = "Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: a.b={1}\n"
    block = header + "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n\n"
    records = read_lines(block * 50_000)
    table = check_facts(records, FORMAT.parse_facts(records))
    assert table["record_number"].to_pylist() == list(range(150_000))
    assert table["kind"].to_pylist()[:3] == [FactKind.TOPIC, FactKind.PARTITION, FactKind.IGNORED]
