"""The controller quorum, as kafka-metadata-quorum prints it, as settings name it, and what follows for a verdict."""

import io
from pathlib import Path

import pytest

from pipelines.cli.broker_order_rendering import format_restart_order
from pipelines.cli.what_if_rendering import format_cluster
from pipelines.ingest.formats.live_requests import NO_CONTROLLER, print_requests
from pipelines.ingest.snapshot_reader import Snapshot, load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.live.cluster_records import Quorum, QuorumNode
from pipelines.live.tool_output import print_quorum
from pipelines.verdict.verdict_points import NO_MAJORITY
from pipelines.what_if.what_if_answers import evaluate_brokers, evaluate_failure
from tests.commands import call
from udfs.failures.scenarios import QuorumVoters
from udfs.failures.topic_defaults import KAFKA_DEFAULTS

# Of Kafka 4.3.1, after voter 1 of three combined nodes was killed.
_STATUS = """ClusterId:              qMFP-zF0TjG6nZjU14nSRg
LeaderId:               3
LeaderEpoch:            3
HighWatermark:          81
MaxFollowerLag:         82
MaxFollowerLagTimeMs:   -1
CurrentVoters:          [{"id": 1, "endpoints": ["CONTROLLER://127.0.0.1:56007"]}, {"id": 2, "endpoints": \
["CONTROLLER://127.0.0.1:38101"]}, {"id": 3, "endpoints": ["CONTROLLER://127.0.0.1:46341"]}]
CurrentObservers:       []
"""
_REPLICATION = """NodeId	DirectoryId	LogEndOffset	Lag	LastFetchTimestamp	LastCaughtUpTimestamp	Status
3     	AAAAAAAAAAAAAAAAAAAAAA	84          	0  	1795925748844     	1795925748844        	Leader
1     	AAAAAAAAAAAAAAAAAAAAAA	-1          	85 	-1                	-1                   	Follower
2     	AAAAAAAAAAAAAAAAAAAAAA	84          	0  	1795925748395     	1795925748395        	Follower
"""
_TOPICS = """Topic: a	PartitionCount: 2	ReplicationFactor: 3	Configs: min.insync.replicas=2
	Topic: a	Partition: 0	Leader: 1	Replicas: 1,2,3	Isr: 1,2,3
	Topic: a	Partition: 1	Leader: 2	Replicas: 2,3,1	Isr: 2,3,1
"""
_BROKERS = "ID  HOST  PORT  RACK  STATE  ENDPOINT_TYPE\n"


def read(folder: Path, **texts: str) -> Snapshot:
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return load_snapshot(find_source(f"c={folder}"))


def test_status_and_replication(tmp_path: Path) -> None:
    snapshot = read(tmp_path, status=_STATUS, replication=_REPLICATION)
    nodes = {row.pop("node_id"): row for row in snapshot.quorum.to_pylist()}
    assert not snapshot.quarantined
    assert {node: row["caught_up"] for node, row in nodes.items()} == {1: False, 2: True, 3: True}
    assert {node: row["lag_ms"] for node, row in nodes.items()} == {1: None, 2: 449, 3: 0}
    assert [node for node, row in nodes.items() if row["leader"]] == [3]
    assert nodes[1] | {"caught_up": None} == {
        **{"voter": True, "leader": False, "directory_id": None, "host": "127.0.0.1", "port": 56007},
        **{"log_end_offset": -1, "lag": 85, "lag_ms": None, "caught_up": None},
    }


def test_a_lag_of_none_whose_time_is_unknown(tmp_path: Path) -> None:
    """As in the example of Kafka's documentation."""
    status = _STATUS.replace("MaxFollowerLag:         82", "MaxFollowerLag:         0")
    assert "lags or is down" not in str(read(tmp_path, status=status).warnings)
    assert "lags or is down" in str(read(tmp_path, status=_STATUS).warnings)


def test_ids_of_earlier_versions_and_times_before_now(tmp_path: Path) -> None:
    rows = _REPLICATION.splitlines()
    human = [
        rows[0],
        *(
            f"{i} 10 0 {ms} ms ago {ms} ms ago {role}"
            for i, ms, role in (
                (3000, 24, "Leader"),
                (3001, 338, "Follower"),
                (3002, 60_000, "Follower"),
                (7, 50, "Observer"),
            )
        ),
    ]
    status = "LeaderId: 3000\nCurrentVoters: [3000,3001,3002]\nCurrentObservers: [7]\n"
    snapshot = read(tmp_path, status=status, human="\n".join(human))
    assert [(row["node_id"], row["voter"], row["lag_ms"], row["caught_up"]) for row in snapshot.quorum.to_pylist()] == [
        *((7, False, 26, True), (3000, True, 0, True), (3001, True, 314, True), (3002, True, 59_976, False))
    ]


