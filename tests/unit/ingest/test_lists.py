"""Broker lists, topic lists, offsets and offset checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.formats.checked_values import explain_bad_topic_name
from pipelines.ingest.snapshot_reader import FORMATS, get_format

from .facts import FORMATS_DIR, check_facts, drop_kind, facts, faults, find_formats, reasons, shorten


def broker(number: int, rack: str | None = None, **more: object) -> dict[str, object]:
    return {"broker_id": number} | ({} if rack is None else {"rack": rack}) | more | {"listed": True}


def test_a_broker_list_as_csv() -> None:
    assert drop_kind(facts("brokers.csv", "broker")) == [
        broker(1, "east", host="b1", port=9092),
        broker(2, "west", host="b2", port=9092),
        broker(3, host="b3"),
    ]
    assert reasons("brokers.csv") == {"header": 1, "comment": 1, "blank line": 1}


@pytest.mark.parametrize(
    ("text", "rejected"),
    [
        ("@@ -1,2 +1,2 @@\n-orders:0:5\n+orders:0:6\n orders:1:7\n", [2, 3]),
        ("1c1\n< orders:0:5\n---\n> orders:0:6\n", [2, 4]),
        ("--- a/o.txt 2024-01-01 10:00:00\n+++ b/o.txt 2024-01-02 10:00:00\norders:0:5\n", []),
        ("-orders:0:5\norders:0:6\n", []),
    ],
)
def test_a_diff_of_offsets_is_quarantined_and_its_headers_are_not(text: str, rejected: list[int]) -> None:
    form = FORMATS["offsets"]
    rows = form.parse_facts(form.read_records(text, "x")).to_pylist()
    assert [row["line_number"] for row in rows if row["kind"] == "rejected"] == rejected


@pytest.mark.parametrize("name", ["brokers-semicolon.csv", "brokers-tab.csv", "brokers-list.json"])
def test_a_broker_list_with_other_delimiters_names_and_shapes(name: str) -> None:
    assert drop_kind(facts(name, "broker")) == [broker(1, "east"), broker(2, "west")]


def test_a_broker_list_as_json() -> None:
    assert drop_kind(facts("brokers.json")) == [broker(1, "east"), broker(2, "west", host="b2", port=9092), broker(3)]


def read_brokers(text: str) -> list[dict[str, object]]:
    form = FORMATS["broker-list"]
    records = form.read_records(text, "x.csv")
    return shorten(check_facts(records, form.parse_facts(records)))


def test_states_of_a_broker_list_are_kept_as_written() -> None:
    assert read_brokers("broker;Status;rack\n1;Up;a\n2;;a\n")[1:] == [
        {"kind": "broker", **broker(1, "a", listed_state="Up")},
        {"kind": "broker", **broker(2, "a")},
    ]
    assert read_brokers('[{"id": 1, "rack": "a", "state": 3}]') == [
        {"kind": "broker", **broker(1, "a", listed_state="3")}
    ]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("broker_id,rack", "header"),
        ("broker_id,rack,disk", "header; column not read: disk"),
        ("broker_id,rack," + ",".join(f"c{i}" for i in range(12)), "c8, c9 and 2 more"),
    ],
)
def test_columns_that_are_not_read_are_named(header: str, reason: str) -> None:
    assert str(read_brokers(f"{header}\n")[0]["reasons"]).endswith(f"{reason}']")


@pytest.mark.parametrize("text", ["id,status\n1,done\n", "id;state\n7;open\n", '"partitions": [\n1,2\n'])
def test_a_list_of_anything_is_no_broker_list(text: str) -> None:
    assert find_formats(text) == ["unrecognised"]


def test_bad_values_of_a_broker_list_name_column_and_value() -> None:
    assert {n: reason.removeprefix("unparsable: ") for n, reason in faults("brokers-bad-values.csv").items()} == {
        2: 'broker_id is "one", expected a whole number',
        3: "port is 99999, expected 0 to 65535",
        4: "broker_id is missing",
        5: "the row has 2 values, the header 3 columns",
        6: "broker_id is -5, expected 0 to 2147483647",
    }


def test_a_topic_list_with_loads() -> None:
    orders = {"topic": "orders", "partition_count": 6, "replication_factor": 3}
    audit = {"topic": "audit", "partition_count": 1, "replication_factor": 2}
    loads = {"bytes_in_per_s": 1000.5, "bytes_out_per_s": 3000.0, "size_bytes": 5_000_000_000}
    assert drop_kind(facts("topics.csv", "topic")) == [orders | loads, audit]
    assert drop_kind(facts("topics.json", "topic")) == [orders | {"bytes_in_per_s": 1000.5}, audit]
    assert drop_kind(facts("topics-short-names.csv", "topic")) == [orders]
    assert drop_kind(facts("topics-list.json", "topic")) == [orders]


def test_bad_values_of_a_topic_list_name_topic_and_value() -> None:
    assert {n: reason.removeprefix("unparsable: ") for n, reason in faults("topics-bad-values.csv").items()} == {
        2: 'partitions of "a" is 0, expected 1 to 2147483647',
        3: 'replication_factor of "b" is 0, expected 1 to 32767',
        4: "bytes_in_per_s is -1.0, expected a number >= 0",
        5: "bytes_in_per_s is Infinity, expected a number >= 0",
        6: "topic is missing",
    }


def test_two_columns_of_one_meaning_are_rejected() -> None:
    with pytest.raises(SourceError, match="line 1: id and broker are the same column"):
        FORMATS["broker-list"].read_records("id,broker\n1,2\n", "x.csv")


def test_offsets() -> None:
    assert drop_kind(facts("offsets.txt", "offset")) == [
        {"topic": "orders", "partition": 0, "log_end_offset": 120},
        {"topic": "orders", "partition": 2, "log_end_offset": 0},
        {"topic": "a.b-c_d", "partition": 11, "log_end_offset": 5_000_000_000},
        {"topic": "old", "partition": 0, "log_end_offset": 7},
    ]
    assert reasons("offsets.txt") == {"offset unknown": 1, "log line": 1}
    assert list(faults("offsets-bad.txt")) == [2, 3, 4]


def parsed(name: str, line: str) -> dict[str, object]:
    text = line if name == "offsets" else f"0\n1\n{line}\n"
    records = FORMATS[name].read_records(text, "x.broker-1")
    return shorten(check_facts(records, FORMATS[name].parse_facts(records)))[-1]


@pytest.mark.parametrize("line", ["t:0:", "t:0:-1", "t:0: ", "kafka.t:3:-1"])
def test_an_offset_that_is_unknown_is_ignored_by_name(line: str) -> None:
    assert parsed("offsets", line) == {"kind": "ignored", "reasons": ["offset unknown"]}


@pytest.mark.parametrize(
    "line",
    [":0:1", "::1", "t::1", "t:0:-2", "t:0:1-2", "t:0:,5", "t:0:7,x", "t:0:7,-1", "t:1", "t:0:12...", "t:0:12 …"],
)
def test_a_line_that_is_nearly_an_offset_is_rejected(line: str) -> None:
    assert parsed("offsets", line)["kind"] == "rejected"


@pytest.mark.parametrize("topic", ["kafka.orders", "java.events", "org.apache.x", "ERROR", "Exceptions"])
def test_a_topic_named_like_a_log_line_has_its_offset(topic: str) -> None:
    line = f"{topic}:0:5"
    assert find_formats(line) == ["offsets"]
    assert parsed("offsets", line) == {"kind": "offset", "topic": topic, "partition": 0, "log_end_offset": 5}
    assert parsed("offsets", "2024-05-06T07:08:09")["reasons"] == ["log line"]


@pytest.mark.parametrize("topic", ["bad name!", ".", "..", "t" * 250])
def test_a_bad_topic_name_has_the_same_reason_as_elsewhere(topic: str) -> None:
    rejected = {"kind": "rejected", "reasons": [explain_bad_topic_name(topic)]}
    assert parsed("offsets", f"{topic}:0:5") == rejected
    assert parsed("offset-checkpoint", f"{topic} 0 5") == rejected


def test_the_name_of_a_checkpoint_says_its_broker() -> None:
    assert drop_kind(facts("replication-offset-checkpoint.broker-3", "replica")) == [
        {"topic": "orders", "partition": 0, "broker_id": 3, "high_watermark": 118},
        {"topic": "orders", "partition": 2, "broker_id": 3, "high_watermark": 0},
        {"topic": "a.b-c_d", "partition": 11, "broker_id": 3, "high_watermark": 5_000_000_000},
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("x/replication-offset-checkpoint.broker-12", 12),
        ("x/replication-offset-checkpoint_broker_12.txt", 12),
        ("x/replication-offset-checkpoint.12", 12),
        ("x/replication-offset-checkpoint-12.txt", 12),
        ("data/broker-12/replication-offset-checkpoint", 12),
        ("data/kafka-12/replication-offset-checkpoint", 12),
        ("data/12/replication-offset-checkpoint", 12),
        ("kafka-2.8/replication-offset-checkpoint", None),
        ("replication-offset-checkpoint", None),
    ],
)
def test_the_broker_of_a_checkpoint_is_in_its_path(path: str, expected: int | None) -> None:
    form = FORMATS["offset-checkpoint"]
    if expected is None:
        with pytest.raises(SourceError, match=r"Put the broker.*broker-0"):
            form.read_records("0\n1\nt 0 5\n", path)
        return
    records = form.read_records("0\n1\nt 0 5\n", path)
    assert shorten(form.parse_facts(records), "replica")[0]["broker_id"] == expected


def test_a_wrong_count_and_bad_entries_of_a_checkpoint() -> None:
    assert {n: r.removeprefix("unparsable: ") for n, r in faults("replication-offset-checkpoint.broker-7").items()} == {
        2: "the count is 5, but 3 entries follow (cut off?)",
        4: "offset is -5, expected 0 to 9223372036854775807",
        5: '"orders" is not topic, partition, offset',
    }


def test_an_unknown_format_name_lists_the_known_ones() -> None:
    assert get_format("describe") is FORMATS["describe"]
    with pytest.raises(SettingsError, match=r"'descrbe'.*kraft-log, log-dirs"):
        get_format("descrbe")


_TEXTS = {
    "offsets": (FORMATS_DIR / "offsets.txt").read_text(),
    "offset-checkpoint": Path(FORMATS_DIR / "replication-offset-checkpoint.broker-3").read_text(),
    "reassignment": (FORMATS_DIR / "reassign-verify.txt").read_text(),
}


@given(st.sampled_from(sorted(_TEXTS)), st.integers(0, 100), st.integers(0, 20), st.text(max_size=5))
def test_no_damage_to_a_list_raises(name: str, at: int, cut: int, extra: str) -> None:
    text = _TEXTS[name]
    form = FORMATS[name]
    records = form.read_records(text[:at] + extra + text[at + cut :], "checkpoint.broker-1")
    check_facts(records, form.parse_facts(records))


@given(st.text(max_size=200), st.sampled_from(sorted(FORMATS)))
def test_no_text_makes_a_format_raise_anything_but_a_source_error(text: str, name: str) -> None:
    form = FORMATS[name]
    try:
        records = form.read_records(text, "x.broker-1")
    except SourceError:
        return
    check_facts(records, form.parse_facts(records))
