"""Formats that are JSON documents: log dirs, reassignments, models; and the walk that they share."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import SourceError
from pipelines.ingest.formats import log_dirs
from pipelines.ingest.formats.checked_values import explain_bad_topic_name
from pipelines.ingest.formats.json_documents import JsonEvent, JsonEventKind, walk_documents
from pipelines.ingest.snapshot_reader import FORMATS, load_snapshot
from pipelines.ingest.source_format import FactKind, Records, parse_each
from pipelines.ingest.sources import Source
from tests.seed_sampler import sample_cases

from .facts import FORMATS_DIR, check_facts, drop_kind, facts, faults, find_formats, load_facts, reasons, shorten


def log(topic: str, partition: int, broker: int, size: int, lag: int | None, future: bool) -> dict[str, object]:
    row = {"topic": topic, "partition": partition, "broker_id": broker, "size_bytes": size, "log_dir": "/d1"}
    return row | {"is_future": future} | ({} if lag is None else {"offset_lag": lag})


@pytest.mark.parametrize("name", ["log-dirs.txt", "log-dirs-pretty.json"])
def test_log_dirs_with_keys_in_any_order(name: str) -> None:
    assert drop_kind(facts(name, FactKind.REPLICA)) == [
        log("orders", 0, 1, 100, 0, False),
        log("a-b-c", 12, 1, 5_000_000_000, 7, True),
        log("orders", 0, 2, 90, None, False),
    ]
    assert drop_kind(facts(name, FactKind.LOG_DIR)) == [
        {"broker_id": 1, "log_dir": "/d1"},
        {"broker_id": 1, "log_dir": "/d2", "log_dir_error": "KAFKA_STORAGE_ERROR"},
        {"broker_id": 2, "log_dir": "/d1"},
    ]
    # broker 3 has no log dir, and yet it answered
    assert drop_kind(facts(name, FactKind.BROKER)) == [{"broker_id": i, "registered": True} for i in (1, 2, 3)]


_element = st.builds(
    '{{"partition":"{}","size":{},"offsetLag":{},"isFuture":{}}}'.format,
    st.sampled_from(["t-0", "a-b-12", "t", "-1", "t-", "t--1", "x y-1", "t-99999999999", "t-007", "é-1", "a.-3", "--1"])
    | st.sampled_from(["t-999999", "t-1000000", "t-999999999", ".-1", "..-2", "t" * 249 + "-1", "t" * 250 + "-1"]),
    st.sampled_from(["0", "12", "-1", "1.5", "true", "null", "01", '"5"', "9223372036854775807", "9" * 19, "9" * 18]),
    st.sampled_from(["0", "-1", "7", "null", "-2", "true", "9" * 20]),
    st.sampled_from(["true", "false", "null", "0"]),
)
_place = st.sampled_from(
    [
        '{"broker": 1, "logDir": "/d", "error": null}',
        '{"broker": "1", "logDir": null}',
        '{"broker": true}',
        '{"broker": -1}',
        '{"broker": 1, "logDir": 5}',
        '{"broker": 1, "logDir": "\\ud800"}',
        '{"broker": 1, "logDir": "\\u00e9"}',
    ]
)


@given(st.lists(st.tuples(st.just(1), _place, _element), max_size=6))
def test_the_batch_parser_and_the_element_parser_of_log_dirs_agree(rows: list[tuple[int, str, str]]) -> None:
    records = Records.from_rows(rows)
    assert check_facts(records, log_dirs.FORMAT.parse_facts(records)).equals(
        parse_each(records, log_dirs.FORMAT.parse_record)
    )


def test_the_lines_around_the_document_are_ignored_by_name() -> None:
    failed = {"failed log dir, whose replicas are not shown": 1}
    assert reasons("log-dirs.txt") == {"prompt": 1, "tool message": 2, **failed}


def test_elements_keep_the_line_on_which_they_begin() -> None:
    text = (FORMATS_DIR / "log-dirs-pretty.json").read_text().splitlines()
    for row in load_facts(FORMATS_DIR / "log-dirs-pretty.json").to_pylist():
        assert text[row["line_number"] - 1].strip() == "{"


@pytest.mark.parametrize("name", ["log-dirs.txt", "log-dirs-pretty.json"])
def test_a_failed_log_dir_is_a_fact_with_its_error(name: str) -> None:
    assert not facts(name, FactKind.REJECTED)
    (row,) = [row for row in facts(name, FactKind.LOG_DIR) if row.get("log_dir_error")]
    assert (row["broker_id"], row["log_dir"], row["log_dir_error"]) == (1, "/d2", "KAFKA_STORAGE_ERROR")


@pytest.mark.parametrize("topic", ["bad name!", ".", "..", "t" * 250])
def test_a_bad_topic_name_of_a_log_has_the_same_reason_as_elsewhere(topic: str) -> None:
    replica = {"partition": f"{topic}-0", "size": 1, "offsetLag": 0, "isFuture": False}
    document = {"version": 1, "brokers": [{"broker": 1, "logDirs": [{"logDir": "/d", "partitions": [replica]}]}]}
    for text in (json.dumps(document), json.dumps(document, separators=(",", ":"))):
        records = log_dirs.FORMAT.read_records(text, "x")
        (row,) = shorten(check_facts(records, log_dirs.FORMAT.parse_facts(records)), FactKind.REJECTED)
        assert row["reasons"] == [explain_bad_topic_name(topic)]


def test_bad_log_dirs_are_rejected_one_by_one() -> None:
    rows = load_facts(FORMATS_DIR.parent / "bad" / "log-dirs-bad.json").to_pylist()
    assert [(row["kind"], (row["reasons"] or [""])[0].removeprefix("unparsable: ")) for row in rows] == [
        ("rejected", "broker is true, expected a whole number"),
        ("rejected", "broker is true, expected a whole number"),
        ("broker", ""),
        ("log_dir", ""),
        ("rejected", 'partition is "nodash", expected topic-number'),
        ("rejected", "size is -5, expected 0 to 9223372036854775807"),
        ("rejected", "size is missing"),
        ("rejected", 'size is "big", expected a whole number'),
        ("rejected", "the replica is 7, expected an object"),
    ]


@pytest.mark.parametrize(("written", "read"), [(100, 100), (0, 0), (-1, None), (None, None)])
def test_the_bytes_of_a_log_dirs_volume_are_read(written: int | None, read: int | None) -> None:
    """Kafka's tool prints none; `kafka://` writes what DescribeLogDirs shows, which has -1 for unknown."""
    log_dir = {"logDir": "/d", "error": None, "totalBytes": 1000, "usableBytes": written, "partitions": []}
    records = log_dirs.FORMAT.read_records(json.dumps({"brokers": [{"broker": 1, "logDirs": [log_dir]}]}), "x")
    (row,) = log_dirs.FORMAT.parse_facts(records).filter(pc.field("kind") == FactKind.LOG_DIR).to_pylist()
    assert (row["total_bytes"], row["usable_bytes"]) == (1000, read)


