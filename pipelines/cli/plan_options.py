"""The options of `plan` that say which plan to make."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from pipelines.cli.option_values import whole_number

_GOALS = "leaders, failover, balance, drain, expand, replace, repair, rf, log-dirs or zones."
_DEFAULT_BROKERS = "drain: those that the source marks for draining; expand: empty ones; repair: all"
_MAX_FACTOR = 1000  # replicas of one partition
_OBJECTIVE = "Balance all of plans.priorities (all), or replica counts only (min-bytes, min-moves)."
_DEFAULT_OBJECTIVE = "all for balance, drain and expand, else min-bytes"


def _option(text: str, metavar: str, default: str | bool = True, parser: Callable[[str], Any] | None = None) -> Any:
    return typer.Option(help=text, metavar=metavar, show_default=default, parser=parser)


def _flag(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", help=text)


@dataclass(frozen=True)
class PlanOptions:
    """The options as they were written; each field is named like its option."""

    goal: Annotated[str | None, _option(_GOALS, "GOAL")] = None
    brokers: Annotated[
        str | None, _option("Brokers to drain, to expand onto, or whose partitions to repair.", "IDS", _DEFAULT_BROKERS)
    ] = None
    replace: Annotated[str | None, _option("Brokers and their replacements, as in 7=66,8=67.", "PAIRS")] = None
    rf: Annotated[
        int | None, _option("Replication factor for --goal rf.", "N", parser=whole_number(1, _MAX_FACTOR))
    ] = None
    topics: Annotated[str | None, _option("Topics for --goal rf.", "NAMES", "all")] = None
    at_min_isr_partitions: Annotated[
        bool, _flag("at-min-isr-partitions", "For repair: only partitions with just min.insync.replicas in sync.")
    ] = False
    under_min_isr_partitions: Annotated[
        bool, _flag("under-min-isr-partitions", "For repair: only partitions below min.insync.replicas.")
    ] = False
    exclude_topics: Annotated[str | None, _option("Topics to leave unchanged.", "NAMES")] = None
    exclude_brokers: Annotated[str | None, _option("Brokers that receive no replicas.", "IDS")] = None
    add_brokers: Annotated[
        str | None, _option("Live brokers that no source shows, with their racks, as in 13:rack-b.", "BROKERS")
    ] = None
    max_bytes: Annotated[str | None, _option("Copy at most this much, as in 500GB.", "SIZE")] = None
    max_moves: Annotated[
        int | None, _option("Copy at most this many replicas.", "N", parser=whole_number(0, 10**12))
    ] = None
    throttle: Annotated[
        str | None, _option("Bytes per second that a broker copies, as in 50MB.", "SIZE", "plans.throttle_bytes_per_s")
    ] = None
    objective: Annotated[str | None, _option(_OBJECTIVE, "NAME", _DEFAULT_OBJECTIVE)] = None
    keep_leaders: Annotated[bool, _flag("keep-leaders", "For failover: only reorder followers.")] = False
    per_topic: Annotated[bool, _flag("per-topic", "Spread the leaders of each topic as well.")] = False
    by_bytes: Annotated[bool, _flag("by-bytes", "For leaders and failover: also balance bytes out.")] = False
    allow_empty_racks: Annotated[bool, _flag("allow-empty-racks", "Allow racks to lose their last broker.")] = False
    keep_rack_violations: Annotated[
        bool, _flag("keep-rack-violations", "Leave racks that hold too many replicas of a partition as they are.")
    ] = False
    prefer_fewer_copysets: Annotated[
        bool, _flag("prefer-fewer-copysets", "Among equally good plans, prefer fewer copysets.")
    ] = False
    seed: Annotated[int | None, _option("Seed of randomized searches.", "N", "run.seed", parser=whole_number())] = None

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """Return the options that were written with their values; a flag has none."""
        values = {f"--{field.name.replace('_', '-')}": getattr(self, field.name) for field in fields(self)}
        written = {option: value for option, value in values.items() if value is not None and value is not False}
        return {option: () if value is True else (str(value),) for option, value in written.items()}
