"""Text about the log dirs of a plan: those that it evens out, and those of the replicas that it copies."""

from collections.abc import Iterator

import numpy as np

from pipelines.cli.text_format import format_bytes, format_duration
from pipelines.plan_files.plan_creation import CreatedPlan
from udfs.planning.broker_log_dirs import ANY
from udfs.planning.certificates import BrokerLogDirBalance, LogDirCertificate
from udfs.planning.model_log_dirs import find_dir_moves
from udfs.planning.plan_metrics import PlanSummary
from udfs.plurals import count_of

_LISTED = 6  # brokers


def render_log_dirs(plan: CreatedPlan) -> Iterator[str]:
    """Render the log dirs of a plan: the brokers whose fullest one changes most, or how many replicas get one."""
    summary, certificate = plan.summary, plan.summary.proposal.certificate
    if isinstance(certificate, LogDirCertificate):
        yield from _render_balance(certificate)
        yield from _render_waves(summary)
    elif summary.proposal.log_dirs is not None:
        count = int(np.count_nonzero(summary.proposal.log_dirs != ANY))
        yield f"  log dirs: the plan chooses the one with most room for {count_of(count, 'copied replica')}"


def _render_balance(certificate: LogDirCertificate) -> Iterator[str]:
    brokers = certificate.brokers
    moved = [one for one in brokers if one.replicas_moved]
    replicas, bytes_ = sum(one.replicas_moved for one in brokers), sum(one.bytes_moved for one in brokers)
    if moved:
        on = count_of(len(moved), "broker")
        yield f"  moved between log dirs: {count_of(replicas, 'replica')}, {format_bytes(bytes_)}, on {on}"
    yield "  fullest log dir over the mean of the broker's log dirs, before -> after (proven lower bound):"
    worst = sorted(brokers, key=lambda one: (-one.max_over_mean_before, one.broker))
    yield from map(_describe_broker, worst[:_LISTED])
    if len(worst) > _LISTED:
        yield f"    {count_of(len(worst) - _LISTED, 'more broker')}, see plan.json"


def _describe_broker(one: BrokerLogDirBalance) -> str:
    values = f"{one.max_over_mean_before:.3f} -> {one.max_over_mean:.3f} ({one.max_over_mean_lower_bound:.3f})"
    unit = "" if one.by_bytes else ", by replicas: its logs are empty"
    return f"    broker {one.broker}, {one.log_dirs} log dirs: {values}{unit}"


def _render_waves(summary: PlanSummary) -> Iterator[str]:
    if not summary.wave_reports:
        return
    throttle = f"{format_bytes(summary.waves.limits.throttle_bytes_per_s)}/s per broker (--throttle)"
    duration = format_duration(summary.seconds)
    about = "" if duration.startswith("under") else "about "
    yield f"  {count_of(len(summary.wave_reports), 'wave')}, {about}{duration} of moving at {throttle}; no network"


def name_dir_throttle(summary: PlanSummary) -> str:
    """Return the option of kafka-reassign-partitions that limits moves between log dirs; empty without any."""
    if not len(find_dir_moves(summary.model, summary.proposal)):
        return ""
    return f" --replica-alter-log-dirs-throttle {int(summary.waves.limits.throttle_bytes_per_s)}"
