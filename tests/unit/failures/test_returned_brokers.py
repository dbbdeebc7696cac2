"""`what-if --return`: the cluster once brokers that are down are back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest

from pipelines.ingest.returned_brokers import find_missing_brokers, return_brokers
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.planned_cluster import NewBroker, add_new_brokers
from pipelines.verdict.snapshot_findings import find_findings
from pipelines.what_if.what_if_answers import evaluate_brokers
from tests.commands import call
from udfs.failures.topic_defaults import TopicDefaults

HEADER = "Topic: {}\tPartitionCount: {}\tReplicationFactor: {}\tConfigs: min.insync.replicas={}\n"
# Broker 9 is down in the second listing. Broker 3 lags in both, and is no reason to count 9 as lagging.
HEALTHY = (
    HEADER.format("a", 3, 3, 2)
    + "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 9,1,2\tIsr: 9,1,2\n"
    + "\tTopic: a\tPartition: 1\tLeader: 1\tReplicas: 1,3,9\tIsr: 1,9\n"
    + "\tTopic: a\tPartition: 2\tLeader: 3\tReplicas: 3,2,1\tIsr: 3,2,1\n"
    + HEADER.format("b", 1, 1, 1)
    + "\tTopic: b\tPartition: 0\tLeader: 9\tReplicas: 9\tIsr: 9\n"
)
DOWN = HEALTHY.replace("Isr: 9,1,2", "Isr: 1,2").replace("Isr: 1,9\n", "Isr: 1\n").replace("Leader: 9", "Leader: none")
SOUND = HEADER.format("a", 1, 2, 1) + "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"


def read(folder: Path, text: str) -> Snapshot:
    file = folder / "prod.txt"
    file.write_text(text)
    return load_snapshot(find_source(str(file)))


def test_the_answer_is_that_of_the_cluster_with_the_broker(tmp_path: Path) -> None:
    healthy, down = read(tmp_path, HEALTHY), read(tmp_path, DOWN)
    expected, found = (evaluate_brokers(snapshot, TopicDefaults()) for snapshot in (healthy, return_brokers(down, [9])))
    assert found == expected
    assert found != evaluate_brokers(down, TopicDefaults())


def test_replicas_that_lag_on_live_brokers_catch_up(tmp_path: Path) -> None:
    returned = return_brokers(read(tmp_path, HEALTHY), [3])
    assert returned.partitions["isr"].to_pylist() == [[9, 1, 2], [1, 3, 9], [3, 2, 1], [9]]
    assert find_missing_brokers(returned, TopicDefaults()) == []


def test_without_a_leader_only_a_replica_that_was_in_sync_leads(tmp_path: Path) -> None:
    """Brokers 5 and 6 are down. In the first partition, 5 was not in sync; in the second, both are not known to be."""
    line = "\tTopic: a\tPartition: {}\tLeader: none\tReplicas: {}\tIsr: {}\n"
    lists = [("6,5", "6"), ("5,6", "5"), ("5,6", "")]
    rows = "".join(line.format(i, *pair) for i, pair in enumerate(lists))
    snapshot = read(tmp_path, HEADER.format("a", 3, 2, 1) + rows)
    returned = return_brokers(snapshot, [5]).partitions
    assert returned["leader"].to_pylist() == [-1, 5, -1]
    assert returned["isr"].to_pylist() == [[6], [5], []]


ELR = "\tTopic: {}\tPartition: {}\tLeader: {}\tReplicas: {}\tIsr: {}\tElr: {}\tLastKnownElr: {}\n"
OUTAGE = (
    HEADER.format("a", 2, 1, 1)
    + ELR.format("a", 0, "none", "1", "", "1", "1")
    + ELR.format("a", 1, 3, "3", "3", "", "")
    + HEADER.format("b", 4, 2, 2)
    + ELR.format("b", 0, "none", "1,2", "", "1,2", "2")
    + ELR.format("b", 1, "none", "1,2", "", "", "2")
    + ELR.format("b", 2, 3, "1,3", "3", "", "")
    + ELR.format("b", 3, "none", "1,2", "", "", "")
)


def test_the_last_known_leader_leads_what_is_in_no_isr_and_no_elr(tmp_path: Path) -> None:
    """2 led b-0 last, and both may have crashed: 1 alone, or 2 alone, is not enough. Nobody may lead b-3."""
    leaders = {
        ids: return_brokers(read(tmp_path, OUTAGE), ids).partitions["leader"].to_pylist()
        for ids in ((1,), (2,), (1, 2))
    }
    assert leaders == {(1,): [1, 3, -1, -1, 3, -1], (2,): [-1, 3, -1, 2, 3, -1], (1, 2): [1, 3, 2, 2, 3, -1]}


def test_the_brokers_to_start_are_named(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(OUTAGE)
    out = call("what-if", "prod.txt", folder=tmp_path).stdout
    assert (
        "\nStart the brokers that are down in this order: 1 (1 partition online), 2 (2 more partitions online)\n"
        "  1 partition needs all eligible brokers back, as one that crashed may not lead; one is enough if it was shut "
        "down cleanly: b-0 (1, 2)\n"
        "  1 partition has no eligible replica: only kafka-leader-election --election-type unclean helps, which may "
        "lose messages and leave transactions open; the broker that stopped last has most of them: b-3\n"
    ) in out
    assert "next: restart brokers 1, 2 (first 1, then 2); keep their disks" in out
    done = call("what-if", "prod.txt", "--return", "1", folder=tmp_path)
    assert (
        "as if broker 1 was live, with all its replicas in sync, but 3 partitions with a replica there would stay "
        "offline (b-0, b-1, b-3): start broker 2 too, which brings 2 partitions online"
    ) in done.stderr
    assert "\n      kafka-placement what-if prod.txt --return 1,2\n" in done.stdout
    done = call("what-if", "prod.txt", "--return", "1,2", folder=tmp_path)
    assert "stay offline (b-3): no broker brings them back" in done.stderr
    assert "Start the brokers" not in done.stdout
    assert "Once " not in done.stdout, "b-3 stays offline though all are back"


def test_a_log_shows_who_was_shut_down_and_in_which_order(tmp_path: Path) -> None:
    def write(*changes: str) -> tuple[tuple[int, ...], ...]:
        record = (
            '{{"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":1,"data":{{"brokerId":{},"brokerEpoch":5,{}}}}}'
        )
        register = '{{"type":"REGISTER_BROKER_RECORD","version":3,"data":{{"brokerId":{},"fenced":true}}}}'
        lines = [record.format(*one.split(" ")) if " " in one else register.format(one) for one in changes]
        text = "".join(f"| offset: {i} CreateTime: 1 payload: {line}\n" for i, line in enumerate(lines))
        return read(tmp_path, text).stops[:2]

    started = [*"123", *(f'{broker} "fenced":-1' for broker in (1, 2, 3))]
    assert write(*started) == ((), ())
    leaves, fails = '2 "inControlledShutdown":1', '{} "fenced":1'
    stops = (*started, leaves, fails.format(3), fails.format(2), fails.format(1))
    assert write(*stops) == ((3, 2, 1), (2,))
    assert write(*stops, "3") == ((2, 1), (2,)), "3 has started again, and is not ready yet"
    assert write(*stops, "2", '2 "fenced":-1', fails.format(2)) == ((3, 1, 2), ())


def test_next_steps_name_the_options_of_the_question(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(DOWN)
    options = ("--return", "9", "--ignore-topics", "b", "--set", "run.seed=3")
    out = call("what-if", "prod.txt", *options, folder=tmp_path).stdout
    assert "kafka-placement what-if prod.txt --return 9,3 --ignore-topics b --set run.seed=3" in out
    out = call("what-if", "prod.txt", *options, "--fail", "1", folder=tmp_path).stdout
    assert f"kafka-placement what-if prod.txt {' '.join(options)} --fail 1" in out


def test_topics_that_do_not_count_need_no_return(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(DOWN)
    assert "Once " not in call("what-if", "prod.txt", "--ignore-topics", "*", folder=tmp_path).stdout


def test_observers_and_new_replicas_stay_out_of_sync(tmp_path: Path) -> None:
    line = "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2,9\tIsr: 1,2"
    for extra in ("\tAdding Replicas: 9\tRemoving Replicas: ", "\tObservers: 9"):
        text = (
            HEADER.format("a", 2, 3, 2)
            + f"{line}{extra}\n"
            + "\tTopic: a\tPartition: 1\tLeader: 1\tReplicas: 1,9\tIsr: 1\n"
        )
        returned = return_brokers(read(tmp_path, text), [9])
        assert returned.partitions["isr"].to_pylist() == [[1, 2], [1, 9]]


def test_no_log_dir_of_a_returned_broker_has_failed(tmp_path: Path) -> None:
    """Its replicas wait for another broker, or are being added: its disks are well."""
    text = (
        HEADER.format("a", 3, 2, 1)
        + "\tTopic: a\tPartition: 0\tLeader: none\tReplicas: 9,8\tIsr: 8\tOffline: 9,8\n"
        + "\tTopic: a\tPartition: 1\tLeader: 1\tReplicas: 1,2,9\tIsr: 1,2\tAdding Replicas: 9\tRemoving Replicas: 2"
        "\tOffline: 9\n" + "\tTopic: a\tPartition: 2\tLeader: 1\tReplicas: 1,9\tIsr: 1\tOffline: 9\n"
    )
    returned = return_brokers(read(tmp_path, text), [9])
    assert returned.partitions["offline_replicas"].to_pylist() == [[8], [], []]
    assert find_findings(returned, TopicDefaults()).failed_dir_brokers == ()


def test_what_remains_is_printed_beside_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(DOWN)
    out = call("what-if", "prod.txt", folder=tmp_path).stdout
    assert "      kafka-placement what-if prod.txt --return 3,9\n" in out
    done = call("what-if", "prod.txt", "--return", "3,9", folder=tmp_path)
    again = done.stdout
    assert "as if brokers 3, 9 were live, with all their replicas in sync" in done.stderr
    assert out.split("\nOnce broker 9 is back, and all replicas are in sync:\n  ")[1].splitlines()[0] in again
    assert "Once " not in again
    (tmp_path / "prod.txt").write_text(HEALTHY)
    out = call("what-if", "prod.txt", folder=tmp_path).stdout
    assert "\nOnce all replicas are in sync:\n" in out
    assert "      kafka-placement what-if prod.txt --return 3\n" in out


@pytest.mark.parametrize(
    ("text", "brokers", "problem"),
    [
        (
            DOWN,
            "2,9,7",
            "--return: brokers 2, 7 are live with all replicas in sync; brokers that are down or have replicas out of "
            "sync: 3, 9",
        ),
        (SOUND, "2", "--return: broker 2 is live with all replicas in sync; so are all others"),
    ],
)
def test_only_brokers_that_lack_something_return(text: str, brokers: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(text)
    assert problem in call("what-if", "prod.txt", "--return", brokers, code=64, folder=tmp_path).stderr


def test_only_live_brokers_that_are_not_cordoned_may_be_filled(tmp_path: Path) -> None:
    snapshot = add_new_brokers(read(tmp_path, SOUND), [NewBroker(6), NewBroker(7)])
    cordoned = pc.equal(snapshot.brokers["broker_id"], 7)
    index = snapshot.brokers.schema.get_field_index("cordoned")
    brokers = snapshot.brokers.set_column(index, snapshot.brokers.schema.field(index), cordoned)
    findings = find_findings(replace(snapshot, brokers=brokers))
    assert (findings.empty_brokers, findings.fillable_brokers, findings.cordoned_brokers) == (2, 1, (7,))
