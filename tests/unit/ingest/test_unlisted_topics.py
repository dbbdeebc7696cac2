"""Topics and partitions that only logs and offsets show are named, unless a source that lists all topics lacks them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from pipelines.ingest.merge.kraft_merge import find_unlisted_partitions
from pipelines.ingest.merge.shard_facts import ShardFacts
from pipelines.ingest.snapshot_reader import parse_facts, read_files
from pipelines.ingest.sources import find_source

PARTITIONS = pa.table({"topic": ["orders"] * 7, "partition": range(7)})
LOGS = {
    "version": 1,
    "brokers": [
        {
            "broker": 1,
            "logDirs": [
                {
                    "logDir": "/d",
                    "error": None,
                    "partitions": [
                        {"partition": name, "size": 1, "offsetLag": 0, "isFuture": False}
                        for name in ("orders-0", "orders-7", "money-2", "money-0", f"old-0.{'0a' * 16}-delete")
                    ],
                }
            ],
        }
    ],
}
BROKER = '{"path":"/brokers/ids/1","data":"{\\"host\\":\\"b\\",\\"port\\":1}"}\n'


def find(folder: Path, **texts: str) -> dict[str, dict[str, object]]:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    shard = ShardFacts(parse_facts(list(read_files(find_source(str(folder))))))
    return find_unlisted_partitions(shard, PARTITIONS, {"listed": {}})


def test_logs_and_offsets_name_topics(tmp_path: Path) -> None:
    found = find(tmp_path, logs=json.dumps(LOGS), offsets="clicks:0:5\nclicks:3:7\nlisted:0:1\n")
    assert found == {
        "orders": {"partition_count": 8},
        "money": {"partition_count": 3},
        "clicks": {"partition_count": 4},
    }


def test_logs_of_deleted_topics_are_left_over(tmp_path: Path) -> None:
    assert find(tmp_path, logs=json.dumps(LOGS), dump=BROKER) == {}
