"""The files of plans, read back by the parsers of Kafka's own tools: 2.8.2, 3.9.1 and 4.1.1."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.plan_files.kafka_json import dump_reassignment
from pipelines.plan_files.plan_writer import write_plan
from tests.commands import call as call_command
from tests.oracle import jvm
from tests.unit.planning.jbod_clusters import make_cluster
from tests.unit.planning.plan_models import Key, model_with, proposal_with
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.planned_waves import plan_waves
from udfs.planning.waves import WaveLimits

RELEASES = {"plans_2_8": "2.8.2", "plans_3_9": "3.9.1", "plans_4_1": "4.1.1"}
SCALA = "plans_2_8"
PLANS = 12
LETTERS = list("abcXYZ019._-")
NAMES = ["-x-", "a.b", "a_b", "a-0", "...", "__consumer_offsets", "a" * 249]
LEADER, FOLLOWER = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


@dataclass(frozen=True)
class Question:
    """what: of PlanParsers.java.   paths: the files that it is about.   expected: the answer."""

    what: str
    paths: tuple[Path, ...]
    expected: str


def random_plan(rng: np.random.Generator) -> tuple[ClusterModel, ProposedAssignment]:
    """Topics with odd names, any partition ids, lists that move, grow, shrink, or change their order."""
    brokers = np.sort(rng.choice(2**31 - 1, 12, replace=False)).tolist()
    words = ["".join(rng.choice(LETTERS, rng.integers(3, 40))) for _ in range(6)]
    names = [*rng.choice(NAMES, 4, replace=False).tolist(), *words]
    lists: dict[Key, list[int]] = {}
    wanted: dict[Key, list[int]] = {}
    for name in names:
        for partition in {0, 1, 2**31 - 1, *rng.integers(0, 2**31 - 1, 4).tolist()}:
            key = (name, int(partition))
            lists[key], wanted[key] = (rng.choice(brokers, rng.integers(1, 6), replace=False).tolist() for _ in "ab")
            if rng.integers(4) == 0:
                wanted[key] = rng.permutation(lists[key]).tolist()
    down = rng.choice(brokers, 1).tolist()
    wanted = {key: one for key, one in wanted.items() if set(lists[key]) - set(down) and not set(one) & set(down)}
    model = model_with(lists, brokers, down=down, sizes=rng.integers(1, 10**12, len(lists)).tolist())
    return model, proposal_with(model, wanted)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders of a few plans."""
    out = []
    for seed in range(PLANS):
        model, proposal = random_plan(np.random.default_rng(seed))
        out.append(tmp_path_factory.mktemp("plans") / f"plan-{seed}")
        write_plan(out[-1], plan_waves(model, proposal, WaveLimits(2e12, 4)), {"goal": "any"})
    return out


def ask(release: str, questions: Sequence[Question], folder: Path) -> list[str]:
    """The answers of one release's parsers."""
    compiler, path = jvm.java_compiler(), jvm.class_path(release)
    subprocess.run([*compiler, "-cp", path, "-d", str(folder), str(jvm.HERE / "PlanParsers.java")], check=True)
    asked = "".join("\t".join([one.what, *map(str, one.paths)]) + "\n" for one in questions)
    command = [compiler[0], "-Xmx512m", "-cp", os.pathsep.join([str(folder), path]), "PlanParsers"]
    ran = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def entries(path: Path, key: str = "partitions") -> list[Any]:
    return json.loads(path.read_text())[key]


def assigning(folder: Path) -> list[Path]:
    """The files of a plan that kafka-reassign-partitions takes."""
    return [folder / "reassignment.json", folder / "rollback.json", *sorted(folder.glob("wave-*.json"))]


def test_no_file_names_a_broker_that_is_not_registered(folders: list[Path]) -> None:
    """Kafka's tool rejects such a file as a whole."""
    for folder in folders:
        plan = json.loads((folder / "plan.json").read_text())
        live, down = (set(plan["assignment_before"][f"{name}_brokers"]) for name in ("live", "down"))
        assert down & {id_ for change in plan["changes"] for id_ in change["before"]}
        for path in assigning(folder):
            named = {id_ for entry in entries(path) for id_ in entry["replicas"]}
            assert named <= live, path
        given_back = len(entries(folder / "rollback.json"))
        assert given_back
        assert plan["not_in_rollback"]["partitions"] == len(plan["changes"]) - given_back > 0
        throttles = json.loads((folder / "throttles.json").read_text())
        for throttle in (throttles["all"], *throttles["waves"]):
            assert set(throttle["brokers"]) <= live


