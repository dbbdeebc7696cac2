"""`hotspots`: how hot the hottest broker is now, and how hot chance alone would make it. Starts no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.errors import SettingsError
from pipelines.ingest.merge.inferred_state import live_brokers
from pipelines.ingest.snapshot import Snapshot
from udfs.arrow.columns import numbers, whole
from udfs.hotspots.hotspot_distribution import HotspotDistribution, Mix, Trial, mix_of, observed_max
from udfs.hotspots.kernels.balls_in_bins import Fullest
from udfs.placement.schemes import SCHEMES, computed
from udfs.placement.topic_batches import LiveBrokers


@dataclass(frozen=True)
class Chances:
    """What to try. schemes: computed ones.   seeds, work: see Trial.of.   above: ratios of max/mean, ascending."""

    schemes: tuple[str, ...]
    run_seed: int
    seeds: int
    work: int
    above: tuple[float, ...]


def known_schemes(text: str) -> tuple[str, ...]:
    """The schemes of `--scheme`, names with commas."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in SCHEMES or not computed(name):
            there = ", ".join(name for name in SCHEMES if computed(name))
            raise SettingsError(f"--scheme {text}: {name!r} places nothing by chance or rule; there are {there}")
    return names


def hotspots(snapshot: Snapshot, chances: Chances) -> dict[str, Any]:
    """The object that `hotspots --json` writes."""
    ids = live_brokers(snapshot.brokers)
    at = pc.index_in(pa.array(ids), value_set=whole(snapshot.brokers["broker_id"]))
    brokers = LiveBrokers(ids.tolist(), whole(snapshot.brokers["rack"]).take(at).to_pylist())
    topics = snapshot.topics
    mix = mix_of(snapshot.cluster_id, topics)
    now, singles_now = _leaders_now(snapshot, ids)
    most, ratio = observed_max(now.tolist())
    return {
        "cluster": snapshot.cluster_id,
        "live_brokers": len(ids),
        "topics": topics.num_rows,
        "run_seed": chances.run_seed,
        "now": {
            "hottest_broker": None if most is None else int(ids[now.argmax()]),
            "leaders": int(now.sum()),
            "leaders_max": most,
            "max_over_mean": _rounded(ratio),
            "single_partition_leaders_max": int(singles_now.max(initial=0)) if most is not None else None,
        },
        "schemes": {name: _by_scheme(name, mix, brokers, chances, ratio) for name in chances.schemes},
    }


