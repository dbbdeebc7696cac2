"""Text about single aspects of a plan: what comes first, waves, disks, log dirs, racks, and the bottleneck."""

from collections.abc import Iterator, Sequence

import numpy as np

from pipelines.cli.plan_remedies import PlanCommandLine, change_factor
from pipelines.cli.text_format import align_rows
from pipelines.plan_files.plan_creation import CreatedPlan
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.planning.alternative_plans import FasterPlan
from udfs.planning.broker_log_dirs import ANY
from udfs.planning.certificates import LogDirCertificate
from udfs.planning.cluster_model import FREE, ClusterModel, FreezeReason, Ints
from udfs.planning.constraints import build_rules, find_rack_violations, list_emptied_brokers
from udfs.planning.log_dir_balance import find_dir_moves
from udfs.planning.plan_metrics import PlanSummary
from udfs.planning.plan_request import PlanRequest
from udfs.planning.plan_states import DISK_FAULTS
from udfs.planning.planned_waves import NEVER, PlannedWaves, WaveHealth, find_lagging_brokers, measure_wave_health
from udfs.planning.waves import IN, WaveLimit, WaveLimits, WaveReport
from udfs.wording import count_of, estimate_duration, format_bytes, format_duration, is_or_are, join_names

_FACTOR = 3  # that the command for single replicas sets, if there are as many brokers
_LISTED_BROKERS = 6  # brokers


def render_urgent_repair(plan: CreatedPlan, command: PlanCommandLine) -> Iterator[str]:
    """Render the command that repairs only the partitions below min.insync.replicas, if there are some now."""
    urgent = plan.facts.urgent_repair
    if urgent is None:
        return
    names = join_names(urgent.first_partitions, count=urgent.partitions)
    count = count_of(urgent.partitions, "partition")
    duration = ""
    if urgent.bytes_to_copy is not None:
        duration = f" in {estimate_duration(urgent.seconds)} ({format_bytes(urgent.bytes_to_copy)})"
    again = command.with_other_folder("-first").with_flag("--under-min-isr-partitions").change({})
    is_repaired = f"{is_or_are(urgent.partitions)} repaired{duration}"
    yield f"  first: {count} below min.insync.replicas ({names}) {is_repaired} by:"
    yield f"    {again}"
    yield "    then list the topics again, and plan the rest"


def render_disk_growth(plan: CreatedPlan) -> Iterator[str]:
    """Render the brokers whose disk grows most, while old and new replicas exist at the same time."""
    growth = plan.facts.disk_growth
    if not growth:
        return
    brokers = ", ".join(
        f"broker {one.broker} {format_bytes(one.before_bytes)} -> {format_bytes(one.peak_bytes)}" for one in growth
    )
    remedy = "check that there is room"
    if all(one.room_bytes is not None for one in growth):
        faults = [finding for finding in plan.facts.judgement.findings if finding.fault in DISK_FAULTS]
        full = sorted(
            {one.broker for one in growth if one.peak_bytes - one.before_bytes > (one.room_bytes or 0)}
            | {broker for finding in faults for broker in finding.brokers}
        )
        comparison, where = ("more than", f", on {name_with_noun(full)}") if full else ("within", "")
        remedy = f"{comparison} capacity.max_disk_ratio of their disks{where}"
    yield f"  disk, most while copying: {brokers}: {remedy}"


def render_log_dirs(plan: CreatedPlan) -> Iterator[str]:
    """Render the log dirs of a plan: the brokers whose fullest one changes most, or how many replicas get one."""
    summary, certificate = plan.summary, plan.summary.proposal.certificate
    if not isinstance(certificate, LogDirCertificate):
        if len(find_dir_moves(summary.model, summary.proposal)):
            yield from _render_dir_moves(summary)
        elif summary.proposal.log_dirs is not None and (summary.proposal.log_dirs != ANY).any():
            count = int(np.count_nonzero(summary.proposal.log_dirs != ANY))
            yield f"  log dirs: the plan chooses the one with most room for {count_of(count, 'copied replica')}"
        return
    brokers = certificate.brokers
    yield "  fullest log dir over the mean of the broker's log dirs, before -> after (proven lower bound):"
    for one in sorted(brokers, key=lambda one: (-one.max_over_mean_before, one.broker))[:_LISTED_BROKERS]:
        values = f"{one.max_over_mean_before:.3f} -> {one.max_over_mean:.3f} ({one.max_over_mean_lower_bound:.3f})"
        unit = "" if one.by_bytes else ", by replicas: its logs are empty"
        yield f"    broker {one.broker}, {one.log_dirs} log dirs: {values}{unit}"
    if len(brokers) > _LISTED_BROKERS:
        yield f"    {count_of(len(brokers) - _LISTED_BROKERS, 'more broker')}, see plan.json"
    yield from _render_dir_moves(summary)


