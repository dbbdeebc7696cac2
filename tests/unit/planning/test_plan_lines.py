"""What `plan` prints, as a person reads it."""

from __future__ import annotations

import json
from pathlib import Path

import numba
import pytest

from pipelines.cli.units import duration, many
from pipelines.setup import first_use_compilation
from tests.unit.planning import judge
from tests.unit.planning.plan_commands import Said, described, line, model_file


def test_a_repair_says_what_its_rollback_cannot_give_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    down = [line(0, "1,9"), line(1, "2,9"), line(2, "3,9")]
    rows = [row.replace("Isr: " + row[-3:], "Isr: " + row[-3]) for row in down]
    source = described(tmp_path, *rows, line(3, "1,2"), line(4, "3"))
    out, answer = tmp_path / "plan", tmp_path / "answer.json"
    said = Said(capsys, "plan", source, "--goal", "repair", "--out", out, "--json", answer)
    assert said.code == 0, said.err
    assert (
        "rollback.json cannot take back 3 partitions: t-0, t-1, t-2: a replica was on a broker that is down" in said.out
    )
    assert "  to take it back:\n" in said.out
    assert json.loads(answer.read_text())["not_in_rollback"]["partitions"] == 3
    for path in [*out.glob("wave-*.json"), out / "reassignment.json", out / "rollback.json"]:
        named = {id_ for entry in json.loads(path.read_text())["partitions"] for id_ in entry["replicas"]}
        assert named <= {1, 2, 3}, path.name
    assert "--entity-name=9" not in (out / "throttles.sh").read_text()
    assert Said(capsys, "plan", "--check", out, source).code == 0
    described(tmp_path, *rows)
    said = Said(capsys, "plan", source, "--goal", "repair", "--out", out)
    assert "to take it back" not in said.out  # nothing of it can be


def test_what_takes_it_back_is_throttled_and_elects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = described(tmp_path, line(0, "1,2,3"), line(1, "2,1,3"))
    said = Said(capsys, "plan", source, "--goal", "rf", "--rf", "2", "--out", tmp_path / "plan")
    forth, back = said.out.split("  to take it back")
    assert "--throttle" not in forth  # replicas only go
    assert back.startswith(" (2 partitions at once, not in waves, at 50 MB/s a broker):")
    assert "rollback.json --execute --throttle 50000000" in back
    source = described(tmp_path, line(0, "1,2"), line(1, "1,2"))
    said = Said(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path / "plan")
    back = said.out.split("  to take it back:")[1]
    assert "kafka-leader-election" in back
    assert "election.json" in back
    assert "--throttle" not in back


def test_without_sizes_nothing_is_said_of_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = described(tmp_path, *(line(partition, "1,2") for partition in range(6)), line(6, "3,4"))
    said = Said(capsys, "plan", source, "--goal", "balance", "--out", tmp_path / "plan")
    assert "of unknown size" in said.out
    assert "bytes copied" not in said.out
    assert "; how long at 50 MB/s a broker is not known without sizes" in said.out
    assert " 0 B" not in said.out
    assert " 0 s of" not in said.out


def test_sizes_that_are_not_all_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes, source = judge.model(3), tmp_path / "cluster"
    source.mkdir()
    (source / "model.json").write_text(json.dumps(sizes))
    (source / "describe.txt").write_text(line(0, "1,2").replace("Topic: t", "Topic: unsized") + "\n")
    said = Said(capsys, "plan", source, "--goal", "repair", "--out", tmp_path / "plan")
    assert "warning: the sources show no size of 1 partition: counted as 0 bytes" in said.err
    assert "  nothing is copied\n" in said.out
    assert "bytes copied" not in said.out  # nothing needs a proof


def test_nothing_done_is_not_called_well_where_something_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = model_file(tmp_path, removed=[3])
    said = Said(
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
    assert "nothing is to be reassigned: see what was missed" in said.out
    assert "as the goal wants it" not in said.out


def test_replicas_have_no_gap_where_bytes_were_to_be_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = Said(capsys, "plan", model_file(tmp_path), "--goal", "balance", "--out", tmp_path / "plan")
    copied = next(row for row in said.out.splitlines() if row.startswith("  replicas copied: "))
    assert copied.endswith("; but bytes were kept few, not replicas")
    assert "gap" not in copied


def test_the_price_of_spreading_topics_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan"
    said = Said(capsys, "plan", model_file(tmp_path), "--goal", "failover", "--per-topic", "--out", out)
    price = json.loads((out / "plan.json").read_text())["certificate"]["leaders"]["price_of_topics"]
    assert f"  price of --per-topic: {price['changes']:+,} changed preferred leaders" in said.out


def test_compiling_is_announced_once_and_only_if_it_happens() -> None:
    said: list[str] = []

    def twice(value: int) -> int:
        return 2 * value

    with first_use_compilation.announced(said.append):
        made = numba.njit(twice)
        assert made(2) == 4
        assert made(2.0) == 4.0
    assert said == [first_use_compilation.MESSAGE]
    with first_use_compilation.announced(said.append):
        made(3)
    assert len(said) == 1


@pytest.mark.parametrize(("count", "says"), [(0, "0 moves"), (1, "1 move"), (2000, "2,000 moves")])
def test_counts_in_words(count: int, says: str) -> None:
    assert many(count, "move") == says


@pytest.mark.parametrize(("seconds", "says"), [(0.2, "under 1 s"), (119, "2 min"), (42, "42 s"), (7300, "2 h 2 min")])
def test_durations_in_words(seconds: float, says: str) -> None:
    assert duration(seconds) == says


def test_a_cluster_in_which_nobody_lives_is_not_as_the_goal_wants_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "down.txt"
    source.write_text("\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 1,2\tIsr: \n")
    said = Said(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path / "plan")
    assert "nothing can be reassigned: no broker lives" in said.out
    assert "as the goal wants it" not in said.out


def test_the_brokers_that_the_measures_are_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker that is emptied is in no mean; where all go on, nothing is said of it."""
    source = model_file(tmp_path)
    drained = Said(capsys, "plan", source, "--goal", "drain", "--brokers", "1", "--out", tmp_path / "drain")
    assert "over the 17 brokers that go on, of 18 that live" in drained.out
    led = Said(capsys, "plan", source, "--goal", "leaders", "--out", tmp_path / "leaders")
    assert "that go on" not in led.out
