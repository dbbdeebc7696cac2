"""Bad plans on clusters that are sick: what the judge predicts is what Kafka then does, on three versions.

The lists are drawn with the mistakes of tests/properties/test_sick_clusters.py. Each fault has a topic of its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from pipelines.execution.cluster_view import view_cluster
from pipelines.live.client_properties import ClientProperties
from pipelines.live.cluster_records import LivePartition
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.live.live_sources import read_snapshot
from pipelines.plan_files.kafka_json import FOLLOWER_RATE, FOLLOWER_REPLICAS
from tests.commands import call
from tests.live.kafka_cluster import CONTROLLER_ID, DEFAULT_VERSION, KafkaCluster, find_class_archive, wait_until
from tests.live.kafka_tools import run_tool
from tests.live.test_log_dirs import fail_log_dir
from tests.properties.disk_clusters import DiskCluster
from tests.properties.sick_clusters import Partition, SickCluster, Topic
from tests.properties.slow_judge import HARMFUL, REJECTED, Rules, judge_slowly
from tests.properties.test_sick_clusters import OF_BROKERS, mutate
from tests.seed_sampler import SEED, sample_some
from udfs.planning.plan_states import PlanFault

pytestmark = [pytest.mark.slow, pytest.mark.live]

# When KRaft completes a reassignment: once the added replicas are in the ISR (up to 3.7; since 4.3 all, if more are
# removed than added), or once all replicas of the new list are (3.8 to 4.2).
VERSIONS = ("kafka_3_7", "kafka_4_1", "kafka_4_3")
_WAITS_FOR_ALL = "kafka_4_1"
_COMPLETES_WITH_ADDED = "kafka_4_3"
_DROPS_AT_ONCE = "kafka_3_7"
_DOWN = 6
_LAGGING = (2, 3)  # in the topics with `lagging`
_MANY = 200  # records of 10 kB: with its throttle, a broker copies 64 kB of them in 11 s
_UNCLEAN = 1  # election type
_LONG_S = 8.0  # in which a reassignment that nothing keeps from completing would complete several times


class SickTopic(NamedTuple):
    """A topic of one partition."""

    replicas: list[int]
    min_isr: int = 2
    lagging: tuple[int, ...] = ()
    records: int = 1


TOPICS = {
    PlanFault.DOWN_BROKER: SickTopic([1, 2, 3]),
    PlanFault.LAST_COPY: SickTopic([1, 2, 3], 1, _LAGGING, _MANY),
    PlanFault.DROPS_IN_SYNC: SickTopic([1, 5, 3], 2, (3,), _MANY),
    PlanFault.NO_SOURCE: SickTopic([_DOWN], 1),
    PlanFault.REPLICATION_FACTOR: SickTopic([1, 2, 3]),
    PlanFault.FEWER_RACKS: SickTopic([1, 2, 3]),
    PlanFault.WAITS_FOR_LAGGING: SickTopic([1, 2, 5], 2, (2,), _MANY),
    PlanFault.BLOCKED_WHILE_COPYING: SickTopic([4, 5], 3, (), _MANY),
    PlanFault.BROKER_TAKES_OFFLINE: SickTopic([4, 5, 3]),
}
_REJECTED = {  # lists that Kafka takes in no state of the cluster, and its error; kafka-python sends no empty ones
    PlanFault.UNKNOWN_PARTITION: (7, [1, 2, 3], "UnknownTopicOrPartition"),
    PlanFault.REPEATED_REPLICA: (0, [1, 2, 2], "InvalidReplica"),
    PlanFault.UNKNOWN_BROKER: (0, [1, 2, 99], "InvalidReplica"),
}


@dataclass
class SickRun:
    """A running cluster whose broker 6 is down, and where replicas on brokers 2 and 3 lag."""

    cluster: KafkaCluster
    admin: KafkaAdmin

    @property
    def source(self) -> str:
        return f"sick=kafka://{self.cluster.bootstrap}"

    def get(self, key: Key) -> LivePartition:
        return view_cluster(self.admin).partitions[key]

    def describe(self, fault: PlanFault) -> SickCluster:
        """Describe the topic of a fault as the slow judge takes it."""
        one, racks = self.get((fault, 0)), {id_: node.rack for id_, node in self.cluster.nodes.items()}
        del racks[CONTROLLER_ID]
        isr = one.isr or one.replicas  # with ELRs, the last replica leaves the ISR, too
        partition = Partition(list(one.replicas), list(isr), None if one.leader < 0 else one.leader)
        return SickCluster(racks, {_DOWN}, [Topic(fault, len(one.replicas), TOPICS[fault].min_isr, [partition])])

    def reassign(self, key: Key, replicas: Sequence[int]) -> None:
        assert self.admin.alter_reassignments({key: list(replicas)}) == {}

    def is_under_way(self, key: Key) -> bool:
        return key in self.admin.list_reassignments()

    def wait_until_complete(self, key: Key) -> LivePartition:
        wait_until(lambda: not self.is_under_way(key), f"{key} is still being reassigned")
        return self.get(key)

    def check_never_completes(self, key: Key) -> None:
        end = time.monotonic() + _LONG_S
        while time.monotonic() < end:
            assert self.is_under_way(key)
            time.sleep(0.5)

    def fail(self, *brokers: int) -> None:
        """Kill brokers, and wait until the controller has noticed."""
        for broker in brokers:
            self.cluster.nodes[broker].kill()
        wait_until(lambda: not view_cluster(self.admin).live_brokers & {*brokers}, f"{brokers} are still live")

    def restore(self) -> None:
        """Have all brokers live but the one that is down, and all replicas in sync that do not lag."""
        for broker, node in self.cluster.nodes.items():
            if broker != _DOWN and not node.is_running:
                self.cluster.restart(broker)
        if self.cluster.nodes[_DOWN].is_running:
            self.fail(_DOWN)
        healthy = {(fault, 0) for fault, topic in TOPICS.items() if not topic.lagging and topic.replicas != [_DOWN]}

        def is_restored() -> bool:
            view = view_cluster(self.admin)
            missing = [{*one.replicas} - {*one.isr} for key, one in view.partitions.items() if key in healthy]
            return not any(missing)

        wait_until(is_restored, "replicas do not come in sync")

    def accepts(self, topic: str) -> bool:
        """Return whether a producer with acks=all can write."""
        limits = {"request_timeout_ms": 2000, "delivery_timeout_ms": 8000, "max_block_ms": 8000}
        producer = KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap.split(","),
            acks="all",
            enable_idempotence=False,
            reconnect_backoff_max_ms=500,
            **limits,
        )
        try:
            producer.send(topic, b"accepted", partition=0).get(10)
        except KafkaError:
            return False
        finally:
            producer.close(timeout=1)
        return True


@pytest.fixture(scope="module")
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SickRun]:
    """Six brokers in three racks, with two log dirs each."""
    version, folder = request.param, Path(tmp_path_factory.mktemp("kafka")) / "cluster"
    cluster = KafkaCluster(folder, version, brokers=6, log_dirs=2)
    try:
        cluster.start((f"-XX:SharedArchiveFile={find_class_archive(version)}",))
        with KafkaAdmin(cluster.bootstrap, ClientProperties()) as admin:
            _make_sick(SickRun(cluster, admin))
            yield SickRun(cluster, admin)
    finally:
        cluster.stop()


def _make_sick(run: SickRun) -> None:
    run.cluster.create_topics(
        {fault: ({0: topic.replicas}, {"min.insync.replicas": str(topic.min_isr)}) for fault, topic in TOPICS.items()}
    )
    run.cluster.wait_until_settled(len(TOPICS))
    run.cluster.produce({(fault, 0): 1 for fault in TOPICS})
    throttled = {f: ",".join(f"0:{broker}" for broker in topic.lagging) for f, topic in TOPICS.items() if topic.lagging}
    run.admin.alter_topic_configs({fault: {FOLLOWER_REPLICAS: ids} for fault, ids in throttled.items()})
    for broker in range(1, 7):
        run.admin.alter_broker_configs(broker, {FOLLOWER_RATE: "1"})
    run.fail(*_LAGGING)
    run.cluster.produce({(fault, 0): topic.records for fault, topic in TOPICS.items() if topic.records == _MANY})
    run.restore()
    partitions = view_cluster(run.admin).partitions
    lagging = {(f, 0): topic.lagging for f, topic in TOPICS.items() if topic.lagging}
    assert all({*partitions[key].replicas} - {*partitions[key].isr} == {*brokers} for key, brokers in lagging.items())


@pytest.fixture
def run(started: SickRun) -> SickRun:
    """The cluster, sick as ever."""
    started.restore()
    return started


def check(run: SickRun, key: Key, replicas: Sequence[int], folder: Path, *, code: int) -> set[str]:
    """Have `check` judge a list. Returns: the faults, without those of brokers."""
    file = folder / "plan.json"
    entry = {"topic": key[0], "partition": key[1], "replicas": list(replicas)}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    answer = json.loads(call("check", str(file), run.source, "--json", "-", code=code).stdout)
    print(key, replicas, [finding["text"] for finding in answer["findings"]])
    return {finding["fault"] for finding in answer["findings"]} - {*map(str, OF_BROKERS)}


def draw_bad_list(run: SickRun, fault: PlanFault, folder: Path) -> list[int]:
    """Draw a list with a fault, by the mistakes of people and tools, and with none that is worse; both judges agree."""
    sick, key = run.describe(fault), (str(fault), 0)
    rules = Rules(None, run.cluster.version != _COMPLETES_WITH_ADDED, run.cluster.version == _DROPS_AT_ONCE)
    if fault == PlanFault.WAITS_FOR_LAGGING and not rules.waits_for_all:  # no list of as many replicas waits
        assert not check(run, key, [2, 5, 4], folder, code=0)
        return [2, 5, 4]
    rng = Random(f"{os.environ[SEED]} {run.cluster.version} {fault}")
    worse = {str(one) for one in PlanFault if one.rank < fault.rank} & (HARMFUL | REJECTED)
    worse -= _BESIDE.get(fault, set())
    drawn = DiskCluster(sick, read_snapshot(run.admin, "sick")[1])
    if fault == PlanFault.DROPS_IN_SYNC and not rules.drops_at_once:  # nothing is dropped before what lags is in sync
        fault = PlanFault.WAITS_FOR_LAGGING
    for _ in range(2000):
        (wave,) = mutate(drawn, [], rng)
        if [one.key for one in wave] != [key] or wave[0].log_dirs:
            continue
        faults = {one for one, _ in judge_slowly(sick, [wave], rules)}
        if {fault, *_WITH.get(fault, ())} <= faults and not faults & worse:
            assert check(run, key, wave[0].replicas, folder, code=int(bool(faults & (HARMFUL | REJECTED)))) == faults
            return wave[0].replicas
    raise AssertionError(f"no mistake leads to {fault}: {sick}")


def stays_down(run: SickRun, key: Key, new: list[int]) -> None:
    """Kafka waits for the broker that is down. Its own tool takes no such list."""
    file = run.cluster.folder / "plan.json"
    entry = {"topic": key[0], "partition": key[1], "replicas": new}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    arguments = ("--bootstrap-server", run.cluster.bootstrap, "--reassignment-json-file", str(file), "--execute")
    text = run_tool(DEFAULT_VERSION, "kafka-reassign-partitions", *arguments, may_fail=True)
    assert "Unknown broker id" in text
    run.reassign(key, new)
    run.check_never_completes(key)
    assert f"broker {_DOWN}" in call("check", run.source, code=1).stdout
    run.admin.alter_reassignments({key: None})
    run.wait_until_complete(key)


def waits_for_other_copies(run: SickRun, key: Key, new: list[int]) -> None:
    """Kafka keeps the last copy until another one is complete, which it waits for; nothing is lost."""
    old = run.get(key)
    run.reassign(key, new)
    run.check_never_completes(key)
    assert run.get(key).isr == old.isr
    run.fail(*old.isr)
    assert run.get(key).leader == -1
    run.cluster.restart(*old.isr)
    run.admin.alter_topic_configs({key[0]: {FOLLOWER_REPLICAS: None}})
    assert list(run.wait_until_complete(key).replicas) == new
    assert count_records(run, key) >= _MANY


def drops_replicas_in_sync(run: SickRun, key: Key, new: list[int]) -> None:
    """KRaft drops them at once up to Kafka 3.7, so that producers are blocked; later, it waits for what lags."""
    old = run.get(key)
    run.reassign(key, new)
    if run.cluster.version == _DROPS_AT_ONCE:
        now = run.wait_until_complete(key)
        assert len(now.isr) < min(len(old.isr), len(new))
        assert not run.accepts(key[0])
    else:
        run.check_never_completes(key)
        assert {*run.get(key).isr} >= {*old.isr}


def has_no_source(run: SickRun, key: Key, new: list[int]) -> None:
    """Nothing is copied until the broker is back, which has not lost its copy: then it completes."""
    run.reassign(key, new)
    run.check_never_completes(key)
    assert not run.accepts(key[0])
    run.cluster.restart(_DOWN)
    assert list(run.wait_until_complete(key).replicas) == new
    assert count_records(run, key) == 1


def bears_no_broker_failure(run: SickRun, key: Key, new: list[int]) -> None:
    """The failure of one broker blocks producers, which it did not before."""
    run.reassign(key, new)
    now = run.wait_until_complete(key)
    run.fail(now.isr[0])
    assert not run.accepts(key[0])
    run.cluster.restart(now.isr[0])
    assert run.accepts(key[0])


def is_taken_offline(run: SickRun, key: Key, new: list[int]) -> None:
    """The failure of the only broker that is left takes the partition offline; with ELRs, also when it is back."""
    run.reassign(key, new)
    now = run.wait_until_complete(key)
    run.fail(*now.isr)
    assert run.get(key).leader == -1
    run.cluster.restart(*now.isr)
    admin = KafkaAdminClient(bootstrap_servers=run.cluster.bootstrap.split(","))
    admin.elect_leaders(_UNCLEAN, {key[0]: [key[1]]}, raise_errors=False)
    admin.close()
    wait_until(lambda: run.get(key).leader == new[0], "no leader was elected")
    assert count_records(run, key) == 1


def bears_no_rack_failure(run: SickRun, key: Key, new: list[int]) -> None:
    """The failure of the rack with most replicas blocks producers."""
    run.reassign(key, new)
    now = run.wait_until_complete(key)
    racks = [run.cluster.nodes[broker].rack for broker in now.isr]
    failed = [broker for broker, rack in zip(now.isr, racks, strict=True) if racks.count(rack) > 1]
    assert len(failed) == 2
    run.fail(*failed)
    assert not run.accepts(key[0])


def waits_for_what_lags(run: SickRun, key: Key, new: list[int]) -> None:
    """Kafka 3.8 to 4.2 waits for a replica that stays and is out of sync; others complete."""
    run.reassign(key, new)
    if run.cluster.version == _WAITS_FOR_ALL:
        run.check_never_completes(key)
        run.admin.alter_topic_configs({key[0]: {FOLLOWER_REPLICAS: None}})
    assert list(run.wait_until_complete(key).replicas) == new


def is_blocked_while_copying(run: SickRun, key: Key, new: list[int]) -> None:
    """min.insync.replicas counts for the added replica, too, which is not in sync until it is copied."""
    assert run.accepts(key[0])
    run.admin.alter_topic_configs({key[0]: {FOLLOWER_REPLICAS: "*"}})
    run.reassign(key, new)
    assert not run.accepts(key[0])
    assert run.is_under_way(key)
    run.admin.alter_topic_configs({key[0]: {FOLLOWER_REPLICAS: None}})
    run.wait_until_complete(key)
    assert run.accepts(key[0])


def count_records(run: SickRun, key: Key) -> int:
    return run.admin.list_end_offsets([key])[key]


# Faults beside which others that are worse do not change what happens.
_BESIDE = {
    PlanFault.NO_SOURCE: {"last_copy"},
    PlanFault.BROKER_TAKES_OFFLINE: {"replication_factor"},
    PlanFault.BLOCKED_WHILE_COPYING: {"replication_factor"},
}
# Faults without which what happens is that of another fault.
_WITH = {PlanFault.REPLICATION_FACTOR: {"broker_blocks"}, PlanFault.FEWER_RACKS: {"rack_blocks"}}
HARMS = {
    PlanFault.DOWN_BROKER: stays_down,
    PlanFault.LAST_COPY: waits_for_other_copies,
    PlanFault.DROPS_IN_SYNC: drops_replicas_in_sync,
    PlanFault.WAITS_FOR_LAGGING: waits_for_what_lags,
    PlanFault.NO_SOURCE: has_no_source,
    PlanFault.REPLICATION_FACTOR: bears_no_broker_failure,
    PlanFault.FEWER_RACKS: bears_no_rack_failure,
    PlanFault.BLOCKED_WHILE_COPYING: is_blocked_while_copying,
    PlanFault.BROKER_TAKES_OFFLINE: is_taken_offline,
}
_VERSIONS = sample_some(VERSIONS, 1, "bad plans")
_FAULTS = sample_some(list(HARMS), 2, "bad plans")


@pytest.mark.parametrize("started", _VERSIONS, indirect=True)
@pytest.mark.parametrize("fault", _FAULTS, ids=str)
def test_a_bad_plan_does_the_harm_that_is_predicted(run: SickRun, fault: PlanFault, tmp_path: Path) -> None:
    new = draw_bad_list(run, fault, tmp_path)
    HARMS[fault](run, (str(fault), 0), new)


@pytest.mark.parametrize("started", _VERSIONS, indirect=True)
def test_kafka_rejects_what_is_predicted(run: SickRun, tmp_path: Path) -> None:
    for fault, (partition, replicas, error) in _REJECTED.items():
        key = (str(PlanFault.REPLICATION_FACTOR), partition)
        assert fault in check(run, key, replicas, tmp_path, code=1)
        try:
            texts = run.admin.alter_reassignments({key: replicas})
        except KafkaFault as rejection:
            texts = {key: str(rejection)}
        assert error in texts[key]
        assert not run.is_under_way(key)


# The last test, as a log dir fails for good.
@pytest.mark.parametrize("started", _VERSIONS, indirect=True)
def test_a_replica_in_a_failed_log_dir_is_waited_for(run: SickRun, tmp_path: Path) -> None:
    run.cluster.create_topics({"failed": ({p: [4, 5, 1] for p in range(6)}, {"min.insync.replicas": "2"})})
    second = str(run.cluster.nodes[4].folder / "data-2")

    def list_logs() -> list[int]:
        (found,) = [one for one in run.admin.describe_log_dirs(4) if one["log_dir"] == second]
        return [
            p["partition_index"] for topic in found["topics"] if topic["name"] == "failed" for p in topic["partitions"]
        ]

    wait_until(lambda: bool(list_logs()), "the second log dir has no replica")
    key = ("failed", list_logs()[0])
    fail_log_dir(run.cluster, 4, "data-2")
    new = [4, 5, 2]
    with_added = run.cluster.version == _COMPLETES_WITH_ADDED
    assert ("cannot_complete" in check(run, key, new, tmp_path, code=int(not with_added))) is not with_added
    run.reassign(key, new)
    if run.cluster.version == _WAITS_FOR_ALL:
        run.check_never_completes(key)
    else:
        run.wait_until_complete(key)
