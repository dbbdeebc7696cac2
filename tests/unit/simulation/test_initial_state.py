"""Snapshots as begins: what their sources say of offsets and epochs, and what has changed from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.cli.replay_output import Asked, timeline
from pipelines.errors import SourceError
from pipelines.ingest import snapshot
from pipelines.ingest.snapshot import facts_of, framed, snapshot_of
from pipelines.ingest.sources import find_source
from pipelines.simulation.initial_state import begin_of
from pipelines.simulation.snapshot_changes import between
from udfs.simulation.cluster_events import Begin, Held, Key
from udfs.simulation.kernels import codes as k

SAMPLES = Path(__file__).parents[3] / "data_samples"
KRAFT = SAMPLES / "kafka-4.1.1-kraft"
ZOOKEEPER = SAMPLES / "kafka-2.8.2-zookeeper" / "zookeeper-dump.jsonl"
LOG = "cluster-metadata-dump.until-broker-2-down.txt"
HEAD = "Topic: t\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: \n"


def begin(place: Path) -> Begin:
    source = find_source(str(place))
    files = framed(source, None)
    facts = facts_of(files)
    return begin_of(snapshot_of(source, files, facts), facts, 1, False)


def held(folder: Path, leader: int, isr: str, files: Mapping[str, str], replicas: str = "1,2,3") -> Held:
    """Partition t-0 of a cluster that these files describe."""
    folder.mkdir(exist_ok=True)
    line = f"\tTopic: t\tPartition: 0\tLeader: {leader}\tReplicas: {replicas}\tIsr: {isr}\n"
    (folder / "describe.txt").write_text(HEAD + line)
    for name, text in files.items():
        (folder / name).write_text(text)
    (one,) = begin(folder).partitions
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
    told: dict[Key, int] = {}
    for line in (KRAFT / "get-offsets.txt").read_text().split():
        topic, partition, offset = line.rsplit(":", 2)
        told[topic, int(partition)] = int(offset)
    checked: dict[tuple[int, Key], int] = {}
    for broker in (0, 1):
        for line in (KRAFT / f"replication-offset-checkpoint.broker-{broker}").read_text().splitlines()[2:]:
            topic, number, offset = line.split()
            checked[broker, (topic, int(number))] = int(offset)
    partitions = begin(KRAFT).partitions
    assert len(partitions) == len(told) == 743
    followers = 0
    for one in partitions:
        assert one.leos == (told[one.key],) * len(one.replicas)
        for broker, hw in zip(one.replicas, one.hws, strict=True):
            if broker == one.leader:
                assert hw == told[one.key]
            else:
                assert hw == checked.get((broker, one.key))
                followers += hw is not None
    assert followers > 300


def test_where_nothing_is_said_nothing_is_known(tmp_path: Path) -> None:
    one = held(tmp_path, 1, "1,2,3", {})
    assert (one.leos, one.hws) == ((), ())
    one = held(tmp_path, 1, "1,2", {"replication-offset-checkpoint.broker-9": checkpoint(5)})
    assert (one.leos, one.hws) == ((), ())


def test_followers_out_of_sync_end_where_they_have_committed(tmp_path: Path) -> None:
    files = {"offsets.txt": "t:0:9\n", "replication-offset-checkpoint.broker-2": checkpoint(4)}
    one = held(tmp_path, 1, "1", files)
    assert (one.leos, one.hws) == ((9, 4, None), (9, 4, None))
    one = held(tmp_path, 1, "1", files | {"log-dirs.json": lags(b2=3, b3=0)})
    assert (one.leos, one.hws) == ((9, 1, None), (9, 4, None))


def test_a_leader_has_what_its_isr_has_seen_committed(tmp_path: Path) -> None:
    seen = {f"replication-offset-checkpoint.broker-{b}": checkpoint(hw) for b, hw in ((1, 5), (2, 7), (3, 99))}
    one = held(tmp_path, 1, "1,2", seen)
    assert (one.leos, one.hws) == ((7, 7, 99), (5, 7, 99))
    one = held(tmp_path, 1, "1,2", seen | {"offsets.txt": "t:0:6\n"})
    assert (one.leos, one.hws) == ((7, 7, 99), (6, 7, 99))


def test_without_a_leader_everyone_ends_where_he_has_committed(tmp_path: Path) -> None:
    one = held(tmp_path, -1, "2", {"replication-offset-checkpoint.broker-2": checkpoint(4)})
    assert one.leader is None
    assert (one.leos, one.hws) == ((None, 4, None), (None, 4, None))


def test_epochs_are_those_of_the_znodes() -> None:
    """The controller's, of the cluster and of every partition; and min.insync.replicas where it is shown."""
    found = begin(ZOOKEEPER)
    assert (found.controller, found.controller_epoch) == (1002, 1)
    assert {one.controller_epoch for one in found.partitions} == {1}
    assert {one.key[0]: one.min_isr for one in found.partitions}["pairs"] == 2
    later = begin(SAMPLES / "captures" / "kafka-2.8.2-zookeeper" / "zookeeper-dump.broker-1001-down.jsonl")
    assert later.live == found.live - {1001}


