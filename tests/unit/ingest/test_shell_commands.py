"""Commands and errors beside data say what the data lacks; the data is read as without them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.formats.shell_commands import Servers, are_of_two_clusters, find_failure, find_leaderless_topics
from pipelines.ingest.formats.shell_words import begins_command, is_rest
from pipelines.ingest.snapshot_reader import FORMATS, divide_text, load_snapshot, read_files
from pipelines.ingest.source_format import FactKind
from pipelines.ingest.sources import Source, find_source

from .facts import check_facts, find_formats
from .test_sections import DESCRIBE, load, replicas

ASK = "$ kafka-topics.sh --bootstrap-server b1:9092 --describe"
Warned = list[tuple[int, str | None, bool | None]]


def judge(text: str) -> Warned:
    """Return (line, warning, is_selection) of the records of commands and errors that say something."""
    form = FORMATS["shell"]
    table = check_facts(records := form.read_records(text, "x"), form.parse_facts(records))
    return [
        (row["line_number"], row["warning"], row["is_selection"])
        for row in table.to_pylist()
        if row["warning"] is not None or row["is_selection"] is not None
    ]


def name_option(command: str) -> str | None:
    """Return what the first command says that it shows only some partitions by, or None if it shows all."""
    ((_, warning, is_selection),) = judge(f"{command}\n\n")
    assert is_selection == (warning is not None)
    return warning


@pytest.mark.parametrize(
    ("command", "warning"),
    [
        (f"{ASK} --under-replicated-partitions", "--under-replicated-partitions shows only some partitions"),
        (f"{ASK} --under-replicated", "--under-replicated-partitions shows only some partitions"),
        (f"[k@b1 ~]$ bin/{ASK[2:]} --unavailable-partitions", "--unavailable-partitions shows only some partitions"),
        (
            f"{ASK} –under-min-isr-partitions",
            "--under-min-isr-partitions shows only the partitions with fewer in-sync replicas than min.insync.replicas",
        ),
        (
            r"PS C:\k> .\bin\windows\kafka-topics.bat --describe --at-min-isr-partitions > o.txt",
            "--at-min-isr-partitions shows only the partitions with just as many in-sync replicas as "
            "min.insync.replicas: run it without",
        ),
        (
            "$ bin/kafka-list-topic.sh --zookeeper z1:2181 --under-replicated-partitions",  # Kafka 0.8.0
            "--under-replicated-partitions shows only some partitions",
        ),
        (f"{ASK} --topics-with-overrides", "--topics-with-overrides shows no partitions: run it without"),
        (
            "Every 2.0s: kafka-topics.sh --bootstrap-server k1:9092 --describe --under-replicated-partitions   k1: Tue",
            "--under-replicated-partitions shows only some partitions",
        ),
        (f"{ASK} --exclude-internal", "--exclude-internal shows only some partitions: run it without"),
        (f"{ASK} --topic orders", "--topic orders shows one topic: no answer covers the others"),
        (f"{ASK} --topic 'a|b'", "--topic a|b shows only some topics: no answer covers the others"),
        ("$ kcat -b b1 -L -t orders", "-t orders shows one topic"),
        ("% kafkacat -b b1 -Lt orders -J", "-t orders shows one topic"),
        ("rpk topic describe -p audit", "rpk topic describe audit shows one topic"),
        (f"{ASK} | grep orders", "| grep orders may pass on only some lines: run the command without it"),
        (f"{ASK} 2>/dev/null | head -50", "| head -50 may pass on only some lines"),
        # Of PowerShell and cmd; with what is not known to pass on all lines, some may be missing.
        (rf"PS C:\k> {ASK[2:]} | Select -First 4", "| Select -First 4 may pass on only some lines"),
        (rf"PS C:\k> {ASK[2:]} | ? {{ $_ -match 'orders' }}", "| ? { $_ -match orders } may pass on only some lines"),
        (rf"C:\k>{ASK[2:]} | FINDSTR orders", "| FINDSTR orders may pass on only some lines"),
        (r"PS C:\k> gc d.txt -TotalCount 4", "gc d.txt -TotalCount 4 shows only some lines of the file"),
        (f"{ASK} | perl -ne 'print if /a/'", "| perl -ne print if /a/ may pass on only some lines"),
        (f"{ASK} | sed 5q", "| sed 5q may pass on only some lines"),
        (f"{ASK} | awk '{{ if ($4 == 0) print }}'", "| awk { if ($4 == 0) print } may pass on only some lines"),
        (f"{ASK} | tee all.txt | grep -v 'Isr: 1,2'", "| grep -v Isr: 1,2 may pass on only some lines"),
        (
            'kubectl exec k-0 -- bash -c "bin/kafka-topics.sh --bootstrap-server :9092 --describe --topic a"',
            "--topic a shows one topic",
        ),
        ("The output of `kafka-topics --describe --topic a`:", "--topic a shows one topic"),
        # Commands that run the tool.
        ('dsh -g brokers -- "kcat -L -t tolls"', "-t tolls shows one topic"),
        ("pssh -H b1 -i 'kafka-topics --bootstrap-server b1:1 --describe --topic a'", "--topic a shows one topic"),
        ("$ parallel kcat -b b1 -L -t {} ::: tolls", "-t {} shows only some topics"),
        ("k exec -it kafka-0 -- kcat -L -t tolls", "-t tolls shows one topic"),
        ('gcloud compute ssh b1 --command="kcat -L -t tolls"', "-t tolls shows one topic"),
        ("sudo -u kafka kcat -L -t tolls", "-t tolls shows one topic"),
        ('su - kafka -c "kcat -L -t tolls"', "-t tolls shows one topic"),
        ("ansible b1 -m shell -a 'kafka-topics --describe --under-replicated-partitions'", "--under-replicated-partit"),
        # Values of rpk's options are no topics.
        ("$ rpk topic describe tolls -p -X brokers=10.9.0.4:9092", "rpk topic describe tolls shows one topic"),
        ("$ rpk topic describe --brokers 10.9.0.4:9092 tolls", "rpk topic describe tolls shows one topic"),
        ("$ rpk -X brokers=10.9.0.4:9092 topic describe tolls", "rpk topic describe tolls shows one topic"),
        ("$ rpk cluster partitions list tolls", "rpk cluster partitions list tolls shows one topic"),
        ("$ rpk cluster partitions list --all -p 0,1", "-p shows only some partitions"),
        ("$ rpk cluster info -d tolls", "rpk cluster info tolls shows one topic"),
    ],
)
def test_a_command_that_shows_only_some_partitions_warns(command: str, warning: str) -> None:
    assert begins_command(command)
    assert (name_option(command) or "").startswith(warning)


@pytest.mark.parametrize(
    "command",
    [
        ASK,
        f"{ASK} --topic '.*'",
        f"{ASK} | tee describe.txt",
        f"{ASK} | cat",
        f"{ASK} | sort | less",
        f"{ASK} | grep -v WARN",
        f"{ASK} | grep Topic",
        f"{ASK} | tail -n +2",
        f"{ASK} | sed 's/^/  /'",
        rf"PS C:\k> {ASK[2:]} | Out-File d.txt",
        rf"PS C:\k> {ASK[2:]} | Select-String Topic",
        "$ kcat -b b1:9092 -L",
        "for t in $(cat topics); do kafka-topics --bootstrap-server b:1 --describe --topic $t; done",
        "/ # kafka-topics --bootstrap-server kafka:29092 --describe",
    ],
)
def test_a_command_that_shows_all_partitions_does_not_warn(command: str) -> None:
    assert name_option(command) is None


@pytest.mark.parametrize(
    "line",
    [
        "kafka-topics",
        "We use kafka-topics --describe --topic orders for that, and see nothing.",
        "[2024-05-06 07:08:09,123] INFO [Partition orders-0 broker=1] ISR updated to 1,2 (kafka.cluster.Partition)",
        "[zk: localhost:2181(CONNECTED) 0] get /brokers/ids/1",
        "see kafka-1234 and https://kafka.apache.org",
        DESCRIBE.splitlines()[1],
    ],
)
def test_other_lines_are_no_commands(line: str) -> None:
    assert not begins_command(line)
    assert not is_rest(line)
    assert find_failure(line) is None


@pytest.mark.parametrize("command", ["kafka-topics --list", "kafka-configs --topic a"])
def test_commands_that_list_no_partitions_say_nothing(command: str) -> None:
    assert judge(f"$ {command}\n\n") == []


@pytest.mark.parametrize("end", [" \\", " ^", " `", ""])
def test_a_command_on_several_lines_is_one(end: str) -> None:
    text = f"$ bin/kafka-topics.sh --bootstrap-server b1:9092{end}\n    --describe{end}\n    --topic orders\n{DESCRIBE}"
    assert judge(text)[0] == (1, "--topic orders shows one topic: no answer covers the others", True)
    assert find_formats(text) == ["describe"]
    assert [section.format.name for section in divide_text(text)] == ["shell", "describe"]


def test_topics_are_named_once() -> None:
    text = "".join(f"{ASK} --topic t{i}\n\n" for i in range(7))
    warnings = judge(text)
    assert [is_selection for *_, is_selection in warnings] == [True] * 7
    expected = "the commands show only the topics t0, t1, t2, t3, t4 and 2 more: no answer covers the others"
    assert [warning for _, warning, _ in warnings] == [expected, *[None] * 6]


def test_a_filtered_command_that_printed_nothing_hides_nothing() -> None:
    assert judge(f"{ASK} --under-replicated-partitions\n{ASK}\n\n") == [(2, None, False)]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("Error while executing topic command : Timed out waiting for a node assignment. Call: x", "it timed out"),
        ("Error while executing topic command : Topic 'pay' does not exist as expected", "topic pay does not exist"),
        ("Error: Topic 'a' does not exist as expected", "topic a does not exist"),
        ("Actual: Error: Topic 'a' does not exist as expected", "topic a does not exist"),
        ("command terminated with exit code 137", "exit code 137"),
        ("% ERROR: Failed to acquire metadata: Local: Broker transport failure", "no broker answered"),
        ("Error while executing topic command : Not authorized to access topics: [a]", "it was not authorized"),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized", "it was not authorized"),
        ("[2024-01-01 10:01:00,011] ERROR java.util.concurrent.TimeoutException: x (kafka.admin.A)", "it timed out"),
        ('Exception in thread "main" java.lang.OutOfMemoryError: Java heap space', "it ran out of memory"),
        ("Killed", "it was interrupted"),
        ("Error: boom", '"boom"'),
        ("list topic failed because of Unable to connect to zookeeper server within timeout: 3", "no broker answered"),
    ],
)
def test_the_error_of_a_failed_command_warns(tmp_path: Path, error: str, reason: str) -> None:
    assert judge(f"{error}\n") == [(1, f"the command failed ({reason}): the listing may be cut", None)]
    snapshot = load(tmp_path, f"{DESCRIBE}{error}\n")
    assert replicas(snapshot) == {0: [3, 2], 1: [2, 3]}
    ignored = [row["reason"] for row in snapshot.outcomes.to_pylist() if row["outcome"] == "ignored"]
    assert ignored == ["error of a command"]


@pytest.mark.parametrize(
    "line",
    [
        "command terminated with exit code 0",
        "[2024-01-01 10:00:00,000] WARN [AdminClient clientId=a] Connection to node -1 could not be established.",
        "[2024-01-01 10:00:00,000] ERROR [ReplicaManager broker=1] Error at append (kafka.server.ReplicaManager)",
        "Error rates went up after that",
        "Connection to b1 closed.",
        "Node does not exist: /brokers/ids/7",
        'Exception in thread "main" org.apache.zookeeper.KeeperException$NoNodeException: KeeperErrorCode = NoNode',
        "bash: kafka-topics: command not found",
    ],
)
def test_other_lines_are_no_failure(line: str) -> None:
    assert not find_failure(line)


LEADERLESS = (
    "a client found a partition{} without a leader, offline or just created: check that the listing is of the same time"
)


@pytest.mark.parametrize(
    ("line", "topics"),
    [
        (
            "[2024-01-01 10:00:00,123] WARN [Consumer clientId=c] Error while fetching metadata with correlation id 2 "
            ": {orders=LEADER_NOT_AVAILABLE} (org.apache.kafka.clients.NetworkClient)",
            " of topic orders",
        ),
        ("WARN x : {a=LEADER_NOT_AVAILABLE, b=LEADER_NOT_AVAILABLE, c=INVALID_TOPIC_EXCEPTION}", " of topics a, b"),
        ("% ERROR: Topic orders error: Broker: Leader not available", " of topic orders"),
        ("org.apache.kafka.common.errors.LeaderNotAvailableException: There is no leader for this topic-partition", ""),
    ],
)
def test_a_client_without_a_leader_warns_once(tmp_path: Path, line: str, topics: str) -> None:
    warning = LEADERLESS.format(topics)
    assert judge(f"{line}\n{line}\n") == [(1, warning, None)]
    snapshot = load(tmp_path, f"{DESCRIBE}{DESCRIBE}{line}\n")
    assert [row["warning"] for row in snapshot.warnings.to_pylist()] == [warning]
    assert "error of a client" in [row["reason"] for row in snapshot.outcomes.to_pylist()]


@pytest.mark.parametrize(
    "line",
    [
        "    partiton 0, leader -1, replicas: 1, isrs: , Broker: Leader not available",
        '  topc "orders" with 3 partitions: Broker: Leader not available',
        "Error while executing topic command : org.apache.kafka.common.errors.LeaderNotAvailableException: x",
        "for partition: geo-2: org.apache.kafka.common.errors.PreferredLeaderNotAvailableException: x",
        "the election of topic geo: PREFERRED_LEADER_NOT_AVAILABLE",
    ],
)
def test_a_damaged_line_of_a_listing_is_no_error_of_a_client(line: str) -> None:
    assert find_leaderless_topics(line) is None


def test_a_stack_trace_is_one_warning() -> None:
    text = (
        "Error while executing topic command : Call timed out\n"
        "[2024-01-01 10:01:00,011] ERROR java.util.concurrent.ExecutionException: x\n"
        + "\tat kafka.admin.TopicCommand.main(TopicCommand.scala)\n"
        * 50
        + "Caused by: org.apache.kafka.common.errors.TimeoutException: Call\n\t... 12 more\n"
        " (kafka.admin.TopicCommand$)\n"
    )
    assert [line for line, *_ in judge(text)] == [1]


@pytest.mark.parametrize(
    ("pipe", "names"), [("", ["57"]), ("| sort", ["57"]), ("| wc -l", []), ("| grep -c foo", []), ("| awk '{n++}'", [])]
)
def test_a_count_of_topics_is_no_topic(pipe: str, names: list[str]) -> None:
    form = FORMATS["shell"]
    text = f"$ kafka-topics --bootstrap-server b:9092 --list {pipe}\n57\n"
    rows = form.parse_facts(form.read_records(text, "x")).to_pylist()
    assert [row["topic"] for row in rows if row["kind"] == FactKind.TOPIC] == names


def test_a_command_names_the_brokers_that_it_asks() -> None:
    form = FORMATS["shell"]
    rows = form.parse_facts(form.read_records(f"{ASK}\n$ kafka-topics --zookeeper z:2181 --list\n", "x")).to_pylist()
    assert [row["host"] for row in rows] == ["b1:9092", None]


def test_the_second_cluster_is_named_once() -> None:
    commands = ("stg-b1:9092", "prod-b1:9092", "stg-b2:9092", "prod-b2:9092")
    text = "".join(f"$ kafka-topics --bootstrap-server {server} --describe\n\n" for server in commands)
    expected = "asks prod-b1:9092, but line 1 asks stg-b1:9092: these may be two clusters; give each its own folder"
    assert [(line, warning) for line, warning, _ in judge(text) if warning] == [(3, expected)]


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ("eu1:9092", "us1:9092", True),
        ("stg-b1:9092,stg-b2:9092", "prod-b1:9092", True),
        ("pkc-4nym6.us-east-1.aws.confluent.cloud:9092", "pkc-abcde.us-east-1.aws.confluent.cloud:9092", True),
        ("b1:9092", "b2:9092", False),
        ("b1.prod.example.com:9092", "b1.prod:9092", False),
        ("broker-a:9092", "broker-b:9092", False),
        ("localhost:9092", "prod:9092", False),
        ("10.0.0.1:9092", "10.9.9.9:9092", False),
        ("10.0.0.1:9092", "prod:9092", False),
        ("$BROKER", "prod:9092", False),
        ("my-kafka-bootstrap:9092", "my-kafka-0.my-kafka-brokers:9092", False),
    ],
)
def test_names_of_servers_tell_clusters_apart(first: str, other: str, expected: bool) -> None:
    pair = Servers("broker", first), Servers("broker", other)
    assert are_of_two_clusters(*pair) == are_of_two_clusters(*reversed(pair)) == expected
    assert not are_of_two_clusters(Servers("zookeeper", first), pair[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{ASK} --under-replicated-partitions\n$ \n",
            "line 1: the command printed nothing: no partition is under-replicated. "
            "Run it without --under-replicated-partitions.",
        ),
        (f"{ASK} --topic x\n", "line 1: the command printed nothing. Run it without --topic x."),
        (f"{ASK}\n", "line 1: the command printed nothing: no topic exists, or this user may describe none."),
        (
            f"{ASK}\n% ERROR: Failed to acquire metadata\n",
            "line 2: the command that wrote it failed: no broker answered",
        ),
        ("command terminated with exit code 137\n", "the command that wrote it failed: this is its error"),
    ],
)
def test_a_file_of_commands_and_errors_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(SourceError) as error:
        list(read_files(Source("x", (tmp_path / "x.txt",))))
    assert message in str(error.value)


def test_commands_do_not_take_what_follows_from_its_reader(tmp_path: Path) -> None:
    table = "PARTITION  LEADER  EPOCH  REPLICAS\n0          1       3      [1 2]\n"
    text = f"{DESCRIBE}\n$ rpk topic describe audit -p\n{table}"
    (tmp_path / "x").write_text(text)
    (file,) = read_files(Source("x", (tmp_path / "x",)))
    assert file.format_names == ["describe", "rpk"]
    facts = [row for part in file.parts for row in part.format.parse_facts(part.records).to_pylist()]
    assert {row["topic"] for row in facts if row["kind"] == FactKind.PARTITION} == {"orders", "audit"}


def test_a_header_above_a_command_names_no_partition_below_it(tmp_path: Path) -> None:
    header = "Topic: a\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
    text = f"{header}{ASK} --topic b\n\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    snapshot = load(tmp_path, text)
    assert "other text stands between" in snapshot.quarantined[0]["reasons"][0]


@pytest.mark.parametrize(
    "piece",
    [
        "$ ",
        "kafka-topics ",
        "'",
        '"',
        "| ",
        "--topic ",
        "ERROR ",
        "Error: ",
        "a.",
        "at ",
        "kcat -L",
        "> ",
        "docker ",
        "\\ ",
    ],
)
def test_commands_are_found_in_linear_time(piece: str) -> None:
    begin = time.process_time()
    judge(f"{piece * 30_000}\n$ kafka-topics --describe {piece * 30_000}\n")
    assert time.process_time() - begin < 3


def test_a_short_name_of_a_server_does_not_hide_two_clusters(tmp_path: Path) -> None:
    ask = "$ kafka-topics.sh --describe --bootstrap-server"
    text = f"{ask} b1:9092\n{DESCRIBE}\n{ask} paris.example.com:9092\n{ask} tokyo.example.org:9092\n"
    (row,) = load(tmp_path, text).warnings.to_pylist()
    assert "asks tokyo.example.org:9092, but line" in row["warning"]


def test_the_commands_of_two_files_are_compared(tmp_path: Path) -> None:
    ask = "$ kafka-topics.sh --describe --bootstrap-server"
    for name, server in (("a", "b1"), ("b", "prod-b1"), ("c", "stg-b1"), ("d", "stg-b2")):
        (tmp_path / f"{name}.txt").write_text(f"{ask} {server}:9092\n{DESCRIBE}\n")
    rows = load_snapshot(find_source(str(tmp_path))).warnings.to_pylist()
    place = "asks stg-b1:9092, but b.txt line 1 asks prod-b1:9092: these may be two clusters"
    assert [(row["source"], place in row["warning"]) for row in rows] == [("c.txt", True), ("d.txt", False)]
