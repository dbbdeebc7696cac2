"""Describes as people paste them: each damage is read exactly, or its lines are quarantined, and nothing is invented.

A case is a text with marks that keep the table short: `→` is a tab, `¶` a newline.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipelines.ingest.formats.checked_values import BadValueError
from pipelines.ingest.formats.describe import read_records
from pipelines.ingest.formats.describe_line import parse_line
from pipelines.ingest.sections import read_sections
from pipelines.ingest.snapshot_reader import divide_text
from pipelines.ingest.source_format import FactKind

from .facts import check_facts

ID = "uvI100-vS2WmgO9_X9Uk5Q"
_HEADER = f"Topic: orders→TopicId: {ID}→PartitionCount: 2→ReplicationFactor: 2→Configs: segment.bytes=1024"
_ZERO, _ONE = (
    "Topic: orders→Partition: 0→Leader: 3→Replicas: 3,2→Isr: 3",
    "Topic: orders→Partition: 1→Leader: 2→Replicas: 2,3→Isr: 2,3",
)
_BOTH = f"{_ZERO}¶→{_ONE}¶"
# A partition as {topic: {partition: [leader, replicas, isr]}}.
_READ = {"orders": {0: [3, [3, 2], [3]], 1: [2, [2, 3], [2, 3]]}}
_TABLE = f"{_HEADER}¶→{_BOTH}"


def _lines(mark: str, text: str = _TABLE) -> str:
    return "".join(f"{mark}{line}¶" for line in text.removesuffix("¶").split("¶"))


def _html(separator: str, begin: str, end: str) -> str:
    return "".join(
        begin + separator.join(line.strip("→").split("→")) + end for line in _TABLE.removesuffix("¶").split("¶")
    )


# name: (text, lines that are quarantined); every partition of _READ is read
EXACT = {
    "all tabs lost": _TABLE.replace("→", ""),
    "tabs and blanks lost": _TABLE.replace("→", "").replace(": ", ":"),
    "one tab lost after the topic": _TABLE.replace("orders→", "orders"),
    "one tab lost after the id": _TABLE.replace("Q→", "Q"),
    "one tab lost before the leader": _TABLE.replace("→Leader", "Leader"),
    "one tab lost before the ISR": _TABLE.replace("→Isr", "Isr"),
    "one tab lost before the replicas": _TABLE.replace("→Replicas", "Replicas"),
    "one tab lost before the configs": _TABLE.replace("→Configs", "Configs"),
    "tabs lost in lower case, Kafka 0.8.0": _BOTH.replace("→", "").lower(),
    "spaces": _TABLE.replace("→", "    "),
    "one space": _TABLE.replace("→", " "),
    "pipes": _TABLE.replace("→", " | "),
    "pipes at both ends": _lines("| ", _TABLE.replace("¶→", "¶").replace("→", " | ").replace("¶", " |¶")),
    "commas": _TABLE.replace("¶→", "¶").replace("→", ", "),
    "commas without blanks": _TABLE.replace("¶→", "¶").replace("→", ","),
    "semicolons": _TABLE.replace("¶→", "¶").replace("→", "; "),
    "literal tabs": _TABLE.replace("→", "\\t"),
    "literal tabs and newlines": _TABLE.replace("→", "\\t").replace("¶", "\\n"),
    "string literals": "".join(f'    "{line}\\n" +¶' for line in _TABLE.replace("→", "\\t").split("¶") if line),
    "comments": _lines("# "),
    "comments without a blank": _lines("#"),
    "slashes": _lines("// "),
    "quotes": _lines("> "),
    "nested quotes": _lines("> > "),
    "host": _lines("broker-1.example.com: "),
    "pod": _lines("pod/kafka-0 | "),
    "container": _lines("kafka-0  | "),
    "tag": _lines("[kafka-0] "),
    "time": _lines("2024-01-01 12:00:00 "),
    "time with zone": _lines("2024-01-01T12:00:00.123Z "),
    "time and level": _lines("[2024-01-01 12:00:00,123] INFO "),
    "grep -n": _lines("12:"),
    "grep with file": _lines("out/describe.txt:12:"),
    "cat -n": _lines("     7→"),
    "stars": _lines(" * "),
    "comment block": "/**¶" + _lines(" * ") + " */¶",
    "star after a blank": _lines("   *→"),
    "fence": f"```¶{_TABLE}```¶",
    "backticks around lines": "".join(f"`{line}`¶" for line in _TABLE.split("¶") if line),
    "backticks around values": _BOTH.replace("orders", "`orders`").replace("3,2", "`3,2`"),
    "bold labels": _BOTH.replace("Topic:", "**Topic:**").replace("Leader:", "**Leader:**").replace("Isr:", "**Isr:**"),
    "bold names": _BOTH.replace("Topic:", "**Topic**:").replace("Replicas:", "**Replicas**:"),
    "bold values": _BOTH.replace("orders", "**orders**").replace("Leader: 3", "Leader: **3**"),
    "br": _TABLE.replace("¶", "<br>¶"),
    "br instead of newlines": _TABLE.replace("¶", "<br/>"),
    "code": "".join(f"<code>{line}</code>¶" for line in _TABLE.split("¶") if line),
    "pre": f"<pre>{_TABLE}</pre>¶",
    "cells": _html("</td><td>", "<tr><td>", "</td></tr>¶"),
    "cells on one line": _html("</td><td>", "<tr><td>", "</td></tr>"),
    "list items": _html("→", "<li>", "</li>¶"),
    "b around labels": _BOTH.replace("Topic:", "<b>Topic:</b>").replace("Isr:", "<b>Isr</b>:"),
    "nbsp entity": _BOTH.replace("→", "&nbsp;&nbsp;").replace(": ", ":&nbsp;"),
    "nbsp": _TABLE.replace("→", "\u00a0").replace(": ", ":\u00a0"),
    "zero width": _TABLE.replace("Topic", "\u200bTopic").replace("orders", "orders\u200b"),
    "byte order mark": "\ufeff" + _TABLE,
    "soft hyphen": _BOTH.replace("Replicas", "Rep\u00adlicas"),
    "full-width colons": _TABLE.replace(": ", "："),
    "curly quotes around lines": "".join(f"“{line}”¶" for line in _TABLE.split("¶") if line),
    "curly quotes around values": _BOTH.replace("orders", "“orders”").replace("Leader: 3", "Leader: ‘3’"),
    "straight quotes around values": _BOTH.replace("orders", '"orders"').replace("3,2", "'3,2'"),
    "lower case": _TABLE.lower().replace(ID.lower(), ID),
    "upper case": _BOTH.upper().replace("ORDERS", "orders"),
    "header of topic and id": _TABLE.replace("→PartitionCount: 2→ReplicationFactor: 2→Configs: segment.bytes=1024", ""),
    "header without a count": _TABLE.replace("→PartitionCount: 2", ""),
    "header without a factor": _TABLE.replace("→ReplicationFactor: 2", ""),
    "header of configs": f"Topic: orders→Configs: segment.bytes=1024¶→{_BOTH}",
    "newline lost": f"{_ZERO}→{_ONE}¶",
    "newline lost without a blank": f"{_ZERO}{_ONE}¶",
    "newline lost with blanks": f"{_ZERO}   {_ONE}¶".replace("→", " "),
    "all newlines lost": _TABLE.replace("¶", ""),
    "all newlines became blanks": _TABLE.replace("¶", " "),
    "partitions without topic": _TABLE.replace("→Topic: orders→P", "→P"),
    "partitions without topic, with blanks": _TABLE.replace("→Topic: orders→P", "  P").replace("→", "  "),
    "partitions without topic or tabs": _TABLE.replace("→Topic: orders→P", "P").replace("→", ""),
    "quoted partitions without topic": _lines("> ", _TABLE.replace("→Topic: orders→P", "→P")),
    "partitions without topic or newlines": _TABLE.replace("→Topic: orders→P", "→P").replace("¶", ""),
    "a wrapped topic": f"Topic: orders¶{_BOTH}".replace("Topic: orders→P", "→P"),
    "a topic of its own for each partition": f"{_ZERO}¶{_ONE}¶".replace("Topic: orders→", "Topic: orders¶  "),
    "blank lines between": _TABLE.replace("→Topic: orders→P", "→P").replace("¶", "¶¶"),
    "a warning between": f"{_HEADER}¶[2024-01-01 12:00:00,123] WARN slow¶→{_BOTH}".replace("Topic: orders→P", "P"),
    "a wrapped ISR": _TABLE.replace("→Isr", "¶Isr"),
    "a wrapped ISR in quotes": _lines("> ", _TABLE.replace("→Isr", "¶Isr")),
    "a wrapped value": _TABLE.replace("Isr: ", "Isr:¶"),
    "wrapped replicas": _TABLE.replace("→Replicas", "¶    Replicas"),
    "a wrapped list": _TABLE.replace("2,3", "2,¶3"),
    "a wrapped header": _TABLE.replace("→PartitionCount", "¶PartitionCount"),
    "wrapped configs": _TABLE.replace("Configs: ", "Configs:¶"),
    "configs wrapped after a comma": _TABLE.replace("segment.bytes", "retention.ms=5,¶segment.bytes"),
    "each label on its own line": _BOTH.replace("→", "¶"),
    "headers and values on their own lines": _TABLE.replace("→", "¶"),
    "brackets around lists": _BOTH.replace("3,2", "[3, 2]"),
    "confluent": _BOTH.replace("¶", "→Offline: →Observers: ¶"),
    "old header": f"Topic:orders→PartitionCount:2→ReplicationFactor:2→Configs:segment.bytes=1024¶→{_BOTH}",
    "old header without tabs": f"Topic:ordersPartitionCount:2ReplicationFactor:2Configs:segment.bytes=1024¶→{_BOTH}",
    "bullets": _lines("• "),
    "dashes": _lines("- ", _TABLE.replace("¶→", "¶").replace("→", " ")),
    "quoted bullets": _lines("> > • "),
    "dashes below a header": f"{_HEADER}¶ - {_ZERO}¶ - {_ONE}¶".replace("→", " "),
    "a prompt": f"$ {_ZERO}¶$ {_ONE}¶",
    "Python bytes": "".join(f"b'{line}'¶" for line in _TABLE.replace("→", "\\t").removesuffix("¶").split("¶")),
    "log of a container": _lines("2024-05-01T12:00:00.123Z stdout F "),
    "syslog": _lines("May  1 12:00:01 mon01 kafka-check[4242]: "),
    "log of a program": _lines("[12:00:02] INFO  check.py:88 - "),
    "lines of a box": "".join(f"│ {line} │¶" for line in _TABLE.removesuffix("¶").split("¶")),
    "notes behind values": f"{_ZERO}   # <-- 2 is missing¶{_ONE} // ok¶",
    "an arrow behind a value": f"{_ZERO} ← here¶{_ONE}\t<-- fine¶",
    "braces": _BOTH.replace("3,2", "{3,2}").replace("Isr: 3¶", "Isr: {3}¶"),
    "parentheses": _BOTH.replace("3,2", "(3, 2)").replace("Isr: 3¶", "Isr: (3)¶"),
    "blanks in lists": f"{_ZERO}¶{_ONE}¶".replace(",", " "),
    "blanks in brackets": f"{_ZERO}¶{_ONE}¶".replace("3,2", "[3 2]").replace("2,3", "[2 3]"),
    "full-width commas": _BOTH.replace(",", "，"),
    "text around pre": f"<h1>Runbook</h1><pre>{_TABLE.removesuffix('¶')}</pre><p>b3 & b4: spare</p>¶",
    "a deleted file beside it": f"<del>old</del>¶{_TABLE}",
    "shell comments beside it": f"# all is well: Leader and Isr¶{_TABLE}// Topic: we should talk tomorrow¶",
    "a Markdown heading": f"# Topic: orders¶{_BOTH}".replace("Topic: orders→P", "P"),
    "prose around": f"This is the table of Topic: orders\nThe Leader: field shows the leader.¶{_TABLE}",
}  # fmt: skip
# As the damage goes, nobody can say what was meant: all that is lost is quarantined.
QUARANTINED = {
    "no header": f"{_BOTH}".replace("Topic: orders→P", "→P"),
    "a header of another topic is missing": _TABLE + _ZERO.replace("Topic: orders→", "→"),
    "the header is cut off": "Topic: pay...¶" + _BOTH.replace("Topic: orders→P", "→P"),
    "a prompt ends the header": f"{_HEADER}¶$ kafka-topics.sh --topic pay¶→{_BOTH}".replace("Topic: orders→P", "P"),
    "words before": f"as you see {_ZERO}¶",
    "removed lines of a diff": f"-→{_ZERO}¶-{_ONE}¶",
    "added lines of a diff": f"+→{_ZERO}¶+ {_ONE}¶",
    "removed and added lines": f"- {_ZERO}¶+ {_ONE}¶",
    "a plain diff": f"< {_ZERO}¶---¶> {_ONE}¶",
    "struck out lines": f"~~{_ZERO}~~¶<del>{_ONE}</del>¶",
    "an HTML comment": f"<!-- {_ZERO} -->¶",
    "a template": "Topic: orders→Partition: <n>→Leader: <broker id>→Replicas: <list>→Isr: <list>¶",
    "blanks in one list": _ZERO.replace("Isr: 3", "Isr: 3 2"),
    "blanks in lists that do not fit": "Topic: orders→Partition: 0→Leader: 1001→Replicas: 10 01→Isr: 1001¶",
    "a note in a list": _ZERO.replace("Isr: 3", "Isr: 3 (2 is missing!)"),
    "a comma before a note": _ZERO.replace("Isr: 3", "Isr: 3, ← here"),
    "a note that is wrapped": "Topic: orders→Partition: 0→Leader: 3→Replicas: 3,2→Isr: 3 # missing¶2¶",
    "a number is wrapped": "→Topic: orders→Partition: 0→Leader: 3→Replicas: 3,2→Isr: 1¶2¶",
    "a number is wrapped before a comma": "→Topic: orders→Partition: 0→Leader: 3→Replicas: 3,2→Isr: 1¶2,3¶",
    "a label is wrapped": "Topic: orders→Partition: 0→Leader: 3→Repli¶cas: 3,2→Isr: 3,2¶",
    "the ISR twice": "Topic: orders→Partition: 0→Leader: 3→Replicas: 3,2→Isr: 3¶Isr: 2¶",
    "the ISR far away": "Topic: orders→Partition: 0→Leader: 3→Replicas: 3,2¶¶Isr: 3¶",
    "an ISR with points": "Topic: orders→Partition: 0→Leader: 3→Replicas: 3,2→Isr: 3.2¶",
    "an empty topic": "Topic: →Partition: 0→Leader: 3→Replicas: 3,2→Isr: 3¶",
    "a partition number above the limit": _ZERO.replace("Partition: 0", "Partition: 2147483647"),
    "a damaged second partition on one line": f"{_ZERO}→{_ONE}¶".replace("Isr: 2,3", "Isr: two"),
    "no replicas": _ZERO.replace("→Replicas: 3,2", ""),
    "unknown words in a value": _ZERO.replace("Isr: 3", "Isr: 3 approx"),
}  # fmt: skip
PROSE = [
    "Topic: how to choose partitions",
    "The Leader: field shows which broker leads.",
    "Topic: a long discussion about Leader: who is it?",
    "We have 3 brokers; the topic has 6 partitions.",
    "Isr: what is it?",
    "Partition: a part of a topic.",
    "Replicas: copies of the log.",
    "Note: the replication factor is 3.",
]


def _read(text: str) -> list[pa.Table]:
    text = text.replace("→", "\t").replace("¶", "\n")
    parts = read_sections(text, "x", divide_text(text))
    return [check_facts(part.records, part.format.parse_facts(part.records)) for part in parts]


def _partitions(tables: list[pa.Table]) -> dict[str, dict[int, list[object]]]:
    found: dict[str, dict[int, list[object]]] = {}
    for row in (row for table in tables for row in table.to_pylist() if row["kind"] == FactKind.PARTITION):
        assert row["partition"] not in found.setdefault(row["topic"], {})
        found[row["topic"]][row["partition"]] = [row["leader"], row["replicas"], row["isr"]]
    return found


def _rows(tables: list[pa.Table], kind: FactKind) -> list[dict[str, object]]:
    return [row for table in tables for row in table.to_pylist() if row["kind"] == kind]


@pytest.mark.parametrize("name", EXACT)
def test_a_clear_damage_is_read_exactly(name: str) -> None:
    tables = _read(EXACT[name])
    assert _rows(tables, FactKind.REJECTED) == []
    assert _partitions(tables) == _READ
    for topic in _rows(tables, FactKind.TOPIC):
        assert topic["topic"] == "orders"
        assert topic["topic_id"] in (None, ID)
        assert topic["partition_count"] in (None, 2)
        assert topic["replication_factor"] in (None, 2)
        assert (topic["configs"] or [("segment.bytes", "1024")])[-1] == ("segment.bytes", "1024")
    if "segment" in EXACT[name]:
        assert any(topic["configs"] for topic in _rows(tables, FactKind.TOPIC))


@pytest.mark.parametrize("name", QUARANTINED)
def test_an_ambiguous_damage_is_quarantined(name: str) -> None:
    tables = _read(QUARANTINED[name])
    assert _rows(tables, FactKind.REJECTED)
    assert not [row for row in _rows(tables, FactKind.IGNORED) if row["reasons"] == ["prose"]]
    assert _partitions(tables) == (_READ if name == "a header of another topic is missing" else {})


@pytest.mark.parametrize("mark", ["# ", "// ", ";", "> # ", "/* ", "3:# "])
def test_a_line_that_is_commented_out_beside_others_is_quarantined(mark: str) -> None:
    tables = _read(f"{mark}Topic: old Partition: 0 Leader: 9 Replicas: 9 Isr: 9¶{_TABLE}")
    (row,) = _rows(tables, FactKind.REJECTED)
    assert row["line_number"] == 1
    assert "commented out beside lines that are not" in row["reasons"][0]
    assert _partitions(tables) == _READ


def test_the_context_of_a_diff_is_read_and_its_changes_are_quarantined() -> None:
    text = f"--- a.txt¶+++ b.txt¶@@ -1,3 +1,3 @@¶ {_HEADER}¶ →{_ZERO}¶-→{_ONE}¶+→{_ONE.replace('Isr: 2,3', 'Isr: 2')}¶"
    tables = _read(text)
    assert [row["line_number"] for row in _rows(tables, FactKind.REJECTED)] == [6, 7]
    assert all("diff" in row["reasons"][0] for row in _rows(tables, FactKind.REJECTED))
    assert _partitions(tables) == {"orders": {0: _READ["orders"][0]}}


@pytest.mark.parametrize("text", [f"1a2,3¶> {_ZERO}¶> {_ONE}¶", f"@@ -1,2 +0,0 @@¶- {_ZERO}¶- {_ONE}¶"])
def test_line_numbers_of_a_diff_show_what_the_marks_below_mean(text: str) -> None:
    tables = _read(text)
    assert [row["line_number"] for row in _rows(tables, FactKind.REJECTED)] == [2, 3]
    assert _partitions(tables) == {}


def test_a_header_behind_a_hunk_of_a_diff_is_ignored() -> None:
    hunk = "@@ -9,3 +9,3 @@ Topic: a\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: \n"
    records = read_records(f"{hunk} \tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n")
    assert [fact[0] for _, _, context, raw in records for fact in parse_line(context, raw)] == ["ignored", "partition"]


def test_a_gap_of_a_diff_leaves_the_topic_above() -> None:
    line = "Partition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    records = read_records(f"Topic: a\tPartitionCount: 9\tReplicationFactor: 1\n@@ -9,3 +9,3 @@\n{line}")
    assert "other text stands between" in str(records.context[2])


def test_cells_of_a_spreadsheet_lose_their_quotes() -> None:
    configs = "segment.bytes=1,min.insync.replicas=2"
    line = f'Topic: a\tPartitionCount: 1\tReplicationFactor: 2\t"Configs: {configs}"'
    ((_, values),) = parse_line(None, line)
    assert dict(values["configs"])["min.insync.replicas"] == "2"


def test_some_dashes_among_partitions_are_a_diff_and_dashes_before_all_are_a_list() -> None:
    tables = _read(f"{_HEADER}¶- {_ZERO}¶  {_ONE}¶".replace("→", " "))
    assert [row["line_number"] for row in _rows(tables, FactKind.REJECTED)] == [2]
    assert _partitions(tables) == {"orders": {1: _READ["orders"][1]}}


def test_a_reason_shows_what_the_file_has_and_no_escapes_of_it() -> None:
    lines = (_ONE.replace("Leader: 2", f"Leader: {value}") for value in ("<broker id>", "①"))
    text = "¶".join(lines)
    reasons = [row["reasons"][0] for row in _rows(_read(text), FactKind.REJECTED)]
    assert 'Leader is "<broker id>"' in reasons[0]
    assert 'Leader is "①"' in reasons[1]


@pytest.mark.parametrize("line", PROSE)
def test_prose_stays_prose(line: str) -> None:
    tables = _read(f"{_TABLE}{line}¶")
    assert _partitions(tables) == _READ
    assert _rows(tables, FactKind.REJECTED) == []


def test_another_word_for_topic_is_to_be_corrected_and_not_deleted() -> None:
    """Without the word, the partition would belong to the topic above."""
    with pytest.raises(BadValueError, match="write Topic: and the name of the topic instead"):
        parse_line(None, "Tpoic: other\tPartition: 2\tLeader: 3\tReplicas: 3,4\tIsr: 3,4")
