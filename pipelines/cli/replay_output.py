"""`replay`: what happens to a cluster over time, from a log, from snapshots, or from what a person writes."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.errors import SettingsError, SourceError
from pipelines.ingest.snapshot import facts_of, framed, snapshot_of
from pipelines.ingest.sources import SnapshotKey, find_source, snapshot_id_of
from pipelines.simulation.metadata_log import events_of
from pipelines.simulation.scenario.data_sentences import SKIPPED_IF_REJECTED
from pipelines.simulation.scenario.scenario_reader import is_scenario, read_scenario
from pipelines.simulation.scenario.sentence_patterns import milliseconds
from pipelines.simulation.snapshot_changes import between
from pipelines.simulation.snapshot_order import check_order
from pipelines.simulation.source_state import log_ends, missing, quarantined, shown
from udfs.simulation.cluster_actions import folded_whole
from udfs.simulation.cluster_events import Begin, Event, Rules, event_log
from udfs.simulation.controller.controller_steps import controller_steps
from udfs.simulation.event_names import CAUSES, KINDS
from udfs.simulation.groups import group_simulation as groups
from udfs.simulation.groups.group_simulation import GroupEvent, GroupsReplayed, replay_groups
from udfs.simulation.kernels import codes as k
from udfs.simulation.plain_results import health, leaderships, requests, state_of, transitions
from udfs.simulation.simulator import Folded

_REBALANCED = CAUSES[k.REBALANCED]
_NAMED = 8
_WRITTEN = (k.SET_ISR, k.ELECT_PREFERRED)  # what is asked for, and written unless it is so already, or cannot be
# What snapshots show, where no log has fences and records: znodes that go, that come, and that say something else.
_IN_ZOOKEEPER = {k.FENCED: "broker gone", k.UNFENCED: "broker registered", k.RECORD: "state"}


@dataclass(frozen=True)
class Until:
    """offset: the last that counts; or at_ms: of the events' own clock, since_begin: which begins with them."""

    offset: int | None = None
    at_ms: int | None = None
    since_begin: bool = False

    def counts(self, event: Event) -> bool:
        """Whether the event still happens."""
        return event.offset <= self.offset if self.offset is not None else event.at_ms <= (self.at_ms or 0)


@dataclass(frozen=True)
class Asked:
    """What the command is asked. sources: logs, snapshots, a scenario. fail: ids that fail, one after another.

    until: the last offset of a log (or number of a snapshot, a sentence) that counts, or the last time: then time
    goes on until there.
    min_isr, unclean: of topics whose source shows none.
    """

    sources: Sequence[str]
    fail: Sequence[int] = ()
    until: Until | None = None
    min_isr: int = 1
    unclean: bool = False
    format_name: str | None = None


@dataclass(frozen=True)
class Timeline:
    """events: those that were folded; log: their rows. wall: whether at_ms is a clock's time, not since the begin.

    warnings: what of the sources is not in it.
    """

    begin: Begin
    events: tuple[Event, ...]
    log: pa.Table
    replayed: Folded
    groups: GroupsReplayed
    wall: bool
    warnings: tuple[str, ...] = ()


def until_of(text: str | None) -> Until | None:
    """`--until`: an offset, or a time. Errors: SettingsError."""
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return Until(offset=int(text))
    if text.startswith("t=") and (since := milliseconds(text[2:])) is not None:
        return Until(at_ms=since, since_begin=True)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        remedy = "Write an offset, as in 1500, a log's time, as in 2026-11-22T10:00:00Z, or a scenario's, as in t=90s"
        raise SettingsError(f"--until {text}: is neither an offset nor a time. {remedy}") from None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return Until(at_ms=round(when.timestamp() * 1000))


def timeline(asked: Asked) -> Timeline:
    """The replay of what is asked. Errors: SourceError."""
    scenarios = [path for path in asked.sources if is_scenario(path)]
    others = [path for path in asked.sources if not is_scenario(path)]
    if len(scenarios) > 1:
        raise SourceError(scenarios[1], "is a second scenario", "Give one, with or without a source beside it.")
    observed = _observed(asked, others, bool(scenarios or asked.fail))
    begin, events, until = observed.begin, list(observed.events), observed.until
    of_groups: Sequence[GroupEvent] = ()
    if scenarios:
        told = read_scenario(scenarios[0], observed.stands, until.at_ms if until and until.since_begin else None)
        begin = told.begin if told.begin is not None else _ruled(begin or Begin(), told.settings)
        events, of_groups = [*events, *told.events], told.groups
    assert begin is not None
    twice = [broker for broker, count in Counter(asked.fail).items() if count > 1]
    if twice:
        raise SettingsError(f"--fail names broker {twice[0]} twice. Name distinct brokers")
    known = {*begin.brokers, *(event.broker for event in events)}
    for number, broker in enumerate(asked.fail):
        if broker not in known:
            ids = ", ".join(map(str, begin.brokers))
            raise SourceError(asked.sources[0], f"has no broker {broker}", f"Its brokers: {ids}.")
        events.append(Event(events[-1].at_ms if events else 0, k.BROKER_DOWN, broker, offset=number))
    end_at = until.at_ms if until else None
    if until:
        events = [event for event in events if until.counts(event)]
        of_groups = [event for event in of_groups if end_at is None or event.at_ms <= end_at]
    log = event_log(begin, events, end_at, *_key(asked))
    groups_replayed = replay_groups(of_groups, end_at=end_at)
    folds = folded_whole(log)
    return Timeline(begin, tuple(events), log, folds, groups_replayed, observed.wall, observed.warnings)