def _render_dir_moves(summary: PlanSummary) -> Iterator[str]:
    """Render what a plan moves between log dirs, and how long that takes; nothing if it moves nothing."""
    moved, log_dirs = find_dir_moves(summary.model, summary.proposal), summary.model.log_dirs
    if not len(moved) or log_dirs is None:
        return
    on = count_of(len(np.unique(summary.model.replicas[moved])), "broker")
    size = format_bytes(float(log_dirs.size[moved].sum()))
    yield f"  moved between log dirs: {count_of(len(moved), 'replica')}, {size}, on {on}"
    throttle = f"{format_bytes(summary.waves.limits.throttle_bytes_per_s)}/s per broker (--throttle)"
    waves = count_of(len(summary.wave_reports), "wave")
    yield f"  {waves}, {format_duration(summary.seconds)} of moving at {throttle}; no network"


def name_dir_throttle(summary: PlanSummary) -> str:
    """Return the option of kafka-reassign-partitions that limits moves between log dirs; empty without any."""
    if not len(find_dir_moves(summary.model, summary.proposal)):
        return ""
    return f" --replica-alter-log-dirs-throttle {int(summary.waves.limits.throttle_bytes_per_s)}"


def render_racks(plan: CreatedPlan, command: PlanCommandLine) -> Iterator[str]:
    """Render what a repair does for racks, and why partitions stay in one; nothing without several racks."""
    model, proposal = plan.summary.model, plan.summary.proposal
    if plan.facts.request.goal != "repair" or len(np.unique(model.rack[model.live])) < 2:
        return
    cap = build_rules(model, plan.facts.request).rack_cap
    before = find_rack_violations(model, cap)
    after = before & find_rack_violations(model.with_lists(proposal.offsets, proposal.replicas), cap)
    if before.any():
        spread = f"{before.sum() - after.sum():,} of {count_of(int(before.sum()), 'partition')}"
        yield f"  racks: the plan spreads {spread} with too many replicas in one rack"
    for code in np.unique(model.frozen[after]).tolist():
        rows = np.flatnonzero(after & (model.frozen == code))
        reason = FreezeReason(code).explanation if code != FREE else _name_limits(plan.facts.request)
        yield f"    {count_of(len(rows), 'partition')} not spread ({model.describe_partitions(rows)}): {reason}"
    single = np.flatnonzero((model.factor == 1) & (model.frozen == FREE))
    if len(single):
        again = change_factor(model, single, min(_FACTOR, int(model.live.sum())), command.source)
        one = f"{count_of(len(single), 'partition')} ({model.describe_partitions(single)}) with replication factor 1"
        yield f"  not addressed: {one}, offline with any broker or rack: {again}"


def _name_limits(request: PlanRequest) -> str:
    """Name the options for which a repair leaves out partitions that could change."""
    options = {
        "--brokers": request.brokers,
        "--max-bytes": request.max_bytes is not None,
        "--max-moves": request.max_moves is not None,
        "--at-min-isr-partitions": request.at_min_isr_partitions,
        "--under-min-isr-partitions": request.under_min_isr_partitions,
        "--exclude-brokers": request.exclude_brokers,
    }
    used = [option for option, is_used in options.items() if is_used]
    return f"left out because of {join_names(used)}" if used else "no broker of another rack can take them"


def render_extra_replicas(plan: CreatedPlan, command: PlanCommandLine) -> Iterator[str]:
    """Render the partitions that have more replicas than their topics after a repair, and what removes these."""
    model, factor = plan.summary.model, np.diff(plan.summary.proposal.offsets)
    has_more = (factor > model.declared_factor) & (model.frozen == FREE) & (plan.facts.request.goal == "repair")
    for declared in np.unique(model.declared_factor[has_more]).tolist():
        rows = np.flatnonzero(has_more & (model.declared_factor == declared))
        count = f"{count_of(len(rows), 'partition')} ({model.describe_partitions(rows)})"
        again = change_factor(model, rows, declared, command.source)
        declare = f"with more than {count_of(declared, 'replica')}, as their topics declare"
        yield f"  not addressed: {count} {declare}: {again}"


def render_rack_repairs(plan: CreatedPlan, command: PlanCommandLine) -> Iterator[str]:
    """Render how much of a plan for another goal repairs rack violations, and the command that leaves them."""
    repairs = getattr(plan.summary.proposal.certificate, "rack_repairs", None)
    if repairs is None:
        return
    size = f" ({format_bytes(repairs.bytes)})" if plan.summary.model.known[0] else ""
    copied = f"{count_of(repairs.replicas, 'replica')}{size} {is_or_are(repairs.replicas)} copied"
    again = command.with_other_folder("-without-racks").with_flag("--keep-rack-violations").change({})
    goal = plan.facts.request.goal
    purpose = f"not to {goal}; without that: {again}"
    if goal == "repair":
        model = plan.summary.model
        down = model.ids(np.flatnonzero(~model.live & (np.bincount(model.replicas, minlength=model.brokers) > 0)))
        if not down or plan.facts.request.brokers:
            return
        ids = ",".join(map(str, down))
        others = command.with_other_folder("-without-racks").change({"--brokers": (ids,)})
        purpose = f"not to replace what is on {name_with_noun(down)}; without partitions that are only that: {others}"
    yield f"  rack violations: at least {copied} only to repair them, {purpose}"


