"""Lines that show partitions in a form that no reader knows are quarantined; sentences are not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipelines.ingest.table_rows import looks_like_row

from .test_sections import DESCRIBE, load, replicas

ROWS = [
    "|billing|0|none|2|2|",
    "| orders | 1 | 1 | 1,2 | 1 |",
    "<tr><td>billing</td><td>0</td><td>none</td><td>2</td><td>2</td></tr>",
    "1\t99\t-1\t(2)\t()\tfalse\ttrue",
    "=20=20Topic: hr=09Partition: 2=09Leader: none=09Replicas: 2=09Isr: 2",
    "Toplc: shop Partltion: 6 Leoder: none Repllcas: 2 lsr: 2",
    "Also shop-0: leader none, Replicas 2, Isr 2",
    "billing 1 2 2,1 2",
    "Tema: shop Partición: 1 Líder: ninguno Réplicas: 2 Isr: 2",
    "topic=orders partition=1 leader=none replicas=[3]",
    "0           1       1      [1 2 3]   0                 17",
]
SENTENCES = [
    "We have 3 partitions and 2 replicas on 4 brokers.",
    "This was at 10:15, after the restart of broker 2",
    "Kafka 2.8.1, ZooKeeper 3.6",
    "|---|---|",
    "||Topic||Partition||Leader||Replicas||ISR||",
    "On Mon, 3 Jan 2022 at 10:12, John Doe <john@x.y> wrote:",
    "see KAFKA-1234 and KAFKA-5678",
    "orders, payments, billing",
    "[2024-05-06 07:08:09,123] INFO [Partition orders-0 broker=1] ISR updated to 1,2 (kafka.cluster.Partition)",
    "$ kafka-topics.sh --describe --topic orders",
]


@pytest.mark.parametrize("line", ROWS)
def test_a_row_beside_a_describe_is_quarantined(tmp_path: Path, line: str) -> None:
    assert looks_like_row(line)
    snapshot = load(tmp_path, f"{DESCRIBE}\nand\n\n{line}\nthe end\n")
    assert replicas(snapshot) == {0: [3, 2], 1: [2, 3]}
    (row,) = snapshot.quarantined
    assert (row["line_number"], row["raw"]) == (7, line)


@pytest.mark.parametrize("line", SENTENCES)
def test_a_sentence_is_no_row(tmp_path: Path, line: str) -> None:
    assert not looks_like_row(line)
    assert load(tmp_path, f"{DESCRIBE}\n{line}\n").quarantined == []


@pytest.mark.parametrize("piece", ["|", "\t", "  ", "1 ", "a: 1 ", "a:", "<td>", "leader ", "[", "1,"])
def test_rows_are_found_in_linear_time(piece: str) -> None:
    begin = time.process_time()
    looks_like_row(piece * 100_000 + "1x")
    assert time.process_time() - begin < 1
