"""rpk, kafka-broker-api-versions, kafka-reassign-partitions --list, Java's descriptions, Cruise Control's text."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ingest.sections import read_sections
from pipelines.ingest.snapshot_reader import FORMATS, divide_text
from pipelines.ingest.source_format import FactKind

from .facts import FORMATS_DIR, check_facts, drop_kind, facts, faults, find_formats, reasons
from .test_sections import DESCRIBE, load

NAMES = ("rpk", "broker-api-versions", "reassignment-list", "java-description", "cruise-control", "unsupported")
SAMPLES = sorted(p.name for start in NAMES for p in FORMATS_DIR.glob(f"{start}*"))


def partitions(name: str) -> list[tuple[object, ...]]:
    names = ("topic", "partition", "leader", "replicas", "isr")
    return [tuple(row.get(key) for key in names) for row in facts(name, FactKind.PARTITION)]


def test_rpk_describes_topics_without_isr() -> None:
    assert partitions("rpk-topic.txt") == [
        ("orders", 0, 1, [1, 2, 3], None),
        ("orders", 1, -1, [1, 2, 3], None),
        ("audit", 0, 3, [3], None),  # named by its command
    ]
    configs = {key: value for row in facts("rpk-topic.txt", FactKind.CONFIG) for key, value in row["configs"]}
    assert configs == {"cleanup.policy": "delete", "min.insync.replicas": "2", "retention.bytes": ""}
    assert [row["log_end_offset"] for row in facts("rpk-topic.txt", FactKind.OFFSET)] == [17, 5]
    assert any("the first is not the preferred leader" in reason for reason in reasons("rpk-topic.txt"))


def test_rpk_without_the_name_of_the_topic_is_rejected_with_the_remedy() -> None:
    found = faults("rpk-topic-no-name.txt", FORMATS_DIR)
    assert "run rpk topic describe --print-all TOPIC" in found[2]
    assert "cut off?" in found[3]


def test_rpk_lists_brokers_with_racks() -> None:
    rows = drop_kind(facts("rpk-cluster.txt", FactKind.BROKER))
    assert [(row["broker_id"], row.get("rack")) for row in rows] == [(0, "east"), (1, "west"), (2, None)]
    assert partitions("rpk-cluster.txt") == [("orders", 0, 1, [0, 1, 2], None), ("orders", 1, 2, [0, 1, 2], None)]


def test_a_second_table_of_partitions_is_not_of_the_first_topic() -> None:
    text = (FORMATS_DIR / "rpk-topic.txt").read_text().replace("$ rpk topic describe -p audit\n", "")
    records = FORMATS["rpk"].read_records(text, "x")
    rows = FORMATS["rpk"].parse_facts(records).to_pylist()
    assert [row["partition"] for row in rows if row["topic"] == "audit"] == []
    assert any("partition 0 of which topic?" in (row["reasons"] or [""])[0] for row in rows)


def test_api_versions_give_the_racks_that_a_describe_lacks(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rows = facts("broker-api-versions.txt", FactKind.BROKER)
    assert [
        (row["broker_id"], row.get("rack"), row.get("fenced"), row["registered"]) for row in rows if "registered" in row
    ] == [
        (1, "east", None, True),
        (2, None, False, True),
        (3, "rack 7", None, False),  # ERROR
    ]
    assert reasons("broker-api-versions.txt")["API version"] == 5
    assert [row["broker_id"] for row in rows if row.get("release_before") == 307] == [1, 2]
    versions = (FORMATS_DIR / "broker-api-versions.txt").read_text()
    brokers = load(tmp_path, versions.rsplit("b4", 1)[0] + DESCRIBE).brokers.to_pylist()
    assert {row["broker_id"]: row["rack"] for row in brokers} == {1: "east", 2: None, 3: "rack 7"}


def test_a_broker_that_does_not_answer_is_a_warning(tmp_path) -> None:  # type: ignore[no-untyped-def]
    asked = "b2:9092 (id: 2 rack: null) -> (\n)\nb3:9092 (id: 3 rack: null) -> ERROR: "
    text = "broker 3 (b3:9092) did not answer kafka-broker-api-versions{}: it may be down, or not reachable from there"
    for error, name in (("org.apache.kafka.common.errors.DisconnectException", " (DisconnectException)"), ("?", "")):
        snapshot = load(tmp_path, f"{asked}{error}\n{DESCRIBE}")
        assert snapshot.warnings["warning"].to_pylist() == [text.format(name)]
        assert {row["broker_id"]: row["live"] for row in snapshot.brokers.to_pylist()} == {2: True, 3: None}


def test_running_reassignments() -> None:
    rows = drop_kind(facts("reassignment-list.txt", FactKind.PARTITION))
    assert rows == [
        {
            "topic": "my-topic",
            "partition": 0,
            "replicas": [4, 1, 2, 3],
            "adding_replicas": [4],
            "removing_replicas": [3],
            "warning": "reassignments of 2 partitions are running, as of my-topic-0: their replicas change",
        },
        {"topic": "my-topic", "partition": 1, "replicas": [2, 3, 1], "adding_replicas": [], "removing_replicas": [1]},
    ]
    assert "cut off?" in faults("reassignment-list.txt", FORMATS_DIR)[4]


def test_a_list_of_reassignments_overrides_the_assignment_before(tmp_path) -> None:  # type: ignore[no-untyped-def]
    before = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'
    after = "Current partition reassignments:\norders-0: replicas: 3,1,2. adding: 3.\n"
    text = f"Current partition replica assignment\n\n{before}\n\n{after}"
    (row,) = load(tmp_path, text).partitions.to_pylist()
    assert row["replicas"] == [3, 1, 2]


def test_java_descriptions() -> None:
    assert partitions("java-description.txt") == [
        ("orders", 0, 1, [1, 2], [1]),
        ("orders", 1, -1, [3], []),
        ("audit", 0, 2, [2], [2]),
        ("clicks", 0, 1, [1, 2], [1, 2]),
        ("clicks", 1, -1, [3], [3]),
    ]
    brokers = facts("java-description.txt", FactKind.BROKER)
    assert {row["broker_id"]: (row.get("rack"), row.get("reported_live")) for row in brokers} == {
        1: ("east", None),
        2: (None, None),
        3: (None, False),  # without host and port
    }
    (elr,) = [row["elr"] for row in facts("java-description.txt", FactKind.PARTITION) if "elr" in row]
    assert elr == [3]
    assert "cut off?" in faults("java-description.txt", FORMATS_DIR)[3]


def test_a_partition_after_the_end_of_a_description_has_no_topic() -> None:
    whole = "(partition=1, leader=none, replicas=b:1 (id: 1 rack: null), isr=)"
    text = (
        f"(name=orders, internal=false, partitions={whole.replace('=1,', '=0,')}, authorizedOperations=null)\n{whole}\n"
    )
    records = FORMATS["java-description"].read_records(text, "x")
    rows = FORMATS["java-description"].parse_facts(records).to_pylist()
    assert [row["partition"] for row in rows if row["kind"] == FactKind.PARTITION] == [0]
    assert any("the topic is unknown" in (row["reasons"] or [""])[0] for row in rows)


def test_the_table_of_cruise_control() -> None:
    assert partitions("cruise-control.txt") == [
        ("clicks", 0, -1, [3], []),
        ("orders", 1, 2, [2, 3], [2]),
        ("orders", 0, 1, [1, 2], [1, 2]),
    ]
    assert [row["offline_replicas"] for row in facts("cruise-control.txt", FactKind.PARTITION)] == [[3], [3], []]
    assert "cut off?" in faults("cruise-control.txt", FORMATS_DIR)[17]


CRUISE_CONTROL = """Summary: The cluster has 4 brokers, 320 replicas, {leaders} leaders, and 9 topics with avg 2.00.

