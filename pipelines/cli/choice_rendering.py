"""Whether to wait for brokers that are down or to move their replicas, as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipelines.cli.text_format import align_rows
from pipelines.verdict.naming import name_brokers, name_with_noun
from udfs.plurals import count_of
from udfs.quantities import estimate_duration, format_bytes, format_duration

if TYPE_CHECKING:
    from pipelines.what_if.choices import CopyCost, ReplicaMove, WaitOrMove

# Title of a row -> field of Exposure.
_ROWS = {
    "offline": "offline_partitions",
    "acks=all blocked": "under_min_isr_partitions",
    "under-replicated": "under_replicated_partitions",
    "next failure: offline": "newly_offline_partitions",
    "next failure: blocked": "newly_under_min_isr_partitions",
}


def format_choices(choice: WaitOrMove) -> Iterator[str]:
    """Yield both choices side by side, and what moving takes."""
    down, move = choice.down_brokers, choice.move
    yield f"Wait for {name_with_noun(down)}, or move {'its' if len(down) == 1 else 'their'} replicas to others?"
    yield from _describe_stops(choice)
    states = {"now": choice.now, "once back": choice.once_returned}
    if move is not None and move.waves > 1:
        states[f"wave 1{_name_time(move.first_wave)}"] = move.after_first_wave
    if move is not None:
        states[f"{'all waves' if move.waves > 1 else 'moved'}{_name_time(move.cost)}"] = move.after_all_waves
    rows = [[title, *(f"{getattr(state, field):,}" for state in states.values())] for title, field in _ROWS.items()]
    rows = [row for row in rows if any(cell != "0" for cell in row[1:])]
    yield from (f"  {line}" for line in align_rows([["partitions", *states], *rows]))
    if move is None:
        yield f"  moving is not possible: {choice.obstacle}"
        return
    yield f"  moving copies {_describe_cost(move.cost, move)}"
    then = "it returns" if len(down) == 1 else "they return"
    yield f"  moving back once {then} copies {_describe_cost(move.cost_back)}"


def _describe_stops(choice: WaitOrMove) -> Iterator[str]:
    """Say since when brokers are down, if a source shows it."""
    times = {
        broker: f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M} UTC"
        for broker, at in sorted(choice.down_since_ms.items(), key=lambda item: item[1])
    }
    known = name_brokers([f"{broker} since {time}" for broker, time in times.items()])
    rest = [broker for broker in choice.down_brokers if broker not in times]
    if times:
        yield f"  down: {known}{f'; no source shows it for {name_with_noun(rest)}' if rest else ''}"


def _name_time(cost: CopyCost) -> str:
    return "" if cost.seconds is None else f" ({format_duration(cost.seconds)})"


def _describe_cost(cost: CopyCost, move: ReplicaMove | None = None) -> str:
    """Describe copies; move: with its throttle."""
    replicas = count_of(cost.replicas, "replica")
    if cost.bytes_to_copy is None or cost.seconds is None:
        hint = "; add the output of kafka-log-dirs --describe to see how long it takes" if move else ""
        return f"{replicas} of unknown size{hint}"
    rate = f" at {format_bytes(move.throttle_bytes_per_s)}/s per broker" if move else ""
    return f"{replicas}, {format_bytes(cost.bytes_to_copy)}: {estimate_duration(cost.seconds)}{rate}"
