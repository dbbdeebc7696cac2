"""What disks and survivors cannot take, now and after a failure, where sizes, rates and capacities are known."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Any

from pipelines.verdict import statements
from pipelines.verdict.cluster_evidence import ClusterEvidence, ClusterFindings
from pipelines.verdict.naming import name_any, name_brokers
from pipelines.verdict.replica_findings import can_repair
from pipelines.verdict.verdict_points import Statement, VerdictPoint
from udfs.failures.disk_after_failure import LOG_DIR, NOTHING
from udfs.failures.scenarios import ScenarioKind
from udfs.quantities import format_bytes

_Rows = Sequence[Mapping[str, Any]]
QUANTITIES = {"bytes_in_per_s": "bytes in", "bytes_out_per_s": "bytes out"}  # rates in sentences


def judge_limits(evidence: ClusterEvidence) -> Iterator[VerdictPoint]:
    """Yield what does not fit on disks, survivors over their capacity, and uneven log dirs."""
    findings = evidence.findings
    rows = [row for row in evidence.disk_failures if row["fits"] is False]
    rows.sort(key=itemgetter("scenario_kind", "failed_brokers", "scenario"))
    for row in rows:
        if row["scenario_kind"] == NOTHING and not findings.full_log_dirs:
            percent = f"{100 * row['fullest_disk_ratio']:.0f} %"
            yield statements.DISK_OVER_LIMIT.fill(1, broker=row["fullest_broker"], percent=percent)
    lost = [row for row in rows if row["scenario_kind"] != NOTHING and _is_copied(row, findings)]
    racks = [row for row in lost if row["scenario_kind"] == ScenarioKind.RACK]
    yield from _judge_disks(
        statements.DISK_TOO_SMALL, [row for row in lost if row["scenario_kind"] != ScenarioKind.RACK], findings
    )
    yield from _judge_disks(statements.RACK_DISK_TOO_SMALL, racks, findings)
    if over := [row for row in evidence.over_capacity if row["quantity"] in QUANTITIES]:
        yield _judge_survivors(over, findings)
    if uneven := findings.uneven_log_dirs:
        brokers = f"broker{'s' if len(uneven) > 1 else ''} {name_brokers([name.split()[-1] for name in uneven])}"
        yield statements.UNEVEN_LOG_DIRS.fill(len(uneven), brokers=brokers, log_dirs=name_brokers(uneven))


def _is_copied(row: Mapping[str, Any], findings: ClusterFindings) -> bool:
    """Return whether as many brokers stay as partitions have replicas (median): else nothing is copied."""
    lost = 0 if row["scenario_kind"] == LOG_DIR else len(row["failed_brokers"])
    return can_repair(findings.live_brokers - lost, findings.replication_factor)


def _judge_disks(statement: Statement, rows: _Rows, findings: ClusterFindings) -> Iterator[VerdictPoint]:
    if not rows:
        return
    worst = max(rows, key=lambda row: row["bytes_to_copy"] - row["free_bytes"])
    sizes: dict[str, Any] = {"bytes": format_bytes(worst["bytes_to_copy"]), "free": format_bytes(worst["free_bytes"])}
    more: dict[str, Any] = {"worst": _name_lost(worst)} if len(rows) > 1 else {}
    yield statement.fill(len(rows), failed=_name_all([_name_lost(row) for row in rows], findings), **sizes, **more)


def _judge_survivors(over: list[Mapping[str, Any]], findings: ClusterFindings) -> VerdictPoint:
    over.sort(key=itemgetter("quantity", "failed_brokers", "broker_id"))
    worst = max(over, key=lambda row: round(row["load_after"] / row["capacity"], 6) if row["capacity"] else inf)
    load, capacity = (f"{format_bytes(worst[name])}/s" for name in ("load_after", "capacity"))
    failed = [f"broker {broker}" for broker in sorted({row["failed_brokers"][0] for row in over})]
    values: dict[str, Any] = {"failed": _name_all(failed, findings), "survivor": worst["broker_id"]}
    values |= {"worst": f"broker {worst['failed_brokers'][0]}"} if len(failed) > 1 else {}
    values |= {"load": load, "capacity": capacity, "quantity": QUANTITIES[worst["quantity"]]}
    return statements.SURVIVOR_OVER_CAPACITY.fill(len(failed), **values)


def _name_all(names: Sequence[str], findings: ClusterFindings) -> str:
    """Name what fails, as in `any single broker or log dir /data1 of broker 2`."""
    brokers = [name for name in names if name.startswith(ScenarioKind.BROKER)]
    if len(brokers) == findings.live_brokers > 1:
        names = ["any single broker", *names[len(brokers) :]]
    return name_any(names)


def _name_lost(row: Mapping[str, Any]) -> str:
    """Name what is lost, as in `broker 2`, `rack east` or `log dir /data1 of broker 2`."""
    kind, name = row["scenario"].split(":", 1)
    if kind != LOG_DIR:
        return f"{kind} {name}"
    broker, path = name.split(":", 1)
    return f"log dir {path} of broker {broker}"