def test_bytes_of_a_volume_that_are_no_number_reject_the_broker() -> None:
    log_dir = {"logDir": "/d", "error": None, "totalBytes": "many", "partitions": []}
    records = log_dirs.FORMAT.read_records(json.dumps({"brokers": [{"broker": 1, "logDirs": [log_dir]}]}), "x")
    (row,) = shorten(log_dirs.FORMAT.parse_facts(records))
    assert row["reasons"] == ['unparsable: totalBytes is "many", expected a whole number']


def test_objects_inside_of_a_log_dir_are_rejected() -> None:
    """A second document that begins where the first one breaks must not vanish."""
    inner = {"brokers": [{"broker": 1, "logDirs": [{"logDir": "/d", "partitions": [{"partition": "t-0"}]}]}]}
    broker = {"broker": 1, "logDirs": [inner, {"logDir": "/d", "partitions": {"partition": "t-1"}}], "extra": [1]}
    text = json.dumps({"brokers": [broker], "others": [{"partition": "t-2"}]})
    records = log_dirs.FORMAT.read_records(text, "x")
    rows = shorten(check_facts(records, log_dirs.FORMAT.parse_facts(records)))
    assert [row["kind"] for row in rows] == ["broker", "log_dir", "rejected", "rejected", "rejected", "rejected"]
    assert all("Kafka writes no such value here" in row["reasons"][0] for row in rows[2:])


def test_complete_elements_of_a_document_that_breaks_off_are_used() -> None:
    rows = load_facts(FORMATS_DIR.parent / "bad" / "log-dirs-cut.txt").to_pylist()
    kinds = ["broker", "log_dir", "log_dir", "ignored", "replica", "replica", "rejected", "rejected"]
    assert [row["kind"] for row in rows[3:]] == kinds
    assert "the JSON breaks off" in rows[-1]["reasons"][0]


