"""Compare placement planners on the same clusters with one judge: `make bench-planners`.

    python -m tests.bench.planners [--seeds 9201,9202] [--large] [--rebalancer PYTHON] [--out FOLDER]

Planners: this project, Rebalancer (in the Python of --rebalancer; left out without), what Kafka's
`kafka-reassign-partitions --generate` proposes, and recorded results of Cruise Control for some seeds.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.planners.front_chart import draw_front
from tests.bench.planners.models import Model, Shape, make_model
from tests.unit.planning.judge import judge

HERE = Path(__file__).parent
# What a plan should reach: column, and the most that it may be.
TARGETS = {"replicas": 1.01, "leaders": 1.01, "disk": 1.009, "in": 1.009, "out": 1.009, "surv": 1.05, "surv_out": 1.15}
_LOOSE = {"disk": 1.03, "in": 1.03, "out": 1.03}  # of plans that fill or empty brokers with few moves
_ROUNDING = 0.0006
_COSTS = ("gb", "moves")
COLUMNS = (*_COSTS, *TARGETS, "out_cv", "racks", "met", "cpu_s", "mib")


@dataclass(frozen=True)
class Case:
    """A cluster and what is to be done with it."""

    name: str
    goal: str
    shape: Shape
    seeds: tuple[int, ...]


def list_cases(seeds: Sequence[int], large: bool) -> Iterator[Case]:
    """List the cases: a small set, and a large cluster."""
    first = (seeds[0],)
    yield Case("60 brokers", "balance", Shape(), tuple(seeds))
    yield Case("60 brokers in uneven racks", "balance", Shape(uneven=True), first)
    yield Case("60 -> 66 brokers", "expand", Shape(brokers=66, new=6), first)
    yield Case("60 brokers, 3 to empty", "drain", Shape(removed=(7, 23, 41)), first)
    if large:
        yield Case("300 brokers", "balance", Shape(brokers=300, topics=20_000), first)


def list_planners(case: Case, rebalancer: str | None, seconds: float) -> Iterator[tuple[str, list[str]]]:
    """List the planners of a case: (name, command without model and plan)."""
    ours = [sys.executable, "-m", "tests.bench.planners.our_plan", "--goal", case.goal]
    yield "this project", ours
    yield "this project, counts only", [*ours, "--min-bytes"]
    if rebalancer:
        yield "Rebalancer", [rebalancer, str(HERE / "rebalancer_plan.py"), "--seconds", str(seconds)]
    for release in ("3.9", "4.1"):
        yield (
            f"--generate of {release}",
            [sys.executable, "-m", "tests.bench.planners.kafka_generate", "--release", release],
        )


def measure(model: Model, plan: Mapping[str, Any], targets: Mapping[str, float]) -> dict[str, float]:
    """Judge a plan: what it copies, the ratios that it reaches, and how many targets it meets."""
    result = judge(model, dict(plan))
    assert not result["bad"]
    loads = {"replicas": "replicas", "leaders": "leaders", "disk": "size_bytes", "in": "bytes_in_per_s"}
    row = {name: result[load]["max_over_mean"] for name, load in loads.items()}
    out = result["bytes_out_per_s"]
    row |= {"out": out["max_over_mean"], "surv": result["worst_survivor_ratio"]}
    row |= {
        "surv_out": result["worst_survivor_bytes_out_ratio"],
        "out_cv": out["cv"],
        "racks": result["rack_violations"],
    }
    row |= {"gb": round(result["megabytes"] / 1e3), "moves": result["moves"]}
    return row | {"met": sum(row[name] <= target + _ROUNDING for name, target in targets.items())}


def read_recorded(seed: int, targets: Mapping[str, float]) -> Iterator[tuple[str, dict[str, float]]]:
    """Read what Cruise Control reached for a seed: (name, row)."""
    names = {"replicas_moved": "moves", "worst_survivor_leaders": "surv", "worst_survivor_out": "surv_out"}
    names |= {"rack_violations": "racks", "peak_mib": "mib"}
    with (HERE / "cruise_control.csv").open(newline="") as lines:
        for one in csv.DictReader(lines):
            if int(one["seed"]) == seed:
                row = {
                    names.get(key, key): float(value) for key, value in one.items() if key not in ("seed", "planner")
                }
                met = sum(row[name] <= target + _ROUNDING for name, target in targets.items())
                yield f"Cruise Control ({one['planner'].removeprefix('cc-')})", row | {"met": met}


def find_dominating(rows: Mapping[str, dict[str, float]], name: str) -> list[str]:
    """Name the planners that are nowhere worse than this one and better somewhere, in copies and in ratios."""
    compared = (*_COSTS, *TARGETS, "out_cv")

    def is_better(other: dict[str, float], one: dict[str, float]) -> bool:
        pairs = [(other[key], one[key]) for key in compared]
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

    return [other for other, row in rows.items() if other != name and is_better(row, rows[name])]


def run_planner(command: Sequence[str], model_file: Path, plan_file: Path) -> dict[str, Any]:
    """Run a planner in a process of its own: what it says of itself."""
    arguments = [*command, str(model_file), str(plan_file)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def print_case(case: Case, seed: int, rebalancer: str | None, seconds: float, out: Path) -> dict[str, dict[str, float]]:
    """Run and judge all planners on a model, and print a table. Return the rows."""
    targets = TARGETS | (_LOOSE if case.goal != "balance" else {})
    model, rows, bound, notes = make_model(case.shape, seed), dict[str, dict[str, float]](), None, list[str]()
    rows["as it is"] = measure(model, {}, targets) if not model["removed"] else {}
    with tempfile.TemporaryDirectory() as folder:
        model_file, plan_file = Path(folder, "model.json"), Path(folder, "plan.json")
        model_file.write_text(json.dumps(model))
        for name, command in list_planners(case, rebalancer, seconds):
            answer = run_planner(command, model_file, plan_file)
            rows[name] = measure(model, json.loads(plan_file.read_text()), targets)
            rows[name] |= {"cpu_s": answer["cpu_s"], "mib": answer["peak_mib"]}
            if name == "this project":
                bound, notes = answer["bound_gb"], [f"check: {answer['check']}", *answer["notes"]]
                (out / f"plan-{case.goal}-{seed}.json").write_text(plan_file.read_text())
    if case.shape == Shape():
        rows |= dict(read_recorded(seed, targets))
    rows = {name: row for name, row in rows.items() if row}
    least = "" if bound is None else f"; no plan that reaches as much as this project's copies less than {bound:,} GB"
    print(f"\n{case.name}, goal {case.goal}, seed {seed}{least}\n")
    print(f"| planner | {' | '.join(COLUMNS)} | dominated by |\n|---|{'---:|' * len(COLUMNS)}---|")
    for name, row in rows.items():
        cells = [_format(key, row.get(key)) for key in COLUMNS]
        print(f"| {name} | {' | '.join(cells)} | {', '.join(find_dominating(rows, name)) or '-'} |", flush=True)
    for note in notes:
        print(f"\nThis project: {note[:300]}")
    return rows


def _format(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if name in (*_COSTS, "racks", "met", "mib") else f"{value:.{1 if name == 'cpu_s' else 3}f}"


def main() -> None:
    """Print a table per model, write the rows as CSV, and draw bytes against targets met and worst survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="9201,9202,9203", help="of the clusters of 60 brokers")
    parser.add_argument("--large", action="store_true", help="300 brokers and 150,000 partitions too")
    parser.add_argument("--rebalancer", help="a Python that has the package rebalancer")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each of the two searches of Rebalancer")
    parser.add_argument("--out", type=Path, default=Path("out-planners"), help="folder of rows, plans and picture")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    lines, points = [], list[tuple[str, float, float]]()
    for case in list_cases([int(seed) for seed in arguments.seeds.split(",")], arguments.large):
        for seed in case.seeds:
            rows = print_case(case, seed, arguments.rebalancer, arguments.seconds, arguments.out)
            lines += [{"case": case.name, "seed": seed, "planner": name, **row} for name, row in rows.items()]
            if case.shape == Shape():
                points += [(name, row["gb"] / 1e3, row["surv_out"]) for name, row in rows.items()]
    with (arguments.out / "planners.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ("case", "seed", "planner", *COLUMNS), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)
    draw_front(points, arguments.out / "planners.svg")
    print(f"\nrows, plans and picture: {arguments.out}")


if __name__ == "__main__":
    main()
