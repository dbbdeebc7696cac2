"""The head of a scenario: its brokers, its topics, its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from pipelines.ingest.topic_names import bad_topic_name
from pipelines.simulation.scenario.sentence_patterns import LARGEST, LARGEST_ID
from pipelines.simulation.scenario.yaml_document import Page, is_number, line_of
from udfs.simulation.cluster_events import Begin, Held, Rules

FETCH_EVERY = "followers_fetch_every_ms"  # a setting of the scenario alone: no rule of the cluster
_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "int": (is_number, "a whole number"),
    "str": (lambda value: isinstance(value, str), "a word"),
}
_WORDS = {"truncate_to": ("epoch", "high_watermark")}
# What a check happens at multiples of, and what is divided by, is never 0.
_LEAST = {"leader_imbalance_check_ms": 1, "replica_lag_time_max_ms": 2, "checkpoint_ms": 1, "message_bytes": 1}


@dataclass(frozen=True)
class Settings:
    """rules: fields of Rules that the scenario sets.   fetch_every_ms: 0 = followers fetch only as told."""

    rules: dict[str, Any]
    fetch_every_ms: int = 500


def settings_of(page: Page) -> Settings:
    """The scenario's settings, each of its type. SourceError otherwise."""
    known = {field.name: str(field.type) for field in fields(Rules)} | {FETCH_EVERY: "int"}
    found = page.mapping("settings", "Write them as in: kraft: true.")
    for key, value in found.items():
        line = line_of(found, key)
        if key not in known:
            page.fail(f"settings: {key!r} is not known", f"Settings: {', '.join(known)}.", line)
        fits, word = _TYPES[known[key]]
        if not fits(value):
            page.fail(f"settings: {key} is {value!r}", f"Write {word}.", line)
        if key in _WORDS and value not in _WORDS[key]:
            page.fail(f"settings: {key} is {value!r}", f"Write {' or '.join(_WORDS[key])}.", line)
        if fits is is_number and value < _LEAST.get(key, 0):
            page.fail(f"settings: {key} is {value}", f"Write {_LEAST.get(key, 0)} or more.", line)
        if fits is is_number and value > LARGEST:
            page.fail(f"settings: {key} is {value}", f"Write at most {LARGEST:,}.", line)
    rules = dict(found)
    return Settings(rules, **({"fetch_every_ms": rules.pop(FETCH_EVERY)} if FETCH_EVERY in rules else {}))


def begin_of(page: Page, rules: dict[str, Any]) -> Begin:
    """The cluster that the head tells of. SourceError if that is none."""
    brokers = page.content.get("brokers")
    if not isinstance(brokers, list) or not all(is_number(b) and b >= 0 for b in brokers) or not brokers:
        page.fail(
            f"brokers is {brokers!r}",
            "List their ids, as in brokers: [1, 2, 3]; or give a source beside.",
            page.line("brokers"),
        )
    if len(set(brokers)) < len(brokers):
        page.fail(f"brokers is {brokers}: one is there twice", "Name distinct ids.", page.line("brokers"))
    if max(brokers) > LARGEST_ID:
        page.fail(
            f"broker {max(brokers)} is too large a number", f"Write at most {LARGEST_ID:,}.", page.line("brokers")
        )
    controller = page.content.get("controller", min(brokers))
    if controller not in brokers:
        page.fail(f"controller {controller!r} is none of the brokers", f"Brokers: {brokers}.", page.line("controller"))
    held = tuple(_partitions(page, list(brokers)))
    return Begin(tuple(sorted(brokers)), frozenset(brokers), held, controller, 1, Rules(**rules))


def reject_cluster(page: Page) -> None:
    """SourceError if the scenario tells of a cluster although it stands beside one."""
    for key in ("brokers", "controller", "topics"):
        if key in page.content:
            page.fail(f"has {key}, which the source beside it tells", "Leave it to the source.", page.line(key))


def _partitions(page: Page, brokers: list[int]) -> Iterator[Held]:
    topics = page.mapping("topics", "Write it as in: orders: [[1, 2], [2, 3]].")
    for topic, lists in topics.items():
        line = line_of(topics, topic)
        check_name(page, topic, line)
        if not isinstance(lists, list) or not lists:
            page.fail(f"topic {topic}: {lists!r} is no list of replica lists", "As in: [[1, 2], [2, 3]].", line)
        for number, ids in enumerate(lists):
            if not _are_distinct(ids, brokers):
                problem = f"topic {topic}: partition {number} is on {ids!r}"
                page.fail(problem, f"Name distinct brokers of {brokers}.", line)
            yield Held((topic, number), tuple(ids), tuple(ids), ids[0])


def _are_distinct(ids: Any, brokers: list[int]) -> bool:
    if not isinstance(ids, list) or not ids or not all(map(is_number, ids)):
        return False
    return len(set(ids)) == len(ids) and set(ids) <= set(brokers)


def check_name(page: Page, topic: Any, line: int | None) -> None:
    """SourceError if Kafka allows no topic of this name."""
    fault = bad_topic_name(topic) if isinstance(topic, str) else f"topic {topic!r} is no text"
    if fault:
        page.fail(fault, "Write a topic's name.", line)