ORDERS = [
    {"topic": "orders", "partition": 0, "replicas": [1, 2, 3]},
    {"topic": "orders", "partition": 1, "replicas": [2, 3, 1]},
]


@pytest.mark.parametrize(
    "name", ["reassignment.json", "reassignment-pretty.json", "reassign-generate.txt", "reassign-execute-old.txt"]
)
def test_the_current_assignment_is_the_state(name: str) -> None:
    assert drop_kind(facts(name, FactKind.PARTITION)) == ORDERS


def test_the_proposed_assignment_is_ignored() -> None:
    assert reasons("reassign-generate.txt") == {"proposed assignment": 2, "tool message": 2, "blank line": 1}


def test_bad_reassignments() -> None:
    found = [row["reasons"] for row in load_facts(FORMATS_DIR.parent / "bad" / "reassignment-bad.json").to_pylist()]
    assert found == [
        ['unparsable: replicas[0] is "a", expected a whole number'],
        ["unparsable: replicas is missing"],
        ["unparsable: topic is 7, expected text"],
        None,
    ]
    assert "the JSON breaks off" in faults("reassignment-cut.json")[1]


def test_a_model_has_racks_brokers_to_empty_and_loads() -> None:
    assert facts("model.json") == [
        {"kind": "broker", "broker_id": 0, "rack": "r0", "listed": True, "in_model": True},
        {"kind": "broker", "broker_id": 1, "rack": "r1", "listed": True, "in_model": True},
        {"kind": "broker", "broker_id": 2, "rack": "r0", "listed": True, "in_model": True},
        {"kind": "broker", "broker_id": 2, "draining": True},
        {
            "kind": "partition",
            "topic": "t00000",
            "partition": 0,
            "replicas": [0, 1],
            "size_bytes": 12_345_000,
            "bytes_in_per_s": 1500.0,
            "bytes_out_per_s": 3000.0,
        },
        {
            "kind": "partition",
            "topic": "t00000",
            "partition": 1,
            "replicas": [1, 2],
            "size_bytes": 0,
            "bytes_in_per_s": 250.0,
            "bytes_out_per_s": 500.0,
        },
    ]


def test_a_bad_model() -> None:
    rows = load_facts(FORMATS_DIR.parent / "bad" / "model-bad.json").to_pylist()
    assert {row["kind"] for row in rows} == {"rejected"}
    assert len(rows) == 5


def test_the_input_of_a_tool_is_ignored_by_reason() -> None:
    assert facts("topics-to-move.json") == [{"kind": "ignored", "reasons": ["topic to move"]}] * 2
    assert facts("election.json") == [{"kind": "ignored", "reasons": ["partition to elect a leader of"]}] * 2


def test_topics_to_move_beside_the_generated_assignment_are_ignored(tmp_path: Path) -> None:
    text = '{"topics":[{"topic":"orders"}]}\n' + (FORMATS_DIR / "reassign-generate.txt").read_text()
    (tmp_path / "x").write_text(text)
    rows = shorten(load_facts(tmp_path / "x"))
    assert find_formats(text) == ["tool-input", "reassignment"]
    assert rows[0] == {"kind": "ignored", "reasons": ["topic to move"]}
    assert not [row for row in rows if row["kind"] == FactKind.REJECTED]


def test_a_list_that_only_resembles_the_input_of_a_tool_is_rejected() -> None:
    for text, name in (
        ('{"topics":[{"topic":"a","partitions":3,"rf":2},{"topic":"b"}]}', "topic-list"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[1]},{"topic":"a","partition":1}]}', "reassignment"),
    ):
        assert find_formats(text) == [name]
        form = FORMATS[name]
        records = form.read_records(text, "x")
        assert [row["kind"] for row in shorten(check_facts(records, form.parse_facts(records)))][1] == FactKind.REJECTED
    records = FORMATS["tool-input"].read_records('{"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}', "x")
    assert [row["kind"] for row in shorten(FORMATS["tool-input"].parse_facts(records))] == [FactKind.REJECTED]


def test_tool_output_is_ignored() -> None:
    assert reasons("reassign-verify.txt") == {"tool message": 3, "blank line": 1}
    assert reasons("leader-election.txt") == {"tool message": 2}


# --- the walk --------------------------------------------------------------------------------------------


def elements(text: str, *arrays: tuple[str, ...]) -> list[JsonEvent]:
    return [event for event in walk_documents(text, arrays) if event.kind == JsonEventKind.ELEMENT]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_JSON, max_size=5), _JSON, st.sampled_from([None, 1, "\t"]))
