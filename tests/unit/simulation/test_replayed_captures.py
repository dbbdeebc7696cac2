"""Replays against what real clusters did: a KRaft log folded, a ZooKeeper cluster that lost a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli.replay_rendering import render_replay
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.source_format import Records
from pipelines.ingest.sources import find_source
from pipelines.simulation.cluster_replay import ReplayAnswer, ReplayEnd, ReplayRequest, build_answer, run_replay
from pipelines.simulation.metadata_log_reader import cut_log, read_log_events
from udfs.simulation.cluster_events import ClusterSettings, Event, InitialPartition, InitialState
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import get_final_state
from udfs.simulation.simulator import Simulation, simulate

SAMPLES = Path(__file__).parents[3] / "data_samples"
LATER = SAMPLES / "captures"
LOG = LATER / "kafka-4.1.1-kraft" / "cluster-metadata-dump.until-broker-2-down.txt"
FENCED = 1604  # the first offset of the batch that fences broker 2
ZOOKEEPER = SAMPLES / "kafka-2.8.2-zookeeper" / "zookeeper-dump.jsonl"


def read_partitions(path: Path) -> dict[tuple[str, int], tuple[int | None, list[int], set[int]]]:
    rows = load_snapshot(find_source(str(path))).partitions.to_pylist()
    return {
        (row["topic"], row["partition"]): (
            row["leader"] if row["leader"] >= 0 else None,
            row["replicas"],
            set(row["isr"]),
        )
        for row in rows
    }


def list_partitions(answer: ReplayAnswer) -> dict[tuple[str, int], tuple[int | None, list[int], set[int]]]:
    return {(p["topic"], p["partition"]): (p["leader"], p["replicas"], set(p["isr"])) for p in answer.partitions}


@pytest.mark.parametrize(
    ("until", "capture"),
    [
        (FENCED - 1, SAMPLES / "kafka-4.1.1-kraft" / "topics-describe.txt"),
        (None, LATER / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt"),
    ],
)
def test_a_replayed_log_ends_as_the_describe_shows(until: int | None, capture: Path) -> None:
    answer = build_answer(run_replay(ReplayRequest([str(LOG)], until=None if until is None else ReplayEnd(until))))
    assert list_partitions(answer) == read_partitions(capture)
    assert len(answer.partitions) == 743
    live = [broker.broker_id for broker in answer.brokers if broker.is_live]
    assert live == ([0, 1, 2, 3, 4, 5] if until else [0, 1, 3, 4, 5])
    assert all(row["legal"] for row in answer.state_transitions)
    assert answer.controller_epoch == 1


def test_a_replayed_log_has_the_min_isr_of_the_describe() -> None:
    """Effective: of a partition with fewer replicas, their number. Source: Partition.effectiveMinIsr of 4.x."""
    capture = LATER / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt"
    snapshot = load_snapshot(find_source(str(capture)))
    min_isr = {row["topic"]: row["min_insync_replicas"] or 1 for row in snapshot.topics.to_pylist()}
    health = [
        row for row in build_answer(run_replay(ReplayRequest([str(LOG)]))).replication_health if row["at_the_end"]
    ]
    assert {row["topic"]: row["min_insync_replicas"] for row in health} == min_isr
    assert set(min_isr.values()) == {1, 2}
    for row in health:
        needed = min(min_isr[row["topic"]], row["replication_factor"])
        assert (row["at_min_isr"], row["under_min_isr"]) == (row["in_sync"] == needed, row["in_sync"] < needed)


def test_brokers_fail_after_an_offset_of_a_log() -> None:
    """Broker 2 fails at the end of the log's first part: as the log itself goes on. The controller's epoch is known."""
    replay = run_replay(ReplayRequest([str(LOG)], fail=[2], until=ReplayEnd(FENCED - 1)))
    answer = build_answer(replay)
    assert list_partitions(answer) == read_partitions(LATER / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt")
    assert (answer.controller_epoch, replay.warnings) == (1, ())


def test_a_log_with_gaps_gives_a_warning(tmp_path: Path) -> None:
    text = LOG.read_text().splitlines(keepends=True)
    cut = tmp_path / "log.txt"
    cut.write_text("".join(text[:899] + text[1000:]))
    gaps, quarantined = run_replay(ReplayRequest([str(cut)])).warnings
    assert "lacks 101 offsets (652-752)" in gaps
    assert "101 records are quarantined" in quarantined


def write_without(replay: str, source: Path, file: Path) -> str:
    """The file, which has the lines of `of` that do not have this."""
    file.write_text("".join(line for line in source.read_text().splitlines(keepends=True) if replay not in line))
    return str(file)


def test_a_log_without_a_leader_change_has_the_epoch_of_its_batches(tmp_path: Path) -> None:
    """Its first part is missing: only the leader of the quorum is unknown."""
    cut, whole = (
        write_without("LeaderChange", LOG, tmp_path / "log.txt"),
        build_answer(run_replay(ReplayRequest([str(LOG)]))),
    )
    replay = run_replay(ReplayRequest([cut]))
    answer = build_answer(replay)
    assert (replay.initial_state.controller_epoch, answer.controller_epoch) == (1, 1)
    assert answer.partitions == whole.partitions
    assert {row["controller_epoch"] for row in answer.leadership_events} == {1}
    assert not any("quorum" in row.action for row in answer.controller_steps)
    failed = run_replay(ReplayRequest([cut], fail=[2], until=ReplayEnd(FENCED - 1)))
    assert (failed.initial_state.controller, build_answer(failed).controller_epoch) == (None, 1)


@pytest.mark.parametrize("kept", ["LeaderChange: {", 'LeaderChange: {"version":0,"leaderId":10', "LeaderChange: {}"])
def test_a_cut_leader_change_is_quarantined_and_the_rest_is_replayed(tmp_path: Path, kept: str) -> None:
    text = Path(LOG).read_text()
    begin = text.index("LeaderChange: {")
    cut = tmp_path / "log.txt"
    cut.write_text(text[:begin] + kept + text[text.index("\n", begin) :])
    whole, replay = run_replay(ReplayRequest([str(LOG)])), run_replay(ReplayRequest([str(cut)]))
    assert build_answer(replay).partitions == build_answer(whole).partitions
    (warning,) = set(replay.warnings) - set(whole.warnings)
    assert "1 record is quarantined and not replayed" in warning
    assert "unparsable: " in warning
    assert "leader" in warning.lower()


def test_a_new_epoch_without_a_leader_change(tmp_path: Path) -> None:
    """Who led before it does not lead in it."""
    batch = "baseOffset: {0} lastOffset: {0} count: 1 partitionLeaderEpoch: {1} isControl: false"
    record = "| offset: {0} CreateTime: {0} payload: {{}}"
    led = '| offset: 0 CreateTime: 0 LeaderChange: {"leaderId":100}'
    text = [batch.format(0, 1), led, *(part.format(n, 2) for n in (8, 9) for part in (batch, record))]
    epoch, events = read_log_events([Records.from_rows((n, None, raw) for n, raw in enumerate(text, 1))])
    assert epoch == 0
    assert [(one.kind, one.broker, one.value, one.offset) for one in events] == [
        (EventKind.CONTROLLER_CHANGE, 100, 1, 0),
        (EventKind.CONTROLLER_CHANGE, None, 2, 8),
    ]
    parts = [Records.from_rows((n, None, raw) for n, raw in enumerate(part, 1)) for part in (text[:2], text[2:])]
    assert read_log_events(parts) == (epoch, events)
    end = cut_log(Records.from_rows((n, None, raw) for n, raw in enumerate(text, 1)))
    assert (end.controller, end.controller_epoch) == (None, 2)
    first = cut_log(parts[0], offset=7)
    assert (first.controller, first.controller_epoch) == (100, 1)


def test_a_snapshot_of_a_log_has_an_epoch() -> None:
    """Its head says where it ends: no record of it comes after that."""
    snapshot = str(SAMPLES / "formats" / "kraft-snapshot.txt")
    assert build_answer(run_replay(ReplayRequest([snapshot]))).controller_epoch == 1
    part = run_replay(ReplayRequest([snapshot], fail=[1], until=ReplayEnd(5)))
    assert (part.initial_state.controller_epoch, len(part.initial_state.partitions)) == (1, 2)


def list_initial_partitions(simulation: Simulation, min_isr: dict[str, int | None]) -> tuple[InitialPartition, ...]:
    return tuple(
        InitialPartition(
            (row["topic"], row["partition"]),
            tuple(row["replicas"]),
            tuple(row["isr"]),
            row["leader"],
            row["leader_epoch"],
            elr=tuple(sorted(row["elr"])),
            min_isr=min_isr.get(row["topic"]) or 1,
        )
        for row in get_final_state(simulation).partitions
    )


def test_a_simulated_failure_is_what_the_controller_wrote() -> None:
    """From the state before broker 2 is fenced: leaders, epochs, ISRs and ELRs as the log has them after it."""
    before, after = (
        run_replay(ReplayRequest([str(LOG)], until=ReplayEnd(FENCED - 1))),
        run_replay(ReplayRequest([str(LOG)])),
    )
    topics = load_snapshot(find_source(str(LOG))).topics.to_pylist()
    initial = list_initial_partitions(before.simulation, {row["topic"]: row["min_insync_replicas"] for row in topics})
    brokers = tuple(before.simulation.log.brokers.tolist())
    begin = InitialState(brokers, frozenset(brokers), initial, settings=ClusterSettings(True, True, False))
    simulated = simulate(begin, [Event(0, EventKind.BROKER_DOWN, 2)])
    assert list_initial_partitions(simulated, {}) == list_initial_partitions(after.simulation, {})


def test_a_broker_of_a_zookeeper_cluster_fails() -> None:
    """Leader, ISR, leader epoch and controller epoch of every state znode of the later dump."""
    answer = build_answer(run_replay(ReplayRequest([str(ZOOKEEPER)], fail=[1001])))
    answered = {
        f"/brokers/topics/{p['topic']}/partitions/{p['partition']}/state": {
            "controller_epoch": p["controller_epoch"],
            "leader": -1 if p["leader"] is None else p["leader"],
            "version": 1,
            "leader_epoch": p["leader_epoch"],
            "isr": p["isr"],
        }
        for p in answer.partitions
    }
    later = LATER / "kafka-2.8.2-zookeeper" / "zookeeper-dump.broker-1001-down.jsonl"
    znodes = (json.loads(line) for line in later.read_text().splitlines())
    expected = {node["path"]: json.loads(node["data"]) for node in znodes if node["path"].endswith("/state")}
    assert answered == expected
    assert len(answered) == 61


def test_two_dumps_give_the_events_between_them() -> None:
    later = LATER / "kafka-2.8.2-zookeeper" / "zookeeper-dump.broker-1001-down.jsonl"
    between = build_answer(run_replay(ReplayRequest([str(ZOOKEEPER), str(later)])))
    after_failure = build_answer(run_replay(ReplayRequest([str(ZOOKEEPER)], fail=[1001])))
    assert between.partitions == after_failure.partitions
    assert between.brokers == after_failure.brokers


def test_lines_of_snapshots_use_the_words_of_their_controller(tmp_path: Path) -> None:
    """ZooKeeper has no fences and no records, be there a describe beside it that knows of ELRs."""
    later = LATER / "kafka-2.8.2-zookeeper" / "zookeeper-dump.broker-1001-down.jsonl"
    folder = tmp_path / "before"
    folder.mkdir()
    (folder / "dump.jsonl").write_text(ZOOKEEPER.read_text())
    lines_of_describe = (ZOOKEEPER.parent / "topics-describe.txt").read_text().splitlines()
    with_elr = (f"{line}\tElr: \tLastKnownElr: " if "Isr:" in line else line for line in lines_of_describe)
    (folder / "describe.txt").write_text("\n".join(with_elr) + "\n")
    for before in (ZOOKEEPER, folder):
        replay = run_replay(ReplayRequest([str(before), str(later)]))
        gone, answer, *_ = render_replay(replay)
        assert gone == "t=1s  broker gone 1001"
        assert answer.startswith("t=1s  state of pairs (x 4): 2 isr shrunk, 2 leader failed")
        assert not replay.initial_state.settings.kraft
        assert {row.path for row in build_answer(replay).controller_steps} == {"/brokers/ids/1001", "/brokers/topics/+"}
    restored = (
        line
        for line in render_replay(
            run_replay(ReplayRequest([str(p) for p in (later, write_with_broker_1001(tmp_path, later))]))
        )
    )
    assert next(restored) == "t=1s  broker registered 1001"
    kraft = SAMPLES / "kafka-4.1.1-kraft" / "topics-describe.txt"
    later = LATER / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt"
    fenced, record, *_ = render_replay(run_replay(ReplayRequest([str(kraft), str(later)])))
    assert fenced == "t=1s  fenced 2"
    assert record.startswith("t=1s  record of ")


def write_with_broker_1001(folder: Path, later: Path) -> Path:
    """The dump, in which broker 1001 is registered again."""
    (node,) = (line for line in ZOOKEEPER.read_text().splitlines() if '"path": "/brokers/ids/1001"' in line)
    (folder / "back.jsonl").write_text(f"{later.read_text()}{node}\n")
    return folder / "back.jsonl"


def test_lines_of_a_failure() -> None:
    text = list(render_replay(run_replay(ReplayRequest([str(ZOOKEEPER)], fail=[1001]))))
    assert text[0].startswith("t=0s  broker down 1001: ")
    assert text[-1] == "at the end: 4 of 5 brokers live, controller epoch 1; 61 partitions, 31 under-replicated"
