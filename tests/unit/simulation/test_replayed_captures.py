"""Replays against what real clusters did: a KRaft log folded, a ZooKeeper cluster that lost a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.replay_output import Asked, Until, answer, lines, timeline
from pipelines.ingest.records import Records
from pipelines.ingest.snapshot import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.simulation.metadata_log import events_of, read_until
from udfs.simulation.cluster_events import Begin, Event, Held, Rules
from udfs.simulation.kernels import codes as k
from udfs.simulation.plain_results import replay, state_of
from udfs.simulation.simulator import Folded

SAMPLES = Path(__file__).parents[3] / "data_samples"
LATER = SAMPLES / "captures"
LOG = LATER / "kafka-4.1.1-kraft" / "cluster-metadata-dump.until-broker-2-down.txt"
FENCED = 1604  # the first offset of the batch that fences broker 2
ZOOKEEPER = SAMPLES / "kafka-2.8.2-zookeeper" / "zookeeper-dump.jsonl"


def described(path: Path) -> dict[tuple[str, int], tuple[int | None, list[int], set[int]]]:
    rows = load_snapshot(find_source(str(path))).partitions.to_pylist()
    return {
        (row["topic"], row["partition"]): (
            row["leader"] if row["leader"] >= 0 else None,
            row["replicas"],
            set(row["isr"]),
        )
        for row in rows
    }


def shown(state: dict[str, Any]) -> dict[tuple[str, int], tuple[int | None, list[int], set[int]]]:
    return {(p["topic"], p["partition"]): (p["leader"], p["replicas"], set(p["isr"])) for p in state["partitions"]}


@pytest.mark.parametrize(
    ("until", "capture"),
    [
        (FENCED - 1, SAMPLES / "kafka-4.1.1-kraft" / "topics-describe.txt"),
        (None, LATER / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt"),
    ],
)
def test_the_log_folds_to_what_was_described(until: int | None, capture: Path) -> None:
    state = answer(timeline(Asked([str(LOG)], until=None if until is None else Until(until))))
    assert shown(state) == described(capture)
    assert len(state["partitions"]) == 743
    live = [broker["broker_id"] for broker in state["brokers"] if broker["live"]]
    assert live == ([0, 1, 2, 3, 4, 5] if until else [0, 1, 3, 4, 5])
    assert all(row["legal"] for row in state["state_transitions"])
    assert state["controller_epoch"] == 1


def test_the_logs_minimum_isr_is_what_was_described() -> None:
    """Effective: of a partition with fewer replicas, their number. Source: Partition.effectiveMinIsr of 4.x."""
    capture = LATER / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt"
    snapshot = load_snapshot(find_source(str(capture)))
    least = {row["topic"]: row["min_insync_replicas"] or 1 for row in snapshot.topics.to_pylist()}
    health = [row for row in answer(timeline(Asked([str(LOG)])))["replication_health"] if row["at_the_end"]]
    assert {row["topic"]: row["min_insync_replicas"] for row in health} == least
    assert set(least.values()) == {1, 2}
    for row in health:
        needed = min(least[row["topic"]], row["replication_factor"])
        assert (row["at_min_isr"], row["under_min_isr"]) == (row["in_sync"] == needed, row["in_sync"] < needed)


def test_a_log_until_an_offset_may_be_failed() -> None:
    """Broker 2 fails at the end of the log's first part: as the log itself goes on. The controller's epoch is known."""
    told = timeline(Asked([str(LOG)], fail=[2], until=Until(FENCED - 1)))
    state = answer(told)
    assert shown(state) == described(LATER / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt")
    assert (state["controller_epoch"], told.warnings) == (1, ())


def test_what_a_log_lacks_is_said(tmp_path: Path) -> None:
    text = LOG.read_text().splitlines(keepends=True)
    cut = tmp_path / "log.txt"
    cut.write_text("".join(text[:899] + text[1000:]))
    gaps, quarantined = timeline(Asked([str(cut)])).warnings
    assert "lacks 101 offsets (652-752)" in gaps
    assert "101 records are quarantined" in quarantined


def _without(told: str, of: Path, file: Path) -> str:
    """The file, which has the lines of `of` that do not have this."""
    file.write_text("".join(line for line in of.read_text().splitlines(keepends=True) if told not in line))
    return str(file)


def test_a_log_that_tells_of_no_leader_has_its_batches_epoch(tmp_path: Path) -> None:
    """Its first part was dropped, say. Only who leads is not known."""
    cut, whole = _without("LeaderChange", LOG, tmp_path / "log.txt"), answer(timeline(Asked([str(LOG)])))
    told = timeline(Asked([cut]))
    state = answer(told)
    assert (told.begin.controller_epoch, state["controller_epoch"]) == (1, 1)
    assert state["partitions"] == whole["partitions"]
    assert {row["controller_epoch"] for row in state["leadership_events"]} == {1}
    assert not any("quorum" in row["action"] for row in state["controller_steps"])
    failed = timeline(Asked([cut], fail=[2], until=Until(FENCED - 1)))
    assert (failed.begin.controller, answer(failed)["controller_epoch"]) == (None, 1)


def test_an_epoch_that_begins_where_lines_are_missing(tmp_path: Path) -> None:
    """Who led before it does not lead in it."""
    batch = "baseOffset: {0} lastOffset: {0} count: 1 partitionLeaderEpoch: {1} isControl: false"
    record = "| offset: {0} CreateTime: {0} payload: {{}}"
    led = '| offset: 0 CreateTime: 0 LeaderChange: {"leaderId":100}'
    text = [batch.format(0, 1), led, *(part.format(n, 2) for n in (8, 9) for part in (batch, record))]
    epoch, events = events_of([Records.of((n, None, raw) for n, raw in enumerate(text, 1))])
    assert epoch == 0
    assert [(one.kind, one.broker, one.value, one.offset) for one in events] == [
        (k.LED_BY, 100, 1, 0),
        (k.LED_BY, None, 2, 8),
    ]
    parts = [Records.of((n, None, raw) for n, raw in enumerate(part, 1)) for part in (text[:2], text[2:])]
    assert events_of(parts) == (epoch, events)
    end = read_until(Records.of((n, None, raw) for n, raw in enumerate(text, 1)))
    assert (end.controller, end.controller_epoch) == (None, 2)
    first = read_until(parts[0], offset=7)
    assert (first.controller, first.controller_epoch) == (100, 1)


def test_a_snapshot_of_a_log_tells_its_epoch() -> None:
    """Its head says where it ends: no record of it comes after that."""
    snapshot = str(SAMPLES / "formats" / "kraft-snapshot.txt")
    assert answer(timeline(Asked([snapshot])))["controller_epoch"] == 1
    part = timeline(Asked([snapshot], fail=[1], until=Until(5)))
    assert (part.begin.controller_epoch, len(part.begin.partitions)) == (1, 2)


def _held(folded: Folded, min_isr: dict[str, int | None]) -> tuple[Held, ...]:
    return tuple(
        Held(
            (row["topic"], row["partition"]),
            tuple(row["replicas"]),
            tuple(row["isr"]),
            row["leader"],
            row["leader_epoch"],
            elr=tuple(sorted(row["elr"])),
            min_isr=min_isr.get(row["topic"]) or 1,
        )
        for row in state_of(folded)["partitions"]
    )


def test_what_the_controller_wrote_is_what_the_kernel_decides() -> None:
    """From the state before broker 2 is fenced: leaders, epochs, ISRs and ELRs as the log has them after it."""
    before, after = timeline(Asked([str(LOG)], until=Until(FENCED - 1))), timeline(Asked([str(LOG)]))
    topics = load_snapshot(find_source(str(LOG))).topics.to_pylist()
    held = _held(before.replayed, {row["topic"]: row["min_insync_replicas"] for row in topics})
    brokers = tuple(before.replayed.packed.brokers.tolist())
    begin = Begin(brokers, frozenset(brokers), held, rules=Rules(True, True, False))
    decided = replay(begin, [Event(0, k.BROKER_DOWN, 2)])
    assert _held(decided, {}) == _held(after.replayed, {})


def test_a_broker_of_a_zookeeper_cluster_fails() -> None:
    """Leader, ISR, leader epoch and controller epoch of every state znode of the later dump."""
    state = answer(timeline(Asked([str(ZOOKEEPER)], fail=[1001])))
    got = {
        f"/brokers/topics/{p['topic']}/partitions/{p['partition']}/state": {
            "controller_epoch": p["controller_epoch"],
            "leader": -1 if p["leader"] is None else p["leader"],
            "version": 1,
            "leader_epoch": p["leader_epoch"],
            "isr": p["isr"],
        }
        for p in state["partitions"]
    }
    later = LATER / "kafka-2.8.2-zookeeper" / "zookeeper-dump.broker-1001-down.jsonl"
    znodes = (json.loads(line) for line in later.read_text().splitlines())
    want = {node["path"]: json.loads(node["data"]) for node in znodes if node["path"].endswith("/state")}
    assert got == want
    assert len(got) == 61


def test_two_dumps_differ_by_what_happened() -> None:
    later = LATER / "kafka-2.8.2-zookeeper" / "zookeeper-dump.broker-1001-down.jsonl"
    between = answer(timeline(Asked([str(ZOOKEEPER), str(later)])))
    after_failure = answer(timeline(Asked([str(ZOOKEEPER)], fail=[1001])))
    assert between["partitions"] == after_failure["partitions"]
    assert between["brokers"] == after_failure["brokers"]


def test_snapshots_are_told_as_their_controller_keeps_them(tmp_path: Path) -> None:
    """ZooKeeper has no fences and no records, be there a describe beside it that knows of ELRs."""
    later = LATER / "kafka-2.8.2-zookeeper" / "zookeeper-dump.broker-1001-down.jsonl"
    folder = tmp_path / "before"
    folder.mkdir()
    (folder / "dump.jsonl").write_text(ZOOKEEPER.read_text())
    lines_of_describe = (ZOOKEEPER.parent / "topics-describe.txt").read_text().splitlines()
    with_elr = (f"{line}\tElr: \tLastKnownElr: " if "Isr:" in line else line for line in lines_of_describe)
    (folder / "describe.txt").write_text("\n".join(with_elr) + "\n")
    for before in (ZOOKEEPER, folder):
        told = timeline(Asked([str(before), str(later)]))
        gone, state, *_ = lines(told)
        assert gone == "t=1s  broker gone 1001"
        assert state.startswith("t=1s  state of pairs (x 4): 2 isr shrunk, 2 leader failed")
        assert not told.begin.rules.kraft
        assert {row["path"] for row in answer(told)["controller_steps"]} == {"/brokers/ids/1001", "/brokers/topics/+"}
    back = (line for line in lines(timeline(Asked([str(p) for p in (later, _as_before(tmp_path, later))]))))
    assert next(back) == "t=1s  broker registered 1001"
    kraft = SAMPLES / "kafka-4.1.1-kraft" / "topics-describe.txt"
    now = LATER / "kafka-4.1.1-kraft" / "topics-describe.broker-2-down.txt"
    fenced, record, *_ = lines(timeline(Asked([str(kraft), str(now)])))
    assert fenced == "t=1s  fenced 2"
    assert record.startswith("t=1s  record of ")


def _as_before(folder: Path, later: Path) -> Path:
    """The dump, in which broker 1001 is registered again."""
    (node,) = (line for line in ZOOKEEPER.read_text().splitlines() if '"path": "/brokers/ids/1001"' in line)
    (folder / "back.jsonl").write_text(f"{later.read_text()}{node}\n")
    return folder / "back.jsonl"


def test_the_timeline_in_words() -> None:
    text = list(lines(timeline(Asked([str(ZOOKEEPER)], fail=[1001]))))
    assert text[0].startswith("t=0s  broker down 1001: ")
    assert text[-1] == (
        "at the end: 4 of 5 brokers live, controller epoch 1; 61 partitions, 31 under-replicated, 0 without leader"
    )
