"""The text of `kcat -L`: whole, damaged, and of a million partitions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats import kcat
from pipelines.ingest.snapshot_reader import FORMATS, load_snapshot
from pipelines.ingest.source_format import FactKind, Records, parse_each
from pipelines.ingest.sources import Source

from .facts import FORMATS_DIR, check_facts, drop_kind, facts, faults, find_formats, reasons, shorten
from .test_sections import load

TEXT = (FORMATS_DIR / "kcat.txt").read_text()
LINE = "    partition {}, leader {}, replicas: {}, isrs: {}{}"


def test_brokers_topics_and_partitions() -> None:
    brokers = drop_kind(facts("kcat.txt", FactKind.BROKER))
    assert [(b["broker_id"], b["host"], b["port"], b["registered"]) for b in brokers] == [
        (1, "b1", 9092, True),
        (2, "b2.example.org", 9093, True),
        (3, "[2001:db8::3]", 9094, True),
    ]
    partitions = drop_kind(facts("kcat.txt", FactKind.PARTITION))
    assert [(p["topic"], p["partition"], p["leader"], p["replicas"], p["isr"]) for p in partitions] == [
        ("orders", 0, 1, [1, 2, 3], [1, 2, 3]),
        ("orders", 2, 3, [3, 1, 2], [3, 1]),
        ("orders", 1, -1, [4, 5], [4]),
        ("audit.log", 0, 2, [2, 4], [2]),
        ("__consumer_offsets", 0, -1, [4], []),
    ]
    assert reasons("kcat.txt") == {"prompt": 1, "header": 3, "error of a partition": 1}


def test_a_topic_without_partitions_is_rejected_with_its_error() -> None:
    (row,) = facts("kcat.txt", FactKind.REJECTED)
    assert row["reasons"] == [
        'unparsable: kcat shows no partition of topic "gone": "Broker: Unknown topic or partition"'
    ]


def test_unlisted_brokers_are_down(tmp_path) -> None:  # type: ignore[no-untyped-def]
    brokers = load(tmp_path, TEXT).brokers.to_pylist()
    assert {row["broker_id"]: row["live"] for row in brokers} == {1: True, 2: True, 3: True, 4: False, 5: False}


def test_a_list_of_brokers_that_is_cut_off_shows_nothing_of_the_others(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = TEXT.replace("  broker 3 at [2001:db8::3]:9094\n", "")
    brokers = load(tmp_path, text).brokers.to_pylist()
    assert not any(row["registered"] for row in brokers)


def test_damaged_lines_are_read_or_rejected_with_a_reason() -> None:
    partitions = facts("kcat-damaged.txt", FactKind.PARTITION)
    assert [(p["partition"], p["isr"]) for p in partitions] == [
        (0, [1, 2, 3]),
        (1, [2, 3, 1]),
        (2, [3, 1, 2]),  # wrapped
        (3, [1, 2]),
        (4, [1, 2, 3]),
    ]
    assert faults("kcat-damaged.txt", FORMATS_DIR) == {
        14: 'unparsable: cut off in isrs, after "2,"',
        15: 'unparsable: ">     partition 6, leader 2, replicas: 2,3" is no whole partition line (cut off?)',
        16: "unparsable: isrs is empty although leader is 2 (cut off?)",
        17: 'unparsable: ">     partition 8, leader 2, replicas: 2,3,x, isrs: 2" is no whole partition line (cut off?)',
    }


def test_a_partition_line_without_its_topic_is_rejected() -> None:
    text = LINE.format(0, 1, "1", "1", "") + "\n"
    assert find_formats(text) == ["kcat"]
    records = kcat.FORMAT.read_records(text, "x")
    (row,) = shorten(kcat.FORMAT.parse_facts(records))
    assert "the topic is unknown" in row["reasons"][0]


@pytest.mark.parametrize("line", ["the broker 1 at 12:30 failed", "partition 3 of orders, leader unknown", "3 brokers"])
def test_prose_is_not_claimed(line: str) -> None:
    assert find_formats(line) == ["unrecognised"]


_IDS = st.sampled_from(["1", "1,2", "1, 2", "", "9999999999", "1,,2", "1,2,", "x", "01"])


@given(
    st.lists(
        st.tuples(
            st.just(1),
            st.sampled_from([None, "topic t", "topic bad name!", "topic .", "topic " + "t" * 250, "all brokers"]),
            st.builds(
                LINE.format,
                st.sampled_from(["0", "7", "-1", "999999", "1000000", "999999999", "99999999999"]),
                st.sampled_from(["1", "-1", "none", "x"]),
                _IDS,
                _IDS,
                st.sampled_from(["", " ", ", Broker: Leader not available", "...", "<br>", "`", "\u00a0"]),
            ),
        ),
        max_size=6,
    )
)
def test_the_batch_parser_and_the_line_parser_agree(rows: list[tuple[int, str | None, str]]) -> None:
    records = Records.from_rows(rows)
    facts = check_facts(records, kcat.FORMAT.parse_facts(records))
    assert facts.equals(parse_each(records, kcat.FORMAT.parse_record))


@given(st.integers(0, len(TEXT)), st.integers(0, 40), st.text(max_size=5))
def test_no_damage_raises(at: int, cut: int, extra: str) -> None:
    text = TEXT[:at] + extra + TEXT[at + cut :]
    records = kcat.FORMAT.read_records(text, "x")
    check_facts(records, kcat.FORMAT.parse_facts(records))


def test_many_partitions_take_linear_time() -> None:
    head = (
        "Metadata for all topics (from broker 1: b:9092/1):\n 1 brokers:\n  broker 1 at b:9092\n"
        '  topic "t" with 9 partitions:\n'
    )
    text = head + "".join(f"    partition {i}, leader 1, replicas: 1,2,3, isrs: 1,2,3\n" for i in range(200_000))
    begin = time.monotonic()
    assert find_formats(text) == ["kcat"]
    assert kcat.FORMAT.parse_facts(kcat.FORMAT.read_records(text, "x")).num_rows == 200_004
    assert time.monotonic() - begin < 20


def test_a_command_and_its_header_warn_once_that_other_topics_may_be_missing(tmp_path: Path) -> None:
    text = """$ kcat -b b1 -L -t tolls
