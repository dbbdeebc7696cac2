"""Reading a file as text, however it was saved."""

from __future__ import annotations

import gzip
import json
import os
import time
import tracemalloc
from pathlib import Path
from threading import Thread

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import compute_snapshot_id, find_source
from pipelines.ingest.text import classify_noise, read_text, split_lines

from .facts import BAD_DIR, FORMATS_DIR, load_facts, shorten


@pytest.mark.parametrize("name", ["describe-crlf.txt", "describe-utf16.txt", "describe-bom.txt", "describe-2.8.txt.gz"])
def test_the_same_text_saved_in_other_ways_gives_the_same_facts(name: str) -> None:
    assert load_facts(FORMATS_DIR / name).equals(load_facts(FORMATS_DIR / "describe-2.8.txt"))


def test_a_small_file_needs_little_memory(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"x" * 3_000_000)
    tracemalloc.start()
    try:
        assert len(read_text(file)) == 3_000_000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000  # it reserved the 2 GB that a file may have
    finally:
        tracemalloc.stop()


def test_an_unfinished_title_of_a_terminal_does_not_swallow_lines(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a\x1b]0;t\nTopic: t\nb\x07 \x1b]0;t\x07c \x1b[31md\n")
    assert split_lines(read_text(file)) == ["a\x1b]0;t", "Topic: t", "b\x07 c d"]


def test_windows_line_ends_do_not_change_line_numbers(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a\r\n\r\nb\r\r\nc\x0cd\xe2\x80\xa8e\n")
    assert split_lines(read_text(file)) == ["a", "", "b", "c\x0cd\u2028e"]


def test_a_byte_that_is_not_utf8_affects_one_line_only(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\tTopic: caf\xe9\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n" * 2)
    assert [row["topic"] for row in shorten(load_facts(file))] == ["caf\ufffd"] * 2


@pytest.mark.parametrize("codec", ["utf-16", "utf-32"])
def test_a_byte_order_mark_says_the_encoding(tmp_path: Path, codec: str) -> None:
    file = tmp_path / "x"
    file.write_bytes("añb\n".encode(codec))
    assert read_text(file) == "añb\n"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("empty.txt", "is empty"),
        ("binary.bin", "is binary"),
        ("broken.txt.gz", "broken gzip"),
        ("not-there.txt", "no such file"),
        ("", "is a folder"),
    ],
)
def test_the_error_of_an_unreadable_file_names_the_file(name: str, problem: str) -> None:
    with pytest.raises(SourceError, match=problem) as error:
        read_text(BAD_DIR / name)
    assert str(BAD_DIR / name) in str(error.value)


def test_gzip_of_nothing_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(b""))
    with pytest.raises(SourceError, match="is empty"):
        read_text(file)


@pytest.mark.parametrize("is_zipped", [False, True])
def test_a_file_above_the_limit_is_not_read_to_its_end(tmp_path: Path, is_zipped: bool) -> None:
    file = tmp_path / "x"
    file.write_bytes(gzip.compress(bytes(50_000_000)) if is_zipped else b"x" * 50_000)
    with pytest.raises(SourceError, match=rf"{file}: has more than 10 kB.*ingest.max_file_bytes") as error:
        read_text(file, max_bytes=10_000)
    assert ("after unzipping" in str(error.value)) == is_zipped


def test_an_endless_device_is_no_source() -> None:
    with pytest.raises(SourceError, match="is a device or a socket"):
        find_source("/dev/zero")
    with pytest.raises(SourceError, match="has more than 1 MB"):
        read_text("/dev/zero", max_bytes=1_000_000)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = (FORMATS_DIR / "describe-2.8.txt").read_text()
    writer = Thread(target=pipe.write_text, args=(text,))
    writer.start()
    snapshot = load_snapshot(find_source(f"x={pipe}"))
    writer.join()
    assert snapshot.partitions.num_rows == 2
    with pytest.raises(SourceError, match="is a pipe"):
        compute_snapshot_id(find_source(str(pipe)), None)


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf_16_needs_no_byte_order_mark(tmp_path: Path, codec: str) -> None:
    (tmp_path / "x").write_bytes("Topic: orders\tPartition: 0\n".encode(codec))
    assert read_text(tmp_path / "x") == "Topic: orders\tPartition: 0\n"


def test_the_log_of_a_container_is_unwrapped(tmp_path: Path) -> None:
    lines = ["Topic: a\tPartition: 0\n", 'quoted "x"\n', "\n"]
    log = "".join(
        json.dumps({"log": line, "stream": "stdout", "time": "x"}, separators=(",", ":")) + "\n" for line in lines
    )
    (tmp_path / "x").write_text(log + "plain\n")
    assert read_text(tmp_path / "x") == "".join(lines) + "plain\n"
    damaged = '{"log":"a\\n","str'
    (tmp_path / "x").write_text(f"{damaged}\n{log}")
    assert read_text(tmp_path / "x") == f"{damaged}\n{''.join(lines)}"
    no_text = r'{"log":"\ud800","stream":"stdout","time":"x"}'
    (tmp_path / "x").write_text(f"{log}{no_text}\n")
    assert read_text(tmp_path / "x") == f"{''.join(lines)}{no_text}\n"


def test_colours_and_titles_of_a_terminal_are_removed(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("\x1b]0;title\x07\x1b[1;32mTopic:\x1b[0m orders\x1b[K\n")
    assert read_text(tmp_path / "x") == "Topic: orders\n"


def test_typographic_quotes_become_straight_if_there_are_no_others(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("{“a”: „b“}\n", encoding="utf-8")
    assert read_text(tmp_path / "x") == '{"a": "b"}\n'
    (tmp_path / "x").write_text('“a” "b"\n', encoding="utf-8")
    assert read_text(tmp_path / "x") == '“a” "b"\n'


@pytest.mark.parametrize(
    "piece",
    [
        "--- a",
        "1,2",
        "index 0",
        "[@",
        "a@",
        "$",
        "...",
        ". ",
        "{",
        "a ",
        "-",
        "<a",
        "at x(",
        "kafka-topics ",
        "\x1b[",
        "]",
        " ",
    ],
)
def test_a_reason_for_ignoring_a_line_is_found_in_linear_time(piece: str) -> None:
    for line in (piece * 30_000, piece * 30_000 + "x", "[" + piece * 30_000, "x@" + piece * 30_000 + "!"):
        begin = time.process_time()
        classify_noise(line)
        assert time.process_time() - begin < 2  # a quadratic pattern takes minutes


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--- a/topics.txt", "header of a diff"),
        ("+++ b/topics.txt\t2024-01-02 10:00:00.000000000 +0000", "header of a diff"),
        ("@@ -1,4 +1,5 @@", "header of a diff"),
        ("diff --git a/x b/x", "header of a diff"),
        ("3,4c3,4", "header of a diff"),
        ("--- broker 3 leads partition 0", "prose"),
        ("--- x\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1", "prose"),
        ('Defaulted container "kafka" out of: kafka', "tool message"),
        ("Unable to use a TTY - input is not a terminal or the right kind of file", "tool message"),
    ],
)
def test_reasons_for_ignoring_a_line(line: str, reason: str) -> None:
    assert classify_noise(line) == reason
