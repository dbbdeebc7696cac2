"""The text that `plan` prints."""

from __future__ import annotations

import json
import re
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import pytest

from pipelines.cli.plan_details import render_disk_growth
from pipelines.setup import compile_on_demand
from tests.unit.planning import judge
from tests.unit.planning.plan_commands import CommandResult, describe_line, write_describe, write_model
from udfs.planning.planned_waves import DiskGrowth
from udfs.wording import count_of, estimate_duration, format_duration


def test_repair_names_what_cannot_be_rolled_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    down = [describe_line(0, "1,9"), describe_line(1, "2,9"), describe_line(2, "3,9")]
    rows = [row.replace("Isr: " + row[-3:], "Isr: " + row[-3]) for row in down]
    header = "Topic: t\tPartitionCount: {}\tReplicationFactor: 2\tConfigs: "  # else the listing may be filtered
    source = write_describe(tmp_path, header.format(5), *rows, describe_line(3, "1,2"), describe_line(4, "3"))
    out, answer = tmp_path / "plan", tmp_path / "answer.json"
    result = CommandResult(capsys, "plan", source, "--goal", "repair", "--out", out, "--json", answer)
    assert result.code == 0, result.err
    assert (
        "rollback.json cannot roll back 3 partitions: t-0, t-1, t-2: a replica was on a broker that is down"
        in result.out
    )
    assert "  to roll it back:\n" in result.out
    assert json.loads(answer.read_text())["not_in_rollback"]["partitions"] == 3
    for path in [*out.glob("wave-*.json"), out / "reassignment.json", out / "rollback.json"]:
        named = {id_ for entry in json.loads(path.read_text())["partitions"] for id_ in entry["replicas"]}
        assert named <= {1, 2, 3}, path.name
    assert "--entity-name=9" not in (out / "throttles.sh").read_text()
    assert CommandResult(capsys, "check", out, source).code == 0
    write_describe(tmp_path, header.format(3), *rows)
    result = CommandResult(capsys, "plan", source, "--goal", "repair", "--out", out)
    assert "to roll it back" not in result.out  # nothing of it can be


