"""What the controller does at each step: its order, its numbers, and the znodes and records that it writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.cli.replay_output import Asked, timeline
from tests.unit.simulation.step_texts import AWAY, append, cluster, down, fetch, held, other, up
from tests.unit.simulation.test_controller import random_case
from udfs.simulation.cluster_events import Begin, Event, Rules, event_log
from udfs.simulation.controller.controller_steps import controller_steps
from udfs.simulation.controller.step_writer import made_topic_id
from udfs.simulation.event_packing import pack
from udfs.simulation.kernels import codes as k
from udfs.simulation.plain_results import leaderships, replay, state_of, transitions
from udfs.simulation.simulator import folded

SAMPLES = Path(__file__).parents[3] / "data_samples"
LOG = SAMPLES / "captures" / "kafka-4.1.1-kraft" / "cluster-metadata-dump.until-broker-2-down.txt"
Row = dict[str, Any]
STATE = re.compile(r"/brokers/topics/(.+)/partitions/(\d+)/state")


def steps(begin: Begin, *events: Event, of: int | None = None) -> list[Row]:
    """Steps, of one event if that is asked."""
    rows = controller_steps(replay(begin, events))
    return [row for row in rows if of in (None, row["event"])]


def actions(rows: list[Row]) -> list[str]:
    return [row["action"] for row in rows]


def data_of(rows: list[Row], begins: str) -> Any:
    return json.loads(next(row["data"] for row in rows if row["action"].startswith(begins)))


def created(at: int, topic: str, *lists: tuple[int, ...], first: int = 0) -> list[Event]:
    return [Event(at, k.CREATE, partition=(topic, first + i), replicas=ids) for i, ids in enumerate(lists)]


THREE = cluster(held(1, 2), held(2, 1, key=("u", 0)), held(3, 2, key=("u", 1)))


# ---- topics


def test_a_topic_is_created() -> None:
    rows = steps(THREE, *created(5, "new", (1, 2), (2, 3)))
    topic_id = made_topic_id("", "new", 0)
    assert [(row["action"], row["path"]) for row in rows] == [
        ("request to create new: validated", None),
        ("created", "/config/topics/new"),
        ("created", "/brokers/topics/new"),
        ("request answered: what follows is asynchronous", None),
        ("topic id read", "/brokers/topics/new"),
        ("listener registered: its partitions", "/brokers/topics/new"),
        ("assignment read back", "/brokers/topics/new"),
        ("partitions New: 2", None),
        ("replicas New: 4", None),
        ("created", "/brokers/topics/new/partitions"),
        ("created", "/brokers/topics/new/partitions/0"),
        ("created", "/brokers/topics/new/partitions/1"),
        ("created", "/brokers/topics/new/partitions/0/state"),
        ("created", "/brokers/topics/new/partitions/1/state"),
        ("partitions Online: 2", None),
        ("LeaderAndIsr sent", None),
        ("UpdateMetadata sent", None),
        ("replicas Online: 4", None),
    ]
    assert [row["step"] for row in rows] == list(range(len(rows)))
    assert {(row["at_ms"], row["controller_id"], row["controller_epoch"]) for row in rows} == {(5, AWAY, 1)}
    assert json.loads(rows[2]["data"]) == {
        "partitions": {"0": [1, 2], "1": [2, 3]},
        "topic_id": topic_id,
        "adding_replicas": {},
        "removing_replicas": {},
        "version": 3,
    }
    assert rows[12]["data"] == '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    assert json.loads(rows[15]["data"]) == {"brokers": [1, 2, 3], "partitions": 2}
    assert json.loads(rows[16]["data"]) == {"brokers": [1, 2, 3, AWAY], "partitions": 2}


def test_made_topic_ids() -> None:
    found = {made_topic_id("c", f"t{i}", i) for i in range(500)}
    assert len(found) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", one) for one in found)
    assert made_topic_id("c", "t", 1) == made_topic_id("c", "t", 1) != made_topic_id("d", "t", 1)


def test_a_topic_whose_brokers_are_down() -> None:
    """Its second partition has a state only when one of its brokers lives; the first has one replica offline."""
    events = [down(1, 2), *created(2, "new", (2, 1), (2,)), up(3, 2)]
    rows = steps(THREE, *events, of=1)
    states = [row for row in rows if STATE.fullmatch(row["path"] or "")]
    assert [row["data"] for row in states] == [
        '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    ]
    assert actions(rows)[-1] == "replicas Online: 3"
    rows = steps(THREE, *events, of=3)
    assert [row["path"] for row in rows if row["action"] == "created"] == [
        "/brokers/topics/new/partitions/1",
        "/brokers/topics/new/partitions/1/state",
    ]


def test_a_topic_grows() -> None:
    rows = steps(THREE, *created(5, "t", (3, 1), first=1))
    assert actions(rows)[:3] == [
        "request to add partitions to t: validated",
        "written: 1 partitions more",
        "request answered: what follows is asynchronous",
    ]
    assert [row["path"] for row in rows if row["action"] == "created"] == [
        "/brokers/topics/t/partitions/1",
        "/brokers/topics/t/partitions/1/state",
    ]


def test_a_topic_is_deleted() -> None:
    rows = steps(THREE, other(5, k.DELETE))
    assert [(row["action"], row["path"]) for row in rows] == [
        ("created: the topic is to be deleted", "/admin/delete_topics/t"),
        ("partitions Offline, then NonExistent: 1", None),
        ("UpdateMetadata sent: leader -2, being deleted", None),
        ("replicas Offline: 2", None),
        ("state znodes written: 2", "/brokers/topics/+/partitions/+/state"),
        ("replicas ReplicaDeletionStarted: 2", None),
        ("StopReplica sent", None),
        ("replicas ReplicaDeletionSuccessful: 2", None),
        ("replicas NonExistent: 2", None),
        ("deleted", "/brokers/topics/t"),
        ("deleted", "/config/topics/t"),
        ("deleted", "/admin/delete_topics/t"),
    ]
    assert data_of(rows, "StopReplica") == {"brokers": [1, 2], "delete": True}


def test_a_deletion_that_waits() -> None:
    events = [down(1, 2), other(2, k.DELETE), up(3, 2)]
    rows = steps(THREE, *events, of=1)
    assert data_of(rows, "replicas ReplicaDeletionIneligible: 1") == {"brokers": [2]}
    assert data_of(rows, "StopReplica") == {"brokers": [1], "delete": True}
    assert actions(rows)[-1] == "deletion waits"
    rows = steps(THREE, *events, of=2)
    again = actions(rows)[actions(rows).index("deletion resumed") :]
    assert again[-3:] == ["deleted"] * 3
    assert "replicas NonExistent: 2" in again
    rows = steps(THREE, other(1, k.REASSIGN, replicas=(3,)), other(2, k.DELETE))
    assert actions(rows)[-1] == "deletion waits: a reassignment goes on"


# ---- brokers and controllers


def test_a_broker_fails() -> None:
    rows = steps(THREE, down(10, 2))
    assert [(row["action"], row["path"]) for row in rows] == [
        ("session of broker 2 ended: its znode is deleted", "/brokers/ids/2"),
        ("live brokers read: 3", "/brokers/ids"),
        ("partitions with a replica on broker 2: 3", None),
        ("partitions that it led are offline: 1", None),
        ("leaders elected: 1", None),
        ("state znodes written: 3", "/brokers/topics/+/partitions/+/state"),
        ("LeaderAndIsr sent", None),
        ("UpdateMetadata sent", None),
    ]
    assert data_of(rows, "live brokers") == {"brokers": [1, 3, AWAY]}
    assert data_of(rows, "state znodes") == {"leader failed": 1, "isr shrunk": 2}
    assert data_of(rows, "LeaderAndIsr") == {"brokers": [1, 3], "partitions": 3}
    assert data_of(rows, "UpdateMetadata") == {"brokers": [1, 3, AWAY], "partitions": 3}


def test_a_broker_returns() -> None:
    rows = steps(THREE, down(10, 3), down(11, 2), up(20, 3), of=2)
    assert actions(rows) == [
        "broker 3 registered",
        "live brokers read: 3",
        "UpdateMetadata sent: broker 3 lives",
        "UpdateMetadata sent: all partitions",
        "replicas online: 1",
        "elections tried for partitions without leader: 1",
        "leaders elected: 0",  # it left the ISR when it failed
        "LeaderAndIsr sent",
        "UpdateMetadata sent",
        "reassignments resumed: 0",
    ]
    rows = steps(THREE, down(10, 3), down(11, 2), up(20, 2), of=2)
    assert "leaders elected: 1" in actions(rows)


def test_the_controller_fails() -> None:
    begin = Begin((1, 2, 3), frozenset({1, 2, 3}), THREE.partitions, 1, 4, Rules())
    rows = steps(begin, down(1000, 1))
    assert [(row["action"], row["path"]) for row in rows] == [
        ("session of broker 1 ended: its znode is deleted", "/brokers/ids/1"),
        ("deleted: the session of controller 1 ended", "/controller"),
        ("created by broker 2: first come", "/controller"),
        ("read: 4", "/controller_epoch"),
        ("incremented to 5", "/controller_epoch"),
        ("listener registered: reassignment", "/admin/reassign_partitions"),
        ("listener registered: ISR changes", "/isr_change_notification"),
        ("listener registered: preferred election", "/admin/preferred_replica_election"),
        ("listener registered: topics", "/brokers/topics"),
        ("listeners registered: partitions of 2 topics", "/brokers/topics/+"),
        ("listener registered: topic deletion", "/admin/delete_topics"),
        ("listener registered: broker ids", "/brokers/ids"),
        ("live brokers read: 2", "/brokers/ids"),
        ("topics read: 2", "/brokers/topics"),
        ("partitions and their replicas read: 3", "/brokers/topics/+"),
        ("leaders and ISRs read: 3", "/brokers/topics/+/partitions/+/state"),
        ("replica state machine started", None),
        ("down replicas taken out of ISRs, state znodes written: 2", "/brokers/topics/+/partitions/+/state"),
        ("partition state machine started: 1 partitions without leader get one", None),
        ("leaders elected: 1", None),
        ("state znodes written: 1", "/brokers/topics/+/partitions/+/state"),
        ("LeaderAndIsr sent", None),
        ("pending reassignments resumed: 0", "/admin/reassign_partitions"),
        ("pending preferred election resumed: 0", "/admin/preferred_replica_election"),
        ("UpdateMetadata sent: all partitions", None),
        ("auto rebalance started: first check in 5000 ms", None),
        ("topic deletion started", "/admin/delete_topics"),
    ]
    assert [row["controller_id"] for row in rows[:4]] == [1, None, 2, 2]
    assert [row["controller_epoch"] for row in rows[:5]] == [4, 4, 4, 4, 5]
    assert rows[2]["data"] == '{"version":1,"brokerid":2,"timestamp":"1000"}'
    assert data_of(rows, "replica state machine") == {"online": 4, "offline": 2}
    assert data_of(rows, "LeaderAndIsr") == {"brokers": [2, 3], "partitions": 3}  # all, not just what changed


def test_the_last_broker_fails_and_returns() -> None:
    begin = Begin((1,), frozenset({1}), (held(1),), 1, 1)
    rows = steps(begin, down(1, 1), up(2, 1))
    assert actions(rows)[1] == "deleted: the controller's session ended; nobody is left to create it"
    assert [row["controller_id"] for row in rows[:2]] == [1, None]
    second = [row for row in rows if row["event"] == 1]
    assert actions(second)[:3] == ["broker 1 registered", "created by broker 1: first come", "read: 1"]
    assert second[-1]["controller_epoch"] == 2


def test_a_controlled_shutdown() -> None:
    rows = steps(THREE, Event(5, k.SHUTDOWN, 2))
    assert data_of(rows, "controlled shutdown asked by broker 2") == {"partitions": 3}
    assert data_of(rows, "state znodes written: 3") == {"isr shrunk": 2, "controlled shutdown": 1}
    assert data_of(rows, "StopReplica sent: 2") == {"brokers": [2], "delete": False}


def test_leaders_that_return_by_themselves() -> None:
    begin = cluster(*THREE.partitions, auto_leader_rebalance=True)
    events = [down(1, 2), up(2, 2), Event(3, k.SET_ISR, partition=("u", 0), replicas=(1, 2)), down(300_001, 3)]
    rows = steps(begin, *events, of=3)
    assert actions(rows)[:3] == [
        "auto rebalance: broker 2 leads too few that prefer it",
        "leaders elected: 1",
        "state znodes written: 1",
    ]
    assert [row["at_ms"] for row in rows if "broker" in row["action"]][:2] == [300_001, 300_001]
    assert [row["step"] for row in rows] == list(range(len(rows)))


def test_an_isr_that_shrinks_meanwhile_is_the_leaders() -> None:
    """At 1500 the leader takes 2 out of the ISR, and broker 3 fails: the controller writes one znode, not two."""
    begin = cluster(held(1, 2), held(1, 3, key=("u", 0)), replica_lag_time_max_ms=1000)
    events = [fetch(499, 2), append(500), down(1500, 3)]
    of = replay(begin, events)
    assert len(leaderships(of)) == 2
    assert "state znodes written: 1" in actions(controller_steps(of))
    of = replay(begin, [*events[:2], down(1500, 2)])  # the same partition
    assert [row["leader_epoch"] for row in leaderships(of)] == [0]
    assert "state znodes written: 1" not in actions(controller_steps(of))


# ---- old controllers


@pytest.mark.parametrize(
    ("epoch", "said"),
    [
        (1, "rejected: STALE_CONTROLLER_EPOCH, 1 < 2"),
        (2, "accepted: controller epoch 2"),
        (3, "not possible: no controller has had epoch 3 yet, it is 2"),
    ],
)
def test_requests_of_old_controllers(epoch: int, said: str) -> None:
    lost = Event(0, k.CONTROLLER_LOST, 2)
    row = steps(THREE, lost, Event(1, k.OLD_CONTROLLER, AWAY, value=epoch), of=1)[0]
    assert (row["action"], row["controller_id"], row["controller_epoch"]) == (said, 2, 2)
    assert json.loads(row["data"]) == {"broker": AWAY}
    row = steps(THREE, lost, other(1, k.OLD_CONTROLLER, broker=AWAY, value=epoch), of=1)[0]
    assert (row["action"], json.loads(row["data"])) == (said, {"broker": AWAY, "partition": "t-0"})
    before = state_of(replay(THREE, [lost]))["partitions"]
    assert state_of(replay(THREE, [lost, Event(1, k.OLD_CONTROLLER, AWAY, value=epoch)]))["partitions"] == before


# ---- all together


def test_znodes_and_numbers_are_those_of_the_fold() -> None:
    for seed in range(100):
        begin, events = random_case(seed)
        of = replay(begin, events)
        rows, wrote = controller_steps(of), leaderships(of)
        states = {
            (row["event"], row["path"]): json.loads(row["data"]) for row in rows if STATE.fullmatch(row["path"] or "")
        }
        want = {
            (row["event"], f"/brokers/topics/{row['topic']}/partitions/{row['partition']}/state"): {
                "controller_epoch": row["controller_epoch"],
                "leader": row["leader"],
                "version": 1,
                "leader_epoch": row["leader_epoch"],
                "isr": row["isr"],
            }
            for row in wrote
            if row["cause"] == "created"
        }
        # Partitions that are created by one request stand at its first event.
        by_path = {path: data for (_, path), data in states.items()}
        assert by_path == {path: data for (_, path), data in want.items()}, seed
        counted = sum(
            int(found[1]) for row in rows if (found := re.search(r"state znodes written: (\d+)", row["action"]))
        )
        asked = {k.SET_ISR, k.REASSIGN, k.ELECT_PREFERRED, k.SET_UNCLEAN}
        mine = [
            row
            for row in wrote
            if row["cause"] == "auto rebalance" or events[row["event"]].kind not in (*asked, k.CREATE)
        ]
        assert counted == sum(row["cause"] != "created" for row in mine), seed
        epochs = [row["controller_epoch"] for row in rows]
        assert epochs == sorted(epochs)
        assert [(row["event"], row["step"]) for row in rows] == sorted((row["event"], row["step"]) for row in rows)
        gone = [row["path"] for row in rows if row["action"] == "deleted" and row["path"].startswith("/brokers/topics")]
        vanished = {
            row["topic"] for row in transitions(of) if row["to_state"] == "NonExistentPartition" and row["legal"]
        }
        left = {row["topic"] for row in state_of(of)["partitions"]}
        assert {path.rsplit("/", 1)[1] for path in gone} >= vanished - left, seed


# ---- KRaft


KRAFT = cluster(*THREE.partitions, kraft=True)


def test_with_kraft_it_writes_records() -> None:
    rows = steps(KRAFT, *created(1, "new", (1, 2)), down(2, 2), up(3, 2), Event(4, k.CONTROLLER_LOST, 1))
    topic_id = made_topic_id("", "new", 0)
    assert [(row["event"], row["action"]) for row in rows] == [
        (0, "request to create new: validated"),
        (0, "TOPIC_RECORD"),
        (0, "PARTITION_RECORD"),
        (0, "request answered: the records are committed"),
        (1, "BROKER_REGISTRATION_CHANGE_RECORD"),
        (1, "PARTITION_CHANGE_RECORD: 4"),
        (2, "BROKER_REGISTRATION_CHANGE_RECORD"),
        (2, "PARTITION_CHANGE_RECORD: 0"),
        (3, "leader of the metadata quorum: 1, epoch 2"),
    ]
    assert json.loads(rows[1]["data"]) == {"name": "new", "topicId": topic_id}
    record = json.loads(rows[2]["data"])
    assert record["topicId"] == topic_id
    assert (record["replicas"], record["isr"], record["leader"], record["leaderEpoch"]) == ([1, 2], [1, 2], 1, 0)
    assert [json.loads(rows[i]["data"]) for i in (4, 6)] == [{"brokerId": 2, "fenced": f} for f in (1, -1)]


def test_with_kraft_a_topic_goes_at_once() -> None:
    """Neither a down broker nor a reassignment keeps it."""
    for before in (down(1, 2), other(1, k.REASSIGN, replicas=(3,))):
        of = replay(KRAFT, [before, other(2, k.DELETE)])
        assert {row["topic"] for row in state_of(of)["partitions"]} == {"u"}
        assert all(row["legal"] for row in transitions(of))
        last = controller_steps(of)[-1]
        assert (last["action"], last["data"]) == ("REMOVE_TOPIC_RECORD", '{"name":"t"}')


def test_the_steps_of_a_log() -> None:
    rows = controller_steps(timeline(Asked([str(LOG)])).replayed)
    assert (rows[0]["action"], rows[0]["controller_id"]) == ("leader of the metadata quorum: 100, epoch 1", 100)
    counts = [int(found[1]) for row in rows if (found := re.fullmatch(r"PARTITION_RECORD: (\d+)", row["action"]))]
    assert sum(counts) == 743
    assert json.loads(rows[-1]["data"]) == {"brokerId": 2, "fenced": 1}
    assert rows[-2]["action"] == "PARTITION_CHANGE_RECORD: 315"


def test_steps_are_of_one_cluster() -> None:
    packed = pack(pa.concat_tables([event_log(THREE, [], cluster=name) for name in ("a", "b")]))
    with pytest.raises(ValueError, match="one cluster, not of 2"):
        controller_steps(folded(packed))
    assert controller_steps(replay(THREE, [])) == []
    assert controller_steps(replay(Begin(), [])) == []