def test_elements_of_the_array_are_found_anywhere_in_the_document(
    items: list[object], other: object, indent: object
) -> None:
    text = json.dumps({"before": other, "deep": [{"array": items, "x": other}], "after": other}, indent=indent)  # type: ignore[arg-type]
    found = elements("a line\n" + text + "\nanother", ("deep", "*", "array"))
    assert [event.value for event in found] == items
    assert [json.loads(event.raw) for event in found] == items
    assert all(text.split("\n")[event.line - 2].find(event.raw.split("\n")[0]) >= 0 for event in found)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ('{"a":[1,2]}', ["element", "element"]),
        ('{"a":[]}', []),
        ('{"a":{}}', ["foreign"]),
        ('{"b":1}', ["foreign"]),
        ('{"a":[1,', ["element", "broken"]),
        ('{"a":[1 2]}', ["element", "broken"]),
        ('{"a":[1 2]}\n\nend', ["element", "broken", "line", "line"]),
        ('{"a":[1]', ["element", "broken"]),
        ('{"a" 1}', ["broken"]),
        ('{"b":1,"c" 1}', ["broken"]),
        ('{"b":{"a":[1]},"c" 1}', ["foreign", "broken"]),  # what stands before the fault is in a record, too
        ("{a:1}", ["line"]),
        ('{"a":[' + "[" * 100_000, ["broken"]),
        ('{"a":[1]} tail\nend', ["element", "line", "line"]),
        ('{"a":[1]}{"a":[2]}\n', ["element", "element"]),
        ("[2024-05-06] INFO\n", ["line"]),
        ("", []),
    ],
)
def test_the_events_of_a_walk(text: str, kinds: list[str]) -> None:
    quiet = (JsonEventKind.START, JsonEventKind.END, JsonEventKind.VALUE)
    assert [event.kind for event in walk_documents(text, [("a",)]) if event.kind not in quiet] == kinds


def test_line_numbers_are_counted_once() -> None:
    text = '{"a":[\n' + ",\n".join(["{}"] * 200_000) + "\n]}"
    begin = time.process_time()
    found = elements(text, ("a",))
    assert time.process_time() - begin < 5  # counting from the start each time would take minutes
    assert [event.line for event in found] == list(range(2, 200_002))


_SAMPLES = {
    name: (FORMATS_DIR / name).read_text()
    for name in ("log-dirs.txt", "reassign-generate.txt", "model.json", "brokers.json", "topics.json", "brokers.csv")
}
_FORMAT_OF = {
    "log-dirs.txt": "log-dirs",
    "reassign-generate.txt": "reassignment",
    "model.json": "model",
    "brokers.json": "broker-list",
    "topics.json": "topic-list",
    "brokers.csv": "broker-list",
}


@given(st.sampled_from(sorted(_SAMPLES)), st.integers(0, 1000), st.integers(0, 60), st.text(max_size=5))
def test_no_damage_to_a_document_raises(name: str, at: int, cut: int, extra: str) -> None:
    text = _SAMPLES[name]
    begin = at if name.endswith(".csv") is False else max(at, text.index("\n1,") + 1)  # a CSV's header must stand
    form = FORMATS[_FORMAT_OF[name]]
    damaged = text[:begin] + extra + text[begin + cut :]
    if form.name in ("broker-list", "topic-list") and damaged.lstrip()[:1] not in ("{", "[") and name[-3:] != "csv":
        return
    records = form.read_records(damaged, name)
    check_facts(records, form.parse_facts(records))


def test_an_array_of_arrays_beside_log_dirs_is_rejected() -> None:
    records = log_dirs.FORMAT.read_records('{"brokers":[]}\n[[1]]\n', "x")
    kinds = check_facts(records, log_dirs.FORMAT.parse_facts(records))["kind"].to_pylist()
    assert "rejected" in kinds


@pytest.mark.parametrize("path", sorted(FORMATS_DIR.glob("*.json*")), ids=lambda path: path.name)
def test_half_a_surrogate_pair_in_any_string_stops_nothing(tmp_path: Path, path: Path) -> None:
    text = path.read_text()
    strings = list(dict.fromkeys(re.findall(r'"[^"\\\n]{1,60}"', text)))
    for string in sample_cases(strings[:30], path.name):
        (tmp_path / path.name).write_text(text.replace(string, '"\\ud800"', 1))
        with suppress(SourceError):  # of a file in which nothing is left
            load_snapshot(Source("c", (tmp_path / path.name,)))
