"""Plan with Rebalancer, in a Python that has it: `python rebalancer_plan.py MODEL.json PLAN.json [--seconds N]`.

Objects are replicas with their place in the list (p17/0 leads, p17/1 takes over), containers are brokers. Brokers and
racks hold at most as many replicas of a partition as the placement constraint allows. Copied bytes are affinities of
each replica to the brokers that hold its partition now. Loads are limited as in the targets of the judge. The search is
local: first all goals in one weighted sum, then in lexicographic order.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
from collections import defaultdict
from pathlib import Path
from time import process_time
from typing import Any

from rebalancer import ProblemSolver

TARGETS = {"replicas": 1.01, "leaders": 1.01, "disk": 1.009, "bytes_in": 1.009, "bytes_out": 1.009}
FAILOVER = 1.15  # bytes out of the worst survivor of a failure
HEAVY = 0.05  # of a broker's mean bytes out: partitions whose takeover is modelled
ABSOLUTE = 0  # the kind of a limit
MOVES = [
    {"singleFastMoveTypeSpec": {}},
    {"swapMoveTypeSpec": {"partitionNameToExploreSwapsWithinObjectGroup": "partition"}},  # the order of a list
]


def build(model: dict[str, Any], lexicographic: bool, current: dict[str, str], seconds: float) -> ProblemSolver:
    """Build the problem, from the assignment `current` (object: broker)."""
    rack = {str(one["id"]): one["rack"] for one in model["brokers"]}
    removed = {str(broker) for broker in model["removed"]}
    stay = [broker for broker in rack if broker not in removed]
    racks = len({rack[broker] for broker in stay})
    values: dict[str, dict[str, float]] = {name: {} for name in TARGETS}
    groups: dict[str, list[str]] = {}
    assignment: dict[str, list[str]] = {broker: [] for broker in rack}
    affinities, limits, takeovers = [], {}, {}
    brokers = len(stay)
    mean_out = sum(one["out_kbps"] for one in model["partitions"]) / brokers
    for number, one in enumerate(model["partitions"]):
        names = [f"p{number}/{place}" for place in range(len(one["replicas"]))]
        groups[f"p{number}"] = names
        limits[f"p{number}"] = float(math.ceil(len(names) / racks))
        for place, name in enumerate(names):
            assignment[current[name]].append(name)
            values["replicas"][name] = 1.0
            values["disk"][name], values["bytes_in"][name] = one["size_mb"], one["in_kbps"]
            if place == 0:
                values["leaders"][name], values["bytes_out"][name] = 1.0, one["out_kbps"]
            affinities += [
                {"objectName": name, "scopeItemName": str(broker), "affinity": one["size_mb"]}
                for broker in one["replicas"]
            ]
        if len(names) > 1 and one["out_kbps"] > HEAVY * mean_out:
            takeovers[names[0]] = [names[1]]
    solver = ProblemSolver(service_name="rebalancer", service_scope="kafka")
    solver.set_object_name("replica").set_container_name("broker").set_assignment(assignment)
    solver.add_scope("rack", rack).add_partition("partition", groups)
    for name, load in values.items():
        solver.add_object_dimension(name, load, default_value=0.0)
        solver.add_container_dimension(name, {}, default_value=1.0)
    by_group = {"type": ABSOLUTE, "globalLimit": 1.0}
    solver.add_constraint(
        {
            "groupCountSpec": {
                "name": "one of a broker",
                "scope": "broker",
                "partitionName": "partition",
                "limit": by_group,
            }
        }
    )
    by_rack = {"type": ABSOLUTE, "globalLimit": 1.0, "groupLimits": limits}
    solver.add_constraint(
        {"groupCountSpec": {"name": "of a rack", "scope": "rack", "partitionName": "partition", "limit": by_rack}}
    )
    if removed:
        solver.add_constraint({"nonAcceptingSpec": {"name": "leaves", "scope": "broker", "items": sorted(removed)}})
        solver.add_goal(
            {"toFreeSpec": {"name": "empty", "containers": sorted(removed), "dimension": "replicas"}}, 1e3, 0
        )
    position = 0
    for name, target in TARGETS.items():
        mean = sum(values[name].values()) / brokers
        limit = max(target * mean, math.ceil(mean) if name in ("replicas", "leaders") else 0.0)
        capacity = {
            "name": name,
            "scope": "broker",
            "dimension": name,
            "limit": {"type": ABSOLUTE, "globalLimit": limit},
        }
        position += 1
        solver.add_goal({"capacitySpec": capacity}, 1.0 / mean, position if lexicographic else 1)
    if takeovers:
        load = FAILOVER * mean_out * brokers / (brokers - 1)
        solver.add_object_dimension(
            "takeover",
            values["bytes_out"]
            | {successor: values["bytes_out"][leader] for leader, (successor,) in takeovers.items()},
            default_value=0.0,
        )
        solver.add_container_dimension("takeover", {}, default_value=load)
        recovery = {
            "name": "takeovers",
            "scope": "broker",
            "dimension": "takeover",
            "primaryToSetOfSecondaryObjects": takeovers,
        }
        solver.add_goal(
            {"disasterRecoveryCapacitySpec": recovery}, 1.0 / mean_out, position + 1 if lexicographic else 1
        )
    copies = {"name": "copied", "scope": "broker", "affinities": affinities}
    mean_disk = sum(values["disk"].values()) / brokers
    solver.add_goal({"assignmentAffinitiesSpec": copies}, 0.3 / mean_disk, position + 2 if lexicographic else 1)
    local = {"solveTime": int(seconds), "moveTypeList": MOVES}
    solver.add_solver({"localSearchSolverSpec": local})
    return solver


def main() -> None:
    """Plan, and print processor seconds and the peak of memory as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each of the two searches")
    arguments = parser.parse_args()
    model = json.loads(arguments.model.read_text())
    current = {
        f"p{number}/{place}": str(broker)
        for number, one in enumerate(model["partitions"])
        for place, broker in enumerate(one["replicas"])
    }
    start = process_time()
    for lexicographic in (False, True):
        solution = build(model, lexicographic, current, arguments.seconds).solve()
        current = solution["assignment"]
    seconds = process_time() - start
    lists: dict[int, list[int]] = defaultdict(list)
    for number, one in enumerate(model["partitions"]):
        lists[number] = [int(current[f"p{number}/{place}"]) for place in range(len(one["replicas"]))]
    partitions = [
        {"topic": one["topic"], "partition": one["partition"], "replicas": lists[number]}
        for number, one in enumerate(model["partitions"])
        if lists[number] != one["replicas"]
    ]
    arguments.plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu_s": round(seconds, 1), "peak_mib": round(peak)}))


if __name__ == "__main__":
    main()
