"""Snapshots as begins: what their sources say of offsets and epochs, and what has changed from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.cli.replay_rendering import render_replay
from pipelines.errors import SourceError
from pipelines.ingest import snapshot_reader
from pipelines.ingest.snapshot_reader import build_snapshot, parse_facts, read_files
from pipelines.ingest.sources import find_source
from pipelines.simulation.cluster_replay import Replay, ReplayRequest, run_replay
from pipelines.simulation.snapshot_sequence import derive_events
from pipelines.simulation.source_snapshots import read_initial_state
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.simulation.cluster_events import InitialPartition, InitialState, TopicPartition
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import get_final_state, list_health

SAMPLES = Path(__file__).parents[3] / "data_samples"
KRAFT = SAMPLES / "kafka-4.1.1-kraft"
ZOOKEEPER = SAMPLES / "kafka-2.8.2-zookeeper" / "zookeeper-dump.jsonl"
LOG = "cluster-metadata-dump.until-broker-2-down.txt"
HEAD = "Topic: t\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: \n"


def read_state(place: Path) -> InitialState:
    source = find_source(str(place))
    files = list(read_files(source, None))
    facts = parse_facts(files)
    return read_initial_state(build_snapshot(source, files, facts), facts, KAFKA_DEFAULTS)


def read_partition(
    folder: Path, leader: int, isr: str, files: Mapping[str, str], replicas: str = "1,2,3"
) -> InitialPartition:
    """Partition t-0 of a cluster that these files describe."""
    folder.mkdir(exist_ok=True)
    line = f"\tTopic: t\tPartition: 0\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}\n"
    (folder / "describe.txt").write_text(HEAD + line)
    for name, text in files.items():
        (folder / name).write_text(text)
    (one,) = read_state(folder).partitions
    return one


def checkpoint(offset: int) -> str:
    return f"0\n1\nt 0 {offset}\n"


def lags(**lag: int) -> str:
    replica = '{{"partition":"t-0","size":1,"offsetLag":{},"isFuture":false}}'
    brokers = ",".join(
        f'{{"broker":{name[1:]},"logDirs":[{{"logDir":"/d","error":null,"partitions":[{replica.format(value)}]}}]}}'
        for name, value in lag.items()
    )
    return f'{{"version":1,"brokers":[{brokers}]}}\n'


def test_a_captured_cluster_has_its_offsets() -> None:
    """get-offsets of all leaders; checkpoints of brokers 0 and 1 alone; everybody in sync."""
    leader_offsets: dict[TopicPartition, int] = {}
    for line in (KRAFT / "get-offsets.txt").read_text().split():
        topic, partition, offset = line.rsplit(":", 2)
        leader_offsets[topic, int(partition)] = int(offset)
    watermarks: dict[tuple[int, TopicPartition], int] = {}
    for broker in (0, 1):
        for line in (KRAFT / f"replication-offset-checkpoint.broker-{broker}").read_text().splitlines()[2:]:
            topic, number, offset = line.split()
            watermarks[broker, (topic, int(number))] = int(offset)
    partitions = read_state(KRAFT).partitions
    assert len(partitions) == len(leader_offsets) == 743
    followers = 0
    for one in partitions:
        assert one.leos == (leader_offsets[one.key],) * len(one.replicas)
        for broker, hw in zip(one.replicas, one.hws, strict=True):
            if broker == one.leader:
                assert hw == leader_offsets[one.key]
            else:
                assert hw == watermarks.get((broker, one.key))
                followers += hw is not None
    assert followers > 300


def test_offsets_are_unknown_if_no_source_shows_them(tmp_path: Path) -> None:
    one = read_partition(tmp_path, 1, "1,2,3", {})
    assert (one.leos, one.hws) == ((), ())
    one = read_partition(tmp_path, 1, "1,2", {"replication-offset-checkpoint.broker-9": checkpoint(5)})
    assert (one.leos, one.hws) == ((), ())


def test_logs_of_followers_out_of_sync_end_at_their_high_watermark(tmp_path: Path) -> None:
    files = {"offsets.txt": "t:0:9\n", "replication-offset-checkpoint.broker-2": checkpoint(4)}
    one = read_partition(tmp_path, 1, "1", files)
    assert (one.leos, one.hws) == ((9, 4, None), (9, 4, None))
    one = read_partition(tmp_path, 1, "1", files | {"log-dirs.json": lags(b2=3, b3=0)})
    assert (one.leos, one.hws) == ((9, 1, None), (9, 4, None))


def test_a_leader_has_all_messages_that_its_isr_knows_as_committed(tmp_path: Path) -> None:
    seen = {f"replication-offset-checkpoint.broker-{b}": checkpoint(hw) for b, hw in ((1, 5), (2, 7), (3, 99))}
    one = read_partition(tmp_path, 1, "1,2", seen)
    assert (one.leos, one.hws) == ((7, 7, 99), (5, 7, 99))
    one = read_partition(tmp_path, 1, "1,2", seen | {"offsets.txt": "t:0:6\n"})
    assert (one.leos, one.hws) == ((7, 7, 99), (6, 7, 99))


def test_without_a_leader_all_logs_end_at_their_high_watermark(tmp_path: Path) -> None:
    one = read_partition(tmp_path, -1, "2", {"replication-offset-checkpoint.broker-2": checkpoint(4)})
    assert one.leader is None
    assert (one.leos, one.hws) == ((None, 4, None), (None, 4, None))


def test_epochs_come_from_the_znodes() -> None:
    """Those of the controller and of every partition; and min.insync.replicas, if a topic has it."""
    state = read_state(ZOOKEEPER)
    assert (state.controller, state.controller_epoch) == (1002, 1)
    assert {one.controller_epoch for one in state.partitions} == {1}
    assert {one.key[0]: one.min_isr for one in state.partitions}["pairs"] == 2
    later = read_state(SAMPLES / "captures" / "kafka-2.8.2-zookeeper" / "zookeeper-dump.broker-1001-down.jsonl")
    assert later.live == state.live - {1001}


def test_sources_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    add_source = snapshot_reader.add_source
    monkeypatch.setattr(snapshot_reader, "add_source", lambda *args: parsed.append(args[1]) or add_source(*args))
    run_replay(ReplayRequest([str(ZOOKEEPER)], fail=[1001]))
    assert parsed == [ZOOKEEPER.name]


def test_changed_offsets_become_events() -> None:
    one = InitialPartition(("t", 0), (1, 2, 3), (1, 2, 3), 1, leos=(9, 9, None), hws=(8, None, None))
    initial = InitialState((1, 2, 3), frozenset((1, 2, 3)), (one,))

    def to(after: InitialPartition) -> list[tuple[int, int | None, int | None, int | None]]:
        events = derive_events([initial, replace(initial, partitions=(after,))])
        return [(event.kind, event.broker, event.leo, event.hw) for event in events]

    assert to(one) == []
    assert to(replace(one, leos=(12, 9, 4), hws=(8, 7, None))) == [
        (EventKind.REPLICA_OFFSETS, 1, 12, None),
        (EventKind.REPLICA_OFFSETS, 2, None, 7),
        (EventKind.REPLICA_OFFSETS, 3, 4, None),
    ]
    assert to(replace(one, leos=(), hws=())) == []
    moved = to(replace(one, leader=2, isr=(2, 3), leos=(9, 10, None)))
    assert moved == [(EventKind.PARTITION_RECORD, None, None, None), (EventKind.REPLICA_OFFSETS, 2, 10, None)]
    # A new replica's are new.
    assert to(replace(one, replicas=(1, 2, 4), isr=(1, 2), leos=(9, 9, 3)))[1:] == [
        (EventKind.REPLICA_OFFSETS, 4, 3, None)
    ]


def test_a_new_partition_brings_its_offsets() -> None:
    one = InitialPartition(("t", 0), (1, 2), (1, 2), 1, leos=(9, 9), hws=(9, None))
    empty = InitialState((1, 2), frozenset((1, 2)))
    events = derive_events([empty, replace(empty, partitions=(one,))])
    assert [(event.kind, event.broker, event.leo, event.hw) for event in events] == [
        (EventKind.PARTITION_RECORD, None, None, None),
        (EventKind.REPLICA_OFFSETS, 1, 9, 9),
        (EventKind.REPLICA_OFFSETS, 2, 9, None),
    ]
    assert {(event.at_ms, event.offset) for event in events} == {(1000, 1)}


def test_a_filtered_describe_is_rejected_as_a_later_snapshot(tmp_path: Path) -> None:
    """kafka-topics prints no topic's own line with a filter: what it leaves out would count as removed."""
    line = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
    whole, filtered = tmp_path / "whole.txt", tmp_path / "filtered.txt"
    whole.write_text(HEAD + line)
    filtered.write_text(line)
    with pytest.raises(SourceError, match=r"filtered.txt: shows only some partitions .*Use a describe of all topics"):
        run_replay(ReplayRequest([str(whole), str(filtered)]))
    (warning,) = run_replay(ReplayRequest([str(filtered)], fail=[2])).warnings
    assert "the replay lacks the other partitions" in warning