Brokers:
     BROKER    LEADER(S)     REPLICAS  OUT-OF-SYNC      OFFLINE  IS_CONTROLLER
          0           40           80            0            0           true
          1           40           80            2            0          false
          5            0           40           40           40          false
          7            0           10           10            0          false
          8            0            0            0            0          false

LogDirs of brokers with replicas:
     BROKER      ONLINE-LOGDIRS  OFFLINE-LOGDIRS
          7       [broker_dead]    [broker_dead]
          9                [/d]               []

Under Replicated, Offline, and Under MinIsr Partitions:
      TOPIC PARTITION    LEADER     REPLICAS     IN-SYNC     OUT-OF-SYNC     OFFLINE
Under Replicated Partitions:
     orders         0         0       [0, 1]         [0]             [1]          []
        747         0         1       [1, 0]         [1]             [0]          []
"""


def test_cruise_control_shows_brokers_beside_its_partitions(tmp_path: Path) -> None:
    snapshot = load(tmp_path, CRUISE_CONTROL.format(leaders=160))
    brokers = snapshot.brokers.to_pylist()
    live = {row["broker_id"]: (row["live"], row["controller"]) for row in brokers}
    assert live == {
        0: (True, True),
        1: (True, False),
        5: (False, False),
        7: (False, False),
        8: (True, False),
        9: (True, False),
    }
    assert {row["topic"] for row in snapshot.partitions.to_pylist()} == {"orders", "747"}
    (warning,) = [row["warning"] for row in snapshot.warnings.to_pylist()]
    assert warning == (
        "kafka_cluster_state shows 2 of 160 partitions that have a leader: get kafka_cluster_state?verbose=true"
    )


def test_offline_log_directories_are_warned_of(tmp_path: Path) -> None:
    text = CRUISE_CONTROL.format(leaders=2).replace(
        "          9                [/d]               []\n",
        "          0                [/d]             [/e]\n          9                [/d]         [/f, /g]\n",
    )
    snapshot = load(tmp_path, text)
    assert [row["warning"] for row in snapshot.warnings.to_pylist()] == [
        'a log directory is offline, with all replicas there: "/e" of broker 0',
        'log directories are offline, with all replicas there: "/f" of broker 9, "/g" of broker 9',
    ]
    assert {row["broker_id"] for row in snapshot.brokers.to_pylist() if row["live"]} == {0, 1, 8, 9}


def test_cruise_control_that_shows_every_partition_gives_no_warning(tmp_path: Path) -> None:
    assert load(tmp_path, CRUISE_CONTROL.format(leaders=2)).warnings.num_rows == 0


def test_cruise_control_without_its_summary_shows_only_problems(tmp_path: Path) -> None:
    text = CRUISE_CONTROL.partition("Brokers:")[2]
    (row,) = load(tmp_path, f"Brokers:{text}").warnings.to_pylist()
    assert row["warning"].startswith("kafka_cluster_state shows only the partitions with problems")


def test_rows_of_numbers_without_a_header_are_no_partitions() -> None:
    """As `kaf topic describe` prints them: partition, high watermark, leader, replicas, ISR."""
    rows = ["1          10              -1      [2]       []", "3 90 2 [2] [2]"]
    assert not any(FORMATS["cruise-control"].signature.line(row) for row in rows)
    records = FORMATS["cruise-control"].read_records("\n".join(rows), "x")
    facts = FORMATS["cruise-control"].parse_facts(records).to_pylist()
    assert [fact["kind"] for fact in facts] == [FactKind.REJECTED] * 2
    assert "of which topic?" in facts[0]["reasons"][0]


HEALTH = """CLUSTER HEALTH OVERVIEW
=======================
Healthy:                          false
Unhealthy reasons:                [leaderless_partitions nodes_down]
Controller ID:                    0
All nodes:                        [0 1 2]
Nodes down:                       [2]
Nodes in recovery mode:           []
Leaderless partitions (2):        [kafka/money/0 redpanda/controller/0]
Under-replicated partitions (1):  [kafka/orders/1]
"""


def test_rpk_cluster_health_shows_brokers_and_leaderless_partitions(tmp_path: Path) -> None:
    snapshot = load(tmp_path, HEALTH)
    brokers = {row["broker_id"]: (row["live"], row["controller"]) for row in snapshot.brokers.to_pylist()}
    assert brokers == {0: (True, True), 1: (True, False), 2: (False, False)}
    (row,) = snapshot.partitions.to_pylist()
    assert (row["topic"], row["partition"], row["leader"], row["replicas"]) == ("money", 0, -1, None)
    assert [row["warning"] for row in snapshot.warnings.to_pylist()] == [
        "2 partitions (money-0) have no leader: rpk topic describe --print-all TOPIC shows their replicas",
        "1 partition (orders-1) is under-replicated: rpk does not show which replicas are in sync",
    ]


def test_a_healthy_cluster_of_rpk_gives_no_warning(tmp_path: Path) -> None:
    text = "Healthy:  true\nAll nodes:  [0 1]\nNodes down:  []\nLeaderless partitions (0):  []\n"
    snapshot = load(tmp_path, text + "Under-replicated partitions (0):  []\n")
    assert [row["live"] for row in snapshot.brokers.to_pylist()] == [True, True]
    assert snapshot.warnings.num_rows == 0


@pytest.mark.parametrize("line", ["Nodes down:  [2", "Nodes down:  [b]", "Leaderless partitions (1):  [kafka/a b/0]"])
def test_a_damaged_line_of_rpk_cluster_health_is_rejected(line: str) -> None:
    (fact,) = FORMATS["rpk"].parse_facts(FORMATS["rpk"].read_records(line, "x")).to_pylist()
    assert fact["kind"] == FactKind.REJECTED


STATES = """ID  HOST  PORT   RACK  CORES  MEMBERSHIP  IS-ALIVE  VERSION  UUID
0*  b0    33145  a     4      active      true      24.3.1   u0
1   b1    33145        4      active      true      24.3.1   u1
2   b2    33145  b     4      draining    false              u2
7   -     -      -     -      -           -         -        u7
"""


@pytest.mark.parametrize("prefix", ["", "> "])
def test_brokers_of_rpk_have_states_and_racks_also_beside_empty_cells(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in STATES.splitlines())
    rows = FORMATS["rpk"].parse_facts(FORMATS["rpk"].read_records(text, "x")).to_pylist()
    brokers = [row for row in rows if row["kind"] == FactKind.BROKER]
    assert [tuple(row[name] for name in ("broker_id", "rack", "reported_live", "draining")) for row in brokers] == [
        (0, "a", True, None),
        (1, None, True, None),
        (2, "b", False, True),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("0  1  [1 2]  120", "has 4 cells below 5 columns (cut off?): paste the whole table with its header"),
        ("0  1  [1 2]  [1", "has 4 cells below 5 columns"),
        ("0  1  [1 2]  120  130", "lacks a list of brokers"),
    ],
)
def test_a_row_of_rpk_without_a_column_of_its_header_is_rejected(row: str, reason: str) -> None:
    text = f"$ rpk topic describe t\nPartition  Leader  Replicas  In-Sync Replicas  High Watermark\n{row}\n"
    rows = FORMATS["rpk"].parse_facts(FORMATS["rpk"].read_records(text, "x")).to_pylist()
    assert reason in rows[-1]["reasons"][0]


def test_a_disabled_partition_and_an_error_of_rpk_are_warnings(tmp_path: Path) -> None:
    text = (
        "NAMESPACE  TOPIC  PARTITION  LEADER-ID  REPLICA-CORE  DISABLED\n"
        "kafka      t      0          -          1-0, 2-1      true\n"
        "redpanda   controller  0     1          1-0           false\n"
    )
    snapshot = load(tmp_path, text)
    (row,) = snapshot.partitions.to_pylist()
    assert (row["topic"], row["leader"], row["replicas"]) == ("t", -1, [1, 2])
    assert [row["warning"] for row in snapshot.warnings.to_pylist()] == ["t-0 is disabled: its clients are rejected"]
    row = "0  1  4  [1 2]  []  NOT_LEADER_FOR_PARTITION  0  17"
    text = f"$ rpk topic describe t\nPARTITION  LEADER  EPOCH  REPLICAS  OFFLINE-REPLICAS  LOAD-ERROR  X  Y\n{row}\n"
    facts = FORMATS["rpk"].parse_facts(FORMATS["rpk"].read_records(text, "x")).to_pylist()
    assert "rpk reports an error of t-0: NOT_LEADER_FOR_PARTITION" in [fact["warning"] for fact in facts]


def test_a_broker_that_a_java_client_knows_by_its_id_alone_is_down(tmp_path: Path) -> None:
    text = (
        "(name=t, internal=false, partitions=(partition=0, leader=b1:9092 (id: 1 rack: null), "
        "replicas=b1:9092 (id: 1 rack: null), 3:-1 (id: 3 rack: null), isr=b1:9092 (id: 1 rack: null)))\n"
    )
    snapshot = load(tmp_path, text)
    assert snapshot.quarantined == []
    assert [(row["live"], row["broker_id"]) for row in snapshot.brokers.to_pylist()] == [(True, 1), (False, 3)]


@given(st.sampled_from(SAMPLES), st.integers(0, 1200), st.integers(0, 30), st.text(max_size=5))
def test_no_damage_raises_and_every_record_has_a_fact(name: str, at: int, cut: int, extra: str) -> None:
    text = (FORMATS_DIR / name).read_text()
    text = text[:at] + extra + text[at + cut :]
    for form, records in read_sections(text, "x", divide_text(text)):
        check_facts(records, form.parse_facts(records))


_REPEATED = (
    *(
        "broker 1 at ",
        "partition 1, leader 1, replicas: 1,",
        "Metadata for ",
        'topic "',
        "1 brokers:",
        "a:1 (id: 1 rack: ",
    ),
    *(
        "(partition=1, leader=",
        "name=a, internal=",
        "a:1 (id: 1 rack: b), ",
        "Partition(topic = a, partition = 1",
        "[1, ",
    ),
    *(
        "rpk topic describe ",
        "NAME  ",
        "0 1 [1 ",
        "a-1: replicas: 1,",
        "kafka_a{",
        "offset: 1 ",
        "a=b sensitive=",
        "- ",
    ),
    *(
        "'topic': ",
        "{'topic': 'a', ",
        '{"topic": "a", ',
        '"brokerCapacities"',
        '"kept": ',
        " ",
        "\t",
        "Produce(0): 0 to ",
    ),
    *("1 [broker_dead] ", "1 40 80 0 ", "The cluster has 1 brokers, 2 replicas, ", "Nodes down: [", "All nodes: [1 "),
    *('a"', "a-", "a:1", "a", "(", "=", "(id: "),
)


@pytest.mark.parametrize("text", _REPEATED)
def test_repetitions_take_linear_time(text: str) -> None:
    line = text * (100_000 // len(text))
    begin = time.monotonic()
    for before in (
        "",
        'topic "t" with 1 partitions:\n    partition 1, leader 1, replicas: 1,',
        "name=t, internal=false, ",
    ):
        whole = before + line + "\n"
        for form, records in read_sections(whole, "x", divide_text(whole)):
            form.parse_facts(records)
    for name in NAMES:
        FORMATS[name].parse_facts(FORMATS[name].read_records(line, "x"))
    assert time.monotonic() - begin < 10


def test_every_line_of_a_sample_is_claimed_by_one_reader() -> None:
    claims: dict[str, Callable[[str], bool]] = {name: FORMATS[name].signature.line for name in NAMES}
    for sample in SAMPLES:
        for line in (FORMATS_DIR / sample).read_text().splitlines():
            assert sum(claim(line) for claim in claims.values()) <= 1, line
    assert find_formats("0 1 1 [1 2] 0 17\n") == ["rpk"]
