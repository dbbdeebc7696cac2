"""Cordons of brokers (KIP-1066): those of an execution, and what Kafka rejects of a plan because of others."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

from pipelines.execution.cluster_view import ClusterView, name_partitions
from pipelines.execution.copy_progress import LogDirs
from pipelines.execution.journal import CORDON, UNCORDON, EarlierConfigs
from pipelines.execution.planned_steps import Direction, Place, PlannedSteps
from pipelines.execution.replication_throttle import ConfigChange, list_restore_commands
from pipelines.ingest.formats.kafka_versions import METADATA_VERSION, read_level
from pipelines.live.kafka_connection import CORDONED_LOG_DIRS, KafkaConnection, Key
from pipelines.verdict.cluster_evidence import name_with_noun
from udfs.failures.disk_limits import are_all_cordoned
from udfs.failures.topic_defaults import HAS_CORDONS, REJECTS_CORDONED
from udfs.wording import count_of

_EVERY_LOG_DIR = "*"


class BrokerCordon(ConfigChange):
    """Cordons brokers until a rollback or a cancellation."""

    name, events = "cordon", (CORDON, UNCORDON)

    def apply(self, brokers: Set[int]) -> None:
        """Cordon all log dirs of brokers. Raises: KafkaFault if one does not take it."""
        own = self._read_own(brokers, (CORDONED_LOG_DIRS,))
        changed = {broker: one for broker, one in own.items() if one[CORDONED_LOG_DIRS] != _EVERY_LOG_DIR}
        if new := EarlierConfigs(changed).without(self.earlier):
            self._write(new)
        for broker in changed:
            self._connection.alter_broker_configs(broker, {CORDONED_LOG_DIRS: _EVERY_LOG_DIR})
            self._say(f"broker {broker} is cordoned: it gets no new replicas")


def explain_no_cordons(connection: KafkaConnection) -> str | None:
    """Say why brokers of a cluster cannot be cordoned; None = they can."""
    feature = connection.describe_features().get(METADATA_VERSION)
    if feature is not None and read_level(feature.finalized).reaches(HAS_CORDONS):
        return None
    return f"--cordon needs Kafka 4.3, and {METADATA_VERSION} 4.3-IV0 of the cluster. Leave it out, or upgrade first"


def find_cordoned_brokers(log_dirs: LogDirs) -> set[int]:
    """Find the brokers whose log dirs are all cordoned; failed ones do not count."""
    online = {broker: [one for one in dirs if not one.get("error")] for broker, dirs in log_dirs.items()}
    return {broker for broker, dirs in online.items() if are_all_cordoned([one.get("is_cordoned") for one in dirs])}


def find_rejections(
    steps: PlannedSteps,
    view: ClusterView,
    connection: KafkaConnection,
    log_dirs: LogDirs,
    direction: Direction,
    earlier: EarlierConfigs,
    command_config: Path | None,
) -> Iterator[str]:
    """Yield sentences on what Kafka rejects of the rest of a plan because of cordons.

    log_dirs: of the brokers that it names. earlier: the configs that a rollback restores first.
    """
    uncordoned = {broker for broker, one in earlier.brokers.items() if one.get(CORDONED_LOG_DIRS) != _EVERY_LOG_DIR}
    lists, places = _list_rest(steps, view, direction)
    closed = {(broker, one["log_dir"]) for broker, dirs in log_dirs.items() for one in dirs if one.get("is_cordoned")}
    if rejected := [key for key, own in places.items() if not own.isdisjoint(closed)]:
        count, names = count_of(len(rejected), "partition"), name_partitions(rejected)
        yield f"{count} would be moved to cordoned log dirs ({names}), which Kafka rejects. Uncordon them first"
    cordoned = find_cordoned_brokers(log_dirs) - uncordoned
    named = sorted({broker for brokers in lists.values() for broker in brokers & cordoned})
    feature = connection.describe_features().get(METADATA_VERSION) if named else None
    if feature is None or not read_level(feature.highest).reaches(REJECTS_CORDONED):
        return
    rejected = [key for key, brokers in lists.items() if brokers & cordoned]
    count, names = count_of(len(rejected), "partition"), name_partitions(rejected)
    changes = EarlierConfigs({broker: {CORDONED_LOG_DIRS: None} for broker in named})
    commands = "; ".join(list_restore_commands(changes, connection.servers, command_config))
    text = (
        f"Kafka 4.4 rejects lists with {name_with_noun(named)}, all of whose log dirs are cordoned: {count} ({names})"
    )
    yield f"{text}. Uncordon first: {commands}"


def _list_rest(
    steps: PlannedSteps, view: ClusterView, direction: Direction
) -> tuple[dict[Key, set[int]], dict[Key, set[tuple[int, str]]]]:
    """List what the rest of a plan names, by partition: brokers in lists, and log dirs that replicas are moved to."""
    lists: dict[Key, set[int]] = {}
    places: dict[Key, set[tuple[int, str]]] = {}
    for wave in steps.list_waves(direction):
        for key, target in steps.list_left(wave, direction, view, (Place.PENDING,)).items():
            if not steps.moves_log_dirs:
                lists.setdefault(key, set()).update(steps.partitions[key].lists[target.after])
                continue
            for (*_, broker), path in steps.list_dirs(key, target.after).items():
                log = view.logs.get(broker, {}).get(key)
                if log is not None and path not in (log.path, log.future):
                    places.setdefault(key, set()).add((broker, path))
    return lists, places
