"""Our placement kernels beside Kafka's own classes, the same requests in one run: `make bench-kernels`.

Each on one thread and warm. Timed is what a caller waits for: from requests in memory to all answers in memory, for the
JVM the lists and maps that Kafka's classes return, for us the flat arrays. Both must have computed the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from pipelines.errors import KafkaPlacementError
from tests.oracle.answers import Place, ours
from tests.oracle.check import ORACLES, Oracle, differing_cases
from tests.oracle.jvm import Jvm
from tests.oracle.requests import Requests
from udfs.placement.kernels.java_random import scrambled
from udfs.placement.kernels.topic_arrays import BrokerLists, Topics

SHAPES = ((100_000, 10), (1, 1_000_000))
BROKERS, RACKS, FACTOR = 100, 6, 3
ROOM = ("-Xms3g", "-Xmx3g", "-Xmn2500m")  # all answers of a run are young objects: no collection while it is timed


@dataclass(frozen=True)
class Contest:
    """What is placed by whom, and how much faster than the JVM we mean to be."""

    title: str
    oracle: Oracle
    racks: bool
    target: float


CONTESTS = (
    Contest("rack-unaware", ORACLES["java"], False, 3.0),
    Contest("rack-aware", ORACLES["java"], True, 1.0),
    Contest("striped", ORACLES["striped"], True, 1.0),
)


def requests(topics: int, partitions: int, racks: bool) -> Requests:
    """Topics that draw from one stream in turn, over one list of brokers; racks as even as they can be."""
    names = [f"rack-{i % RACKS}" for i in range(BROKERS)] if racks else None
    lists = BrokerLists.of(np.arange(BROKERS), np.array([0, BROKERS]), names)
    zeros = np.zeros(topics, dtype=np.int64)
    asked = Topics.of(np.full(topics, partitions), np.full(topics, FACTOR), zeros, stream=zeros)
    return Requests(np.array([1]), np.array([0, topics]), asked, lists, [f"rack-{i}" for i in range(RACKS)])


def our_seconds(asked: Requests, place: Place, runs: int) -> list[float]:
    """The seconds of each of `runs` runs."""
    seconds = []
    for _ in range(runs):
        states = scrambled(asked.seeds)
        began = perf_counter()
        place(asked.topics, asked.lists, states)
        seconds.append(perf_counter() - began)
    return seconds


def main() -> int:
    """0 where both computed the same; with --strict also every target must be reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11, help="each, after as many that warm up")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a target is missed")
    arguments = parser.parse_args()
    missed = False
    runs = arguments.runs
    print(f"{BROKERS} brokers, {RACKS} racks, {FACTOR} replicas; median of {runs} runs; million partitions a second")
    print(f"{'':14}{'topics x partitions':>22}{'ours':>9}{'JVM':>9}{'ours / JVM':>12}")
    for contest in CONTESTS:
        oracle = contest.oracle
        try:
            with Jvm(oracle.jars, oracle.placer, ROOM) as jvm:
                for topics, partitions in SHAPES:
                    asked = requests(topics, partitions, contest.racks)
                    timed = jvm.timed(asked, 2 * runs)
                    if len(differing_cases(asked, ours(asked, oracle.place), timed.answers)):
                        print(f"{contest.title}: the answers differ", file=sys.stderr)
                        return 1
                    theirs = statistics.median(timed.seconds[runs:].tolist())
                    mine = statistics.median(our_seconds(asked, oracle.place, 2 * runs)[runs:])
                    rate = topics * partitions / 1e6
                    below = theirs / mine < contest.target
                    missed |= below
                    print(
                        f"{contest.title:14}{f'{topics:,} x {partitions:,}':>22}{rate / mine:9.1f}{rate / theirs:9.1f}"
                        f"{theirs / mine:12.1f}{f'  below {contest.target:.0f}' if below else ''}",
                        flush=True,
                    )
        except KafkaPlacementError as fault:
            print(f"kafka-placement: {fault}", file=sys.stderr)
            return fault.exit_code
    return int(missed and arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