def test_voters_that_settings_name(tmp_path: Path) -> None:
    config = "All configs for broker 1 are:\n  controller.quorum.voters=1@a:9093,2@b:9093 sensitive=false synonyms={}\n"
    rows = read(tmp_path, configs=config).quorum.to_pylist()
    assert [(row["node_id"], row["host"], row["port"], row["caught_up"]) for row in rows] == [
        *((1, "a", 9093, None), (2, "b", 9093, None))
    ]


def test_without_a_controller_voters_that_are_no_brokers_do_not_follow(tmp_path: Path) -> None:
    voters = ",".join(f"{id_}@a:909{id_}" for id_ in (1, 2, 9))
    config = f"All configs for broker 1 are:\n  controller.quorum.voters={voters} sensitive=false synonyms={{}}\n"
    requests = "\n".join(print_requests("a:1", [NO_CONTROLLER], ()))
    snapshot = read(tmp_path, configs=config, requests=requests, topics=_TOPICS, brokers="broker_id\n1\n2\n3")
    rows = {row["node_id"]: row["caught_up"] for row in snapshot.quorum.to_pylist()}
    assert rows == {1: None, 2: None, 9: False}


def test_without_a_controller_a_quorum_of_unknown_voters_has_no_majority(tmp_path: Path) -> None:
    """As where controller.quorum.bootstrap.servers is set: only the controller shows its voters."""
    requests = "\n".join(print_requests("a:1", [NO_CONTROLLER], ()))
    snapshot = read(tmp_path, requests=requests, topics=_TOPICS)
    lost = "The controller quorum has no majority: too many of its voters are down or lag (no source shows which), so "
    answer = evaluate_brokers(snapshot, KAFKA_DEFAULTS)
    assert [point.text for point in answer.verdict.points if point.text.startswith(lost)]
    assert answer.verdict.headline.startswith("AT RISK")
    assert {one.answer for one in answer.brokers} == {NO_MAJORITY}
    assert not [line for line in format_cluster(answer) if "controllers" in line or "is assumed" in line]
    (cause,) = evaluate_failure(snapshot, [1], KAFKA_DEFAULTS).summary.causes
    assert cause.text.startswith(lost)


def test_a_running_cluster_is_written_as_the_tool_prints_it(tmp_path: Path) -> None:
    nodes = [
        QuorumNode(1, None, True, 90, 1_795_925_748_844, 1_795_925_748_844, ("CONTROLLER://a:1",)),
        QuorumNode(2, "GiJBUzOEQqSzBDpMkOkqwA", True, -1, -1, -1, ()),
        QuorumNode(5, None, False, 88, 1_795_925_748_000, 1_795_925_748_000, ()),
    ]
    out = io.StringIO()
    out.writelines(f"{line}\n" for line in print_quorum(Quorum(1, tuple(nodes))))
    rows = {row["node_id"]: row for row in read(tmp_path, quorum=out.getvalue()).quorum.to_pylist()}
    assert {node: (row["voter"], row["caught_up"], row["lag"]) for node, row in rows.items()} == {
        **{1: (True, True, 0), 2: (True, False, 91), 5: (False, True, 2)}
    }
    assert rows[2]["directory_id"] == "GiJBUzOEQqSzBDpMkOkqwA"


@pytest.mark.parametrize("text", ["CurrentVoters: [{]", 'CurrentVoters: [{"name": 1}]', "CurrentVoters: true"])
def test_damaged_voters_are_quarantined(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, status=text, topics=_TOPICS).quarantined


@pytest.mark.parametrize(
    "cut", ["1     	AAAAA", "1", "1     	AAAAAAAAAAAAAAAAAAAAAA	-1          	85 	-1"]
)
def test_a_cut_row_is_quarantined(tmp_path: Path, cut: str) -> None:
    whole = _REPLICATION.splitlines()[2]
    snapshot = read(tmp_path, topics=_TOPICS, replication=_REPLICATION.replace(whole, cut))
    assert [(row["line_number"], row["raw"]) for row in snapshot.quarantined] == [(3, cut)]
    (point,) = [one for one in evaluate_brokers(snapshot, KAFKA_DEFAULTS).verdict.points if one.kind == "quarantined"]
    assert point.affected == 1


