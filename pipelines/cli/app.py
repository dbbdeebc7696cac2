"""The command itself: its name, its version, its help with examples, which the tests run."""

import sys
from collections.abc import Sequence

import typer

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        "kafka-placement run prod-describe.txt",
        "kafka-placement run prod=dumps/prod eu=dumps/eu.txt --warehouse /data/placement --report fleet.html",
        "kafka-placement run prod=dumps/prod --fail 1,2,3 --set plans.goals=failover",
        'kafka-placement run prod=dumps/prod --alert "worst_survivor_ratio > 1.3" --alert "offline_partitions > 0"',
    ),
    "report": ("kafka-placement report fleet.html", "kafka-placement report prod.html --cluster prod"),
    "tables": ("kafka-placement tables", "kafka-placement tables --json -"),
    "maintain": ("kafka-placement maintain", "kafka-placement maintain --set retention.all_days=90"),
    "query": (
        'kafka-placement query "SELECT * FROM insights.hottest_brokers"',
        'kafka-placement query "SELECT * FROM gold.failure_summary ORDER BY newly_offline_partitions DESC" --json -',
    ),
    "sql": (
        "kafka-placement sql < queries.sql",
        "kafka-placement sql --warehouse /data/placement --json < queries.sql",
    ),
    "inspect": ("kafka-placement inspect prod-describe.txt", "kafka-placement inspect dumps/prod --json -"),
    "what-if": (
        "kafka-placement what-if prod-describe.txt",
        "kafka-placement what-if prod-describe.txt --fail 2",
        "kafka-placement what-if prod-describe.txt --fail 2,5 --json -",
        "kafka-placement what-if prod-describe.txt --add 3",
    ),
    "snapshot": (
        "kafka-placement snapshot prod=kafka://b1:9092,b2:9092 --out dumps/prod",
        "kafka-placement snapshot kafka://b1:9093 --command-config client.properties --out dumps/prod",
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
        "kafka-placement plan prod-describe.txt --goal repair",
    ),
    "check": (
        "kafka-placement check plan prod-describe.txt",
        "kafka-placement check plan/reassignment.json prod-describe.txt --json -",
        "kafka-placement check prod-describe.txt",
    ),
    "apply": (
        "kafka-placement apply plan --bootstrap-server b1:9092",
        "kafka-placement apply plan --bootstrap-server b1:9092 --execute --throttle 50MB",
        "kafka-placement apply plan --bootstrap-server b1:9092 --execute --waves 1-2 --until 06:00",
        "kafka-placement apply reassignment.json --bootstrap-server b1:9092",
        "kafka-placement apply plan --bootstrap-server b1:9092 --throttle 80MB --change-throttle",
        "kafka-placement apply plan --bootstrap-server b1:9092 --rollback --execute",
    ),
    "operate": ("kafka-placement operate prod --bootstrap-server b1:9092", "kafka-placement operate prod"),
    "approve": (
        "kafka-placement approve prod-balance-20270104-020000 --by ada",
        "kafka-placement approve prod-balance-20270104-020000 --by ada --reject",
    ),
    "mcp": ("kafka-placement mcp",),
    "replay": (
        "kafka-placement replay prod-describe.txt --fail 2,5",
        "kafka-placement replay scenario.yaml --until t=90s --json end.json",
        "kafka-placement replay metadata-log.txt --until 1500",
    ),
    "doctor": ("kafka-placement doctor", "kafka-placement doctor --warehouse /data/placement --json -"),
}

_FIRST = ("doctor", "what-if", "plan", "run", "query")  # commands with an example in the help of all
_PERSON = sys.stdout.isatty()


def examples(name: str) -> str:
    """Format the examples of a command for its help."""
    return _format_examples(EXAMPLES[name])


def _format_examples(commands: Sequence[str]) -> str:
    lines = ["Examples:", *(f"  {line}" for line in commands)]
    return "\n\n".join(lines) if _PERSON else "\n".join(["\b", *lines])


app = typer.Typer(
    pretty_exceptions_enable=False,
    help="Placement and rebalancing analytics for Kafka clusters, from their metadata alone.",
    # Boxes on a terminal, plain text elsewhere.
    rich_markup_mode="rich" if _PERSON else None,
    # A pipe has no width: a sentence of help need not be cut.
    context_settings={} if _PERSON else {"terminal_width": 120},
    epilog=_format_examples([EXAMPLES[name][0] for name in _FIRST]),
)
