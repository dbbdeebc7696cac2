"""A scenario's file as events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pipelines.simulation.scenario import broker_sentences, data_sentences, topic_sentences
from pipelines.simulation.scenario import group_sentences as groups
from pipelines.simulation.scenario.scenario_cluster import Made, Maker, Said, Told
from pipelines.simulation.scenario.scenario_header import FETCH_EVERY, Settings, begin_of, reject_cluster, settings_of
from pipelines.simulation.scenario.sentence_patterns import keys_of, too_large
from pipelines.simulation.scenario.sentence_times import EXAMPLES, LESS, MOST, read_times, too_many
from pipelines.simulation.scenario.yaml_document import Page, read_page
from udfs.simulation.cluster_events import Begin, Event
from udfs.simulation.groups.group_simulation import GroupEvent

SUFFIXES = (".yaml", ".yml")
_KEYS = ("brokers", "controller", "topics", "settings", "events")
_SENTENCES: tuple[tuple[re.Pattern[str], Maker], ...] = tuple(
    (re.compile(pattern), maker)
    for theme in (broker_sentences, topic_sentences, data_sentences, groups)
    for pattern, maker in theme.SENTENCES
)


@dataclass(frozen=True)
class Scenario:
    """begin: None where the scenario is to be told of a source.   events, groups: by time, then as written.

    settings: fields of Rules that it sets.
    """

    begin: Begin | None
    events: tuple[Event, ...]
    settings: Mapping[str, Any]
    groups: tuple[GroupEvent, ...] = ()


@dataclass(frozen=True)
class _Phrase:
    """A sentence that is understood: when, and what it makes then. line: None = nobody has written it."""

    times: range
    tell: Callable[[Told, Said], Made]
    line: int | None
    remedy: str = LESS  # if it makes too many events
    maker: Maker | None = None
    words: re.Match[str] | None = None


def is_scenario(path: str) -> bool:
    """Whether a source on the command line is a scenario."""
    return path.endswith(SUFFIXES)


def read_scenario(path: str, beside: Begin | None, until_ms: int | None = None) -> Scenario:
    """The scenario in this file. SourceError with its line.

    beside: how the source stands that it is told of.   until_ms: time goes on until then; None = until the last event.
    """
    page = read_page(path, _KEYS)
    settings = settings_of(page)
    if beside is not None:
        reject_cluster(page)
    begin = begin_of(page, settings.rules) if beside is None else beside
    written = page.sentences("events", f"Write sentences: {EXAMPLES}.")
    phrases = [_phrase(page, sentence, line) for sentence, line in written]
    phrases.extend(_fetches(page, phrases, settings, until_ms))
    rules = replace(begin.rules, **settings.rules)
    if rules.elr and not rules.kraft:
        remedy = "Write kraft: true too, or leave elr out."
        page.fail("settings: elr is true, and kraft is not: ZooKeeper has no ELR", remedy, page.line("settings"))
    events: list[Event] = []
    of_groups: list[GroupEvent] = []
    for one in _made(Told(page, begin, rules), phrases):
        if isinstance(one, Event):
            events.append(one)
        else:
            of_groups.append(one)
    return Scenario(begin if beside is None else None, tuple(events), settings.rules, tuple(of_groups))


def _phrase(page: Page, sentence: str, line: int) -> _Phrase:
    times, what = read_times(page, sentence, line)
    maker, words = _understood(what) or (None, None)
    if maker is None or words is None:
        if large := too_large(what, _understood):
            page.fail(f"{large[0]} is too large a number", f"Write at most {large[1]:,}.", line)
        page.fail(f"{what!r} is not understood", f"Write, for example, {EXAMPLES}; all forms: docs/replay.md.", line)
    return _Phrase(times, partial(_told_by, maker, words), line, maker=maker, words=words)


def _understood(what: str) -> tuple[Maker, re.Match[str]] | None:
    """The sentence's form, and its words."""
    found = ((maker, words) for pattern, maker in _SENTENCES if (words := pattern.fullmatch(what)))
    return next(found, None)


def _told_by(maker: Maker, words: re.Match[str], told: Told, said: Said) -> Made:
    return maker(told, said, words)


def _fetches(page: Page, phrases: Sequence[_Phrase], settings: Settings, until_ms: int | None) -> Iterator[_Phrase]:
    """Followers fetch what is produced every so often, where the scenario does not say who fetches when."""
    writes = [phrase for phrase in phrases if phrase.maker is data_sentences.produced]
    told = any(
        phrase.maker in (data_sentences.fetched_by_replica, data_sentences.fetched_by_followers) for phrase in phrases
    )
    if not writes or told or not settings.fetch_every_ms:
        return
    keys = dict.fromkeys(key for phrase in writes if phrase.words for key in keys_of(phrase.words[2]))
    first = min(phrase.times[0] for phrase in writes)
    last = until_ms if until_ms is not None else max(phrase.times[-1] for phrase in phrases)
    remedy = f"Under settings, set {FETCH_EVERY} higher, or to 0 and write who fetches."
    times = range(first, last + 1, settings.fetch_every_ms)
    if len(times) > MOST:
        too_many(page, None, remedy)
    yield _Phrase(times, partial(_fetched, list(keys), settings.fetch_every_ms), None, remedy)


def _fetched(keys: Sequence[tuple[str, int]], every_ms: int, told: Told, said: Said) -> Iterator[Event]:
    """A follower has one fetch open at a time: it is answered before the next, and tells of the high watermark."""
    return data_sentences.fetches_of(told, said, keys, {"wait": min(every_ms, data_sentences.FETCH_MS)})


def _made(told: Told, phrases: Sequence[_Phrase]) -> Iterator[Event | GroupEvent]:
    """What all of them make, by time; of the same time as written."""
    moments = sorted((at, number) for number, phrase in enumerate(phrases) for at in phrase.times)
    made: Counter[int] = Counter()
    for place, (at, number) in enumerate(moments):
        phrase = phrases[number]
        for one in phrase.tell(told, Said(at, place, phrase.line)):
            made[number] += 1
            if made[number] > MOST:
                too_many(told.page, phrase.line, phrase.remedy)
            yield one