def test_majorities() -> None:
    healthy = QuorumVoters((1, 2, 3))
    assert [healthy.elects_without(failed) for failed in ((), (1,), (1, 2), (1, 9), (1, 2, 3))] == [
        *(True, True, False, True, False)
    ]
    lagging = QuorumVoters((1, 2, 3), (3,))
    assert [lagging.elects_without(failed) for failed in ((), (3,), (1,), (9,))] == [True, True, False, True]
    assert not QuorumVoters((1, 2, 3), (2, 3)).elects_without(())
    assert QuorumVoters().elects_without((1, 2, 3))  # not known, or ZooKeeper
    assert healthy.find_fatal_rack({1: "a", 2: "a", 3: "b"}) == "a"
    assert healthy.find_fatal_rack({1: "a", 2: "b", 3: "c"}) is None
    assert healthy.find_fatal_rack({1: "a"}) is None


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        ("CurrentVoters: [1,2,3]", {"voters_in_one_rack"}),
        ("CurrentVoters: [1,3,101]", set()),
        ("CurrentVoters: [101]", {"no_spare_voter"}),
        ("CurrentVoters: [101,102]", {"no_spare_voter", "even_voters"}),
        ("CurrentVoters: [101,102,103,104]", {"even_voters"}),
        (_STATUS + _REPLICATION, {"voters_lag"}),
        (
            _STATUS
            + _REPLICATION.replace("84          	0  	1795925748395     	1795925748395 ", "-1 1 -1 -1 "),
            {"quorum_lost"},
        ),
    ],
)
def test_the_verdict_names_what_the_quorum_lacks(tmp_path: Path, status: str, kinds: set[str]) -> None:
    brokers = _BROKERS + "".join(f"{i}  h{i}  9092  {'aab'[i - 1]}  unfenced  broker\n" for i in (1, 2, 3))
    verdict = evaluate_brokers(read(tmp_path, status=status, topics=_TOPICS, brokers=brokers), KAFKA_DEFAULTS).verdict
    named = {point.kind for point in verdict.points}
    assert {kind for kind in named if "quorum" in kind or "voter" in kind} == kinds


def test_without_a_majority_nobody_is_elected(tmp_path: Path) -> None:
    """Brokers 1, 2 and 3 are the voters; broker 4 is none."""
    lists = ["1,2,4 1,2,4", "4,3 4,3", "4,1 4,1", "3,4,2 3,4", "2,1,4 2,1"]
    rows = (line.split() for line in lists)
    described = [
        f"\tTopic: t\tPartition: {p}\tLeader: {replicas[0]}\tReplicas: {replicas}\tIsr: {isr}"
        for p, (replicas, isr) in enumerate(rows)
    ]
    head = "Topic: t\tPartitionCount: 5\tReplicationFactor: 3\tConfigs: min.insync.replicas=1"
    snapshot = read(tmp_path, topics="\n".join([head, *described]), status="CurrentVoters: [1,2,3]")
    one = evaluate_failure(snapshot, [1], KAFKA_DEFAULTS)
    assert [change.leader_after for change in one.partitions] == [2, 4, 4, 3, 2]
    both = evaluate_failure(snapshot, [1, 2], KAFKA_DEFAULTS)
    # Partitions 0 and 4 lose their leaders; 2 waits for broker 1, which stays in its ISR.
    assert [change.leader_after for change in both.partitions] == [None, 4, 4, 3, None]
    assert (both.summary.offline_after, both.summary.under_min_isr_after) == (2, 1)
    assert (both.summary.answer, both.summary.leaders_moved) == (NO_MAJORITY, 0)
    (cause,) = both.summary.causes
    assert cause.text == "No leader can be elected: 2 of 3 voters of the controller quorum fail."
    all_of_rack = evaluate_brokers(snapshot, KAFKA_DEFAULTS)
    assert not [one.answer for one in all_of_rack.brokers if one.answer == NO_MAJORITY]


def test_controllers_that_are_down_restart_first(tmp_path: Path) -> None:
    def order(*ends: int) -> list[str]:
        rows = [
            f"{i} {end} 0 {10 if end < 0 else 24} ms ago 24 ms ago"
            for i, end in zip((101, 102, 103), ends, strict=True)
        ]
        roles = ["Leader", "Follower", "Follower"]
        table = "\n".join(
            [_REPLICATION.splitlines()[0], *(f"{row} {role}" for row, role in zip(rows, roles, strict=True))]
        )
        snapshot = read(tmp_path, status="CurrentVoters: [101,102,103]", replication=table, topics=_TOPICS)
        lines = format_restart_order(evaluate_brokers(snapshot, KAFKA_DEFAULTS))
        return [line for line in lines if "controller" in line]

    follow = "  before each, wait until all voters follow the active controller"
    first = "Restart controllers that are down or lag first: "
    none = "While any controller restarts (102, 101), no leader is elected: no majority is left"
    assert order(9, 9, 9) == ["Restart controllers in this order: 102, 103, 101", follow]
    assert order(9, 9, -1) == [f"{first}103", none]
    assert order(9, -1, -1) == [f"{first}102, 103"]


