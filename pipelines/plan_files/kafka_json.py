"""Documents of Kafka's tools, one line per partition, and the throttles of a plan and of each wave."""

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from udfs.arrow.ragged import any_true
from udfs.planning.broker_log_dirs import ANY, ANY_LOG_DIR
from udfs.planning.cluster_model import ClusterModel, Int32s, Ints, ProposedAssignment
from udfs.planning.waves import Waves, find_reassigned_partitions

Key = tuple[str, int]
Lists = dict[Key, list[int]]
LogDirPaths = Mapping[Key, Mapping[int, str]]  # path of the log dir on each broker; a broker without one has any

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
EVERY_REPLICA = "*"
ALL = "all"
_MAX_VALUE = 60_000  # characters of a config in a command: Linux takes 131,071 in an argument


def get_key(model: ClusterModel, row: int) -> Key:
    """Return topic and id of a partition."""
    return model.topic_names[model.topic[row]], int(model.partition[row])


def get_lists(model: ClusterModel, rows: Iterable[int], offsets: Ints, replicas: Int32s) -> Lists:
    """Return the broker ids of some partitions' segments of `replicas`."""
    ids = model.broker_ids[replicas].tolist()
    return {get_key(model, row): ids[offsets[row] : offsets[row + 1]] for row in rows}


def get_source_lists(model: ClusterModel, rows: Iterable[int]) -> Lists:
    """Return the lists of these partitions before the plan, in the source's order."""
    return get_lists(model, rows, model.offsets, model.source_order)


def get_wave_lists(model: ClusterModel, waves: Waves, wave: int) -> Lists:
    """Return the lists that a wave (from 0) sets."""
    ids, steps = model.broker_ids[waves.replicas].tolist(), range(*waves.begins[wave : wave + 2].tolist())
    return {get_key(model, waves.row[k]): ids[waves.offsets[k] : waves.offsets[k + 1]] for k in steps}


class PlannedLists(NamedTuple):
    """The partitions that a plan sets, by row of the model; log dirs of those for which it chooses some."""

    rows: list[int]
    before: Lists
    after: Lists
    log_dirs_before: LogDirPaths  # as far as known
    log_dirs: LogDirPaths


def get_planned_lists(model: ClusterModel, proposal: ProposedAssignment) -> PlannedLists:
    """Return the lists and log dirs of the partitions that a plan sets."""
    rows = np.flatnonzero(find_reassigned_partitions(model, proposal)).tolist()
    after = get_lists(model, rows, proposal.offsets, proposal.replicas)
    log_dirs: LogDirPaths = {}
    if model.log_dirs is not None and proposal.log_dirs is not None:
        log_dirs = _get_paths(model, rows, proposal.offsets, proposal.replicas, proposal.log_dirs)
    current = get_current_log_dirs(model, rows)
    log_dirs_before = {key: current.get(key, {}) for key in log_dirs}
    return PlannedLists(rows, get_source_lists(model, rows), after, log_dirs_before, log_dirs)


def find_irreversible(model: ClusterModel, proposal: ProposedAssignment) -> Ints:
    """Find the rows that the plan sets and no rollback can, as a replica of their old lists cannot be in sync.

    Kafka's tool rejects lists with brokers that are down, and nothing comes back to a failed log dir.
    """
    lost = any_true(~model.is_usable, model.offsets)
    return np.flatnonzero(lost & find_reassigned_partitions(model, proposal))


