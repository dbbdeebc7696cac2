"""A running cluster that random events happen to, each predicted from a snapshot just before it.

`python -m tests.live.chaos [--events N] [--seed N] [--release kafka_4_4]` runs one, and prints each event.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.execution.cluster_view import ClusterView, view_cluster
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.live.client_properties import ClientProperties
from pipelines.live.kafka_changes import KafkaAdmin
from pipelines.live.kafka_connection import KafkaFault, Key
from pipelines.simulation.cluster_replay import ReplayRequest, build_answer, run_replay
from tests.commands import call
from tests.live.kafka_cluster import CONTROLLER_ID, KafkaCluster
from tests.live.kafka_tools import run_tool
from udfs.simulation.result_tables import get_final_state

_BROKERS = 5
WITH_CORDONS = ("kafka_4_3", "kafka_4_4")
_MIN_LIVE = 2  # brokers that no event stops
TOPICS: Mapping[str, tuple[Mapping[int, list[int]], Mapping[str, str]]] = {
    "orders": (
        {p: [(p + i * (1 + p // _BROKERS)) % _BROKERS + 1 for i in range(3)] for p in range(10)},
        {"min.insync.replicas": "2"},
    ),
    "clicks": ({p: [p % _BROKERS + 1, (p + 2) % _BROKERS + 1] for p in range(5)}, {}),
    "single": ({p: [p + 1] for p in range(_BROKERS)}, {}),
    "wide": ({p: [(p + i) % _BROKERS + 1 for i in range(5)] for p in range(3)}, {"min.insync.replicas": "3"}),
    "unclean": (
        {p: [p % _BROKERS + 1, (p + 1) % _BROKERS + 1] for p in range(5)},
        {"unclean.leader.election.enable": "true"},
    ),
}


class State(NamedTuple):
    """A partition at a moment. leader: None = none."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: frozenset[int]
    elr: frozenset[int]


States = dict[Key, State]


