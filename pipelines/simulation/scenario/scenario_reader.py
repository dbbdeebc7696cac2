"""Read a scenario's file as events."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.simulation.scenario.scenario_cluster import (
    EXAMPLES,
    MAX_EVENTS,
    REPEAT_LESS,
    TOO_MANY_EVENTS,
    EventMaker,
    ScenarioCluster,
    SentenceTime,
    SyntaxFault,
    check_sizes,
    parse_partitions,
    parse_times,
)
from pipelines.simulation.scenario.scenario_file import FETCH_EVERY, ScenarioFile, read_scenario_file
from pipelines.simulation.scenario.sentences import (
    FETCH_DEFAULTS,
    SENTENCES,
    fetch_as_followers,
    fetch_as_replica,
    fetch_partitions,
    produce,
)
from udfs.simulation.cluster_events import Event, InitialState
from udfs.simulation.group_events import GroupEvent
from udfs.wording import quote_value


@dataclass(frozen=True)
class Scenario:
    """A scenario."""

    initial_state: InitialState | None  # The cluster; None if the scenario is given with a source
    events: tuple[Event, ...]  # Events, by time, then as written
    settings: Mapping[str, Any]  # Fields of ClusterSettings that it sets
    group_events: tuple[GroupEvent, ...] = ()  # Events of consumer groups, likewise


@dataclass(frozen=True)
class _Sentence:
    """A parsed sentence, or one that another implies."""

    times: range
    make: EventMaker
    match: re.Match[str]
    line: int | None  # None = implied
    remedy: str = REPEAT_LESS  # if it makes too many events


def is_scenario(path: str) -> bool:
    """Return whether a source on the command line is a scenario."""
    return path.endswith((".yaml", ".yml"))


def read_scenario(path: str, source_state: InitialState | None, until_ms: int | None = None) -> Scenario:
    """Read a scenario; raise SourceError with the line if it is wrong."""
    # source_state: of the source that it is given with; until_ms: until when time goes on, None = the last event.
    file = read_scenario_file(path)
    settings, fetch_every_ms = file.read_settings()
    if source_state is not None:
        file.reject_cluster()
    initial_state = source_state or file.read_cluster(settings)
    sentences = [_parse(file, *written) for written in file.read_sentences(f"Write sentences: {EXAMPLES}.")]
    sentences.extend(_imply_fetches(file, sentences, fetch_every_ms, until_ms))
    cluster_settings = replace(initial_state.settings, **settings)
    if cluster_settings.elr and not cluster_settings.kraft:
        problem = "settings: elr is true, but kraft is not: ZooKeeper has no ELR"
        file.fail(problem, "Add kraft: true, or remove elr.", file.get_line("settings"))
    all_events = list(_make_events(ScenarioCluster(file, initial_state, cluster_settings), sentences))
    events = tuple(event for event in all_events if isinstance(event, Event))
    group_events = tuple(event for event in all_events if isinstance(event, GroupEvent))
    return Scenario(initial_state if source_state is None else None, events, settings, group_events)


def _parse(file: ScenarioFile, sentence: str, line: int) -> _Sentence:
    try:
        times, text = parse_times(sentence)
        if (maker_match := _find_maker(text)) is None:
            check_sizes(text, _find_maker)
            remedy = f"Write, for example, {EXAMPLES}; all forms: docs/replay.md."
            raise SyntaxFault(f"{quote_value(text)} matches no sentence", remedy)
    except SyntaxFault as fault:
        problem, remedy = fault.args
        file.fail(problem, remedy, line)
    return _Sentence(times, *maker_match, line)


def _find_maker(text: str) -> tuple[EventMaker, re.Match[str]] | None:
    return next(((make, match) for pattern, make in SENTENCES if (match := pattern.fullmatch(text))), None)


def _imply_fetches(
    file: ScenarioFile, sentences: Sequence[_Sentence], every_ms: int, until_ms: int | None
) -> Iterator[_Sentence]:
    """Let followers fetch what is produced, if the scenario does not say who fetches when."""
    # A fetch is answered before the next one, and its answer has the high watermark.
    writes = [one for one in sentences if one.make is produce]
    has_fetches = any(one.make in (fetch_as_replica, fetch_as_followers) for one in sentences)
    if not writes or has_fetches or not every_ms:
        return
    keys = list(dict.fromkeys(key for one in writes for key in parse_partitions(one.match[2])))
    first = min(one.times[0] for one in writes)
    last = until_ms if until_ms is not None else max(one.times[-1] for one in sentences)
    remedy = f"Under settings, set {FETCH_EVERY} higher, or to 0 and write who fetches."
    times = range(first, last + 1, every_ms)
    if len(times) > MAX_EVENTS:
        file.fail(TOO_MANY_EVENTS, remedy)
    fields = FETCH_DEFAULTS | {"wait_ms": min(every_ms, FETCH_DEFAULTS["wait_ms"])}
    yield _Sentence(times, lambda cluster, _: fetch_partitions(cluster, keys, fields), writes[0].match, None, remedy)


def _make_events(cluster: ScenarioCluster, sentences: Sequence[_Sentence]) -> Iterator[Event | GroupEvent]:
    """Make the events of all sentences, by time; at the same time, in the order of the sentences."""
    moments = sorted((at, number) for number, one in enumerate(sentences) for at in one.times)
    counts: Counter[int] = Counter()
    for place, (at, number) in enumerate(moments):
        sentence = sentences[number]
        cluster.time = SentenceTime(at, place, sentence.line)
        for event in sentence.make(cluster, sentence.match):
            counts[number] += 1
            if counts[number] > MAX_EVENTS:
                cluster.fail(TOO_MANY_EVENTS, sentence.remedy)
            yield event
