"""Progress of a plan: every state that a cluster may be in, and files edited by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.cli.check_rendering import render_progress
from pipelines.errors import SourceError
from pipelines.plan_files.plan_check import ChangedRack, PlanProgress, PlanStatus, check_plan
from pipelines.plan_files.plan_reader import read_plan
from pipelines.plan_files.plan_writer import write_plan
from tests.commands import call
from tests.unit.planning.plan_models import Key, model_with, partitions_of, proposal_with
from udfs.failures.topic_defaults import TopicDefaults
from udfs.json_answers import to_json
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.planned_waves import plan_waves
from udfs.planning.waves import WaveLimits

BROKERS = (1, 2, 3, 4, 5, 9)
BEFORE: dict[Key, list[int]] = {
    ("b", 0): [3, 1],
    ("b", 2): [3, 1],
    ("logs.a", 5): [9, 1],
    ("orders", 0): [1, 2, 3],
    ("orders", 1): [1, 2],
}
AFTER: dict[Key, list[int]] = {("logs.a", 5): [1, 2], ("orders", 0): [4, 5, 1], ("orders", 1): [2, 1]}
FIRST_WAVE: dict[Key, list[int]] = {("logs.a", 5): [1, 2], ("orders", 1): [2, 1]}


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan of three waves: logs.a-5, which lost a replica, and orders-1 are in the first, orders-0 in the others."""
    model = model_with(BEFORE, BROKERS, sizes=[1, 1, 70, 200, 30], down=[9])
    proposal = proposal_with(model, AFTER)
    write_plan(tmp_path / "plan", plan_waves(model, proposal, WaveLimits(bytes_in_flight=100)), {})
    return tmp_path / "plan"


def state(
    plan: Path,
    lists: Mapping[Key, list[int]],
    moves: Mapping[Key, tuple[Sequence[int], Sequence[int]]] | None = None,
    **more: Any,
) -> PlanProgress:
    brokers = more.pop("brokers", BROKERS)
    model = model_with(lists, brokers, down=more.pop("down", [9]), **more)
    found = check_plan(read_plan(plan), model, partitions_of(model, moves))
    json.dumps(to_json(found))
    return found


def lines_of(progress: PlanProgress) -> list[str]:
    return list(render_progress(progress))


def test_unchanged_cluster_fits(plan: Path) -> None:
    found = state(plan, BEFORE)
    assert (found.status, found.planned, found.done) == (PlanStatus.FITS, 3, 0)
    assert lines_of(found) == [
        "fits: the plan fits: the assignment is unchanged since then, and no partition is being reassigned",
        "  partitions as planned: 0 of 3",
        "  next: kafka-reassign-partitions --execute with wave-01.json",
    ]
    assert [(one.topic, one.partition, one.wave) for one in found.pending] == [
        ("logs.a", 5, 1),
        ("orders", 0, 2),
        ("orders", 1, 1),
    ]


def test_first_wave_done(plan: Path) -> None:
    found = state(plan, BEFORE | FIRST_WAVE)
    assert (found.status, found.done) == (PlanStatus.PARTLY_DONE, 2)
    assert [(wave.done, wave.missing) for wave in found.waves] == [(2, 0), (0, 1), (0, 1)]
    assert [(one.topic, one.partition, one.wave) for one in found.pending] == [("orders", 0, 2)]
    assert "  wave-01.json: 2 of 2 done" in lines_of(found)
    assert "  next: kafka-reassign-partitions --execute with wave-02.json" in lines_of(found)


def test_done_except_for_an_election(plan: Path) -> None:
    led = [3, 3, 1, 1, 2]  # orders-0 is led by 1 still
    found = state(plan, BEFORE | AFTER, leaders=led)
    assert (found.status, found.done, found.pending) == (PlanStatus.DONE, 3, ())
    assert [(one.topic, one.partition, one.leader, one.preferred) for one in found.pending_elections] == [
        ("orders", 0, 1, 4)
    ]
    lines = lines_of(found)
    assert lines[0] == "done: all replicas are as planned, but 1 preferred leader must still be elected"
    assert lines[-2:] == [
        "  preferred leaders that do not lead (1): orders-0 (leader 1, not 4)",
        "  next: kafka-leader-election --election-type preferred with election.json",
    ]
    after = state(plan, BEFORE | AFTER, leaders=[3, 3, 1, 4, 2])
    assert (after.status, after.pending_elections, after.leaders_known) == (PlanStatus.DONE, (), True)


