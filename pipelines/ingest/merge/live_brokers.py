"""Infers which brokers are live, down or of unknown state, from what all sources of a cluster show of them.

`what-if` and the pipeline call the same functions. In computations a broker of unknown state counts as live: nothing
shows that it is down.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.checked_values import quote
from pipelines.ingest.formats.kafka_versions import combine
from pipelines.ingest.merge.entities import BROKERS, CONFLICTS, FIRST_USED, USAGE
from udfs.arrow.columns import is_in_lists, is_valid, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import row_of
from udfs.failures.topic_defaults import CAPS_MIN_ISR, UNKNOWN_RELEASE, ReleaseRange, holds_since, read_releases
from udfs.wording import count_of, is_or_are

Broker = Mapping[str, Any]  # columns of REGISTRATIONS and USAGE, `others_are_registered`, `others_have_api_versions`

# What people and tools write in the state column of a broker list.
_LIVE = frozenset({"UP", "LIVE", "ALIVE", "ONLINE", "RUNNING", "ACTIVE", "AKTIV", "STARTED", "HEALTHY", "TRUE", "YES"})
_DOWN = frozenset({"DOWN", "DEAD", "OFFLINE", "STOPPED", "FAILED", "CRASHED", "TERMINATED", "FALSE", "NO"})


class Evidence(NamedTuple):
    """One kind of evidence: what it shows, on which brokers it exists, and how it is said."""

    live: bool | None  # None = it shows that the state is unknown
    exists: Callable[[Broker], Any]
    reason: str  # with the names of _write_texts


def _count_voters(broker: Broker) -> int:
    """Count the replicas of which one would be in an ISR if the broker was live."""
    exempt = ("adding", "observer", "deleted", "waiting", "unknown", "filtered")
    return int(broker["replicas"] - sum(broker[f"{name}_replicas"] for name in exempt))


def _is_out_of_all_isrs(broker: Broker) -> bool:
    """Return whether a broker is surely down, because none of its replicas is in sync; a single one may only lag."""
    voters = _count_voters(broker)
    return voters > 1 or (voters == 1 and broker["answers"] is False)


def _is_in_use(broker: Broker) -> bool:
    return bool(broker["leaders"] or broker["in_sync"])


def _lacks_registration(broker: Broker) -> bool:
    """Return whether a source that lists all live brokers lacks one, and no other source shows that it answers."""
    answers = broker["answers"] or broker["controller"] or broker["reported_live"]
    is_missing = broker["missing_from"] if broker["registered"] else broker["others_are_registered"]
    return bool(is_missing and not answers)


def _doubt(exists: Callable[[Broker], Any], text: str) -> Evidence:
    """Make the evidence that a broker in use is not live: the sources are of two moments, and neither is surely now."""
    return Evidence(None, lambda broker: _is_in_use(broker) and exists(broker), f"{{use}}, but {text}")


def _find_listed_state(broker: Broker) -> bool | None:
    """Return what a broker list says of a broker's state: live, down, or None for nothing or neither."""
    word = (broker["listed_state"] or "").strip().upper()
    return True if word in _LIVE else False if word in _DOWN else None


_PLACES = {
    "adding_replicas": "in Adding Replicas",
    "observer_replicas": "as an observer",
    "deleted_replicas": "in topics that are marked for deletion",
    "waiting_replicas": "in leaderless partitions, whose ISR no broker can join",
    "filtered_replicas": "in a filtered or incomplete listing",
    "unknown_replicas": "in partitions of which no source shows leader and ISR",
}


def _write_texts(broker: Broker) -> dict[str, str]:
    """Write what reasons name of a broker."""
    in_sync, online, offline, there = (
        broker[name] for name in ("in_sync", "online_replicas", "offline_replicas", "offline_in_use")
    )
    use = f"in the ISR of {count_of(in_sync, 'partition')} that {'has' if in_sync == 1 else 'have'} a leader"
    missing = "not registered"
    if broker["registered"]:
        missing = f"not among the brokers in {broker['missing_from']}, which is of another moment"
    places = " and ".join(text for name, text in _PLACES.items() if broker[name])
    unknown = "only in quarantined records" if broker["disputed_replicas"] else "no source shows what it does"
    return {
        "use": f"leads {count_of(broker['leaders'], 'partition')}" if broker["leaders"] else use,
        "missing": missing,
        "listed": f"listed as {quote(broker['listed_state'] or '')}",
        "online": f"{online} of its replicas {is_or_are(online)}",
        "offline": f"its {count_of(offline, 'replica')} {is_or_are(offline)}",
        "offline_there": f"its {'replica' if there == 1 else 'replicas'} there {is_or_are(there)}",
        "voters": count_of(_count_voters(broker), "replica"),
        "unknown": f"only {places}" if places else unknown,
    }


