"""`what-if --after` and `hotspots --after` answer for the cluster once a plan is executed."""

import json
import shutil
from pathlib import Path

import pytest

from pipelines.errors import SourceError
from pipelines.ingest.snapshot_reader import load_snapshot
from pipelines.ingest.sources import find_source
from pipelines.plan_files.plan_reader import read_plan
from pipelines.plan_files.state_after_plan import assume_applied
from pipelines.what_if.what_if_answers import evaluate_brokers
from tests.commands import call
from udfs.failures.topic_defaults import TopicDefaults

SAMPLE = Path(__file__).parents[3] / "data_samples" / "kafka-4.1.1-kraft"


@pytest.mark.parametrize(
    "options", ["leaders", "failover", "repair", "expand --add-brokers 7:r1 --brokers 7", "rf --rf 3"]
)
def test_the_state_is_what_the_plan_promises(tmp_path: Path, options: str) -> None:
    shutil.copytree(SAMPLE, tmp_path / "prod")
    call("plan", "prod", "--goal", *options.split(), "--out", "plan", "--json", "plan.json", folder=tmp_path)
    after = json.loads((tmp_path / "plan.json").read_text())["metrics"]["after"]["balance"]
    call("hotspots", "prod", "--after", "plan", "--json", "hot.json", folder=tmp_path)
    observed = json.loads((tmp_path / "hot.json").read_text())["observed"]
    assert observed["max_over_mean_ratio"] == pytest.approx(after["leaders"]["max_over_mean"], abs=5e-4)
    call("what-if", "prod", "--after", "plan", "--json", "failures.json", folder=tmp_path)
    answer = json.loads((tmp_path / "failures.json").read_text())
    assert not any(" now" in point["text"] for point in answer["verdict"]["points"])
    brokers = answer["brokers"]
    ratios = [row["worst_survivor_ratio"] for row in brokers]
    assert max(ratios) == pytest.approx(after["worst_survivor_ratio"], abs=5e-4)


def test_plans_follow_each_other(tmp_path: Path) -> None:
    """A plan for the cluster after another one; both together are what the second promises."""
    shutil.copytree(SAMPLE, tmp_path / "prod")
    call("plan", "prod", "--goal", "rf", "--rf", "3", "--out", "rf", folder=tmp_path)
    first = ("--after", "rf")
    call("plan", "prod", "--goal", "leaders", *first, "--out", "leaders", "--json", "plan.json", folder=tmp_path)
    both = (*first, "--after", "leaders")
    done = call("hotspots", "prod", *both, "--json", "-", folder=tmp_path)
    (tmp_path / "hot.json").write_text(done.stdout)
    assert [line.split(": ")[1] for line in done.stderr.splitlines()[:2]] == [
        "after the plan in rf",
        "after the plan in leaders",
    ]
    planned = json.loads((tmp_path / "plan.json").read_text())["metrics"]["after"]["balance"]["leaders"][
        "max_over_mean"
    ]
    observed = json.loads((tmp_path / "hot.json").read_text())["observed"]["max_over_mean_ratio"]
    assert observed == pytest.approx(planned, abs=5e-4)
    reverse = call("what-if", "prod", "--after", "leaders", *first, folder=tmp_path, code=1).stderr
    assert "the plan does not fit" in reverse


def test_replicas_that_stay_out_of_sync_remain_so(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(
        "Topic: a\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: min.insync.replicas=1\n"
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 3,1,4\tIsr: 1\n"
        "\tTopic: a\tPartition: 1\tLeader: 2\tReplicas: 1,2,4\tIsr: 2,1,4\n"
        "\tTopic: a\tPartition: 2\tLeader: 2\tReplicas: 1,2,3\tIsr: 2,1\n"
    )
    call("plan", "prod.txt", "--goal", "repair", "--out", "plan", folder=tmp_path)
    snapshot = load_snapshot(find_source(str(tmp_path / "prod.txt")))
    after = assume_applied(snapshot, read_plan(tmp_path / "plan"), tmp_path / "plan").partitions
    replicas, isr = (sorted(after[name].to_pylist()[0]) for name in ("replicas", "isr"))
    assert (replicas, isr) == ([1, 2, 4], [1, 2])


def test_a_plan_that_does_not_fit_is_rejected(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "prod")
    call("plan", "prod", "--goal", "leaders", "--out", "plan", folder=tmp_path)
    plan = read_plan(tmp_path / "plan")
    topic, partition = next(iter(plan.changes))
    describe = tmp_path / "prod" / "topics-describe.txt"
    lines = describe.read_text().splitlines(keepends=True)
    kept = [line for line in lines if f"Topic: {topic}\tPartition: {partition}\t" not in line]
    describe.write_text("".join(kept))
    snapshot = load_snapshot(find_source(str(tmp_path / "prod")))
    with pytest.raises(SourceError, match=f"the plan does not fit: {topic}-{partition} is not as it was"):
        assume_applied(snapshot, plan, tmp_path / "plan")


def test_replicas_on_brokers_that_are_down_stay_out_of_sync(tmp_path: Path) -> None:
    (tmp_path / "prod.txt").write_text(
        "Topic: a\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=1\n"
        "\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 3,1\tIsr: 1\n"
        "\tTopic: a\tPartition: 1\tLeader: 2\tReplicas: 1,2\tIsr: 2,1\n"
    )
    call("plan", "prod.txt", "--goal", "leaders", "--out", "plan", folder=tmp_path)
    snapshot = load_snapshot(find_source(str(tmp_path / "prod.txt")))
    after = assume_applied(snapshot, read_plan(tmp_path / "plan"), tmp_path / "plan")
    assert after.partitions["isr"].to_pylist()[0] == [1]
    assert evaluate_brokers(after, TopicDefaults()).partitions == 2
