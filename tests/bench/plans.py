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
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.plan_maker import make_plan
from udfs.planning.plan_metrics import balance
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_summary import leaving

_COLUMNS = ("replicas", "leaders", "size_bytes", "bytes_in_per_s", "bytes_out_per_s")
_HEADS = ("repl.", "leaders", "disk", "in", "out", "surv.", "by out")


def cases(large: bool) -> list[tuple[str, ClusterModel, PlanRequest]]:
    """(name, model, request) of each line."""
    sixty = model(60, 6, 2000, 1)
    drained = replace(model(60, 6, 2000, 2), draining=np.arange(60) < 6)
    found = [
        ("60 brokers", sixty, PlanRequest("leaders")),
        ("", sixty, PlanRequest("leaders", by_bytes=True)),
        ("", sixty, PlanRequest("failover")),
        ("", sixty, PlanRequest("failover", by_bytes=True)),
        ("", sixty, PlanRequest("balance")),
        ("", sixty, PlanRequest("balance", objective="min-bytes")),
        ("60 -> 66", model(66, 6, 2000, 3, empty=6), PlanRequest("expand")),
        ("60 -> 54", drained, PlanRequest("drain")),
    ]
    if large:
        many = model(300, 6, 20000, 4)
        found += [("300 brokers", many, PlanRequest("leaders")), ("", many, PlanRequest("failover"))]
        found += [("", many, PlanRequest("balance")), ("", many, PlanRequest("balance", objective="min-bytes"))]
    return found


def line(cluster_model: ClusterModel, request: PlanRequest, proposal: ProposedAssignment, seconds: float) -> str:
    """What a plan reaches, as max/mean, and what it takes."""
    after = balance(leaving(cluster_model, request).placed(proposal.offsets, proposal.replicas))
    told = proposal.certificate
    cells = [f"{after[name]['max_over_mean']:.3f}" if after.get(name) else "-" for name in _COLUMNS]
    cells += [f"{after[name]:.3f}" for name in ("worst_survivor_leaders", "worst_survivor_bytes_out")]
    moves = f"{told.get('moves', 0)} / {told.get('moves_lower_bound', 0)}"
    size = f"{told.get('bytes', 0) / 1e9:.0f} / {told.get('bytes_lower_bound', 0) / 1e9:.0f}"
    goal = (
        request.goal + (" by bytes" if request.by_bytes else "") + ("" if request.objective == "all" else " min-bytes")
    )
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
    for name, cluster_model, request in cases(parser.parse_args().large):
        if name:
            print(f"{name}, {model.partitions} partitions, {len(model.replicas)} replicas")
        make_plan(model(12, 3, 60, 1, empty=1), replace(request, brokers=(3,) if request.goal == "drain" else ()))
        begun = process_time()
        proposal = make_plan(cluster_model, request)
        print(line(cluster_model, request, proposal, process_time() - begun), flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