def test_sources_are_framed_and_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    real = snapshot.sourced
    monkeypatch.setattr(snapshot, "sourced", lambda *args: parsed.append(args[1]) or real(*args))
    timeline(Asked([str(ZOOKEEPER)], fail=[1001]))
    assert parsed == [ZOOKEEPER.name]


def test_offsets_that_changed_are_events() -> None:
    one = Held(("t", 0), (1, 2, 3), (1, 2, 3), 1, leos=(9, 9, None), hws=(8, None, None))
    was = Begin((1, 2, 3), frozenset((1, 2, 3)), (one,))

    def to(after: Held) -> list[tuple[int, int | None, int | None, int | None]]:
        events = between([was, replace(was, partitions=(after,))])
        return [(event.kind, event.broker, event.leo, event.hw) for event in events]

    assert to(one) == []
    assert to(replace(one, leos=(12, 9, 4), hws=(8, 7, None))) == [
        (k.OFFSETS, 1, 12, None),
        (k.OFFSETS, 2, None, 7),
        (k.OFFSETS, 3, 4, None),
    ]
    assert to(replace(one, leos=(), hws=())) == []
    moved = to(replace(one, leader=2, isr=(2, 3), leos=(9, 10, None)))
    assert moved == [(k.RECORD, None, None, None), (k.OFFSETS, 2, 10, None)]
    # A new replica's are new.
    assert to(replace(one, replicas=(1, 2, 4), isr=(1, 2), leos=(9, 9, 3)))[1:] == [(k.OFFSETS, 4, 3, None)]


def test_a_partition_that_is_new_brings_its_offsets() -> None:
    one = Held(("t", 0), (1, 2), (1, 2), 1, leos=(9, 9), hws=(9, None))
    empty = Begin((1, 2), frozenset((1, 2)))
    events = between([empty, replace(empty, partitions=(one,))])
    assert [(event.kind, event.broker, event.leo, event.hw) for event in events] == [
        (k.RECORD, None, None, None),
        (k.OFFSETS, 1, 9, 9),
        (k.OFFSETS, 2, 9, None),
    ]
    assert {(event.at_ms, event.offset) for event in events} == {(1000, 1)}


def test_a_filtered_describe_is_no_later_snapshot(tmp_path: Path) -> None:
    """kafka-topics prints no topic's own line with a filter: what it leaves out would count as removed."""
    line = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
    whole, filtered = tmp_path / "whole.txt", tmp_path / "filtered.txt"
    whole.write_text(HEAD + line)
    filtered.write_text(line)
    with pytest.raises(SourceError, match=r"filtered.txt: shows some partitions alone .*give a describe of all topics"):
        timeline(Asked([str(whole), str(filtered)]))
    (warning,) = timeline(Asked([str(filtered)], fail=[2])).warnings
    assert "other partitions are not in the replay" in warning


def test_a_log_without_its_beginning_is_told(tmp_path: Path) -> None:
    lines = (SAMPLES / "captures" / "kafka-4.1.1-kraft" / LOG).read_text().splitlines(keepends=True)
    late = tmp_path / "late.txt"
    late.write_text("".join(lines[800:1200]))
    warnings = timeline(Asked([str(late)])).warnings
    assert "its log begins at offset" in warnings[0]
