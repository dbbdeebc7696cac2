"""Infers which brokers are live, down or of unknown state, from what all sources of a cluster show of them.

`what-if` and the pipeline call the same functions. In computations a broker of unknown state counts as live: nothing
shows that it is down.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.ingest.formats.kafka_versions import combine
from pipelines.ingest.merge.broker_evidence import find_evidence
from pipelines.ingest.merge.entities import BROKERS, CONFLICTS, FIRST_USED, USAGE
from udfs.arrow.columns import is_in_lists, is_valid, to_flags, to_lists, to_numpy
from udfs.arrow.ragged import row_of
from udfs.failures.kafka_releases import CAPS_MIN_ISR, UNKNOWN_RELEASE, ReleaseRange, holds_since, read_releases
from udfs.plurals import count_of

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