def test_source_without_leaders(plan: Path) -> None:
    found = state(plan, BEFORE | AFTER)
    assert (found.pending_elections, found.leaders_known) == ((), False)
    assert lines_of(found)[-1] == "  note: no source shows leaders, so elections cannot be checked"


def test_reassignments_under_way(plan: Path) -> None:
    lists = BEFORE | {("orders", 0): [1, 4, 3, 2], ("b", 0): [3, 1, 2]}
    found = state(plan, lists, {("orders", 0): ([4], [2]), ("b", 0): ([2], [])})
    assert found.status == PlanStatus.IN_FLIGHT
    assert [(m.topic, m.adding, m.removing, m.target, m.planned) for m in found.in_flight] == [
        ("b", [2], [], [3, 1, 2], False),
        ("orders", [4], [2], [1, 4, 3], True),
    ]
    assert found.changed_partitions == ()
    line = lines_of(found)[2]
    assert line.startswith("  partitions being reassigned: b-0 (adding [2], removing [], not in this plan), orders-0 (")


@pytest.mark.parametrize(
    ("lists", "status", "says"),
    [
        (
            {("orders", 0): [1, 2, 5]},
            PlanStatus.CHANGED,
            "orders-0 is now [1, 2, 5], was [1, 2, 3], and is planned as [4, 5, 1]",
        ),
        ({("b", 2): [1, 3]}, PlanStatus.FITS, "b-2 is now [1, 3], and the plan does not change it"),
        ({("b", 1): [1, 3]}, PlanStatus.FITS, "b-1 is now [1, 3], and the plan does not change it"),
    ],
)
def test_changed_partition(plan: Path, lists: dict[Key, list[int]], status: PlanStatus, says: str) -> None:
    found = state(plan, BEFORE | lists)
    assert found.status == status
    assert f"  changed partitions: {says}" in lines_of(found)
    ((topic, partition),) = lists
    assert [(one.topic, one.partition) for one in found.changed_partitions] == [(topic, partition)]


def test_new_and_missing_partitions_and_topics(plan: Path) -> None:
    without = {key: one for key, one in BEFORE.items() if key not in [("logs.a", 5), ("b", 2)]}
    found = state(plan, without | {("new", 0): [1]})
    assert found.status == PlanStatus.CHANGED
    assert (found.missing_topics, found.new_topics) == (("logs.a",), ("new",))
    changed = read_plan(plan).changes.keys()
    assert (found.done, found.planned) == (0, len(changed & without.keys()))  # as apply --verify counts
    assert [(one.topic, one.partition, one.now) for one in found.changed_partitions] == [("b", 2, None)]
    said = "\n".join(lines_of(found))
    assert "missing topics: logs.a\n  new topics: new" in said
    assert "b-2 is missing" in said


def test_changes_beside_the_plan_leave_it_valid(plan: Path) -> None:
    found = state(plan, BEFORE | {("new", 0): [1]}, brokers=(*BROKERS, 10))
    assert (found.status, found.changes_beside_plan, found.new_topics) == (PlanStatus.FITS, True, ("new",))
    assert lines_of(found)[0] == (
        "fits: the plan fits: the cluster has changed, but nothing that the plan uses. Its metrics are of then"
    )
    assert "  next: kafka-reassign-partitions --execute with wave-01.json" in lines_of(found)
    gone = {key: one for key, one in BEFORE.items() if key[0] != "b"}
    assert (state(plan, gone).status, state(plan, gone).missing_topics) == (PlanStatus.FITS, ("b",))
    # Broker 3 leaves orders-0 with the second step: the first needs it still.
    assert state(plan, BEFORE, down=[3, 9]).status == PlanStatus.CHANGED
    assert not state(plan, BEFORE).changes_beside_plan


def test_changes_of_ignored_topics_do_not_count_unless_the_plan_changes_them(plan: Path) -> None:
    ignoring = TopicDefaults(ignored=("new*", "b", "orders"))

    def check(lists: Mapping[Key, list[int]]) -> PlanProgress:
        model = model_with(lists, BROKERS, down=[9])
        return check_plan(read_plan(plan), model, partitions_of(model), ignoring)

    found = check(BEFORE | {("new", 0): [1], ("b", 0): [1, 3]})
    assert (found.new_topics, found.changed_partitions, found.changes_beside_plan) == ((), (), False)
    without = check({key: one for key, one in BEFORE.items() if key[0] != "b"})
    assert (without.status, without.missing_topics) == (PlanStatus.FITS, ())
    assert check(BEFORE | {("orders", 0): [1, 2, 5]}).status == PlanStatus.CHANGED