def _key(asked: Asked) -> tuple[str, str]:
    """(cluster_id, snapshot_id): the first source's name, and what stands for all that was asked."""
    sources = [find_source(path) for path in asked.sources]
    digest = hashlib.sha256(repr((asked.fail, asked.until, asked.min_isr, asked.unclean)).encode())
    for source in sources:
        digest.update(snapshot_id_of(source, asked.format_name).encode())
    return sources[0].cluster_id, digest.hexdigest()[:16]


def write_rows(log: pa.Table, file: Path) -> None:
    """Nothing; rows of EVENTS are in this file (- is printed), a JSON object a line."""
    with nullcontext(sys.stdout) if str(file) == "-" else file.open("w", encoding="utf-8") as out:
        for row in log.to_pylist():
            out.write(json.dumps({name: value for name, value in row.items() if value is not None}) + "\n")


def snapshot_of_log(of: Timeline) -> SnapshotKey:
    """The key that the replay's rows have in every table."""
    return SnapshotKey(of.log["cluster_id"][0].as_py(), of.log["snapshot_id"][0].as_py())


def _ruled(begin: Begin, settings: Any) -> Begin:
    return replace(begin, rules=replace(begin.rules, **settings))


@dataclass(frozen=True)
class _Observed:
    """What sources tell. begin: None = there are none. until: what is left of it for the events that follow.

    stands: how it stands after the events.
    """

    begin: Begin | None
    events: Sequence[Event] = ()
    wall: bool = False
    until: Until | None = None
    warnings: tuple[str, ...] = ()
    stands: Begin | None = None


def _observed(asked: Asked, paths: Sequence[str], more: bool) -> _Observed:
    """What logs and snapshots tell. more: whether something follows them."""
    if not paths:
        if asked.until and asked.until.offset is None and not asked.until.since_begin:
            problem = "is a scenario: its times are since its begin"
            raise SourceError(asked.sources[0], problem, "Write --until with a time as in t=90s.")
        return _Observed(None, until=asked.until)
    first, *others = [find_source(path) for path in paths]
    files = framed(first, asked.format_name)
    until = asked.until
    ends = log_ends(files)
    if not others and not more:
        if until and until.since_begin:
            problem = "is not a scenario: it has times of its own"
            raise SourceError(paths[0], problem, "Write --until with an offset, or a time as in 2026-11-22T10:00:00Z.")
        if ends and len(ends) == len(files):
            epoch, events = events_of([records for _, _, records in files], asked.min_isr)
            begin = Begin(rules=Rules(kraft=True, auto_leader_rebalance=False), controller_epoch=epoch)
            warnings = (*missing(first, ends), *quarantined(first, snapshot_of(first, files, facts_of(files))))
            return _Observed(begin, events, True, until, warnings)
        if not ends:
            problem = "is one snapshot, in which nothing happens yet"
            raise SourceError(paths[0], problem, "Add --fail IDS, a scenario, or a later snapshot.")
    if ends and until and not until.since_begin:  # it says until when the log counts, not what follows it
        ends = log_ends(files, until.offset, until.at_ms)
        files = [(name, chosen, ends[name].records if name in ends else records) for name, chosen, records in files]
        until = None
    snapshots = []
    for path, source in zip(paths, (first, *others), strict=True):
        if source is not first:
            files = framed(source, asked.format_name)
            ends = log_ends(files)
        snapshots.append(shown(path, source, files, ends, asked.min_isr, asked.unclean))
    odd = check_order(snapshots)
    begins = [one.begin for one in snapshots]
    warnings = (*odd, *(warning for one in snapshots for warning in one.warnings))
    brokers = tuple(sorted({broker for begin in begins for broker in begin.brokers}))
    begin, stands = (replace(one, brokers=brokers) for one in (begins[0], begins[-1]))
    return _Observed(begin, between(begins), False, until, warnings, stands)


def answer(of: Timeline) -> dict[str, Any]:
    """The object that `replay --json` writes: the state at the end, and how it came about."""
    return {
        **state_of(of.replayed),
        "leadership_events": list(leaderships(of.replayed)),
        "state_transitions": list(transitions(of.replayed)),
        "controller_steps": controller_steps(of.replayed),
        "replication_health": health(of.replayed),
        "requests": requests(of.replayed),
        "group_requests": groups.answers(of.groups),
        "group_transitions": groups.transitions(of.groups),
    }


