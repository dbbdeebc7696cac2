"""Reading a file as text, however it was saved."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.text import lines_of, read_text

from .facts import BAD_DIR, FORMATS_DIR, short, table_of


@pytest.mark.parametrize("name", ["describe-crlf.txt", "describe-utf16.txt", "describe-bom.txt", "describe-2.8.txt.gz"])
def test_the_same_text_saved_in_other_ways_gives_the_same_facts(name: str) -> None:
    assert table_of(FORMATS_DIR / name).equals(table_of(FORMATS_DIR / "describe-2.8.txt"))


def test_line_ends_of_windows_do_not_move_line_numbers(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a\r\n\r\nb\r\r\nc\x0cd\xe2\x80\xa8e\n")
    assert lines_of(read_text(file)) == ["a", "", "b", "c\x0cd\u2028e"]


def test_a_byte_that_is_no_utf8_costs_one_line_only(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\tTopic: caf\xe9\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n" * 2)
    assert [row["topic"] for row in short(table_of(file))] == ["caf\ufffd"] * 2


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
def test_what_cannot_be_read_is_rejected_with_its_name_and_a_remedy(name: str, problem: str) -> None:
    with pytest.raises(SourceError, match=problem) as error:
        read_text(BAD_DIR / name)
    assert str(BAD_DIR / name) in str(error.value)


def test_gzip_of_nothing_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(b""))
    with pytest.raises(SourceError, match="is empty"):
        read_text(file)
