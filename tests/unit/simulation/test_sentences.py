"""Sentences of data and of groups, repeated ones, settings: the events they make, and what is said of wrong ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pipelines.cli.replay_output import Asked, lines, timeline
from pipelines.errors import SourceError
from pipelines.simulation.scenario.data_sentences import SKIPPED_IF_REJECTED
from pipelines.simulation.scenario.scenario_reader import Scenario, read_scenario
from udfs.simulation.cluster_events import Begin, Event, Held, Rules
from udfs.simulation.groups.group_simulation import GroupEvent
from udfs.simulation.kernels import codes as k
from udfs.simulation.kernels import consumer_groups as g

HEAD = "brokers: [1, 2, 3]\ntopics:\n  orders: [[1, 2], [2, 3], [3, 1]]\n  solo: [[2]]\n"
AS_TOLD = HEAD + "settings: {followers_fetch_every_ms: 0}\n"


def scenario(tmp_path: Path, *sentences: str, head: str = AS_TOLD, beside: Begin | None = None) -> Scenario:
    file = tmp_path / "night.yaml"
    file.write_text(head + "events:\n" + "".join(f"  - {sentence}\n" for sentence in sentences))
    return read_scenario(str(file), beside)


def fetches(found: Scenario) -> list[tuple[int, int | None, tuple[str, int] | None]]:
    return [(one.at_ms, one.broker, one.partition) for one in found.events if one.kind == k.FETCH]


def test_produce(tmp_path: Path) -> None:
    told = scenario(tmp_path, "t=1 produce 25 to orders-0", "t=2 produce 5 to orders-0, orders-1 acks=1 timeout=500ms")
    first, *both = told.events
    want = Event(1000, k.APPEND, partition=("orders", 0), request=0, acks=-1, messages=25, wait_ms=30_000)
    assert first == want
    for number, one in enumerate(both):
        assert one == Event(
            2000, k.APPEND, partition=("orders", number), offset=1, request=1, parts=2, acks=1, messages=5, wait_ms=500
        )
    acks = ("0", "1", "-1", "all")
    told = scenario(tmp_path, *(f"t=1 produce 1 to solo-0 timeout=5 acks={text}" for text in acks))
    assert [(one.acks, one.wait_ms) for one in told.events] == [(0, 5000), (1, 5000), (-1, 5000), (-1, 5000)]


def test_a_replica_fetches_each_partition_alone(tmp_path: Path) -> None:
    told = scenario(
        tmp_path, "t=2 broker 3 fetches orders-1,orders-2 from 8 wait=1s min=10", "t=3 broker 2 fetches solo-0"
    )
    first, second, plain = told.events
    assert first == Event(2000, k.FETCH, 3, ("orders", 1), request=0, wait_ms=1000, min_bytes=10, fetch_offset=8)
    assert (second.partition, second.request, second.parts) == (("orders", 2), 1, 1)
    assert (plain.fetch_offset, plain.wait_ms, plain.min_bytes, plain.value) == (None, 500, 1, 0)


def test_a_consumer_fetches_with_one_request(tmp_path: Path) -> None:
    told = scenario(tmp_path, "t=2 consumer fetches orders-0,orders-1 from 5 wait=0 min=100")
    assert [one.partition for one in told.events] == [("orders", 0), ("orders", 1)]
    for one in told.events:
        assert (one.kind, one.broker, one.request, one.parts, one.fetch_offset) == (k.FETCH, None, 0, 2, 5)
        assert (one.wait_ms, one.min_bytes) == (0, 100)


def test_followers_fetch_what_they_are_assigned_by_then(tmp_path: Path) -> None:
    told = scenario(
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
    for at, broker, key in fetches(told):
        by_time.setdefault(at, []).append((broker, key))
    assert by_time[1000] == [(1, ("orders", 0)), (2, ("orders", 0))]
    new = [(3, ("new", 0)), (2, ("new", 0)), (1, ("new", 0)), (3, ("new", 1)), (1, ("new", 1))]
    assert by_time[5000] == new
    assert by_time[7000] == [(2, ("solo", 0)), *new]
    made = [one for one in told.events if one.kind == k.FETCH]
    assert all(one.value == SKIPPED_IF_REJECTED for one in made)
    assert [one.request for one in made] == list(range(len(made)))
    assert Counter(one.wait_ms for one in made) == {500: 8, 1000: 5}


def test_offsets_and_old_controllers(tmp_path: Path) -> None:
    told = scenario(
        tmp_path,
        "t=0 offsets of broker 2 orders-0 leo=9 hw=6",
        "t=0 offsets of broker 1 orders-0 leo=9",
        "t=5 old controller 1 of epoch 4 writes orders-0",
    )
    assert told.events == (
        Event(0, k.OFFSETS, 2, ("orders", 0), leo=9, hw=6),
        Event(0, k.OFFSETS, 1, ("orders", 0), leo=9, offset=1),
        Event(5000, k.OLD_CONTROLLER, 1, ("orders", 0), 4, offset=2),
    )


@pytest.mark.parametrize("fails", ["down", "fenced"])
def test_who_is_down_cannot_control(tmp_path: Path, fails: str) -> None:
    """By time, as sentences of brokers have been until then."""
    lost, down = "t=20 controller lost to 3", f"t=10 broker 3 {fails}"
    with pytest.raises(SourceError) as caught:
        scenario(tmp_path, lost, down)
    wrong = "broker 3 is down at t=20s: it cannot control. Name one of those that are up then: 1, 2."
    assert str(caught.value).endswith(f"night.yaml, line 7: {wrong}")
    for back in ("up", "unfenced"):
        assert scenario(tmp_path, lost, down, f"t=15 broker 3 {back}").events[-1].broker == 3
    assert scenario(tmp_path, lost, "t=21 broker 3 down").events[0].broker == 3
    assert scenario(tmp_path, lost, "t=10 broker 3 shutting down").events[-1].broker == 3
    with pytest.raises(SourceError, match="Let a broker be up before"):
        scenario(tmp_path, lost, f"t=10 brokers 1,2,3 {fails}")
    beside = Begin((1, 2, 3), frozenset((1, 2)))
    with pytest.raises(SourceError, match="broker 3 is down at t=20s"):
        scenario(tmp_path, lost, head="", beside=beside)
    assert scenario(tmp_path, "t=20 controller lost to 2", head="", beside=beside).events[0].broker == 2


def test_any_sentence_may_be_repeated(tmp_path: Path) -> None:
    told = scenario(
        tmp_path, "t=1..2 every 400ms produce 1 to solo-0", "t=1.4 broker 2 down", "t=500ms..1s every 1m broker 2 up"
    )
    assert [(one.at_ms, one.kind, one.offset) for one in told.events] == [
        (500, k.BROKER_UP, 0),
        (1000, k.APPEND, 1),
        (1400, k.APPEND, 2),
        (1400, k.BROKER_DOWN, 3),
        (1800, k.APPEND, 4),
    ]
    assert [one.request for one in told.events if one.kind == k.APPEND] == [0, 1, 2]


def test_followers_fetch_what_is_produced_unless_told(tmp_path: Path) -> None:
    writes = ("t=1 produce 5 to orders-0,orders-2", "t=2 broker 1 down")
    told = fetches(scenario(tmp_path, *writes, head=HEAD))
    assert sorted({at for at, _, _ in told}) == [1000, 1500, 2000]
    assert told[:4] == [
        (1000, 1, ("orders", 0)),
        (1000, 2, ("orders", 0)),
        (1000, 3, ("orders", 2)),
        (1000, 1, ("orders", 2)),
    ]
    written = scenario(tmp_path, *writes, "t=1..2 every 500ms followers fetch orders-0,orders-2")
    implied = scenario(tmp_path, *writes, head=HEAD)
    assert fetches(written) == told
    assert {(one.request, one.wait_ms, one.value) for one in implied.events if one.kind == k.FETCH} == {
        (one.request, one.wait_ms, one.value) for one in written.events if one.kind == k.FETCH
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
    told = fetches(scenario(tmp_path, "t=1 produce 5 to solo-0", "t=1 consumer fetches solo-0 from 0", head=HEAD))
    assert told == [(1000, None, ("solo", 0)), (1000, 2, ("solo", 0))]


def test_groups_are_kept_apart(tmp_path: Path) -> None:
    told = scenario(
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
    assert not told.events
    assert told.groups == (
        GroupEvent(1000, g.JOIN, name, "a", 5000, 60_000),
        GroupEvent(2000, g.JOIN, name, "a", known=True, changed=True),
        GroupEvent(3000, g.SYNC, name, "a"),
        GroupEvent(4000, g.HEARTBEAT, name, "a", generation=3),
        GroupEvent(5000, g.HEARTBEAT, name, "a", generation=3),
        GroupEvent(6000, g.LEAVE, name, "a"),
        GroupEvent(7000, g.COORDINATOR_LOST, name),
        GroupEvent(8000, g.COORDINATOR_LOADED, name),
    )


def test_settings_are_rules(tmp_path: Path) -> None:
    settings = "settings:\n  truncate_to: high_watermark\n  checkpoint_ms: 100\n  followers_fetch_every_ms: 100\n"
    told = scenario(tmp_path, head=HEAD + settings)
    assert told.begin is not None
    assert told.begin.rules == Rules(truncate_to="high_watermark", checkpoint_ms=100)
    assert told.settings == {"truncate_to": "high_watermark", "checkpoint_ms": 100}


def test_beside_a_source_with_gaps(tmp_path: Path) -> None:
    """What the source does not show is not there: only partition 3 of the topic is."""
    beside = Begin((1, 2), frozenset((1, 2)), (Held(("t", 3), (1, 2), (1, 2), 1),))
    told = scenario(tmp_path, "t=1 preferred election", "t=1 followers fetch", head="", beside=beside)
    assert told.begin is None
    assert {one.partition for one in told.events} == {("t", 3)}
    with pytest.raises(SourceError, match=r"line 2: there is no partition t-0. Topics: t \(1 partitions\)"):
        scenario(tmp_path, "t=1 followers fetch t-0", head="", beside=beside)
    for key, line in (("brokers: [1]", 1), ("controller: 1", 1), ("topics: {}", 1)):
        with pytest.raises(SourceError, match=f"line {line}: has {key.split(':')[0]}, which the source"):
            scenario(tmp_path, head=f"{key}\n", beside=beside)


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("t=1 produce 5 to orders-7", "there is no partition orders-7. Topics: orders \\(3 partitions\\), solo"),
        ("t=1 produce 5 to orders-0,orders-0", "orders-0,orders-0 names a partition twice. Name distinct"),
        ("t=1 produce 5 to orders-0 acks=2", "acks=2 is no value of it. Write 0, 1 or all."),
        ("t=1 produce 5 to orders-0 timeout=soon", "timeout=soon is no value of it. Write a time"),
        ("t=1 produce 5 to orders-0 acks=1 acks=0", "acks is there twice"),
        ("t=1 produce 5 to orders-0 min=1", "'min' is no option of this sentence. Options: acks, timeout."),
        ("t=1 produce some to orders-0", "'produce some to orders-0' is not understood"),
        ("t=1 produce 5 to orders", "'produce 5 to orders' is not understood"),
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
        (f"t=1 produce {10**12} at orders-0", "'produce 1000000000000 at orders-0' is not understood"),
        (f"t=1 topic t{10**12} deleted", "there is no topic t1000000000000"),
        (
            f"t=1 offsets of broker 2 orders-0 leo={10**12}",
            "leo=1000000000000 is no value of it. Write a whole number up t",
        ),
        (
            f"t=1 topic solo config min.insync.replicas={10**9}",
            "min.insync.replicas=1000000000 is no value of it. Write at",
        ),
        ("t=1 broker 9 fetches orders-0", "there is no broker 9. Brokers: 1, 2, 3."),
        ("t=1 broker 2 fetches orders-0 min=few", "min=few is no value of it. Write a whole number."),
        ("t=1 broker 2 fetches orders-0 from -1", "'broker 2 fetches orders-0 from -1' is not understood"),
        ("t=1 followers fetch orders-9", "there is no partition orders-9"),
        ("t=1 followers fetch orders-0 wait=", "'followers fetch orders-0 wait=' is not understood"),
        ("t=1 consumer fetches orders-0", "'consumer fetches orders-0' is not understood"),
        ("t=1 offsets of broker 3 orders-0 leo=1", "broker 3 has no replica of orders-0. Its replicas: 1, 2."),
        ("t=1 offsets of broker 2 orders-0 hw=1", "the log's end is missing. Write it as in leo=9."),
        ("t=1 offsets of broker 2 orders-0 leo=1 hw=2", "hw=2 is beyond leo=1"),
        ("t=1 old controller 9 of epoch 1 writes orders-0", "there is no broker 9"),
        ("t=1 old controller 1 of epoch 1 writes orders-9", "there is no partition orders-9"),
        ("t=1 topic nothing deleted", "there is no topic nothing. Topics: orders"),
        ("t=1 group g member m joins session=never", "session=never is no value of it. Write a time"),
        ("t=1 group g member m syncs session=1s", "'session' is no option of this sentence. Options: generation."),
        ("t=1 group g member m sleeps", "'group g member m sleeps' is not understood"),
        ("t=1..2 followers fetch", "a repetition needs an end and a step. As in: t=0..60 every 500ms"),
        ("t=1 every 2s followers fetch", "a repetition needs an end and a step"),
        ("t=1..2 every 0 followers fetch", "every 0 never comes to an end. Repeat it every 1ms or more."),
        ("t=2..1 every 1s followers fetch", "ends at 1, before it begins. Write an end after 2."),
        ("t=0..99h every 1ms broker 2 down", "makes more than 1,000,000 events. Repeat it less often"),
        ("t=soon broker 2 down", "'t=soon broker 2 down' is no sentence. Begin with a time"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_remedy(tmp_path: Path, sentence: str, said: str) -> None:
    with pytest.raises(SourceError, match=f"night.yaml, line 8: {said}"):
        scenario(tmp_path, "t=0 broker 1 up", sentence)


def test_events_of_a_repeated_sentence_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.simulation.scenario.scenario_reader.MOST", 20)
    assert len(scenario(tmp_path, "t=1..5 every 1s followers fetch orders-0,orders-1").events) == 20
    with pytest.raises(SourceError, match=r"line 7: makes more than 1,000,000 events. Repeat it less often"):
        scenario(tmp_path, "t=1..6 every 1s followers fetch orders-0,orders-1")
    with pytest.raises(SourceError, match="Under settings, set followers_fetch_every_ms higher, or to 0"):
        scenario(tmp_path, "t=0 produce 1 to orders-0,orders-1", "t=6 broker 1 down", head=HEAD)
    with pytest.raises(SourceError, match="Under settings, set followers_fetch_every_ms higher, or to 0"):
        scenario(tmp_path, "t=0 produce 1 to solo-0", "t=1h broker 1 down", head=HEAD)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("lag: 1", "settings: 'lag' is not known. Settings: kraft, .*followers_fetch_every_ms."),
        ("kraft: 1", "settings: kraft is 1. Write true or false."),
        ("message_bytes: many", "settings: message_bytes is 'many'. Write a whole number."),
        ("followers_fetch_every_ms: -1", "settings: followers_fetch_every_ms is -1. Write 0 or more."),
        ("replica_lag_time_max_ms: 1", "settings: replica_lag_time_max_ms is 1. Write 2 or more."),
        (f"message_bytes: {10**12}", "settings: message_bytes is 1000000000000. Write at most 999,999,999,999."),
        ("checkpoint_ms: 0", "settings: checkpoint_ms is 0. Write 1 or more."),
        ("truncate_to: hw", "settings: truncate_to is 'hw'. Write epoch or high_watermark."),
        ("truncate_to: 1", "settings: truncate_to is 1. Write a word."),
    ],
)
def test_wrong_settings(tmp_path: Path, settings: str, said: str) -> None:
    with pytest.raises(SourceError, match=f"line 6: {said}"):
        scenario(tmp_path, head=f"{HEAD}settings:\n  {settings}\n")


def test_a_broker_may_be_0(tmp_path: Path) -> None:
    told = scenario(tmp_path, "t=1 broker 0 down", head="brokers: [0, 1]\ntopics:\n  t: [[0, 1]]\n")
    assert told.begin is not None
    assert (told.begin.brokers, told.begin.partitions[0].replicas) == ((0, 1), (0, 1))


def test_heads_of_wrong_types(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"line 1: broker 1000000000 is too large a number. Write at most 999,999,999"
    ):
        scenario(tmp_path, head=f"brokers: [1, {10**9}]\n")
    with pytest.raises(SourceError, match="line 2: topics is no mapping"):
        scenario(tmp_path, head="brokers: [1]\ntopics: [1]\n")
    with pytest.raises(SourceError, match="line 2: settings is no mapping"):
        scenario(tmp_path, head="brokers: [1]\nsettings: [1]\n")
    with pytest.raises(SourceError, match=r"line 3: topic t: partition 0 is on \[\[1\]\]"):
        scenario(tmp_path, head="brokers: [1]\ntopics:\n  t: [[[1]]]\n")
    with pytest.raises(SourceError, match="line 2: controller 9 is none of the brokers"):
        scenario(tmp_path, head="brokers: [1]\ncontroller: 9\n")
    file = tmp_path / "night.yaml"
    file.write_text("brokers: [1]\nevents: broker 1 down\n")
    with pytest.raises(SourceError, match=r"line 2: events is no list. Write sentences"):
        read_scenario(str(file), None)
    file.write_text("brokers: [1]\nevents:\n  - 5\n")
    with pytest.raises(SourceError, match="line 3: 5 is no sentence"):
        read_scenario(str(file), None)


def test_the_timeline_leaves_routine_fetches_out(tmp_path: Path) -> None:
    file = tmp_path / "night.yaml"
    file.write_text(HEAD + "events:\n  - t=1 produce 5 to orders-0\n  - t=3 broker 3 down\n")
    text = list(lines(timeline(Asked([str(file)]))))
    assert text[0].startswith("t=1s  append of orders")
    assert not any("fetch" in line for line in text)
