"""What `kafka-reassign-partitions --generate` proposes for all topics, from Kafka's own placers.

The tool of Kafka 3.9 places each topic with AdminUtils, that of Kafka 4.1 with StripedReplicaPlacer, as it would a new
topic: `python -m tests.bench.planners.kafka_generate MODEL.json PLAN.json --release 3.9`.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from time import process_time

import numpy as np

from tests.bench.planners.models import Model
from tests.oracle.jvm import Jvm
from tests.oracle.requests import OracleCases
from udfs.placement.kernels.java_util import index_rack_names
from udfs.placement.kernels.topic_arrays import DRAW_START, BrokerLists, Topics

PLACERS = {"3.9": ("admin_utils", "AdminUtilsPlacer"), "4.1": ("striped", "StripedPlacer")}


def build_request(model: Model) -> tuple[OracleCases, list[str]]:
    """Build the request for all topics of a model: the topics by name. The seed of the draws is 1."""
    topics: dict[str, tuple[int, int]] = {}
    for one in model["partitions"]:
        count, factor = topics.get(one["topic"], (0, len(one["replicas"])))
        topics[one["topic"]] = count + 1, factor
    stay = sorted((one["id"], one["rack"]) for one in model["brokers"] if one["id"] not in model["removed"])
    lists = BrokerLists.create(
        np.array([broker for broker, _ in stay]), np.array([0, len(stay)]), [rack for _, rack in stay]
    )
    codes, _, _ = index_rack_names(sorted({rack for _, rack in stay}))
    names = [name for _, name in sorted(zip(codes.tolist(), sorted({rack for _, rack in stay}), strict=True))]
    counts = np.array(list(topics.values()))
    zeros = np.zeros(len(topics), dtype=np.int64)
    requested = Topics.create(
        counts[:, 0],
        counts[:, 1],
        zeros,
        generator=zeros,
        start_partition=zeros - 1,
        fixed_start_index=zeros + DRAW_START,
    )
    return OracleCases(np.array([1]), np.array([0, len(topics)]), requested, lists, names), list(topics)


def main() -> None:
    """Write the proposal, and print processor seconds and the peak of memory as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--release", choices=PLACERS, required=True)
    arguments = parser.parse_args()
    request, topics = build_request(json.loads(arguments.model.read_text()))
    start = process_time()
    with Jvm(*PLACERS[arguments.release]) as jvm:
        answers = jvm.full_answers(request)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas}
        for topic, answer in zip(topics, answers, strict=True)
        for number, replicas in enumerate(json.loads(answer))
    ]
    arguments.plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    seconds = process_time() - start + usage.ru_utime + usage.ru_stime
    print(json.dumps({"cpu_s": round(seconds, 1), "peak_mib": round(usage.ru_maxrss / 1024)}))


if __name__ == "__main__":
    main()
