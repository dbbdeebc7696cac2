"""Plans for sick clusters, as a person asks for them: lagging replicas, brokers lost for good, reassignments."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.verdict.snapshot_findings import find_findings
from tests.unit.planning.plan_commands import CommandResult, write_describe
from tests.unit.planning.plan_models import model_with
from udfs.arrow.ragged import row_of
from udfs.planning.cluster_model import FreezeReason
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import PlanRequest


def describe(topic: str, factor: int, *partitions: str, min_isr: int = 1) -> list[str]:
    """Describe a topic. partitions: replicas, ISR and, where it is being reassigned, added and removed replicas."""
    lines = [f"Topic: {topic}\tPartitionCount: {len(partitions)}\tReplicationFactor: {factor}"]
    lines[0] += f"\tConfigs: min.insync.replicas={min_isr}"
    for i, text in enumerate(partitions):
        replicas, isr, *changes = text.split()
        line = f"\tTopic: {topic}\tPartition: {i}\tLeader: {isr.split(',')[0]}\tReplicas: {replicas}\tIsr: {isr}"
        titles = ("Adding Replicas", "Removing Replicas")
        lines.append(line + "".join(f"\t{title}: {ids}" for title, ids in zip(titles, changes, strict=False)))
    return lines


def plan(capsys: pytest.CaptureFixture[str], source: Path, *arguments: str) -> tuple[dict[str, list[int]], str]:
    """Return the planned lists by partition, and what the command warns of."""
    result = CommandResult(capsys, "plan", source, *arguments, "--out", "-")
    assert result.code == ("HARMFUL" in result.err), result.err
    partitions = json.loads(result.out)["partitions"]
    return {f"{one['topic']}-{one['partition']}": one["replicas"] for one in partitions}, result.err


def test_the_only_in_sync_replica_stays(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    healthy = describe("rest", 3, "90,91,92 92,90,91", "91,92,90 92,90,91")
    source = write_describe(tmp_path, *describe("keys", 3, "90,91,92 92"), *healthy)
    assert plan(capsys, source, "--goal", "rf", "--rf", "1", "--topics", "keys")[0] == {"keys-0": [92]}
    lists, warnings = plan(capsys, source, "--goal", "rf", "--rf", "2", "--topics", "keys")
    assert set(lists) == {"keys-0"}
    assert 92 in lists["keys-0"]
    assert "keys-0: 1 in-sync replica of 2" in warnings


def test_in_sync_replicas_come_before_racks_and_leaders(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Both in-sync replicas are in rack a, and the preferred leader in rack b lags."""
    source = tmp_path / "source"
    source.mkdir()
    write_describe(source, *describe("t", 3, "3,1,2 1,2"))
    racks = [f"{broker}  h{broker}  9092  {rack}  unfenced  broker" for broker, rack in ((1, "a"), (2, "a"), (3, "b"))]
    (source / "brokers.txt").write_text("\n".join(["ID  HOST  PORT  RACK  STATE  ENDPOINT_TYPE", *racks]) + "\n")
    assert plan(capsys, source, "--goal", "rf", "--rf", "2")[0] == {"t-0": [1, 2]}


