"""Replication throttles of a plan and of each wave: as JSON, and as a script of kafka-configs commands.

`kafka-reassign-partitions --execute --throttle` sets the same ones by itself. These files are for those who set
configs in another way.
"""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from pipelines.plan_files.kafka_json import Key, Lists, dump_compact, dump_lines

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
EVERY_REPLICA = "*"
ALL = "all"

_MAX_VALUE = 60_000  # characters of a config in a command: Linux takes 131,071 in an argument


@dataclass(frozen=True)
class Throttle:
    """Throttled brokers and replicas."""

    brokers: tuple[int, ...]  # Ids of brokers that copy, rising
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


def compute_wave_throttles(before: Lists, waves: Iterable[Lists], down: Set[int] = frozenset()) -> list[Throttle]:
    """Compute the throttle of each wave. before: The lists of all partitions of all waves."""
    out, now = [], dict(before)
    for after in waves:
        out.append(compute_throttle(now, after, down))
        now |= after
    return out


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
        lines += [f'"set {name}")', *_set(rate, throttle), "  ;;", f'"remove {name}")', *_remove(throttle), "  ;;"]
    lines += ["*)", f"  echo {shlex.quote(f'usage: throttles.sh set|remove {names}')} >&2", "  exit 64", "  ;;", "esac"]
    return "\n".join(lines) + "\n"


def _set(rate: int, throttle: Throttle) -> list[str]:
    rates = f"{LEADER_RATE}={rate},{FOLLOWER_RATE}={rate}"
    out = [f"  configs --entity-type brokers --entity-name={id_} --add-config {rates}" for id_ in throttle.brokers]
    for topic, (leaders, followers) in throttle.topics.items():
        configs = f"{LEADER_REPLICAS}={_format(leaders)},{FOLLOWER_REPLICAS}={_format(followers)}"
        out.append(f"  {_alter_topic(topic)} --add-config {shlex.quote(configs)}")
    return out or ["  :"]


def _remove(throttle: Throttle) -> list[str]:
    rates = f"{LEADER_RATE},{FOLLOWER_RATE}"
    out = [f"  configs --entity-type brokers --entity-name={id_} --delete-config {rates}" for id_ in throttle.brokers]
    out += [
        f"  {_alter_topic(topic)} --delete-config {LEADER_REPLICAS},{FOLLOWER_REPLICAS}" for topic in throttle.topics
    ]
    return out or ["  :"]


def _alter_topic(topic: str) -> str:
    return f"configs --entity-type topics --entity-name={shlex.quote(topic)}"


def _format(replicas: str) -> str:
    """Format a config's value; one that is too long names every replica, as those in sync are not throttled."""
    return f"[{replicas}]" if len(replicas) <= _MAX_VALUE else EVERY_REPLICA
