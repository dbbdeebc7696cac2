"""What the controller does at each step: its order, its numbers, and the znodes and records that it writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.simulation.cluster_replay import ReplayRequest, run_replay
from tests.unit.simulation.event_helpers import AWAY, append, cluster, down, fetch, led_partition, partition_event, up
from tests.unit.simulation.test_controller import random_case
from udfs.simulation.cluster_events import ClusterSettings, Event, InitialState, build_event_log
from udfs.simulation.controller import list_controller_steps
from udfs.simulation.controller.step_writer import ControllerStep, make_topic_id
from udfs.simulation.event_packing import pack_event_log
from udfs.simulation.kernels.codes import EventKind
from udfs.simulation.result_tables import get_final_state, list_leaderships, list_transitions
from udfs.simulation.simulator import simulate, simulate_packed

SAMPLES = Path(__file__).parents[3] / "data_samples"
LOG = SAMPLES / "captures" / "kafka-4.1.1-kraft" / "cluster-metadata-dump.until-broker-2-down.txt"
Row = dict[str, Any]
STATE = re.compile(r"/brokers/topics/(.+)/partitions/(\d+)/state")


def steps(begin: InitialState, *events: Event, simulation: int | None = None) -> list[ControllerStep]:
    """Return all steps, or those of one event."""
    rows = list_controller_steps(simulate(begin, events))
    return [row for row in rows if simulation in (None, row.event)]


def actions(rows: list[ControllerStep]) -> list[str]:
    return [row.action for row in rows]


def data_of(rows: list[ControllerStep], begins: str) -> Any:
    return json.loads(next(row.data for row in rows if row.action.startswith(begins)))


def created(at: int, topic: str, *lists: tuple[int, ...], first: int = 0) -> list[Event]:
    return [
        Event(at, EventKind.CREATE_PARTITION, partition=(topic, first + i), replicas=ids) for i, ids in enumerate(lists)
    ]


THREE = cluster(led_partition(1, 2), led_partition(2, 1, key=("u", 0)), led_partition(3, 2, key=("u", 1)))


# ---- topics


def test_a_topic_is_created() -> None:
    rows = steps(THREE, *created(5, "new", (1, 2), (2, 3)))
    topic_id = make_topic_id("", "new", 0)
    assert [(row.action, row.path) for row in rows] == [
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
    assert [row.step for row in rows] == list(range(len(rows)))
    assert {(row.at_ms, row.controller_id, row.controller_epoch) for row in rows} == {(5, AWAY, 1)}
    assert json.loads(rows[2].data) == {
        "partitions": {"0": [1, 2], "1": [2, 3]},
        "topic_id": topic_id,
        "adding_replicas": {},
        "removing_replicas": {},
        "version": 3,
    }
    assert rows[12].data == '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    assert json.loads(rows[15].data) == {"brokers": [1, 2, 3], "partitions": 2}
    assert json.loads(rows[16].data) == {"brokers": [1, 2, 3, AWAY], "partitions": 2}


def test_made_topic_ids_are_valid_and_distinct() -> None:
    topic_ids = {make_topic_id("c", f"t{i}", i) for i in range(500)}
    assert len(topic_ids) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", one) for one in topic_ids)
    assert make_topic_id("c", "t", 1) == make_topic_id("c", "t", 1) != make_topic_id("d", "t", 1)


def test_a_topic_is_created_on_failed_brokers() -> None:
    """Its second partition has a state only when one of its brokers lives; the first has one replica offline."""
    events = [down(1, 2), *created(2, "new", (2, 1), (2,)), up(3, 2)]
    rows = steps(THREE, *events, simulation=1)
    states = [row for row in rows if STATE.fullmatch(row.path or "")]
    assert [row.data for row in states] == ['{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}']
    assert actions(rows)[-1] == "replicas Online: 3"
    rows = steps(THREE, *events, simulation=3)
    assert [row.path for row in rows if row.action == "created"] == [
        "/brokers/topics/new/partitions/1",
        "/brokers/topics/new/partitions/1/state",
    ]


def test_a_topic_grows() -> None:
    rows = steps(THREE, *created(5, "t", (3, 1), first=1))
    assert actions(rows)[:3] == [
        "request to add partitions to t: validated",
        "partitions added: 1",
        "request answered: what follows is asynchronous",
    ]
    assert [row.path for row in rows if row.action == "created"] == [
        "/brokers/topics/t/partitions/1",
        "/brokers/topics/t/partitions/1/state",
    ]


def test_a_topic_is_deleted() -> None:
    rows = steps(THREE, partition_event(5, EventKind.DELETE_PARTITION))
    assert [(row.action, row.path) for row in rows] == [
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


def test_a_deletion_waits_and_resumes() -> None:
    events = [down(1, 2), partition_event(2, EventKind.DELETE_PARTITION), up(3, 2)]
    rows = steps(THREE, *events, simulation=1)
    assert data_of(rows, "replicas ReplicaDeletionIneligible: 1") == {"brokers": [2]}
    assert data_of(rows, "StopReplica") == {"brokers": [1], "delete": True}
    assert actions(rows)[-1] == "deletion waits"
    rows = steps(THREE, *events, simulation=2)
    again = actions(rows)[actions(rows).index("deletion resumed") :]
    assert again[-3:] == ["deleted"] * 3
    assert "replicas NonExistent: 2" in again
    rows = steps(
        THREE,
        partition_event(1, EventKind.REASSIGN_PARTITION, replicas=(3,)),
        partition_event(2, EventKind.DELETE_PARTITION),
    )
    assert actions(rows)[-1] == "deletion waits: a reassignment is in progress"


# ---- brokers and controllers


def test_a_broker_fails() -> None:
    rows = steps(THREE, down(10, 2))
    assert [(row.action, row.path) for row in rows] == [
        ("session of broker 2 ended: its znode is deleted", "/brokers/ids/2"),
        ("live brokers read: 3", "/brokers/ids"),
        ("partitions with a replica on broker 2: 3", None),
        ("partitions led by broker 2 go offline: 1", None),
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
    rows = steps(THREE, down(10, 3), down(11, 2), up(20, 3), simulation=2)
    assert actions(rows) == [
        "broker 3 registered",
        "live brokers read: 3",
        "UpdateMetadata sent: broker 3 is live",
        "UpdateMetadata sent: all partitions",
        "replicas online: 1",
        "elections attempted for partitions without leader: 1",
        "leaders elected: 0",  # it left the ISR when it failed
        "LeaderAndIsr sent",
        "UpdateMetadata sent",
        "reassignments resumed: 0",
    ]
    rows = steps(THREE, down(10, 3), down(11, 2), up(20, 2), simulation=2)
    assert "leaders elected: 1" in actions(rows)


def test_the_controller_fails() -> None:
    begin = InitialState((1, 2, 3), frozenset({1, 2, 3}), THREE.partitions, 1, 4, ClusterSettings())
    rows = steps(begin, down(1000, 1))
    assert [(row.action, row.path) for row in rows] == [
        ("session of broker 1 ended: its znode is deleted", "/brokers/ids/1"),
        ("deleted: the session of controller 1 ended", "/controller"),
        ("created by broker 2, which came first", "/controller"),
        ("read: 4", "/controller_epoch"),
        ("incremented to 5", "/controller_epoch"),
        ("listener registered: reassignment", "/admin/reassign_partitions"),
        ("listener registered: ISR changes", "/isr_change_notification"),
        ("listener registered: preferred election", "/admin/preferred_replica_election"),
        ("listener registered: topics", "/brokers/topics"),
        ("listeners registered for the partitions of topics: 2", "/brokers/topics/+"),
        ("listener registered: topic deletion", "/admin/delete_topics"),
        ("listener registered: broker ids", "/brokers/ids"),
        ("live brokers read: 2", "/brokers/ids"),
        ("topics read: 2", "/brokers/topics"),
        ("partitions and their replicas read: 3", "/brokers/topics/+"),
        ("leaders and ISRs read: 3", "/brokers/topics/+/partitions/+/state"),
        ("replica state machine started", None),
        (
            "replicas of failed brokers removed from ISRs, state znodes written: 2",
            "/brokers/topics/+/partitions/+/state",
        ),
        ("partition state machine started; partitions without leader that get one: 1", None),
        ("leaders elected: 1", None),
        ("state znodes written: 1", "/brokers/topics/+/partitions/+/state"),
        ("LeaderAndIsr sent", None),
        ("pending reassignments resumed: 0", "/admin/reassign_partitions"),
        ("pending preferred election resumed: 0", "/admin/preferred_replica_election"),
        ("UpdateMetadata sent: all partitions", None),
        ("auto rebalance started: first check in 5000 ms", None),
        ("topic deletion started", "/admin/delete_topics"),
    ]
    assert [row.controller_id for row in rows[:4]] == [1, None, 2, 2]
    assert [row.controller_epoch for row in rows[:5]] == [4, 4, 4, 4, 5]
    assert rows[2].data == '{"version":1,"brokerid":2,"timestamp":"1000"}'
    assert data_of(rows, "replica state machine") == {"online": 4, "offline": 2}
    assert data_of(rows, "LeaderAndIsr") == {"brokers": [2, 3], "partitions": 3}  # all, not just what changed


def test_the_last_broker_fails_and_returns() -> None:
    begin = InitialState((1,), frozenset({1}), (led_partition(1),), 1, 1)
    rows = steps(begin, down(1, 1), up(2, 1))
    assert actions(rows)[1] == "deleted: the controller's session ended; no broker is left to create it"
    assert [row.controller_id for row in rows[:2]] == [1, None]
    second = [row for row in rows if row.event == 1]
    assert actions(second)[:3] == ["broker 1 registered", "created by broker 1, which came first", "read: 1"]
    assert second[-1].controller_epoch == 2


def test_a_controlled_shutdown() -> None:
    rows = steps(THREE, Event(5, EventKind.CONTROLLED_SHUTDOWN, 2))
    assert data_of(rows, "controlled shutdown requested by broker 2") == {"partitions": 3}
    assert data_of(rows, "state znodes written: 3") == {"isr shrunk": 2, "controlled shutdown": 1}
    assert data_of(rows, "StopReplica sent, partitions that broker 2 follows: 2") == {"brokers": [2], "delete": False}


def test_an_automatic_rebalance() -> None:
    begin = cluster(*THREE.partitions, auto_leader_rebalance=True)
    events = [
        down(1, 2),
        up(2, 2),
        Event(3, EventKind.ALTER_ISR, partition=("u", 0), replicas=(1, 2)),
        down(300_001, 3),
    ]
    rows = steps(begin, *events, simulation=3)
    assert actions(rows)[:3] == [
        "auto rebalance: broker 2 leads too few of its preferred partitions",
        "leaders elected: 1",
        "state znodes written: 1",
    ]
    assert [row.at_ms for row in rows if "broker" in row.action][:2] == [300_001, 300_001]
    assert [row.step for row in rows] == list(range(len(rows)))


def test_an_isr_that_the_leader_shrinks_is_not_the_controllers() -> None:
    """At 1500 the leader takes 2 out of the ISR, and broker 3 fails: the controller writes one znode, not two."""
    begin = cluster(led_partition(1, 2), led_partition(1, 3, key=("u", 0)), replica_lag_time_max_ms=1000)
    events = [fetch(499, 2), append(500), down(1500, 3)]
    simulation = simulate(begin, events)
    assert len(list_leaderships(simulation)) == 2
    assert "state znodes written: 1" in actions(list_controller_steps(simulation))
    simulation = simulate(begin, [*events[:2], down(1500, 2)])  # the same partition
    assert [row["leader_epoch"] for row in list_leaderships(simulation)] == [0]
    assert "state znodes written: 1" not in actions(list_controller_steps(simulation))


# ---- old controllers


@pytest.mark.parametrize(
    ("epoch", "message"),
    [
        (1, "rejected: STALE_CONTROLLER_EPOCH, 1 < 2"),
        (2, "accepted: controller epoch 2"),
        (3, "impossible: no controller has had epoch 3 yet; the current epoch is 2"),
    ],
)
def test_requests_of_old_controllers(epoch: int, message: str) -> None:
    lost = Event(0, EventKind.CONTROLLER_LOST, 2)
    row = steps(THREE, lost, Event(1, EventKind.STALE_CONTROLLER, AWAY, value=epoch), simulation=1)[0]
    assert (row.action, row.controller_id, row.controller_epoch) == (message, 2, 2)
    assert json.loads(row.data) == {"broker": AWAY}
    row = steps(THREE, lost, partition_event(1, EventKind.STALE_CONTROLLER, broker=AWAY, value=epoch), simulation=1)[0]
    assert (row.action, json.loads(row.data)) == (message, {"broker": AWAY, "partition": "t-0"})
    before = get_final_state(simulate(THREE, [lost])).partitions
    assert (
        get_final_state(simulate(THREE, [lost, Event(1, EventKind.STALE_CONTROLLER, AWAY, value=epoch)])).partitions
        == before
    )


# ---- all together


def test_znodes_and_counts_match_the_simulation() -> None:
    for seed in range(100):
        begin, events = random_case(seed)
        simulation = simulate(begin, events)
        rows, wrote = list_controller_steps(simulation), list_leaderships(simulation)
        states = {(row.event, row.path): json.loads(row.data) for row in rows if STATE.fullmatch(row.path or "")}
        expected = {
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
        assert by_path == {path: data for (_, path), data in expected.items()}, seed
        counted = sum(
            int(topic_ids[1]) for row in rows if (topic_ids := re.search(r"state znodes written: (\d+)", row.action))
        )
        requested = {
            EventKind.ALTER_ISR,
            EventKind.REASSIGN_PARTITION,
            EventKind.ELECT_PREFERRED_LEADER,
            EventKind.SET_UNCLEAN_ELECTION,
        }
        written = [
            row
            for row in wrote
            if row["cause"] == "auto rebalance"
            or events[row["event"]].kind not in (*requested, EventKind.CREATE_PARTITION)
        ]
        assert counted == sum(row["cause"] != "created" for row in written), seed
        epochs = [row.controller_epoch for row in rows]
        assert epochs == sorted(epochs)
        assert [(row.event, row.step) for row in rows] == sorted((row.event, row.step) for row in rows)
        deleted = [
            row.path for row in rows if row.action == "deleted" and (row.path or "").startswith("/brokers/topics")
        ]
        vanished = {
            row["topic"]
            for row in list_transitions(simulation)
            if row["to_state"] == "NonExistentPartition" and row["legal"]
        }
        remaining = {row["topic"] for row in get_final_state(simulation).partitions}
        assert {path.rsplit("/", 1)[1] for path in deleted} >= vanished - remaining, seed


# ---- KRaft


KRAFT = cluster(*THREE.partitions, kraft=True)


def test_a_kraft_controller_writes_records() -> None:
    rows = steps(KRAFT, *created(1, "new", (1, 2)), down(2, 2), up(3, 2), Event(4, EventKind.CONTROLLER_LOST, 1))
    topic_id = make_topic_id("", "new", 0)
    assert [(row.event, row.action) for row in rows] == [
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
    assert json.loads(rows[1].data) == {"name": "new", "topicId": topic_id}
    record = json.loads(rows[2].data)
    assert record["topicId"] == topic_id
    assert (record["replicas"], record["isr"], record["leader"], record["leaderEpoch"]) == ([1, 2], [1, 2], 1, 0)
    assert [json.loads(rows[i].data) for i in (4, 6)] == [{"brokerId": 2, "fenced": f} for f in (1, -1)]


def test_with_kraft_a_topic_is_deleted_at_once() -> None:
    """Neither a down broker nor a reassignment keeps it."""
    for before in (down(1, 2), partition_event(1, EventKind.REASSIGN_PARTITION, replicas=(3,))):
        simulation = simulate(KRAFT, [before, partition_event(2, EventKind.DELETE_PARTITION)])
        assert {row["topic"] for row in get_final_state(simulation).partitions} == {"u"}
        assert all(row["legal"] for row in list_transitions(simulation))
        last = list_controller_steps(simulation)[-1]
        assert (last.action, last.data) == ("REMOVE_TOPIC_RECORD", '{"name":"t"}')


def test_steps_of_a_metadata_log() -> None:
    rows = list_controller_steps(run_replay(ReplayRequest([str(LOG)])).simulation)
    assert (rows[0].action, rows[0].controller_id) == ("leader of the metadata quorum: 100, epoch 1", 100)
    counts = [int(topic_ids[1]) for row in rows if (topic_ids := re.fullmatch(r"PARTITION_RECORD: (\d+)", row.action))]
    assert sum(counts) == 743
    assert json.loads(rows[-1].data) == {"brokerId": 2, "fenced": 1}
    assert rows[-2].action == "PARTITION_CHANGE_RECORD: 315"


def test_steps_need_one_cluster() -> None:
    packed = pack_event_log(pa.concat_tables([build_event_log(THREE, [], cluster=name) for name in ("a", "b")]))
    with pytest.raises(ValueError, match="one cluster, not for 2"):
        list_controller_steps(simulate_packed(packed))
    assert list_controller_steps(simulate(THREE, [])) == []
    assert list_controller_steps(simulate(InitialState(), [])) == []
