"""Examples at the end of `--help`, which the tests run."""

import sys
from collections.abc import Sequence

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        "kafka-placement run prod-describe.txt",
        "kafka-placement run prod=dumps/prod eu=dumps/eu.txt --warehouse /data/placement --report fleet.html",
        "kafka-placement run prod=dumps/prod --fail 1,2,3 --set plans.goal=leaders",
        'kafka-placement run prod=dumps/prod --alert "worst_survivor_ratio > 1.3" --alert "offline_partitions > 0"',
    ),
    "report": ("kafka-placement report fleet.html", "kafka-placement report prod.html --cluster prod"),
    "tables": ("kafka-placement tables", "kafka-placement tables --json -"),
    "query": (
        'kafka-placement query "SELECT * FROM insights.hottest_brokers"',
        'kafka-placement query "SELECT * FROM gold.failure_summary ORDER BY newly_offline_partitions DESC" --json -',
    ),
    "inspect": ("kafka-placement inspect prod-describe.txt", "kafka-placement inspect dumps/prod --json -"),
    "what-if": (
        "kafka-placement what-if prod-describe.txt",
        "kafka-placement what-if prod-describe.txt --fail 2",
        "kafka-placement what-if prod-describe.txt --fail 2,5 --json -",
    ),
    "hotspots": (
        "kafka-placement hotspots prod-describe.txt",
        "kafka-placement hotspots prod-describe.txt --seeds 1000 --scheme kafka,kraft --threshold 1.5",
    ),
    "compare": ("kafka-placement compare --brokers 12,60 --racks 0,6 --partitions 6 --rf 3",),
    "assign": (
        "kafka-placement assign requests.jsonl --out answers.jsonl",
        "kafka-placement assign prod-describe.txt --scheme kraft --seed 7 --output-format reassignment",
    ),
    "plan": (
        "kafka-placement plan prod-describe.txt --goal leaders --out plan",
        "kafka-placement plan prod-describe.txt --goal drain --brokers 5 --out plan",
        "kafka-placement plan prod-describe.txt --check plan",
    ),
    "replay": (
        "kafka-placement replay prod-describe.txt --fail 2,5",
        "kafka-placement replay scenario.yaml --until t=90s --json end.json",
        "kafka-placement replay metadata-log.txt --until 1500",
    ),
    "doctor": ("kafka-placement doctor", "kafka-placement doctor --warehouse /data/placement --json -"),
}


# Commands with an example in the help of `kafka-placement` itself.
_FIRST = ("doctor", "what-if", "plan", "run", "query")


def examples(name: str) -> str:
    """Format the examples of a command for its help."""
    return _format(EXAMPLES[name])


def first_examples() -> str:
    """Format one example each of some commands."""
    return _format([EXAMPLES[name][0] for name in _FIRST])


def _format(commands: Sequence[str]) -> str:
    lines = ["Examples:", *(f"  {line}" for line in commands)]
    return "\n\n".join(lines) if sys.stdout.isatty() else "\n".join(["\b", *lines])
