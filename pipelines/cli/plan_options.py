"""The options of `plan` that say which plan to make."""

from dataclasses import dataclass, fields
from typing import Annotated

from pipelines.cli.option_values import flag, option, whole_number

_GOALS = "leaders, failover, balance, drain, expand, replace, repair, rf, log-dirs or zones."
_DEFAULT_BROKERS = "drain: those that the source marks for draining; expand: empty ones; repair: all"
_MAX_FACTOR = 1000  # replicas of one partition
_OBJECTIVE = "Balance all of plans.priorities (all), or replica counts only (min-bytes, min-moves)."
_DEFAULT_OBJECTIVE = "all for balance, drain and expand, else min-bytes"
AddBrokersOption = Annotated[
    str | None, option("Live brokers that no source shows, with their racks, as in 13:rack-b.", "BROKERS")
]
ThrottleOption = Annotated[
    str | None,
    option("Bytes per second that a broker copies, as in 50MB.", "SIZE", default="plans.throttle_bytes_per_s"),
]


@dataclass(frozen=True)
class PlanOptions:
    """The options as they were written; each field is named like its option."""

    goal: Annotated[str | None, option(_GOALS, "GOAL")] = None
    brokers: Annotated[
        str | None,
        option("Brokers to drain, to expand onto, or whose partitions to repair.", "IDS", default=_DEFAULT_BROKERS),
    ] = None
    replace: Annotated[str | None, option("Brokers and their replacements, as in 7=66,8=67.", "PAIRS")] = None
    rf: Annotated[int | None, option("Replication factor for --goal rf.", "N", parser=whole_number(1, _MAX_FACTOR))] = (
        None
    )
    topics: Annotated[str | None, option("Change only these topics.", "NAMES", default="all")] = None
    at_min_isr_partitions: Annotated[
        bool, flag("at-min-isr-partitions", "For repair: only partitions with just min.insync.replicas in sync.")
    ] = False
    under_min_isr_partitions: Annotated[
        bool, flag("under-min-isr-partitions", "For repair: only partitions below min.insync.replicas.")
    ] = False
    exclude_topics: Annotated[str | None, option("Topics to leave unchanged.", "NAMES")] = None
    exclude_brokers: Annotated[str | None, option("Brokers that receive no replicas.", "IDS")] = None
    add_brokers: AddBrokersOption = None
    max_bytes: Annotated[str | None, option("Copy at most this much, as in 500GB.", "SIZE")] = None
    max_moves: Annotated[
        int | None, option("Copy at most this many replicas.", "N", parser=whole_number(0, 10**12))
    ] = None
    max_time: Annotated[
        str | None, option("For balance: no broker copies for longer than this at the throttle, as in 6h.", "TIME")
    ] = None
    throttle: ThrottleOption = None
    objective: Annotated[str | None, option(_OBJECTIVE, "NAME", default=_DEFAULT_OBJECTIVE)] = None
    keep_leaders: Annotated[bool, flag("keep-leaders", "For failover: only reorder followers.")] = False
    per_topic: Annotated[bool, flag("per-topic", "Spread the leaders of each topic as well.")] = False
    by_bytes: Annotated[bool, flag("by-bytes", "For leaders and failover: also balance bytes out.")] = False
    allow_empty_racks: Annotated[bool, flag("allow-empty-racks", "Allow racks to lose their last broker.")] = False
    keep_rack_violations: Annotated[
        bool, flag("keep-rack-violations", "Leave racks that hold too many replicas of a partition as they are.")
    ] = False
    prefer_fewer_copysets: Annotated[
        bool, flag("prefer-fewer-copysets", "Among equally good plans, prefer fewer copysets.")
    ] = False
    seed: Annotated[
        int | None, option("Seed of randomized searches.", "N", default="run.seed", parser=whole_number())
    ] = None

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """Return the options that were written with their values; a flag has none."""
        values = {f"--{field.name.replace('_', '-')}": getattr(self, field.name) for field in fields(self)}
        written = {option: value for option, value in values.items() if value is not None and value is not False}
        return {option: () if value is True else (str(value),) for option, value in written.items()}
