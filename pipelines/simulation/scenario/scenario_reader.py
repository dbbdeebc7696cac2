"""Read a scenario's file as events."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pipelines.simulation.scenario import client_sentences, cluster_sentences
from pipelines.simulation.scenario.scenario_cluster import EventMaker, NewEvents, ScenarioCluster, SentenceTime
from pipelines.simulation.scenario.scenario_file import FETCH_EVERY, ScenarioFile, ScenarioSettings, read_scenario_file
from pipelines.simulation.scenario.sentence_syntax import (
    EXAMPLES,
    MAX_EVENTS,
    REPEAT_LESS,
    TOO_MANY_EVENTS,
    SyntaxFault,
    check_sizes,
    parse_partitions,
    parse_times,
)
from udfs.simulation.cluster_events import Event, InitialState, TopicPartition
from udfs.simulation.group_simulation import GroupEvent

SUFFIXES = (".yaml", ".yml")
_SENTENCES: tuple[tuple[re.Pattern[str], EventMaker], ...] = tuple(
    (re.compile(pattern), make) for pattern, make in (*cluster_sentences.SENTENCES, *client_sentences.SENTENCES)
)


@dataclass(frozen=True)
class Scenario:
    """A scenario."""

    initial_state: InitialState | None  # The cluster; None if the scenario is given with a source
    events: tuple[Event, ...]  # Events, by time, then as written
    settings: Mapping[str, Any]  # Fields of ClusterSettings that it sets
    group_events: tuple[GroupEvent, ...] = ()  # Events of consumer groups, likewise


@dataclass(frozen=True)
class _Sentence:
    """A parsed sentence. line: None = implied; remedy: if it makes too many events."""

    times: range
    make: Callable[[ScenarioCluster, SentenceTime], NewEvents]
    line: int | None
    remedy: str = REPEAT_LESS
    maker: EventMaker | None = None
    match: re.Match[str] | None = None


def is_scenario(path: str) -> bool:
    """Return whether a source on the command line is a scenario."""
    return path.endswith(SUFFIXES)


def read_scenario(path: str, source_state: InitialState | None, until_ms: int | None = None) -> Scenario:
    """Read a scenario.

    Args:
        path: Its file.
        source_state: State of the source that it is given with, or None.
        until_ms: Until when time goes on; None = until the last event.

    Raises:
        SourceError: The scenario is wrong; the message names the line.
    """
    file = read_scenario_file(path)
    settings = file.read_settings()
    if source_state is not None:
        file.reject_cluster()
    initial_state = source_state or file.read_cluster(settings.cluster)
    sentences = [_parse(file, *written) for written in file.read_sentences(f"Write sentences: {EXAMPLES}.")]
    sentences.extend(_imply_fetches(file, sentences, settings, until_ms))
    cluster_settings = replace(initial_state.settings, **settings.cluster)
    if cluster_settings.elr and not cluster_settings.kraft:
        problem = "settings: elr is true, but kraft is not: ZooKeeper has no ELR"
        file.fail(problem, "Add kraft: true, or remove elr.", file.get_line("settings"))
    all_events = list(_make_events(ScenarioCluster(file, initial_state, cluster_settings), sentences))
    events = tuple(event for event in all_events if isinstance(event, Event))
    group_events = tuple(event for event in all_events if isinstance(event, GroupEvent))
    return Scenario(initial_state if source_state is None else None, events, settings.cluster, group_events)


def _parse(file: ScenarioFile, sentence: str, line: int) -> _Sentence:
    try:
        times, text = parse_times(sentence)
        if (maker_match := _find_maker(text)) is None:
            check_sizes(text, _find_maker)
            remedy = f"Write, for example, {EXAMPLES}; all forms: docs/replay.md."
            raise SyntaxFault(f"{text!r} matches no sentence", remedy)
    except SyntaxFault as fault:
        problem, remedy = fault.args
        file.fail(problem, remedy, line)
    maker, match = maker_match
    return _Sentence(times, lambda cluster, time: maker(cluster, time, match), line, maker=maker, match=match)


def _find_maker(text: str) -> tuple[EventMaker, re.Match[str]] | None:
    maker_match = ((maker, match) for pattern, maker in _SENTENCES if (match := pattern.fullmatch(text)))
    return next(maker_match, None)


def _imply_fetches(
    file: ScenarioFile, sentences: Sequence[_Sentence], settings: ScenarioSettings, until_ms: int | None
) -> Iterator[_Sentence]:
    """Let followers fetch what is produced, if the scenario does not say who fetches when."""
    writes = [one for one in sentences if one.maker is client_sentences.produce]
    has_fetches = any(
        one.maker in (client_sentences.fetch_as_replica, client_sentences.fetch_as_followers) for one in sentences
    )
    if not writes or has_fetches or not settings.fetch_every_ms:
        return
    keys = dict.fromkeys(key for one in writes if one.match for key in parse_partitions(one.match[2]))
    first = min(one.times[0] for one in writes)
    last = until_ms if until_ms is not None else max(one.times[-1] for one in sentences)
    remedy = f"Under settings, set {FETCH_EVERY} higher, or to 0 and write who fetches."
    times = range(first, last + 1, settings.fetch_every_ms)
    if len(times) > MAX_EVENTS:
        file.fail(TOO_MANY_EVENTS, remedy)
    yield _Sentence(times, partial(_fetch, list(keys), settings.fetch_every_ms), None, remedy)


def _fetch(
    keys: Sequence[TopicPartition], every_ms: int, cluster: ScenarioCluster, time: SentenceTime
) -> Iterator[Event]:
    """Make a fetch of each replica; it is answered before the next one, and its answer has the high watermark."""
    options = {"wait": min(every_ms, client_sentences.FETCH_WAIT_MS)}
    return client_sentences.fetch_partitions(cluster, time, keys, options)


def _make_events(cluster: ScenarioCluster, sentences: Sequence[_Sentence]) -> Iterator[Event | GroupEvent]:
    """Make the events of all sentences, by time; at the same time, in the order of the sentences."""
    moments = sorted((at, number) for number, one in enumerate(sentences) for at in one.times)
    counts: Counter[int] = Counter()
    for place, (at, number) in enumerate(moments):
        sentence = sentences[number]
        time = SentenceTime(at, place, sentence.line)
        cluster.advance(time)
        for event in sentence.make(cluster, time):
            counts[number] += 1
            if counts[number] > MAX_EVENTS:
                cluster.fail(TOO_MANY_EVENTS, sentence.remedy)
            yield event
