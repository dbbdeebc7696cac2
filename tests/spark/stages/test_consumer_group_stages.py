"""The tables of a consumer group of one member, which joins at second 1, syncs at second 5 and leaves at second 6.

The group waits 3 s for others before it answers the first join.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from pipelines.ingest.sources import SnapshotKey
from pipelines.simulation.cluster_replay import ReplayRequest, run_replay
from pipelines.simulation.simulation_writer import build_tables_of_groups
from tests.spark.stages.frames import KEYS, SAME_ROWS, expected_frame, select_columns

SCENARIO = """
brokers: [1]
events:
  - t=1 group g member a joins session=10s
  - t=5 group g member a syncs
  - t=6 group g member a leaves
"""


@pytest.fixture(scope="module")
def group_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    file = tmp_path_factory.mktemp("scenario") / "group.yaml"
    file.write_text(SCENARIO)
    return build_tables_of_groups(run_replay(ReplayRequest([str(file)])).groups, SnapshotKey(**KEYS))


@pytest.mark.stage("gold.group_requests")
def test_requests_of_a_group(spark: SparkSession, group_tables: dict[str, pa.Table]) -> None:
    """Each answer starts a delayed heartbeat, which the next answer, or the leave, ends."""
    columns = (
        "event at_ms kind group_id member answered_at_ms answered_by error generation leader delayed "
        "heartbeat_ended_at_ms heartbeat_ended_by"
    )
    member = ("g", "a")
    expected = [
        (0, 1_000, "join", *member, 4_000, "initial delay over", "NONE", 1, "a", True, 5_000, "request answered"),
        (1, 5_000, "sync", *member, 5_000, "leader's sync", "NONE", 1, "a", False, 6_000, "member left"),
        (2, 6_000, "leave", *member, 6_000, "at once", "NONE", 2, None, False, None, None),
    ]
    assert_df_equality(
        select_columns(spark.createDataFrame(group_tables["gold.group_requests"]), columns),
        expected_frame(spark, "gold.group_requests", columns, expected),
        **SAME_ROWS,
    )


@pytest.mark.stage("gold.group_transitions")
def test_states_of_a_group(spark: SparkSession, group_tables: dict[str, pa.Table]) -> None:
    """The group that became empty has a generation of its own."""
    columns = "group_id step at_ms event from_state to_state cause generation leader"
    expected = [
        ("g", 0, 1_000, 0, "Empty", "PreparingRebalance", "member joined", 0, "a"),
        ("g", 1, 4_000, None, "PreparingRebalance", "CompletingRebalance", "initial delay over", 1, "a"),
        ("g", 2, 5_000, 1, "CompletingRebalance", "Stable", "leader's sync", 1, "a"),
        ("g", 3, 6_000, 2, "Stable", "PreparingRebalance", "member left", 1, None),
        ("g", 4, 6_000, 2, "PreparingRebalance", "Empty", "member left", 2, None),
    ]
    assert_df_equality(
        select_columns(spark.createDataFrame(group_tables["gold.group_transitions"]), columns),
        expected_frame(spark, "gold.group_transitions", columns, expected),
        **SAME_ROWS,
    )
