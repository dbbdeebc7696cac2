"""Readers of configs, reassignments and metadata shells take linear time, whatever a line repeats."""

from __future__ import annotations

import time

import pytest

from pipelines.ingest.sections import read_sections
from pipelines.ingest.snapshot_reader import FORMATS, divide_text

NAMES = ("topic-configs", "reassignment-list", "reassignment", "metadata-shell", "zookeeper-cli", "strimzi-topics")
REPEATED = (
    *("Dynamic configs for topic a", "Configs for topic 'a' are ", "Configs for topic a,", "a=b sensitive=", "a=b,"),
    *("There is no active reassignment of partition a-1", "Reassignment of partition a-1 is still in progress", "1,"),
    *("Partition a-1 is not found in any live log dir", "Error completing leader election (PREFERRED) ", "a "),
    *("Reassignment of partition [a,", "Successfully started reassignment of partitions", "a.Exception"),
    *("ERROR: Assigned replicas (1,2) don't match ", "a-1: replicas: 1,", "PartitionRegistration(", "a=[1, ", ") "),
    *("kind: KafkaTopic ", "- ", "a: "),
    *("Optional[", "host='a', port=1", ">> cat ", ">> ", "/brokers/topics/a", "/a", "ls -R /brokers ", ": ", "  ", "'"),
)


@pytest.mark.parametrize("text", REPEATED)
def test_repetitions_take_linear_time(text: str) -> None:
    line = text * (100_000 // len(text))
    starts = ("", ">> cat /topics/a/0\n", "ls -R /\n", "Configs for topic 'a' are ", "PartitionRegistration(", "a=")
    begin = time.process_time()
    for before in starts:
        whole = before + line + "\n"
        for form, records in read_sections(whole, "x", divide_text(whole)):
            form.parse_facts(records)
        for name in NAMES:
            FORMATS[name].parse_facts(FORMATS[name].read_records(whole, "x"))
    assert time.process_time() - begin < 10


def test_a_long_recursive_listing_takes_linear_time() -> None:
    paths = [f"/brokers/topics/t{i}/partitions/{p}" for i in range(2_000) for p in range(10)]
    parents = [f"/brokers/topics/t{i}/partitions" for i in range(2_000)]
    text = "ls -R /brokers\n" + "\n".join([*parents, *paths, "ls /brokers/ids", "[1]"]) + "\n"
    begin = time.process_time()
    form = FORMATS["zookeeper-cli"]
    facts = form.parse_facts(form.read_records(text, "x"))
    assert facts["partition_count"].drop_null().to_pylist() == [10] * 2_000
    assert time.process_time() - begin < 5
