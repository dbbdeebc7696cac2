"""Plan with this project: `python -m tests.bench.planners.our_plan MODEL.json PLAN.json --goal balance [--set ...]`."""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from time import process_time

import numpy as np

from pipelines.plan_files.plan_judgement import judge_planned_waves
from tests.bench.planners.models import Model, Shape, make_model
from udfs.arrow.ragged import offsets_of
from udfs.planning.certificates import BalanceCertificate
from udfs.planning.cluster_model import ClusterModel
from udfs.planning.plan_judge import build_judge_options
from udfs.planning.plan_making import make_plan
from udfs.planning.plan_request import MIN_BYTES, PlanRequest
from udfs.planning.planned_waves import plan_waves
from udfs.planning.waves import WaveLimits


def read_model(model: Model) -> ClusterModel:
    """Convert a model to arrays. MB and kB/s become bytes."""
    ids = [one["id"] for one in model["brokers"]]
    racks = sorted({one["rack"] for one in model["brokers"]})
    partitions, place = model["partitions"], {broker: i for i, broker in enumerate(ids)}
    names = sorted({one["topic"] for one in partitions})
    number = {name: i for i, name in enumerate(names)}
    n = len(partitions)

    def load(name: str, unit: float) -> np.ndarray:
        return np.array([one[name] * unit for one in partitions])

    return ClusterModel(
        model["name"],
        np.array(ids, dtype=np.int32),
        np.array([racks.index(one["rack"]) for one in model["brokers"]], dtype=np.int32),
        tuple(racks),
        np.ones(len(ids), dtype=np.bool_),
        np.zeros(len(ids), dtype=np.bool_),
        tuple(names),
        np.array([number[one["topic"]] for one in partitions], dtype=np.int32),
        np.array([one["partition"] for one in partitions], dtype=np.int32),
        offsets_of(np.array([len(one["replicas"]) for one in partitions])),
        np.array([place[broker] for one in partitions for broker in one["replicas"]], dtype=np.int32),
        load("size_mb", 1e6),
        load("in_kbps", 1e3),
        load("out_kbps", 1e3),
        (True, True, True),
        np.zeros(n, dtype=np.int8),
        np.ones(n, dtype=np.int32),
    )


def main() -> None:
    """Plan, and print processor seconds, the peak of memory, the bound and what `check` says of the plan as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--goal", default="balance")
    parser.add_argument("--min-bytes", action="store_true", help="even replica counts only, with the fewest bytes")
    arguments = parser.parse_args()
    document = json.loads(arguments.model.read_text())
    small = read_model(make_model(Shape(brokers=12, racks=3, topics=60), 1))
    make_plan(small, PlanRequest("balance"))  # loads the kernels
    model = read_model(document)
    request = PlanRequest(
        arguments.goal, brokers=tuple(document["removed"]), **({"objective": MIN_BYTES} if arguments.min_bytes else {})
    )
    start = process_time()
    proposal = make_plan(model, request)
    seconds = process_time() - start
    changed = np.flatnonzero(model.find_changed(proposal)).tolist()
    partitions = [
        {
            "topic": document["partitions"][p]["topic"],
            "partition": document["partitions"][p]["partition"],
            "replicas": model.broker_ids[proposal.replicas[slice(*proposal.offsets[p : p + 2])]].tolist(),
        }
        for p in changed
    ]
    arguments.plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    throttle = WaveLimits().throttle_bytes_per_s
    waves = plan_waves(model, proposal, WaveLimits())
    judgement = judge_planned_waves(waves, build_judge_options(model, request, throttle))
    certificate = proposal.certificate
    bound = certificate.bytes_lower_bound / 1e9 if isinstance(certificate, BalanceCertificate) else None
    answer = {
        "cpu_s": round(seconds, 1),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "bound_gb": None if bound is None else round(bound),
        "check": ": ".join([judgement.level.name, *(finding.text for finding in judgement.findings[:1])]),
        "notes": [*certificate.relaxed, *certificate.missed],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
