"""Text about the waves of a plan."""

from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.cli.text_format import align_rows
from udfs.planning.cluster_model import ClusterModel, Ints
from udfs.planning.planned_waves import PlannedWaves
from udfs.planning.wave_health import NEVER, WaveHealth, find_lagging_brokers, measure_wave_health
from udfs.planning.waves import WaveLimit, WaveLimits, WaveReport
from udfs.plurals import count_of, join_names
from udfs.quantities import format_bytes, format_duration

_LISTED = 6  # partitions by name
_BROKERS = 12  # of those that can restart after the same wave
_GROUPS = 6  # waves after which further brokers can restart
_FIRST, _LAST = 12, 6  # waves in the table, if there are more than both together
_SHORT = {WaveLimit.BYTES: "bytes", WaveLimit.MOVES: "replicas", WaveLimit.ORDER: "order", WaveLimit.SIZE: "size"}


def render_waves(execution: PlannedWaves, moment: str) -> Iterator[str]:
    """Render the waves of a plan that copies replicas. moment: before them, in a word."""
    model, waves, reports = execution.model, execution.waves, execution.wave_reports
    if not any(report.replicas_added for report in reports):
        return
    has_sizes, throttle = model.known[0], f"{format_bytes(waves.limits.throttle_bytes_per_s)}/s per broker (--throttle)"
    time = f", {format_duration(execution.seconds)} of copying at {throttle}"
    time = time if has_sizes else f" at {throttle}; sizes are unknown"
    yield f"  {count_of(len(reports), 'wave')}{time}"
    health = measure_wave_health(execution)
    yield from _render_table(_list_rows(execution, health, moment))
    limits = {closure.limit for report in reports for closure in report.closed_by[:1]}
    yield from (f"    {_SHORT[limit]}: {_explain(limit, waves.limits)}" for limit in WaveLimit if limit in limits)
    if len(waves.oversized):
        names = join_names((model.name(row) for row in waves.oversized.tolist()), _LISTED)
        yield f"    larger than a wave's limit, so their brokers copy nothing else in the same wave: {names}"
    if health.under_replicated[0]:
        yield from _render_restarts(execution, health)
        yield from _render_safety(health)


def _render_restarts(execution: PlannedWaves, health: WaveHealth) -> Iterator[str]:
    """Render after which waves brokers can restart, if there are some that cannot now."""
    model, caught_up = execution.model, measure_wave_health(execution, catch_up=True)
    live = np.flatnonzero(model.live)
    now, later = health.find_restart_waves(), caught_up.find_restart_waves()
    if not now[live].any():
        return
    yield "    when brokers can restart without leaving a partition below min.insync.replicas or offline:"
    yield from _list_restarts(model, live[now[live] != NEVER], now)
    rest = live[now[live] == NEVER]
    if len(waiting := rest[later[rest] != NEVER]):
        lagging = model.describe_brokers(find_lagging_brokers(model))
        yield f"    once the replicas that are out of sync on {lagging} have caught up:"
        yield from _list_restarts(model, waiting, later)
    blocked, is_incomplete = caught_up.blocked_by_restart[-1], caught_up.incomplete_at_end > 0
    rest = rest[later[rest] == NEVER]
    lost = model.describe_brokers(np.unique(model.replicas[~model.is_usable]))
    reasons = {f"which leaves replicas on {lost}": is_incomplete, "as min.insync.replicas needs all": ~is_incomplete}
    for reason, has_reason in reasons.items():
        names = [
            f"{model.broker_ids[broker]} ({count_of(int(blocked[broker]), 'partition')})"
            for broker in rest[has_reason[rest]].tolist()
        ]
        if names:
            yield f"      not by this plan, {reason}: {join_names(names, _BROKERS)}"


