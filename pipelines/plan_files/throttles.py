"""Throttle configs of a plan, for all of it and by wave: as JSON, and as a script of kafka-configs commands.

`kafka-reassign-partitions --execute --throttle` sets the same ones by itself; these are for those who set configs
in a way of their own.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from pipelines.plan_files.kafka_json import Key, Lists, array, compact

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
EVERY_REPLICA = "*"
ALL = "all"

_LONGEST = 60_000  # characters of a config in a command: Linux takes 131,071 in an argument


@dataclass(frozen=True)
class Throttle:
    """brokers: ids that copy, rising.   topics: {topic: (leader's, follower's throttled replicas)}, by name."""

    brokers: tuple[int, ...]
    topics: dict[str, tuple[str, str]]


def throttle_of(
    before: Mapping[Key, Sequence[int]], after: Mapping[Key, Sequence[int]], down: Set[int] = frozenset()
) -> Throttle:
    """What is throttled between two states of some partitions, of those that copy.

    Every replica before may come to be the source; those that are added are followers. Brokers that are down now take
    no config, as kafka-configs asks them themselves; their replicas are named as --throttle names them.
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


def throttles_by_wave(before: Lists, waves: Iterable[Lists], down: Set[int] = frozenset()) -> list[Throttle]:
    """The throttle of each wave; before: the lists of all partitions of all waves. down: as in throttle_of."""
    out, now = [], dict(before)
    for after in waves:
        out.append(throttle_of(now, after, down))
        now |= after
    return out


def as_json(rate: int, whole: Throttle, waves: Sequence[Throttle]) -> str:
    """The throttles as one document. rate: bytes per second of a broker, each way."""
    by_wave = ",\n".join(f'{{"wave":{number},{_members(throttle)}}}' for number, throttle in enumerate(waves, 1))
    return f'{{"version":1,"rate_bytes_per_s":{rate},\n"all":{{{_members(whole)}}},\n"waves":[\n{by_wave}\n]}}\n'


def _members(throttle: Throttle) -> str:
    topics = (
        {"topic": topic, LEADER_REPLICAS: leaders, FOLLOWER_REPLICAS: followers}
        for topic, (leaders, followers) in throttle.topics.items()
    )
    return f'"brokers":{compact(throttle.brokers)},"topics":{array(topics)}'


def as_script(rate: int, whole: Throttle, waves: Sequence[tuple[str, Throttle]]) -> str:
    """A shell script that sets or removes the throttles of all, or of one wave (its name as files are numbered)."""
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
        configs = f"{LEADER_REPLICAS}={_value(leaders)},{FOLLOWER_REPLICAS}={_value(followers)}"
        out.append(f"  {_topic(topic)} --add-config {shlex.quote(configs)}")
    return out or ["  :"]


def _remove(throttle: Throttle) -> list[str]:
    out = [
        f"  configs --entity-type brokers --entity-name={id_} --delete-config {LEADER_RATE},{FOLLOWER_RATE}"
        for id_ in throttle.brokers
    ]
    out += [f"  {_topic(topic)} --delete-config {LEADER_REPLICAS},{FOLLOWER_REPLICAS}" for topic in throttle.topics]
    return out or ["  :"]


def _topic(topic: str) -> str:
    return f"configs --entity-type topics --entity-name={shlex.quote(topic)}"


def _value(replicas: str) -> str:
    """The value of a config in a command; too long a one is every replica: those in sync are not throttled."""
    return f"[{replicas}]" if len(replicas) <= _LONGEST else EVERY_REPLICA
