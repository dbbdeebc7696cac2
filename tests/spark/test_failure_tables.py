"""The failure tables of a run over random small clusters, against plain Python elections over the placements."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.config.settings import load_settings
from pipelines.errors import SettingsError, StoreError
from pipelines.ingest.sources import find_sources
from pipelines.runner import Progress, Run, make_context
from pipelines.spark.store import Store
from pipelines.stages.stage_registry import steps_between
from tests.steps import list_steps_to
from udfs.failures.scenarios import ScenarioKind

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Rows = list[dict[str, Any]]
CHECKED = [
    f"gold.{name}"
    for name in (
        *("placements", "failure_summary", "loads_after_failure", "durability"),
        *("current_loads", "leader_hotspots", "random_failures", "headroom"),
    )
]
SEED = random.randrange(1 << 30)  # printed by a failing test: each run tries other clusters


def _cluster(folder: Path, rng: random.Random, loads: bool) -> None:
    """A describe, racks, and log dirs or topic loads of a random cluster."""
    folder.mkdir()
    ids = sorted(rng.sample(range(1, 40), rng.randint(4, 9)))
    down = set(rng.sample(ids, rng.choice([0, 0, 1])))
    racks = [f"r{rng.randrange(3)}" for _ in ids]
    rows = "".join(f"{i},{rack}\n" for i, rack in zip(ids, racks, strict=True))
    (folder / "brokers.csv").write_text(f"broker,rack\n{rows}")
    lines, logs, rates = [], {}, ["topic,partitions,replication_factor,bytes_in_per_s,bytes_out_per_s"]
    for t in range(rng.randint(8, 25)):
        count, factor = rng.randint(1, 12), rng.randint(1, min(4, len(ids) - len(down)))
        configs = [f"min.insync.replicas={rng.randint(1, 3)}"] if rng.random() < 0.6 else []
        configs += ["unclean.leader.election.enable=true"] if rng.random() < 0.3 else []
        rates.append(f"t{t},{count},{factor},{rng.randint(0, 99) * count},{rng.randint(0, 99) * count}")
        lines.append(f"Topic: t{t}\tPartitionCount: {count}\tReplicationFactor: {factor}\tConfigs: {','.join(configs)}")
        for p in range(count):
            replicas = rng.sample(ids, factor)
            isr = [b for b in replicas if b not in down and rng.random() < 0.8]
            elr = [b for b in replicas if b not in isr and rng.random() < 0.4]
            leader = rng.choice(isr) if isr else "none"
            lists = [",".join(map(str, part)) for part in (replicas, isr, elr)]
            lines.append(
                f"\tTopic: t{t}\tPartition: {p}\tLeader: {leader}\tReplicas: {lists[0]}\tIsr: {lists[1]}"
                f"\tElr: {lists[2]}\tLastKnownElr: "
            )
            for b in replicas:
                if b not in down and rng.random() < 0.9:
                    log = {"partition": f"t{t}-{p}", "size": 100 + p, "offsetLag": rng.randint(0, 9), "isFuture": False}
                    logs.setdefault(b, []).append(log)
    (folder / "describe.txt").write_text("\n".join(lines) + "\n")
    if loads:
        (folder / "topics.csv").write_text("\n".join(rates) + "\n")
    else:
        answers = [
            {"broker": b, "logDirs": [{"logDir": "/d", "error": None, "partitions": sizes}]}
            for b, sizes in logs.items()
        ]
        (folder / "log-dirs.json").write_text(json.dumps({"version": 1, "brokers": answers}))


class FinishedRun:
    """A finished run over random clusters."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        rng = random.Random(seed)
        self.seed = seed
        for i in range(3):
            _cluster(folder / f"c{i}", rng, loads=i == 1)
        # Many shards of each cluster, so that their aggregates are put together.
        options = [f"store.warehouse={folder / 'w'}", "ingest.shard_bytes=4096", "failures.random_sets=12"]
        some = [int(line.split(",")[0]) for line in (folder / "c0" / "brokers.csv").read_text().split()[1:]][:3]
        options.append(f'failures.custom=[{{"brokers": {some}, "cluster": "c0"}}]')
        settings = load_settings(options, environ={})
        sources = find_sources([str(folder / f"c{i}") for i in range(3)])
        self.options, self.sources = options, sources
        self.store = Store(spark, settings.store.warehouse)
        context = make_context(sources, settings, NOW)
        Run(self.store, context, Progress()).go(list_steps_to(CHECKED), clock=lambda: NOW)
        self.custom = {"c0": [sorted(some)]}

    def rows(self, name: str) -> Rows:
        return [row.asDict(recursive=True) for row in self.store.read(name).collect()]


