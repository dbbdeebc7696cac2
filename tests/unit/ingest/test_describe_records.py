"""Lines of a describe that need others, what is data and what is prose, and lines that repeat something very often."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.formats.checked_values import BadValueError
from pipelines.ingest.formats.describe import FORMAT, join_lines, read_records
from pipelines.ingest.formats.describe_labels import looks_like_data
from pipelines.ingest.formats.describe_line import parse_line
from pipelines.ingest.formats.kafka_configs import split_configs
from pipelines.ingest.source_format import FactKind, parse_each, read_lines

from .facts import check_facts

HEADER = "Topic: orders\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: "
NAMED = "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1"
UNNAMED = "\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1"


def join(*lines: str) -> list[tuple[int, dict[str, object] | None, str]]:
    """Return (line number, context, text) of the records of some lines."""
    rows = join_lines(enumerate(lines, 1))
    return [(number, context and json.loads(context), raw) for number, context, raw in rows]


def test_a_partition_without_topic_gets_the_topic_above() -> None:
    assert join(HEADER, "", UNNAMED) == [(1, None, HEADER), (2, None, ""), (3, {"topic": "orders"}, UNNAMED)]
    assert join(NAMED, UNNAMED)[1] == (2, {"topic": "orders"}, UNNAMED)
    assert join(UNNAMED) == [(1, None, UNNAMED)]


def test_a_bare_topic_is_a_header_if_partitions_follow() -> None:
    assert join("Topic: orders", UNNAMED)[0] == (1, {"is_header": True}, "Topic: orders")
    assert join("Topic: orders", NAMED)[0] == (1, None, "Topic: orders")


@pytest.mark.parametrize(
    "between", ["$ kafka-topics --describe --topic other", "and this is the other topic", "Topic: ..."]
)
def test_other_text_ends_the_scope_of_a_header(between: str) -> None:
    *_, (_, context, _) = join(HEADER, between, UNNAMED)
    assert list(context or {}) == ["problem"]


@pytest.mark.parametrize("between", ["", "...", "```", "[2024-05-06 07:08:09,123] WARN slow", " * "])
def test_noise_does_not_end_the_scope_of_a_header(between: str) -> None:
    assert join(HEADER, between, UNNAMED)[-1][1] == {"topic": "orders"}


def test_partitions_that_begin_again_are_of_a_topic_that_nobody_names() -> None:
    rows = join(HEADER, UNNAMED, UNNAMED.replace("1", "0", 1), UNNAMED.replace("1", "2", 1), HEADER, UNNAMED)
    assert [list(context or {}) for _, context, _ in rows] == [[], ["topic"], ["problem"], ["problem"], [], ["topic"]]
    assert "partition 0 follows partition 1 of orders" in str(rows[2][1])


@pytest.mark.parametrize(
    ("lines", "records"),
    [
        (["\tTopic: t\tPartition: 0\tLeader: 1", "\tReplicas: 1\tIsr: 1"], 1),
        (["\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr:", "1"], 1),
        ([NAMED, "Elr: 2"], 1),
        ([NAMED, "2,3"], 1),
        ([HEADER + "a.b=1,", "c.d=2"], 1),
        ([HEADER, "a.b=1,c.d=2"], 1),
        ([HEADER + 'a.b={"x":', '[1, 2]},c.d=2'], 1),
        ([HEADER + "a.b=1", "Hello, this is=prose"], 2),
        ([HEADER + "a.b=1", "MarkedForDeletion: true"], 1),
        ([NAMED, "The end."], 2),
        ([NAMED, NAMED], 2),
        ([NAMED, UNNAMED], 2),
        ([NAMED, "Isr: 2"], 1),  # a label twice: both are quarantined
        ([NAMED + "...", "Elr: 2"], 2),
        (["Hello", "1,2"], 2),
    ],
)  # fmt: skip
def test_a_wrapped_line_is_joined_with_its_rest(lines: list[str], records: int) -> None:
    assert len(join(*lines)) == records


def test_a_record_has_an_end_however_often_it_goes_on() -> None:
    rows = join("\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1,", *["2,"] * 5_000)
    assert max(raw.count("\n") for *_, raw in rows) < 100
    assert all("problem" in (context or {}) for _, context, _ in rows[1:])


def test_records_of_a_text_are_those_of_its_lines() -> None:
    lines = [HEADER, NAMED, NAMED, "", UNNAMED, "text", NAMED, "Elr: 1", UNNAMED, NAMED, NAMED, "12"]
    for text in ("\n".join(lines), "\n".join(lines) + "\n", "\n".join(lines[:3])):
        records = read_records(text)
        rows = list(zip(records.line_number, records.context, records.raw, strict=True))
        assert rows == list(join_lines(enumerate(text.removesuffix("\n").split("\n"), 1)))


_FRAGMENT = st.sampled_from(
    [
        *(
            "Topic: t",
            "Partition: 0",
            "Leader: 1",
            "Replicas: 1,2",
            "Isr: 1",
            "Isr:",
            "\t",
            "\n",
            " ",
            "\n\n",
            "Configs:",
        ),
        *("PartitionCount: 1", "ReplicationFactor: 1", "a.b=1", ",", "...", "text", "2", "Elr: ", "|", "<br>", "# "),
        *(HEADER + "\n", NAMED + "\n", UNNAMED + "\n"),
    ]
)


@given(st.lists(_FRAGMENT, min_size=1, max_size=25).map("".join))
def test_every_line_is_in_one_record_and_both_parsers_agree(text: str) -> None:
    records = read_records(text)
    assert "\n".join(records.raw) == text.removesuffix("\n")
    assert check_facts(records, FORMAT.parse_facts(records)).equals(parse_each(records, parse_line))


_SEPARATORS = st.sampled_from(["\n", "\n", "\n", " ", "\t", "", "\n  ", " \n", "\n> ", "\n\n"])


@given(st.lists(_SEPARATORS, min_size=8, max_size=8), st.sampled_from([NAMED, HEADER, "Topic: t", "12", "text", ""]))
def test_wrapped_records_of_a_run_are_those_that_are_read_line_by_line(separators: list[str], end: str) -> None:
    words = ["Topic: t Partition:", "{}", "Leader:", "1", "Replicas:", "1,2", "Isr:", "1"]
    record = "".join(word + separator for word, separator in zip(words, [*separators[:7], "\n"], strict=True))
    text = "".join(record.format(number) for number in range(3)) + NAMED + separators[7] + end
    records = read_records(text)
    rows = list(zip(records.line_number, records.context, records.raw, strict=True))
    assert rows == list(join_lines(enumerate(text.removesuffix("\n").split("\n"), 1)))
    assert check_facts(records, FORMAT.parse_facts(records)).equals(parse_each(records, parse_line))


def test_a_long_listing_that_is_wrapped_takes_little_time() -> None:
    text = "".join(f"Topic: a Partition: {i} Leader: 1 Replicas:\n1,2 Isr:\n1,2\n" for i in range(30_000))
    begin = time.process_time()
    records = read_records(text)
    facts = FORMAT.parse_facts(records)
    assert time.process_time() - begin < 3  # 0.3 s; line by line, 4 s
    assert facts["kind"].to_pylist() == [FactKind.PARTITION] * 30_000
    assert records.line_number[-1] == 89_998


def test_a_plain_line_that_another_may_continue_is_quarantined() -> None:
    text = f"{NAMED}\tElr: 2\tLastKnownElr: \n\n3\n"
    records = read_records(text)
    table = FORMAT.parse_facts(records)
    assert table["kind"].to_pylist() == [FactKind.REJECTED, FactKind.IGNORED, FactKind.REJECTED]
    assert table.equals(parse_each(records, parse_line))


@pytest.mark.parametrize(
    "line",
    [
        NAMED,
        UNNAMED,
        HEADER,
        "Topic: orders Partition: 7",
        "Leader: 1 Replicas: 1,2",
        "# Topic: ordersPartition: 0Leader: 3",
        "as you see, Topic: orders Partition: 0 Leader: 3",
        "Isr: \tElr: \tLastKnownElr: ",
        "partition：0　leader：1",
    ],
)
def test_two_labels_with_values_are_data(line: str) -> None:
    assert looks_like_data(line)
    rows = check_facts(read_lines(line), FORMAT.parse_facts(read_lines(line))).to_pylist()
    assert all(row["kind"] != FactKind.IGNORED for row in rows)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Topic: how to choose partitions",
        "The Leader: field shows which broker leads",
        '{"topic":"orders","partition":0,"leader":1,"replicas":[1,2],"isr":[1]}',
        "  partition 0, leader 1, replicas: 1,2, isrs: 1,2",
        "orders-0: replicas: 1,2,3. adding: 3. removing: 1.",
        "orders:0:17",
        "Partition: what is it? Leader: who is it?",
    ],
)
def test_one_label_or_another_format_is_no_data(line: str) -> None:
    assert not looks_like_data(line)


_REPEATED = (
    *(
        " ",
        "\t",
        ".",
        "…",
        ",",
        '"',
        '\\"',
        "\\",
        "\\t",
        "{",
        "[",
        "(",
        "|",
        "*",
        "`",
        "#",
        ":",
        "1,",
        "12:",
        "a.",
        "A ",
    ),
    *("a.b=", ",a.b=1", ",a.b", "Ab Cd", "Topic: ", "xLeader:", "Isr: ", "Replicas: 1,2 ", "Preferred Replicas: "),
    *("Configs:", "\tfoo ", "  Foo: ", "MarkedForDeletion: true", "&amp;", "<", "<b>", "2024-01-01 ", "host: "),
    *("pod | ", "\u200b", "\u00a0", "Partition: 0 Leader: ", "Topic: t Partition: 0 ", "Topic: t Partition: "),
    *(NAMED, NAMED + " ", "\n1", "\nIsr: 1", "\n,a.b=1", "\n" + UNNAMED),
)


@pytest.mark.slow
@pytest.mark.parametrize("begin", ["", NAMED, HEADER + "a.b=1", HEADER + 'a.b={"x":', "Topic: t\tPartition: "])
def test_no_repetition_takes_quadratic_time(begin: str) -> None:
    for fragment in _REPEATED:
        for end in ("x", "..."):
            text = begin + fragment * (20_000 // len(fragment)) + end
            started = time.monotonic()
            records = read_records(text)
            for _, _, context, raw in records:
                with suppress(BadValueError):
                    parse_line(context, raw)
            split_configs(text, cut=end == "...")
            looks_like_data(text)
            assert time.monotonic() - started < 5, (begin, fragment)