def of_folder(folder: Path, scratch: Path) -> Iterator[Question]:
    """What to ask about every file of a plan that Kafka's tools take."""
    for path in assigning(folder):
        found = entries(path)
        texts = [f"{e['topic']}:{e['partition']}={','.join(map(str, e['replicas']))}" for e in found]
        yield Question("reassignment", (path,), " ".join(texts))
        yield Question("execute", (path,), str(len(texts)))
    elected = folder / "election.json"
    yield Question("election", (elected,), " ".join(sorted(f"{e['topic']}:{e['partition']}" for e in entries(elected))))
    topics = folder / "topics-to-move.json"
    names = [entry["topic"] for entry in entries(topics, "topics")]
    yield Question("topics", (topics,), " ".join(names))
    yield Question("generate", (topics,), str(len(names)))
    throttles = json.loads((folder / "throttles.json").read_text())
    scratch.mkdir()
    for name, throttle in [("all", throttles["all"]), *((str(one["wave"]), one) for one in throttles["waves"])]:
        values = [(config, topic[config]) for topic in throttle["topics"] for config in (LEADER, FOLLOWER)]
        if values:
            path = scratch / name
            path.write_text("".join(f"{config}\t{value}\n" for config, value in values))
            yield Question("throttled", (path,), " ".join(str(value.count(",") + 1) for _, value in values))


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("release", RELEASES)
def test_kafka_reads_what_was_written(release: str, folders: list[Path], tmp_path: Path) -> None:
    questions = [one for i, folder in enumerate(folders) for one in of_folder(folder, tmp_path / str(i))]
    if release == SCALA:
        questions += [Question("preferred", one.paths, one.expected) for one in questions if one.what == "election"]
    assert len(questions) > 10 * PLANS
    for question, answer in zip(questions, ask(release, questions, tmp_path), strict=True):
        assert answer == f"OK {question.expected}", question


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("release", [release for release in RELEASES if release != SCALA])
def test_kafka_would_throttle_the_same(release: str, folders: list[Path], tmp_path: Path) -> None:
    """But for the leaders of partitions that copy nothing, which Kafka throttles as well."""
    questions = []
    for number, folder in enumerate(folders):
        before = tmp_path / f"before-{number}.json"  # rollback.json lacks what down brokers held
        changes = json.loads((folder / "plan.json").read_text())["changes"]
        before.write_text(dump_reassignment({(one["topic"], one["partition"]): one["before"] for one in changes}))
        questions.append(Question("throttles", (folder / "reassignment.json", before), ""))
    for folder, answer in zip(folders, ask(release, questions, tmp_path), strict=True):
        kafka = {}
        for text in answer.removeprefix("OK ").split(" "):
            topic, leaders, followers = text.split("=")
            copies = {one.split(":")[0] for one in followers.split(",")}
            if followers:
                kept = {one for one in leaders.split(",") if one.split(":")[0] in copies}
                kafka[topic] = (kept, set(followers.split(",")))
        ours = {
            topic["topic"]: (set(topic[LEADER].split(",")), set(topic[FOLLOWER].split(",")))
            for topic in json.loads((folder / "throttles.json").read_text())["all"]["topics"]
        }
        assert ours == kafka