@dataclass
class Chaos:
    """Random events, one after another. Raises: AssertionError if one does not end as predicted."""

    cluster: KafkaCluster
    folder: Path
    seed: int
    killed: set[int] = field(default_factory=set)  # brokers that are down, as they crashed
    stopped: set[int] = field(default_factory=set)  # brokers that were shut down
    voters_down: set[int] = field(default_factory=set)
    cordoned: set[int] = field(default_factory=set)
    topics: int = 0  # that were created
    compared: int = 0  # partitions that were compared

    @cached_property
    def random(self) -> random.Random:
        """The source of all choices."""
        return random.Random(self.seed)

    @property
    def live(self) -> list[int]:
        """Brokers that run."""
        return sorted(set(range(1, _BROKERS + 1)) - self.killed - self.stopped)

    @property
    def bootstrap(self) -> str:
        """host:port of the live brokers."""
        return ",".join(f"127.0.0.1:{self.cluster.nodes[id_].port}" for id_ in self.live)

    def run_event(self, number: int) -> str:
        """Have one event happen, and compare what it does. Returns: the event in words."""
        before = self.settle()
        saved = self._save(f"before-{number}")
        text, sentences, act = self._choose(before)
        predicted = self._predict(saved, sentences, number) if sentences else _read_states(saved)
        act()
        self.settle()
        then = self._save(f"after-{number}")
        after = _read_states(then)
        if text.startswith("start broker"):  # the ISR grows when replicas have caught up: only leaders are certain
            wrong = {key: (one, after[key]) for key, one in predicted.items() if after[key].leader != one.leader}
        else:
            wrong = {key: (one, after.get(key)) for key, one in predicted.items() if after.get(key) != one}
        assert not wrong, (number, text, sentences, wrong)
        assert set(after) == set(predicted), (number, text)
        self._check_brokers(then)
        self.compared += len(after)
        return text

    def settle(self) -> ClusterView:
        """Wait until what cannot change by itself is all that there is, and return it."""
        end = time.monotonic() + 90
        same, last, view = 0, None, None
        while same < 4:
            assert time.monotonic() < end, f"the cluster does not settle: {last}"
            time.sleep(0.4)
            try:
                with KafkaAdmin(self.bootstrap, ClientProperties()) as admin:
                    view = view_cluster(admin)
            except KafkaFault:
                same = 0
                continue
            now = (view.partitions, view.unfenced_brokers)
            is_quiet = (
                view.unfenced_brokers == set(self.live)
                and not view.reassignments
                and all(
                    partition.leader < 0 or set(partition.replicas) & set(self.live) <= set(partition.isr)
                    for partition in view.partitions.values()
                )
            )
            same = same + 1 if is_quiet and now == last else 0
            last = now
        assert view is not None
        return view

    def _save(self, name: str) -> Path:
        folder = self.folder / name / "prod"
        call("snapshot", f"prod=kafka://{self.bootstrap}", "--out", str(folder))
        return folder

    def _predict(self, saved: Path, sentences: list[str], number: int) -> States:
        scenario = self.folder / f"event-{number}.yaml"
        scenario.write_text(json.dumps({"events": [f"t={place} {one}" for place, one in enumerate(sentences)]}))
        replay = run_replay(ReplayRequest([str(saved), str(scenario)]))
        return {
            (row["topic"], row["partition"]): State(
                row["leader"], tuple(row["replicas"]), frozenset(row["isr"]), frozenset(row["elr"])
            )
            for row in get_final_state(replay.simulation).partitions
        }

    def _check_brokers(self, saved: Path) -> None:
        """Compare which brokers are live and cordoned."""
        brokers = load_snapshot(find_source(f"prod={saved}")).brokers.to_pylist()
        assert sorted(row["broker_id"] for row in brokers if row["live"]) == self.live
        # Configs of a broker that is down are not shown; its registration is in the metadata log alone.
        shown = {row["broker_id"] for row in brokers if row["cordoned"]}
        assert shown & set(self.live) == self.cordoned & set(self.live), shown

    def _choose(self, view: ClusterView) -> tuple[str, list[str], Callable[[], Any]]:
        """Choose an event. Returns: its name, what it is in a scenario, and what makes it happen."""
        choices = [self._move, self._elect, self._create, self._change_voters, self._grow]
        choices += [self._change_cordons] if self.cluster.version in WITH_CORDONS else []
        choices += [self._return] * 4 if self.killed or self.stopped else []
        choices += [self._fail] * 4 if len(self.live) > _MIN_LIVE else []
        choices += [self._delete] if self.topics > 3 else []
        while True:
            if (chosen := self.random.choice(choices)(view)) is not None:
                return chosen

    def _fail(self, _: ClusterView) -> tuple[str, list[str], Callable[[], Any]]:
        broker = self.random.choice(self.live)
        node = self.cluster.nodes[broker]
        if self.random.random() < 0.6:
            self.killed.add(broker)
            return f"kill broker {broker}", [f"broker {broker} down"], node.kill
        self.stopped.add(broker)
        return (f"stop broker {broker}", [f"broker {broker} shutting down", f"broker {broker} down"], node.stop)

    def _return(self, _: ClusterView) -> tuple[str, list[str], Callable[[], Any]]:
        broker = self.random.choice(sorted(self.killed | self.stopped))
        # A snapshot does not show that a broker was shut down, and so stays an eligible leader.
        sentence = f"broker {broker} {'up' if broker in self.killed else 'unfenced'}"
        self.killed.discard(broker)
        self.stopped.discard(broker)
        return f"start broker {broker}", [sentence], lambda: self.cluster.restart(broker)

    def _move(self, view: ClusterView) -> tuple[str, list[str], Callable[[], Any]] | None:
        """Reassign a partition with a leader to live brokers, so that it completes."""
        places = [b for b in self.live if b not in self.cordoned]
        keys = [key for key, one in view.partitions.items() if one.leader >= 0]
        if not places or not keys:
            return None
        key = self.random.choice(sorted(keys))
        now = view.partitions[key]
        target = tuple(self.random.sample(places, min(len(places), self.random.randint(1, 3))))
        if target == now.replicas or not set(target) - set(now.replicas):
            return None
        name = f"{key[0]}-{key[1]}"
        joined = ",".join(map(str, dict.fromkeys((*now.isr, *target))))
        words = ",".join(map(str, target))

        def act() -> None:
            with KafkaAdmin(self.bootstrap, ClientProperties()) as admin:
                assert admin.alter_reassignments({key: target}) == {}

        return f"reassign {name} to {words}", [f"reassign {name} to {words}", f"isr {name} {joined}"], act

    def _elect(self, view: ClusterView) -> tuple[str, list[str], Callable[[], Any]]:
        def act() -> None:
            with KafkaAdmin(self.bootstrap, ClientProperties()) as admin:
                admin.elect_preferred_leaders(list(view.partitions))

        return "elect preferred leaders", ["preferred election"], act

    def _create(self, _: ClusterView) -> tuple[str, list[str], Callable[[], Any]] | None:
        places = [b for b in self.live if b not in self.cordoned]
        if not places:
            return None
        self.topics += 1
        name = f"new-{self.topics}"
        lists = [self.random.sample(places, min(len(places), self.random.randint(1, 3))) for _ in range(1)]
        lists *= self.random.randint(1, 3)
        words = ",".join(":".join(map(str, ids)) for ids in lists)
        create = {name: (dict(enumerate(lists)), {})}
        return f"create {name}", [f"topic {name} created {words}"], lambda: self.cluster.create_topics(create)

    def _delete(self, view: ClusterView) -> tuple[str, list[str], Callable[[], Any]] | None:
        names = sorted({topic for topic, _ in view.partitions if topic.startswith("new-")})
        if not names:
            return None
        name = self.random.choice(names)
        return f"delete {name}", [f"topic {name} deleted"], lambda: self.cluster.delete_topics([name])

    def _grow(self, view: ClusterView) -> tuple[str, list[str], Callable[[], Any]] | None:
        places = [b for b in self.live if b not in self.cordoned]
        number = sum(topic == "single" for topic, _ in view.partitions)
        if not places:
            return None
        one = self.random.choice(places)
        size = len(view.partitions["single", 0].replicas)
        if size != 1:
            return None
        return (
            "add a partition to single",
            [f"topic single grown {one}"],
            lambda: self.cluster.add_partition("single", number, [one]),
        )

    def _change_voters(self, _: ClusterView) -> tuple[str, list[str], Callable[[], Any]]:
        """Kill the active controller or another voter while a majority stays, or start one again."""
        if self.voters_down:
            voter = self.voters_down.pop()
            return f"start controller {voter}", [], lambda: self.cluster.restart(voter)
        with KafkaAdmin(self.bootstrap, ClientProperties()) as admin:
            quorum = admin.describe_quorum()
        assert quorum is not None
        voters = [id_ for id_ in self.cluster.nodes if id_ >= CONTROLLER_ID]
        voter = quorum.leader if self.random.random() < 0.7 else self.random.choice(voters)
        self.voters_down.add(voter)
        active = "the active " if voter == quorum.leader else ""
        return f"kill {active}controller {voter}", [], self.cluster.nodes[voter].kill

    def _change_cordons(self, _: ClusterView) -> tuple[str, list[str], Callable[[], Any]] | None:
        broker = self.random.choice(self.live)
        value = None if broker in self.cordoned else "*"
        self.cordoned ^= {broker}

        def act() -> None:
            with KafkaAdmin(self.bootstrap, ClientProperties()) as admin:
                admin.alter_broker_configs(broker, {"cordoned.log.dirs": value})
            time.sleep(2)  # the broker reports it to the controller with a later heartbeat

        return f"{'uncordon' if value is None else 'cordon'} broker {broker}", [], act

    def compare_log(self) -> int:
        """Compare the folded metadata log of each live controller with the live cluster. Returns: partitions."""
        saved = self._save("end")
        live, expected = load_snapshot(find_source(f"prod={saved}")), _read_states(saved)
        configs = {row["topic"]: row["min_insync_replicas"] for row in live.topics.to_pylist()}
        for id_, node in self.cluster.nodes.items():
            if id_ < CONTROLLER_ID or id_ in self.voters_down:
                continue
            dump = dump_log(self.cluster.version, node.folder / "data", self.folder / f"dump-{id_}.txt")
            folded = load_snapshot(find_source(f"prod={dump}"))
            assert folded.quarantined == []
            assert {_get_key(row): _get_state(row) for row in folded.partitions.to_pylist()} == expected
            assert {row["topic"]: row["min_insync_replicas"] for row in folded.topics.to_pylist()} == configs
            brokers = {row["broker_id"]: row for row in folded.brokers.to_pylist()}
            assert sorted(b for b, row in brokers.items() if row["live"]) == self.live
            assert {b for b, row in brokers.items() if row["cordoned"]} == self.cordoned
            answer = build_answer(run_replay(ReplayRequest([str(dump)])))
            assert {_get_key(row): _get_state(row) for row in answer.partitions} == expected
            assert all(row["legal"] for row in answer.state_transitions)
        return len(expected)


