"""`replay --fail` elects the leaders that `what-if --fail` names: for samples, pastes and mutations of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.merge.live_brokers import get_live_brokers
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.simulation.cluster_replay import ReplayRequest, run_replay
from pipelines.what_if.what_if_answers import FailureAnswer, evaluate_failure
from tests.fuzz.case_execution import write_case
from tests.fuzz.cases import build_case
from tests.seed_sampler import count_cases, sample_cases
from udfs.failures.topic_defaults import KAFKA_DEFAULTS
from udfs.simulation.result_tables import get_final_state

SAMPLES = Path(__file__).parents[3] / "data_samples"
MUTATIONS = count_cases(60)
BROKERS = 2  # that fail, of each source


def list_sources(folder: Path) -> list[str]:
    """Samples and pastes alone, the sample clusters, and mutations of all these."""
    files = [file for name in ("formats", "pastes") for file in sorted((SAMPLES / name).iterdir())]
    result = [str(file) for file in files if file.is_file() and file.suffix not in (".expected", ".md")]
    result = sample_cases(result, "replay and what-if")
    result += [str(SAMPLES / name) for name in ("kafka-4.1.1-kraft", "kafka-2.8.2-zookeeper")]
    for index in range(MUTATIONS):
        place = folder / str(index)
        place.mkdir()
        result.append(write_case(build_case(int(os.environ["TEST_SEED"]), index), place))
    return result


def list_answers(source: str) -> list[tuple[FailureAnswer, set[tuple[str, int]]]]:
    """The failures of some live brokers, with the partitions that are being reassigned; none without replicas."""
    try:
        snapshot = load_snapshot(find_source(source))
        live = get_live_brokers(snapshot.brokers).tolist()
        answers = [evaluate_failure(snapshot, [broker], KAFKA_DEFAULTS) for broker in live[:BROKERS]]
    except SourceError:
        return []
    rows = snapshot.partitions.to_pylist()
    moved = {(row["topic"], row["partition"]) for row in rows if row["adding_replicas"] or row["removing_replicas"]}
    return [(answer, moved) for answer in answers]


@pytest.mark.slow
def test_replay_and_what_if_elect_the_same_leaders(tmp_path: Path) -> None:
    compared = 0
    for source in list_sources(tmp_path):
        for answer, moved in list_answers(source):
            replay = run_replay(ReplayRequest([source], answer.failed))
            rows = get_final_state(replay.simulation).partitions
            leaders = {(row["topic"], row["partition"]): row["leader"] for row in rows}
            assert len(leaders) == len(answer.partitions), source
            # These differ by design, see docs/replay-steps.md: replay elects offline partitions again, completes
            # reassignments, and elects brokers of unknown state from an ELR.
            if answer.summary.gaps.partitions_with_unknown_elr:
                continue
            for change in answer.partitions:
                key = change.topic, change.partition
                if change.leader_before is not None and key not in moved:
                    assert leaders[key] == change.leader_after, (source, change)
                    compared += change.leader_before != change.leader_after
    assert compared > count_cases(200), "else the samples show too little"


@pytest.mark.parametrize("failed", [(100, 101), (100, 101, 1), (1, 100, 101), (100, 1), (101, 4, 3), (102, 101, 3)])
def test_without_a_majority_of_voters_both_elect_nobody(failed: tuple[int, ...]) -> None:
    """Controllers 100 to 102 are no brokers; broker 2 is down already."""
    source = str(SAMPLES / "captures" / "kafka-4.4.0-sick")
    answer = evaluate_failure(load_snapshot(find_source(source)), list(failed), KAFKA_DEFAULTS)
    rows = get_final_state(run_replay(ReplayRequest([source], failed)).simulation).partitions
    leaders = {(row["topic"], row["partition"]): row["leader"] for row in rows}
    changes = [one for one in answer.partitions if one.topic != "big"]  # it is being reassigned
    assert {(one.topic, one.partition): one.leader_after for one in changes} == {
        key: leader for key, leader in leaders.items() if key[0] != "big"
    }