def _list_restarts(model: ClusterModel, brokers: Ints, waves: Ints) -> Iterator[str]:
    """List when brokers (int64) can restart by wave (int64, n); of many waves the first and the last."""
    groups: dict[int, list[int]] = {}
    for broker in brokers[np.argsort(waves[brokers], kind="stable")].tolist():
        groups.setdefault(int(waves[broker]), []).append(int(model.broker_ids[broker]))
    texts = [
        f"      {f'after wave {wave}' if wave else 'now'}: {join_names(ids, _BROKERS)}" for wave, ids in groups.items()
    ]
    hidden, half = len(texts) - _GROUPS, _GROUPS // 2
    if hidden > 1:
        texts = [*texts[:half], f"      {hidden} more waves, see plan.json", *texts[-half:]]
    yield from texts


def _render_safety(health: WaveHealth) -> Iterator[str]:
    """Render after which wave no single failure loses a partition that has several replicas, if one could now."""
    counts = health.one_in_sync
    if not counts[0]:
        return
    if counts[-1]:
        left = int(counts[-1])
        verb = "has" if left == 1 else "have"
        yield f"    after the last wave, {count_of(left, 'partition')} still {verb} one replica in sync"
        return
    wave = int(np.flatnonzero(counts)[-1]) + 1
    yield f"    after wave {wave}, every partition with several replicas has at least two in sync"


def _list_rows(execution: PlannedWaves, health: WaveHealth, moment: str) -> list[list[str]]:
    """List the headings of the table, and the cells of each wave."""
    reports, has_sizes = execution.wave_reports, execution.model.known[0]
    counts = {
        "under-replicated": health.under_replicated,
        "below min ISR": health.under_min_isr,
        "one in sync": health.one_in_sync,
        "offline or blocked if a broker fails": health.blocked_by_restart.max(axis=1, initial=0),
    }
    columns = {title: count.tolist() for title, count in counts.items() if health.under_replicated[0] and count[0]}
    headings = ["wave", "partitions", "replicas"]
    headings += ["copied", "time", "in total"] * has_sizes
    headings += [f"{title} ({moment} {count[0]:,})" for title, count in columns.items()]
    rows, seconds = [[*headings, "closed by"]], 0.0
    for number, report in enumerate(reports, 1):
        seconds += report.seconds
        row = [f"{report.wave}", f"{report.partitions:,}", f"{report.replicas_added:,}"]
        if has_sizes:
            row += [format_bytes(report.bytes_to_copy), format_duration(report.seconds), format_duration(seconds)]
        row += [f"{count[number]:,}" for count in columns.values()]
        rows.append([*row, _name_limit(report)])
    return rows


def _render_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Render rows, the first with the headings; of many waves only the first and the last."""
    lines = [f"    {line}" for line in align_rows(rows, left=(len(rows[0]) - 1,))]
    if (more := len(rows) - 1 - _FIRST - _LAST) > 0:
        lines[_FIRST + 1 : _FIRST + 1 + more] = [f"    ... {count_of(more, 'more wave')}, see plan.json"]
    yield from lines


def _name_limit(report: WaveReport) -> str:
    """Name the limit that keeps most copies of the next wave out of this one, and the broker that reached it."""
    if not report.closed_by:
        return ""
    closure = report.closed_by[0]
    broker = "" if closure.broker is None else f", broker {closure.broker}"
    return f"{_SHORT[closure.limit]}{broker}"


def _explain(limit: WaveLimit, limits: WaveLimits) -> str:
    """Explain a limit that closes waves."""
    size = f"plans.wave_bytes_per_broker, {format_bytes(limits.bytes_in_flight)} in and out"
    if limit == WaveLimit.ORDER:
        return "a partition gets one new replica at a time"
    if limit == WaveLimit.SIZE:
        return f"partitions larger than {size}, need a wave without other copies of their brokers"
    if limit == WaveLimit.MOVES:
        return f"a broker receives plans.wave_moves_per_broker, {count_of(limits.moves_per_broker, 'replica')}"
    return f"a broker has no room for more copies within {size}"
