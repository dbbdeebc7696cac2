"""Sentences of data: what is produced and fetched, where logs end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pipelines.simulation.scenario.scenario_cluster import Said, Told
from pipelines.simulation.scenario.sentence_patterns import (
    A_NUMBER,
    A_TIME,
    ACKS,
    BROKER,
    NUMBER,
    OPTIONS,
    PARTITION,
    PARTITIONS,
)
from udfs.simulation.cluster_events import Event, Key
from udfs.simulation.kernels import codes as k

SKIPPED_IF_REJECTED = 1  # the value of a fetch that nobody has asked for by name
FETCH_MS = 500
_PRODUCE_MS, _MIN_BYTES = 30_000, 1
_PRODUCE = {"acks": ACKS, "timeout": A_TIME}
_FETCH = {"wait": A_TIME, "min": A_NUMBER}
_OFFSETS = {"leo": A_NUMBER, "hw": A_NUMBER}


def produced(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    """One request of all the partitions that are named."""
    keys = told.keys(words[2], said.line, deleted=True)
    found = told.options(words[3], _PRODUCE, said.line)
    request, acks, wait = told.request(), found.get("acks", -1), found.get("timeout", _PRODUCE_MS)
    for key in keys:
        yield Event(
            said.at_ms,
            k.APPEND,
            partition=key,
            offset=said.place,
            request=request,
            parts=len(keys),
            acks=acks,
            messages=int(words[1]),
            wait_ms=wait,
        )


def fetched_by_replica(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    """A request for each partition."""
    broker = told.broker(words[1], said.line)
    keys = told.keys(words[2], said.line, deleted=True)
    found = told.options(words[4], _FETCH, said.line)
    begin = int(words[3]) if words[3] else None
    for key in keys:
        yield _fetch(told, said, broker, key, 0, found, begin)


def fetched_by_followers(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    """A request for each replica of the partitions named, or of all."""
    keys = told.keys(words[1], said.line) if words[1] else told.every()
    return fetches_of(told, said, keys, told.options(words[2], _FETCH, said.line))


def fetches_of(told: Told, said: Said, keys: Iterable[Key], options: dict[str, int]) -> Iterator[Event]:
    """A fetch by each replica of those partitions that there are; the leader's own is rejected, and left out then."""
    for topic, partition in keys:
        for broker in told.replicas.get(topic, {}).get(partition, ()):
            yield _fetch(told, said, broker, (topic, partition), SKIPPED_IF_REJECTED, options)


def _fetch(
    told: Told, said: Said, broker: int, key: Key, value: int, options: dict[str, int], begin: int | None = None
) -> Event:
    return Event(
        said.at_ms,
        k.FETCH,
        broker,
        key,
        value,
        offset=said.place,
        request=told.request(),
        wait_ms=options.get("wait", FETCH_MS),
        min_bytes=options.get("min", _MIN_BYTES),
        fetch_offset=begin,
    )


def _fetched_by_consumer(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    keys = told.keys(words[1], said.line, deleted=True)
    found = told.options(words[3], _FETCH, said.line)
    request, wait, least = told.request(), found.get("wait", FETCH_MS), found.get("min", _MIN_BYTES)
    for key in keys:
        yield Event(
            said.at_ms,
            k.FETCH,
            partition=key,
            offset=said.place,
            request=request,
            parts=len(keys),
            wait_ms=wait,
            min_bytes=least,
            fetch_offset=int(words[2]),
        )


def _fetched_nothing(told: Told, said: Said, _words: re.Match[str]) -> Iterator[Event]:
    told.page.fail("a fetch that names no partition waits for nothing: it is answered at once", "Name one.", said.line)
    yield from ()


def _offsets(told: Told, said: Said, words: re.Match[str]) -> Iterator[Event]:
    broker = told.broker(words[1], said.line)
    ((topic, partition),) = told.keys(words[2], said.line)
    found = told.options(words[3], _OFFSETS, said.line)
    leo, hw = found.get("leo"), found.get("hw")
    holders = told.replicas[topic][partition]
    if broker not in holders:
        ids = ", ".join(map(str, holders))
        told.page.fail(f"broker {broker} has no replica of {topic}-{partition}", f"Its replicas: {ids}.", said.line)
    if leo is None:
        told.page.fail("the log's end is missing", "Write it as in leo=9.", said.line)
    if hw is not None and hw > leo:
        told.page.fail(f"hw={hw} is beyond leo={leo}", "Write a high watermark that the log reaches.", said.line)
    yield Event(said.at_ms, k.OFFSETS, broker, (topic, partition), offset=said.place, leo=leo, hw=hw)


SENTENCES = (
    (rf"produce {NUMBER} to {PARTITIONS}{OPTIONS}", produced),
    (rf"broker {BROKER} fetches {PARTITIONS}(?: from {NUMBER})?{OPTIONS}", fetched_by_replica),
    (rf"followers fetch(?: {PARTITIONS})?{OPTIONS}", fetched_by_followers),
    (rf"consumer fetches {PARTITIONS} from {NUMBER}{OPTIONS}", _fetched_by_consumer),
    (rf"consumer fetches(?: nothing)?{OPTIONS}", _fetched_nothing),
    (rf"offsets of broker {BROKER} {PARTITION}{OPTIONS}", _offsets),
)