Metadata for tolls (from broker 1: b1:9092/1):
 1 brokers:
  broker 1 at b1:9092
 1 topics:
  topic "tolls" with 1 partitions:
    partition 0, leader 1, replicas: 1, isrs: 1
"""
    (tmp_path / "a.txt").write_text(text)
    warnings = load_snapshot(Source("a", (tmp_path / "a.txt",))).warnings.to_pylist()
    assert [row["warning"] for row in warnings] == ["-t tolls shows one topic: no answer covers the others"]
    (tmp_path / "a.txt").write_text(
        text[text.index("Metadata") :] + text[text.index("Metadata") :].replace("tolls", "x")
    )
    warnings = load_snapshot(Source("a", (tmp_path / "a.txt",))).warnings.to_pylist()
    assert [row["warning"] for row in warnings] == [
        "the headers show only the topics tolls, x: no answer covers the others"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Partition 0 - leader: 1, replicas: [1, 2], isrs: [2, 1]",
        "    partition 0: leader=1, replicas=[1, 2], isrs=[2, 1]",
        "Partition 0 leader: 1, replicas: [1, 2], isrs: [2, 1]",
        "partition 0, leader 1, replicas: 1,2, isrs: 2,1",
    ],
)
@pytest.mark.parametrize(
    "head", ["Topic: a with 1 partitions", "topic a with 1 partition(s):", 'topic "a" with 1 partitions:']
)
def test_listings_of_programs_in_python_are_read(head: str, line: str) -> None:
    records = FORMATS["kcat"].read_records(f"{head}\n{line}\n", "x")
    assert find_formats(f"{head}\n{line}\n") == ["kcat"]
    rows = [row for row in FORMATS["kcat"].parse_facts(records).to_pylist() if row["kind"] == FactKind.PARTITION]
    assert [(row["topic"], row["leader"], row["replicas"], row["isr"]) for row in rows] == [("a", 1, [1, 2], [2, 1])]