def test_a_partition_without_a_live_source_stays_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 5 is down, and has the only replica of t-0 that was in sync: nothing could be copied from broker 1."""
    lines = [
        describe_line(0, "5,1").replace("Leader: 5", "Leader: none").replace("Isr: 5,1", "Isr: 5"),
        describe_line(1, "1,5").replace("Isr: 1,5", "Isr: 1"),
        describe_line(2, "2,3"),
    ]
    header = "Topic: t\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: "
    source, out = write_describe(tmp_path, header, *lines), tmp_path / "plan"
    result = CommandResult(capsys, "plan", source, "--goal", "repair", "--out", out)
    planned = json.loads((out / "reassignment.json").read_text())["partitions"]
    assert [entry["partition"] for entry in planned] == [1]
    assert "missed: t-0 cannot be changed because of the lack of an in-sync replica on a live broker" in result.out
    assert "holds the only in-sync copy of 1 partition: t-0" in result.err


def test_rollback_is_throttled_and_elects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_describe(tmp_path, describe_line(0, "1,2,3"), describe_line(1, "2,1,3"))
    result = CommandResult(capsys, "plan", source, "--goal", "rf", "--rf", "2", "--out", tmp_path / "plan")
    forth, back = result.out.split("  to roll it back")
    assert "--throttle" not in forth  # replicas only go
    assert back.startswith(" (2 partitions at once, not in waves, at 50 MB/s per broker):")
    steps = [line.split("plan/")[1] for line in back.splitlines() if "kafka-reassign-partitions" in line]
    assert steps[0] == "reassignment.json --cancel    # what still runs"
    assert steps[1:] == ["rollback.json --execute --throttle 50000000", "rollback.json --verify"]
    source = write_describe(tmp_path, describe_line(0, "1,2"), describe_line(1, "1,2"))
    result = CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path / "plan")
    back = result.out.split("  to roll it back:")[1]
    assert "kafka-leader-election" in back
    assert "election.json" in back
    assert "--cancel" not in back  # an order of replicas is set at once
    assert "--throttle" not in back


def test_without_sizes_no_bytes_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_describe(
        tmp_path, *(describe_line(partition, "1,2") for partition in range(6)), describe_line(6, "3,4")
    )
    result = CommandResult(capsys, "plan", source, "--goal", "balance", "--out", tmp_path / "plan")
    assert ", unknown size" in result.out
    assert "bytes copied" not in result.out
    assert " at 50 MB/s per broker (--throttle); sizes are unknown" in result.out
    assert " 0 B" not in result.out
    assert " 0 s of" not in result.out


def test_partly_known_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes, source = judge.model(3), tmp_path / "cluster"
    source.mkdir()
    (source / "model.json").write_text(json.dumps(sizes))
    (source / "describe.txt").write_text(describe_line(0, "1,2").replace("Topic: t", "Topic: unsized") + "\n")
    result = CommandResult(capsys, "plan", source, "--goal", "repair", "--out", tmp_path / "plan")
    assert "warning: the sources show no size for 1 partition: counted as 0 bytes" in result.err
    assert "  nothing is copied\n" in result.out
    assert "bytes copied" not in result.out  # nothing needs a proof


def test_no_reassignment_with_missed_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_model(tmp_path, removed=[3])
    result = CommandResult(
        capsys,
        "plan",
        source,
        "--goal",
        "drain",
        "--objective",
        "min-moves",
        "--max-moves",
        "0",
        "--out",
        tmp_path / "p",
    )
    assert "no reassignment: see the missed targets" in result.out
    assert "meets the goal" not in result.out


def test_copied_replicas_have_no_gap_where_bytes_are_minimized(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = CommandResult(capsys, "plan", write_model(tmp_path), "--goal", "balance", "--out", tmp_path / "plan")
    copied = next(row for row in result.out.splitlines() if row.startswith("  replicas copied: "))
    assert copied.endswith("; the plan minimizes bytes, not replicas")
    assert "gap" not in copied


@pytest.mark.slow
def test_expand_bounds_bytes_by_the_emptiest_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, answer, model = tmp_path / "plan", tmp_path / "answer.json", judge.model(3)
    result = CommandResult(capsys, "plan", write_model(tmp_path), "--goal", "expand", "--out", out, "--json", answer)
    planned = json.loads((out / "reassignment.json").read_text())["partitions"]
    new_lists = {(entry["topic"], entry["partition"]): entry["replicas"] for entry in planned}
    disks: list[dict[int, float]] = [{broker["id"]: 0.0 for broker in model["brokers"]} for _ in range(2)]
    for one in model["partitions"]:
        lists = one["replicas"], new_lists.get((one["topic"], one["partition"]), one["replicas"])
        for disk, replicas in zip(disks, lists, strict=True):
            for broker in replicas:
                disk[broker] += one["size_mb"]
    before, after = disks
    arriving = sum(max(min(after.values()) - load, 0.0) for load in before.values())
    copied = judge.judge(model, {"partitions": planned})["megabytes"]
    certificate = json.loads(answer.read_text())["certificate"]
    assert arriving - 0.1 <= copied * certificate["bytes_lower_bound"] / certificate["bytes"] <= copied
    assert "; the plan minimizes bytes, not replicas" in result.out


@pytest.mark.slow
def test_disks_that_grow_most_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", write_model(tmp_path), "--goal", "expand", "--objective", "min-bytes"]
    answer = tmp_path / "answer.json"
    text = CommandResult(capsys, *arguments, "--json", answer).out
    line = next(row for row in text.splitlines() if row.startswith("  disk, most while copying: "))
    assert re.fullmatch(r".*: broker 1[67] 0 B -> .*, broker 1[67] 0 B -> .*: check that there is room", line)
    growth = json.loads(answer.read_text())["disk_growth"]
    assert [one["before_bytes"] for one in growth[:2]] == [0, 0]
    assert growth[0]["peak_bytes"] >= growth[0]["after_bytes"] > 0
    text = CommandResult(capsys, *arguments, "--set", f"plans.broker_bytes={10**15}").out
    assert ": within capacity.max_disk_ratio of their disks\n" in text


def test_disk_that_is_too_full_while_copying_is_named() -> None:
    growth = (DiskGrowth(7, 10**12, 3 * 10**12, 2 * 10**12, 10**12), DiskGrowth(8, 0, 10**9, 10**9, 10**10))
    plan: Any = SimpleNamespace(facts=SimpleNamespace(disk_growth=growth, judgement=SimpleNamespace(findings=())))
    (line,) = render_disk_growth(plan)
    assert line.endswith(
        "broker 7 1 TB -> 3 TB, broker 8 0 B -> 1 GB: more than capacity.max_disk_ratio of their disks, on broker 7"
    )


def test_price_of_spreading_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan"
    result = CommandResult(capsys, "plan", write_model(tmp_path), "--goal", "failover", "--per-topic", "--out", out)
    price = json.loads((out / "plan.json").read_text())["certificate"]["leaders"]["topics"]["price"]
    assert f"  price of --per-topic: {price['changes']:+,} changed preferred leaders" in result.out


def read_table(out: str) -> dict[str, list[str]]:
    """Read the table of metrics: the cells of each row that has numbers, by title."""
    cells = (re.match(r"  ( *[^ ].*?) {2,}([-\d.]+(?: +[-\d.]+)*)$", line) for line in out.splitlines())
    return {match[1]: match[2].split() for match in cells if match}


def test_table_shows_leaders_now_preferred_and_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker 1 leads all; 2 is preferred by two partitions, and out of sync in one of them."""
    lines = [describe_line(0, "1,2"), describe_line(1, "1,2"), describe_line(2, "2,1"), describe_line(3, "2,1")]
    lines = [line.replace("Leader: 2", "Leader: 1") for line in lines]
    lines[3] = lines[3].replace("Isr: 2,1", "Isr: 1")
    result = CommandResult(capsys, "plan", write_describe(tmp_path, *lines), "--goal", "leaders")
    assert result.code == 0, result.err
    headings = [line.split() for line in result.out.splitlines()[1:3]]
    assert headings == [["before", "after"], ["max/mean", "min/mean", "max/mean", "min/mean"]]
    table = read_table(result.out)
    assert table["leaders (now, then planned)"] == ["2.000", "0.000", "1.500", "0.500"]
    assert table["leaders (preferred)"] == ["1.000", "1.000", "1.000", "1.000"]


