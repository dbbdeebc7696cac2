"""Plans of every goal, each carried out by apply while a broker is killed in every wave and producers write.

`make test-soak` carries out 30 plans, ten on each of three versions; `make test` two of them. All waits follow the
cluster: a broker stays down until each partition that the judge does not name as blocked accepts acks=all again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pytest

from pipelines.config.settings import load_settings
from pipelines.execution.cluster_view import ClusterView, view_cluster
from pipelines.execution.journal import JOURNAL, WAVE, WAVE_DONE, Journal
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.live.live_sources import read_snapshot
from pipelines.plan_files.plan_check import count_steps_done
from pipelines.plan_files.plan_creation import build_snapshot_model
from pipelines.plan_files.plan_judgement import read_steps
from pipelines.plan_files.plan_reader import read_plan
from pipelines.plan_files.reassignment_reader import list_remaining_waves
from tests.commands import call
from tests.live.acknowledged_records import RecordWriters, find_lost
from tests.live.kafka_cluster import KafkaCluster, find_class_archive, wait_until
from tests.seed_sampler import SEED, sample_some
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.plan_states import PlanStates, find_plan_states
from udfs.planning.planned_waves import StateHealth, find_state_health

pytestmark = [pytest.mark.slow, pytest.mark.live]

# How KRaft completes a reassignment differs: up to 3.7, from 3.8 to 4.2, and since 4.3.
VERSIONS = ("kafka_3_7", "kafka_4_1", "kafka_4_3")
_BROKERS = range(1, 7)
_RACKS = 3  # broker b is in rack (b - 1) % 3
_TOPICS = {"orders": 12, "clicks": 12}  # partitions
_KEYS = [(topic, partition) for topic, count in _TOPICS.items() for partition in range(count)]
_RECORDS = 30  # of 10 kB in each partition, so that copies take seconds
_RATE = 300_000  # throttle, bytes per second
_WAVE_MOVES = 8
_PATIENCE_S = 60.0
_REPEATS = 3  # of apply, where it ends because a broker is down
Lists = dict[Key, list[int]]


@dataclass(frozen=True)
class Goal:
    """A plan to be made, and the cluster that it is made for."""

    options: tuple[str, ...]
    lists: Lists
    down: tuple[int, ...] = ()  # brokers that fail before the plan is made, and stay down


def _draw_lists(rng: Random, without: int = 0, *, skew: int = 0, racks: bool = True) -> Lists:
    """Draw three brokers for each partition. skew: of the first brokers, which get more of them."""
    brokers = [broker for broker in _BROKERS if broker != without]
    lists = {}
    for key in _KEYS:
        order = sorted(brokers, key=lambda broker: rng.random() + (broker > skew > 0))
        spread = list({(broker - 1) % _RACKS: broker for broker in reversed(order)}.values())
        lists[key] = sorted(spread if racks else order[:3], key=order.index)
    return lists


def _draw_goal(name: str, rng: Random) -> Goal:
    broker = rng.choice(_BROKERS)
    of_goal = ("--goal", name)
    if name in ("balance", "leaders", "failover"):
        return Goal(of_goal, _draw_lists(rng, skew=2))
    if name == "drain":
        return Goal((*of_goal, "--brokers", str(broker)), _draw_lists(rng))
    if name == "expand":
        return Goal((*of_goal, "--brokers", str(broker)), _draw_lists(rng, without=broker))
    if name == "replace":
        old = (broker + 2) % 6 + 1  # in the same rack
        return Goal((*of_goal, "--replace", f"{old}={broker}"), _draw_lists(rng, without=broker))
    if name == "repair":
        return Goal(of_goal, _draw_lists(rng), (broker,))
    if name == "racks":
        return Goal(("--goal", "repair"), _draw_lists(rng, racks=False))
    lists = _draw_lists(rng)
    factor = {"more": 3, "fewer": 2}[name]
    if name == "more":
        lists |= {key: one[:2] for key, one in lists.items() if key[0] == "clicks"}
    return Goal(("--goal", "rf", "--rf", str(factor), "--topics", "clicks"), lists)


GOALS = ("balance", "leaders", "failover", "drain", "expand", "replace", "repair", "racks", "more", "fewer")


@dataclass(frozen=True)
class Prediction:
    """Which partitions the judge has as blocked for acks=all if a broker fails, from the states of a plan."""

    model: ClusterModel
    states: PlanStates
    health: StateHealth
    level: str
    worst_counts: Sequence[int]  # partitions blocked by the worst broker, now and after each wave, as check prints them

    @classmethod
    def read(cls, cluster: KafkaCluster, admin: KafkaAdmin, plan: Path) -> Prediction:
        """Judge a plan on the running cluster."""
        judged = json.loads(call("check", str(plan), f"prod=kafka://{cluster.bootstrap}", "--json", "-").stdout)
        snapshot, _ = read_snapshot(admin, "prod")
        model = build_snapshot_model(snapshot, load_settings().topics.defaults)
        stored = read_plan(plan)
        waves = list_remaining_waves(stored, count_steps_done(stored, model, snapshot.partitions))
        states = find_plan_states(model, read_steps(waves, model).steps)
        now = judged["now"]["blocked_if_a_broker_fails"]
        counts = [now, *(wave["blocked_if_a_broker_fails"] for wave in judged["waves"])]
        return cls(model, states, find_state_health(model, states), judged["level"], counts)

    def find_blocked(self, broker: int, waves: range) -> tuple[set[Key], set[Key]]:
        """Return the partitions that may be blocked while these waves are carried out, and those that have to be."""
        index = self.model.broker_ids.tolist().index(broker)
        needs = np.zeros(len(self.states.row), dtype=np.bool_)
        needs[self.states.state[self.states.in_sync & (self.states.replicas == index)]] = True
        blocked = self.health.under_min_isr | (self.health.is_critical & needs)
        is_met = (self.states.begin <= waves[-1]) & (self.states.end > waves[0])
        may, accepts = (self.states.row[is_met & chosen] for chosen in (blocked, ~blocked))
        return self._name(may), self._name(np.setdiff1d(may, accepts))

    def _name(self, rows: np.ndarray) -> set[Key]:
        return {(self.model.topic_names[self.model.topic[row]], int(self.model.partition[row])) for row in rows}


@dataclass
class ServedCluster:
    """A cluster that producers write to all the time."""

    cluster: KafkaCluster
    admin: KafkaAdmin
    writers: RecordWriters
    totals: Counter[str] = field(default_factory=Counter)

    def place(self, lists: Lists) -> None:
        """Bring the cluster to an assignment, with all replicas in sync and preferred leaders."""
        for broker in _BROKERS:
            if not self.cluster.nodes[broker].is_running:
                self.cluster.restart(broker)
        self.wait_until_in_sync()
        now = self.look().partitions
        if wrong := {key: one for key, one in lists.items() if list(now[key].replicas) != one}:
            assert self.admin.alter_reassignments(wrong) == {}
        wait_until(lambda: not self.admin.list_reassignments(), "the cluster is not as the plan needs it")
        self.wait_until_in_sync()
        self.admin.elect_preferred_leaders(list(lists))

    def wait_until_in_sync(self) -> ClusterView:
        """Wait until all replicas on live brokers are in sync."""
        down = {broker for broker in _BROKERS if not self.cluster.nodes[broker].is_running}

        def lags() -> bool:
            view = self.look()
            return any({*one.replicas} - {*one.isr} - down for one in view.partitions.values())

        wait_until(lambda: not lags(), "replicas do not come in sync")
        return self.look()

    def look(self) -> ClusterView:
        """View the cluster once its brokers agree, which takes a while after failures."""
        while True:
            with suppress(KafkaFault):
                return view_cluster(self.admin)

    def fail(self, broker: int) -> None:
        """Kill a broker, and wait until the controller has noticed."""
        self.cluster.nodes[broker].kill()
        wait_until(lambda: broker not in self.look().live_brokers, f"broker {broker} is still live")


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    """Six brokers in three racks, and producers with acks=all."""
    version = request.param
    running = KafkaCluster(Path(tmp_path_factory.mktemp("kafka")) / "cluster", version, brokers=len(_BROKERS))
    try:
        running.start((f"-XX:SharedArchiveFile={find_class_archive(version)}",))
        lists = _draw_lists(Random(0))
        running.create_topics(
            {
                topic: ({p: lists[topic, p] for p in range(count)}, {"min.insync.replicas": "2"})
                for topic, count in _TOPICS.items()
            }
        )
        running.wait_until_settled(len(_KEYS))
        running.produce(dict.fromkeys(_KEYS, _RECORDS))
        with KafkaAdmin(running.bootstrap, ClientProperties()) as admin, RecordWriters(running.bootstrap, _KEYS) as own:
            one = ServedCluster(running, admin, own)
            yield one
            one.totals["acknowledged"] = own.count  # that of each plan is the sum so far
        print(f"\n{version}: {dict(one.totals)}")
    finally:
        running.stop()


@dataclass
class FailingExecution:
    """An execution of a plan, in each wave of which a broker is killed."""

    served: ServedCluster
    plan: Path
    prediction: Prediction
    rng: Random
    goal: Goal
    kills: int = 0
    kills_in_waves: int = 0  # others were before or after one, as some waves take no time
    blocked: int = 0  # partitions that a failure blocked, as predicted
    beyond: list[str] = field(default_factory=list)  # that it blocked beyond what was predicted
    repeats: int = 0

    def run(self, seconds: Mapping[int, float]) -> None:
        """Carry out the plan. seconds: that each wave takes at the throttle, by its number."""
        execute = ("--execute", "--throttle", f"{_RATE // 1000}kB")
        process = self._start(*execute)
        for wave, duration in seconds.items():
            wait_until(
                lambda wave=wave: self._find_wave()[0] >= wave or process.poll() is not None, f"no wave {wave}", 120
            )
            time.sleep(self.rng.random() * duration)
            self._fail_broker(wave)
        self._finish(process)
        while self._finish(self._start("--verify")):
            assert self.repeats < _REPEATS, "the plan is not complete"
            self.repeats += 1
            self.served.wait_until_in_sync()
            self._finish(self._start(*execute))

    def _start(self, *options: str) -> subprocess.Popen[str]:
        servers = ("--bootstrap-server", self.served.cluster.bootstrap)
        command = [sys.executable, "-m", "pipelines.cli", "apply", str(self.plan), *servers, *options]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def _finish(self, process: subprocess.Popen[str]) -> int:
        """Wait for the end of a command. Returns: its exit code."""
        out, _ = process.communicate(timeout=240)
        if process.returncode:
            print(out)
        return process.returncode

    def _find_wave(self) -> tuple[int, bool]:
        """Return the wave that the execution has begun last, and whether it is under way."""
        if not (self.plan / JOURNAL).exists():
            return 0, False
        events = [one for one in Journal.open(self.plan).entries if one["event"] in (WAVE, WAVE_DONE)]
        return (events[-1]["wave"], events[-1]["event"] == WAVE) if events else (0, False)

    def _fail_broker(self, wave: int) -> None:
        """Kill a broker until all partitions that are not predicted to be blocked accept records again."""
        served, writers = self.served, self.served.writers
        broker = self.rng.choice([broker for broker in _BROKERS if broker not in self.goal.down])
        begun, is_under_way = self._find_wave()
        served.fail(broker)
        since = time.monotonic()
        self.kills += 1
        self.kills_in_waves += is_under_way
        first = max(begun, wave) - 1
        may, _ = self.prediction.find_blocked(broker, range(first, first + 2))
        writers.wait_until_accepted(set(_KEYS) - may, _PATIENCE_S)
        waves = range(first, max(self._find_wave()[0], first + 1) + 1)
        may, have_to = self.prediction.find_blocked(broker, waves)
        found = writers.list_blocked(since)
        served.cluster.restart(broker)
        self.blocked += len(found & may)
        where = f"wave {wave}, broker {broker}"
        self.beyond += [f"{where}: {key} is blocked" for key in found - may]
        self.beyond += [f"{where}: {key} is not blocked" for key in have_to - found]
        worst = max(self.prediction.worst_counts[waves.start : waves.stop])
        if len(found) > worst:
            self.beyond.append(f"{where}: {len(found)} partitions are blocked, at most {worst} were predicted")


@pytest.mark.parametrize("served", sample_some(VERSIONS, 1, "plans under failures"), indirect=True)
@pytest.mark.parametrize("name", sample_some(GOALS, 2, "plans under failures"))
def test_plan_keeps_its_promises_while_brokers_fail(served: ServedCluster, name: str, tmp_path: Path) -> None:
    rng = Random(f"{os.environ[SEED]} {served.cluster.version} {name}")
    goal = _draw_goal(name, rng)
    served.place(goal.lists)
    for broker in goal.down:
        served.fail(broker)
    plan, source = tmp_path / "plan", f"prod=kafka://{served.cluster.bootstrap}"
    limits = ("--set", f"plans.wave_moves_per_broker={_WAVE_MOVES}", "--set", f"plans.throttle_bytes_per_s={_RATE}")
    call("plan", source, *goal.options, "--out", str(plan), *limits, "--seed", str(rng.randrange(1000)))
    seconds = {wave.wave: wave.seconds or 0.0 for wave in read_plan(plan).waves}
    execution = FailingExecution(served, plan, Prediction.read(served.cluster, served.admin, plan), rng, goal)
    execution.run(seconds)
    view = served.wait_until_in_sync()
    after = {key: change.after for key, change in read_plan(plan).changes.items()}
    assert {key: list(view.partitions[key].replicas) for key in after} == after
    late = served.writers.wait_until_accepted(_KEYS, _PATIENCE_S)
    lost = list(find_lost(served.cluster.bootstrap, served.writers.acknowledged))
    row = {
        "version": served.cluster.version,
        "goal": name,
        "verdict": execution.prediction.level,
        "waves": len(seconds),
        "kills": execution.kills,
        "kills in waves": execution.kills_in_waves,
        "partitions": len(after),
        "acknowledged": served.writers.count,
        "lost": len(lost),
        "blocked as predicted": execution.blocked,
        "beyond": len(execution.beyond),
        "repeats of apply": execution.repeats,
    }
    print(f"\n{json.dumps(row)}")
    served.totals.update({key: value for key, value in row.items() if isinstance(value, int)}, plans=1)
    served.totals[row["verdict"]] += 1
    assert execution.kills
    assert not execution.beyond
    assert not lost, lost[:5]
    assert not late
    assert not any(served.writers.given_up.values())