def test_changed_partition_that_is_only_elected(tmp_path: Path) -> None:
    model = model_with(BEFORE, BROKERS, leaders=[1, 3, 9, 1, 1])  # b-0 is not led by 3
    proposal = proposal_with(model, {})
    write_plan(tmp_path / "plan", plan_waves(model, proposal, WaveLimits(), elects_all=True), {})
    found = state(tmp_path / "plan", BEFORE | {("b", 0): [1, 3]}, down=[])
    assert found.status == PlanStatus.CHANGED
    assert "  changed partitions: b-0 is now [1, 3], and the plan elects its preferred leader" in lines_of(found)


def test_failed_and_missing_brokers(plan: Path) -> None:
    failed = state(plan, BEFORE, down=[5, 9])
    assert (failed.status, failed.down_brokers) == (PlanStatus.CHANGED, (5,))
    gone = state(plan, BEFORE, brokers=(1, 2, 3, 4, 9, 10))
    assert (gone.status, gone.missing_brokers, gone.new_brokers) == (PlanStatus.CHANGED, (5,), (10,))
    assert "    no source shows it now. If it is live, check again with --add-brokers 5" in lines_of(gone)
    # What the rest of the plan does not need may go.
    part = BEFORE | {("orders", 0): AFTER["orders", 0], ("orders", 1): AFTER["orders", 1]}
    assert state(plan, part, down=[3, 9]).status == PlanStatus.PARTLY_DONE
    assert state(plan, part, down=[2, 9]).status == PlanStatus.CHANGED
    assert state(plan, BEFORE | AFTER, down=[3, 9]).status == PlanStatus.DONE


RACKED = dict(zip(BROKERS, "aabbcc", strict=True))


def test_a_repair_is_over_once_its_broker_is_back(tmp_path: Path) -> None:
    """As long as partitions are left that the plan would move away from there."""
    header = "Topic: a\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: \n"
    line = "\tTopic: a\tPartition: {}\tLeader: {}\tReplicas: {}\tIsr: {}\n"
    down = [line.format(0, 1, "1,3", "1"), line.format(1, 2, "2,3", "2")]
    back = [line.format(0, 1, "1,3", "1,3"), line.format(1, 2, "2,3", "2,3")]
    done = [line.format(0, 1, "1,2", "1,2"), line.format(1, 2, "2,1", "2,1")]
    source = tmp_path / "prod.txt"
    source.write_text(header + "".join(down))
    options = ("--set", "plans.wave_moves_per_broker=1")
    call("plan", "prod.txt", "--goal", "repair", "--out", "plan", *options, folder=tmp_path)
    for lines, returned in ((back, [3]), ([done[0], back[1]], [3]), ([done[0], down[1]], []), (done, [])):
        source.write_text(header + "".join(lines))
        code = 1 if returned else 0
        shown = call("check", "plan", "prod.txt", "--json", "check.json", code=code, folder=tmp_path).stdout
        assert json.loads((tmp_path / "check.json").read_text())["progress"][0]["returned_brokers"] == returned
        assert ("brokers that are back, from which this plan moves replicas away: 3" in shown) == bool(returned)
        assert ("Make a new plan" in shown) == bool(returned)


@pytest.fixture
def racked(tmp_path: Path) -> Path:
    """The same plan in a cluster whose racks are known, and in which broker 3 is to be emptied."""
    model = racked_model(BEFORE)
    proposal = proposal_with(model, AFTER)
    write_plan(tmp_path / "racked", plan_waves(model, proposal, WaveLimits()), {})
    return tmp_path / "racked"


def racked_model(lists: Mapping[Key, list[int]], draining: Sequence[int] = (3,), **racks: str) -> ClusterModel:
    names = RACKED | {int(name[1:]): rack for name, rack in racks.items()}
    model = model_with(lists, BROKERS, list(names.values()), [1.0] * len(lists), down=[9])
    return replace(model, draining=np.isin(model.broker_ids, np.array(draining, dtype=np.int32)))


