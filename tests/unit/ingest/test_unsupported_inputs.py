"""What is recognised but not used is named, with the command to run instead; data beside it is read."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import check_source, list_problems, load_snapshot, read_files
from pipelines.ingest.sources import Source, find_source
from pipelines.ingest.table_rows import find_table
from pipelines.ingest.text import MAX_FILE_BYTES
from pipelines.ingest.unreadable_files import explain_unused_text

from .facts import BAD_DIR, FORMATS_DIR
from .test_sections import DESCRIBE, load, replicas

TOOLS = sorted(p.name for p in BAD_DIR.glob("unsupported-*") if p.stem not in ("unsupported-names",))


def fail(tmp_path: Path, content: str | bytes, name: str = "x.txt") -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(SourceError) as error:
        list(read_files(Source("x", (path,))))
    with pytest.raises(SourceError) as checked:
        check_source(Source("x", (path,)), None, MAX_FILE_BYTES)
    assert str(checked.value) == str(error.value)
    return str(error.value).replace(str(path), name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2\n3\n", "is perhaps a list of brokers without a header"),
        ("1,2,3\n", "is perhaps a list of brokers without a header"),
        ("Completed updating config for topic orders.\n", "is output of kafka-configs"),
        ("Topic orders is marked for deletion.\n", "is messages of kafka-topics"),
        ("Formatting metadata directory /d with metadata.version 4.1.\n", "is output of kafka-storage"),
        ("Cluster ID: 5L6g3nShT-eMCtK--X86sw\n", "is output of kafka-cluster"),
        ("bootstrap.servers=b:9092\ngroup.id=g\n", "is the configuration of a client"),
        ('resource "kafka_topic" "a" {\n}\n', "is a file of Terraform or docker compose"),
        ("services:\n  kafka:\n", "is a file of Terraform or docker compose"),
        ("[2026-05-06 07:08:09,123] INFO [Controller id=1] started (kafka)\n", "is a log of a broker or a client"),
        ("<!DOCTYPE html>\n<html><body>hi</body></html>\n", "is a page of HTML"),
        ("bash: kafka-topics: command not found\n", "failed: the shell did not find it"),
        ('Error from server (NotFound): pods "k" not found\n', "failed: this is its error"),
        (
            'Exception in thread "main" java.lang.NoClassDefFoundError: x\n\tat a.B.c(D.java)\n',
            "failed: this is its error",
        ),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: no\n", "failed: it was not authorized"),
        ("TOPIC  PARTITION REPLICA ISLEADER ISINISR\na 0 1 true true\n", "is output of kafka-replica-status"),
        ("topic,partition,leader,replicas,isr\na,0,1,1,1\n", "line 1: is a table of partitions of another tool"),
        ("topic\tpartition\tleader\treplica1\tisr\na\t0\t1\t1\t1 2 3\n", "is a table of partitions of another tool"),
        (
            "[2024-01-01 10:00:00]  INFO x\n  ID  | LEADER |  ISR  | REPLICAS | DISTINCT RACKS\n",
            "is a table of topicctl",
        ),
        ("Partition  High Watermark  Leader  Replicas  ISR\n1  10  -1  [2]  []\n", "is a table of kaf"),
        ("  oldestOffset: 0\n  Leader: b1:9092\n", "is output of kafkactl"),
        ("Topic: a^IPartitionCount: 2^I$\n", "is output of cat -A"),
        ("Topic     : a\nPartition : 0\n", "is a list of PowerShell"),
        ("{\\rtf1\\ansi Topic: a}\n", "is RTF, which this program does not read"),
        (
            "[2023-05-04 10:00:01,140] ERROR [Controller id=2] failed (state.change.logger)\n"
            "kafka.common.StateChangeFailedException: x\n\tat kafka.controller.X.y(X.scala)\n",
            "line 1: is a log of a broker or a client",
        ),
        ("id,hostname,availability zone,state\n1,k1,a,up\n", "Name the column of their numbers broker_id"),
        ("1,eu-1a\n2,eu-1b\n", "Add the line broker_id,rack at its top"),
        ('{"kind":"kafka-placement plan","version":1}', "is a plan of this program, which is no source"),
        ("no topics exist!\n", "line 1: the command that wrote it failed: it found no topic"),
        ("topic a doesn't exist!\n", "line 1: the command that wrote it failed: it found no topic"),
        ("list topic failed because of x\n", "line 1: the command that wrote it failed: this is its error"),
        ('{\n "items": [\n  {\n   "kind": "KafkaTopic"\n  }\n ]\n}\n', "is a KafkaTopic resource as JSON"),
        ('{"connector.class":"x","topics":"a"}', "is the configuration of a connector"),
    ],
)
def test_a_file_is_named_with_a_remedy(tmp_path: Path, text: str, message: str) -> None:
    error = fail(tmp_path, text)
    assert message in error
    assert error.endswith(".")


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "cleaner"])
def test_other_checkpoints_are_known_by_name(tmp_path: Path, name: str) -> None:
    text = (FORMATS_DIR / "replication-offset-checkpoint.broker-3").read_text()
    assert "Use replication-offset-checkpoint" in fail(tmp_path, text, f"{name}-offset-checkpoint")
    (tmp_path / "describe.txt").write_text(DESCRIBE)
    files = list(read_files(find_source(str(tmp_path))))
    assert [file.format_names for file in files if file.name.startswith(name)] == [["unsupported"]]


def test_binary_files_are_named(tmp_path: Path) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("describe.txt"))
    assert "is a tar archive. Extract it" in fail(tmp_path, gzip.compress(archive.getvalue()), "x.tar.gz")
    assert "is a zip archive" in fail(tmp_path, b"PK\x03\x04\0\0")
    assert "is a spreadsheet. Save its sheet as tab-separated text if it has the lines of kafka-topics" in fail(
        tmp_path, b"PK\x03\x04\0\0", "brokers.xlsx"
    )
    assert "is a Parquet file" in fail(tmp_path, b"PAR1\0\0")
    assert "is an image" in fail(tmp_path, b"\x89PNG\r\n\x1a\n\0")
    assert "Kafka's own .log files" in fail(tmp_path, b"\0" * 80, "00000000000000000000.log")
    assert "is binary, not text: line 1 has a NUL byte" in fail(tmp_path, b"\0" * 80, "x.dat")
    half = DESCRIBE.encode() + "Topic: a\tPartition: 0\n".encode("utf-16-le")
    assert "is partly UTF-16" in fail(tmp_path, half)


@pytest.mark.parametrize("name", TOOLS)
def test_data_beside_it_is_read_and_nothing_is_prose(tmp_path: Path, name: str) -> None:
    text = (BAD_DIR / name).read_text()
    for whole in (text + "\n" + DESCRIBE, DESCRIBE + "\n" + text):
        assert replicas(load(tmp_path, whole)) == {0: [3, 2], 1: [2, 3]}


def test_its_lines_are_ignored_under_its_name(tmp_path: Path) -> None:
    text = (BAD_DIR / "unsupported-consumer-groups.txt").read_text()
    outcomes = load(tmp_path, text + "\n" + DESCRIBE).outcomes.to_pylist()
    ignored = {row["reason"]: row["records"] for row in outcomes if row["outcome"] == "ignored"}
    assert ignored == {"output of kafka-consumer-groups: not used": 3, "blank line": 2}


def test_a_damaged_line_of_a_describe_below_it_is_quarantined(tmp_path: Path) -> None:
    text = (BAD_DIR / "unsupported-acls.txt").read_text()
    snapshot = load(tmp_path, f"{DESCRIBE}{text}\tTopic: orders\tPartition: 2\tLeader: 1\tRepl\n")
    assert len(snapshot.quarantined) == 1


def test_unused_files_of_a_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "describe.txt").write_text(DESCRIBE)
    (tmp_path / "groups.txt").write_text((BAD_DIR / "unsupported-consumer-groups.txt").read_text())
    (tmp_path / "notes.txt").write_text("call me\n")
    (tmp_path / "empty.txt").write_text("")
    files = list(read_files(find_source(str(tmp_path))))
    assert [Path(error.path).name for error in list_problems(files)] == ["empty.txt", "groups.txt", "notes.txt"]


def test_a_file_that_is_one_long_line_is_named(tmp_path: Path) -> None:
    message = fail(tmp_path, "Topic: t Partition: 0 Leader: 1 Replicas: 1 Isr: 1 " * 20_000)
    assert "x.txt, line 1: the line has more than 1,000,000 characters" in message


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("Partition  High Watermark  Leader  Replicas  ISR", ["0  10  1  [1 2 3]  [1]", "1  10  -1  [2]  []"]),
        ("| Topic | Partition | Leader | Replicas | ISR |\n|---|---|---|---|---|", ["| orders | 0 | none | 3 | |"]),
        ("||Topic||Partition||Leader||Replicas||ISR||", ["|orders|0|none|2|2|"]),
        ("topic,partition,leader,replicas,isr", ['orders,0,1,"1,2","1,2"', "orders,1,-1,3,3"]),
        ("PARTITION   OLDEST_OFFSET   NEWEST_OFFSET   LEADER   REPLICAS   IN_SYNC_REPLICAS", ["1  0  7  none  2,3"]),
    ],
)
def test_rows_below_the_header_of_an_unread_table_are_quarantined(tmp_path: Path, header: str, rows: list[str]) -> None:
    snapshot = load(tmp_path, "\n".join([header, *rows, "", DESCRIBE, header, *rows, DESCRIBE]))
    assert replicas(snapshot) == {0: [3, 2], 1: [2, 3]}
    assert [row["raw"] for row in snapshot.quarantined] == rows * 2
    assert all("which this program does not read" in row["reasons"][0] for row in snapshot.quarantined)


@pytest.mark.parametrize(
    "line",
    [
        "Topic orders partition 0 has no leader, only replica is on 3",
        "We compared topic, partition, leader, and what else the replicas and the isr show, then",
        *DESCRIBE.splitlines(),
    ],
)
def test_other_lines_are_no_header_of_a_table(line: str) -> None:
    assert find_table(line) is None


def test_what_is_not_read_of_partitions_is_a_warning(tmp_path: Path) -> None:
    cruise_control = "kafka-0, 0, az-a, 500000.000, 12000.123/02.40, 8, 3.120, 100000.000, 210.111\n"
    (row,) = load(tmp_path, f"{DESCRIBE}\n{cruise_control}").warnings.to_pylist()
    assert row["warning"].startswith(
        "this program does not read load of Cruise Control: get kafka_cluster_state?verbose=true"
    )


@pytest.mark.parametrize(
    "text",
    [
        'kafka_topic_partition_leader{partition="2",topic="orders"} -1\n',
        "Name: orders\nPartitions:\n- ID: 0\n  OldestOffset: 0\n  ISRs:\n  - 1\n",
    ],
)
def test_states_of_partitions_that_are_not_read_are_a_warning(tmp_path: Path, text: str) -> None:
    (row,) = load(tmp_path, f"{DESCRIBE}\n{text}").warnings.to_pylist()
    assert row["warning"].startswith("this program does not read ")


PROSE = ("We ran it at 10:05 after broker 2 failed.", "Please check the leaders below.", "Done.", "$ date")


@pytest.mark.parametrize("line", PROSE)
def test_text_below_a_table_is_none_of_its_rows(tmp_path: Path, line: str) -> None:
    header = "PARTITION   OLDEST_OFFSET   NEWEST_OFFSET   LEADER   REPLICAS   IN_SYNC_REPLICAS"
    rows = ["0  0  7  b1:9092  2,3  2,3", "1  0  7  none  2,3"]
    snapshot = load(tmp_path, "\n".join([DESCRIBE, header, rows[0], line, rows[1], line]))
    assert [row["raw"] for row in snapshot.quarantined] == rows


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('Defaulted container "kafka" out of: kafka, tls-sidecar (init)', "tool message"),
        ("OpenJDK 64-Bit Server VM warning: Option UseConcMarkSweepGC was deprecated in version 9.0", "log line"),
    ],
)
def test_messages_amid_it_keep_their_reason(tmp_path: Path, line: str, reason: str) -> None:
    text = "apiVersion: v1\nkind: List\nitems: []\n"
    outcomes = load(tmp_path, f"{text}{line}\n{DESCRIBE}").outcomes.to_pylist()
    assert {row["reason"]: row["records"] for row in outcomes if row["outcome"] == "ignored"} == {
        "a Kubernetes resource: not used": 3,
        reason: 1,
    }


def test_all_lines_of_a_document_have_its_name(tmp_path: Path) -> None:
    text = '{\n "items": [\n\n  {\n   "kind": "KafkaTopic"\n  }\n ]\n}\n'
    snapshot = load(tmp_path, text + DESCRIBE)
    (row,) = snapshot.warnings.to_pylist()
    assert row["warning"].startswith("this program does not read a KafkaTopic resource as JSON: save it as YAML")
    assert {row["reason"] for row in snapshot.outcomes.to_pylist() if row["outcome"] == "ignored"} == {
        "a KafkaTopic resource as JSON: not used",
        "blank line",
    }


@pytest.mark.parametrize(
    "line",
    [
        "{Topic:orders ID:0 Leader:{Host:b1 Port:9092 ID:1 Rack:} Replicas:[{Host:b1 Port:9092 ID:1 Rack:}] Isr:[]}",
        "[{Topic:orders ID:0 Leader:{Host:b1 Port:9092 ID:1 Rack:} Replicas:[] Isr:[]}]",
        "&{Version:5 ID:0 Leader:1 LeaderEpoch:0 Replicas:[1 2] Isr:[1 2] OfflineReplicas:[]}",
        "partition: {Topic:orders ID:0 Leader:{ID:1} Replicas:[{ID:1}] Isr:[{ID:1}] Error:<nil>}",
    ],
)
def test_structs_of_go_are_named(tmp_path: Path, line: str) -> None:
    (row,) = load(tmp_path, f"{DESCRIBE}\n{line}\n").quarantined
    assert (
        "a struct of a Go program, which this program does not read: use kafka-topics --describe" in row["reasons"][0]
    )


def test_a_checkpoint_of_a_broker_that_no_cluster_can_have_is_explained(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    file = tmp_path / "files" / f"replication-offset-checkpoint.broker-{'9' * 30}"
    file.write_text("0\n1\norders 0 1\n")
    with pytest.raises(SourceError, match="does not show which broker"):
        load_snapshot(Source("c", (file,)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```\nfoo bar baz\n```\n", "it begins with 'foo bar baz'"),
        ("{code:title=x}\n<pre>\n...\nfoo bar baz\n</pre>\n{code}\n", "it begins with 'foo bar baz'"),
        ("```\n1\n2\n```\n", "is perhaps a list of brokers without a header"),
        ("```\nhost,az\nb1,a\n```\n", "is perhaps a list of brokers, but with columns that are not read: 'host,az'"),
        ("```\norders\naudit\n```\n", "is a list of names, as of kafka-topics --list"),
        ("```\n$ kafka-topics --describe\n```\n", "the command printed nothing"),
        ("```\n```\n", "it has no text but marks"),
    ],
)
def test_marks_around_a_paste_are_none_of_it(text: str, problem: str) -> None:
    assert problem in str(explain_unused_text(text, "x"))