def write_rated_cluster(folder: Path) -> Path:
    """Write a cluster of nine brokers in three zones with three racks each, and topics with rates and sizes."""
    rng = np.random.default_rng(1)
    lines, loads = [], ["topic,partitions,rf,bytes_in_per_s,bytes_out_per_s,size_bytes"]
    for topic in range(6):
        lines.append(f"Topic: t{topic}\tPartitionCount: 9\tReplicationFactor: 2\tConfigs: ")
        loads.append(f"t{topic},9,2,{rng.integers(1, 100)}0000,{rng.integers(1, 300)}0000,{rng.integers(1, 9)}0000000")
        for partition in range(9):
            zones = rng.permutation(3)[:2]
            ids = ",".join(str(3 * zone + rng.integers(3)) for zone in zones)
            leader = ids.partition(",")[0]
            lines.append(f"\tTopic: t{topic}\tPartition: {partition}\tLeader: {leader}\tReplicas: {ids}\tIsr: {ids}")
    folder.mkdir()
    (folder / "describe.txt").write_text("\n".join(lines) + "\n")
    (folder / "brokers.csv").write_text("broker_id,rack\n" + "".join(f"{b},z{b // 3}/r{b % 3}\n" for b in range(9)))
    (folder / "topics.csv").write_text("\n".join(loads) + "\n")
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("release", RELEASES)
def test_kafka_reads_plans_of_zones_racks_and_broker_sets(release: str, tmp_path: Path) -> None:
    source = write_rated_cluster(tmp_path / "source")
    sets = [{"name": "first", "brokers": [0, 1, 3, 4, 6, 7], "topics": ["t[0-2]"]}]
    levels = ("--set", "plans.rack_separator=/")
    plans = {
        "zones": ("--goal", "zones", "--set", 'network.producer_zones={"z0/r0": 3, "z1/r0": 1}'),
        "racks": ("--goal", "balance", *levels),
        "sets": ("--goal", "balance", "--set", f"plans.broker_sets={json.dumps(sets)}", *levels),
    }
    questions: list[Question] = []
    for name, options in plans.items():
        call_command("plan", f"c={source}", *options, "--out", str(tmp_path / name))
        questions += of_folder(tmp_path / name, tmp_path / f"scratch-{name}")
    assert len(questions) > 10 * len(plans)
    for question, answer in zip(questions, ask(release, questions, tmp_path), strict=True):
        assert answer == f"OK {question.expected}", question


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("release", RELEASES)
def test_kafka_reads_the_log_dirs(release: str, tmp_path: Path) -> None:
    """Of plans that move replicas between log dirs, and of plans that copy replicas to brokers with several."""
    questions = []
    for name, options in {"log-dirs": (), "drain": ("--brokers", "4")}.items():
        folder = tmp_path / name
        source = make_cluster(8).write(folder / "source")
        call_command("plan", f"c={source}", "--goal", name, *options, "--out", str(folder / "plan"))
        for path in assigning(folder / "plan"):
            found = entries(path)
            texts = [
                f"{entry['topic']}:{entry['partition']}:{broker}={log_dir}"
                for entry in found
                for broker, log_dir in zip(entry["replicas"], entry.get("log_dirs", ()), strict=False)
                if log_dir != "any"
            ]
            assert texts, path
            questions += [Question("log_dirs", (path,), " ".join(sorted(texts)))]
            questions += [Question("execute", (path,), str(len(found)))]
    for question, answer in zip(questions, ask(release, questions, tmp_path), strict=True):
        assert answer == f"OK {question.expected}", question


@pytest.mark.slow
@pytest.mark.usefixtures("jdk")
@pytest.mark.parametrize("release", RELEASES)
def test_kafka_says_so_where_there_is_nothing_to_do(release: str, tmp_path: Path) -> None:
    model = model_with({("t", 0): [1, 2]}, [1, 2])
    proposal = proposal_with(model, {})
    folder = tmp_path / "plan"
    write_plan(folder, plan_waves(model, proposal, WaveLimits()), {})
    wrong = tmp_path / "wrong"
    wrong.write_text(f"{LEADER}\t0:1,0:2x\n")
    questions = [
        Question("execute", (folder / "reassignment.json",), "THROWN .*Partition reassignment .* empty"),
        Question("reassignment", (folder / "reassignment.json",), "OK "),
        Question("topics", (folder / "topics-to-move.json",), "OK "),
        Question("throttled", (wrong,), "THROWN .*in the following format: "),
    ]
    for question, answer in zip(questions, ask(release, questions, tmp_path), strict=True):
        assert re.match(question.expected, answer), answer