def test_a_repair_names_what_removes_extra_replicas(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The first partition has more replicas than its topic declares; that of another topic is being reassigned."""
    moving = describe("moving", 2, "1,2,3 1,2,3 3")
    source = write_describe(tmp_path, *describe("t", 2, "1,2,3 1,2,3", "2,3 2,3"), *moving)
    out = CommandResult(capsys, "plan", source, "--goal", "repair").out
    again = f"kafka-placement plan {source} --goal rf --rf 2 --topics t"
    text = "  not addressed: 1 partition (t-0) with more than 2 replicas, as their topics declare:"
    assert f"{text}\n      {again}\n" in out
    assert plan(capsys, source, "--goal", "rf", "--rf", "2", "--topics", "t")[0] == {"t-0": [1, 2]}


def test_a_repair_takes_the_declared_factor(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    moving = ("65,62,63,64 62,63,64 65 64", "65,62,61,63 61,62,63 65 63", "63,64,61 63,64,61")
    others = describe("fares", 3, "65,64,61 65,64,61")
    source = write_describe(tmp_path, *describe("tolls", 3, *moving), *others)
    assert plan(capsys, source, "--goal", "repair")[0] == {}
    # A tool that counts replicas being added declares 4; the partitions that are not reassigned decide.
    source = write_describe(tmp_path, *describe("tolls", 4, *moving), *others)
    assert plan(capsys, source, "--goal", "repair")[0] == {}
    # One partition has lost a replica for good, another one has one that is left over on a broker that is down.
    source = write_describe(
        tmp_path, *describe("t", 3, "1,2,3 1,2,3", "2,3 2,3", "3,1,2,9 3,1,2", "9,2,1 2,1"), *others
    )
    lists, _ = plan(capsys, source, "--goal", "repair")
    assert lists["t-2"] == [3, 1, 2]
    assert [len(lists[f"t-{i}"]) for i in (1, 3)] == [3, 3]
    assert set(lists) == {"t-1", "t-2", "t-3"}


GRAIN = describe("grain", 3, "1,2,3 1,2", "2,3,1 2,1", "3,1,2 1,2", min_isr=2)


def test_a_broker_that_is_lost_for_good(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Two brokers are left for three replicas: goals that cannot work name the one that does."""
    source = write_describe(tmp_path, *GRAIN)
    lists, _ = plan(capsys, source, "--goal", "rf", "--rf", "2")
    assert lists == {"grain-0": [1, 2], "grain-1": [2, 1], "grain-2": [1, 2]}
    for goal in (["repair"], ["drain", "--brokers", "3"]):
        result = CommandResult(capsys, "plan", source, "--goal", *goal)
        assert result.code == 3
        assert "3 replicas of grain-0 and 2 others need 3 brokers, but only 2 can hold one" in result.err
        assert f"--goal {' '.join(goal)} --add-brokers 4" in result.err
        assert f"plan {source} --goal rf --rf 2 --topics grain" in result.err


def test_a_repair_does_what_it_can(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = write_describe(tmp_path, *GRAIN, *describe("t", 2, "1,3 1", "2,1 2,1"))
    lists, warnings = plan(capsys, source, "--goal", "repair")
    assert lists == {"t-0": [1, 2]}
    assert (
        f"3 partitions stay as they are because of {FreezeReason.FEW_BROKERS.explanation}. Restart or add brokers"
        in warnings
    )
    assert f"or do with fewer replicas: kafka-placement plan {source} --goal rf --rf 2 --topics grain" in warnings


def test_a_drain_beside_brokers_that_are_lost_leads_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of four brokers two are gone: the drain of one of them sends to the repair, and that to fewer replicas."""
    source = write_describe(tmp_path, *describe("a", 4, "1,2,3,4 1,2"), *describe("b", 2, "1,3 1", "2,4 2"))
    drain = CommandResult(capsys, "plan", source, "--goal", "drain", "--brokers", "3")
    assert drain.code == 3
    assert f"first: kafka-placement plan {source} --goal repair" in drain.err
    assert "--goal rf --rf 2 --topics a" in plan(capsys, source, "--goal", "repair")[1]
    few = CommandResult(capsys, "plan", source, "--goal", "rf", "--rf", "3", "--topics", "a")
    assert "--goal rf --rf 2 --topics a" in few.err
    assert plan(capsys, source, "--goal", "rf", "--rf", "2", "--topics", "a")[0] == {"a-0": [1, 2]}


def test_replicas_on_their_way_are_not_missed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As Kafka, which counts the replication factor without them: of four partitions, two lack a replica."""
    moving = describe("x", 3, "4,1,2,3 1,2,3 4 3")
    source = write_describe(tmp_path, *moving, *describe("y", 2, "1,4 1,4"), *describe("z", 2, "2,9 2", "3,9 3"))
    assert "under-replicated (now 2)" in CommandResult(capsys, "plan", source, "--goal", "repair").out


def test_only_offline_partitions_are_not_repaired(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = write_describe(tmp_path, *describe("b", 2, "3,4 3,4", "2,4 2,4"), *describe("a", 2, "1,2 1"))
    text = source.read_text().replace("Partition: 0\tLeader: 1", "Partition: 0\tLeader: none")
    source.write_text(text)
    out = CommandResult(capsys, "what-if", source).out
    assert "--goal repair --out" not in out
    assert "moving is not possible: plan --goal repair copies no replica" in out


def test_waiting_helps_where_kafka_lowers_min_insync_replicas(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An ELR shows Kafka 3.8 or later: two of two replicas are enough for min.insync.replicas 3."""
    lines = describe("t", 2, "1,2 1", "2,1 1", min_isr=3)
    source = write_describe(
        tmp_path, *(f"{line}\tElr: 2\tLastKnownElr: " if "Leader" in line else line for line in lines)
    )
    verdict = CommandResult(capsys, "what-if", source).out
    assert "below min.insync.replicas now" in verdict
    assert "waiting does not help" not in verdict


def test_racks_with_few_live_brokers_do_not_prevent_a_repair(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of four replicas, each of two racks should hold two, but only one broker of rack a is left."""
    source = tmp_path / "source"
    source.mkdir()
    write_describe(source, *describe("t", 4, "1,2,3,4 1,3,4", "3,4,5,1 3,4,5,1"))
    states = ((1, "a", "unfenced"), (2, "a", "fenced"), *((broker, "b", "unfenced") for broker in (3, 4, 5)))
    rows = [f"{broker}  h{broker}  9092  {rack}  {state}  broker" for broker, rack, state in states]
    (source / "brokers.txt").write_text("\n".join(["ID  HOST  PORT  RACK  STATE  ENDPOINT_TYPE", *rows]) + "\n")
    assert plan(capsys, source, "--goal", "repair")[0] == {"t-0": [1, 3, 4, 5]}


def test_a_reassignment_that_waits_for_a_broker_that_is_down(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = write_describe(
        tmp_path,
        *describe("tolls", 2, "25,22,23 22,23 25 23", "25,21,22 21,22 25 22"),
        *describe("audit", 2, "25,22 22", "23,25 23"),
    )
    cancelled = [{"topic": "tolls", "partition": 0, "replicas": [22, 23]}]
    cancelled.append({"topic": "tolls", "partition": 1, "replicas": [21, 22]})
    cancel = f"echo '{json.dumps({'version': 1, 'partitions': cancelled}, separators=(',', ':'))}' > cancel.json"
    verdict = CommandResult(capsys, "what-if", source, "--all")
    warnings = plan(capsys, source, "--goal", "repair")[1]
    for text in (verdict.out, warnings):
        assert "2 reassignments cannot complete, as replicas are being added on broker 25, which is down" in text
        assert f"{cancel} && kafka-reassign-partitions --bootstrap-server localhost:9092 --cancel" in text
    assert "Wait until the reassignment is complete" not in warnings


def test_replicas_beyond_the_replication_factor_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = write_describe(
        tmp_path, *describe("t", 2, "1,2 1,2", "2,3,1 2,1", "3,1,2 3,1 2 1"), *describe("u", 1, "1 1", "3,2 3,2")
    )
    findings = find_findings(load_snapshot(find_source(f"c={source}")))
    assert findings.extra_replica_partitions == 2
    verdict = CommandResult(capsys, "what-if", source, "--all").out
    assert "2 partitions have more replicas than the replication factor of their topic: t (1), u (1)" in verdict
    assert "if replication factor 2 is right" in verdict
    assert plan(capsys, source, "--goal", "rf", "--rf", "2", "--topics", "t")[0] == {"t-1": [2, 1]}


def test_fewer_replicas_than_min_insync_replicas(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Kafka before 3.7 does not lower min.insync.replicas to the number of replicas."""
    source = write_describe(tmp_path, *describe("t", 2, "1,2 1,2", "2,1 2,1", min_isr=2))
    rf = ("--goal", "rf", "--rf", "1")
    assert "producers before Kafka 3.7: t-0, t-1" in plan(capsys, source, *rf)[1]
    warnings = plan(capsys, source, *rf, "--set", "topics.kafka_version=3.6")[1]
    assert "2 partitions have fewer replicas than min.insync.replicas" in warnings
    of_kafka_4 = Path("data_samples/kafka-4.1.1-kraft")
    assert "min.insync.replicas" not in plan(capsys, of_kafka_4, *rf)[1]


def test_brokers_of_unknown_state_get_copies_only_where_others_do_not_suffice(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Broker 9 is only in Adding Replicas, so nobody knows whether it is live; 3 is in no ISR."""
    short = describe("t", 3, *["1,2,3 1,2", "2,1,3 2,1"] * 4)
    moving = describe("m", 3, "9,1,2,4 1,2,4 9 4")
    source = write_describe(tmp_path, *short, *moving, *describe("u", 3, "4,1,2 4,1,2"))
    lists, _ = plan(capsys, source, "--goal", "repair")
    assert {broker for replicas in lists.values() for broker in replicas} == {1, 2, 4}
    lists, _ = plan(capsys, source, "--goal", "rf", "--rf", "4", "--topics", "u")
    assert set(lists["u-0"]) == {1, 2, 4, 9}


def test_replicas_out_of_sync_leave_rather_than_those_in_sync() -> None:
    """Broker 1 has twice as many replicas as others; of some of its partitions, the other replica lags."""
    lists = {("t", row): [1, 2 + row % 2] for row in range(40)} | {("u", row): [2, 3] for row in range(4)}
    model = model_with(lists, range(1, 5), sizes=[1.0] * 44)
    lagging = (model.row < 8) & (model.replicas > 0) & (model.topic[model.row] == 0)
    model = replace(model, in_sync=~lagging)
    proposal = make_plan(model, PlanRequest("balance"))
    left = {(row, broker) for row, broker in zip(model.row.tolist(), model.replicas.tolist(), strict=True)}
    left -= set(zip(row_of(proposal.offsets).tolist(), proposal.replicas.tolist(), strict=True))
    assert left
    assert not [row for row, broker in left if row < 8 and broker == 0 and len({r for r in left if r[0] == row}) == 1]
    assert np.ptp(np.bincount(proposal.replicas)) <= 1


def test_a_rack_whose_replica_lags_is_kept() -> None:
    """Four replicas in three racks; that of rack c lags, and a broker of rack b is empty."""
    lists = {("t", row): [1, 2, 3, 5] for row in range(40)}
    model = model_with(lists, range(1, 7), racks=["a", "a", "b", "b", "c", "c"], sizes=[1.0] * 40)
    model = replace(model, in_sync=model.replicas < 4)
    proposal = make_plan(model, PlanRequest("balance"))
    assert model.find_copied(proposal).any()
    for row in range(40):
        planned = proposal.replicas[proposal.offsets[row] : proposal.offsets[row + 1]]
        assert len({*model.rack[planned].tolist()}) == 3, row