def render_drained_share(plan: CreatedPlan, command: PlanCommandLine) -> Iterator[str]:
    """Render how much of a drain leaves the drained brokers, and the command that copies no more than that."""
    model, proposal = plan.summary.model, plan.summary.proposal
    if plan.facts.request.goal != "drain":
        return
    drained = list_emptied_brokers(model, plan.facts.request)
    leaves = model.with_lists(proposal.offsets, proposal.replicas).find_copied(model)
    leaves &= np.isin(model.broker_ids, drained)[model.replicas]
    if plan.summary.metrics.moves <= leaves.sum():
        return
    size = f" ({format_bytes(float(model.size[model.row[leaves]].sum()))})" if model.known[0] else ""
    again = command.with_other_folder("-only").with_flag("--keep-rack-violations").change({})
    remedy = f"; without it: {again}" if "--keep-rack-violations" not in command.options else ""
    replicas = f"{count_of(int(leaves.sum()), 'replica')}{size}"
    yield f"  of these, {replicas} leave {name_with_noun(drained)}; the rest evens out the others{remedy}"


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
    spread = bottleneck.even_spread
    rack = f" in rack {spread.even_rack}" if spread.even_rack is not None else ""
    brokers = f"{count_of(spread.even_brokers, 'broker')}{' to fill' if spread.fills_brokers else ''}{rack}"
    bytes_ = "what cannot leave the rack" if rack else "these bytes"
    yield f"    spread evenly over {brokers}, {bytes_} would take at least {format_duration(spread.even_seconds)}"
    if bottleneck.reason is not None:
        yield f"    why: {bottleneck.reason}"
    alternatives = 0
    for faster in plan.facts.faster_plans:
        yield f"    faster: {_describe_faster(faster, plan)}"
        if faster.throttle is not None:
            config = f"--add-config {faster.throttle.config}={faster.throttle.bytes_per_s}"
            alter = (
                f"kafka-configs --bootstrap-server {server} --alter --entity-type brokers --entity-name $id {config}"
            )
            loop = f"for id in {' '.join(map(str, faster.throttle.brokers))}; do {alter}; done"
            yield f"      {loop}    # after each --execute, which resets it"
        else:
            alternatives += 1
            suffix = "-faster" if alternatives == 1 else f"-faster-{alternatives}"
            yield f"      {command.with_other_folder(suffix).change(faster.options)}"
    if not plan.facts.faster_plans:
        yield "    no faster alternative: none that was tried saves a tenth of the time"


def render_cheaper(plan: CreatedPlan, command: PlanCommandLine) -> Iterator[str]:
    """Render the alternative that copies less."""
    if (cheaper := plan.facts.cheaper_plan) is not None:
        yield f"  copies less: {_describe_faster(cheaper, plan)}"
        yield f"    {command.with_other_folder('-cheaper').change(cheaper.options)}"


def _describe_faster(faster: FasterPlan, plan: CreatedPlan) -> str:
    """Describe an alternative, its duration, and what else differs from the plan."""
    duration, planned = estimate_duration(faster.seconds), format_duration(plan.summary.seconds)
    text = f"{faster.description}: {duration} of copying instead of {planned}"
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


_LISTED_PARTITIONS = 6  # partitions by name
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
        names = join_names((model.name(row) for row in waves.oversized.tolist()), _LISTED_PARTITIONS)
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
    lagging = find_lagging_brokers(model)
    if len(rest) and len(lagging):
        yield f"    once the replicas that are out of sync on {model.describe_brokers(lagging)} have caught up:"
    yield from _list_restarts(model, rest[later[rest] != NEVER], later)
    blocked, is_incomplete = caught_up.blocked_by_restart[-1], caught_up.incomplete_at_end > 0
    until_then = health.blocked_by_restart[-1]
    rest = rest[later[rest] == NEVER]
    lost = model.describe_brokers(np.unique(model.replicas[~model.is_usable]))
    reasons = {
        f"which leaves replicas on {lost}": is_incomplete,
        "as min.insync.replicas equals the replication factor there": ~is_incomplete,
    }
    for reason, has_reason in reasons.items():
        names = [
            f"{model.broker_ids[broker]} ({count_of(int(blocked[broker]), 'partition')}"
            + (f", until then {until_then[broker]:,})" if until_then[broker] != blocked[broker] else ")")
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
        "offline or blocked if a broker fails, RF > 1": health.blocked_by_restart.max(axis=1, initial=0),
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
