"""The files of a plan: their contents, reproducible bytes, and replacement as a whole."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from pipelines.errors import SettingsError
from pipelines.plan_files.kafka_json import (
    Throttle,
    compute_throttle,
    dump_election,
    dump_throttle_script,
    get_wave_lists,
)
from pipelines.plan_files.plan_writer import build_files, name_waves, to_plain_json, write_plan
from tests.seed_sampler import count_cases
from tests.unit.planning.plan_models import model_with, models_and_proposals, proposal_with
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.elections import elect_preferred_leaders
from udfs.planning.planned_waves import PlannedWaves, plan_waves
from udfs.planning.waves import WaveLimits

FACTS = {"goal": "balance", "certificate": {"gap": np.float64(0.1) + np.float64(0.2), "bound": np.int64(3)}}
LIMITS = WaveLimits(bytes_in_flight=100, throttle_bytes_per_s=10)


def a_plan() -> PlannedWaves:
    """orders-0 moves two replicas, orders-1 changes its order, logs.a-5 loses its down broker, b-0 stays."""
    lists = {("orders", 0): [1, 2, 3], ("orders", 1): [1, 2], ("logs.a", 5): [9, 1], ("b", 0): [3, 1]}
    model = model_with(lists, [1, 2, 3, 4, 5, 9], sizes=[1, 70, 200, 30], down=[9])
    proposal = proposal_with(model, {("orders", 0): [4, 5, 1], ("orders", 1): [2, 1], ("logs.a", 5): [1, 2]})
    return plan_waves(model, proposal, LIMITS)


def texts() -> dict[str, str]:
    return build_files(a_plan(), FACTS)


def found(name: str) -> Any:
    return json.loads(texts()[name])


def lists_in(document: Any) -> dict[str, list[int]]:
    return {f"{one['topic']}-{one['partition']}": one["replicas"] for one in document["partitions"]}


def test_file_names() -> None:
    names = ["reassignment.json", "wave-01.json", "wave-02.json", "wave-03.json", "rollback.json", "election.json"]
    assert list(texts()) == [
        *names,
        "rollback-election.json",
        "topics-to-move.json",
        "throttles.json",
        "throttles.sh",
        "plan.json",
    ]
    assert name_waves(101)[0] == "001"


def test_reassignment_format() -> None:
    assert texts()["reassignment.json"].splitlines() == [
        '{"version":1,"partitions":[',
        '{"topic":"logs.a","partition":5,"replicas":[1,2]},',
        '{"topic":"orders","partition":0,"replicas":[4,5,1]},',
        '{"topic":"orders","partition":1,"replicas":[2,1]}',
        "]}",
    ]


def test_rollback_keeps_the_order_of_the_source() -> None:
    lists = {("t", 0): [2, 1, 3], ("t", 1): [3, 1], ("t", 2): [1, 2]}
    model = model_with(lists, [1, 2, 3])
    proposal = proposal_with(model, {("t", 0): [1, 2, 3], ("t", 1): [1, 3]})
    made = build_files(plan_waves(model, proposal, LIMITS), FACTS)
    assert lists_in(json.loads(made["rollback.json"])) == {"t-0": [2, 1, 3], "t-1": [3, 1]}
    assert json.loads(made["plan.json"])["not_in_rollback"] == {"partitions": 0, "first_partitions": [], "reason": None}


def test_rollback_omits_lists_with_down_brokers() -> None:
    assert lists_in(found("rollback.json")) == {"orders-0": [1, 2, 3], "orders-1": [1, 2]}
    left_out = found("plan.json")["not_in_rollback"]
    assert (left_out["partitions"], left_out["first_partitions"]) == (1, ["logs.a-5"])
    assert "a broker that is down" in left_out["reason"]


def test_without_sizes_no_bytes_and_seconds() -> None:
    model = model_with({("t", 0): [1, 2]}, [1, 2, 3])
    proposal = proposal_with(model, {("t", 0): [1, 3]})
    document = json.loads(build_files(plan_waves(model, proposal, LIMITS), FACTS)["plan.json"])
    (wave,) = document["waves"]
    assert (wave["replicas_added"], wave["bytes_to_copy"], wave["busiest_bytes"], wave["seconds"]) == (1, *[None] * 3)
    assert document["changes"][0]["bytes_to_copy"] is None


def test_waves_end_with_the_reassignment() -> None:
    waves = [lists_in(found(f"wave-0{number}.json")) for number in (1, 2, 3)]
    first = {"logs.a-5": [1, 2], "orders-1": [2, 1]}  # logs.a-5 has lost a replica
    assert waves == [first, {"orders-0": [1, 4, 3]}, {"orders-0": [4, 5, 1]}]


def test_elections() -> None:
    # b-0 is led by 3, as it prefers; logs.a-5 by 1, the only one that lives.
    assert found("election.json") == {
        "partitions": [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 1}]
    }
    lists = {("t", 0): [1, 2], ("t", 1): [1, 2], ("t", 2): [9, 2]}
    model = model_with(lists, [1, 2, 9], down=[9], leaders=[2, 1, 2])
    elections = elect_preferred_leaders(model, proposal_with(model, {}), elects_all=True)
    assert elections.elected.tolist() == [True, False, False]
    elections = elect_preferred_leaders(model, proposal_with(model, {}))
    assert (elections.elected.any(), elections.others.tolist()) == (False, [True, False, False])
    frozen = model_with({("t", 0): [1, 2]}, [1, 2], leaders=[2])
    frozen.frozen[0] = 1
    assert not elect_preferred_leaders(frozen, proposal_with(frozen, {}), elects_all=True).elected.any()
    assert dump_election([]) == '{"partitions":[]}\n'


def test_topics_to_move() -> None:
    assert found("topics-to-move.json") == {"topics": [{"topic": "logs.a"}, {"topic": "orders"}], "version": 1}


def test_throttles_of_copied_replicas() -> None:
    document = found("throttles.json")
    assert document["rate_bytes_per_s"] == 10
    assert document["all"] == {
        "brokers": [1, 2, 3, 4, 5],  # 9 is down: it cannot be asked
        "topics": [
            {
                "topic": "logs.a",
                "leader.replication.throttled.replicas": "5:1,5:9",
                "follower.replication.throttled.replicas": "5:2",
            },
            {
                "topic": "orders",
                "leader.replication.throttled.replicas": "0:1,0:2,0:3",
                "follower.replication.throttled.replicas": "0:4,0:5",
            },
        ],
    }
    by_wave = {
        topic["topic"]: topic["follower.replication.throttled.replicas"]
        for wave in document["waves"]
        for topic in wave["topics"]
    }
    assert [wave["wave"] for wave in document["waves"]] == [1, 2, 3]
    assert set(by_wave) == {"logs.a", "orders"}


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell")
def test_the_throttle_script_calls_kafka_configs(tmp_path: Path) -> None:
    script = tmp_path / "throttles.sh"
    throttle = Throttle((1, 2), {"-x-": ("0:1,1:2", "0:2"), "long": ("0:1," * 20_000 + "0:1", "0:2")})
    script.write_text(dump_throttle_script(10, throttle, [("01", Throttle((), {}))]))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"KAFKA_CONFIGS": "echo", "BOOTSTRAP_SERVER": "b:1", "PATH": "/bin:/usr/bin"}
        return subprocess.run(
            ["sh", str(script), *arguments], env=environment, capture_output=True, text=True, check=False
        )

    begin = "--bootstrap-server b:1 --alter --entity-type"
    leader, follower = "leader.replication.throttled", "follower.replication.throttled"
    rates = f"{leader}.rate=10,{follower}.rate=10"
    assert run("set", "all").stdout.splitlines() == [
        f"{begin} brokers --entity-name=1 --add-config {rates}",
        f"{begin} brokers --entity-name=2 --add-config {rates}",
        f"{begin} topics --entity-name=-x- --add-config {leader}.replicas=[0:1,1:2],{follower}.replicas=[0:2]",
        f"{begin} topics --entity-name=long --add-config {leader}.replicas=*,{follower}.replicas=[0:2]",
    ]
    assert run("remove", "all").stdout.splitlines() == [
        f"{begin} brokers --entity-name=1 --delete-config {leader}.rate,{follower}.rate",
        f"{begin} brokers --entity-name=2 --delete-config {leader}.rate,{follower}.rate",
        f"{begin} topics --entity-name=-x- --delete-config {leader}.replicas,{follower}.replicas",
        f"{begin} topics --entity-name=long --delete-config {leader}.replicas,{follower}.replicas",
    ]
    assert (run("set", "01").returncode, run("set", "01").stdout) == (0, "")
    assert (run("set", "02").returncode, run().returncode) == (64, 64)


def test_reordered_list_is_not_throttled() -> None:
    assert compute_throttle({("t", 0): [1, 2]}, {("t", 0): [2, 1]}) == Throttle((), {})


def test_plan_json() -> None:
    document = found("plan.json")
    assert list(document) == [
        *("kind", "version", "goal", "certificate"),
        *("limits", "oversized_partitions", "waves", "not_in_rollback", "not_elected"),
        *("assignment_before", "changes"),
    ]
    assert document["certificate"] == {"gap": 0.3, "bound": 3}
    assert document["limits"] == {"bytes_in_flight": 100.0, "moves_per_broker": None, "throttle_bytes_per_s": 10.0}
    assert document["oversized_partitions"] == ["orders-0"]
    assert document["assignment_before"]["live_brokers"] == [1, 2, 3, 4, 5]
    assert document["assignment_before"]["down_brokers"] == [9]
    assert [document["assignment_before"][name] for name in ("cluster", "draining_brokers", "racks")] == ["c", [], {}]
    assert document["assignment_before"]["topics"]["orders"]["partitions"] == "0-1"
    change = next(one for one in document["changes"] if (one["topic"], one["partition"]) == ("orders", 0))
    assert (change["before"], change["after"], change["bytes_to_copy"]) == ([1, 2, 3], [4, 5, 1], 400)
    assert change["reason"] == "moved away from a full broker"
    assert [step["replicas"] for step in change["steps"]][-1] == [4, 5, 1]
    assert sum(wave["bytes_to_copy"] for wave in document["waves"]) == 400 + 70
    assert [wave["file"] for wave in document["waves"]] == ["wave-01.json", "wave-02.json", "wave-03.json"]
    assert max(wave["seconds"] for wave in document["waves"]) == 20


def test_facts_must_not_use_reserved_keys() -> None:
    with pytest.raises(ValueError, match=r"plan.json has waves of its own"):
        build_files(a_plan(), {"waves": 3})


def test_plain_json() -> None:
    value = {1: (np.float32(0.5), np.inf), "b": 0.1 + 0.2, "c": np.arange(2), "d": np.bool_(True)}
    assert to_plain_json(value) == {"1": [0.5, None], "b": 0.3, "c": [0, 1], "d": True}


@given(models_and_proposals())
@settings(max_examples=count_cases(40))
def test_files_are_reproducible_and_waves_end_with_the_plan(case: tuple[ClusterModel, ProposedAssignment]) -> None:
    model, proposal = case
    execution = plan_waves(model, proposal, LIMITS)
    made = build_files(execution, FACTS)
    assert made == build_files(plan_waves(model, proposal, LIMITS), FACTS)
    last: dict[Any, list[int]] = {}
    for wave in range(execution.waves.waves):
        last |= get_wave_lists(model, execution.waves, wave)
    wanted = {
        (one["topic"], one["partition"]): one["replicas"] for one in json.loads(made["reassignment.json"])["partitions"]
    }
    assert last == wanted
    assert list(wanted) == sorted(wanted)
    for name, text in made.items():
        if name.endswith(".json"):
            json.loads(text)


def test_plan_without_changes() -> None:
    model = a_plan().model
    proposal = proposal_with(model, {})
    made = build_files(plan_waves(model, proposal, LIMITS), {})
    assert made["reassignment.json"] == '{"version":1,"partitions":[]}\n'
    assert json.loads(made["plan.json"])["waves"] == []
    assert not any(name.startswith("wave-") for name in made)


def test_folder_is_created_and_a_plan_replaced(tmp_path: Path) -> None:
    plan = a_plan()
    out = tmp_path / "new" / "plan"
    written = write_plan(out, plan, FACTS)
    assert sorted(written) == sorted(out.iterdir())
    assert {path.name: path.read_text() for path in written} == texts()
    few = plan_waves(plan.model, plan.proposal, WaveLimits())
    again = write_plan(out, few, FACTS)
    assert sorted(again) == sorted(out.iterdir())
    assert len(again) == len(written) - 1
    assert [path.name for path in out.parent.iterdir()] == ["plan"]
    (tmp_path / "empty").mkdir()
    assert write_plan(tmp_path / "empty", plan, FACTS)


def test_foreign_folder_is_not_replaced(tmp_path: Path) -> None:
    case = a_plan()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SettingsError, match=r"holds notes.txt, which is not a file of a plan. Name a new or empty"):
        write_plan(tmp_path, case, FACTS)
    with pytest.raises(SettingsError, match=r"notes.txt is not a folder"):
        write_plan(tmp_path / "notes.txt", case, FACTS)
    other = tmp_path / "other"
    other.mkdir()
    (other / "plan.json").write_text('{"kind":"of someone else"}')
    with pytest.raises(SettingsError, match=r"holds plan.json, but no plan.json of this program"):
        write_plan(other, case, FACTS)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (other / "plan.json").read_text() == '{"kind":"of someone else"}'


def test_failed_write_keeps_the_old_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, out = a_plan(), tmp_path / "plan"
    write_plan(out, case, FACTS)
    before = {path.name: path.read_text() for path in out.iterdir()}
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError("no space left")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(SettingsError, match=r"cannot be written: no space left. Name another folder"):
        write_plan(out, case, {"goal": "other"})
    assert {path.name: path.read_text() for path in out.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]
