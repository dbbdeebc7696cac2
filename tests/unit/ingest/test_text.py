"""Reading a file as text, however it was saved."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.text import read_text, split_lines

from .facts import BAD_DIR, FORMATS_DIR, load_facts, shorten


@pytest.mark.parametrize("name", ["describe-crlf.txt", "describe-utf16.txt", "describe-bom.txt", "describe-2.8.txt.gz"])
def test_the_same_text_saved_in_other_ways_gives_the_same_facts(name: str) -> None:
    assert load_facts(FORMATS_DIR / name).equals(load_facts(FORMATS_DIR / "describe-2.8.txt"))


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