def dump_compact(value: Any) -> str:
    """Write a value as JSON without spaces; NaN and infinities are rejected."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def dump_lines(elements: Iterable[Any]) -> str:
    """Write a JSON array with one line per element."""
    lines = ",\n".join(map(dump_compact, elements))
    return f"[\n{lines}\n]" if lines else "[]"


def dump_reassignment(lists: Mapping[Key, Sequence[int]], log_dirs: LogDirPaths | None = None) -> str:
    """Write what kafka-reassign-partitions takes (version 1), by topic and partition; with log dirs where some are."""
    entries = (_describe_partition(key, lists[key], (log_dirs or {}).get(key)) for key in sorted(lists))
    return f'{{"version":1,"partitions":{dump_lines(entries)}}}\n'


def _describe_partition(key: Key, replicas: Sequence[int], paths: Mapping[int, str] | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"topic": key[0], "partition": key[1], "replicas": list(replicas)}
    return entry if paths is None else entry | {"log_dirs": list_log_dirs(replicas, paths)}


def list_log_dirs(replicas: Sequence[int], paths: Mapping[int, str]) -> list[str]:
    """Return the log dir of each replica in a list, `any` where none is planned."""
    return [paths.get(broker, ANY_LOG_DIR) for broker in replicas]


def get_current_log_dirs(model: ClusterModel, rows: Iterable[int]) -> LogDirPaths:
    """Return the log dirs of some partitions before the plan, on brokers that have several."""
    if model.log_dirs is None:
        return {}
    chosen = np.where(model.log_dirs.several[model.replicas], model.log_dirs.of_replica, ANY).astype(np.int32)
    return _get_paths(model, rows, model.offsets, model.replicas, chosen)


def _get_paths(
    model: ClusterModel, rows: Iterable[int], offsets: Ints, replicas: Int32s, log_dirs: Int32s
) -> dict[Key, dict[int, str]]:
    assert model.log_dirs is not None
    paths: dict[Key, dict[int, str]] = {}
    for row in rows:
        at = np.flatnonzero(log_dirs[offsets[row] : offsets[row + 1]] != ANY) + offsets[row]
        if len(at):
            ids = model.ids(replicas[at])
            paths[get_key(model, row)] = {
                id_: model.log_dirs.paths[log_dirs[i]] for id_, i in zip(ids, at, strict=True)
            }
    return paths


def dump_election(partitions: Iterable[Key]) -> str:
    """Write what kafka-leader-election and kafka-preferred-replica-election take."""
    return f'{{"partitions":{dump_lines({"topic": t, "partition": p} for t, p in sorted(partitions))}}}\n'


def dump_topics_to_move(topics: Iterable[str]) -> str:
    """Write what kafka-reassign-partitions --generate takes."""
    return f'{{"topics":{dump_lines({"topic": topic} for topic in sorted(set(topics)))},"version":1}}\n'


@dataclass(frozen=True)
class Throttle:
    """Throttled brokers and replicas."""

    brokers: tuple[int, ...]  # Ids of those that copy, rising
    topics: dict[str, tuple[str, str]]  # {topic: (throttled replicas of leaders, of followers)}, by name


def compute_throttle(
    before: Mapping[Key, Sequence[int]], after: Mapping[Key, Sequence[int]], down: Set[int] = frozenset()
) -> Throttle:
    """Compute the throttle between two states of some partitions.

    Any old replica may become the source of a copy; new ones are followers. Brokers that are down take no config, as
    kafka-configs asks the brokers themselves, but their replicas are named, as --throttle names them.
    """
    brokers: set[int] = set()
    leaders, followers = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for topic, partition in sorted(after):
        sources = sorted(before[topic, partition])
        added = sorted(set(after[topic, partition]) - set(sources))
        if added:
            brokers.update(sources, added)
            leaders[topic] += [f"{partition}:{broker}" for broker in sources]
            followers[topic] += [f"{partition}:{broker}" for broker in added]
    return Throttle(tuple(sorted(brokers - down)), {t: (",".join(leaders[t]), ",".join(followers[t])) for t in leaders})


def dump_throttles(rate: int, whole: Throttle, waves: Sequence[Throttle]) -> str:
    """Write the throttles as one JSON document. rate: Bytes per second of a broker, each way."""
    by_wave = ",\n".join(f'{{"wave":{number},{_dump(throttle)}}}' for number, throttle in enumerate(waves, 1))
    return f'{{"version":1,"rate_bytes_per_s":{rate},\n"all":{{{_dump(whole)}}},\n"waves":[\n{by_wave}\n]}}\n'


def _dump(throttle: Throttle) -> str:
    topics = (
        {"topic": topic, LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers}
        for topic, (leaders, followers) in throttle.topics.items()
    )
    return f'"brokers":{dump_compact(throttle.brokers)},"topics":{dump_lines(topics)}'


def dump_throttle_script(rate: int, whole: Throttle, waves: Sequence[tuple[str, Throttle]]) -> str:
    """Write a shell script that sets or removes the throttles of the plan, or of one wave by the number of its file."""
    names = " | ".join([ALL, *(name for name, _ in waves)])
    lines = [
        "#!/bin/sh",
        f"# BOOTSTRAP_SERVER=host:9092 sh throttles.sh set|remove {ALL}|WAVE, with a wave as files are numbered: 01.",
        "# kafka-reassign-partitions --execute --throttle does the same by itself, in one call.",
        "set -eu",
        'configs() { "${KAFKA_CONFIGS:-kafka-configs}" --bootstrap-server "${BOOTSTRAP_SERVER:?}" --alter "$@"; }',
        'case "${1:-} ${2:-}" in',
    ]
    for name, throttle in [(ALL, whole), *waves]:
        sets, removes = _list_commands(rate, throttle)
        lines += [f'"set {name}")', *sets, "  ;;", f'"remove {name}")', *removes, "  ;;"]
    lines += ["*)", f"  echo {shlex.quote(f'usage: throttles.sh set|remove {names}')} >&2", "  exit 64", "  ;;", "esac"]
    return "\n".join(lines) + "\n"


def _list_commands(rate: int, throttle: Throttle) -> tuple[list[str], list[str]]:
    """Return the commands that set a throttle, and those that remove it."""
    rates = (LEADER_RATE, FOLLOWER_RATE)
    sets = [describe_config_change("brokers", str(id_), dict.fromkeys(rates, str(rate))) for id_ in throttle.brokers]
    removes = [describe_config_change("brokers", str(id_), dict.fromkeys(rates)) for id_ in throttle.brokers]
    names = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
    for topic, replicas in throttle.topics.items():
        # A value that is too long names every replica, as those in sync are not throttled.
        texts = (text if len(text) <= _MAX_VALUE else EVERY_REPLICA for text in replicas)
        sets.append(describe_config_change("topics", topic, dict(zip(names, texts, strict=True))))
        removes.append(describe_config_change("topics", topic, dict.fromkeys(names)))
    return [f"  configs {one}" for one in sets] or ["  :"], [f"  configs {one}" for one in removes] or ["  :"]


def describe_config_change(kind: str, name: str, changes: Mapping[str, str | None]) -> str:
    """Return the options of kafka-configs --alter that set configs, or remove those that are None.

    kind: Brokers or topics, as --entity-type names them.
    """
    values = {key: f"[{value}]" if ":" in value else value for key, value in changes.items() if value is not None}
    removed = ",".join(key for key, value in changes.items() if value is None)
    options = f"--entity-type {kind} --entity-name={shlex.quote(name)}"
    if values:
        options += f" --add-config {shlex.quote(','.join(f'{key}={value}' for key, value in values.items()))}"
    return f"{options} --delete-config {removed}" if removed else options