def dump_log(release: str, data: Path, file: Path) -> Path:
    """Write what kafka-dump-log prints of the metadata log in a data folder to a file, and return it."""
    parts = ",".join(map(str, sorted((data / "__cluster_metadata-0").glob("*.log"))))
    file.write_text(run_tool(release, "kafka-dump-log", "--cluster-metadata-decoder", "--files", parts))
    return file


def _get_key(row: Mapping[str, Any]) -> Key:
    return row["topic"], row["partition"]


def _get_state(row: Mapping[str, Any]) -> State:
    leader = row["leader"] if row["leader"] is not None and row["leader"] >= 0 else None
    return State(leader, tuple(row["replicas"]), frozenset(row["isr"]), frozenset(row["elr"] or ()))


def _read_states(saved: Path) -> States:
    rows = load_snapshot(find_source(f"prod={saved}")).partitions.to_pylist()
    return {_get_key(row): _get_state(row) for row in rows}


def run_chaos(folder: Path, release: str, events: int, seed: int, show: Callable[[str], None] = print) -> Chaos:
    """Start a cluster, have random events happen to it, and compare each, and the whole log in the end."""
    cluster = KafkaCluster(folder / "cluster", release, brokers=_BROKERS, controllers=3)
    chaos = Chaos(cluster, folder, seed)
    try:
        cluster.start()
        cluster.create_topics(TOPICS)
        cluster.wait_until_settled(sum(len(lists) for lists, _ in TOPICS.values()))
        for number in range(events):
            show(f"{number + 1}. {chaos.run_event(number)}")
        chaos.settle()
        show(f"compared {chaos.compared} partitions after events, {chaos.compare_log()} in each log")
    finally:
        cluster.stop()
    return chaos


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--release", default="kafka_4_4")
    options = parser.parse_args()
    print("seed", options.seed)
    with tempfile.TemporaryDirectory() as folder:
        run_chaos(Path(folder), options.release, options.events, options.seed, lambda text: print(text, flush=True))


if __name__ == "__main__":
    sys.exit(_main())