def lines(of: Timeline) -> Iterator[str]:
    """The timeline as a person reads it."""
    by_event: dict[int, list[dict[str, Any]]] = {}
    by_time: dict[int, list[dict[str, Any]]] = {}  # what no event did
    for row in leaderships(of.replayed):
        asked = 0 <= row["event"] < len(of.events) and row["at_ms"] == of.events[row["event"]].at_ms
        if asked and row["cause"] != _REBALANCED:
            by_event.setdefault(row["event"], []).append(row)
        else:
            by_time.setdefault(row["at_ms"], []).append(row)
    illegal = Counter(row["event"] for row in transitions(of.replayed) if not row["legal"])
    told = ((number, event) for number, event in enumerate(of.events) if not _is_routine(event) or number in by_event)
    words = {} if of.begin.rules.kraft else _IN_ZOOKEEPER
    due = deque(sorted(by_time))

    def by_itself(until: float) -> Iterator[str]:
        while due and due[0] <= until:
            passed = due.popleft()
            yield f"{_time(passed, of.wall)}  by itself{_followed(by_time[passed])}"

    for (at, what), group in groupby(told, key=lambda pair: (pair[1].at_ms, _what(pair[1], words))):
        yield from by_itself(at)
        places = [number for number, _ in group]
        rows = [row for number in places for row in by_event.get(number, ())]
        vain = not rows and all(of.events[number].kind in _WRITTEN for number in places)
        yield f"{_time(at, of.wall)}  {what}{_times(len(places))}{': nothing to write' if vain else _followed(rows)}"
        broken = sum(illegal[number] for number in places)
        if broken:
            yield f"      {broken} illegal transitions, see state_transitions of --json"
    yield from by_itself(math.inf)
    state = state_of(of.replayed)
    yield from _answered(requests(of.replayed))
    yield from _joined(of)
    leaderless = [row for row in state["partitions"] if row["leader"] is None]
    under = sum(len(row["isr"]) < len(row["replicas"]) for row in state["partitions"])
    live = sum(broker["live"] for broker in state["brokers"])
    yield ""
    yield (
        f"at the end: {live} of {len(state['brokers'])} brokers live, controller epoch {state['controller_epoch']}; "
        f"{len(state['partitions'])} partitions, {under} under-replicated, {len(leaderless)} without leader"
    )
    if leaderless:
        names = ", ".join(f"{row['topic']}-{row['partition']}" for row in leaderless[:_NAMED])
        yield f"without leader: {names}{' ...' if len(leaderless) > _NAMED else ''}"


def _answered(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Produces, by acks and by how they ended; what was lost of them."""
    for acks in sorted({row["acks"] for row in rows if row["acks"] is not None}):
        mine = [row for row in rows if row["acks"] == acks]
        ends = Counter(f"{row['part_error']} ({row['answered_by']})" for row in mine)
        text = ", ".join(f"{count} {end}" for end, count in ends.most_common())
        lost = sum(row["lost_messages"] for row in mine)
        told = sum(
            row["lost_messages"]
            for row in mine
            if acks != 0 and row["part_error"] == "NONE" and row["answered_at_ms"] is not None
        )
        written = sum(row["messages"] for row in mine)
        name = "all" if acks == -1 else acks
        yield f"acks={name}: {written} messages written, {lost} lost, {told} of these acknowledged; {text}"


def _joined(of: Timeline) -> Iterator[str]:
    for row in groups.transitions(of.groups):
        leads = f", led by {row['leader']}" if row["leader"] else ""
        change = f"{row['from_state']} -> {row['to_state']}, generation {row['generation']}{leads}"
        yield f"{_time(row['at_ms'], of.wall)}  group {row['group']}: {change} ({row['cause']})"


def _is_routine(event: Event) -> bool:
    """Whether it is one of the fetches that followers make all the time."""
    return event.kind == k.FETCH and event.value == SKIPPED_IF_REJECTED


def _what(event: Event, words: Mapping[int, str]) -> str:
    """words: of kinds that have another name here."""
    who = "" if event.broker is None else f" {event.broker}"
    topic = "" if event.partition is None else f" of {event.partition[0]}"
    return words.get(event.kind, KINDS[event.kind]) + (who if event.kind != k.RECORD else "") + topic


def _times(count: int) -> str:
    return f" (x {count})" if count > 1 else ""


def _followed(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    led = {(row["topic"], row["partition"]) for row in rows if row["leader"] is not None}
    # Who has a leader after all was only for a moment without: a new controller writes that first.
    causes = Counter(
        row["cause"] for row in rows if row["leader"] is not None or (row["topic"], row["partition"]) not in led
    )
    moved = Counter(
        row["leader"] for row in rows if row["leader"] != row["leader_before"] and row["leader"] is not None
    )
    text = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    takers = ", ".join(f"{broker}: {count}" for broker, count in moved.most_common(_NAMED))
    return f": {text}" + (f"; leaders to {takers}" if moved else "")


def _time(at_ms: int, wall: bool) -> str:
    if wall:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    return f"t={at_ms / 1000:g}s"