_REPORTED_DOWN = "shown as down by rpk, Cruise Control or a Java client"
_NO_ANSWER = "did not answer kafka-broker-api-versions"
# The first evidence that exists on a broker decides. It is ordered from what Kafka itself states to what follows from
# absence; an inventory is weaker than an absence, because people do not update it when a broker fails.
EVIDENCE = (
    Evidence(False, lambda b: b["registered"] is False, "unregistered"),
    Evidence(False, lambda b: b["controller"] is False, "does not answer, nor does a controller: others cannot know"),
    # Redpanda gives Kafka's tools all replicas as the ISR, so that the ISR shows nothing of a broker.
    Evidence(False, lambda b: b["redpanda_live"] is False and not b["leaders"], _REPORTED_DOWN),
    _doubt(_lacks_registration, "{missing}"),
    _doubt(lambda b: b["shown_fenced"], "shown as fenced"),  # Kafka takes a broker out of the ISRs when it fences it
    _doubt(lambda b: b["answers"] is False, _NO_ANSWER),
    # It asks all live brokers, but people may cut its output.
    _doubt(
        lambda b: b["others_have_api_versions"] and not b["has_api_versions"],
        "not in the output of kafka-broker-api-versions",
    ),
    # Kafka takes a replica that is offline out of the ISR: the listing was made in between.
    _doubt(lambda b: b["offline_in_use"] >= max(b["leaders"], b["in_sync"]), "{offline_there} listed as offline"),
    _doubt(lambda b: b["reported_live"] is False, _REPORTED_DOWN),
    _doubt(lambda b: _find_listed_state(b) is False, "{listed}"),
    Evidence(True, lambda b: _is_in_use(b) and b["fenced"], "{use}, which is later than its registration as fenced"),
    Evidence(True, _is_in_use, "{use}"),
    # With some replicas offline, a log directory failed, and not the broker.
    Evidence(True, lambda b: b["online_replicas"], "{online} listed as online"),
    Evidence(False, lambda b: b["offline_replicas"], "{offline} listed as offline"),
    Evidence(False, lambda b: b["fenced"], "fenced"),
    Evidence(False, lambda b: b["reported_live"] is False, _REPORTED_DOWN),
    Evidence(None, lambda b: b["registered"] and _lacks_registration(b), "registered, but {missing}"),
    Evidence(True, lambda b: b["registered"], "registered"),
    Evidence(True, lambda b: b["reported_live"], "shown as live by rpk or Cruise Control"),
    Evidence(True, lambda b: b["answers"], "answers kafka-log-dirs or kafka-broker-api-versions"),
    Evidence(True, lambda b: b["controller"], "the active controller"),
    Evidence(False, lambda b: _find_listed_state(b) is False, "{listed}"),
    Evidence(False, lambda b: b["listed"] is False, "not in the broker list"),  # a model's `removed` names it
    Evidence(False, lambda b: b["others_are_registered"], "not registered"),
    # Members of the ISR or ELR of a leaderless partition were the last in sync: one that was live would lead.
    Evidence(False, lambda b: b["leaderless_isr"], "only in the ISR of leaderless partitions"),
    Evidence(False, _is_out_of_all_isrs, "in no ISR of its {voters}"),
    Evidence(False, lambda b: b["leaderless_elr"], "only in the ELR of leaderless partitions"),
    # A new partition is led by any live replica, and its ISR never becomes empty after that.
    Evidence(False, lambda b: b["leaderless_empty"], "only in leaderless partitions with an empty ISR"),
    Evidence(None, lambda b: _count_voters(b) == 1, "in no ISR of its 1 replica, which may only lag"),
    Evidence(None, lambda b: b["answers"] is False, _NO_ANSWER),
    Evidence(None, lambda b: b["filtered_replicas"], "{unknown}"),
    Evidence(True, _find_listed_state, "{listed}"),
    Evidence(None, lambda b: b["listed_state"] is not None, "{listed}"),
    Evidence(
        None,
        lambda b: b["listed"] and not b["in_model"] and not b["replicas"],
        "only in a broker list, which does not show whether it is live",
    ),
    Evidence(True, lambda b: b["listed"], "in the broker list"),
    Evidence(None, lambda _: True, "{unknown}"),
)


def find_evidence(broker: Broker) -> tuple[bool | None, str]:
    """Return whether a broker is live (None: unknown), and the reason."""
    evidence = next(evidence for evidence in EVIDENCE if evidence.exists(broker))
    return evidence.live, evidence.reason.format(**_write_texts(broker))


# The condition in SQL: a broker of unknown state counts as live.
COUNTS_AS_LIVE = "live IS NOT FALSE"
# Hosts that no printed command may name, as a shell could read more into them; fit for SQL.
_UNFIT_HOST_REGEX = "^$|^[._-]|[^A-Za-z0-9._-]"