def _leaders_now(snapshot: Snapshot, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(leaders of each live broker, of these those of single-partition topics)."""
    partitions = snapshot.partitions.filter(pc.is_valid(snapshot.partitions["replicas"]))
    leader = numbers(partitions["leader"], -1)
    of_one = whole(snapshot.topics["topic"]).filter(whole(pc.equal(snapshot.topics["partitions"], 1)))
    single = np.asarray(pc.is_in(whole(partitions["topic"]), value_set=of_one))
    live = np.isin(leader, ids)
    return tuple(np.bincount(np.searchsorted(ids, leader[m]), minlength=len(ids)) for m in (live, live & single))  # type: ignore[return-value]


def _by_scheme(
    scheme: str, mix: Mix, brokers: LiveBrokers, chances: Chances, ratio_now: float | None
) -> dict[str, Any]:
    trial = Trial.of(scheme, mix, brokers, chances.seeds, chances.work)
    out: dict[str, Any] = {
        "seeds": trial.seeds,
        "unplaceable_topics": trial.rejected,
        "partitions": trial.partitions,
        "single_partition_topics": trial.singles,
    }
    if not trial.seeds:
        return out
    hottest = trial.hottest(chances.run_seed)
    n = len(brokers.ids)
    leaders = HotspotDistribution.of(hottest.leaders, trial.partitions, n)
    replicas = HotspotDistribution.of(hottest.replicas, trial.replicas, n)
    assert leaders is not None
    assert replicas is not None
    rounds, blind = trial.expected_blind()
    return out | {
        "leaders": _percentiles(leaders),
        "replicas": _percentiles(replicas),
        "distribution": [{"above": x, "probability": leaders.above(x)} for x in chances.above],
        "now_percent": None if ratio_now is None else round(leaders.percent_up_to(ratio_now), 2),
        "balls_into_bins": {
            "single_partition_topics": _expected(trial.expected_singles(), 0, trial.singles / n),
            "blind_partitions": _expected(blind, rounds, leaders.mean),
        },
    }


def _percentiles(distribution: HotspotDistribution) -> dict[str, Any]:
    counts = {f"p{percent}": distribution.percentile(percent) for percent in (5, 50, 95, 99)} | {
        "highest": distribution.percentile(100)
    }
    return {
        "mean": _rounded(distribution.mean),
        "max": counts,
        "max_over_mean": {name: _rounded(count / distribution.mean) for name, count in counts.items()},
    }


def _expected(found: Fullest, rounds: int, mean: float) -> dict[str, Any]:
    most = rounds + found.mean
    return {
        "max": _rounded(most),
        "max_p95": rounds + found.percentile(95),
        "max_over_mean": _rounded(most / mean) if mean else None,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


_HEAD = ("scheme", "seeds", "median", "95 of 100", "worst", "median", "95 of 100", "chance of", "at most as hot")
_UNDER = ("", "", "leaders", "leaders", "leaders", "max/mean", "max/mean", "> {above:g}", "as now")
_WIDTHS = (18, 7, 8, 11, 9, 10, 11, 11, 16)


def lines(answer: dict[str, Any], above: float) -> list[str]:
    """The answer as a person reads it (answer: of `hotspots`; above: the max/mean whose chance is shown)."""
    n, now, schemes = answer["live_brokers"], answer["now"], answer["schemes"]
    out = [f"cluster {answer['cluster']}, {answer['topics']} topics: {n} live brokers"]
    if now["leaders_max"] is None:
        out.append("  now: no live broker leads anything")
    else:
        hottest = f"broker {now['hottest_broker']} leads {now['leaders_max']} of {now['leaders']} partitions"
        out.append(f"  now: {hottest}, {now['max_over_mean']:.3f} times the mean")
    tried = {name: found for name, found in schemes.items() if found["seeds"]}
    if tried:
        first = answer["run_seed"]
        last = first + max(found["seeds"] for found in tried.values()) - 1
        out.append(f"  the hottest broker, were all topics placed anew with seed {first} to {last}:")
        out += [_row(_HEAD), _row([text.format(above=above) for text in _UNDER])]
        out += [_row(_cells(name, found, above)) for name, found in tried.items()]
        out += _balls(next(iter(tried.values())), n, now)
    for name, found in schemes.items():
        if found["unplaceable_topics"]:
            out.append(f"  note: {name} cannot place {found['unplaceable_topics']} topics on these brokers: left out")
    return out


def _row(cells: Sequence[str]) -> str:
    first, *others = cells
    text = first.ljust(_WIDTHS[0]) + "".join(c.rjust(w) for c, w in zip(others, _WIDTHS[1:], strict=True))
    return f"  {text}".rstrip()


def _cells(name: str, found: dict[str, Any], above: float) -> list[str]:
    leaders = found["leaders"]
    chance = next(entry["probability"] for entry in found["distribution"] if entry["above"] == above)
    share = found["now_percent"]
    return [
        *(name, str(found["seeds"])),
        *(str(leaders["max"][k]) for k in ("p50", "p95", "highest")),
        *(f"{leaders['max_over_mean'][k]:.3f}" for k in ("p50", "p95")),
        *(f"{100 * chance:.1f} %", "-" if share is None else f"{share:.1f} %"),
    ]


def _balls(found: dict[str, Any], brokers: int, now: dict[str, Any]) -> list[str]:
    balls, count = found["balls_into_bins"], found["single_partition_topics"]
    blind, single = balls["blind_partitions"], balls["single_partition_topics"]
    out = ["  balls into bins, expected on the hottest broker:"]
    if count:
        most = f"{single['max']:.1f}, {single['max_over_mean']:.3f} times their mean (95 %: {single['max_p95']})"
        seen = now["single_partition_leaders_max"]
        beside = "" if seen is None else f"; now {seen}"
        out.append(f"    {count} single-partition topics on {brokers} brokers: {most}{beside}")
    most = f"{blind['max']:.1f}, {blind['max_over_mean']:.3f} times the mean (95 %: {blind['max_p95']})"
    out.append(f"    all partitions, those beyond whole rounds blind to their own topic too: {most}")
    return out
