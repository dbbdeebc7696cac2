"""The journal: whole lines, torn last lines, and the configs that throttles have replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.execution.journal import JOURNAL, THROTTLE, UNTHROTTLE, Journal

_RATE = "leader.replication.throttled.rate"


def _throttle(journal: Journal, rate: int, earlier: str | None) -> None:
    brokers = {"1": {_RATE: earlier}}
    journal.write(THROTTLE, wave=1, rate_bytes_per_s=rate, earlier_brokers=brokers, earlier_topics={"t": {"k": None}})


def test_entries_are_read_again(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    journal.write("begin", direction="apply", kafka_cluster_id=None, throttle_bytes_per_s=None)
    journal.write("end", outcome="complete")
    again = Journal.open(tmp_path)
    assert [entry["event"] for entry in again.entries] == ["begin", "end"]
    assert again.last_begin == journal.entries[0]
    assert again.last_end == journal.entries[1]


def test_torn_last_line_is_cut_off(tmp_path: Path) -> None:
    Journal.open(tmp_path).write("begin", direction="apply", kafka_cluster_id=None, throttle_bytes_per_s=None)
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('{"at":"2026-11-')
    journal = Journal.open(tmp_path)
    assert [entry["event"] for entry in journal.entries] == ["begin"]
    journal.repair()
    journal.write("end", outcome="complete")
    assert [entry["event"] for entry in Journal.open(tmp_path).entries] == ["begin", "end"]


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"event":"end"}', '{"at":"x","event":"throttle","wave":1}'])
def test_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / JOURNAL).write_text(f'{{"at":"x","event":"end"}}\n{line}\n{{"at":"x","event":"end"}}\n')
    with pytest.raises(SourceError, match="line 2: this line is damaged"):
        Journal.open(tmp_path)


def test_first_earlier_config_counts(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    _throttle(journal, 100, None)
    _throttle(journal, 200, "100")  # after a crash: what is found is our own throttle
    assert journal.find_earlier_configs().brokers == {1: {_RATE: None}}


def test_restored_configs_are_no_longer_outstanding(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    _throttle(journal, 100, "5")
    journal.write(UNTHROTTLE, brokers=[], topics=["t"])
    assert journal.find_earlier_configs().topics == {}
    assert journal.find_earlier_configs().brokers == {1: {_RATE: "5"}}
    journal.write(UNTHROTTLE, brokers=[1], topics=[])
    assert not journal.find_earlier_configs()
