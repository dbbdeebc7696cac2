"""Sentences of topics: their beginning and end, their configs, their replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipelines.simulation.scenario.scenario_cluster import Said, Told
from pipelines.simulation.scenario.scenario_header import check_name
from pipelines.simulation.scenario.sentence_patterns import IDS, LARGEST_ID, LISTS, NAME, PARTITION, number
from udfs.simulation.cluster_events import Event
from udfs.simulation.kernels import codes as k

_DEFAULTS = {k.SET_UNCLEAN: 0, k.SET_MIN_ISR: 1}
_CONFIGS = {"unclean.leader.election.enable": k.SET_UNCLEAN, "min.insync.replicas": k.SET_MIN_ISR}


def _created(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    told.taken(said)
    topic, grown = words[1], words[2] == "grown"
    if (topic in told.replicas) != grown and not (told.was_deleted(topic) and not grown):
        told.page.fail(
            f"topic {topic} {'is not there' if grown else 'is there already'}", "Change its name.", said.line
        )
    check_name(told.page, topic, said.line)
    held = told.replicas.get(topic, {})
    first = max(held, default=-1) + 1 if grown else 0
    lists = [told.ids(text.replace(":", ","), said.line) for text in words[3].split(",")]
    if len({len(ids) for ids in lists}) > 1:
        told.page.fail(f"{words[3]} has lists of different lengths", "Give each partition as many replicas.", said.line)
    # With KRaft a partition without an active replica is enough to reject the request: createTopic, createPartitions.
    rejected = told.rules.kraft and not all(told.active() & set(ids) for ids in lists)
    for partition, ids in enumerate(lists, first):
        yield Event(said.at_ms, k.CREATE, None, (topic, partition), int(rejected), replicas=ids, offset=said.place)
        if rejected:
            continue
        held = told.replicas.setdefault(topic, {})
        held[partition] = ids
        for kind, value in told.configs.get(topic, {}).items():
            if value != _DEFAULTS[kind]:
                yield Event(said.at_ms, kind, partition=(topic, partition), value=value, offset=said.place)


def _deleted(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    told.taken(said)
    for key in told.of_topic(words[1], said.line):
        yield Event(said.at_ms, k.DELETE, partition=key, offset=said.place)
    told.forget(words[1])


def _config(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    told.taken(said)
    topic, name, text = words[1], words[2], words[3]
    if name not in _CONFIGS:
        told.page.fail(f"config {name} changes nothing here", f"Configs: {', '.join(_CONFIGS)}.", said.line)
    value = {"true": 1, "false": 0}.get(text) if name.startswith("unclean") else number(text)
    if value is None:
        told.page.fail(f"{name}={text} is no value of it", "Write true or false, or a number.", said.line)
    is_minimum = _CONFIGS[name] == k.SET_MIN_ISR
    if is_minimum and value == 0:
        told.page.fail(f"{name}=0 is no value of it", "Write 1 or more.", said.line)
    if value > LARGEST_ID:
        told.page.fail(f"{name}={value} is no value of it", f"Write at most {LARGEST_ID:,}.", said.line)
    keys = told.of_topic(topic, said.line)
    known = told.configs.setdefault(topic, {})
    changes = known.get(_CONFIGS[name]) != value
    known[_CONFIGS[name]] = value
    for key in keys:
        yield Event(said.at_ms, _CONFIGS[name], partition=key, value=value, offset=said.place)
    if is_minimum and told.rules.elr and changes:  # who was eligible was so by the old minimum: 4.1
        for key in keys:
            yield Event(said.at_ms, k.CLEAR_ELR, partition=key, offset=said.place)


def _reassigned(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    told.taken(said)
    ((topic, partition),) = told.keys(words[1], said.line)
    ids = told.ids(words[2], said.line)
    before = told.replicas[topic][partition]
    told.replicas[topic][partition] = ids + tuple(broker for broker in before if broker not in ids)
    yield Event(said.at_ms, k.REASSIGN, partition=(topic, partition), replicas=ids, offset=said.place)


def _preferred(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    told.taken(said)
    for key in told.keys(words[1], said.line) if words[1] else told.every():
        yield Event(said.at_ms, k.ELECT_PREFERRED, partition=key, offset=said.place)


def _isr(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    (key,) = told.keys(words[1], said.line, deleted=True)  # a deletion that waits for a reassignment waits for this
    ids, holders = told.ids(words[2], said.line), told.replicas.get(key[0], {}).get(key[1])
    if holders is not None and not set(ids) <= set(holders):
        others = ", ".join(str(broker) for broker in ids if broker not in holders)
        remedy = f"Its replicas: {', '.join(map(str, holders))}."
        told.page.fail(f"broker {others} has no replica of {key[0]}-{key[1]}: it is not in sync", remedy, said.line)
    yield Event(said.at_ms, k.SET_ISR, partition=key, replicas=ids, offset=said.place)


SENTENCES = (
    (rf"topic {NAME} (created|grown) {LISTS}", _created),
    (rf"topic {NAME} deleted", _deleted),
    (rf"topic {NAME} config ([a-z.]+)=(\S+)", _config),
    (rf"reassign {PARTITION} to {IDS}", _reassigned),
    (rf"preferred election(?: {PARTITION})?", _preferred),
    (rf"isr {PARTITION} {IDS}", _isr),
)