def test_table_hides_rows_that_are_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A describe shows no sizes, rates and racks; a model shows all of them."""
    describe = write_describe(tmp_path, *(describe_line(row, ids) for row, ids in enumerate(("1,2", "2,3", "3,1"))))
    without = read_table(CommandResult(capsys, "plan", describe, "--goal", "leaders").out)
    known = ["replicas", "leaders (now, then planned)", "leaders (preferred)", "worst survivor of a failure: leaders"]
    known += ["  of two failures: leaders", "copysets"]
    assert [title for title in without if not title.startswith("P(loss")] == known
    complete = read_table(CommandResult(capsys, "plan", write_model(tmp_path), "--goal", "leaders").out)
    unknown = {"disk", "bytes in", "bytes out", "  bytes out", "  of a rack's failure: leaders", "rack violations"}
    unknown |= {"offline, worst broker failure", "offline, worst rack failure"}
    assert {title for title in complete if not title.startswith("P(loss")} == {*known, *unknown}
    assert "-" not in {cell for cells in (*without.values(), *complete.values()) for cell in cells}


def test_waves_name_the_limits_that_close_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_describe(tmp_path, *(describe_line(row, "1") for row in range(6)), describe_line(6, "2,3"))
    options = ["--goal", "rf", "--rf", "3", "--set", "plans.wave_moves_per_broker=4"]
    result = CommandResult(capsys, "plan", source, *options, "--out", tmp_path / "plan", "--json", tmp_path / "a.json")
    waves = json.loads((tmp_path / "a.json").read_text())["waves"]
    assert waves == json.loads((tmp_path / "plan" / "plan.json").read_text())["waves"]
    assert [bool(wave["closed_by"]) for wave in waves] == [True] * (len(waves) - 1) + [False]
    rows = read_waves(result.out)
    assert [row[0] for row in rows] == [str(wave["wave"]) for wave in waves]
    assert rows[0] == ["1", "5", "5", "order"]
    assert {row[3] for row in rows[1:-1]} <= {"order", "replicas, broker 2", "replicas, broker 3"}
    assert "    order: a partition gets one new replica at a time\n" in result.out
    limits = {closure["limit"] for wave in waves for closure in wave["closed_by"]}
    assert limits == {"one_replica_at_a_time", "wave_moves_per_broker"}


def read_waves(out: str) -> list[list[str]]:
    """Read the table of waves: the cells of each row."""
    rows = (line.strip() for line in out.split("closed by\n")[1].splitlines())
    return [re.split(" {2,}", row) for row in takewhile(lambda row: row[0].isdigit() or row[0] == ".", rows)]


def test_waves_show_what_stays_under_replicated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker 9 is down; the copies to brokers 2 and 3 go one by one, so each wave repairs as many partitions."""
    lines = [describe_line(row, "1,9").replace("Isr: 1,9", "Isr: 1") for row in range(60)]
    header = "Topic: t\tPartitionCount: 61\tReplicationFactor: 2\tConfigs: "
    source = write_describe(tmp_path, header, *lines, describe_line(60, "2,3"))
    options = ("--goal", "repair", "--set", "plans.wave_moves_per_broker=1")
    out = CommandResult(capsys, "plan", source, *options).out
    assert (
        "under-replicated (now 60)  one in sync (now 60)  "
        "offline or blocked if a broker fails, RF > 1 (now 60)  closed by" in out
    )
    rows = read_waves(out)
    assert [row[3] for row in rows if len(row) > 3] == [str(60 - 2 * n) for n in (*range(1, 13), *range(25, 31))]
    assert rows[12] == ["... 12 more waves, see plan.json"]


