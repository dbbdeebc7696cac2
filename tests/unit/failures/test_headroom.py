"""Capacities of brokers: the file, required headroom, and survivors over capacity."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.config.capacity_file import match_disks, read_capacities, read_disk_capacities
from pipelines.config.setting_sections import CustomFailure
from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError
from pipelines.stages.cluster_inputs import check_settings, match_capacities
from udfs.failures.failure_outcomes import SchemeAggregates
from udfs.failures.failure_rows import headroom_rows
from udfs.failures.kernels.election import COUNTS
from udfs.failures.kernels.failure_totals import BYTES_OUT, EVENTS, LEADERS, LOADS
from udfs.failures.scenarios import Cluster, RandomSets, build_scenarios

HEADER = "broker_id,leaders,bytes_out_per_s\n"


def aggregates(racks: tuple[str | None, ...] = ("a", "b", "c")) -> SchemeAggregates:
    """Brokers 1, 2, 3 lead 4, 2 and 0 partitions of 10 bytes per second out each; 2 takes over from 1, 3 from 2."""
    led, takeovers = np.zeros((3, LOADS)), np.zeros((3, 3, LOADS))
    for broker, count in ((0, 4), (1, 2)):
        led[broker, LEADERS], led[broker, BYTES_OUT] = count, 10 * count
    takeovers[0, 1, LEADERS], takeovers[0, 1, BYTES_OUT] = 4, 40
    takeovers[1, 2, LEADERS], takeovers[1, 2, BYTES_OUT] = 2, 20
    scenarios = build_scenarios("c", Cluster((1, 2, 3), racks), RandomSets())
    count = len(scenarios.kind)
    gains = np.zeros((count, 3, LOADS))
    for s in range(count):  # every rack has one broker
        if racks[s] is not None:
            gains[s] = takeovers[s]
    zeros = np.zeros((3, EVENTS), np.int64)
    sums = {"leader_loads": led, "takeovers": takeovers, "known": np.array([0, 0, 6])}
    sums |= {"events": zeros[0], "single_events": zeros, "scenario_events": np.zeros((count, EVENTS), np.int64)}
    sums |= {"scenario_takeovers": gains, "broker_counts": np.ones((3, COUNTS), np.int64)}
    return SchemeAggregates(np.array([1, 2, 3], dtype=np.int32), scenarios, sums)


def test_uniform_headroom() -> None:
    required, over = headroom_rows(aggregates(), None, 0.5)
    rows = {(r["scenario_kind"], r["quantity"]): r for r in required.to_pylist()}
    assert set(rows) == {(k, r) for k in ("broker", "rack") for r in ("leaders", "bytes_out_per_s")}
    worst = rows["broker", "leaders"]  # broker 2 with 6 leaders, of a mean of 2
    assert worst["required_headroom_ratio"] == pytest.approx(2.0)
    assert (worst["worst_scenario"], worst["worst_broker"], worst["worst_load"]) == ("broker:1", 2, 6.0)
    assert worst["capacity_source"] == "uniform"
    assert rows["rack", "bytes_out_per_s"]["required_headroom_ratio"] == pytest.approx(2.0)
    found = [r for r in over.to_pylist() if (r["scenario"], r["quantity"]) == ("broker:1", "leaders")]
    assert [(r["broker_id"], r["load_after"], r["capacity"], r["excess_load"]) for r in found] == [(2, 6.0, 3.0, 3.0)]
    assert found[0]["failed_brokers"] == [1]
    assert headroom_rows(aggregates(), None, 2.0)[1].num_rows == 0


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
        ("d,1,5\n", "it names none of the clusters of this run: c"),
    ],
)
def test_rows_that_match_nothing_are_errors(tmp_path: Path, rows: str, words: str) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text("cluster,broker_id,leaders\n" + rows)
    with pytest.raises(SettingsError, match=words):
        check_settings(Brokers(("c", 1)), (), str(file))


@pytest.mark.parametrize(
    ("cluster", "failed", "words"),
    [
        ("", (1, 9), "brokers 1,9 .*: no cluster has all of these brokers. Brokers: c: 1,2; d: 7"),
        ("c", (7,), "broker 7 .*: cluster c does not have this broker. Brokers: c: 1,2"),
        ("e", (1,), "broker 1 .*: there is no cluster 'e'. Brokers: c: 1,2; d: 7"),
    ],
)
def test_custom_failures_that_match_nothing_are_errors(cluster: str, failed: tuple[int, ...], words: str) -> None:
    brokers = Brokers(("c", 1), ("c", 2), ("d", 7))
    with pytest.raises(SettingsError, match=f"the custom failure of {words}"):
        check_settings(brokers, [CustomFailure(brokers=failed, cluster=cluster)], "")
    known = [("", (1, 2)), ("d", (7,)), ("", (7,))]
    check_settings(brokers, [CustomFailure(brokers=ids, cluster=name) for name, ids in known], "")


def test_comments_and_semicolons(tmp_path: Path) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text("# of May\nbroker_id;leaders\n\n1;1500\n# 2;3\n")
    assert {key: loads[LEADERS] for key, loads in read_capacities(str(file)).items()} == {("", 1): 1500}


def test_a_file_has_the_capacity_of_each_broker(tmp_path: Path) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text("cluster," + HEADER + ",1,10,\n,2,5,1000\nc,2,4,50\n")
    cluster = Cluster((1, 2, 3), ("a", None, "c"))
    clusters = {("c", "s"): cluster, ("other", "s"): Cluster((7,), (None,))}
    limits = match_capacities(str(file), clusters)
    assert list(limits) == [("c", "s")]
    assert limits["c", "s"][1].tolist()[:3] == pytest.approx([4, np.nan, 50], nan_ok=True)
    assert np.isnan(limits["c", "s"][2]).all()
    required, over = headroom_rows(aggregates(), limits["c", "s"], 0.5)
    rows = {(r["scenario_kind"], r["quantity"]): r for r in required.to_pylist()}
    worst = rows["broker", "leaders"]
    assert worst["required_headroom_ratio"] == pytest.approx(6 / 4 - 1)
    assert (worst["worst_broker"], worst["capacity_source"]) == (2, "file")
    assert {r["broker_id"] for r in over.to_pylist()} == {2}  # 1 stays below, 3 has no limit


def test_a_file_has_the_bytes_of_brokers_and_log_dirs(tmp_path: Path) -> None:
    """A broker with bytes of its disk alone has no limit of load."""
    file = tmp_path / "capacity.csv"
    file.write_text("cluster,broker_id,leaders,disk_bytes,log_dir\n,1,,1e12,\nc,2,7,,\nc,2,,5e11,/d1\nc,2,,6e11,/d2\n")
    assert read_disk_capacities(str(file)) == {("", 1, ""): 1e12, ("c", 2, "/d1"): 5e11, ("c", 2, "/d2"): 6e11}
    assert match_disks(read_disk_capacities(str(file)), "c") == {(1, ""): 1e12, (2, "/d1"): 5e11, (2, "/d2"): 6e11}
    assert list(read_capacities(str(file))) == [("", 1), ("c", 2)]
    clusters = {("c", "s"): Cluster((1, 2), (None, None)), ("other", "s"): Cluster((1,), (None,))}
    assert list(match_capacities(str(file), clusters)) == [("c", "s")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("broker_id,disk_bytes,log_dir\n1,5,/d\n1,6,/d\n", "line 3: log dir /d of broker 1 is repeated"),
        ("broker_id,disk_bytes\n1,much\n", "line 2: disk_bytes is 'much'"),
        ("broker_id,leaders,log_dir\n1,5,/d\n", "line 2: a log dir has only disk_bytes"),
        ("leaders\n5\n", "line 1: there is no column broker_id"),
        ("broker_id,disk\n1,5\n", "line 1: column 'disk'"),
        ("broker_id,leaders,leaders\n1,5,6\n", "line 1: column 'leaders' is unknown or repeated"),
        (HEADER + "1,1,500,7\n", "line 2: 4 values for 3 columns"),
        (HEADER + "1,1_000,\n", "line 2: leaders is '1_000'"),
        (HEADER + "x,5,\n", "line 2: broker_id is 'x'"),
        (HEADER + "1,-5,\n", "line 2: leaders is '-5'. Write a number >= 0"),
        (HEADER + "1,nan,\n", "line 2: leaders is 'nan'"),
        (HEADER + "1,5,\n1,6,\n", "line 3: broker 1 is repeated"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "capacity.csv"
    file.write_text(text)
    with pytest.raises(SettingsError, match="capacity.file .*" + words):
        read_capacities(str(file))
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_capacities(str(tmp_path / "none.csv"))


def test_custom_failures_are_checked() -> None:
    settings = load_settings(['failures.custom=[{"brokers": [1, 2]}, {"brokers": [3], "cluster": "prod"}]'], environ={})
    assert [(failure.cluster, failure.brokers) for failure in settings.failures.custom] == [
        ("", (1, 2)),
        ("prod", (3,)),
    ]
    with pytest.raises(SettingsError, match=r"failures\.custom"):
        load_settings(['failures.custom=[{"brokers": [1, "x"]}]'], environ={})


@pytest.mark.parametrize("key", ["failures.random_failure_sizes", "durability.failure_counts"])
def test_values_listed_twice_are_rejected(key: str) -> None:
    with pytest.raises(SettingsError, match="a value is listed twice"):
        load_settings([f"{key}=2,2,3"], environ={})
