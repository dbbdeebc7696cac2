"""Infers which brokers are live, down or of unknown state, from what all sources of a cluster show of them.

`what-if` and the pipeline call the same functions. In computations a broker of unknown state counts as live: nothing
shows that it is down.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.merge.entities import BROKERS, CONFLICTS, FIRST_USED, USAGE
from udfs.arrow.columns import is_valid, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import is_in_segment, row_of
from udfs.plurals import count_of

# The condition in SQL: a broker of unknown state counts as live.
COUNTS_AS_LIVE = "live IS NOT FALSE"

Broker = Mapping[str, Any]  # columns of REGISTRATIONS and USAGE, and `others_are_registered`


def count_usage(partitions: pa.Table, fully_shown: npt.NDArray[np.bool_]) -> pa.Table:
    """Count what each broker does in n partitions (schema PARTITIONS); returns schema USAGE.

    fully_shown: bool (n), whether the sources surely show every partition of the topic, and so no selection of them.
    """
    replicas, isr, elr, last_elr = (to_lists(partitions[name]) for name in ("replicas", "isr", "elr", "last_known_elr"))
    leader = to_numpy(partitions["leader"], -1).astype(np.int64)
    knows_leader = is_valid(partitions["leader"])
    is_leaderless = knows_leader & (leader < 0)
    is_empty = isr.lengths + elr.lengths + last_elr.lengths == 0
    row = row_of(replicas.offsets)

    def is_in(name: str) -> npt.NDArray[np.bool_]:
        lists = to_lists(partitions[name])
        return is_in_segment(replicas.values, replicas.offsets, lists.values, lists.offsets)

    is_offline, shows_offline = is_in("offline_replicas"), is_valid(partitions["offline_replicas"])[row]
    is_adding = is_in("adding_replicas")
    is_observer = is_in("observers") & ~is_adding
    is_voter = ~is_adding & ~is_observer  # expected in the ISR, if its broker is live
    is_known = (knows_leader & isr.valid)[row]
    parts: dict[str, npt.NDArray[Any]] = {
        "replicas": replicas.values,
        "leaders": leader[leader >= 0],
        "in_sync": isr.values[np.repeat(leader >= 0, isr.lengths)],
        "leaderless_isr": isr.values[np.repeat(is_leaderless, isr.lengths)],
        "leaderless_elr": elr.values[np.repeat(is_leaderless, elr.lengths)],
        "leaderless_empty": replicas.values[(is_leaderless & isr.valid & is_empty)[row]],
        "online_replicas": replicas.values[shows_offline & ~is_offline],
        "offline_replicas": replicas.values[is_offline],
        "adding_replicas": replicas.values[is_adding],
        "observer_replicas": replicas.values[is_observer],
        "unknown_replicas": replicas.values[is_voter & ~is_known],
        "filtered_replicas": replicas.values[is_voter & is_known & ~fully_shown[row]],
    }
    # Each part has few distinct ids; sorting all replicas at once costs more than all the rest.
    distinct = {name: np.unique(part, return_counts=True) for name, part in parts.items()}
    named = [np.unique(isr.values), *(ids for ids, _ in distinct.values())]  # replicas may be unknown, and so a leader
    ids = np.unique(np.concatenate([part.astype(np.int64) for part in named]))
    columns = {"broker_id": pa.array(ids, pa.int32())}
    for name, (part_ids, count) in distinct.items():
        counts = np.zeros(len(ids), dtype=np.int64)
        counts[np.searchsorted(ids, part_ids)] = count
        columns[name] = pa.array(counts)
    return pa.table(columns).select(USAGE.names).cast(USAGE)


class Evidence(NamedTuple):
    """One kind of evidence: what it shows, on which brokers it exists, and how it is said."""

    live: bool | None  # None = it shows that the state is unknown
    exists: Callable[[Broker], Any]
    reason: Callable[[Broker], str]


def _say(text: str) -> Callable[[Broker], str]:
    return lambda _broker: text


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _count_voters(broker: Broker) -> int:
    """Count the replicas of which one would be in an ISR if the broker was live."""
    exempt = ("adding_replicas", "observer_replicas", "unknown_replicas", "filtered_replicas")
    return int(broker["replicas"] - sum(broker[name] for name in exempt))


def _is_in_use(broker: Broker) -> bool:
    return bool(broker["leaders"] or broker["in_sync"])


def _describe_use(broker: Broker) -> str:
    if broker["leaders"]:
        use = f"leads {count_of(broker['leaders'], 'partition')}"
    else:
        verb = "has" if broker["in_sync"] == 1 else "have"
        use = f"in the ISR of {count_of(broker['in_sync'], 'partition')} that {verb} a leader"
    return f"{use}, which is later than its registration as fenced" if broker["fenced"] else use


def _describe_unknown(broker: Broker) -> str:
    places = {
        "adding_replicas": "in Adding Replicas",
        "observer_replicas": "as an observer",
        "filtered_replicas": "in a filtered or incomplete listing",
        "unknown_replicas": "in partitions of which no source shows leader and ISR",
    }
    named = [text for name, text in places.items() if broker[name]]
    return f"only {' and '.join(named)}" if named else "no source shows what it does"


# The first evidence that exists on a broker decides. It is ordered from what Kafka itself states to what follows from
# absence; an inventory is weaker than an absence, because people do not update it when a broker fails.
EVIDENCE = (
    Evidence(False, lambda b: b["registered"] is False, _say("unregistered")),
    Evidence(True, _is_in_use, _describe_use),
    Evidence(
        True,  # with some replicas offline, a log directory failed, and not the broker
        lambda b: b["online_replicas"],
        lambda b: f"{b['online_replicas']} of its replicas {_be(b['online_replicas'])} listed as online",
    ),
    Evidence(
        False,
        lambda b: b["offline_replicas"],
        lambda b: f"its {count_of(b['offline_replicas'], 'replica')} {_be(b['offline_replicas'])} listed as offline",
    ),
    Evidence(False, lambda b: b["fenced"], _say("fenced")),
    Evidence(True, lambda b: b["registered"], _say("registered")),
    Evidence(True, lambda b: b["answers"], _say("answers kafka-log-dirs or kafka-broker-api-versions")),
    Evidence(True, lambda b: b["controller"], _say("the active controller")),
    Evidence(False, lambda b: b["listed"] is False, _say("not in the broker list")),  # a model's `removed` names it
    Evidence(False, lambda b: b["others_are_registered"], _say("not registered")),
    # Members of the ISR or ELR of a leaderless partition were the last in sync: one that was live would lead.
    Evidence(False, lambda b: b["leaderless_isr"], _say("only in the ISR of leaderless partitions")),
    Evidence(
        False, lambda b: _count_voters(b) > 0, lambda b: f"in no ISR of its {count_of(_count_voters(b), 'replica')}"
    ),
    Evidence(False, lambda b: b["leaderless_elr"], _say("only in the ELR of leaderless partitions")),
    # A new partition is led by any live replica, and its ISR never becomes empty after that.
    Evidence(False, lambda b: b["leaderless_empty"], _say("only in leaderless partitions with an empty ISR")),
    Evidence(True, lambda b: b["listed"] and not b["filtered_replicas"], _say("in the broker list")),
    Evidence(None, lambda _: True, _describe_unknown),
)


def infer_brokers(registrations: pa.Table, usage: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return (a cluster's brokers, schema BROKERS; conflicts: down brokers that lead partitions all the same).

    Broker ids are unique in registrations (schema REGISTRATIONS) and in usage (schema USAGE).
    """
    declared = {row["broker_id"]: row for row in registrations.to_pylist()}
    used = {row["broker_id"]: row for row in usage.to_pylist()}
    has_full_listing = any(row["from_full_listing"] for row in declared.values())
    defaults = {**dict.fromkeys(registrations.schema.names), **dict.fromkeys(USAGE.names, 0)}
    rows = []
    for broker_id in sorted(declared.keys() | used.keys()):
        row = {**defaults, **declared.get(broker_id, {}), **used.get(broker_id, {}), "broker_id": broker_id}
        row["others_are_registered"] = has_full_listing
        evidence = next(evidence for evidence in EVIDENCE if evidence.exists(row))
        row.update(live=evidence.live, live_reason=evidence.reason(row))
        row.update(draining=bool(row["draining"]), controller=bool(row["controller"]))
        rows.append({name: row[name] for name in BROKERS.names})
    brokers = pa.Table.from_pylist(rows, BROKERS)
    return brokers, find_leading_down_brokers(brokers)


