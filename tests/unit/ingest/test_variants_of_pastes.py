"""Other forms of the pastes of data_samples/pastes: other commands around them, columns, prompts, marks, shells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import Source
from pipelines.verdict.verdict_points import Level
from pipelines.what_if.what_if_answers import evaluate_brokers
from tests.commands import call
from udfs.failures.topic_defaults import KAFKA_DEFAULTS

from .test_pastes import FOLDER, describe

_KCAT = """ 3 brokers:
  broker 1 at 10.0.0.1:9092
  broker 2 at 10.0.0.2:9092
  broker 3 at 10.0.0.3:9092
 1 topics:
  topic "tolls" with 3 partitions:
    partition 0, leader 1, replicas: 1,2,3, isrs: 1,2,3
    partition 1, leader 2, replicas: 2,3,1, isrs: 2,3,1
    partition 2, leader 3, replicas: 3,1,2, isrs: 3,1,2
"""
_TOPICS = """Topic: tolls\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: min.insync.replicas=1
\tTopic: tolls\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3
\tTopic: tolls\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1
\tTopic: tolls\tPartition: 2\tLeader: 3\tReplicas: 3,1,2\tIsr: 3,1,2
"""
_READ = [
    f"tolls-{n} leader {a} replicas {a},{b},{c} isr {a},{b},{c}"
    for n, a, b, c in ((0, 1, 2, 3), (1, 2, 3, 1), (2, 3, 1, 2))
]
_OF_ALL, _OF_TOLLS = (f"Metadata for {name} (from broker 1: 10.0.0.1:9092/1):\n" for name in ("all topics", "tolls"))


def _read(folder: Path, text: str) -> tuple[list[str], Level]:
    """Return what a text shows, and the level of the verdict."""
    path = folder / "paste.txt"
    path.write_text(text, encoding="utf-8", newline="")
    verdict = evaluate_brokers(load_snapshot(Source("paste", (path,))), KAFKA_DEFAULTS).verdict
    return list(describe(path)), verdict.level


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("$ docker run --rm edenhill/kcat:1.7.1 -b b:9092 -L -t tolls", _KCAT),
        ("docker run --network=host edenhill/kcat:1.7.0 -b b:9092 -L -t tolls", _KCAT),
        (r"PS C:\> kcat.exe -b b:9092 -L -t tolls", _KCAT),
        (r"C:\kafka> .\kafkacat.exe -b b:9092 -Lttolls", _KCAT),
        ("xyzwrap 'kcat -b b:9092 -L -t tolls'", _KCAT),
        ('$ dsh -g brokers -- "kcat -L -t tolls"', _OF_ALL + _KCAT),
        ('$ xyzwrap "kafka-topics.sh --bootstrap-server b:9092 --describe --topic tolls"', _TOPICS),
        ('xyzwrap on b1 "kafka-topics --bootstrap-server b:9092 --describe --topic tolls"', _TOPICS),
    ],
)
def test_whatever_runs_it_a_command_of_one_topic_shows_one(tmp_path: Path, command: str, output: str) -> None:
    lines, level = _read(tmp_path, f"{command}\n{output}")
    assert lines[:3] == _READ
    assert [line for line in lines if line.endswith("shows one topic: no answer covers the others")]
    assert level is not Level.OK


def test_a_sentence_that_quotes_a_command_is_none(tmp_path: Path) -> None:
    lines, level = _read(tmp_path, f'The output of "kafka-topics --describe --topic tolls" is below\n{_TOPICS}')
    assert (lines, level) == ([*_READ, "live: 1 2 3"], Level.OK)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"        {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"host-1: {line}\n" for line in text.splitlines()),
        lambda text: f"```text\n{text}```\n",
    ],
)
def test_kcat_of_one_topic_is_never_the_cluster(tmp_path: Path, change: object) -> None:
    assert callable(change)
    lines, level = _read(tmp_path, change(_OF_TOLLS + _KCAT))
    assert lines[:3] == _READ
    assert any('"Metadata for tolls" shows one topic' in line for line in lines)
    assert level is not Level.OK


@pytest.mark.parametrize("name", ["rpk-with-options.txt", "rpk-v21.txt", "rpk-cluster-partitions.txt", "rpk.txt"])
def test_lists_that_rpk_sorts_show_no_preferred_leader(name: str) -> None:
    assert "preferred leader" not in call("what-if", str(FOLDER / name)).stdout
    answer = call("hotspots", str(FOLDER / name), "--seeds", "2").stdout
    assert "preferred leader" not in answer
    assert "An election" not in answer


_OLD = """  Name                tolls
  Internal            false
  Partition           Leader              {}  High Watermark
  0                   33                  {}        120
  1                   34                  {}        -1