_RELEASES = ("release_from", "release_before")
NO_END = 10_000  # later than any release


class ShownReleases(NamedTuple):
    """What each of n partitions shows of the release of its cluster: int64 (n) each."""

    first: npt.NDArray[np.int64]  # it is at least this one; 0 = not shown
    before: npt.NDArray[np.int64]  # it is earlier than this one; NO_END = not shown


def count_usage(
    partitions: pa.Table,
    fully_shown: npt.NDArray[np.bool_],
    deleted_topics: Collection[str],
    disputed: pa.Table,
    releases: ShownReleases,
) -> pa.Table:
    """Count what each broker does in n partitions (schema PARTITIONS); returns schema USAGE.

    fully_shown: bool (n), whether the sources surely show every partition of the topic, and so no selection of them;
    deleted_topics: those marked for deletion; disputed: the different statements on partitions that are quarantined
    because of them (replicas, ISR and leader); releases: see `find_releases`.
    """
    replicas, isr, elr, last_elr = (to_lists(partitions[name]) for name in ("replicas", "isr", "elr", "last_known_elr"))
    leader = to_numpy(partitions["leader"], -1).astype(np.int64)
    knows_leader = is_valid(partitions["leader"])
    is_deleted = to_flags(pc.is_in(partitions["topic"], pa.array(list(deleted_topics), pa.string())))
    is_leaderless = knows_leader & (leader < 0) & ~is_deleted  # Kafka stops the replicas of a topic that it deletes
    is_empty = isr.lengths + elr.lengths + last_elr.lengths == 0
    row = row_of(replicas.offsets)

    def is_in(name: str) -> npt.NDArray[np.bool_]:
        return is_in_lists(replicas, partitions[name])

    is_offline, shows_offline = is_in("offline_replicas"), is_valid(partitions["offline_replicas"])[row]
    is_used = (leader >= 0)[row] & (is_in("isr") | (replicas.values == leader[row]))
    is_adding = is_in("adding_replicas")
    is_observer = is_in("observers") & ~is_adding
    is_stopping = is_deleted[row] & ~is_adding & ~is_observer
    is_last = is_in("isr") | is_in("elr") | is_in("last_known_elr")
    # Without ISR and ELR, the last known leader would lead if it was live: PartitionChangeBuilder of Kafka 4.1.
    waits_for_last = (is_leaderless & isr.valid & (isr.lengths + elr.lengths == 0) & (last_elr.lengths == 1))[row]
    waits_for_last &= is_in("last_known_elr")
    is_waiting = (is_leaderless & ~is_empty)[row] & ~is_last & ~is_adding & ~is_observer
    # The others are expected in the ISR, if their broker is live.
    is_voter = ~is_adding & ~is_observer & ~is_stopping & ~is_waiting
    is_known = (knows_leader & isr.valid)[row]
    own_leader = to_numpy(disputed["leader"], -1).astype(np.int64)
    own_lists = [to_lists(disputed[name]).values for name in ("replicas", "isr")]
    parts: dict[str, npt.NDArray[Any]] = {
        "replicas": replicas.values,
        "leaders": leader[leader >= 0],
        "in_sync": isr.values[np.repeat(leader >= 0, isr.lengths)],
        "leaderless_isr": isr.values[np.repeat(is_leaderless, isr.lengths)],
        "leaderless_elr": elr.values[np.repeat(is_leaderless, elr.lengths)],
        "leaderless_empty": replicas.values[(is_leaderless & isr.valid & is_empty)[row] | waits_for_last],
        "online_replicas": replicas.values[shows_offline & ~is_offline],
        "offline_replicas": replicas.values[is_offline],
        "offline_in_use": replicas.values[is_offline & is_used],
        "adding_replicas": replicas.values[is_adding],
        "observer_replicas": replicas.values[is_observer],
        "deleted_replicas": replicas.values[is_stopping],
        "waiting_replicas": replicas.values[is_waiting],
        "unknown_replicas": replicas.values[is_voter & ~is_known],
        "filtered_replicas": replicas.values[is_voter & is_known & ~fully_shown[row]],
        "disputed_replicas": np.concatenate([own_leader[own_leader >= 0], *own_lists]),
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

    def find_most(releases: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Find the highest release of each broker's partitions."""
        most = np.full(len(ids), releases.min(initial=0))
        for release in np.unique(releases):
            most[np.searchsorted(ids, np.unique(replicas.values[(releases == release)[row]]))] = release
        return most

    first, before = find_most(releases.first), -find_most(-releases.before)
    columns["shown_from"] = pa.array(first, mask=first <= 0)
    columns["shown_before"] = pa.array(before, mask=(before <= 0) | (before >= NO_END))
    return pa.table(columns).select(USAGE.names).cast(USAGE)


def infer_brokers(registrations: pa.Table, usage: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return (a cluster's brokers, schema BROKERS; conflicts: down brokers that lead partitions all the same).

    Broker ids are unique in registrations (schema REGISTRATIONS). usage: of every shard (schema USAGE).
    """
    declared = {row["broker_id"]: row for row in registrations.to_pylist()}
    ways = {name: "sum" for name in USAGE.names if name != "broker_id"} | {"shown_from": "max", "shown_before": "min"}
    summed = usage.group_by("broker_id").aggregate(list(ways.items()))
    used = {row["broker_id"]: row for row in summed.rename_columns(["broker_id", *ways]).to_pylist()}
    has_full_listing = any(row["from_full_listing"] for row in declared.values())
    # Its output is long: of one broker alone, people have cut off the others.
    has_api_versions = sum(bool(row["has_api_versions"]) for row in declared.values()) > 1
    defaults = {**dict.fromkeys(registrations.schema.names), **dict.fromkeys(USAGE.names, 0)}
    of_cluster = _find_releases(used.values())
    is_any_declared = any(broker[name] is not None for broker in declared.values() for name in _RELEASES)
    rows = []
    for broker_id in sorted(declared.keys() | used.keys()):
        row = {**defaults, **declared.get(broker_id, {}), **used.get(broker_id, {}), "broker_id": broker_id}
        row.update(others_are_registered=has_full_listing, others_have_api_versions=has_api_versions)
        row["live"], row["live_reason"] = find_evidence(row)
        row.update(draining=bool(row["draining"]), controller=bool(row["controller"]))
        own = ReleaseRange(row["release_from"], row["release_before"])
        row.update(zip(_RELEASES, _add_releases(own, of_cluster, is_any_declared), strict=True))
        rows.append({name: row[name] for name in BROKERS.names})
    brokers = pa.Table.from_pylist(rows, BROKERS)
    return brokers, find_leading_down_brokers(brokers)


def _add_releases(own: ReleaseRange, of_cluster: ReleaseRange, is_any_declared: bool) -> ReleaseRange:
    """Return the releases of a broker, of what it says of itself and of what is shown of the cluster as a whole.

    What brokers say is stronger, as an old tool may ask new brokers: a broker of a cluster in which others say
    something, or one in conflict with what is shown, has what it says.
    """
    both = combine(own, of_cluster)
    is_empty = both.first is not None and both.before is not None and both.first >= both.before
    return own if is_empty or (is_any_declared and own == UNKNOWN_RELEASE) else both


def _find_releases(used: Iterable[Mapping[str, Any]]) -> ReleaseRange:
    """Return the releases that the sources show of the cluster as a whole."""
    used = list(used)
    firsts, ends = (
        [broker[name] for broker in used if broker[name] is not None] for name in ("shown_from", "shown_before")
    )
    first, before = max(firsts, default=None), min(ends, default=None)
    differ = first is not None and before is not None and first >= before
    return ReleaseRange(first, None if differ else before)


def get_releases(brokers: pa.Table) -> list[ReleaseRange]:
    """Return the releases that each broker that may be live may run."""
    return read_releases(brokers.filter(pa.array(~_is_down(brokers))))


def is_version_known(brokers: pa.Table) -> bool:
    """Return whether a broker that may be live shows its version, as far as min.insync.replicas depends on it."""
    return holds_since(CAPS_MIN_ISR, get_releases(brokers)) is not None


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


def get_bootstrap_server(brokers: pa.Table) -> str | None:
    """Return host:port of the first broker (schema BROKERS) by id that is known to be live; None = not known."""
    brokers = brokers.filter(brokers["live"]).sort_by("broker_id")
    fit = pc.invert(pc.match_substring_regex(brokers["host"], _UNFIT_HOST_REGEX))
    named = brokers.filter(pc.and_(fit, pc.greater(brokers["port"], 0))).slice(length=1)
    return next((f"{broker['host']}:{broker['port']}" for broker in named.to_pylist()), None)


def get_unknown_brokers(brokers: pa.Table) -> npt.NDArray[np.int32]:
    """Return the ids (int32, ascending) of the brokers of a table (schema BROKERS) of unknown state."""
    return np.sort(_get_ids(brokers)[~is_valid(brokers["live"])])


def _get_ids(brokers: pa.Table) -> npt.NDArray[np.int32]:
    return to_numpy(brokers["broker_id"]).astype(np.int32)


def _is_down(brokers: pa.Table) -> npt.NDArray[np.bool_]:
    return is_valid(brokers["live"]) & ~to_flags(brokers["live"])
