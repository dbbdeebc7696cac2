"""Plans that are carried out wave by wave, and plans of captured clusters: the status that a check finds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.kafka_json import get_key, get_source_lists, get_wave_lists
from pipelines.plan_files.plan_check import PlanStatus, check_plan
from pipelines.plan_files.plan_reader import read_plan
from pipelines.plan_files.plan_writer import format_ranges, hash_partitions, parse_ranges, write_plan
from tests.seed_sampler import count_cases
from tests.unit.planning.plan_models import model_with, models_and_proposals, partitions_of, proposal_with
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment, build_model
from udfs.planning.planned_waves import plan_waves
from udfs.planning.waves import WaveLimits


@given(models_and_proposals())
@settings(max_examples=count_cases(30))
def test_plan_fits_first_and_is_done_wave_by_wave(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[ClusterModel, ProposedAssignment]
) -> None:
    model, proposal = case
    execution = plan_waves(model, proposal, WaveLimits(moves_per_broker=1))
    waves = execution.waves
    folder = tmp_path_factory.mktemp("plans") / "plan"
    write_plan(folder, execution, {})
    brokers, down = model.broker_ids.tolist(), model.broker_ids[~model.live].tolist()
    lists = get_source_lists(model, range(model.partitions))
    statuses = []
    for wave in range(waves.waves + 1):
        now = model_with(lists, brokers, down=down)
        found = check_plan(read_plan(folder), now, partitions_of(now))
        statuses.append(found.status)
        assert [one.missing for one in found.waves[:wave]] == [0] * wave
        assert all(one.done == 0 for one in found.waves[wave:])
        if wave < waves.waves:
            lists |= get_wave_lists(model, waves, wave)
    assert statuses == (
        [PlanStatus.FITS, *[PlanStatus.PARTLY_DONE] * (waves.waves - 1), PlanStatus.DONE]
        if waves.waves
        else [PlanStatus.DONE]
    )


def test_only_equal_lists_have_equal_hashes() -> None:
    lists = {("t", 0): [1, 2], ("t", 1): [2, 1], ("t", 2): [1, 2], ("t", 3): [1], ("u", 0): [1, 2]}
    found = hash_partitions(model_with(lists, [1, 2])).tolist()
    assert found[0] == found[2] == found[4]
    assert len(set(found)) == 3
    assert get_key(model_with(lists, [1, 2]), 4) == ("u", 0)


@pytest.mark.parametrize("ids", [[0], [0, 1, 2], [3, 5, 6, 9], [2**31 - 1]])
def test_ranges(ids: list[int]) -> None:
    assert parse_ranges(format_ranges(np.array(ids)), len(ids)).tolist() == ids


def captured(path: Path) -> tuple[ClusterModel, pa.Table]:
    snapshot = load_snapshot(find_source(str(path)))
    return build_model("c", snapshot.brokers, snapshot.partitions, snapshot.topics), snapshot.partitions


def test_rollback_of_a_captured_cluster_with_down_brokers(samples: Path, tmp_path: Path) -> None:
    model, partitions = captured(samples / "captures" / "kafka-4.1.1-two-dead" / "topics-describe.brokers-1-4-down.txt")
    live = model.broker_ids[model.live].tolist()
    assert len(live) == model.brokers - 2
    shown = {
        (row["topic"], row["partition"]): row["replicas"]
        for row in partitions.select(["topic", "partition", "replicas"]).to_pylist()
    }
    live = {key: [broker for broker in one if broker in live] for key, one in shown.items()}
    proposal = proposal_with(model, {key: one for key, one in live.items() if one})
    write_plan(tmp_path / "plan", plan_waves(model, proposal, WaveLimits()), {})
    document = json.loads((tmp_path / "plan" / "plan.json").read_text())
    rollback = json.loads((tmp_path / "plan" / "rollback.json").read_text())["partitions"]
    assert document["not_in_rollback"]["partitions"] > 100  # all: a plan that only repairs takes down brokers away
    assert len(rollback) + document["not_in_rollback"]["partitions"] == len(document["changes"])
    assert all(shown[one["topic"], one["partition"]] == one["replicas"] for one in rollback)
    assert {id_ for one in rollback for id_ in one["replicas"]} <= set(live)
    assert check_plan(read_plan(tmp_path / "plan"), model, partitions).status == PlanStatus.FITS
    whole, partitions = captured(samples / "captures" / "kafka-4.1.1-two-dead" / "topics-describe.txt")
    again = check_plan(read_plan(tmp_path / "plan"), whole, partitions)
    assert (again.status, again.done, len(again.returned_brokers)) == (PlanStatus.CHANGED, 0, 2)


def test_reassignment_in_a_describe(samples: Path, tmp_path: Path) -> None:
    model, partitions = captured(samples / "formats" / "describe-reassigning.txt")
    proposal = proposal_with(model, {})
    write_plan(tmp_path / "plan", plan_waves(model, proposal, WaveLimits()), {})
    found = check_plan(read_plan(tmp_path / "plan"), model, partitions)
    assert found.status == PlanStatus.IN_FLIGHT
    assert [(move.adding, move.removing, move.target) for move in found.in_flight] == [
        ([3], [1], [3, 0]),
        ([3], [], [3, 1, 2]),
    ]
