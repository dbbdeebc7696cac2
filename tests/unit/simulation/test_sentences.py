"""Sentences about data and groups, repetitions, settings: their events, and how wrong ones are rejected."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pipelines.cli.replay_rendering import render_replay
from pipelines.errors import SourceError
from pipelines.simulation.cluster_replay import ReplayRequest, run_replay
from pipelines.simulation.scenario.scenario_reader import Scenario, read_scenario
from pipelines.simulation.scenario.sentences import SKIPPED_IF_REJECTED
from udfs.simulation.cluster_events import ClusterSettings, Event, InitialPartition, InitialState
from udfs.simulation.group_events import GroupEvent, GroupEventKind
from udfs.simulation.kernels.codes import EventKind

HEAD = "brokers: [1, 2, 3]\ntopics:\n  orders: [[1, 2], [2, 3], [3, 1]]\n  solo: [[2]]\n"
WITHOUT_IMPLIED_FETCHES = HEAD + "settings: {followers_fetch_every_ms: 0}\n"


def scenario(
    tmp_path: Path, *sentences: str, head: str = WITHOUT_IMPLIED_FETCHES, source_state: InitialState | None = None
) -> Scenario:
    file = tmp_path / "night.yaml"
    file.write_text(head + "events:\n" + "".join(f"  - {sentence}\n" for sentence in sentences))
    return read_scenario(str(file), source_state)


def fetches(result: Scenario) -> list[tuple[int, int | None, tuple[str, int] | None]]:
    return [(one.at_ms, one.broker, one.partition) for one in result.events if one.kind == EventKind.FETCH]


def test_produce(tmp_path: Path) -> None:
    result = scenario(
        tmp_path, "t=1 produce 25 to orders-0", "t=2 produce 5 to orders-0, orders-1 acks=1 timeout=500ms"
    )
    first, *both = result.events
    expected = Event(1000, EventKind.APPEND, partition=("orders", 0), request=0, acks=-1, messages=25, wait_ms=30_000)
    assert first == expected
    for number, one in enumerate(both):
        assert one == Event(
            2000,
            EventKind.APPEND,
            partition=("orders", number),
            offset=1,
            request=1,
            parts=2,
            acks=1,
            messages=5,
            wait_ms=500,
        )
    acks = ("0", "1", "-1", "all")
    result = scenario(tmp_path, *(f"t=1 produce 1 to solo-0 timeout=5 acks={text}" for text in acks))
    assert [(one.acks, one.wait_ms) for one in result.events] == [(0, 5000), (1, 5000), (-1, 5000), (-1, 5000)]


def test_a_replica_fetches_each_partition_alone(tmp_path: Path) -> None:
    result = scenario(
        tmp_path, "t=2 broker 3 fetches orders-1,orders-2 from 8 wait=1s min=10", "t=3 broker 2 fetches solo-0"
    )
    first, second, plain = result.events
    assert first == Event(
        2000, EventKind.FETCH, 3, ("orders", 1), request=0, wait_ms=1000, min_bytes=10, fetch_offset=8
    )
    assert (second.partition, second.request, second.parts) == (("orders", 2), 1, 1)
    assert (plain.fetch_offset, plain.wait_ms, plain.min_bytes, plain.value) == (None, 500, 1, 0)


def test_a_consumer_fetches_with_one_request(tmp_path: Path) -> None:
    result = scenario(tmp_path, "t=2 consumer fetches orders-0,orders-1 from 5 wait=0 min=100")
    assert [one.partition for one in result.events] == [("orders", 0), ("orders", 1)]
    for one in result.events:
        assert (one.kind, one.broker, one.request, one.parts, one.fetch_offset) == (EventKind.FETCH, None, 0, 2, 5)
        assert (one.wait_ms, one.min_bytes) == (0, 100)


def test_followers_fetch_the_partitions_assigned_at_that_time(tmp_path: Path) -> None:
    result = scenario(
        tmp_path,
        "t=1 followers fetch orders-0",
        "t=2 topic new created 1:2",
        "t=3 topic new grown 3:1",
        "t=4 reassign new-0 to 3,2",
        "t=5 followers fetch new-0,new-1 wait=1s",
        "t=6 topic orders deleted",
        "t=7 followers fetch",
    )
    by_time: dict[int, list[tuple[int | None, tuple[str, int] | None]]] = {}
    for at, broker, key in fetches(result):
        by_time.setdefault(at, []).append((broker, key))
    assert by_time[1000] == [(1, ("orders", 0)), (2, ("orders", 0))]
    new = [(3, ("new", 0)), (2, ("new", 0)), (1, ("new", 0)), (3, ("new", 1)), (1, ("new", 1))]
    assert by_time[5000] == new
    assert by_time[7000] == [(2, ("solo", 0)), *new]
    produced_fetches = [one for one in result.events if one.kind == EventKind.FETCH]
    assert all(one.value == SKIPPED_IF_REJECTED for one in produced_fetches)
    assert [one.request for one in produced_fetches] == list(range(len(produced_fetches)))
    assert Counter(one.wait_ms for one in produced_fetches) == {500: 8, 1000: 5}


def test_offsets_and_old_controllers(tmp_path: Path) -> None:
    result = scenario(
        tmp_path,
        "t=0 offsets of broker 2 orders-0 leo=9 hw=6",
        "t=0 offsets of broker 1 orders-0 leo=9",
        "t=5 old controller 1 of epoch 4 writes orders-0",
    )
    assert result.events == (
        Event(0, EventKind.REPLICA_OFFSETS, 2, ("orders", 0), leo=9, hw=6),
        Event(0, EventKind.REPLICA_OFFSETS, 1, ("orders", 0), leo=9, offset=1),
        Event(5000, EventKind.STALE_CONTROLLER, 1, ("orders", 0), 4, offset=2),
    )


@pytest.mark.parametrize("fails", ["down", "fenced"])
def test_a_failed_broker_cannot_become_controller(tmp_path: Path, fails: str) -> None:
    """By time, as sentences of brokers have been until then."""
    lost, down = "t=20 controller lost to 3", f"t=10 broker 3 {fails}"
    with pytest.raises(SourceError) as caught:
        scenario(tmp_path, lost, down)
    wrong = "broker 3 is down at t=20s: it cannot be the controller. Name a broker that is up then: 1, 2."
    assert str(caught.value).endswith(f"night.yaml, line 7: {wrong}")
    for back in ("up", "unfenced"):
        assert scenario(tmp_path, lost, down, f"t=15 broker 3 {back}").events[-1].broker == 3
    assert scenario(tmp_path, lost, "t=21 broker 3 down").events[0].broker == 3
    assert scenario(tmp_path, lost, "t=10 broker 3 shutting down").events[-1].broker == 3
    with pytest.raises(SourceError, match="Start a broker earlier"):
        scenario(tmp_path, lost, f"t=10 brokers 1,2,3 {fails}")
    source_state = InitialState((1, 2, 3), frozenset((1, 2)))
    with pytest.raises(SourceError, match="broker 3 is down at t=20s"):
        scenario(tmp_path, lost, head="", source_state=source_state)
    assert scenario(tmp_path, "t=20 controller lost to 2", head="", source_state=source_state).events[0].broker == 2


def test_any_sentence_can_be_repeated(tmp_path: Path) -> None:
    result = scenario(
        tmp_path, "t=1..2 every 400ms produce 1 to solo-0", "t=1.4 broker 2 down", "t=500ms..1s every 1m broker 2 up"
    )
    assert [(one.at_ms, one.kind, one.offset) for one in result.events] == [
        (500, EventKind.BROKER_UP, 0),
        (1000, EventKind.APPEND, 1),
        (1400, EventKind.APPEND, 2),
        (1400, EventKind.BROKER_DOWN, 3),
        (1800, EventKind.APPEND, 4),
    ]
    assert [one.request for one in result.events if one.kind == EventKind.APPEND] == [0, 1, 2]


def test_followers_fetch_what_is_produced_unless_a_sentence_says_otherwise(tmp_path: Path) -> None:
    writes = ("t=1 produce 5 to orders-0,orders-2", "t=2 broker 1 down")
    result = fetches(scenario(tmp_path, *writes, head=HEAD))
    assert sorted({at for at, _, _ in result}) == [1000, 1500, 2000]
    assert result[:4] == [
        (1000, 1, ("orders", 0)),
        (1000, 2, ("orders", 0)),
        (1000, 3, ("orders", 2)),
        (1000, 1, ("orders", 2)),
    ]
    written = scenario(tmp_path, *writes, "t=1..2 every 500ms followers fetch orders-0,orders-2")
    implied = scenario(tmp_path, *writes, head=HEAD)
    assert fetches(written) == result
    assert {(one.request, one.wait_ms, one.value) for one in implied.events if one.kind == EventKind.FETCH} == {
        (one.request, one.wait_ms, one.value) for one in written.events if one.kind == EventKind.FETCH
    }
    slow = fetches(scenario(tmp_path, *writes, head=HEAD + "settings: {followers_fetch_every_ms: 1000}\n"))
    assert sorted({at for at, _, _ in slow}) == [1000, 2000]
    assert not fetches(scenario(tmp_path, *writes))
    assert not fetches(scenario(tmp_path, "t=1 broker 1 down", head=HEAD))
    assert len(fetches(scenario(tmp_path, *writes, "t=9 broker 2 fetches orders-0", head=HEAD))) == 1
    # Not while a topic is not there.
    late = fetches(
        scenario(tmp_path, "t=1 produce 1 to solo-0", "t=2 topic new created 1", "t=2 produce 1 to new-0", head=HEAD)
    )
    assert [at for at, _, key in late if key == ("new", 0)] == [2000]


def test_a_consumer_does_not_stop_followers(tmp_path: Path) -> None:
    result = fetches(scenario(tmp_path, "t=1 produce 5 to solo-0", "t=1 consumer fetches solo-0 from 0", head=HEAD))
    assert result == [(1000, None, ("solo", 0)), (1000, 2, ("solo", 0))]


def test_group_events_are_separate(tmp_path: Path) -> None:
    result = scenario(
        tmp_path,
        "t=1 group night-shift member a joins session=5s rebalance=1m",
        "t=2 group night-shift member a joins again changed",
        "t=3 group night-shift member a syncs",
        "t=4..5 every 1s group night-shift member a heartbeats generation=3",
        "t=6 group night-shift member a leaves",
        "t=7 group night-shift coordinator lost",
        "t=8 group night-shift coordinator loaded",
    )
    name = "night-shift"
    assert not result.events
    assert result.group_events == (
        GroupEvent(1000, GroupEventKind.JOIN, name, "a", 5000, 60_000),
        GroupEvent(2000, GroupEventKind.JOIN, name, "a", known=True, changed=True),
        GroupEvent(3000, GroupEventKind.SYNC, name, "a"),
        GroupEvent(4000, GroupEventKind.HEARTBEAT, name, "a", generation=3),
        GroupEvent(5000, GroupEventKind.HEARTBEAT, name, "a", generation=3),
        GroupEvent(6000, GroupEventKind.LEAVE, name, "a"),
        GroupEvent(7000, GroupEventKind.COORDINATOR_LOST, name),
        GroupEvent(8000, GroupEventKind.COORDINATOR_LOADED, name),
    )


def test_settings_of_the_cluster(tmp_path: Path) -> None:
    settings = "settings:\n  truncate_to: high_watermark\n  checkpoint_ms: 100\n  followers_fetch_every_ms: 100\n"
    result = scenario(tmp_path, head=HEAD + settings)
    assert result.initial_state is not None
    assert result.initial_state.settings == ClusterSettings(truncate_to="high_watermark", checkpoint_ms=100)
    assert result.settings == {"truncate_to": "high_watermark", "checkpoint_ms": 100}


def test_with_a_source_that_shows_one_partition(tmp_path: Path) -> None:
    """What the source does not show is not there: only partition 3 of the topic is."""
    source_state = InitialState((1, 2), frozenset((1, 2)), (InitialPartition(("t", 3), (1, 2), (1, 2), 1),))
    result = scenario(tmp_path, "t=1 preferred election", "t=1 followers fetch", head="", source_state=source_state)
    assert result.initial_state is None
    assert {one.partition for one in result.events} == {("t", 3)}
    with pytest.raises(SourceError, match=r"line 2: there is no partition t-0. Topics: t \(1 partition\)"):
        scenario(tmp_path, "t=1 followers fetch t-0", head="", source_state=source_state)
    for key, line in (("brokers: [1]", 1), ("controller: 1", 1), ("topics: {}", 1)):
        with pytest.raises(SourceError, match=f"line {line}: defines {key.split(':')[0]}, but so does the source"):
            scenario(tmp_path, head=f"{key}\n", source_state=source_state)


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("t=1 produce 5 to orders-7", "there is no partition orders-7. Topics: orders \\(3 partitions\\), solo"),
        ("t=1 produce 5 to orders-0,orders-0", "orders-0,orders-0 names a partition twice. Name distinct"),
        ("t=1 produce 5 to orders-0 acks=2", "acks=2 is not valid. Write 0, 1 or all."),
        ("t=1 produce 5 to orders-0 timeout=soon", "timeout=soon is not valid. Write a time"),
        ("t=1 produce 5 to orders-0 acks=1 acks=0", "acks is given twice"),
        ("t=1 produce 5 to orders-0 min=1", "'min' is not an option of this sentence. Options: acks, timeout."),
        ("t=1 produce some to orders-0", "'produce some to orders-0' matches no sentence"),
        ("t=1 produce 5 to orders", "'produce 5 to orders' matches no sentence"),
        (f"t=1 produce 9{21 * '0'} to orders-0", f"9{21 * '0'} is too large a number. Write at most 999,999,999,999."),
        (
            f"t=1 produce {10**12} to orders-0,solo-0 acks=1",
            "1000000000000 is too large a number. Write at most 999,999,9",
        ),
        ("t=1 produce 9 to orders-1234567890", "1234567890 is too large a number. Write at most 999,999,999."),
        (f"t=1 brokers 1,{10**9} down", "1000000000 is too large a number. Write at most 999,999,999."),
        (
            f"t=1 consumer fetches orders-0 from {10**12}",
            "1000000000000 is too large a number. Write at most 999,999,9",
        ),
        (f"t={10**12} followers fetch", "1000000000000 is too large a number. Write at most 999,999,999,999."),
        (f"t=1 produce {10**12} at orders-0", "'produce 1000000000000 at orders-0' matches no sentence"),
        (f"t=1 topic t{10**12} deleted", "there is no topic t1000000000000"),
        (f"t=1 offsets of broker 2 orders-0 leo={10**12}", "leo=1000000000000 is not valid. Write a whole number up t"),
        (
            f"t=1 topic solo config min.insync.replicas={10**9}",
            "min.insync.replicas=1000000000 is not valid. Write a number from 1 to 999",
        ),
        ("t=1 broker 9 fetches orders-0", "there is no broker 9. Brokers: 1, 2, 3."),
        ("t=1 broker 2 fetches orders-0 min=few", "min=few is not valid. Write a whole number."),
        ("t=1 broker 2 fetches orders-0 from -1", "'broker 2 fetches orders-0 from -1' matches no sentence"),
        ("t=1 followers fetch orders-9", "there is no partition orders-9"),
        ("t=1 followers fetch orders-0 wait=", "'followers fetch orders-0 wait=' matches no sentence"),
        ("t=1 consumer fetches orders-0", "'consumer fetches orders-0' matches no sentence"),
        ("t=1 offsets of broker 3 orders-0 leo=1", "broker 3 has no replica of orders-0. Its replicas: 1, 2."),
        ("t=1 offsets of broker 2 orders-0 hw=1", "the log end offset is missing. Add it, as in leo=9."),
        ("t=1 offsets of broker 2 orders-0 leo=1 hw=2", "hw=2 is beyond leo=1"),
        ("t=1 old controller 9 of epoch 1 writes orders-0", "there is no broker 9"),
        ("t=1 old controller 1 of epoch 1 writes orders-9", "there is no partition orders-9"),
        ("t=1 topic nothing deleted", "there is no topic nothing. Topics: orders"),
        ("t=1 group g member m joins session=never", "session=never is not valid. Write a time"),
        ("t=1 group g member m syncs session=1s", "'session' is not an option of this sentence. Options: generation."),
        ("t=1 group g member m sleeps", "'group g member m sleeps' matches no sentence"),
        ("t=1..2 followers fetch", "a repetition needs an end and an interval. As in: t=0..60 every 500ms"),
        ("t=1 every 2s followers fetch", "a repetition needs an end and an interval"),
        ("t=1..2 every 0 followers fetch", "every 0 never ends. Repeat it every 1ms or more."),
        ("t=2..1 every 1s followers fetch", "ends at 1, before it starts. Write an end after 2."),
        ("t=0..99h every 1ms broker 2 down", "makes more than 1,000,000 events. Repeat it less often"),
        ("t=soon broker 2 down", "'t=soon broker 2 down' is not a sentence. Begin with a time"),
    ],
)
def test_wrong_sentences_are_rejected_with_file_line_and_remedy(tmp_path: Path, sentence: str, message: str) -> None:
    with pytest.raises(SourceError, match=f"night.yaml, line 8: {message}"):
        scenario(tmp_path, "t=0 broker 1 up", sentence)


def test_events_of_a_repeated_sentence_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.simulation.scenario.scenario_reader.MAX_EVENTS", 20)
    assert len(scenario(tmp_path, "t=1..5 every 1s followers fetch orders-0,orders-1").events) == 20
    with pytest.raises(SourceError, match=r"line 7: makes more than 1,000,000 events. Repeat it less often"):
        scenario(tmp_path, "t=1..6 every 1s followers fetch orders-0,orders-1")
    with pytest.raises(SourceError, match="Under settings, set followers_fetch_every_ms higher, or to 0"):
        scenario(tmp_path, "t=0 produce 1 to orders-0,orders-1", "t=6 broker 1 down", head=HEAD)
    with pytest.raises(SourceError, match="Under settings, set followers_fetch_every_ms higher, or to 0"):
        scenario(tmp_path, "t=0 produce 1 to solo-0", "t=1h broker 1 down", head=HEAD)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("lag: 1", "settings: 'lag' is unknown. Settings: kraft, .*followers_fetch_every_ms."),
        ("kraft: 1", "settings: kraft is 1. Write true or false."),
        ("message_bytes: many", "settings: message_bytes is 'many'. Write a whole number."),
        ("followers_fetch_every_ms: -1", "settings: followers_fetch_every_ms is -1. Write 0 or more."),
        ("replica_lag_time_max_ms: 1", "settings: replica_lag_time_max_ms is 1. Write 2 or more."),
        (f"message_bytes: {10**12}", "settings: message_bytes is 1000000000000. Write at most 999,999,999,999."),
        ("checkpoint_ms: 0", "settings: checkpoint_ms is 0. Write 1 or more."),
        ("truncate_to: hw", "settings: truncate_to is 'hw'. Write epoch or high_watermark."),
        ("truncate_to: 1", "settings: truncate_to is 1. Write text."),
    ],
)
def test_wrong_settings_are_rejected(tmp_path: Path, settings: str, message: str) -> None:
    with pytest.raises(SourceError, match=f"line 6: {message}"):
        scenario(tmp_path, head=f"{HEAD}settings:\n  {settings}\n")


def test_a_broker_can_have_id_0(tmp_path: Path) -> None:
    result = scenario(tmp_path, "t=1 broker 0 down", head="brokers: [0, 1]\ntopics:\n  t: [[0, 1]]\n")
    assert result.initial_state is not None
    assert (result.initial_state.brokers, result.initial_state.partitions[0].replicas) == ((0, 1), (0, 1))


def test_wrong_types_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"line 1: broker 1000000000 is too large a number. Write at most 999,999,999"
    ):
        scenario(tmp_path, head=f"brokers: [1, {10**9}]\n")
    with pytest.raises(SourceError, match="line 2: topics is not a mapping"):
        scenario(tmp_path, head="brokers: [1]\ntopics: [1]\n")
    with pytest.raises(SourceError, match="line 2: settings is not a mapping"):
        scenario(tmp_path, head="brokers: [1]\nsettings: [1]\n")
    with pytest.raises(SourceError, match=r"line 3: topic t: the replicas of partition 0 are \[\[1\]\]"):
        scenario(tmp_path, head="brokers: [1]\ntopics:\n  t: [[[1]]]\n")
    with pytest.raises(SourceError, match="line 2: controller 9 is not one of the brokers"):
        scenario(tmp_path, head="brokers: [1]\ncontroller: 9\n")
    file = tmp_path / "night.yaml"
    file.write_text("brokers: [1]\nevents: broker 1 down\n")
    with pytest.raises(SourceError, match=r"line 2: events is not a list. Write sentences"):
        read_scenario(str(file), None)
    file.write_text("brokers: [1]\nevents:\n  - 5\n")
    with pytest.raises(SourceError, match="line 3: 5 is not a sentence"):
        read_scenario(str(file), None)


def test_lines_omit_implied_fetches(tmp_path: Path) -> None:
    file = tmp_path / "night.yaml"
    file.write_text(HEAD + "events:\n  - t=1 produce 5 to orders-0\n  - t=3 broker 3 down\n")
    text = list(render_replay(run_replay(ReplayRequest([str(file)]))))
    assert text[0].startswith("t=1s  append of orders")
    assert not any("fetch" in line for line in text)