"""
_BROKER_STATES = "live: 0", "down: 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (  # columns of rpk up to v21 in another order, or with commas
            _OLD.format("In-Sync Replicas   Replicas", "[33 35]   [33 34 35]", "[34]   [33 34 35]"),
            ["tolls-0 leader 33 replicas 33,34,35 isr 33,35", "tolls-1 leader 34 replicas 33,34,35 isr 34"],
        ),
        (
            _OLD.format("Replicas   In-Sync Replicas", "[33, 34, 35]   [33, 35]", "[33, 34, 35]   [34]").replace(
                "\n", "\r\n"
            ),
            ["tolls-0 leader 33 replicas 33,34,35 isr 33,35", "tolls-1 leader 34 replicas 33,34,35 isr 34"],
        ),
        (  # one blank between cells
            "$ rpk topic describe t -p\nPARTITION LEADER EPOCH REPLICAS LOG-START-OFFSET\n0 2 3 [1 2] 0\n",
            ["t-0 leader 2 replicas 1,2 isr 1,2 inferred"],
        ),
        (  # columns that later versions may add
            "$ rpk topic describe t -p\nLEADER  PARTITION  REPLICAS  EPOCH  SIZE\n"
            "2       0          [1 2]     3      9\n",
            ["t-0 leader 2 replicas 1,2 isr 1,2 inferred"],
        ),
        (
            "$ rpk redpanda admin brokers ls\nNODE ID  NUM CORES  IS ALIVE  MEMBERSHIP STATUS\n"
            "0  4  true  active\n1  4  false  active\n",
            _BROKER_STATES,
        ),
        (
            "IS-ALIVE  NODE-ID  MEMBERSHIP-STATUS\ntrue      0        active\nfalse     1        active\n",
            _BROKER_STATES,
        ),
        (
            "| NODE-ID | MEMBERSHIP-STATUS | IS-ALIVE |\n|--|--|--|\n| 0 | active | true |\n| 1 | active | false |\n",
            _BROKER_STATES,
        ),
        ("ID  HOST  PORT  RACK  MEMBERSHIP  IS-ALIVE\n0  10.0.0.1  33145  a  active  true\n", ["live: 0@a"]),
        (  # another order, a partition of Redpanda's own
            "TOPIC  PARTITION  REPLICA-CORE  LEADER-ID  NAMESPACE\nt      3          [1-0 2-1]     -          kafka\n"
            "tx     0          [1-0]         1          kafka_internal\n",
            ["t-3 leader -1 replicas 1,2 isr"],
        ),
        (  # --format json, or /v1/cluster/partitions of the admin API
            '[{"ns":"kafka","topic":"t","partition_id":0,"leader_id":1,"replicas":[{"node_id":1,"core":0},{"node_id":2,'
            '"core":1}],"disabled":true},{"ns":"redpanda","topic":"controller","partition_id":0,"leader_id":1,'
            '"replicas":[{"node_id":1,"core":0}]}]',
            [
                "t-0 leader 1 replicas 1,2 isr 1,2 inferred",
                "warning: line 1: t-0 is disabled: its clients are rejected",
            ],
        ),
        (
            "$ rpk cluster partitions list --all --node-ids 1,2\nNAMESPACE  TOPIC  PARTITION  LEADER-ID  REPLICA-CORE\n"
            "kafka      t      0          1          1-0, 2-0\n",
            [
                "t-0 leader 1 replicas 1,2 isr 1,2 inferred",
                "warning: line 1: --node-ids shows only some partitions: run it without",
            ],
        ),
    ],
)
def test_tables_of_rpk_are_read_by_their_columns(tmp_path: Path, text: str, expected: Sequence[str]) -> None:
    (tmp_path / "paste.txt").write_text(text, encoding="utf-8", newline="")
    lines = list(describe(tmp_path / "paste.txt"))
    assert [line for line in expected if line not in lines] == []
    assert not [line for line in lines if "quarantined" in line or line.startswith("controller")]


def test_a_row_that_is_not_below_its_columns_is_quarantined(tmp_path: Path) -> None:
    text = "ID  HOST      PORT   RACK  MEMBERSHIP  IS-ALIVE\n0  10.0.0.1  33145  active  true\n"
    (tmp_path / "paste.txt").write_text(text)
    assert any("has 5 cells below 6 columns" in line for line in describe(tmp_path / "paste.txt"))


def test_redpanda_console_shows_sizes(tmp_path: Path) -> None:
    logs = '[{"error":"","brokerId":1,"partitionId":0,"size":1000},{"error":"x","brokerId":2,"partitionId":0,"size":0}]'
    partition = f'"replicas":[1,2],"inSyncReplicas":[1,2],"leader":1,"waterMarkHigh":9,"partitionLogDirs":{logs}'
    (tmp_path / "paste.json").write_text(f'{{"topics":[{{"topicName":"t","partitions":[{{"id":0,{partition}}}]}}]}}')
    (row,) = load_snapshot(Source("paste", (tmp_path / "paste.json",))).partitions.to_pylist()
    assert row["size_bytes"] == 1000


_PYTHON = """{}
  partition 0: leader=1 replicas=[1, 2, 3] isrs=[1, 2]
  partition 1, leader: 2, replicas: (2, 3), isr: (2, 3)
