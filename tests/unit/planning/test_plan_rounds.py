"""Plans that are carried out wave by wave, and plans of captured clusters: what a check says of each state."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from pipelines.ingest.snapshot import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.fingerprints import hashes, ids_in, ranges
from pipelines.plan_files.kafka_json import key_of, lists_before, lists_of_wave
from pipelines.plan_files.plan_check import check_plan
from pipelines.plan_files.plan_folder import write_plan
from pipelines.plan_files.plan_progress import (
    DONE,
    FITS,
    IN_FLIGHT,
    PARTLY,
)
from tests.unit.planning.plan_models import (
    draft_with,
    partitions_of,
    problem_with,
    problems_and_drafts,
)
from udfs.planning.cluster_model import Draft, Problem, problem_of
from udfs.planning.waves import Limits, split


@given(problems_and_drafts())
@settings(max_examples=30)
def test_any_plan_fits_before_and_is_done_wave_by_wave(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Problem, Draft]
) -> None:
    problem, draft = case
    waves = split(problem, draft, Limits(moves_per_broker=1))
    folder = tmp_path_factory.mktemp("plans") / "plan"
    write_plan(folder, problem, draft, waves, {})
    brokers, dead = problem.broker_ids.tolist(), problem.broker_ids[~problem.living].tolist()
    lists = lists_before(problem, range(problem.partitions))
    said = []
    for wave in range(waves.waves + 1):
        now = problem_with(lists, brokers, dead=dead)
        found = check_plan(folder, now, partitions_of(now))
        said.append(found.status)
        assert [one.missing for one in found.waves[:wave]] == [0] * wave
        assert all(one.done == 0 for one in found.waves[wave:])
        if wave < waves.waves:
            lists |= lists_of_wave(problem, waves, wave)
    assert said == ([FITS, *[PARTLY] * (waves.waves - 1), DONE] if waves.waves else [DONE])


def test_equal_lists_have_equal_hashes_and_others_do_not() -> None:
    lists = {("t", 0): [1, 2], ("t", 1): [2, 1], ("t", 2): [1, 2], ("t", 3): [1], ("u", 0): [1, 2]}
    found = hashes(problem_with(lists, [1, 2])).tolist()
    assert found[0] == found[2] == found[4]
    assert len(set(found)) == 3
    assert key_of(problem_with(lists, [1, 2]), 4) == ("u", 0)


@pytest.mark.parametrize("ids", [[0], [0, 1, 2], [3, 5, 6, 9], [2**31 - 1]])
def test_ranges(ids: list[int]) -> None:
    assert ids_in(ranges(np.array(ids)), len(ids)).tolist() == ids


def captured(path: Path) -> tuple[Problem, pa.Table]:
    snapshot = load_snapshot(find_source(str(path)))
    return problem_of("c", snapshot.brokers, snapshot.partitions, snapshot.topics), snapshot.partitions


def test_a_captured_cluster_with_dead_brokers_is_given_back_as_far_as_it_can_be(samples: Path, tmp_path: Path) -> None:
    problem, partitions = captured(
        samples / "captures" / "kafka-4.1.1-two-dead" / "topics-describe.brokers-1-4-down.txt"
    )
    living = problem.broker_ids[problem.living].tolist()
    assert len(living) == problem.brokers - 2
    shown = {
        (row["topic"], row["partition"]): row["replicas"]
        for row in partitions.select(["topic", "partition", "replicas"]).to_pylist()
    }
    alive = {key: [broker for broker in one if broker in living] for key, one in shown.items()}
    draft = draft_with(problem, {key: one for key, one in alive.items() if one})
    write_plan(tmp_path / "plan", problem, draft, split(problem, draft, Limits()), {})
    document = json.loads((tmp_path / "plan" / "plan.json").read_text())
    rollback = json.loads((tmp_path / "plan" / "rollback.json").read_text())["partitions"]
    assert document["not_in_rollback"]["partitions"] > 100  # all: a plan that only repairs takes dead brokers away
    assert len(rollback) + document["not_in_rollback"]["partitions"] == len(document["changes"])
    assert all(shown[one["topic"], one["partition"]] == one["replicas"] for one in rollback)
    assert {id_ for one in rollback for id_ in one["replicas"]} <= set(living)
    assert check_plan(tmp_path / "plan", problem, partitions).status == FITS
    whole, partitions = captured(samples / "captures" / "kafka-4.1.1-two-dead" / "topics-describe.txt")
    again = check_plan(tmp_path / "plan", whole, partitions)
    assert (again.status, again.done, len(again.new_brokers)) == (FITS, 0, 2)


def test_what_describe_shows_of_a_reassignment(samples: Path, tmp_path: Path) -> None:
    problem, partitions = captured(samples / "formats" / "describe-reassigning.txt")
    draft = draft_with(problem, {})
    write_plan(tmp_path / "plan", problem, draft, split(problem, draft, Limits()), {})
    found = check_plan(tmp_path / "plan", problem, partitions)
    assert found.status == IN_FLIGHT
    assert [(move.adding, move.removing, move.target) for move in found.in_flight] == [
        ([3], [1], [3, 0]),
        ([3], [], [3, 1, 2]),
    ]
