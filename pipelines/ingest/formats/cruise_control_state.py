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


def build_broker(broker_id: int, online_dirs: object, counts: ReplicaCounts | None, is_controller: bool) -> Fact:
    """Return the fact of a broker: whether it is live by its online log directories, or else by what it does.

    Cruise Control counts the replicas of all brokers, and adds the live brokers that have none.
    """
    is_live: bool | None = None
    if isinstance(online_dirs, list) and online_dirs:
        is_live = online_dirs != [_NO_DIRS]
    elif counts is not None and (counts.leaders or not counts.replicas or counts.out_of_sync < counts.replicas):
        is_live = True
    elif counts is not None and counts.offline is not None:
        is_live = counts.offline < counts.replicas
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

    def read(key: str) -> Mapping[str, Any]:
        return state.find(key, as_object) or {}

    counts = {name: read(key) for name, key in _COUNTS.items()}
    dirs, controllers = read("OnlineLogDirsByBrokerId"), read("IsController")
    ids = dict.fromkeys(key for part in (*counts.values(), dirs, controllers) for key in part)
    facts = []
    for key in ids:
        own = ReplicaCounts(*(as_int(part.get(key, 0), f"{_COUNTS[name]} of {key}") for name, part in counts.items()))
        facts.append(build_broker(as_int(key, "broker id"), dirs.get(key), own, controllers.get(key) is True))
    offline_dirs = read("OfflineLogDirsByBrokerId").items()
    if warning := describe_offline_dirs((as_int(key, "broker id"), dirs) for key, dirs in offline_dirs):
        facts += ignore(_REASON, warning)
    led = sum(as_int(count, _COUNTS["leaders"]) for count in counts["leaders"].values())
    return facts + describe_selection(visible, led)