"""
_JAVA = "h1:9092 (id: 1 rack: null), h2:9092 (id: 2 rack: null)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(
            (_PYTHON.format(line), ["t-0 leader 1 replicas 1,2,3 isr 1,2", "t-1 leader 2 replicas 2,3 isr 2,3"])
            for line in (
                *("t has 2 partition(s):", "Topic t: 2 partitions", "Topic: t with 2 partition(s)"),
                *('  "t" with 2 partition(s)', "topic 't' with 2 partitions:"),
            )
        ),
        (
            f"TopicDescription(name=t, internal=false, partitions=[(partition=0, leader=h2:9092 (id: 2 rack: null), "
            f"replicas=[{_JAVA}], isr=[h2:9092 (id: 2 rack: null)])])\n",
            ["t-0 leader 2 replicas 1,2 isr 2", "live: 2", "unknown: 1"],
        ),
    ],
)
def test_what_programs_print_of_clients_is_read(tmp_path: Path, text: str, expected: Sequence[str]) -> None:
    (tmp_path / "paste.txt").write_text(text)
    lines = list(describe(tmp_path / "paste.txt"))
    assert [line for line in expected if line not in lines] == []
    assert not [line for line in lines if "quarantined" in line]


_REASSIGNMENT = (
    '{"version":1,"partitions":[{"topic":"tolls","partition":0,"replicas":[11,12,13],"log_dirs":["any","any","any"]},'
    '{"topic":"tolls","partition":1,"replicas":[12,13,11],"log_dirs":["any","any","any"]}]}'
)


@pytest.mark.parametrize("width", [*range(40, 58), 80, 1_000])
@pytest.mark.parametrize("mark", ["", "> ", "  "])
def test_a_wrapped_reassignment_is_read_at_any_width(tmp_path: Path, width: int, mark: str) -> None:
    pieces = [_REASSIGNMENT[i : i + width] for i in range(0, len(_REASSIGNMENT), width)]
    text = "".join(f"{mark}{piece}\n" for piece in pieces)
    (tmp_path / "paste.txt").write_text(
        f"Current partition replica assignment\n{text}\nend of the mail 5 | 6 | 7 | 8 \n"
    )
    lines = list(describe(tmp_path / "paste.txt"))
    assert [line.partition(" isr")[0] for line in lines[:2]] == [
        "tolls-0 leader 11 replicas 11,12,13",
        "tolls-1 leader 12 replicas 12,13,11",
    ]
    last = len(pieces) + 3  # lines below keep their numbers
    assert [line.partition(": unparsable")[0] for line in lines[3:]] == [f"quarantined: line {last}"]


def test_a_pretty_reassignment_keeps_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "paste.json"
    path.write_text(json.dumps(json.loads(_REASSIGNMENT), indent=1).replace("12,", "-12,"))
    assert any("quarantined: line" in line for line in describe(path))