def test_a_log_without_its_beginning_gives_a_warning(tmp_path: Path) -> None:
    lines = (SAMPLES / "captures" / "kafka-4.1.1-kraft" / LOG).read_text().splitlines(keepends=True)
    late = tmp_path / "late.txt"
    late.write_text("".join(lines[800:1200]))
    warnings = run_replay(ReplayRequest([str(late)])).warnings
    assert "its log begins at offset" in warnings[0]


RETURNS = """settings: {auto_leader_rebalance: false}
events:
"""
ELR_LINE = "\tTopic: {}\tPartition: 0\tLeader: none\tReplicas: {}\tIsr: \tElr: {}\tLastKnownElr: {}\n"
# Replicas, ELR and last known leader of partitions that went offline as brokers 1 to 7 failed; who leads once all of
# them have returned after crashes, in this order, and when (1 = as broker 1 returns).
OUTAGES = {
    "a": ("1", "1", "1", 1, 1),
    "b": ("4", "", "4", 4, 4),
    "c": ("1,2", "1,2", "2", 2, 2),
    "d": ("2,1", "1,2", "1", 1, 2),
    "e": ("3,6", "6", "6", 6, 6),
    "f": ("3,6", "", "3,6", None, 8),
    "g": ("7,5,6", "5,7", "7", 7, 7),
}


