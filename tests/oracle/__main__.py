"""Compare our kernels with Kafka's own classes on N random cases each: `make oracle N=1000000`. Exit 1 = mismatch."""

from __future__ import annotations

import argparse
import sys

from pipelines.errors import KafkaPlacementError
from tests.oracle.check import ORACLES, compare_cases


def main() -> int:
    """Return 0 if all answers are the same, including errors."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("cases", type=int, metavar="N")
    parser.add_argument("--which", choices=list(ORACLES), action="append", help="just this one; default: all")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    mismatches = 0
    for name in arguments.which or ORACLES:
        oracle = ORACLES[name]
        try:
            tally = compare_cases(oracle, arguments.cases, arguments.seed, lambda line: print(line, flush=True))
        except KafkaPlacementError as fault:
            print(f"kafka-placement: {fault}", file=sys.stderr)
            return fault.exit_code
        mismatches += tally.mismatches
        print(
            f"{oracle.title:28} {tally.cases:,} cases, {tally.topics:,} topics ({tally.rejected:,} rejected), "
            f"{tally.partitions:,} partitions: {tally.mismatches} mismatches, {tally.seconds:.0f} s",
            flush=True,
        )
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
