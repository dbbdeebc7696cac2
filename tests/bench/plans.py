"""Plans on made-up clusters: what they reach, beside the least that any plan moves, and what they cost in time.

python -m tests.bench.plans [--large]
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import replace
from time import process_time

import numpy as np

from tests.unit.planning.models import model
from udfs.planning.cluster_model import Draft, Problem
from udfs.planning.plan_maker import make_plan
from udfs.planning.plan_metrics import balance
from udfs.planning.plan_request import Wishes
from udfs.planning.plan_summary import leaving

_COLUMNS = ("replicas", "leaders", "size_bytes", "bytes_in_per_s", "bytes_out_per_s")
_HEADS = ("repl.", "leaders", "disk", "in", "out", "surv.", "by out")


def cases(large: bool) -> list[tuple[str, Problem, Wishes]]:
    """(name, problem, wish) of each line."""
    sixty = model(60, 6, 2000, 1)
    drained = replace(model(60, 6, 2000, 2), draining=np.arange(60) < 6)
    found = [
        ("60 brokers", sixty, Wishes("leaders")),
        ("", sixty, Wishes("leaders", by_bytes=True)),
        ("", sixty, Wishes("failover")),
        ("", sixty, Wishes("failover", by_bytes=True)),
        ("", sixty, Wishes("balance")),
        ("", sixty, Wishes("balance", objective="min-bytes")),
        ("60 -> 66", model(66, 6, 2000, 3, empty=6), Wishes("expand")),
        ("60 -> 54", drained, Wishes("drain")),
    ]
    if large:
        many = model(300, 6, 20000, 4)
        found += [("300 brokers", many, Wishes("leaders")), ("", many, Wishes("failover"))]
        found += [("", many, Wishes("balance")), ("", many, Wishes("balance", objective="min-bytes"))]
    return found


def line(problem: Problem, wishes: Wishes, draft: Draft, seconds: float) -> str:
    """What a plan reaches, as max/mean, and what it takes."""
    after = balance(leaving(problem, wishes).placed(draft.offsets, draft.replicas))
    told = draft.certificate
    cells = [f"{after[name]['max_over_mean']:.3f}" if after.get(name) else "-" for name in _COLUMNS]
    cells += [f"{after[name]:.3f}" for name in ("worst_survivor_leaders", "worst_survivor_bytes_out")]
    moves = f"{told.get('moves', 0)} / {told.get('moves_lower_bound', 0)}"
    size = f"{told.get('bytes', 0) / 1e9:.0f} / {told.get('bytes_lower_bound', 0) / 1e9:.0f}"
    goal = wishes.goal + (" by bytes" if wishes.by_bytes else "") + ("" if wishes.objective == "all" else " min-bytes")
    return f"{goal:<19}" + "".join(f"{cell:>8}" for cell in cells) + f"{moves:>15}{size:>18}{seconds:>8.1f}"


def main() -> None:
    """Prints a line a plan; each is made twice, the second time with the kernels compiled, on one core."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="300 brokers and 150,000 partitions too")
    print(
        " " * 19 + "".join(f"{name:>8}" for name in ("repl.", "leaders", "disk", "in", "out", "surv.", "by out")),
        end="",
    )
    print(f"{'moves / least':>15}{'GB / least':>18}{'cpu s':>8}")
    for name, problem, wishes in cases(parser.parse_args().large):
        if name:
            print(f"{name}, {problem.partitions} partitions, {len(problem.replicas)} replicas")
        make_plan(model(12, 3, 60, 1, empty=1), replace(wishes, brokers=(3,) if wishes.goal == "drain" else ()))
        begun = process_time()
        draft = make_plan(problem, wishes)
        print(line(problem, wishes, draft, process_time() - begun), flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
