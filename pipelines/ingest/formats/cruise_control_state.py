"""What Cruise Control's `kafka_cluster_state` shows of brokers, and of how many partitions; as text and as JSON."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pipelines.ingest.formats.checked_values import JsonObject, as_int, as_object, quote
from pipelines.ingest.source_format import Fact, FactKind, ignore
from udfs.plurals import count_of, join_names

_NO_DIRS = "broker_dead"  # instead of the log directories of a broker that is down
_VERBOSE = "get kafka_cluster_state?verbose=true"
_REASON = "summary of the cluster"
_NAMED = 6  # log directories that a warning names
_COUNTS = {
    "leaders": "LeaderCountByBrokerId",
    "replicas": "ReplicaCountByBrokerId",
    "out_of_sync": "OutOfSyncCountByBrokerId",
    "offline": "OfflineReplicaCountByBrokerId",
}


class ReplicaCounts(NamedTuple):
    """How many partitions a broker leads, and how many replicas it has; None = not shown."""

    leaders: int
    replicas: int
    out_of_sync: int
    offline: int | None


def find_dirs_state(online_dirs: object) -> bool | None:
    """Return whether a broker is live by its online log directories; None if it has none."""
    return None if not isinstance(online_dirs, list) or not online_dirs else online_dirs != [_NO_DIRS]


def describe_offline_dirs(offline_dirs: Iterable[tuple[int, object]]) -> str | None:
    """Return the warning of the offline log directories of live brokers; None without any. offline_dirs: by broker."""
    named = [
        f"{quote(str(name))} of broker {broker}"
        for broker, names in offline_dirs
        if isinstance(names, list) and names != [_NO_DIRS]
        for name in names
    ]
    if not named:
        return None
    subject = "a log directory is" if len(named) == 1 else "log directories are"
    return f"{subject} offline, with all replicas there: {join_names(named, _NAMED)}"


def find_counts_state(counts: ReplicaCounts) -> bool | None:
    """Return whether a broker is live by what it does.

    Cruise Control counts the replicas of all brokers, and adds the live brokers that have none.
    """
    if counts.leaders or not counts.replicas or counts.out_of_sync < counts.replicas:
        return True
    if counts.offline is None:
        return None
    return counts.offline < counts.replicas


def build_broker(broker_id: int, is_live: bool | None, is_controller: bool) -> Fact:
    """Return the fact of a broker."""
    values = {"broker_id": broker_id, "reported_live": is_live, "controller": True if is_controller else None}
    return FactKind.BROKER, values


def describe_selection(visible: int, leaders: int) -> list[Fact]:
    """Return the facts of a record that counts the partitions with a leader, of which so many are shown."""
    if not leaders:
        return ignore(_REASON)
    is_selection = visible < leaders
    partitions = count_of(leaders, "partition")
    warning = f"kafka_cluster_state shows {visible} of {partitions} that have a leader: {_VERBOSE}"
    return ignore(_REASON, warning if is_selection else None, is_selection)


def describe_problems() -> list[Fact]:
    """Return the facts of a title that says that only partitions with problems follow."""
    return ignore("header", f"kafka_cluster_state shows only the partitions with problems: {_VERBOSE}", True)


def parse_broker_state(state: JsonObject, visible: int) -> list[Fact]:
    """Return the facts of a KafkaBrokerState. visible: how many partitions with a leader are beside it."""
    counts = {name: _read_object(state, key) for name, key in _COUNTS.items()}
    dirs, controllers = _read_object(state, "OnlineLogDirsByBrokerId"), _read_object(state, "IsController")
    ids = dict.fromkeys(key for part in (*counts.values(), dirs, controllers) for key in part)
    facts = []
    for key in ids:
        leaders, replicas, out_of_sync, offline = (
            as_int(part.get(key, 0), f"{_COUNTS[name]} of {key}") for name, part in counts.items()
        )
        is_live = find_dirs_state(dirs.get(key))
        if is_live is None:
            is_live = find_counts_state(ReplicaCounts(leaders, replicas, out_of_sync, offline))
        facts.append(build_broker(as_int(key, "broker id"), is_live, controllers.get(key) is True))
    offline_dirs = _read_object(state, "OfflineLogDirsByBrokerId").items()
    if warning := describe_offline_dirs((as_int(key, "broker id"), dirs) for key, dirs in offline_dirs):
        facts += ignore(_REASON, warning)
    led = sum(as_int(count, _COUNTS["leaders"]) for count in counts["leaders"].values())
    return facts + describe_selection(visible, led)


def _read_object(state: JsonObject, key: str) -> Mapping[str, Any]:
    return state.find(key, as_object) or {}