def find_leading_down_brokers(brokers: pa.Table) -> pa.Table:
    """Return a conflict (schema CONFLICTS) for each down broker (schema BROKERS) that leads partitions all the same."""
    rows = brokers.filter(pc.and_(pa.array(_is_down(brokers)), pc.greater(brokers["leaders"], 0)))
    conflicts = [
        {
            "entity": f"broker {row['broker_id']}",
            "field": "live",
            "value": f"down: {row['live_reason']}",
            "other_value": f"leads {count_of(row['leaders'], 'partition')}",
            "outcome": FIRST_USED,
        }
        for row in rows.to_pylist()
    ]
    return pa.Table.from_pylist(conflicts, CONFLICTS)


def get_down_brokers(brokers: pa.Table) -> npt.NDArray[np.int32]:
    """Return the ids (int32) of the down brokers of a table (schema BROKERS)."""
    return _get_ids(brokers)[_is_down(brokers)]


def get_live_brokers(brokers: pa.Table) -> npt.NDArray[np.int32]:
    """Return the ids (int32, ascending) of the brokers of a table (schema BROKERS) that are not known to be down."""
    return np.sort(_get_ids(brokers)[~_is_down(brokers)])


def get_unknown_brokers(brokers: pa.Table) -> npt.NDArray[np.int32]:
    """Return the ids (int32, ascending) of the brokers of a table (schema BROKERS) of unknown state."""
    return np.sort(_get_ids(brokers)[~is_valid(brokers["live"])])


def _get_ids(brokers: pa.Table) -> npt.NDArray[np.int32]:
    return to_numpy(brokers["broker_id"]).astype(np.int32)


def _is_down(brokers: pa.Table) -> npt.NDArray[np.bool_]:
    return is_valid(brokers["live"]) & ~to_flags(brokers["live"])
