"""What brokers can bear: the file, and who would be over."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError
from pipelines.stages.cluster_inputs import capacities, check_named, read_limits
from udfs.failures.failure_rows import Outcome
from udfs.failures.headroom import capacity
from udfs.failures.kernels.failure_sums import BYTES_OUT, LEADERS, LOADS
from udfs.failures.scenarios import Cluster, RandomPlan, scenarios_of

HEAD = "broker_id,leaders,bytes_out_per_s\n"


def outcome(racks: tuple[str | None, ...] = ("a", "b", "c")) -> Outcome:
    """Brokers 1, 2, 3 lead 4, 2 and 0 partitions of 10 bytes per second out each; 2 takes over from 1, 3 from 2."""
    led, taken = np.zeros((3, LOADS)), np.zeros((3, 3, LOADS))
    for broker, count in ((0, 4), (1, 2)):
        led[broker, LEADERS], led[broker, BYTES_OUT] = count, 10 * count
    taken[0, 1, LEADERS], taken[0, 1, BYTES_OUT] = 4, 40
    taken[1, 2, LEADERS], taken[1, 2, BYTES_OUT] = 2, 20
    scenarios = scenarios_of("c", Cluster((1, 2, 3), racks), RandomPlan((), 0, 0))
    count = len(scenarios.kind)
    lost, gained = np.zeros((count, 3, LOADS)), np.zeros((count, 3, LOADS))
    for s in range(count):  # a rack is a broker here
        if racks[s] is not None:
            lost[s, s], gained[s] = led[s], taken[s]
    zeros = np.zeros((3, 8), np.int64)
    sums = {"led": led, "taken": taken, "known": np.array([0, 0, 6]), "now": zeros[0], "singles": zeros}
    sums |= {"scenario_lost": lost, "scenario_taken": gained, "scenario_events": np.zeros((count, 8), np.int64)}
    return Outcome(np.array([1, 2, 3], dtype=np.int32), scenarios, sums)


def test_uniform_headroom() -> None:
    needed, over = capacity(outcome(), None, 0.5)
    rows = {(r["scenario_kind"], r["resource"]): r for r in needed.to_pylist()}
    assert set(rows) == {(k, r) for k in ("broker", "rack") for r in ("leaders", "bytes_out_per_s")}
    worst = rows["broker", "leaders"]  # broker 2 with 6 leaders, of a mean of 2
    assert worst["required_headroom_ratio"] == pytest.approx(2.0)
    assert (worst["worst_scenario"], worst["worst_broker"], worst["worst_load"]) == ("broker:1", 2, 6.0)
    assert (worst["scenarios"], worst["scenarios_over_capacity"], worst["capacity_source"]) == (3, 3, "uniform")
    assert rows["rack", "bytes_out_per_s"]["required_headroom_ratio"] == pytest.approx(2.0)
    found = [r for r in over.to_pylist() if (r["scenario"], r["resource"]) == ("broker:1", "leaders")]
    assert [(r["broker_id"], r["load_after"], r["capacity"], r["excess_load"]) for r in found] == [(2, 6.0, 3.0, 3.0)]
    assert found[0]["failed_brokers"] == [1]
    assert capacity(outcome(), None, 2.0)[1].num_rows == 0


class Brokers:
    """Rows of silver.brokers, without Spark."""

    def __init__(self, *rows: tuple[str, int]) -> None:
        self.rows = [SimpleNamespace(cluster_id=cluster, broker_id=broker) for cluster, broker in rows]

    def select(self, *names: str) -> Brokers:
        return self

    def collect(self) -> list[SimpleNamespace]:
        return self.rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("c,9,5\n", "cluster c has no broker 9"),
        (",9,5\n", "no cluster has a broker 9"),
        ("d,1,5\n", "names none of the clusters of this run: c"),
    ],
)
def test_rows_that_match_nothing_are_errors(tmp_path: Path, rows: str, words: str) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text("cluster,broker_id,leaders\n" + rows)
    with pytest.raises(SettingsError, match=words):
        check_named(Brokers(("c", 1)), "", str(file))


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ("1,9", "1,9: no cluster has all of these brokers. There are c: 1,2; d: 7"),
        ("c=7", "c=7: no cluster has all of these brokers. There are c: 1,2"),
        ("e=1", "e=1: no cluster named 'e' is. There are c: 1,2; d: 7"),
    ],
)
def test_lists_that_match_nothing_are_errors(lists: str, words: str) -> None:
    brokers = Brokers(("c", 1), ("c", 2), ("d", 7))
    with pytest.raises(SettingsError, match=f"failures.lists: {words}"):
        check_named(brokers, lists, "")
    check_named(brokers, "1,2; d=7; 7", "")


def test_comments_and_semicolons(tmp_path: Path) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text("# of May\nbroker_id;leaders\n\n1;1500\n# 2;3\n")
    assert {key: values[LEADERS] for key, values in read_limits(str(file)).items()} == {("", 1): 1500}


def test_a_file_names_each_brokers_own(tmp_path: Path) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text("cluster," + HEAD + ",1,10,\n,2,5,1000\nc,2,4,50\n")
    cluster = Cluster((1, 2, 3), ("a", None, "c"))
    clusters = {("c", "s"): cluster, ("other", "s"): Cluster((7,), (None,))}
    limits = capacities(str(file), clusters)
    assert list(limits) == [("c", "s")]
    assert limits["c", "s"][1].tolist()[:3] == pytest.approx([4, np.nan, 50], nan_ok=True)
    assert np.isnan(limits["c", "s"][2]).all()
    needed, over = capacity(outcome(), limits["c", "s"], 0.5)
    rows = {(r["scenario_kind"], r["resource"]): r for r in needed.to_pylist()}
    worst = rows["broker", "leaders"]
    assert worst["required_headroom_ratio"] == pytest.approx(6 / 4 - 1)
    assert (worst["worst_broker"], worst["capacity_source"], worst["scenarios_over_capacity"]) == (2, "file", 1)
    assert {r["broker_id"] for r in over.to_pylist()} == {2}  # 1 stays below, 3 has no limit


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("leaders\n5\n", "line 1: no column broker_id"),
        ("broker_id,disk\n1,5\n", "line 1: column 'disk'"),
        ("broker_id,leaders,leaders\n1,5,6\n", "line 1: column 'leaders' is unknown or there twice"),
        (HEAD + "1,1,500,7\n", "line 2: 4 values for 3 columns"),
        (HEAD + "1,1_000,\n", "line 2: leaders is '1_000'"),
        (HEAD + "x,5,\n", "line 2: broker_id is 'x'"),
        (HEAD + "1,-5,\n", "line 2: leaders is '-5', expected a number >= 0"),
        (HEAD + "1,nan,\n", "line 2: leaders is 'nan'"),
        (HEAD + "1,5,\n1,6,\n", "line 3: broker 1 is there twice"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text(text)
    with pytest.raises(SettingsError, match="capacity.file .*" + words):
        read_limits(str(file))
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_limits(str(tmp_path / "none.csv"))


def test_lists_of_brokers_are_checked() -> None:
    assert load_settings(["failures.lists=1,2; prod=3"], environ={}).failures.lists == "1,2; prod=3"
    with pytest.raises(SettingsError, match=r"failures.lists = '1;x': 'x' is no list of broker ids"):
        load_settings(["failures.lists=1;x"], environ={})


@pytest.mark.parametrize("key", ["failures.random_failures", "durability.failures"])
def test_numbers_named_twice_are_rejected(key: str) -> None:
    with pytest.raises(SettingsError, match="a number is named twice"):
        load_settings([f"{key}=2,2,3"], environ={})
