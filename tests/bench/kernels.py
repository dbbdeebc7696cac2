"""Time our placement kernels and Kafka's own classes on the same requests: `make bench-kernels`.

Both run warm on one thread. The time is that from requests in memory to all answers in memory: for the JVM the lists
and maps that Kafka's classes return, for us the flat arrays. Both must compute the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from pipelines.errors import KafkaPlacementError
from tests.oracle.answers import PlaceFunction, compute_answers
from tests.oracle.check import ORACLES, Oracle, find_mismatches
from tests.oracle.jvm import Jvm
from tests.oracle.requests import OracleCases
from udfs.placement.kernels.java_util import scramble_seeds
from udfs.placement.kernels.topic_arrays import BrokerLists, Topics

SHAPES = ((100_000, 10), (1, 1_000_000))
BROKERS, RACKS, FACTOR = 100, 6, 3
JVM_OPTIONS = ("-Xms3g", "-Xmx3g", "-Xmn2500m")  # no garbage collection during a run


@dataclass(frozen=True)
class Contest:
    """A comparison: the Java class, whether brokers have racks, and the speed-up that we aim for."""

    title: str
    oracle: Oracle
    racks: bool
    target: float


CONTESTS = (
    Contest("rack-unaware", ORACLES["java"], False, 3.0),
    Contest("rack-aware", ORACLES["java"], True, 1.0),
    Contest("striped", ORACLES["striped"], True, 1.0),
)


def make_cases(topics: int, partitions: int, racks: bool) -> OracleCases:
    """Make one case: topics that draw from one generator in turn, over brokers on even racks."""
    names = [f"rack-{i % RACKS}" for i in range(BROKERS)] if racks else None
    lists = BrokerLists.create(np.arange(BROKERS), np.array([0, BROKERS]), names)
    zeros = np.zeros(topics, dtype=np.int64)
    requests = Topics.create(np.full(topics, partitions), np.full(topics, FACTOR), zeros, generator=zeros)
    return OracleCases(np.array([1]), np.array([0, topics]), requests, lists, [f"rack-{i}" for i in range(RACKS)])


def time_kernel(cases: OracleCases, place: PlaceFunction, runs: int) -> list[float]:
    """Return the seconds of each run."""
    seconds = []
    for _ in range(runs):
        states = scramble_seeds(cases.seeds)
        began = perf_counter()
        place(cases.topics, cases.lists, states)
        seconds.append(perf_counter() - began)
    return seconds


def main() -> int:
    """Return 0 if both computed the same; with --strict, only if every target is reached."""
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
            with Jvm(oracle.jars, oracle.placer, JVM_OPTIONS) as jvm:
                for topics, partitions in SHAPES:
                    cases = make_cases(topics, partitions, contest.racks)
                    timed = jvm.timed(cases, 2 * runs)
                    if len(find_mismatches(cases, compute_answers(cases, oracle.place), timed.answers)):
                        print(f"{contest.title}: the answers differ", file=sys.stderr)
                        return 1
                    theirs = statistics.median(timed.seconds[runs:].tolist())
                    ours = statistics.median(time_kernel(cases, oracle.place, 2 * runs)[runs:])
                    rate = topics * partitions / 1e6
                    below = theirs / ours < contest.target
                    missed |= below
                    print(
                        f"{contest.title:14}{f'{topics:,} x {partitions:,}':>22}{rate / ours:9.1f}{rate / theirs:9.1f}"
                        f"{theirs / ours:12.1f}{f'  below {contest.target:.0f}' if below else ''}",
                        flush=True,
                    )
        except KafkaPlacementError as fault:
            print(f"kafka-placement: {fault}", file=sys.stderr)
            return fault.exit_code
    return int(missed and arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
