"""`compare`: kafka, kraft and naive side by side over brokers, racks, partitions and replication factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from pipelines.errors import SettingsError
from udfs.failures.scheme_study import Figures, Mix, study
from udfs.placement.schemes import KAFKA, KAFKA_RACK_UNAWARE, KRAFT, NAIVE

_SCHEMES = (NAIVE, KAFKA_RACK_UNAWARE, KAFKA, KRAFT)
_DETAILED = 6  # mixes: with no more, each scheme has a line of its own
_MOST = 100_000_000  # partitions placed in all: minutes


@dataclass(frozen=True)
class Grid:
    """What to compare over: every combination. led: partitions that a broker leads on average."""

    brokers: tuple[int, ...]
    racks: tuple[int, ...]
    partitions: tuple[int, ...]
    replication_factors: tuple[int, ...]
    led: int
    first_seed: int
    seeds: int

    def mixes(self) -> list[Mix]:
        """The combinations that can be placed."""
        out = []
        for n, racks, size, factor in product(self.brokers, self.racks, self.partitions, self.replication_factors):
            if racks <= n and factor <= n:
                out.append(Mix(n, racks, size, factor, max(1, math.ceil(n * self.led / size))))
        return out


def numbers(text: str, option: str, least: int, most: int) -> tuple[int, ...]:
    """The numbers of an option, with commas between."""
    parts = [part.strip() for part in text.split(",")]
    if not all(p.isascii() and p.isdigit() and len(p) < 10 and least <= int(p) <= most for p in parts):
        raise SettingsError(f"{option} {text}: write numbers from {least} to {most} with commas between, as in 6,12")
    return tuple(dict.fromkeys(map(int, parts)))


def _spread(values: np.ndarray) -> dict[str, float | None]:
    known = values[~np.isnan(values)]
    if not len(known):
        return {"p05": None, "p50": None, "p95": None}
    return dict(zip(("p05", "p50", "p95"), np.percentile(known, [5, 50, 95]).tolist(), strict=True))


def compare(grid: Grid) -> dict[str, Any]:
    """The object that `compare --json` writes."""
    mixes = grid.mixes()
    placed = sum(mix.topics * mix.partitions for mix in mixes) * grid.seeds
    if not mixes:
        raise SettingsError("no combination can be placed: there are more racks, or replicas, than brokers")
    if placed > _MOST:
        problem = f"{placed:,} partitions would be placed, at most {_MOST:,} are"
        raise SettingsError(f"{problem}. Take fewer combinations, --seeds or --led")
    rows = []
    for mix in mixes:
        # Without racks, Kafka's scheme is the one that knows none.
        schemes = [name for name in _SCHEMES if mix.racks or name != KAFKA_RACK_UNAWARE]
        figures = {scheme: study(mix, scheme, grid.first_seed, grid.seeds) for scheme in schemes}
        rows.append(
            {
                "brokers": mix.brokers,
                "racks": mix.racks,
                "partitions_per_topic": mix.partitions,
                "replication_factor": mix.replication_factor,
                "topics": mix.topics,
                "schemes": {name: _figures(found) for name, found in figures.items()},
            }
        )
    return {"first_seed": grid.first_seed, "seeds": grid.seeds, "mixes": rows, "verdict": _verdict(rows)}


def _figures(found: Figures) -> dict[str, dict[str, float | None]]:
    return {
        "worst_survivor_max_over_mean": _spread(found.worst_survivor),
        "fewest_takeover_brokers": _spread(found.takeover_brokers),
        "copysets": _spread(found.copysets),
        "loss_probability": _spread(found.loss),
    }


def _pairs(rows: Sequence[dict[str, Any]], metric: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    both = [(row["schemes"][KAFKA][metric], row["schemes"][KRAFT][metric]) for row in rows]
    return [(kafka, kraft) for kafka, kraft in both if kafka["p50"] and kraft["p50"]]


def _verdict(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """In how many mixes kraft is worse or better than kafka, by the median and beyond the middle 90 % of seeds."""
    out = {}
    for metric in ("worst_survivor_max_over_mean", "copysets"):
        found = _pairs(rows, metric)
        ratios = sorted(kraft["p50"] / kafka["p50"] for kafka, kraft in found)
        out[metric] = {
            "mixes": len(found),
            "kraft_higher": sum(kraft["p50"] > kafka["p50"] for kafka, kraft in found),
            "kraft_higher_beyond_seeds": sum(kraft["p05"] > kafka["p95"] for kafka, kraft in found),
            "kraft_lower": sum(kraft["p50"] < kafka["p50"] for kafka, kraft in found),
            "kraft_lower_beyond_seeds": sum(kraft["p95"] < kafka["p05"] for kafka, kraft in found),
            "kraft_over_kafka_median": float(np.median(ratios)) if ratios else None,
            "kraft_over_kafka_min": ratios[0] if ratios else None,
            "kraft_over_kafka_max": ratios[-1] if ratios else None,
        }
    return out


_HEADS = ("brokers", "racks", "partitions", "RF", "naive", "kafka", "(5-95 %)", "kraft", "(5-95 %)", "kraft/kafka")
_SETS = ("kafka", "kraft", "kraft/kafka", "P(loss) kafka", "kraft")
_WIDTHS = (8, 6, 11, 4, 8, 8, 14, 8, 14, 12, 3, 9, 9, 12, 14, 9)


def _cell(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _ratio(a: float | None, b: float | None) -> str:
    return f"{a / b:.2f}" if a is not None and b else "-"


def _detail(row: dict[str, Any]) -> list[str]:
    """Spread after a failure (wide) against the chance of loss (narrow), scheme by scheme."""
    where = f"{row['brokers']} brokers, {row['racks']} racks, {row['partitions_per_topic']} partitions a topic"
    out = [f"{where}, RF {row['replication_factor']}: medians"]
    heads = ("worst survivor", "fewest takeover_brokers", "copysets", "P(loss)")
    out.append("  " + " " * 20 + "".join(head.rjust(18) for head in heads))
    for name, found in row["schemes"].items():
        cells = [
            _cell(found[metric]["p50"], digits)
            for metric, digits in (
                ("worst_survivor_max_over_mean", 3),
                ("fewest_takeover_brokers", 0),
                ("copysets", 0),
                ("loss_probability", 6),
            )
        ]
        out.append("  " + name.ljust(20) + "".join(cell.rjust(18) for cell in cells))
    return out


def lines(answer: dict[str, Any]) -> list[str]:
    """The answer as a person reads it (answer: of `compare`)."""
    out = [
        f"The worst survivor of the worst failure of one broker, leaders max/mean: median of {answer['seeds']} seeds",
        "(and where 90 % of them lie); then distinct replica sets, and the chance that RF failures lose a partition",
    ]
    out.append("".join(text.rjust(width) for text, width in zip((*_HEADS, "|", *_SETS), _WIDTHS, strict=True)))
    for row in answer["mixes"]:
        worst = {name: found["worst_survivor_max_over_mean"] for name, found in row["schemes"].items()}
        sets = {name: found["copysets"]["p50"] for name, found in row["schemes"].items()}
        loss = {name: found["loss_probability"]["p50"] for name, found in row["schemes"].items()}
        cells = [
            *(str(row[name]) for name in ("brokers", "racks", "partitions_per_topic", "replication_factor")),
            _cell(worst[NAIVE]["p50"], 3),
        ]
        for name in (KAFKA, KRAFT):
            cells += [_cell(worst[name]["p50"], 3), f"{_cell(worst[name]['p05'], 3)}-{_cell(worst[name]['p95'], 3)}"]
        cells += [_ratio(worst[KRAFT]["p50"], worst[KAFKA]["p50"]), "|"]
        cells += [_cell(sets[KAFKA], 0), _cell(sets[KRAFT], 0), _ratio(sets[KRAFT], sets[KAFKA])]
        cells += [_cell(loss[name], 4) for name in (KAFKA, KRAFT)]
        out.append("".join(text.rjust(width) for text, width in zip(cells, _WIDTHS, strict=True)))
    if len(answer["mixes"]) <= _DETAILED:
        for row in answer["mixes"]:
            out += _detail(row)
    for metric, words in (("worst_survivor_max_over_mean", "worst survivor"), ("copysets", "copysets")):
        found = answer["verdict"][metric]
        if not found["mixes"]:
            continue
        higher = f"higher in {found['kraft_higher']} ({found['kraft_higher_beyond_seeds']} beyond 90 % of the seeds)"
        lower = f"lower in {found['kraft_lower']} ({found['kraft_lower_beyond_seeds']})"
        ratio = f"{found['kraft_over_kafka_median']:.2f} times kafka's in the median"
        span = f"{found['kraft_over_kafka_min']:.2f} to {found['kraft_over_kafka_max']:.2f}"
        out.append(f"{words}: of {found['mixes']} mixes kraft is {higher}, {lower}; {ratio}, {span}")
    return out