@pytest.mark.parametrize(
    ("options", "spread", "reason"),
    [
        ((), "4 of 4", ""),
        (("--max-moves", "3"), "3 of 4", "1 partition not spread (t-3): left out because of --max-moves"),
        (("--exclude-topics", "t"), "0 of 4", "4 partitions not spread (t-0 and 3 others): an excluded topic"),
    ],
)
def test_a_repair_says_how_many_partitions_it_spreads_over_racks(
    options: tuple[str, ...], spread: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "brokers.csv").write_text("broker_id,rack\n1,a\n2,a\n3,b\n")
    single = [f"\tTopic: {topic}\tPartition: 0\tLeader: 3\tReplicas: 3\tIsr: 3" for topic in ("u", "v")]
    write_describe(tmp_path, *(describe_line(row, "1,2") for row in range(4)), describe_line(4, "2,3"), *single)
    result = CommandResult(capsys, "plan", tmp_path, "--goal", "repair", *options)
    assert result.code == 0, result.err
    assert f"racks: the plan spreads {spread} partitions with too many replicas in one rack\n" in result.out
    assert reason in result.out
    assert ("not spread" in result.out) == bool(reason)
    assert (
        "not addressed: 2 partitions (u-0 and 1 other) with replication factor 1, offline with any broker or rack:\n"
        f"      kafka-placement plan {tmp_path} --goal rf --rf 3 --topics u,v\n"
    ) in result.out