def run_returns(folder: Path, sentence: str, brokers: int) -> Replay:
    header = "Topic: {}\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: min.insync.replicas=2\n"
    lines = (header.format(name) + ELR_LINE.format(name, *values[:3]) for name, values in OUTAGES.items())
    healthy = "\tTopic: h\tPartition: 0\tLeader: 8\tReplicas: 8\tIsr: 8\tElr: \tLastKnownElr: \n"
    (folder / "describe.txt").write_text("".join(lines) + header.format("h") + healthy)
    events = (f"  - t={broker} broker {broker} {sentence}\n" for broker in range(1, brokers + 1))
    (folder / "returns.yaml").write_text(RETURNS + "".join(events))
    return run_replay(ReplayRequest([str(folder / "describe.txt"), str(folder / "returns.yaml")]))


@pytest.mark.parametrize("brokers", range(1, 8))
def test_brokers_that_return_lead_as_the_last_known_elr_says(tmp_path: Path, brokers: int) -> None:
    replay = run_returns(tmp_path, "up", brokers)
    leaders = {row["topic"]: row["leader"] for row in get_final_state(replay.simulation).partitions}
    expected = {name: leader if when <= brokers else None for name, (*_, leader, when) in OUTAGES.items()}
    assert leaders == {**expected, "h": 8}
    names, count = {1: ("1", 2), 5: ("1, 2, 5", 3), 6: ("1, 2, 5", 3), 7: ("1, 2, 5, 7", 3)}.get(brokers, ("1, 2", 2))
    subject, counts = (f"broker {names}", "it counts") if brokers == 1 else (f"brokers {names}", "they count")
    effect = f"{counts} as crashed, and may not lead {count} partitions from the ELR"
    (warning,) = replay.warnings
    assert f"does not show how {subject} stopped: {effect}. If the stop was clean, write unfenced" in warning


def test_after_clean_stops_the_first_of_the_elr_leads(tmp_path: Path) -> None:
    replay = run_returns(tmp_path, "unfenced", 1)
    leaders = {row["topic"]: row["leader"] for row in get_final_state(replay.simulation).partitions}
    assert leaders == {"a": 1, "c": 1, "d": 1, "h": 8} | dict.fromkeys("befg")
    assert replay.warnings == ()


def test_an_offline_partition_of_one_replica_is_not_under_replicated(tmp_path: Path) -> None:
    """Its only replica has left the ISR with an ELR, and stays in it without: the count is the same."""
    for elr, isr in ((", elr: true", []), ("", [9])):
        topics = "topics: {s: [[9], [9], [9], [9]], r: [[1, 9], [9, 1], [1, 2]]}"
        text = f"settings: {{kraft: true{elr}}}\nbrokers: [1, 2, 9]\n{topics}\nevents:\n  - t=1 broker 9 down\n"
        (tmp_path / "s.yaml").write_text(text)
        replay = run_replay(ReplayRequest([str(tmp_path / "s.yaml")]))
        assert get_final_state(replay.simulation).partitions[-1]["isr"] == isr
        line = next(line for line in render_replay(replay) if line.startswith("at the end"))
        assert line.endswith("7 partitions, 2 under-replicated, 4 without leader")
        ends = [row for row in list_health(replay.simulation) if row["at_the_end"]]
        assert [row["topic"] for row in ends if row["under_replicated"]] == ["r", "r"]
