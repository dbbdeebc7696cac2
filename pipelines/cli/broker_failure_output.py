"""`what-if` without `--fail`: which brokers can be lost now, one by one, and the cluster's verdict."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.cli.units import many
from pipelines.cli.what_if_output import Before, TopicDefaults, before, leaders_of, left_out, notes, summary
from pipelines.errors import SourceError
from pipelines.ingest.merge.inferred_state import live_brokers
from pipelines.ingest.snapshot import Snapshot
from pipelines.report.verdict import BAD, GOOD, WARNING, loss_of, verdict_of
from udfs.failures.kernels.election import NO_LEADER

LEVELS = {BAD: "AT RISK", WARNING: "LOOK AT IT", GOOD: "FINE"}


def broker_failures(snapshot: Snapshot, defaults: TopicDefaults) -> dict[str, Any]:
    """The object that `what-if --json` writes without `--fail`: brokers are those that live, by id."""
    now = before(snapshot, defaults)
    live = live_brokers(snapshot.brokers)
    if not len(live) and not snapshot.partitions.num_rows:
        rejected = many(len(snapshot.quarantined), "record")
        problem = f"its sources tell of no partition and of no broker that lives ({rejected} rejected)"
        raise SourceError(snapshot.cluster_id, problem, "See inspect for each file, and why")
    rejecting = now.rejecting
    rows = [_failure(now, broker, rejecting) for broker in live.tolist()]
    omitted = left_out(snapshot, ())
    return {
        "cluster": snapshot.cluster_id,
        "partitions": len(now.state.leader),
        "verdict": verdict_of(_hotspots(now, live), rows, omitted["quarantined_records"]),
        "brokers": [{**row, "can_i_lose_it": loss_of(row)[1]} for row in rows],
        "left_out": omitted,
    }


def _hotspots(now: Before, live: np.ndarray) -> dict[str, Any]:
    """As gold.leader_hotspots has it."""
    leader = now.state.leader
    led = leaders_of(leader, live)
    return {
        "partitions": len(leader),
        "leaders": int((leader != NO_LEADER).sum()),
        "max_over_mean_ratio": float(led.max() / led.mean()) if led.sum() else None,
        "hottest_broker": int(live[led.argmax()]) if led.sum() else None,
    }


def _failure(now: Before, broker: int, rejecting: int) -> dict[str, Any]:
    """As gold.failure_summary has it."""
    found = summary(now, *now.after([broker]), [broker])
    return {
        "failed": broker,
        "leaders_lost": int((now.state.leader == broker).sum()),
        "takeover_brokers": len(found["takeovers"]),
        "newly_offline_partitions": found["offline_after"] - found["offline_before"],
        "under_min_isr_before_partitions": rejecting,
        "under_min_isr_partitions": found["under_min_isr_after"],
        "single_isr_partitions": found["at_one_replica_after"],
        "unclean_elections": found["unclean_elections"],
        "worst_survivor": found["worst_survivor"],
        "worst_survivor_ratio": found["worst_survivor_max_over_mean"],
    }


def lines(answer: dict[str, Any]) -> list[str]:
    """The answer as a person reads it (answer: of `failures`): the brokers that are worst to lose come first."""
    verdict, brokers = answer["verdict"], answer["brokers"]
    counted = f"{many(len(brokers), 'live broker')}, {many(answer['partitions'], 'partition')}"
    out = [f"cluster {answer['cluster']}, {counted}", f"  {LEVELS[verdict['level']]}: {verdict['sentence']}"]
    out += [f"  - {point['text']}" for point in verdict["points"] if point["text"] != verdict["sentence"]]
    out += notes({**answer["left_out"], "quarantined_records": 0})  # the verdict has them
    if brokers:
        out.append("Can I lose this broker now?")
    width = max((len(str(row["failed"])) for row in brokers), default=0)
    for row in sorted(brokers, key=_worst_first):
        ratio, took = row["worst_survivor_ratio"], f"{row['takeover_brokers']} take over"
        worst = "" if ratio is None else f", the worst survivor (broker {row['worst_survivor']}) {ratio:.2f} x the mean"
        out.append(f"  {row['failed']:>{width}}  {row['can_i_lose_it']} (leads {row['leaders_lost']}, {took}{worst})")
    return out


def _worst_first(row: dict[str, Any]) -> tuple[Any, ...]:
    ratio = row["worst_survivor_ratio"] or 0
    lost = (-row["newly_offline_partitions"], -row["unclean_elections"])
    return (*lost, -row["under_min_isr_partitions"], -ratio, row["failed"])