def test_disks_with_the_only_copy_must_be_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers 8 and 9 are down: 9 alone has t-0, and 8 was the last in the ISR of t-1; t-2 is led by broker 1."""
    (tmp_path / "brokers.csv").write_text("broker_id,live\n1,yes\n2,yes\n8,no\n9,no\n")
    offline = ["\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 9\tIsr: 9"]
    offline += ["\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 8,9\tIsr: 8"]
    repaired = describe_line(2, "1,9").replace("Isr: 1,9", "Isr: 1")
    write_describe(tmp_path, *offline, repaired, describe_line(3, "1,2"))
    warnings = CommandResult(capsys, "plan", tmp_path, "--goal", "repair").err
    begin = "do not wipe or replace the disk of broker"
    assert f"{begin} 9, which is down: it holds the only copy of 1 partition: t-0\n" in warnings
    assert f"{begin} 8, which is down: it holds the only in-sync copy of 1 partition: t-1\n" in warnings
    write_describe(tmp_path, repaired, describe_line(3, "1,2"))
    assert "do not wipe" not in CommandResult(capsys, "plan", tmp_path, "--goal", "repair").err


def test_the_state_before_a_plan_is_without_added_brokers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_describe(tmp_path, *(describe_line(row, "1,2" if row % 2 else "2,1") for row in range(6)))
    out = CommandResult(capsys, "plan", source, "--goal", "expand", "--add-brokers", "3").out
    table = read_table(out)
    assert table["replicas"] == ["1.000", "1.000", "1.000", "1.000"]
    assert table["leaders (now, then planned)"][:2] == ["1.000", "1.000"]
    assert "  (before: 2 brokers, without those that --add-brokers adds; after: 3)\n" in out


def test_compilation_is_announced_once() -> None:
    result: list[str] = []

    def twice(value: int) -> int:
        return 2 * value

    with compile_on_demand.announce_compilation(result.append):
        made = numba.njit(twice)
        assert made(2) == 4
        assert made(2.0) == 4.0
    assert result == [compile_on_demand.MESSAGE]
    with compile_on_demand.announce_compilation(result.append):
        made(3)
    assert len(result) == 1


@pytest.mark.parametrize(("count", "text"), [(0, "0 moves"), (1, "1 move"), (2000, "2,000 moves")])
def test_format_count(count: int, text: str) -> None:
    assert count_of(count, "move") == text


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "under 1 s"), (119, "2 min"), (42, "42 s"), (7300, "2 h 2 min")])
def test_format_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert estimate_duration(seconds) == (text if text.startswith("under") else f"about {text}")


def test_cluster_without_live_brokers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "down.txt"
    source.write_text("\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 1,2\tIsr: \n")
    result = CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path / "plan")
    assert "no reassignment is possible: no broker is live" in result.out
    assert "meets the goal" not in result.out


@pytest.mark.slow
def test_brokers_that_the_metrics_are_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker that is emptied is in no mean; where all go on, nothing is result of it."""
    source = write_model(tmp_path)
    drained = CommandResult(capsys, "plan", source, "--goal", "drain", "--brokers", "1", "--out", tmp_path / "drain")
    assert "(both columns leave out broker 1, which is to be emptied, down to the row of the worst" in drained.out
    led = CommandResult(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path / "leaders")
    assert "leave out" not in led.out


def test_the_only_copy_is_that_of_the_eligible_leader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers 5 and 6 are down; 5 was the last in sync, as the ELR and the last known leader show."""
    offline = describe_line(0, "5,6").replace("Leader: 5", "Leader: none").replace("Isr: 5,6", "Isr: ")
    for number, extra in enumerate(("\tElr: 5\tLastKnownElr: ", "\tElr: \tLastKnownElr: 5")):
        lines = [offline + extra, describe_line(1, "1,5").replace("Isr: 1,5", "Isr: 1") + "\tElr: \tLastKnownElr: "]
        lines.append(describe_line(2, "2,3") + "\tElr: \tLastKnownElr: ")
        source, out = write_describe(tmp_path, *lines), tmp_path / f"plan-{number}"
        warnings = CommandResult(capsys, "plan", source, "--goal", "repair", "--out", out).err
        assert "broker 5, which is down: it holds the only in-sync copy of 1 partition: t-0" in warnings
        assert "broker 6, which is down" not in warnings


def test_what_the_worst_failures_do_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan puts both partitions with one replica on broker 3, which leaves."""
    lines = [describe_line(row, ids) for row, ids in enumerate(("1", "2", "1,2", "2,1"))]
    source = write_describe(tmp_path, *lines)
    result = CommandResult(capsys, "plan", source, "--goal", "drain", "--brokers", "2", "--add-brokers", "3")
    assert result.code == 0, result.err
    table = read_table(result.out)
    assert table["offline, worst broker failure"] == ["1", "1"]
    result = CommandResult(capsys, "plan", source, "--goal", "rf", "--rf", "1")
    assert read_table(result.out)["offline, worst broker failure"][1] in "234"
    assert "note: the worst failure of a broker leaves" in result.out
