"""Which brokers a cluster has, and which of them live: this needs the cluster as a whole.

Evidence, strongest first: a registration (ZooKeeper, KRaft), a fence; an answer to kafka-log-dirs; the partitions
themselves - a broker that leads, or is in the ISR of a led partition, lives; being the controller; no place in a
complete broker list; no registration where others are shown; no part in any ISR, for a broker that holds replicas.
A replica on an unregistered broker is legitimate: that broker is down.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.ingest.merge.merged_schemas import CONFLICTS, USAGE, USED
from udfs.arrow.columns import Lists, numbers, valid

BROKERS = pa.schema(
    [
        ("broker_id", pa.int32()),
        ("rack", pa.string()),
        ("host", pa.string()),
        ("port", pa.int32()),
        ("live", pa.bool_()),
        ("live_reason", pa.string()),
        ("registered", pa.bool_()),
        ("fenced", pa.bool_()),
        ("controller", pa.bool_()),
        ("draining", pa.bool_()),
        ("replicas", pa.int64()),
        ("leaders", pa.int64()),
    ]
)


def usage(partitions: pa.Table) -> pa.Table:
    """What each broker id does in these partitions (schema USAGE; partitions: schema PARTITIONS)."""
    replicas, isr = Lists.of(partitions["replicas"]), Lists.of(partitions["isr"])
    leader = numbers(partitions["leader"], -1).astype(np.int64)
    led = np.repeat(leader >= 0, np.diff(isr.offsets))
    silent = np.repeat(~valid(partitions["leader"]) & ~isr.valid, np.diff(replicas.offsets))
    every = (replicas.flat, leader[leader >= 0], isr.flat[led], replicas.flat[silent])
    # The ISR of a leaderless partition counts as nothing, but names brokers: its replicas may be unknown.
    # Distinct ids part by part: those are few, and sorting all replicas at once costs more than all the rest.
    each = [np.unique(part, return_counts=True) for part in (*every, isr.flat)]
    ids = np.unique(np.concatenate([found.astype(np.int64) for found, _ in each]))
    counts = []
    for found, count in each[:-1]:
        counts.append(np.zeros(len(ids), dtype=np.int64))
        counts[-1][np.searchsorted(ids, found)] = count
    return pa.Table.from_arrays([pa.array(ids, pa.int32()), *(pa.array(c, pa.int64()) for c in counts)], schema=USAGE)


def _life(row: dict[str, Any], all_register: bool) -> tuple[bool, str]:
    if row["registered"] is False:
        return False, "unregistered"
    if row["fenced"]:
        return False, "fenced"
    if row["registered"]:
        return True, "registered"
    if row["answers"]:
        return True, "answers"
    if row["leaders"] or row["in_sync"]:
        return True, "leads or is in sync"  # also where registrations are shown: they may be an excerpt
    if row["controller"]:
        return True, "is the controller"  # an ephemeral znode: it goes with its broker
    if row["listed"] is False:
        return False, "not in the broker list"  # a model's `removed` may still name it
    if all_register:
        return False, "not registered"
    if row["unknown"] == row["replicas"] and not row["in_isr_only"]:
        return True, "nothing says otherwise"
    return False, "leads nothing and is in no ISR"


def assess_brokers(registrations: pa.Table, used: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(one row per broker (schema BROKERS), conflicts) of one cluster.

    registrations: schema REGISTRATIONS.   used: schema USAGE. Broker ids are unique in each.
    """
    known = {row["broker_id"]: row for row in registrations.to_pylist()}
    work = {row["broker_id"]: row for row in used.to_pylist()}
    all_register = any(row["registered"] for row in known.values())
    nothing = dict.fromkeys(registrations.schema.names)
    idle = dict.fromkeys(USAGE.names, 0)
    rows, against = [], []
    for broker_id in sorted(known.keys() | work.keys()):
        row = {**nothing, **idle, **known.get(broker_id, {}), **work.get(broker_id, {}), "broker_id": broker_id}
        row["in_isr_only"] = broker_id in work and not row["replicas"]  # and if it leads nothing, of no led partition
        live, because = _life(row, all_register)
        if not live and row["leaders"]:
            against.append(
                {
                    "entity": f"broker {broker_id}",
                    "field": "live",
                    "value": f"down: {because}",
                    "other_value": f"leads {row['leaders']} partitions",
                    "outcome": USED,
                }
            )
        row.update(live=live, live_reason=because, draining=bool(row["draining"]), controller=bool(row["controller"]))
        rows.append(row)
    keep = [{name: row[name] for name in BROKERS.names} for row in rows]
    return pa.Table.from_pylist(keep, BROKERS), pa.Table.from_pylist(against, CONFLICTS)
