"""Plans on synthetic clusters: what they reach, the lower bounds of what they copy, and the time they take.

python -m tests.bench.plans [--large] [--seeds N]
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import replace
from time import process_time

import numpy as np

from tests.unit.planning.models import make_model
from udfs.planning.certificates import BalanceCertificate
from udfs.planning.cluster_model import ClusterModel, ProposedAssignment
from udfs.planning.elections import lead_lists
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_metrics import mark_drained_brokers, measure_balance
from udfs.planning.plan_request import PlanRequest

_LOADS = ("replicas", "leaders", "size_bytes", "bytes_in_per_s", "bytes_out_per_s")
_HEADS = ("repl.", "leaders", "disk", "in", "out", "surv.", "by out")


def cases(large: bool) -> list[tuple[str, ClusterModel, PlanRequest]]:
    """List (name, model, request) of each line."""
    sixty = make_model(60, 6, 2000, 1)
    drained = replace(make_model(60, 6, 2000, 2), draining=np.arange(60) < 6)
    found = [
        ("60 brokers", sixty, PlanRequest("leaders")),
        ("", sixty, PlanRequest("leaders", by_bytes=True)),
        ("", sixty, PlanRequest("failover")),
        ("", sixty, PlanRequest("failover", by_bytes=True)),
        ("", sixty, PlanRequest("balance")),
        ("", sixty, PlanRequest("balance", objective="min-bytes")),
        ("60 -> 66", make_model(66, 6, 2000, 3, empty=6), PlanRequest("expand")),
        ("60 -> 54", drained, PlanRequest("drain")),
    ]
    if large:
        many = make_model(300, 6, 20000, 4)
        found += [("300 brokers", many, PlanRequest("leaders")), ("", many, PlanRequest("failover"))]
        found += [("", many, PlanRequest("balance")), ("", many, PlanRequest("balance", objective="min-bytes"))]
    return found


def print_seeds(seeds: int) -> None:
    """Print what plans for the goal balance copy beyond the lower bound, one line per seed of 60 brokers."""
    make_plan(make_model(12, 3, 60, 1, empty=1), PlanRequest("balance"))
    for seed in range(1, seeds + 1):
        start = process_time()
        proposal = make_plan(make_model(60, 6, 2000, seed), PlanRequest("balance"))
        certificate = proposal.certificate
        assert isinstance(certificate, BalanceCertificate)
        size, least = certificate.bytes / 1e9, certificate.bytes_lower_bound / 1e9
        beyond = f"+{size / least - 1:.1%}" if least else "-"
        print(
            f"seed {seed:<3} {size:>9.0f} / {least:.0f} GB {beyond:>8} {process_time() - start:>6.1f} cpu s", flush=True
        )


def line(model: ClusterModel, request: PlanRequest, proposal: ProposedAssignment, seconds: float) -> str:
    """Format what a plan reaches, as max/mean, and what it takes."""
    planned = mark_drained_brokers(model, request).with_lists(proposal.offsets, proposal.replicas)
    leader = planned.preferred_leaders
    after = measure_balance(planned, lead_lists(planned, leader), leader)
    ratios = [getattr(after, name).max_over_mean for name in _LOADS]
    ratios += [after.worst_survivor_ratio, after.worst_survivor_bytes_out_ratio]
    cells = ["-" if ratio is None else f"{ratio:.3f}" for ratio in ratios]

    def proven(name: str) -> float:
        return getattr(proposal.certificate, name, 0)

    moves = f"{proven('moves')} / {proven('moves_lower_bound')}"
    size = f"{proven('bytes') / 1e9:.0f} / {proven('bytes_lower_bound') / 1e9:.0f}"
    by_bytes = " by bytes" if request.by_bytes else ""
    goal = request.goal + by_bytes + ("" if request.objective == "all" else " min-bytes")
    return f"{goal:<19}" + "".join(f"{cell:>8}" for cell in cells) + f"{moves:>15}{size:>18}{seconds:>8.1f}"


def main() -> None:
    """Print a line per plan; each is made twice, the second time with compiled kernels, on one core."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="300 brokers and 150,000 partitions too")
    parser.add_argument("--seeds", type=int, default=0, help="only balance 60 brokers, with seeds 1 to N")
    arguments = parser.parse_args()
    if arguments.seeds:
        print_seeds(arguments.seeds)
        return
    large = arguments.large
    print(" " * 19 + "".join(f"{head:>8}" for head in _HEADS) + f"{'moves / least':>15}{'GB / least':>18}{'cpu s':>8}")
    for name, model, request in cases(large):
        if name:
            print(f"{name}, {model.partitions} partitions, {len(model.replicas)} replicas")
        small = make_model(12, 3, 60, 1, empty=1)
        make_plan(small, replace(request, brokers=(3,) if request.goal == "drain" else ()))
        start = process_time()
        proposal = make_plan(model, request)
        print(line(model, request, proposal, process_time() - start), flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
