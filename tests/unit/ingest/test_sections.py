"""A file is divided into sections: every line and document goes to the reader that knows it."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.sections import find_document_end, find_sections, read_sections
from pipelines.ingest.snapshot_reader import FORMATS, Snapshot, divide_text, load_snapshot, read_file, read_files
from pipelines.ingest.sources import Source
from pipelines.ingest.text import MAX_LINE

from .facts import FORMATS_DIR, find_formats

DESCRIBE = (
    "Topic: orders\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    "\tTopic: orders\tPartition: 0\tLeader: 3\tReplicas: 3,2\tIsr: 3,2\n"
    "\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2,3\n"
)
OLD = (
    '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]},'
    '{"topic":"orders","partition":1,"replicas":[2,1]}]}'
)
TARGET = OLD.replace("[1,2]", "[3,2]").replace("[2,1]", "[2,3]")
EXECUTE = (
    f"Current partition replica assignment\n\n{OLD}\n\n"
    "Save this to use as the --reassignment-json-file option during rollback\n"
    "Successfully started partition reassignments for orders-0,orders-1\n"
)
SESSION = (
    "[zk: localhost:2181(CONNECTED) 0] ls /brokers/ids\n[2, 3, 4]\n"
    "[zk: localhost:2181(CONNECTED) 1] get /brokers/topics/orders\n"
    '{"version":2,"partitions":{"0":[3,2],"1":[2,3]}}\ncZxid = 0x25\n'
)


def load(tmp_path: Path, text: str) -> Snapshot:
    (tmp_path / "paste.txt").write_text(text)
    return load_snapshot(Source("paste", (tmp_path / "paste.txt",)))


def replicas(snapshot: Snapshot) -> dict[int, list[int]]:
    rows = snapshot.partitions.to_pylist()
    assert {row["topic"] for row in rows} == {"orders"}
    return {row["partition"]: row["replicas"] for row in rows}


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        (EXECUTE + DESCRIBE, ["reassignment", "describe"]),
        (DESCRIBE + EXECUTE, ["describe", "reassignment"]),
        (DESCRIBE + SESSION, ["describe", "zookeeper-cli"]),
        (SESSION + DESCRIBE + SESSION, ["zookeeper-cli", "describe", "zookeeper-cli"]),
        (f"We ran this:\n```\n{EXECUTE}```\nand then:\n{{code}}\n{DESCRIBE}{{code}}\n", ["reassignment", "describe"]),
        (f"broker_id,rack\n2,a\n3,b\n\n{DESCRIBE}", ["broker-list", "describe"]),
        (DESCRIBE + '{"brokers":[{"id":2,"rack":"a"},{"id":3,"rack":"b"}]}', ["describe", "broker-list"]),
        (DESCRIBE + "orders:0:17\norders:1:18\n", ["describe", "offsets"]),
        (DESCRIBE + '{"version":1,"brokers":[{"broker":2,"logDirs":[]}]}\n', ["describe", "log-dirs"]),
    ],
)
def test_each_part_of_a_paste_goes_to_its_reader(tmp_path: Path, text: str, formats: list[str]) -> None:
    assert find_formats(text) == formats
    snapshot = load(tmp_path, text)
    assert replicas(snapshot) == {0: [3, 2], 1: [2, 3]}
    assert snapshot.quarantined == []


def test_every_line_is_in_one_section_and_sections_are_in_order() -> None:
    text = f"intro\n\n{SESSION}text\n{DESCRIBE}{EXECUTE}end"
    found = divide_text(text)
    assert found[0].first_line == 1
    assert found[-1].last_line == text.count("\n") + 1
    assert all(after.first_line == before.last_line + 1 for before, after in pairwise(found))
    assert "".join(text[section.begin : section.end] for section in found) == text


def test_an_answer_in_a_zookeeper_session_is_no_file_of_its_own(tmp_path: Path) -> None:
    moves = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[7,8]}]}'
    text = f"{SESSION}[zk: localhost:2181(CONNECTED) 2] get /admin/reassign_partitions\n{moves}\n"
    assert find_formats(text) == ["zookeeper-cli"]
    assert replicas(load(tmp_path, text)) == {0: [3, 2], 1: [2, 3]}


@pytest.mark.parametrize("between", ["", "\n", " "])
def test_the_target_that_old_kafka_prints_is_no_state(tmp_path: Path, between: str) -> None:
    message = f"Successfully started reassignment of partitions{between or ' '}"
    text = f"Current partition replica assignment\n\n{OLD}\n{message}{TARGET}\n"
    assert replicas(load(tmp_path, text)) == {0: [1, 2], 1: [2, 1]}


def test_a_document_that_no_reader_knows_is_quarantined_beside_a_describe(tmp_path: Path) -> None:
    snapshot = load(tmp_path, f'{DESCRIBE}{{"status": {{"ready": true}}}}\n{{\n "a": [\n  1\n ]\n}}\n')
    assert replicas(snapshot) == {0: [3, 2], 1: [2, 3]}
    assert [row["line_number"] for row in snapshot.quarantined] == [4, 5]
    assert all("a JSON document that no reader understands" in row["reasons"][0] for row in snapshot.quarantined)


def test_a_line_without_end_is_quarantined_and_kept_in_part(tmp_path: Path) -> None:
    snapshot = load(tmp_path, f"{DESCRIBE}\tTopic: orders\tPartition: 2{' ' * MAX_LINE}\nend\n")
    (row,) = snapshot.quarantined
    assert row["line_number"] == 4
    assert "a line of 1000027 characters" in row["reasons"][0]
    assert len(row["raw"]) == 2_000


def test_record_numbers_are_unique_and_follow_the_lines(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(SESSION + DESCRIBE + SESSION)
    parts = read_file(tmp_path / "x", None).parts
    numbered = sorted(
        (number, line)
        for part in parts
        for number, line in zip(part.records.record_number, part.records.line_number, strict=True)
    )
    assert [number for number, _ in numbered] == list(range(len(numbered)))
    assert [line for _, line in numbered] == sorted(line for _, line in numbered)


def test_a_broken_document_does_not_swallow_what_follows(tmp_path: Path) -> None:
    snapshot = load(tmp_path, f'{{"version":1,"partitions":[{{"topic":"orders","part\n{DESCRIBE}')
    assert replicas(snapshot) == {0: [3, 2], 1: [2, 3]}
    assert [row["line_number"] for row in snapshot.quarantined] == [1]


@pytest.mark.parametrize(
    ("line", "format_name"),
    [
        ("0 {} 1 1 [1 2]", "rpk"),
        ("    partition 0,{} leader 1, replicas: 1,2, isrs: 1,2", "kcat"),
        ("   orders  0  1 {} [1, 2]   [1, 2]   []   []   2", "cruise-control"),
    ],
)
def test_a_line_with_thousands_of_blanks_goes_to_its_reader(line: str, format_name: str) -> None:
    assert find_formats(f"{DESCRIBE}{line.format(' ' * 9_000)}\n") == ["describe", format_name]


CUT = '{"version":1,"partitions":[{"topic":"old","partition":0,"replicas":[1]},'


@pytest.mark.parametrize(
    "document",
    [
        f"{CUT}\n",
        f"{CUT}\n\n",
        '{"version":1,"partitions":[\n',
        '{"version":1,"partitions":[{"topic":"old","partition":0,"replicas":[1,\n',
        '{\n "version": 1,\n "partitions": [\n  {\n   "topic": "old",\n   "partition": 0,\n   "replicas": [\n',
        '{"status": [\n',
    ],
)
def test_the_line_below_a_document_that_breaks_off_is_read(tmp_path: Path, document: str) -> None:
    snapshot = load(tmp_path, document + DESCRIBE)
    rows = {(row["topic"], row["partition"]): row["replicas"] for row in snapshot.partitions.to_pylist()}
    assert {key: value for key, value in rows.items() if key[0] == "orders"} == {
        ("orders", 0): [3, 2],
        ("orders", 1): [2, 3],
    }
    assert {row["topic"]: row["replication_factor"] for row in snapshot.topics.to_pylist()}["orders"] == 2
    (row,) = snapshot.quarantined
    assert row["line_number"] <= document.rstrip().count("\n") + 1


def test_a_line_of_a_log_inside_a_document_is_not_taken_for_json(tmp_path: Path) -> None:
    log = "12:00:01 INFO [Partition(topic = orders, partition = 0, leader = 1, replicas = [1,2], isr = [1,2])]"
    snapshot = load(tmp_path, f'{{\n  "controllerid": 1,\n{log}\n  "brokers": []\n}}\n')
    assert replicas(snapshot) == {0: [1, 2]}


def test_what_breaks_off_after_a_describe_is_quarantined(tmp_path: Path) -> None:
    snapshot = load(tmp_path, f"{DESCRIBE}{CUT}\n")
    assert [row["line_number"] for row in snapshot.quarantined] == [4]
    assert "breaks off" in snapshot.quarantined[0]["reasons"][0]


def test_a_document_is_not_the_rest_of_one_that_breaks_off_above(tmp_path: Path) -> None:
    snapshot = load(tmp_path, f"{CUT}\n{DESCRIBE}{OLD.replace('orders', 'new')}\n")
    rows = {(row["topic"], row["partition"]): row["replicas"] for row in snapshot.partitions.to_pylist()}
    assert rows[("new", 0)] == [1, 2]
    assert rows[("old", 0)] == [1]
    assert [row["line_number"] for row in snapshot.quarantined] == [1]


@pytest.mark.parametrize(
    "line",
    [
        '  topic "orders" with 3 partitions:',
        "0          1      1      [1 2 3]   0                 17",
        "  broker 2 at b2.example.org:9092",
        "orders-1: replicas: 2,3,1,4. adding: 4.",
    ],
)
def test_a_line_of_another_format_is_not_taken_for_json(line: str) -> None:
    document = '{\n "version": 1,\n "partitions": [\n  {\n   "replicas": [\n    2,\n'
    end = find_document_end(f"{document}{line}\n    3\n", 0)
    assert end == len(document) - 1


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_the_end_of_a_document_is_found(value: object) -> None:
    for indent in (None, 1):
        for margin in ("", "\t"):  # a paste may be indented
            text = margin + json.dumps([{"a": value}], indent=indent).replace("\n", "\n" + margin)
            assert find_document_end(f"x\n{text}\nnext {{", 2) == 2 + len(text)


def test_no_line_is_lost_below_an_indented_document_that_breaks_off(tmp_path: Path) -> None:
    element = '{"topic":"orders","partition":1,"replicas":[2,3,1]}'
    text = (
        f"\t[{element},\n"
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
        f"\t{element}`\n\t[{element},\n\t//  {element}]\n"
    )
    assert find_document_end(text, 0) == text.index("\n")
    (tmp_path / "paste.txt").write_text(text)
    records = [row for part in read_file(tmp_path / "paste.txt", None).parts for row in part.records]
    assert {row[1] for row in records} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    "piece",
    [
        '\\"',
        '"',
        "{",
        "[",
        "[{",
        "}",
        '{"a":',
        " ",
        ".",
        ":",
        "@",
        "a@",
        "/",
        "$ ",
        "x:",
        "Topic: ",
        "get /",
        "=",
        "#",
        "<a",
        "\t",
    ],
)
def test_sections_take_linear_time(piece: str) -> None:
    for text in (
        piece * 20_000 + "x",
        '{"' + piece * 20_000,
        "Topic: t Partition: 0 " + piece * 20_000,
        "[zk: " + piece * 20_000,
    ):
        begin = time.process_time()
        find_sections(text + "\n" + text, list(FORMATS.values()))
        assert time.process_time() - begin < 3  # a quadratic pattern takes ten times as long


@pytest.mark.parametrize("line", ["", " ", "\t ", "# comment", "..."])
def test_many_lines_before_the_first_data_take_linear_time(line: str) -> None:
    begin = time.process_time()
    find_sections(f"{line}\n" * 30_000 + DESCRIBE, list(FORMATS.values()))
    assert time.process_time() - begin < 5  # it took minutes


def test_a_long_file_of_one_format_is_read_at_once() -> None:
    text = "".join(re.sub("orders", f"t{i}", DESCRIBE) for i in range(20_000))
    begin = time.process_time()
    (section,) = divide_text(text)
    assert time.process_time() - begin < 5
    assert section.last_line == 60_000


def test_a_file_name_that_is_not_utf8_is_shown_with_escapes(tmp_path: Path) -> None:
    file = Path(str(tmp_path) + "/caf\udce9.txt")
    file.write_text(DESCRIBE)
    (read,) = read_files(Source("x", (file,)))
    assert read.name == "caf\\xe9.txt"


def test_all_samples_of_a_folder_in_one_file_lose_nothing(tmp_path: Path) -> None:
    names = (
        "describe-2.8.txt",
        "zookeeper-cli.txt",
        "log-dirs.txt",
        "reassign-generate.txt",
        "kraft-log.txt",
        "offsets.txt",
    )
    texts = [(FORMATS_DIR / name).read_text() for name in names]
    alone = [load_snapshot(Source("x", (FORMATS_DIR / name,))) for name in names]
    (tmp_path / "x").write_text("".join(texts))
    together = read_file(tmp_path / "x", None)
    count = sum(len(part.records) for snapshot in alone for file in snapshot.files for part in file.parts)
    assert sum(len(part.records) for part in together.parts) == count


def test_thousands_of_documents_that_break_off_take_linear_time() -> None:
    text = '/brokers/topics/t\n{"version":\n' * 5_000
    begin = time.monotonic()
    sections = divide_text(text)
    assert sum(section.is_cut for section in sections) == 5_000
    read_sections(text, "x", sections)
    assert time.monotonic() - begin < 5


def test_a_line_below_a_broken_document_that_its_reader_cannot_begin_with_is_quarantined(tmp_path: Path) -> None:
    text = '[\n  {\n    "topic": "orders",\npartitions": [\n'
    assert [row["line_number"] for row in load(tmp_path, f"{text}\n{DESCRIBE}").quarantined] == [2, 4]


def test_data_behind_a_message_of_another_tool_is_not_ignored(tmp_path: Path) -> None:
    line = DESCRIBE.splitlines()[1] + "\tReceived log directory information from brokers 1,2"
    snapshot = load(tmp_path, f"kafka-topics.sh --describe | head -20\t{line}\n")
    assert len(snapshot.quarantined) == 1


def test_a_log_of_problems_is_one_warning(tmp_path: Path) -> None:
    snapshot = load(tmp_path, DESCRIBE + "[2024-05-06 07:08:09,123] ERROR disk failed\n" * 1_000)
    (row,) = snapshot.warnings.to_pylist()
    assert (row["line_number"], row["warning"]) == (4, "a line that is not read mentions a problem (and 999 more)")


@pytest.mark.parametrize("sample", ["kcat.txt", "cruise-control.txt", "rpk-topic.txt", "kraft-log.txt", "offsets.txt"])
@pytest.mark.parametrize("line", ["pay-2 leader=4 replicas=4,3 isr=4", "Leader: 4 Replicas: 4,3"])
def test_a_partition_in_an_unknown_form_is_quarantined_below_any_format(tmp_path: Path, sample: str, line: str) -> None:
    snapshot = load(tmp_path, f"{(FORMATS_DIR / sample).read_text().rstrip()}\n{line}\n")
    assert [row["raw"] for row in snapshot.quarantined if line in row["raw"]] == [line]


def test_an_assignment_with_a_number_of_brokers_is_read(tmp_path: Path) -> None:
    assert replicas(load(tmp_path, f'{OLD[:-1]},"brokers":2}}')) == {0: [1, 2], 1: [2, 1]}


def test_a_topic_that_declares_other_counts_than_it_shows_says_so(tmp_path: Path) -> None:
    short = DESCRIBE.replace("PartitionCount: 2", "PartitionCount: 1").replace(
        "Replicas: 2,3\tIsr: 2,3", "Replicas: 23\tIsr: 23"
    )
    (topic,) = load(tmp_path, short.replace("Leader: 2", "Leader: 23")).topics.to_pylist()
    assert topic["incomplete"]
    assert topic["warnings"] == [
        "declares replication factor 2, but partition 1 has 1 replica",
        "declares 1 partition but shows partition 1",
    ]


@pytest.mark.parametrize(
    "table",
    [
        "NodeId\tLogEndOffset\tLag\tStatus\n3     \t4011        \t0  \tLeader\n4     \t4011        \t0  \tFollower\n",
        "NAME        READY   STATUS    RESTARTS   AGE\nk-kafka-0   1/1     Running   0          5d\n",
    ],
)
def test_the_rows_of_another_tools_table_are_no_partitions(tmp_path: Path, table: str) -> None:
    snapshot = load(tmp_path, table + DESCRIBE)
    assert (snapshot.quarantined, snapshot.warnings.num_rows) == ([], 0)
    assert replicas(snapshot) == {0: [3, 2], 1: [2, 3]}


@pytest.mark.parametrize(
    "line",
    [
        "{ topics: [ { name: 'js', partitions: [ { partitionId: 0, leader: 1, replicas: [ 1, 2 ], isr: [ 1 ] } ] } ] }",
        'MetadataTopic { name: "rt", partitions: [MetadataPartition { id: 0, leader: 1, replicas: [1], isr: [1] }] }',
    ],
)
def test_an_object_that_a_program_has_printed_is_named(tmp_path: Path, line: str) -> None:
    (row,) = load(tmp_path, f"{DESCRIBE}{line}\n").quarantined
    assert row["reasons"][0].endswith("in a form that no reader knows: use kafka-topics --describe")


@pytest.mark.parametrize(
    ("output", "warnings"), [("", 0), ("\tTopic: orders\tPartition: 0\tLeader: 3\tReplicas: 3,2\tIsr: 3,2\n", 1)]
)
def test_a_filtered_listing_below_a_whole_one_warns_if_it_shows_some(
    tmp_path: Path, output: str, warnings: int
) -> None:
    command = "$ kafka-topics.sh --bootstrap-server b1:9092 --describe --under-replicated-partitions\n"
    assert load(tmp_path, DESCRIBE + command + output).warnings.num_rows == warnings
