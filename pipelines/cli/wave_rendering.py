"""Text about the waves of a plan: what each copies, how long it takes, and which limit closes it."""

from collections.abc import Iterator

from pipelines.cli.text_format import format_bytes, format_count, format_duration
from udfs.planning.cluster_model import join_names
from udfs.planning.plan_execution import PlanExecution
from udfs.planning.waves import IN, WaveClosure, WaveLimit, WaveLimits, WaveReport

_LISTED = 6  # waves and partitions


def render_waves(execution: PlanExecution) -> Iterator[str]:
    """Render the waves of a plan that copies replicas."""
    model, waves, reports = execution.model, execution.waves, execution.wave_reports
    if not any(report.replicas_added for report in reports):
        return
    has_sizes, throttle = model.known[0], f"{format_bytes(waves.limits.throttle_bytes_per_s)}/s per broker"
    duration = format_duration(execution.seconds)
    about = "" if duration.startswith("under") else "about "
    time = f", {about}{duration} of copying at {throttle}" if has_sizes else f" at {throttle}; sizes are unknown"
    yield f"  {format_count(len(reports), 'wave')}{time}"
    for report in reports[:_LISTED]:
        yield f"    wave {report.wave}: {_describe_wave(report, has_sizes)}"
        closures = [_describe_closure(closure, waves.limits, report.wave + 1) for closure in report.closed_by]
        if closures:
            yield f"      closed by {'; '.join(closures)}"
    if len(reports) > _LISTED:
        yield f"    {len(reports) - _LISTED} more, see plan.json"
    if len(waves.oversized):
        names = join_names((model.name(row) for row in waves.oversized.tolist()), _LISTED)
        yield f"    larger than a wave's limit, so their brokers copy nothing else in the same wave: {names}"


def _describe_wave(report: WaveReport, has_sizes: bool) -> str:
    text = f"{format_count(report.partitions, 'partition')}, {format_count(report.replicas_added, 'replica')}"
    if has_sizes:
        text += f", {format_bytes(report.bytes_to_copy)}"
    if has_sizes and report.busiest_broker is not None:
        verb = "receives" if report.busiest_direction == IN else "sends"
        text += f"; broker {report.busiest_broker} {verb} {format_bytes(report.busiest_bytes)}"
        text += f": {format_duration(report.seconds)}"
    return text


def _describe_closure(closure: WaveClosure, limits: WaveLimits, next_wave: int) -> str:
    """Describe a limit that closed a wave, the brokers that reached it, and the copies of the next wave that wait."""
    copies = f"{'1 copy' if closure.copies == 1 else f'{closure.copies:,} copies'} of wave {next_wave}"
    if closure.broker is None:
        return f"the order of copies, as a partition gets one new replica at a time: {copies}"
    bytes_limit = f"plans.wave_bytes_per_broker ({format_bytes(limits.bytes_in_flight)} in and out)"
    limit = {
        WaveLimit.BYTES: bytes_limit,
        WaveLimit.MOVES: f"plans.wave_moves_per_broker ({format_count(limits.moves_per_broker, 'replica')} received)",
        WaveLimit.SIZE: f"{bytes_limit}, as larger partitions need a wave without other copies",
    }[closure.limit]
    others = f" and {format_count(closure.brokers - 1, 'other')}" if closure.brokers > 1 else ""
    have = "have" if others else "has"
    return f"{limit}: broker {closure.broker}{others} {have} no room for {copies}"