def test_changed_racks(racked: Path) -> None:
    def now(model: ClusterModel) -> PlanProgress:
        return check_plan(read_plan(racked), model, partitions_of(model))

    assert now(racked_model(BEFORE)).status == PlanStatus.FITS
    moved = now(racked_model(BEFORE, b4="c"))
    assert (moved.status, moved.changed_racks) == (PlanStatus.CHANGED, (ChangedRack(4, "b", "c"),))
    assert "  brokers in another rack than before: 4 is in c, was in b" in lines_of(moved)
    assert lines_of(moved)[0].startswith("changed: the plan does not fit")
    # The plan leaves 3 out of every list that it sets, and what is done asks nothing of racks any more.
    assert now(racked_model(BEFORE, b3="c")).status == PlanStatus.FITS
    assert now(racked_model(BEFORE | AFTER, b4="c")).status == PlanStatus.DONE


def test_missing_broker_is_named_with_its_rack(racked: Path) -> None:
    lists = {key: [broker for broker in replicas if broker != 9] for key, replicas in BEFORE.items()}
    found = state(racked, lists, brokers=(1, 2, 3, 4))
    assert (found.missing_brokers, found.add_brokers) == ((5,), ("5:c",))


def test_source_without_racks(racked: Path, plan: Path) -> None:
    model = replace(racked_model(BEFORE), rack_names=(), rack=np.zeros(len(BROKERS), dtype=np.int32))
    found = check_plan(read_plan(racked), model, partitions_of(model))
    assert (found.status, found.racks_known) == (PlanStatus.FITS, False)
    assert lines_of(found)[-1].startswith("  note: no source shows racks now")
    # They are shown now, and were not when the plan was made.
    later = racked_model(BEFORE, draining=())
    shown = check_plan(read_plan(plan), later, partitions_of(later))
    assert (shown.status, shown.changed_racks[0]) == (PlanStatus.CHANGED, ChangedRack(1, None, "a"))


def test_brokers_drained_since(racked: Path) -> None:
    def now(model: ClusterModel) -> PlanProgress:
        return check_plan(read_plan(racked), model, partitions_of(model))

    found = now(racked_model(BEFORE, draining=(3, 5)))
    assert (found.status, found.drained_brokers) == (PlanStatus.CHANGED, (5,))
    assert "  brokers that the source newly marks for draining: 5" in lines_of(found)
    assert now(racked_model(BEFORE, draining=())).status == PlanStatus.FITS
    assert now(racked_model(BEFORE | AFTER, draining=(3, 5))).status == PlanStatus.DONE


def test_plan_of_another_cluster_is_rejected(plan: Path) -> None:
    model = replace(model_with(BEFORE, BROKERS, down=[9]), cluster_id="other")
    with pytest.raises(SourceError, match=r"plan is for cluster 'c', but the source is named 'other'.*use c=PATH"):
        check_plan(read_plan(plan), model, partitions_of(model))


def test_unplanned_change_while_partly_done(plan: Path) -> None:
    found = state(plan, BEFORE | FIRST_WAVE | {("b", 0): [1, 3]})
    assert (found.status, found.done, found.changes_beside_plan) == (PlanStatus.PARTLY_DONE, 2, True)


def test_empty_plan_is_done(tmp_path: Path) -> None:
    model = model_with(BEFORE, BROKERS, down=[9])
    proposal = proposal_with(model, {})
    write_plan(tmp_path / "plan", plan_waves(model, proposal, WaveLimits()), {})
    assert check_plan(read_plan(tmp_path / "plan"), model, partitions_of(model)).status == PlanStatus.DONE


def edited(name: str, change: Callable[[str], str], plan: Path) -> str:
    path = plan / name
    path.write_text(change(path.read_text()))
    with pytest.raises(SourceError) as rejected:
        state(plan, BEFORE)
    return str(rejected.value).replace(f"{plan}/", "")