@pytest.fixture(scope="module")
def finished(spark_application: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(spark_application, tmp_path_factory.mktemp("random"), SEED)


@pytest.fixture(scope="module")
def partitions(finished: FinishedRun) -> dict[tuple[str, str], Rows]:
    """{(cluster, scheme): its placed partitions, with what an election needs}."""
    topics = {(r["cluster_id"], r["topic"]): r for r in finished.rows("silver.topics")}
    logs = {(r["cluster_id"], r["topic"], r["partition"]): r["logs"] for r in finished.rows("silver.partitions")}
    out: dict[tuple[str, str], Rows] = {}
    for row in finished.rows("gold.placements"):
        if row["replicas"] is None:
            continue
        topic = topics[row["cluster_id"], row["topic"]]
        row["isr"] = row["replicas"] if row["isr"] is None else row["isr"]
        row["elr"] = row["elr"] or []
        row["min"] = min(topic["min_insync_replicas"] or 1, len(row["replicas"]))  # as since Kafka 3.7
        row["unclean"] = bool(topic["unclean_leader_election"])
        replica_logs = logs[row["cluster_id"], row["topic"], row["partition"]] if row["scheme"] == "observed" else None
        row["lag"] = {
            b: log and log["offset_lag"] for b, log in zip(row["replicas"], replica_logs or [None] * 99, strict=False)
        }
        out.setdefault((row["cluster_id"], row["scheme"]), []).append(row)
    return out


@pytest.fixture(scope="module")
def live_brokers(finished: FinishedRun) -> dict[str, dict[int, str]]:
    """{cluster: {live broker: rack}}."""
    out: dict[str, dict[int, str]] = {}
    for row in finished.rows("silver.brokers"):
        if row["live"] is not False:
            out.setdefault(row["cluster_id"], {})[row["broker_id"]] = row["rack"]
    return out


def elect(row: dict[str, Any], live: set[int]) -> tuple[int, int, bool]:
    """Return (leader, live in-sync replicas, whether it is unclean) of a partition when only these brokers are live."""
    live_isr = [b for b in row["replicas"] if b in live and b in row["isr"]]
    if row["leader"] in live or row["leader"] == -1:
        return row["leader"], len(live_isr), False
    if live_isr:
        return live_isr[0], len(live_isr), False
    left = [b for b in row["replicas"] if b in live]
    for b in left:
        if b in row["elr"]:
            return b, 1, False
    return (left[0], 1, True) if left and row["unclean"] else (-1, 0, False)


def simulate(rows: Rows, live_brokers: set[int], failed: set[int]) -> tuple[dict[str, Any], dict[int, list[float]]]:
    """Return (columns of gold.failure_summary, {survivor: [leaders, in, out, fetch, takeovers]}) of a failure."""
    load = {b: [0, 0.0, 0.0, 0.0, 0] for b in live_brokers - failed}
    total: Counter[str] = Counter()
    sizes, lags = 0, 0
    for row in rows:
        leader, live_isr, unclean = elect(row, live_brokers - failed)
        total["offline_partitions"] += leader == -1
        gone = leader == -1 and row["leader"] != -1
        total["newly_offline_partitions"] += gone
        total["leaders_lost"] += row["leader"] in failed
        total["unclean_elections"] += unclean
        if gone:
            sizes = None if sizes is None or row["size_bytes"] is None else sizes + row["size_bytes"]
        if unclean:
            lags = None if lags is None or row["lag"][leader] is None else lags + row["lag"][leader]
        if leader == -1:
            continue
        total["under_min_isr_partitions"] += live_isr < row["min"]
        total["single_isr_partitions"] += live_isr == 1
        into, out = row["bytes_in_per_s"] or 0.0, row["bytes_out_per_s"] or 0.0
        values = (1, into, out, out + into * max(live_isr - 1, 0), row["leader"] != leader)
        load[leader] = [a + b for a, b in zip(load[leader], values, strict=True)]
    names = ("offline_partitions", "newly_offline_partitions", "leaders_lost", "unclean_elections")
    found: dict[str, Any] = {
        name: total[name] for name in (*names, "under_min_isr_partitions", "single_isr_partitions")
    }
    found |= {"survivors": len(load), "takeover_brokers": sum(value[4] > 0 for value in load.values())}
    found["potential_lost_messages"] = lags
    found["offline_size_bytes"] = sizes
    for place, name in enumerate(("leaders", "bytes_in", "bytes_out", "fetch")):
        values = [value[place] for value in load.values()]
        known = place == 0 or any(row["bytes_in_per_s"] is not None for row in rows)
        ratio = max(values) * len(values) / sum(values) if known and values and sum(values) else None
        found["worst_survivor_ratio" if name == "leaders" else f"worst_survivor_{name}_ratio"] = ratio
    return found, load


def test_failure_summary(
    finished: FinishedRun, partitions: dict[tuple[str, str], Rows], live_brokers: dict[str, dict[int, str]]
) -> None:
    summary = finished.rows("gold.failure_summary")
    kinds = Counter((r["cluster_id"], r["scheme"], r["scenario_kind"]) for r in summary)
    for cluster, brokers in live_brokers.items():
        n, racks = len(brokers), len(set(brokers.values()))
        for scheme in ("observed", "kafka", "kraft", "naive"):
            counts = {kind: kinds[cluster, scheme, kind] for kind in ScenarioKind if kind != ScenarioKind.RANDOM}
            custom = len(finished.custom.get(cluster, []))
            pairs = n * (n - 1) // 2
            assert counts == {"broker": n, "pair": pairs, "rack": racks, "custom": custom, "rolling_restart": n}
    for row in summary:
        if row["scenario_kind"] == "rolling_restart":
            continue
        key = (row["cluster_id"], row["scheme"])
        failed = set(row["failed_brokers"])
        assert row["failed_brokers"] == sorted(failed)
        found, _ = simulate(partitions.get(key, []), set(live_brokers[row["cluster_id"]]), failed)
        if row["scenario_kind"] == "pair":
            assert row.pop("worst_survivor_fetch_ratio") is None
        for name, value in found.items():
            if name in row:
                assert row[name] == (value if value is None else pytest.approx(value, rel=1e-12)), (
                    finished.seed,
                    key,
                    row["scenario"],
                    name,
                )
        if row["scenario_kind"] == "rack":
            rack = row["scenario"].removeprefix("rack:")
            assert failed == {b for b, r in live_brokers[row["cluster_id"]].items() if r == rack}


def test_rolling_restart(
    finished: FinishedRun, partitions: dict[tuple[str, str], Rows], live_brokers: dict[str, dict[int, str]]
) -> None:
    steps = {(r["cluster_id"], r["scheme"], r["scenario"]): r for r in finished.rows("gold.failure_summary")}
    for (cluster, scheme), rows in partitions.items():
        state = [dict(row) for row in rows]
        for broker in sorted(live_brokers[cluster]):
            row = steps[cluster, scheme, f"rolling_restart:{broker}"]
            found, _ = simulate(state, set(live_brokers[cluster]), {broker})
            for name in ("offline_partitions", "under_min_isr_partitions", "takeover_brokers", "worst_survivor_ratio"):
                assert row[name] == (found[name] and pytest.approx(found[name])), (
                    finished.seed,
                    cluster,
                    scheme,
                    broker,
                )
            for part in state:
                leader, _, _ = elect(part, set(live_brokers[cluster]) - {broker})
                if part["leader"] == broker and leader != -1:
                    part["isr"] = part["isr"] if leader in part["isr"] else [leader, broker]
                    part["leader"] = leader


def test_failure_load(
    finished: FinishedRun, partitions: dict[tuple[str, str], Rows], live_brokers: dict[str, dict[int, str]]
) -> None:
    seen: Counter[tuple[str, str, str]] = Counter()
    before: dict[tuple[str, str], dict[int, list[float]]] = {}
    for row in finished.rows("gold.loads_after_failure"):
        key = (row["cluster_id"], row["scheme"])
        brokers = set(live_brokers[row["cluster_id"]])
        if key not in before:
            before[key] = simulate(partitions.get(key, []), brokers, set())[1]
        _, load = simulate(partitions.get(key, []), brokers, set(row["failed_brokers"]))
        leaders, into, out, fetch, takeovers = load[row["broker_id"]]
        was = before[key][row["broker_id"]]
        assert (row["leaders_before"], row["takeovers"], row["leaders_after"]) == (was[0], takeovers, leaders)
        if row["bytes_in_after_per_s"] is not None:
            assert row["bytes_in_before_per_s"] == pytest.approx(was[1])
            after = [row[f"{name}_after_per_s"] for name in ("bytes_in", "bytes_out", "fetch")]
            assert after == pytest.approx([into, out, fetch]), (finished.seed, key, row["scenario"])
        seen[(*key, row["scenario"])] += 1
    assert {row[0] for row in seen} == set(live_brokers)
    for (cluster, _, scenario), count in seen.items():
        if scenario.startswith("broker:"):
            assert count == len(live_brokers[cluster]) - 1
    assert {
        row["cluster_id"] for row in finished.rows("gold.loads_after_failure") if row["fetch_after_per_s"] is not None
    } == {"c1"}


def test_durability(
    finished: FinishedRun, partitions: dict[tuple[str, str], Rows], live_brokers: dict[str, dict[int, str]]
) -> None:
    rows = finished.rows("gold.durability")
    every = {(c, s) for c in live_brokers for s in ("observed", "kafka", "kraft", "naive")}
    assert {(r["cluster_id"], r["scheme"]) for r in rows} == every
    for row in rows:
        brokers = live_brokers[row["cluster_id"]]
        placed = partitions.get((row["cluster_id"], row["scheme"]), [])
        sets = [frozenset(b for b in p["replicas"] if b in brokers) for p in placed]
        assert row["already_lost_partitions"] == sum(not s for s in sets)
        units: list[Any] = sorted(brokers)
        if row["failure_unit"] == "rack":
            sets = [frozenset(brokers[b] for b in s) for s in sets]
            units = sorted(set(brokers.values()))
        distinct = {s for s in sets if s}
        failures = [set(chosen) for chosen in combinations(units, row["failures"])]
        lost = sum(any(s <= down for s in distinct) for down in failures)
        assert row["copysets"] == len(distinct)
        assert row["method"] == "exact"
        assert row["loss_probability"] == pytest.approx(lost / len(failures), abs=1e-15)
        if row["failure_unit"] == "broker":
            mean = sum(sum(bool(s) and s <= down for s in sets) for down in failures) / len(failures)
            assert row["lost_partitions_mean"] == pytest.approx(mean)


def test_broker_load_and_leader_hotspots(
    finished: FinishedRun, partitions: dict[tuple[str, str], Rows], live_brokers: dict[str, dict[int, str]]
) -> None:
    for row in finished.rows("gold.current_loads"):
        placed = partitions.get((row["cluster_id"], row["scheme"]), [])
        broker = row["broker_id"]
        holds = [p for p in placed if broker in p["replicas"]]
        leads = [p for p in placed if p["leader"] == broker]
        first = sum(p["replicas"][0] == broker for p in placed)
        assert (row["replicas"], row["leaders"], row["preferred_leaders"]) == (len(holds), len(leads), first)
        assert row["rack"] == live_brokers[row["cluster_id"]][broker]
        if row["size_bytes"] is not None:
            assert row["size_bytes"] == sum(p["size_bytes"] or 0 for p in holds)
        if row["bytes_out_per_s"] is not None:
            assert row["bytes_out_per_s"] == pytest.approx(sum(p["bytes_out_per_s"] for p in leads))
            assert row["bytes_in_per_s"] == pytest.approx(sum(p["bytes_in_per_s"] for p in holds))
    seen = set()
    for row in finished.rows("gold.leader_hotspots"):
        placed = partitions[row["cluster_id"], row["scheme"]]
        chosen = [p for p in placed if row["topic"] in (None, p["topic"])]
        led = Counter(p["leader"] for p in chosen if p["leader"] != -1)
        n = len(live_brokers[row["cluster_id"]])
        assert (row["partitions"], row["leaders"], row["brokers"]) == (len(chosen), sum(led.values()), n)
        assert row["leaders_max"] == max(led.values(), default=0)
        preferred = sum(p["leader"] == p["replicas"][0] for p in chosen)
        assert row["preferred_leader_percent"] == pytest.approx(100 * preferred / len(chosen))
        lagging = sum(not set(p["replicas"]) <= set(p["isr"]) for p in chosen)
        assert row["under_replicated_percent"] == pytest.approx(100 * lagging / len(chosen))
        seen.add((row["cluster_id"], row["scheme"], row["topic"]))
    topics = {(c, s, p["topic"]) for (c, s), placed in partitions.items() for p in placed}
    assert seen == topics | {(c, s, None) for c, s in partitions}


def test_random_failures_and_headroom(finished: FinishedRun) -> None:
    summary, loads = finished.rows("gold.failure_summary"), finished.rows("gold.loads_after_failure")
    for row in finished.rows("gold.random_failures"):
        if row["metric"] == "any_newly_offline":
            continue
        of = [
            r[row["metric"]]
            for r in summary
            if (r["cluster_id"], r["scheme"], r["scenario_kind"]) == (row["cluster_id"], row["scheme"], "random")
            and len(r["failed_brokers"]) == row["failures"]
            and r[row["metric"]] is not None
        ]
        assert len(of) == row["draws"]
        assert row["value_mean"] == pytest.approx(sum(of) / len(of))
        assert row["value_max"] == max(of)
    means = {}
    for row in finished.rows("gold.current_loads"):
        means.setdefault((row["cluster_id"], row["scheme"]), []).append(row["leaders"])
    for row in finished.rows("gold.headroom"):
        if row["quantity"] == "leaders":
            key = (row["cluster_id"], row["scheme"], row["scenario_kind"])
            after = [r["leaders_after"] for r in loads if (r["cluster_id"], r["scheme"], r["scenario_kind"]) == key]
            mean = sum(means[key[:2]]) / len(means[key[:2]])
            assert row["required_headroom_ratio"] == pytest.approx(max(after) / mean - 1)
            assert row["capacity_source"] == "uniform"


def test_aggregates_of_other_settings_are_rejected(finished: FinishedRun) -> None:
    def go(*options: str) -> None:
        settings = load_settings([*finished.options, *options], environ={})
        work = Run(finished.store, make_context(finished.sources, settings, NOW), Progress())
        work.go(steps_between("gold.headroom", "gold.headroom"), clock=lambda: NOW)

    go()
    with pytest.raises(
        StoreError, match=r"with other settings: run.seed. Use the same settings, or start there: --from"
    ):
        go("run.seed=77")


def test_unknown_brokers_are_reported_as_soon_as_brokers_are_known(finished: FinishedRun) -> None:
    custom = 'failures.custom=[{"brokers": [77], "cluster": "c0"}]'
    settings = load_settings([*finished.options, custom], environ={})
    for first in ("bronze", "gold.headroom"):
        work = Run(finished.store, make_context(finished.sources, settings, NOW), Progress())
        with pytest.raises(
            SettingsError, match=r"custom failure of broker 77 .*: cluster c0 does not have this broker\. Brokers: c0:"
        ):
            work.go(steps_between(first, "gold.headroom"), clock=lambda: NOW)
        assert "quality" not in work.seconds