def test_a_broker_is_the_last_voter_that_may_fail(tmp_path: Path) -> None:
    snapshot = read(tmp_path, topics=_TOPICS, status=_STATUS + _REPLICATION)  # voter 1 is down or lags
    answers = {one.failed: one.answer == NO_MAJORITY for one in evaluate_brokers(snapshot, KAFKA_DEFAULTS).brokers}
    assert answers == {1: False, 2: True, 3: True}
    (cause,) = evaluate_failure(snapshot, [2], KAFKA_DEFAULTS).summary.causes
    assert cause.text.endswith("1 of 3 voters of the controller quorum fails (down or lagging already: 1).")


def test_what_the_quorum_takes_offline_is_counted(tmp_path: Path) -> None:
    """Replicas are in sync, so that the next step is that of the quorum."""
    verdict = evaluate_brokers(read(tmp_path, topics=_TOPICS, status=_REPLICATION), KAFKA_DEFAULTS).verdict
    offline = next(point for point in verdict.points if "offline" in point.text)
    assert offline.text == "Losing broker 2 takes 1 partition offline."
    blocked = next(point for point in verdict.points if "acks=all" in point.text)
    assert not [point for point in (offline, blocked) if point.step]


def test_a_rack_with_most_voters_takes_more_offline_than_its_brokers(tmp_path: Path) -> None:
    """Partition 2 has one replica; a failure of rack r leaves one voter of three."""
    topics = f"{_TOPICS}\tTopic: a\tPartition: 2\tLeader: 3\tReplicas: 3\tIsr: 3\n"
    racks = "".join(
        f"{broker} h{broker} 9092 {rack} unfenced broker\n" for broker, rack in ((1, "r"), (2, "r"), (3, "s"))
    )
    snapshot = read(tmp_path, topics=topics, status="CurrentVoters: [1,2,3]", brokers=f"{_BROKERS}{racks}")
    points = [point.text for point in evaluate_brokers(snapshot, KAFKA_DEFAULTS).verdict.points]
    assert [text for text in points if text.startswith("Losing any single rack takes partitions offline")]
    assert not [text for text in points if "the same partitions that single brokers take" in text]


def test_a_lag_that_only_the_status_shows_is_a_warning(tmp_path: Path) -> None:
    alone = read(tmp_path, topics=_TOPICS, status=_STATUS)
    (warning,) = alone.warnings.to_pylist()
    assert (warning["line_number"], "add the output of" in warning["warning"]) == (6, True)
    assert not evaluate_brokers(alone, KAFKA_DEFAULTS).verdict.headline.startswith("OK")
    assert not read(tmp_path, replication=_REPLICATION).warnings.num_rows  # it shows which voter
    (tmp_path / "replication.txt").unlink()
    assert not read(tmp_path, status=_STATUS.replace("TimeMs:   -1", "TimeMs:   700")).warnings.num_rows


@pytest.mark.parametrize(
    "texts",
    [
        {"status": "CurrentVoters: [1,2,3]", "later": "LeaderId: 3\nCurrentVoters: [1,2,3,4,5]"},
        {"status": "CurrentVoters: [1,2,3]\nCurrentVoters: [1,2,3,4,5]"},
        {
            "status": "Dynamic configs for broker 1 are:\n  controller.quorum.voters=1@a:9,2@a:9,3@a:9 sensitive=false "
            "synonyms={}",
            "other": "CurrentVoters: [1,2,3,4,5]",
        },
        {"status": "CurrentVoters: [1,2,3,4,5]", "replication": _REPLICATION},
    ],
)
def test_lists_that_show_other_voters(texts: dict[str, str], tmp_path: Path) -> None:
    snapshot = read(tmp_path, topics=_TOPICS, **texts)
    assert snapshot.quorum.num_rows == 5
    (warning,) = snapshot.warnings.to_pylist()
    assert "that others show are missing here (4, 5)" in warning["warning"]


def test_drain_of_a_voter(tmp_path: Path) -> None:
    """Voter 1 lags: without broker 2, voter 3 would be alone."""
    topics = _TOPICS.replace("1,2,3", "1,2,4").replace("2,3,1", "2,3,4")
    for name, text in {"topics": topics, "status": _STATUS, "replication": _REPLICATION}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    out = call("plan", f"c={tmp_path}", "--goal", "drain", "--brokers", "2")
    assert (
        "broker 2 is also a voter of the controller quorum: without it, 1 voter of 3 would be left, which is no "
        "majority: no leader could be elected. Before you stop it, add a controller on another node"
    ) in out.stderr
    out = call("plan", f"c={tmp_path}", "--goal", "drain", "--brokers", "4")
    assert "controller quorum" not in out.stderr