def test_edited_reassignment(plan: Path) -> None:
    said = edited("reassignment.json", lambda text: text.replace("[4,5,1]", "[4,5,2]"), plan)
    assert said == (
        "reassignment.json, line 3: partition orders-0: its replicas are [4, 5, 2], but plan.json has [4, 5, 1]. "
        "Restore the file that `plan` wrote, or make a new plan"
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("reassignment.json", '"partition":0', '"partition":', "reassignment.json, line 3: is not JSON: Expecting"),
        ("reassignment.json", '"partition":0', '"partition":7', "line 3: partition orders-7: plan.json does not name"),
        ("reassignment.json", '"replicas":[4,5,1]', '"replicas":[]', "line 3: partitions.1.replicas: List should"),
        ("reassignment.json", '"replicas":[4,5,1]', '"replicas":"4"', "line 3: partitions.1.replicas: Input should be"),
        ("reassignment.json", '"version":1', '"version":2', "version: Input should be 1, but it is 2"),
        (
            "reassignment.json",
            '{"topic":"orders","partition":1,',
            '{"topic":"orders","partition":0,',
            "it is listed twi",
        ),
        ("wave-03.json", "[4,5,1]", "[4,1,5]", "wave-03.json, line 2: partition orders-0: its replicas are [4, 1, 5]"),
        (
            "rollback.json",
            "[1,2,3]",
            "[2,1,3]",
            "rollback.json, line 2: partition orders-0: its replicas are [2, 1, 3]",
        ),
        (
            "rollback.json",
            '"topic":"orders","partition":0',
            '"topic":"logs.a","partition":5',
            "line 2: partition logs.a-5",
        ),
        ("election.json", '"topic":"orders"', '"topic":"a b"', "bad topic name 'a b'"),
        ("plan.json", '"kind": "kafka-placement plan"', '"kind": "x"', "kind: Input should be 'kafka-placement plan'"),
        ("plan.json", '"before":[1,2,3]', '"before":[1,-2,3]', "changes.1.before.1: Input should be greater"),
        ("plan.json", '"after":[4,5,1]', '"after":[4,5,3]', "orders-0: its last step is [4, 5, 1], not [4, 5, 3]"),
        ("plan.json", '"wave":2,"replicas"', '"wave":9,"replicas"', "its steps are in the waves [9, 3] of 3"),
        (
            "plan.json",
            '"partitions":"0-1"',
            '"partitions":"0-2"',
            "assignment_before.topics.orders: partitions 0-2 is not 2 ids",
        ),
    ],
)
def test_damaged_file_is_rejected(plan: Path, name: str, old: str, new: str, says: str) -> None:
    assert old in (plan / name).read_text()
    assert says in edited(name, lambda text: text.replace(old, new, 1), plan)


@pytest.mark.parametrize("name", ["plan.json", "reassignment.json", "wave-03.json", "rollback.json", "election.json"])
def test_missing_file(plan: Path, name: str) -> None:
    (plan / name).unlink()
    with pytest.raises(SourceError, match=f"{name}: cannot be read: No such file or directory. Restore"):
        state(plan, BEFORE)


def test_missing_folder_and_binary_file(plan: Path) -> None:
    with pytest.raises(SourceError, match=r"nowhere: there is no such folder. Name the folder that `plan --out` made"):
        state(plan / "nowhere", BEFORE)
    (plan / "plan.json").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(SourceError, match=r"plan.json: cannot be read"):
        state(plan, BEFORE)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda text: text.replace('"before":[1,', f'"before":[{"9" * 5_000},', 1), "read: Exceeds the limit"),
        (lambda text: "[" * 50_000, "cannot be read: maximum recursion depth exceeded"),
        (lambda text: text.replace('"version": 1', '"version": Infinity', 1), "plan.json: version: Input should be 1"),
        (lambda text: text.replace('"before":[1,', '"before":[NaN,', 1), "Input should be a valid integer"),
        (lambda text: text.replace('"before":[1,', f'"before":[{"9" * 99},', 1), "Input should be less than"),
        (lambda text: text.replace('"0-1"', f'"0-{"9" * 5_000}"', 1), "are not ranges of ids, as in 0-5,7"),
        (lambda text: text.replace('"0-1"', '"x"', 1), "partitions 'x' are not ranges of ids"),
        (lambda text: text.replace('"kind": "', f'"kind": "{"x" * 100_000}', 1), "kind: Input should be"),
    ],
)
def test_numbers_and_depth_that_no_plan_has(plan: Path, change: Callable[[str], str], problem: str) -> None:
    said = edited("plan.json", change, plan)
    assert problem in said
    assert len(said) < 400


def test_wave_file_outside_the_folder_is_not_read(plan: Path) -> None:
    assert "waves.0.file" in edited("plan.json", lambda text: text.replace("wave-01.json", "../x.json"), plan)
