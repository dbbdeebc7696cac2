"""Text about the bottleneck of a plan and its faster alternatives."""

from collections.abc import Iterator

from pipelines.cli.plan_command_line import PlanCommandLine
from pipelines.cli.text_format import format_bytes, format_duration
from pipelines.plan_files.plan_creation import CreatedPlan
from udfs.planning.bottleneck import EvenSpread
from udfs.planning.faster_plans import BrokerThrottle, FasterPlan
from udfs.planning.waves import IN
from udfs.plurals import count_of


def render_bottleneck(plan: CreatedPlan, command: PlanCommandLine, server: str) -> Iterator[str]:
    """Render which broker delays a plan, why, and what is faster. server: quoted, for Kafka's commands."""
    bottleneck = plan.facts.bottleneck
    if bottleneck is None:
        return
    verb = "receives" if bottleneck.direction == IN else "sends"
    size, total = (format_bytes(value) for value in (bottleneck.bytes_to_copy, bottleneck.total_bytes))
    rate = format_bytes(plan.summary.waves.limits.throttle_bytes_per_s)
    duration = format_duration(bottleneck.seconds)
    part = f"{size} of {total} ({bottleneck.share:.0%})"
    yield f"  bottleneck: broker {bottleneck.broker} {verb} {part}: {duration} at {rate}/s"
    yield f"    {_describe_spread(bottleneck.even_spread)}"
    if bottleneck.reason is not None:
        yield f"    why: {bottleneck.reason}"
    alternatives = 0
    for faster in plan.facts.faster_plans:
        yield f"    faster: {_describe(faster, plan)}"
        if faster.throttle is not None:
            yield f"      {_format_throttle(faster.throttle, server)}    # after each --execute, which resets it"
        else:
            alternatives += 1
            suffix = "-faster" if alternatives == 1 else f"-faster-{alternatives}"
            yield f"      {command.with_other_folder(suffix).change(faster.options)}"
    if not plan.facts.faster_plans:
        yield "    no faster alternative: none that was tried saves a tenth of the time"


def _describe_spread(spread: EvenSpread) -> str:
    """Describe the lower bound, and the brokers that could share the copies."""
    rack = f" in rack {spread.even_rack}" if spread.even_rack is not None else ""
    purpose = " to fill" if spread.fills_brokers else " that may receive them" if rack else ""
    if spread.even_brokers == 1 and purpose:
        return f"no other broker can share these copies: it is the only one{purpose}{rack}"
    brokers = f"{count_of(spread.even_brokers, 'broker')}{purpose}{rack}"
    what = "the bytes that cannot leave the rack" if rack else "the same bytes"
    if spread.fills_brokers and not rack:
        what = "the bytes that fill them"
    return f"spread evenly over {brokers}, {what} would take at least {format_duration(spread.even_seconds)}"


def _describe(faster: FasterPlan, plan: CreatedPlan) -> str:
    """Describe an alternative, its duration, and what else differs from the plan."""
    text = f"{faster.description}: about {format_duration(faster.seconds)} of copying instead of "
    text += format_duration(plan.summary.seconds)
    if faster.throttle is not None:
        return text
    metrics, missed = plan.summary.metrics, len(plan.summary.proposal.certificate.missed)
    if faster.bytes_to_copy != metrics.bytes_to_copy:
        text += f"; copies {format_bytes(faster.bytes_to_copy)}"
    disk = metrics.after.balance.size_bytes.max_over_mean
    if faster.disk_max_over_mean is not None and disk is not None:
        text += f"; disk max/mean {faster.disk_max_over_mean:.3f} instead of {disk:.3f}"
    if faster.missed_targets is not None and faster.missed_targets != missed:
        text += f"; misses {count_of(faster.missed_targets, 'target')} instead of {missed}"
    return text


def _format_throttle(throttle: BrokerThrottle, server: str) -> str:
    """Format the command that sets a throttle."""
    config = f"--add-config {throttle.config}={throttle.bytes_per_s}"
    alter = f"kafka-configs --bootstrap-server {server} --alter --entity-type brokers --entity-name"
    if len(throttle.brokers) == 1:
        return f"{alter} {throttle.brokers[0]} {config}"
    return f"for id in {' '.join(map(str, throttle.brokers))}; do {alter} $id {config}; done"
